"""Slow, obvious twin of okl/compiled/kernelsums.py, on supports that are not packed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.compiled.kernelrule import KernelRule
from okl.types import FloatArray
from tests.naive.kernelrows import kernel_row


def add_kernel_sums(
    sums: NDArray[np.float64], inputs: FloatArray, supports: FloatArray, coefficients: FloatArray, kernel: KernelRule
) -> None:
    for row, x in enumerate(inputs):
        values = np.empty(len(supports))
        kernel_row(values, supports.T, x, kernel)
        sums[row] += coefficients.astype(np.float64) @ values
