"""Sums of kernel values with many fixed rows: the function sum_s a_s k(s, x) of a kernel expansion, for blocks of rows.

Legend: A coefficients (n_outputs, n_supports); K kernel values (rows, n_supports).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled, compiled_row_sum
from okl.compiled.kernelblocks import kernel_block
from okl.compiled.kernelrule import KernelRule
from okl.types import FloatArray


@compiled_row_sum
def _add_products(sums: NDArray[np.float64], values: FloatArray, coefficients: FloatArray) -> None:
    for row in range(values.shape[0]):
        for k in range(coefficients.shape[0]):
            total = values.dtype.type(0)
            for i in range(values.shape[1]):
                total += values[row, i] * coefficients[k, i]
            sums[row, k] += np.float64(total)


@compiled
def add_kernel_sums(
    sums: NDArray[np.float64],
    values: FloatArray,
    inputs: FloatArray,
    panels: FloatArray,
    coefficients: FloatArray,
    kernel: KernelRule,
) -> None:
    """Add K A' to sums (rows, n_outputs); values (rows, n_supports), a buffer, becomes K. A row's bits are its own.

    inputs : (rows, n_inputs); panels : `panels_of` the transposed supports; coefficients : A; of one precision but sums
    """
    kernel_block(values, inputs, panels, kernel)
    _add_products(sums, values, coefficients)
