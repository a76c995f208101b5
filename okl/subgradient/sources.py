"""Rows in memory in the order they are drawn, as spaces of as many of them as a sample has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from okl.features.protocol import FeatureMap
from okl.features.scoring import transform_rows
from okl.kernels import Kernel
from okl.subgradient.explicit import ExplicitRows
from okl.subgradient.kernelspace import KernelRows, KernelValues
from okl.subgradient.vectors import Space, Vector
from okl.types import FloatArray, IntArray


class Apart(NamedTuple):
    """Rows beside a sample: a space of their own, a vector's scores on them, and it as a start there, if it is one."""

    space: Space
    scores: FloatArray
    start: Vector | None


class Source(Protocol):
    """Rows in the order of drawing; what a sample of them needs is computed when it is asked for."""

    @property
    def n_rows(self) -> int: ...

    def space(self, n_rows: int) -> Space:
        """The first rows as a space; of two spaces the larger one lifts the vectors of the smaller one."""

    def apart(self, vector: Vector, first: int, last: int) -> Apart:
        """Rows from first to last as a space of their own, with what a vector of the first rows is there."""


@dataclass(eq=False)
class ColumnSource:
    """Columns of the inputs, or of a map of them, computed row by row once.

    Parameters
    ----------
    inputs : (rows, n_inputs)
    order : (rows,), the rows in the order of drawing
    feature_map : None for the inputs as they are
    constant : whether a column of ones comes last, a regularised bias
    n_outputs, n_threads : int >= 1; the same bits for any number of threads
    """

    inputs: FloatArray
    order: IntArray
    feature_map: FeatureMap | None = None
    constant: bool = False
    n_outputs: int = 1
    n_threads: int = 1
    _known: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        width = self.inputs.shape[1] if self.feature_map is None else self.feature_map.n_columns
        precision = self.inputs.dtype if self.feature_map is None else np.dtype(self.feature_map.precision)
        precision = precision if precision in (np.float32, np.float64) else np.dtype(np.float64)
        # pages that nobody writes to take no memory
        self._rows = np.empty((len(self.order), width + self.constant), dtype=precision)

    @property
    def n_rows(self) -> int:
        """Rows that there are to draw."""
        return len(self.order)

    def space(self, n_rows: int) -> ExplicitRows:
        """The first rows."""
        self._know(n_rows)
        return ExplicitRows(self._rows[:n_rows], self.n_outputs, self.n_threads)

    def apart(self, vector: Vector, first: int, last: int) -> Apart:
        """Rows from first to last, and their scores."""
        self._know(last)
        space = ExplicitRows(self._rows[first:last], self.n_outputs, self.n_threads)
        return Apart(space, space.scores(vector), vector)

    def _know(self, n_rows: int) -> None:
        if n_rows <= self._known:
            return
        fresh = slice(self._known, n_rows)
        inputs = self.inputs[self.order[fresh]]
        columns = inputs if self.feature_map is None else transform_rows(self.feature_map, inputs, self.n_threads)
        self._rows[fresh, : columns.shape[1]] = columns
        if self.constant:
            self._rows[fresh, -1] = 1.0
        self._known = n_rows


@dataclass(eq=False)
class KernelSource:
    """Rows known by an exact kernel.

    Parameters
    ----------
    kernel : positive semidefinite
    inputs, order, n_outputs, n_threads : as in ColumnSource
    constant : whether 1 is added to the kernel, a regularised bias
    budget_bytes : what kernel values may take
    """

    kernel: Kernel
    inputs: FloatArray
    order: IntArray
    constant: bool = False
    n_outputs: int = 1
    n_threads: int = 1
    budget_bytes: int = 2**31

    def __post_init__(self) -> None:
        self._values = self._of(self.inputs[self.order])

    @property
    def n_rows(self) -> int:
        """Rows that there are to draw."""
        return len(self.order)

    def space(self, n_rows: int) -> KernelRows:
        """The first rows."""
        self._values.among(n_rows)
        return KernelRows(self._values, n_rows, self.n_outputs, self.n_threads)

    def apart(self, vector: Vector, first: int, last: int) -> Apart:
        """Rows from first to last in a space of their own, and their scores by the kernel across."""
        others = self._values.inputs[first:last]
        support = self._values.inputs[: len(vector.coefficients)]
        scores = (self.kernel.matrix(others, support) + float(self.constant)) @ vector.coefficients
        return Apart(KernelRows(self._of(others), last - first, self.n_outputs, self.n_threads), scores, None)

    def _of(self, inputs: FloatArray) -> KernelValues:
        return KernelValues(self.kernel, inputs, float(self.constant), self.budget_bytes)
