"""What the weights of kernel least squares stand on: kernel values with landmarks, or an explicit feature map."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from okl.compiled.blocks import as_compiled, rows_per_block
from okl.compiled.door import one_blas_thread
from okl.compiled.kernelblocks import kernel_block
from okl.compiled.projection import panels_of
from okl.errors import ConfigError, DataError
from okl.expansions import KernelExpansion
from okl.features.protocol import FeatureMap
from okl.kernels import Kernel
from okl.predictors import LinearPredictor, Predictor
from okl.types import FloatArray

ADDED = {"float32": 2e-7, "float64": 1e-8}  # to the diagonal of the landmarks' kernel matrix, of its mean


class Basis(Protocol):
    """Columns that a row becomes, cheap to send; and the penalty that goes with them."""

    @property
    def n_columns(self) -> int: ...

    def columns(self, inputs: FloatArray) -> FloatArray:
        """Columns (rows, n_columns) of inputs (rows, n_inputs), each row by itself, in the precision of the basis.

        An array of its own, which whoever asked may write into.
        """
        ...

    def turn(self) -> Turn:
        """What makes the penalty of weights the square of their length."""
        ...

    def predictor(self, weights: NDArray[np.float64], offsets: NDArray[np.float64]) -> Predictor:
        """Scores columns @ weights' + offsets, of weights (n_outputs, n_columns).

        Raises
        ------
        DataError : weights beyond what the precision of the basis holds
        """
        ...


@dataclass(frozen=True, eq=False)
class Turn:
    """Coordinates in which ||f||^2 is the square of the length: weights are factor^(-T) times these.

    factor : (n_columns, n_columns) lower triangular, P = factor factor' being the penalty's matrix; None for P = I
    matrix : P itself; None for P = I
    """

    factor: NDArray[np.float64] | None
    matrix: NDArray[np.float64] | None

    def of_columns(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Columns (rows, n_columns) in these coordinates: columns @ factor^(-T)."""
        if self.factor is None:
            return columns
        turned: NDArray[np.float64] = solve_triangular(self.factor, columns.T, lower=True, check_finite=False).T
        return turned

    def of_products(self, products: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums of products of columns (n_columns, n_columns) in these coordinates, symmetric."""
        if self.factor is None:
            return products
        half = solve_triangular(self.factor, products, lower=True, check_finite=False)
        turned = solve_triangular(self.factor, half.T, lower=True, check_finite=False)
        symmetric: NDArray[np.float64] = 0.5 * (turned + turned.T)
        return symmetric

    def back(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weights of the columns (n_columns, n_outputs) from those in these coordinates."""
        if self.factor is None:
            return weights
        found: NDArray[np.float64] = solve_triangular(self.factor, weights, lower=True, trans="T", check_finite=False)
        return found


@dataclass(frozen=True, eq=False)
class LandmarkBasis:
    """Columns k(x, l) for landmarks l; the penalty is w'K w, K their kernel matrix, the norm of f in its space.

    Parameters
    ----------
    kernel : with a rule for compiled code
    landmarks : (n_landmarks, n_inputs), float32 or float64

    Raises
    ------
    ConfigError : a kernel of the user's own, which compiled code does not know

    Source: Williams & Seeger, NIPS 2000; the subset of regressors as in Rudi, Carratino & Rosasco, NIPS 2017, (8).
    """

    kernel: Kernel
    landmarks: FloatArray

    def __post_init__(self) -> None:
        if self.kernel.rule is None:
            raise ConfigError(f"The kernel {self.kernel.name!r} has no rule for compiled code; use another one.")

    def __getstate__(self) -> dict[str, Any]:
        # without what is packed for compiled code: it would double the bytes that go to a worker
        return {"kernel": self.kernel, "landmarks": self.landmarks}

    @property
    def n_columns(self) -> int:
        """Landmarks."""
        return len(self.landmarks)

    def columns(self, inputs: FloatArray) -> FloatArray:
        """Kernel values (rows, n_landmarks) of inputs (rows, n_inputs)."""
        assert self.kernel.rule is not None
        inputs = as_compiled(inputs, self.landmarks.dtype)
        values = np.empty((len(inputs), self.n_columns), dtype=self.landmarks.dtype)
        step = rows_per_block(self.n_columns, values.itemsize)
        for first in range(0, len(inputs), step):
            kernel_block(values[first : first + step], inputs[first : first + step], self._panels, self.kernel.rule)
        return values

    def turn(self) -> Turn:
        """The Cholesky factor of the landmarks' kernel matrix, with a little of its mean diagonal added."""
        wide = np.ascontiguousarray(self.landmarks, dtype=np.float64)
        # by differences, as columns are: squares of landmarks far from each other leave no digits of those close by
        matrix = LandmarkBasis(self.kernel, wide).columns(wide)
        matrix = 0.5 * (matrix + matrix.T)
        mean = float(np.trace(matrix)) / len(matrix)
        with one_blas_thread():
            least = ADDED[self.landmarks.dtype.name]
            for added in (least, 1e2 * least, 1e4 * least):
                try:
                    shifted = matrix + added * mean * np.eye(len(matrix))
                    return Turn(cholesky(shifted, lower=True, check_finite=False), shifted)
                except np.linalg.LinAlgError:  # rounding has made an eigenvalue more negative than that
                    continue
        raise ConfigError(
            f"The {self.kernel.name!r} kernel matrix of {self.n_columns:,} landmarks is not positive definite. Scale "
            "the inputs, or use another kernel."
        )

    def predictor(self, weights: NDArray[np.float64], offsets: NDArray[np.float64]) -> Predictor:
        """A kernel expansion over the landmarks."""
        return KernelExpansion(self.kernel, self.landmarks, *_rounded(weights, offsets, self.landmarks.dtype))

    @cached_property
    def _panels(self) -> FloatArray:
        return panels_of(self.landmarks.T)


@dataclass(frozen=True, eq=False)
class MapBasis:
    """Columns of an explicit feature map, such as the inputs themselves; the penalty is the weights' squared length."""

    feature_map: FeatureMap

    @property
    def n_columns(self) -> int:
        """Columns of the map."""
        return self.feature_map.n_columns

    def columns(self, inputs: FloatArray) -> FloatArray:
        """Features of inputs (rows, n_inputs)."""
        return self.feature_map.transform(inputs)

    def turn(self) -> Turn:
        """No turn."""
        return Turn(None, None)

    def predictor(self, weights: NDArray[np.float64], offsets: NDArray[np.float64]) -> Predictor:
        """The map with weights."""
        return LinearPredictor(self.feature_map, *_rounded(weights, offsets, np.dtype(self.feature_map.precision)))


def _rounded(
    weights: NDArray[np.float64], offsets: NDArray[np.float64], precision: np.dtype[Any]
) -> tuple[FloatArray, FloatArray]:
    with np.errstate(over="ignore"):  # infinity is refused
        rounded = np.ascontiguousarray(weights, dtype=precision), offsets.astype(precision)
    if not all(np.isfinite(part).all() for part in rounded):
        largest = max(float(np.abs(part).max()) for part in (weights, offsets))
        raise DataError(f"Weights up to {largest:.2g} do not fit {precision}: ask for float64, or scale the target.")
    return rounded
