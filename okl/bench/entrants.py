"""What takes part: a method of a system, how it is made from a configuration, and which configurations are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from okl.bench.sets import BenchSet, Part
from okl.types import FloatArray

Configuration = Mapping[str, Any]
Grid = Mapping[str, Sequence[Any]]
CLASSES = ("binary", "multiclass")
EVERY_TASK = (*CLASSES, "regression")


class Machine(Protocol):
    """What learns prepared rows and predicts prepared rows; scikit-learn's face."""

    def fit(self, rows: Any, targets: NDArray[Any]) -> Any: ...

    def predict(self, rows: Any) -> NDArray[Any]: ...


Prepare = Callable[[BenchSet, FloatArray, NDArray[Any]], Any]
"""Rows as a system wants to have them in memory, from a set, inputs and targets: not timed, for any system."""


@dataclass(frozen=True)
class Entrant:
    """A method of a system.

    Parameters
    ----------
    system, name : as they are shown; package : whose version is recorded
    make : a machine that has learnt nothing, by a configuration and the rows to learn
    prepare : rows as the system wants to have them
    tasks : that it takes
    tuned : values that are tried on a sample of the training rows, of which the best `keep` combinations go on
    swept : values that are measured on all training rows, each with each; the first ones are taken while tuning
    keep : int >= 1
    most_rows : more training rows than these are not learnt, but a random sample of so many
    sets : that it is tried on; None: all of its tasks
    """

    system: str
    name: str
    package: str
    make: Callable[[Configuration, Part], Machine]
    prepare: Prepare
    tasks: tuple[str, ...] = EVERY_TASK
    tuned: Grid = field(default_factory=dict)
    swept: Grid = field(default_factory=dict)
    keep: int = 1
    most_rows: int | None = None
    sets: tuple[str, ...] | None = None

    def takes(self, found: BenchSet) -> bool:
        """Whether it is tried on a set."""
        return found.task in self.tasks and (self.sets is None or found.name in self.sets)

    def to_tune(self) -> list[Configuration]:
        """What is tried on the sample, beside the first of all swept values; empty if there is no choice."""
        tried = list(combinations(self.tuned))
        first = {name: values[0] for name, values in self.swept.items()}
        return [first | one for one in tried] if len(tried) > self.keep else []

    def to_sweep(self, best: Sequence[Configuration]) -> list[Configuration]:
        """What is measured in full, given the tuned configurations that were best, the best first."""
        kept: list[Configuration]
        kept = [{name: one[name] for name in self.tuned} for one in best[: self.keep]] or list(combinations(self.tuned))
        return [dict(swept) | dict(one) for swept in combinations(self.swept) for one in kept]


def combinations(grid: Grid) -> Iterator[dict[str, Any]]:
    """Each value of each parameter with each of the others; one empty configuration for an empty grid.

    >>> list(combinations({"C": (1, 10), "passes": (5,)}))
    [{'C': 1, 'passes': 5}, {'C': 10, 'passes': 5}]
    """
    for values in product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def single(found: BenchSet, inputs: FloatArray, targets: NDArray[Any]) -> FloatArray:
    """Dense rows, float32."""
    return inputs


def double(found: BenchSet, inputs: FloatArray, targets: NDArray[Any]) -> FloatArray:
    """Dense rows, float64, for systems that would make a copy of them."""
    return inputs.astype(np.float64)


def single_or_sparse(found: BenchSet, inputs: FloatArray, targets: NDArray[Any]) -> Any:
    """CSR rows of sets whose values are mostly zero, otherwise dense; float32."""
    return _sparse(inputs) if found.sparse else inputs


def double_or_sparse(found: BenchSet, inputs: FloatArray, targets: NDArray[Any]) -> Any:
    """CSR rows of sets whose values are mostly zero, otherwise dense; float64."""
    rows = inputs.astype(np.float64)
    return _sparse(rows) if found.sparse else rows


def always_sparse(found: BenchSet, inputs: FloatArray, targets: NDArray[Any]) -> Any:
    """CSR rows, float64: what LIBLINEAR and LIBSVM keep whatever they are given."""
    return _sparse(inputs.astype(np.float64))


def _sparse(rows: FloatArray) -> Any:
    from scipy import sparse

    return sparse.csr_matrix(rows)
