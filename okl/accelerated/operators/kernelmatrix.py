"""The exact kernel matrix of a set that is small enough for it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.operators.protocol import signs_of
from okl.compiled.blocks import as_compiled
from okl.compiled.rowpasses import multiply_rows
from okl.compiled.steps import distance_product, inner
from okl.errors import ConfigError, DataError
from okl.kernels import Kernel
from okl.types import FloatArray, Precision

_BLOCK = 512  # rows of kernel values computed at once, in float64


@dataclass(frozen=True, eq=False)
class KernelMatrix:
    """A'A = (s_i s_j k(x_i, x_j)) in memory; the image of a point is A'A a itself.

    Parameters
    ----------
    kernel : Kernel
    inputs : (m, n_inputs), finite
    labels : (m,), -1 or +1
    precision : of the matrix; sums are float64
    budget_bytes : int, what the matrix may take

    Raises
    ------
    ConfigError : the matrix would take more than its budget
    DataError : shapes that do not fit, kernel values that are not finite, labels that are not both -1 and +1
    """

    kernel: Kernel
    inputs: FloatArray
    labels: FloatArray
    precision: Precision = "float64"
    budget_bytes: int = 2**30
    matrix: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.inputs.ndim != 2 or len(self.inputs) != len(self.labels):
            raise DataError(
                f"Inputs {self.inputs.shape} and {len(self.labels)} labels do not fit together: "
                "give a matrix (rows, columns) and one label a row."
            )
        object.__setattr__(self, "labels", signs_of(self.labels))
        n_bytes = self.n_points**2 * np.dtype(self.precision).itemsize
        if n_bytes > self.budget_bytes:
            raise ConfigError(
                f"The kernel matrix of {self.n_points} rows takes {n_bytes / 2**20:.0f} MiB in {self.precision}, but "
                f"its budget is {self.budget_bytes / 2**20:.0f} MiB: raise the budget, take fewer rows, "
                "or approximate the kernel by a feature map."
            )
        object.__setattr__(self, "matrix", self._computed())

    @property
    def signs(self) -> FloatArray:
        """The labels, (m,)."""
        return self.labels

    @property
    def n_points(self) -> int:
        """Rows."""
        return len(self.inputs)

    @property
    def n_image(self) -> int:
        """Rows again: the image of a point is as long as the point."""
        return len(self.inputs)

    def image(self, out: FloatArray, point: FloatArray) -> None:
        """Overwrite out (m,) by A'A a."""
        multiply_rows(out, self.matrix, self.signs, self.signs * point)

    def pull(self, out: FloatArray, image: FloatArray) -> None:
        """Copy the image: it is what is asked for."""
        out[:] = image

    def squared_norm(self, point: FloatArray, image: FloatArray) -> float:
        """a'A'A a; rounding may not make it negative."""
        return max(0.0, float(inner(point, image)))

    def squared_gap(self, point: FloatArray, image: FloatArray, other: FloatArray, other_image: FloatArray) -> float:
        """(a - b)'A'A (a - b); rounding may not make it negative."""
        return max(0.0, float(distance_product(point, other, image, other_image)))

    def squared_lengths(self) -> NDArray[np.float64]:
        """k(x_i, x_i), (m,)."""
        return np.diagonal(self.matrix).astype(np.float64)

    def weights(self, point: FloatArray, image: FloatArray, scale: float) -> FloatArray:
        """Coefficients scale s_i a_i of the rows, (m,): f(x) = sum_i coefficient_i k(x_i, x) - b."""
        return scale * self.signs * point

    def _computed(self) -> FloatArray:
        inputs = as_compiled(self.inputs, np.float64)
        matrix = np.empty((self.n_points, self.n_points), dtype=self.precision)
        for first in range(0, self.n_points, _BLOCK):
            matrix[first : first + _BLOCK] = self.kernel.matrix(inputs[first : first + _BLOCK], inputs)
        if not np.isfinite(matrix.sum(dtype=np.float64)):
            raise DataError("The kernel matrix holds NaN or infinite values: drop or fill such inputs, or scale them.")
        return matrix
