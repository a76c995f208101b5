"""Explicit rows in memory: inputs as they are, or through a feature map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from okl.compiled.blocks import as_compiled, run_threads
from okl.compiled.cutpasses import (
    add_sloped_rows,
    add_sloped_rows_of_classes,
    score_rows,
    score_rows_of_classes,
)
from okl.errors import DataError
from okl.subgradient.vectors import Vector
from okl.types import FloatArray

_SEGMENTS, _LEAST_SEGMENT, _MOST_SEGMENT = 16, 256, 4096  # enough for threads to share evenly


@dataclass(frozen=True, eq=False)
class ExplicitRows:
    """Rows z_i of a matrix in memory; sums are float64 whatever the matrix is.

    Parameters
    ----------
    rows : (n_rows, n_columns), C-contiguous float32 or float64 (anything else is copied), finite
    n_outputs : int >= 1
    n_threads : int >= 1; the same bits for any

    Raises
    ------
    DataError : not a matrix with rows and columns, or values that are not finite
    """

    rows: FloatArray
    n_outputs: int = 1
    n_threads: int = 1

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or 0 in self.rows.shape:
            raise DataError(f"Rows of shape {self.rows.shape}, but a matrix (rows, columns) with both is needed.")
        kept = self.rows.dtype if self.rows.dtype in (np.float32, np.float64) else np.float64
        object.__setattr__(self, "rows", as_compiled(self.rows, kept))

    @property
    def n_rows(self) -> int:
        """Rows."""
        return int(self.rows.shape[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """Of coefficients."""
        n_columns = int(self.rows.shape[1])
        return (n_columns,) if self.n_outputs == 1 else (self.n_outputs, n_columns)

    def zero(self) -> Vector:
        """The point 0."""
        return self.vector(np.zeros(self.shape))

    def vector(self, coefficients: FloatArray) -> Vector:
        """The vector of these coefficients, (n_columns,) or (n_outputs, n_columns) float64."""
        return Vector(coefficients, coefficients)

    def gather(self, slopes: FloatArray) -> Vector:
        """mean_i slope_i (x) z_i, summed segment by segment in their order."""
        add = add_sloped_rows if self.n_outputs == 1 else add_sloped_rows_of_classes
        parts = np.zeros((-(-self.n_rows // self._segment), *self.shape))
        # from the end, where `scores` has just been: what it read last is still in cache
        self._by_segments(lambda index, cut: add(parts[index], self.rows[cut], slopes[cut]), backwards=True)
        total = np.zeros(self.shape)
        for part in parts:
            total += part
        return self.vector(total / self.n_rows)

    def scores(self, vector: Vector) -> FloatArray:
        """<v, z_i> of all rows, (n_rows,) or (n_rows, n_outputs)."""
        score = score_rows if self.n_outputs == 1 else score_rows_of_classes
        out = np.empty(self.n_rows if self.n_outputs == 1 else (self.n_rows, self.n_outputs))
        self._by_segments(lambda _, cut: score(out[cut], self.rows[cut], vector.coefficients))
        return out

    def first(self, n_rows: int) -> ExplicitRows:
        """The first rows alone, not copied."""
        return ExplicitRows(self.rows[:n_rows], self.n_outputs, self.n_threads)

    @property
    def _segment(self) -> int:
        # by the number of rows only, so that bits do not depend on the number of threads
        return min(max(-(-self.n_rows // _SEGMENTS), _LEAST_SEGMENT), _MOST_SEGMENT)

    def _by_segments(self, work: Callable[[int, slice], None], backwards: bool = False) -> None:
        n_segments, rows = -(-self.n_rows // self._segment), self._segment
        order = range(n_segments)
        waiting = iter(reversed(order) if backwards else order)  # whoever is free takes the next

        def run(_: int) -> None:
            for index in waiting:
                work(index, slice(index * rows, (index + 1) * rows))

        run_threads(min(self.n_threads, n_segments), run)
