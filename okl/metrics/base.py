"""Metrics by name: single numbers of mergeable counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from okl.foundation.registry import METRICS, load
from okl.foundation.types import Task

if TYPE_CHECKING:
    from okl.metrics.counts import Tally


@dataclass(frozen=True)
class Metric:
    """A number of the rows that a tally counts.

    title : in reports; tasks : that it is defined for
    value : of a tally of one of these tasks; None where its rows do not define the number
    main : whether it is among the first numbers of a report
    """

    title: str
    tasks: tuple[Task, ...]
    value: Callable[[Tally], float | None]
    main: bool = False


CLASSES: tuple[Task, ...] = ("binary", "multiclass")


def metric(title: str, *tasks: Task, main: bool = False) -> Callable[[Callable[[Tally], float | None]], Metric]:
    """Return a decorator that makes a function of a tally a metric; see `Metric`."""
    return lambda value: Metric(title, tasks, value, main)


@cache
def metrics() -> dict[str, Metric]:
    """Return the metrics of `okl.foundation.registry` by name."""
    return {name: load(path) for name, path in METRICS.items()}
