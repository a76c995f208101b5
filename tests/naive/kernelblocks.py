"""Slow, obvious twins of okl/compiled/kernelblocks.py; landmarks are not packed here."""

from __future__ import annotations

import math

from okl.compiled.kernelrule import GAUSSIAN, LAPLACIAN, LINEAR, MATERN32, MATERN52, POLYNOMIAL, KernelRule
from okl.types import FloatArray


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


def nystrom_transform(
    features: FloatArray, inputs: FloatArray, landmarks: FloatArray, kernel: KernelRule, projection: FloatArray
) -> None:
    for row, x in enumerate(inputs.tolist()):
        values = [kernel_value(x, landmark, kernel) for landmark in landmarks.tolist()]
        for column, weights in enumerate(projection.T.tolist()):
            features[row, column] = sum(value * weight for value, weight in zip(values, weights, strict=True))
