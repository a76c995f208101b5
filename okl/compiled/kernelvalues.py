"""From distances or inner products to kernel values, in vector loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from okl.compiled.door import compiled
from okl.compiled.exponential import exp_negative
from okl.compiled.kernelrule import GAUSSIAN, LAPLACIAN, LINEAR, MATERN52, POLYNOMIAL, KernelRule
from okl.types import FloatArray


@compiled
def to_kernel_values(values: FloatArray, kernel: KernelRule) -> None:
    """Overwrite values (n,) by kernel values of okl.compiled.kernelrule.

    values : ||x - x'||^2 for GAUSSIAN and the two MATERN, ||x - x'||_1 for LAPLACIAN, <x, x'> for the others
    """
    if kernel.code == POLYNOMIAL:
        _powers(values, kernel)
    elif kernel.code == GAUSSIAN or kernel.code == LAPLACIAN:
        scale = values.dtype.type(kernel.scale)
        for i in range(values.shape[0]):
            values[i] = _exp(-scale * values[i])
    elif kernel.code != LINEAR:
        _materns(values, kernel)


@compiled
def _exp(x: np.floating[Any]) -> np.floating[Any]:
    # a function of its own: numba's inliner warns of its own variables where exp_negative stands in a branch
    value: np.floating[Any] = exp_negative(x)  # type: ignore[no-untyped-call]
    return value


@compiled
def _materns(values: FloatArray, kernel: KernelRule) -> None:
    scale, zero, one = values.dtype.type(kernel.scale), values.dtype.type(0), values.dtype.type(1)
    third = values.dtype.type(1 / 3 if kernel.code == MATERN52 else 0)
    for i in range(values.shape[0]):
        s = scale * math.sqrt(values[i])
        tail = _exp(-s)
        # a square that overflowed must not become infinity times zero
        values[i] = zero if tail == zero else (one + s + third * s * s) * tail


@compiled
def _powers(values: FloatArray, kernel: KernelRule) -> None:
    scale, offset = values.dtype.type(kernel.scale), values.dtype.type(kernel.offset)
    for i in range(values.shape[0]):
        values[i] = scale * values[i] + offset
    if kernel.degree == 2:
        for i in range(values.shape[0]):
            values[i] = values[i] * values[i]
    elif kernel.degree == 3:
        for i in range(values.shape[0]):
            values[i] = values[i] * values[i] * values[i]
    else:
        for i in range(values.shape[0]):
            base = values[i]
            for _ in range(1, kernel.degree):
                values[i] *= base
