"""Several classes by one against the rest: the same rows under other labels, classes side by side in threads."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.operators import signs_of
from okl.checks import check_at_least
from okl.compiled.blocks import run_threads
from okl.errors import DataError
from okl.types import FloatArray

Rows = TypeVar("Rows")
Result = TypeVar("Result")


def signs_by_class(labels: NDArray[Any]) -> tuple[NDArray[Any], list[NDArray[np.float64]]]:
    """Sorted classes, and signs (m,) for each against the rest; one for two classes, + for the second."""
    classes = np.unique(labels)
    if len(classes) < 2:
        shown = ", ".join(map(str, classes))
        raise DataError(f"Labels hold {{{shown}}}, but a classifier takes at least two classes: add rows of another.")
    positives = classes[1:] if len(classes) == 2 else classes
    return classes, [np.where(labels == positive, 1.0, -1.0) for positive in positives]


def relabelled(rows: Rows, labels: FloatArray) -> Rows:
    """The same rows, an operator, under other labels (m,), -1 and +1; their arrays are shared, nothing is computed."""
    again: Any = copy.copy(rows)
    kept = {field.name for field in fields(again)}
    for name in set(vars(again)) - kept:  # scratch space, which another thread may be writing into
        del vars(again)[name]
    object.__setattr__(again, "labels", signs_of(labels))
    relabelled_rows: Rows = again
    return relabelled_rows


def in_threads(work: Callable[[int], Result], n_tasks: int, n_threads: int) -> list[Result]:
    """work(0) .. work(n_tasks - 1), up to n_threads at once; results in order."""
    n_threads = min(check_at_least("n_threads", n_threads, 1), n_tasks)
    parts = run_threads(n_threads, lambda thread: [work(task) for task in range(thread, n_tasks, n_threads)])
    return [parts[task % n_threads][task // n_threads] for task in range(n_tasks)]
