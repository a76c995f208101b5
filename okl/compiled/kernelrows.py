"""One row against all supports: k(x, s) for every support s, distances and kernel fused, vectorised across supports.

Distances are sums of differences, not norms minus products: a support equal to the row is at distance 0 exactly, and
raw columns of any size cost no digits. A value depends on its support and the row only, never on its place.

Legend: S supports, transposed (n_inputs, capacity), one column a support; x a row (n_inputs,); r = ||x - s||.
"""

from __future__ import annotations

import numpy as np

from okl.compiled.door import compiled_row
from okl.compiled.kernelrule import LAPLACIAN, LINEAR, POLYNOMIAL, KernelRule
from okl.compiled.kernelvalues import to_kernel_values
from okl.types import FloatArray

LANES = 16  # capacities are multiples of it: vector loops over supports have no remainder


@compiled_row
def squared_distances(row: FloatArray, supports: FloatArray, x: FloatArray) -> None:
    """Overwrite row (width,) by r^2 of the first `width` supports (n_inputs, capacity) to x (n_inputs,)."""
    width, n_inputs = row.shape[0], supports.shape[0]
    first = n_inputs % 4
    row[:] = 0
    for j in range(first):
        s, v = supports[j], x[j]
        for i in range(width):
            row[i] += (s[i] - v) * (s[i] - v)
    # four inputs at once: the sums are loaded and stored a quarter as often
    for j in range(first, n_inputs, 4):
        s0, s1, s2, s3 = supports[j], supports[j + 1], supports[j + 2], supports[j + 3]
        v0, v1, v2, v3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for i in range(width):
            total = row[i] + (s0[i] - v0) * (s0[i] - v0)
            total += (s1[i] - v1) * (s1[i] - v1)
            total += (s2[i] - v2) * (s2[i] - v2)
            row[i] = total + (s3[i] - v3) * (s3[i] - v3)


@compiled_row
def absolute_distances(row: FloatArray, supports: FloatArray, x: FloatArray) -> None:
    """Overwrite row (width,) by ||x - s||_1 of the first `width` supports (n_inputs, capacity)."""
    width, n_inputs = row.shape[0], supports.shape[0]
    first = n_inputs % 4
    row[:] = 0
    for j in range(first):
        s, v = supports[j], x[j]
        for i in range(width):
            row[i] += abs(s[i] - v)
    for j in range(first, n_inputs, 4):
        s0, s1, s2, s3 = supports[j], supports[j + 1], supports[j + 2], supports[j + 3]
        v0, v1, v2, v3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for i in range(width):
            row[i] += (abs(s0[i] - v0) + abs(s1[i] - v1)) + (abs(s2[i] - v2) + abs(s3[i] - v3))


@compiled_row
def inner_products(row: FloatArray, supports: FloatArray, x: FloatArray) -> None:
    """Overwrite row (width,) by <x, s> of the first `width` supports (n_inputs, capacity)."""
    width, n_inputs = row.shape[0], supports.shape[0]
    first = n_inputs % 4
    row[:] = 0
    for j in range(first):
        s, v = supports[j], x[j]
        for i in range(width):
            row[i] += s[i] * v
    for j in range(first, n_inputs, 4):
        s0, s1, s2, s3 = supports[j], supports[j + 1], supports[j + 2], supports[j + 3]
        v0, v1, v2, v3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for i in range(width):
            total = row[i] + s0[i] * v0
            total += s1[i] * v1
            total += s2[i] * v2
            row[i] = total + s3[i] * v3


@compiled_row
def kernel_row(row: FloatArray, supports: FloatArray, x: FloatArray, kernel: KernelRule) -> None:
    """Overwrite row (width,) by k(x, s) of the first `width` supports.

    row : width <= capacity, best a multiple of LANES; supports : (n_inputs, capacity); x : (n_inputs,); one precision
    """
    if kernel.code == LAPLACIAN:
        absolute_distances(row, supports, x)
    elif kernel.code == LINEAR or kernel.code == POLYNOMIAL:
        inner_products(row, supports, x)
    else:
        squared_distances(row, supports, x)
    to_kernel_values(row, kernel)


@compiled_row
def kernel_self(x: FloatArray, kernel: KernelRule) -> float:
    """k(x, x) of one row (n_inputs,), float64: 1 for every kernel of distances."""
    if kernel.code != LINEAR and kernel.code != POLYNOMIAL:
        return 1.0
    product = 0.0
    for j in range(x.shape[0]):
        product += np.float64(x[j]) * np.float64(x[j])
    if kernel.code == LINEAR:
        return product
    return (kernel.scale * product + kernel.offset) ** kernel.degree
