"""One face for all ways to hold the matrix A of a dual objective, be it explicit or known only by inner products.

A dual point a has an image, which is affine in a: A a where A is explicit (what shards then add up is short), and
A'A a where only the kernel matrix A'A is known. Either way three operations are enough for an accelerated method, and
the image of an extrapolated point costs no read of the data.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from okl.errors import DataError
from okl.types import FloatArray


class Operator(Protocol):
    """A linear, or affine, map of dual points; all arrays float64, one-dimensional, outputs overwritten.

    n_points : entries of a dual point; n_image : entries of its image
    """

    @property
    def n_points(self) -> int: ...

    @property
    def n_image(self) -> int: ...

    def image(self, out: FloatArray, point: FloatArray) -> None:
        """Image of a point: one read of the data."""
        ...

    def pull(self, out: FloatArray, image: FloatArray) -> None:
        """A'A a (for an affine map A'(A a + offset)) from the image of a: at most one read of the data."""
        ...

    def squared_norm(self, point: FloatArray, image: FloatArray) -> float:
        """||A a||^2 of a point, or of a difference of points, and its image; with an offset ||A a + offset||^2."""
        ...

    def squared_gap(self, point: FloatArray, image: FloatArray, other: FloatArray, other_image: FloatArray) -> float:
        """||A (a - b)||^2 of two points, summed from the differences."""
        ...


class RowOperator(Operator, Protocol):
    """The operator of margin models, A = [s_1 z_1, ..., s_m z_m] for rows z_i of classes s_i.

    signs : (m,) float64, -1 or +1; squared_lengths : ||z_i||^2, (m,)
    """

    @property
    def signs(self) -> FloatArray: ...

    def squared_lengths(self) -> NDArray[np.float64]: ...

    def weights(self, point: FloatArray, image: FloatArray, scale: float) -> FloatArray:
        """Scale A a: weights of columns where rows are explicit, coefficients s_i a_i of rows for a kernel."""
        ...


def signs_of(labels: FloatArray) -> NDArray[np.float64]:
    """Labels as float64 signs, or DataError unless they are -1 and +1 and both occur."""
    signs: NDArray[np.float64] = np.ascontiguousarray(labels, dtype=np.float64)
    found = np.unique(signs)
    if signs.ndim != 1 or not np.array_equal(found, [-1.0, 1.0]):
        shown = ", ".join(f"{value:g}" for value in found[:4])
        raise DataError(
            f"Labels hold {{{shown}}}, but this model takes both -1 and +1, one a row: encode two classes so, "
            "or learn one class against the rest."
        )
    return signs
