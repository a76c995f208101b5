"""Dual coordinate descent on explicit rows, and on kernels whose matrix does not fit in memory: exact optima."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.compiled.bundle import CoefficientBounds, best_coefficient
from okl.compiled.jit import as_compiled, compiled_row, compiled_row_sum
from okl.compiled.kernels import LANES, KernelRule, kernel_row
from okl.compiled.products import add_rows, multiply_rows
from okl.compiled.sgd import add_kernel_row
from okl.foundation.types import FloatArray
from okl.kernels import Kernel
from okl.solvers.subgradient.coordinate import CoordinateResult, DualDescent

Doubles = NDArray[np.float64]


@compiled_row_sum
def _weighted_sum(row: FloatArray, weights: Doubles) -> float:
    """Return <z, w>, summed in float64."""
    total = 0.0
    for j in range(row.shape[0]):
        total += row[j] * weights[j]
    return total


@compiled_row
def descend_rows(
    coefficients: Doubles,
    weights: Doubles,
    pulls: Doubles,
    order: NDArray[np.int64],
    rows: FloatArray,
    box: CoefficientBounds,
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
def descend_computed(
    coefficients: Doubles,
    scores: Doubles,
    pulls: Doubles,
    order: NDArray[np.int64],
    room: FloatArray,
    supports: FloatArray,
    kernel: KernelRule,
    box: CoefficientBounds,
) -> None:
    """Descend as `okl.compiled.bundle.descend_kernel`, with rows of K computed when their coefficient changes.

    room : (capacity,), a buffer for a row of K; supports : (n_inputs, capacity), a column a row
    """
    n_rows = coefficients.shape[0]
    for index in range(order.shape[0]):
        i = order[index]
        before = coefficients[i]
        pulls[i] = box.targets[i] - scores[i]
        new = best_coefficient(before, pulls[i], box.squares[i], box.lower[i], box.upper[i], box)
        if new != before:
            coefficients[i] = new
            kernel_row(room, supports, supports[:, i], kernel)
            add_kernel_row(scores, room[:n_rows], (new - before) / box.scale)


@dataclass(frozen=True)
class RowDescent(DualDescent):
    """The same descent on rows, or on inputs with a kernel."""

    def solve_rows(self, rows: FloatArray, targets: Doubles) -> CoordinateResult:
        """Solve on explicit rows (m, n_columns), float32 or float64; sums are float64."""
        rows = as_compiled(rows, rows.dtype)
        ones, weights = np.ones(len(rows)), np.zeros(rows.shape[1])
        descent = self.descent(targets, np.einsum("ij,ij->i", rows, rows, dtype=np.float64))

        def visit(pulls: Doubles, order: NDArray[np.int64]) -> None:
            descend_rows(descent.coefficients, weights, pulls, order, rows, descent.box)

        def measure(scores: Doubles) -> float:
            weights[:] = 0.0  # afresh: no rounding of the steps is left in it
            add_rows(weights, rows, ones, descent.coefficients / descent.box.scale)
            multiply_rows(scores, rows, ones, weights)
            return float(weights @ weights)

        return descent.result(visit, measure, weights)

    def solve_kernel(self, kernel: Kernel, inputs: FloatArray, targets: Doubles) -> CoordinateResult:
        """Solve for inputs whose kernel matrix does not fit in memory."""
        assert kernel.rule is not None, "other kernels are solved by their matrix"
        supports, room = as_columns(inputs), np.zeros(as_columns(inputs).shape[1], dtype=inputs.dtype)
        parts = [inputs[first : first + 256] for first in range(0, len(inputs), 256)]
        squares = np.concatenate([np.diagonal(kernel.matrix(part, part)) for part in parts])
        carried, descent, rule = np.zeros(len(targets)), self.descent(targets, squares), kernel.rule

        def visit(pulls: Doubles, order: NDArray[np.int64]) -> None:
            descend_computed(descent.coefficients, carried, pulls, order, room, supports, rule, descent.box)

        def measure(scores: Doubles) -> float:
            scores[:] = carried
            return float(descent.coefficients @ carried) / descent.box.scale

        return descent.result(visit, measure)


def as_columns(inputs: FloatArray) -> FloatArray:
    """Return inputs (m, n_inputs) transposed and padded with zeros, as the kernel rows require."""
    columns = np.zeros((inputs.shape[1], -(-len(inputs) // LANES) * LANES), dtype=inputs.dtype)
    columns[:, : len(inputs)] = inputs.T
    return columns
