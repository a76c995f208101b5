"""Slow, obvious twins of okl.compiled.kernels."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from okl.compiled.kernels import GAUSSIAN, LAPLACIAN, LINEAR, MATERN32, MATERN52, POLYNOMIAL, KernelRule
from okl.foundation.types import FloatArray

# Blocks of kernel values: landmarks are not packed here.


def kernel_value(x: list[float], landmark: list[float], kernel: KernelRule) -> float:
    pairs = list(zip(x, landmark, strict=True))
    product = sum(a * b for a, b in pairs)
    s = kernel.scale * math.sqrt(sum((a - b) ** 2 for a, b in pairs))
    if kernel.code == GAUSSIAN:
        return math.exp(-kernel.scale * sum((a - b) ** 2 for a, b in pairs))
    if kernel.code == LAPLACIAN:
        return math.exp(-kernel.scale * sum(abs(a - b) for a, b in pairs))
    if kernel.code == MATERN32:
        return (1 + s) * math.exp(-s)
    if kernel.code == MATERN52:
        return (1 + s + s * s / 3) * math.exp(-s)
    if kernel.code == POLYNOMIAL:
        return float((kernel.scale * product + kernel.offset) ** kernel.degree)
    assert kernel.code == LINEAR
    return product


def kernel_block(values: FloatArray, inputs: FloatArray, landmarks: FloatArray, kernel: KernelRule) -> None:
    for row, x in enumerate(inputs.tolist()):
        for column, landmark in enumerate(landmarks.tolist()):
            values[row, column] = kernel_value(x, landmark, kernel)


def sign_products(sums: FloatArray, values: FloatArray, inputs: FloatArray, landmarks: FloatArray) -> None:
    for row, x in enumerate(inputs.tolist()):
        for d, a in enumerate(x):
            signs = [(a > b) - (a < b) for b in landmarks[d].tolist()]
            sums[row, d] = sum(value * sign for value, sign in zip(values[row].tolist(), signs, strict=True))


def nystrom_transform(
    features: FloatArray, inputs: FloatArray, landmarks: FloatArray, kernel: KernelRule, projection: FloatArray
) -> None:
    for row, x in enumerate(inputs.tolist()):
        values = [kernel_value(x, landmark, kernel) for landmark in landmarks.tolist()]
        for column, weights in enumerate(projection.T.tolist()):
            features[row, column] = sum(value * weight for value, weight in zip(values, weights, strict=True))


# Rows of kernel values, by the formulas.


def squared_distances(row: FloatArray, supports: FloatArray, x: FloatArray) -> None:
    for i in range(len(row)):
        row[i] = sum((float(s) - float(v)) ** 2 for s, v in zip(supports[:, i], x, strict=True))


def absolute_distances(row: FloatArray, supports: FloatArray, x: FloatArray) -> None:
    for i in range(len(row)):
        row[i] = sum(abs(float(s) - float(v)) for s, v in zip(supports[:, i], x, strict=True))


def inner_products(row: FloatArray, supports: FloatArray, x: FloatArray) -> None:
    for i in range(len(row)):
        row[i] = sum(float(s) * float(v) for s, v in zip(supports[:, i], x, strict=True))


def kernel_row(row: FloatArray, supports: FloatArray, x: FloatArray, kernel: KernelRule) -> None:
    for i in range(len(row)):
        row[i] = kernel_value(x.tolist(), supports[:, i].tolist(), kernel)


def kernel_self(x: FloatArray, kernel: KernelRule) -> float:
    return kernel_value(x.tolist(), x.tolist(), kernel)


# Sums over supports, which are not packed here.


def add_kernel_sums(
    sums: NDArray[np.float64], inputs: FloatArray, supports: FloatArray, coefficients: FloatArray, kernel: KernelRule
) -> None:
    for row, x in enumerate(inputs):
        values = np.empty(len(supports))
        kernel_row(values, supports.T, x, kernel)
        sums[row] += coefficients.astype(np.float64) @ values
