"""What evolves in NOGD: support vectors until there are enough, then a Nystrom map and weights in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import MOST_ROWS
from okl.compiled.door import one_blas_thread
from okl.compiled.kernelblocks import kernel_block
from okl.compiled.nogd import Filling, fill_budget
from okl.compiled.projection import panels_of
from okl.compiled.updates import Rule
from okl.errors import DataError
from okl.features.nystrom import NystromFeatures, fit_nystrom_map
from okl.features.protocol import precision_of
from okl.kernels import Kernel
from okl.online.progress import Progress, progress_arrays, progress_from
from okl.online.weights import Weights
from okl.types import FloatArray

NOISE = 2.0**-40  # of a projection's entries, beside the largest of their column


@dataclass(frozen=True, eq=False)
class SupportSet:
    """The kernel expansion f = sum_i coefficients_i k(x_i, .).

    inputs : (n_supports, n_inputs), in the order they came; coefficients : (n_outputs, n_supports); one precision
    """

    inputs: FloatArray
    coefficients: FloatArray

    def expansion(self, kernel: Kernel) -> NystromFeatures:
        """The map z(x) = (k(x_1, x), ..., k(x_n, x)), in which the coefficients are weights."""
        return NystromFeatures(kernel, self.inputs, np.eye(len(self.inputs), dtype=self.inputs.dtype))


@dataclass(frozen=True, eq=False)
class NOGDState:
    """The state of NOGD: a value that no method writes into.

    supports : the kernel expansion; the landmarks, once they are as many as the budget
    feature_map, weights : the Nystrom map and the weights in it; None until a further support would not fit
    filled : how the predictions did until then
    """

    supports: SupportSet
    feature_map: NystromFeatures | None
    weights: Weights | None
    filled: Progress

    @property
    def progress(self) -> Progress:
        """How all predictions did."""
        return self.filled if self.weights is None else self.weights.progress


def fill(
    kernel: Kernel, budget: int, rule: Rule, state: NOGDState, inputs: FloatArray, targets: NDArray[np.float64]
) -> tuple[NOGDState, int]:
    """Learn rows by kernel gradient descent until one more support would not fit: the state, and how many were learnt.

    inputs : (rows, n_inputs), targets : (rows,); checked

    Raises
    ------
    DataError : a kernel value is not finite
    """
    counts, sums, class_counts = progress_arrays(state.filled)
    n_outputs, size = state.supports.coefficients.shape
    coefficients = np.zeros((n_outputs, budget), dtype=inputs.dtype)
    coefficients[:, :size] = state.supports.coefficients
    added = np.zeros(budget, dtype=np.int64)
    filling = Filling(coefficients, np.array([size]), added, counts, sums, class_counts)
    supports, done = state.supports.inputs, 0
    for first in range(0, len(targets), MOST_ROWS):
        block, before = inputs[first : first + MOST_ROWS], len(supports)
        values = _kernel_values(kernel, block, np.concatenate([supports, block]))
        learnt = fill_budget(
            filling,
            np.ascontiguousarray(values[:, :before]),
            np.ascontiguousarray(values[:, before:]),
            targets[first : first + MOST_ROWS],
            rule,
        )
        supports = np.concatenate([supports, block[added[before : filling.size[0]]]])
        done += learnt
        if learnt < len(block):
            break
    held = SupportSet(supports, np.ascontiguousarray(coefficients[:, : len(supports)]))
    progress = progress_from(state.filled.task, counts, sums, class_counts)
    return replace(state, supports=held, filled=progress), done


def nystrom_start(kernel: Kernel, rank: int, state: NOGDState) -> NOGDState:
    """The state whose supports have become landmarks: the map, and weights whose scores are nearest the expansion's.

    w = alpha pinv(M), with M the map's projection, so that w'z(x) is about sum_i alpha_i k(x_i, x).

    Raises
    ------
    DataError, ConfigError : the kernel is not positive definite on the supports

    Source: Lu et al., JMLR 17(47), 2016, Algorithm 2 and section 3.3.
    """
    supports = state.supports
    with one_blas_thread():
        fitted = fit_nystrom_map(kernel, _used_columns(kernel, supports.inputs), rank, precision_of(supports.inputs))
        projection = _without_noise(fitted.projection)
        feature_map = NystromFeatures(kernel, supports.inputs, projection)
        inverse = np.linalg.pinv(feature_map.projection.astype(np.float64).T)
        last = supports.coefficients.astype(np.float64) @ inverse
    weights = Weights(np.ascontiguousarray(last, dtype=supports.inputs.dtype), None, 0, state.filled)
    return replace(state, feature_map=feature_map, weights=weights)


def reopened(state: NOGDState) -> NOGDState:
    """The state as a kernel expansion of the same scores, sum_i (w M)_i k(x_i, .), which further supports may join."""
    if state.feature_map is None or state.weights is None:
        return state
    with one_blas_thread():
        expanded = state.weights.last.astype(np.float64) @ state.feature_map.projection.astype(np.float64).T
    coefficients = np.ascontiguousarray(expanded, dtype=state.weights.last.dtype)
    supports = SupportSet(state.feature_map.landmarks, coefficients)
    return NOGDState(supports, None, None, state.weights.progress)


def _used_columns(kernel: Kernel, inputs: FloatArray) -> FloatArray:
    """Inputs without columns of nothing but 0, which no known kernel sees.

    BLAS may add up a wider kernel matrix in another order: a column that appears later is to leave the map its bits.
    """
    used = inputs.any(axis=0)
    return inputs if kernel.rule is None or not used.any() else inputs[:, used]


def _without_noise(projection: FloatArray) -> FloatArray:
    """The projection with 0 for entries that are nothing but rounding of the eigenvectors.

    A support that is far from all others has no part in most eigenvectors. What rounding leaves there would decide the
    sign of the score of every row that is near this support only; on data of unlike scale that is one row in five.
    """
    sizes = np.abs(projection)
    cleaned: FloatArray = np.where(sizes < NOISE * sizes.max(axis=0), projection.dtype.type(0), projection)
    return cleaned


def _kernel_values(kernel: Kernel, left: FloatArray, right: FloatArray) -> FloatArray:
    """Values of every row of left (m, n_inputs) with every row of right (n, n_inputs): (m, n), in their precision."""
    if kernel.rule is not None:
        values: FloatArray = np.empty((len(left), len(right)), dtype=left.dtype)
        kernel_block(values, np.ascontiguousarray(left), panels_of(right.T), kernel.rule)
    else:
        with one_blas_thread():
            values = kernel.matrix(left, right).astype(left.dtype)
    if not np.isfinite(values).all():
        raise DataError(
            f"The kernel {kernel.name!r} has values that are not finite in {left.dtype}. Scale the inputs, or take a "
            "kernel of smaller values."
        )
    return values
