"""Explicit rows in memory: inputs as they are, or through a feature map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from okl.compiled.blocks import as_compiled
from okl.errors import DataError
from okl.subgradient.segments import scores_of_rows, sum_sloped_rows
from okl.subgradient.vectors import Vector
from okl.types import FloatArray


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
    DataError : not a matrix with rows and columns
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
        """mean_i slope_i (x) z_i, summed segment by segment in their order; rows of slope 0 are not read."""
        total = sum_sloped_rows(self.rows, slopes, self.shape[-1], self.n_threads)
        return self.vector(total / self.n_rows)

    def scores(self, vector: Vector, first: int = 0) -> FloatArray:
        """<v, z_i> of all rows from the first one on, (rows,) or (rows, n_outputs)."""
        return scores_of_rows(self.rows[first:], vector.coefficients, self.n_threads)

    def lifted(self, vector: Vector) -> Vector:
        """A vector of fewer rows among these: the same."""
        return vector

    def first(self, n_rows: int) -> ExplicitRows:
        """The first rows alone, not copied."""
        return ExplicitRows(self.rows[:n_rows], self.n_outputs, self.n_threads)
