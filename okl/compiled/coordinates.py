"""Dual coordinate descent on lam / 2 |w|^2 + mean loss: each row's coefficient in turn goes to its own best value.

The dual is max_b sum_i (y_i b_i - e |b_i|) / m - lam / 2 |w|^2, l_i <= b_i <= u_i, where w = sum_i b_i z_i / (lam m).
The hinge has the bounds 0 and y_i, and e = 0; epsilon-insensitive losses have -1 and 1, and e = epsilon.

Legend: Z rows (m, n), K kernel matrix (m, m), b coefficients (m,), s_i score of row i, q_i squared length of row i.

Source: Hsieh et al., ICML 2008, Algorithm 1 (hinge); Ho & Lin, JMLR 13, 2012, Algorithm 4 (epsilon-insensitive).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled_row, compiled_row_sum
from okl.compiled.kernelrows import kernel_row
from okl.compiled.kernelrule import KernelRule
from okl.types import FloatArray

Doubles = NDArray[np.float64]


class Box(NamedTuple):
    """What bounds the coefficients.

    targets, lower, upper : (m,) float64; squares : (m,) float64, q
    epsilon : e >= 0; scale : lam m
    """

    targets: Doubles
    lower: Doubles
    upper: Doubles
    squares: Doubles
    epsilon: float
    scale: float


@compiled_row
def best_coefficient(b: float, pull: float, square: float, lower: float, upper: float, box: Box) -> float:
    """The maximiser of the dual in one coefficient: pull is y - s at b."""
    reach = box.scale / max(square, 1e-30)  # a row of zeros goes to a bound
    free, threshold = b + pull * reach, box.epsilon * reach
    shrunk = max(free - threshold, 0.0) + min(free + threshold, 0.0)
    return min(max(shrunk, lower), upper)


@compiled_row_sum
def _weighted_sum(row: FloatArray, weights: Doubles) -> float:
    """<z, w>, summed in float64."""
    total = 0.0
    for j in range(row.shape[0]):
        total += row[j] * weights[j]
    return total


@compiled_row
def descend_rows(
    coefficients: Doubles, weights: Doubles, pulls: Doubles, order: NDArray[np.int64], rows: FloatArray, box: Box
) -> None:
    """Give the rows of order their best coefficients, one after the other; coefficients and weights change in place.

    pulls : (m,), overwritten at these rows by y - s as it was when each had its turn; weights : (n,), w
    """
    for index in range(order.shape[0]):
        i = order[index]
        row, before = rows[i], coefficients[i]
        pulls[i] = box.targets[i] - _weighted_sum(row, weights)
        new = best_coefficient(before, pulls[i], box.squares[i], box.lower[i], box.upper[i], box)
        if new != before:
            coefficients[i] = new
            change = (new - before) / box.scale
            for j in range(weights.shape[0]):
                weights[j] += change * row[j]


@compiled_row
def descend_kernel(
    coefficients: Doubles,
    scores: Doubles,
    pulls: Doubles,
    room: FloatArray,
    order: NDArray[np.int64],
    matrix: FloatArray,
    supports: FloatArray,
    kernel: KernelRule,
    box: Box,
) -> None:
    """The same with a kernel: coefficients and scores (m,), of all rows, change in place.

    room : (capacity,), a buffer for a row of K, which is computed where matrix is empty (0, 0): from supports
    (n_inputs, capacity), a column a row
    """
    n_rows, held = coefficients.shape[0], matrix.shape[0] > 0
    for index in range(order.shape[0]):
        i = order[index]
        before = coefficients[i]
        pulls[i] = box.targets[i] - scores[i]
        new = best_coefficient(before, pulls[i], box.squares[i], box.lower[i], box.upper[i], box)
        if new != before:
            coefficients[i] = new
            if held:
                _add_kernel_row(scores, matrix[i], (new - before) / box.scale)
            else:
                kernel_row(room, supports, supports[:, i], kernel)
                _add_kernel_row(scores, room[:n_rows], (new - before) / box.scale)


@compiled_row
def _add_kernel_row(scores: Doubles, row: FloatArray, factor: float) -> None:
    """Add factor times a row of K (m,) to scores."""
    for j in range(scores.shape[0]):
        scores[j] += factor * row[j]
