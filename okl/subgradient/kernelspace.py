"""The space of an exact kernel: a coefficient a row of the sample, and kernel values that grow with it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from okl.compiled.blocks import as_compiled
from okl.compiled.cutpasses import score_rows
from okl.errors import ConfigError, DataError
from okl.kernels import Kernel
from okl.subgradient.segments import sum_sloped_rows
from okl.subgradient.vectors import Vector
from okl.types import FloatArray

_BLOCK = 256  # rows of kernel values computed at once, in float64
_CHECKED = 256  # rows whose kernel values are checked for being those of a kernel
_BELOW = 1e-7  # of the largest eigenvalue


@dataclass(eq=False)
class KernelValues:
    """k(x_i, x_j) + constant of rows in the order they are drawn, computed as far as they are asked for.

    Parameters
    ----------
    kernel : positive semidefinite
    inputs : (rows, n_inputs), finite, in the order of drawing
    constant : added to every value: 1 is a regularised bias, 0 none
    budget_bytes : what the values may take, float64

    Raises
    ------
    ConfigError : the values would take more than their budget, or the kernel is indefinite on the first rows
    DataError : values that are not finite
    """

    kernel: Kernel
    inputs: FloatArray
    constant: float = 0.0
    budget_bytes: int = 2**31
    n_known: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.inputs = as_compiled(self.inputs, np.float64)
        self._held = np.zeros((0, 0))

    def among(self, n_rows: int) -> FloatArray:
        """Values of the first rows with each other, in the first columns of (n_rows, n_rows or more)."""
        if n_rows > self.n_known:
            self._reserve(n_rows)
            for first in range(self.n_known, n_rows, _BLOCK):
                self._compute(first, min(first + _BLOCK, n_rows))
            self._check(n_rows)
            self.n_known = n_rows
        return self._held[:n_rows]

    def _reserve(self, n_rows: int) -> None:
        if n_rows**2 * 8 > self.budget_bytes:
            raise ConfigError(
                f"Kernel values of {n_rows} rows take {n_rows**2 / 2**17:.0f} MiB, but their budget is "
                f"{self.budget_bytes / 2**20:.0f} MiB: raise memory_budget, take a larger gap, or a feature map."
            )
        if n_rows > len(self._held):
            doubled = min(2 * n_rows, len(self.inputs))
            room = doubled if doubled**2 * 8 <= self.budget_bytes else n_rows
            held = np.zeros((room, room))  # pages that nobody writes to take no memory
            held[: self.n_known, : self.n_known] = self._held[: self.n_known, : self.n_known]
            self._held = held

    def _compute(self, first: int, last: int) -> None:
        values = self.kernel.matrix(self.inputs[first:last], self.inputs[:last]) + self.constant
        if not np.isfinite(values.sum()):
            raise DataError("Kernel values are NaN or infinite: drop or fill such inputs, or scale them.")
        self._held[first:last, :last] = values
        self._held[:first, first:last] = values[:, :first].T

    def _check(self, n_rows: int) -> None:
        known, fresh = min(self.n_known, _CHECKED), min(n_rows, _CHECKED)
        if fresh > known:
            eigenvalues = np.linalg.eigvalsh(self._held[:fresh, :fresh])
            if eigenvalues[0] < -_BELOW * max(abs(eigenvalues[0]), eigenvalues[-1]):
                raise indefinite(self.kernel, f"an eigenvalue {eigenvalues[0]:.3g} on {fresh} rows")


def indefinite(kernel: Kernel, sign: str) -> ConfigError:
    """The error of a kernel whose squared lengths may be negative."""
    return ConfigError(
        f"The kernel {kernel.name!r} is indefinite, it has {sign}: the problem is not convex then. "
        "Use a positive semidefinite one."
    )


@dataclass(frozen=True, eq=False)
class KernelRows:
    """The first rows of kernel values as a space: <u, v> = sum u_i (K v)_i.

    Parameters
    ----------
    values : KernelValues, which smaller samples share
    n_rows : of the sample
    n_outputs, n_threads : int >= 1; the same bits for any number of threads

    Raises
    ------
    ConfigError : the kernel is found to be indefinite
    """

    values: KernelValues
    n_rows: int
    n_outputs: int = 1
    n_threads: int = 1

    def zero(self) -> Vector:
        """The point 0."""
        shape = (self.n_rows,) if self.n_outputs == 1 else (self.n_rows, self.n_outputs)
        return Vector(np.zeros(shape), np.zeros(shape))

    def vector(self, coefficients: FloatArray) -> Vector:
        """The vector of these coefficients, (n_rows,) or (n_rows, n_outputs), with K coefficients."""
        matrix = self.values.among(self.n_rows)
        # the matrix is symmetric: rows of coefficient 0 need not be read
        sums = sum_sloped_rows(matrix, coefficients, self.n_rows, self.n_threads)
        dual = sums if coefficients.ndim == 1 else np.ascontiguousarray(sums.T)
        squared, size = float(np.vdot(coefficients, dual)), float(np.abs(coefficients).ravel() @ np.abs(dual).ravel())
        if squared < -_BELOW * size:
            raise indefinite(self.values.kernel, f"a vector of squared length {squared:.3g}")
        return Vector(coefficients, dual)

    def gather(self, slopes: FloatArray) -> Vector:
        """mean_i slope_i (x) k(x_i, .)."""
        return self.vector(slopes / self.n_rows)

    def scores(self, vector: Vector, first: int = 0) -> FloatArray:
        """K coefficients of all rows from the first one on: known already."""
        return vector.dual[first:]

    def lifted(self, vector: Vector) -> Vector:
        """A vector of the first of these rows, with coefficients 0 on the others."""
        have = len(vector.coefficients)
        if have == self.n_rows:
            return vector
        lifted, matrix = self.zero(), self.values.among(self.n_rows)
        lifted.coefficients[:have], lifted.dual[:have] = vector.coefficients, vector.dual
        padded = np.zeros((self.n_outputs, matrix.shape[1]))
        padded[:, :have] = vector.coefficients.T
        for output, weights in enumerate(padded):
            scores = np.empty(self.n_rows - have)
            score_rows(scores, matrix[have:], weights)
            lifted.dual.reshape(self.n_rows, -1)[have:, output] = scores
        return lifted

    def first(self, n_rows: int) -> KernelRows:
        """The first rows alone, of the same values."""
        return KernelRows(self.values, n_rows, self.n_outputs, self.n_threads)
