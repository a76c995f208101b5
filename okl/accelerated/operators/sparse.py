"""Sparse rows in memory, compressed by rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.accelerated.operators.protocol import signs_of
from okl.compiled.blocks import as_compiled
from okl.compiled.rowpasses import add_sparse_rows, multiply_sparse_rows
from okl.compiled.steps import inner, squared_distance
from okl.errors import DataError
from okl.types import FloatArray


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A = [s_1 z_1, ..., s_m z_m] of a scipy.sparse matrix; sums are float64 whatever the matrix is.

    Parameters
    ----------
    rows : (m, n_columns), any scipy.sparse matrix or array; converted to CSR without duplicates
    labels : (m,), -1 or +1

    Raises
    ------
    DataError : shapes that do not fit, values that are not finite, labels that are not both -1 and +1
    """

    rows: Any
    labels: FloatArray

    def __post_init__(self) -> None:
        if not sparse.issparse(self.rows) or self.rows.shape[0] != len(self.labels) or self.rows.shape[1] == 0:
            raise DataError(
                f"{type(self.rows).__name__} {np.shape(self.rows)} and {len(self.labels)} labels do not fit together: "
                "give a scipy.sparse matrix (rows, columns) and one label a row."
            )
        matrix = sparse.csr_array(self.rows, copy=True)
        matrix.sum_duplicates()
        kept = matrix.dtype if matrix.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        matrix.data = as_compiled(matrix.data, kept)
        if not np.isfinite(matrix.data).all():
            raise DataError("The rows hold NaN, or values that are infinite: drop or fill them first.")
        object.__setattr__(self, "rows", matrix)
        object.__setattr__(self, "labels", signs_of(self.labels))

    @property
    def signs(self) -> FloatArray:
        """The labels, (m,)."""
        return self.labels

    @property
    def n_points(self) -> int:
        """Rows."""
        return int(self.rows.shape[0])

    @property
    def n_image(self) -> int:
        """Columns."""
        return int(self.rows.shape[1])

    def image(self, out: FloatArray, point: FloatArray) -> None:
        """Overwrite out (n_columns,) by A a."""
        out[:] = 0.0
        add_sparse_rows(out, self.rows.data, self.rows.indices, self.rows.indptr, self.signs, point)

    def pull(self, out: FloatArray, image: FloatArray) -> None:
        """Overwrite out (m,) by A'v."""
        multiply_sparse_rows(out, self.rows.data, self.rows.indices, self.rows.indptr, self.signs, image)

    def squared_norm(self, point: FloatArray, image: FloatArray) -> float:
        """||v||^2."""
        return float(inner(image, image))

    def squared_gap(self, point: FloatArray, image: FloatArray, other: FloatArray, other_image: FloatArray) -> float:
        """||v - v'||^2."""
        return float(squared_distance(image, other_image))

    def squared_lengths(self) -> NDArray[np.float64]:
        """||z_i||^2, (m,)."""
        squares = sparse.csr_array((self.rows.data.astype(np.float64) ** 2, self.rows.indices, self.rows.indptr))
        return np.asarray(squares.sum(axis=1), dtype=np.float64)

    def weights(self, point: FloatArray, image: FloatArray, scale: float) -> FloatArray:
        """w = scale v, (n_columns,)."""
        return scale * image
