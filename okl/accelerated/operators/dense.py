"""Explicit rows in memory: inputs as they are, or through a feature map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.operators.protocol import signs_of
from okl.compiled.blocks import as_compiled, run_threads
from okl.compiled.segments import Claims, add_segments, multiply_segments, new_claims
from okl.compiled.steps import inner, squared_distance
from okl.errors import DataError
from okl.types import FloatArray

ClaimedWork = Callable[[Claims], None]

_SEGMENTS, _LEAST_SEGMENT, _MOST_SEGMENT = 16, 256, 4096  # enough for threads to share evenly


@dataclass(frozen=True, eq=False)
class DenseRows:
    """A = [s_1 z_1, ..., s_m z_m] of a matrix in memory; sums are float64 whatever the matrix is.

    Parameters
    ----------
    rows : (m, n_columns), C-contiguous float32 or float64 (anything else is copied), finite
    labels : (m,), -1 or +1
    n_threads : int >= 1; the same bits for any

    Raises
    ------
    DataError : shapes that do not fit, values that are not finite, labels that are not both -1 and +1
    """

    rows: FloatArray
    labels: FloatArray
    n_threads: int = 1

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.rows.shape[0] != len(self.labels) or self.rows.shape[1] == 0:
            raise DataError(
                f"Rows {self.rows.shape} and {len(self.labels)} labels do not fit together: "
                "give a matrix (rows, columns) and one label a row."
            )
        kept = self.rows.dtype if self.rows.dtype in (np.float32, np.float64) else np.float64
        object.__setattr__(self, "rows", as_compiled(self.rows, kept))
        object.__setattr__(self, "labels", signs_of(self.labels))
        # a sum is finite only if its terms are, and costs no array
        if not np.isfinite(self.rows.sum(dtype=np.float64)):
            raise DataError("The rows hold NaN, or values that are infinite: drop or fill them first.")

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
        """Overwrite out (n_columns,) by A a, summed segment by segment."""
        parts, size = self._parts, self.segment_rows
        self.in_threads(lambda claims: add_segments(parts, claims, self.rows, self.signs, point, size))
        self.add_parts(out, parts)

    def pull(self, out: FloatArray, image: FloatArray) -> None:
        """Overwrite out (m,) by A'v."""
        size = self.segment_rows
        self.in_threads(lambda claims: multiply_segments(out, claims, self.rows, self.signs, image, size))

    def in_threads(self, work: ClaimedWork) -> None:
        """Call work in every thread, each with the same fresh claims on segments."""
        claims = new_claims()
        run_threads(min(self.n_threads, self.n_segments), lambda _: work(claims))

    def add_parts(self, out: FloatArray, parts: FloatArray) -> None:
        """Overwrite out (n_columns,) by the sum of images of segments (n_segments, n_columns), in their order."""
        np.add.reduce(parts, axis=0, out=out)

    @cached_property
    def segment_rows(self) -> int:
        """Rows of a segment."""
        return rows_of_segment(self.n_points)

    @property
    def n_segments(self) -> int:
        """Segments that the rows are cut into."""
        return -(-self.n_points // self.segment_rows)

    def squared_norm(self, point: FloatArray, image: FloatArray) -> float:
        """||v||^2."""
        return float(inner(image, image))

    def squared_gap(self, point: FloatArray, image: FloatArray, other: FloatArray, other_image: FloatArray) -> float:
        """||v - v'||^2."""
        return float(squared_distance(image, other_image))

    def squared_lengths(self) -> NDArray[np.float64]:
        """||z_i||^2, (m,)."""
        lengths: NDArray[np.float64] = np.einsum("ij,ij->i", self.rows, self.rows, dtype=np.float64)
        return lengths

    def weights(self, point: FloatArray, image: FloatArray, scale: float) -> FloatArray:
        """w = scale v, (n_columns,)."""
        return scale * image

    @cached_property
    def _parts(self) -> NDArray[np.float64]:
        return np.empty((self.n_segments, self.n_image))


def rows_of_segment(n_points: int) -> int:
    """Rows summed in one go: by how many there are only, so that bits do not depend on the number of threads."""
    return min(max(-(-n_points // _SEGMENTS), _LEAST_SEGMENT), _MOST_SEGMENT)
