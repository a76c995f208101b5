"""Products of a matrix with a vector from either side, rows signed by their class, summed in float64.

Each reads the matrix once. The matrix may be float32: it is half the memory to read, while sums over millions of rows
keep the digits that a duality gap is made of; BLAS would convert it first or sum in float32.

Legend: Z rows (m, n), s signs (m,), a weights (m,), v a vector (n,).
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from okl.compiled.door import compiled, compiled_sum
from okl.types import FloatArray


@compiled_sum
def multiply_rows(products: FloatArray, rows: FloatArray, signs: FloatArray, vector: FloatArray) -> None:
    """Overwrite products (m,) by s_i <z_i, v>."""
    for i in range(rows.shape[0]):
        row = rows[i]
        total = 0.0
        for j in range(row.shape[0]):
            total += row[j] * vector[j]
        products[i] = signs[i] * total


@compiled
def add_rows(sums: FloatArray, rows: FloatArray, signs: FloatArray, weights: FloatArray) -> None:
    """Add the sum of s_i a_i z_i to sums (n,), in the order of the rows."""
    # one row after the other, as they are in memory: several at a time save stores, but took a third longer to read
    for i in range(rows.shape[0]):
        weight, row = signs[i] * weights[i], rows[i]
        for j in range(sums.shape[0]):
            sums[j] += weight * row[j]


@compiled
def multiply_sparse_rows(
    products: FloatArray,
    data: FloatArray,
    columns: NDArray[Any],
    starts: NDArray[Any],
    signs: FloatArray,
    vector: FloatArray,
) -> None:
    """Overwrite products (m,) by s_i <z_i, v>; row i of Z has data[starts[i] : starts[i + 1]] in those columns."""
    for i in range(products.shape[0]):
        total = 0.0
        for place in range(starts[i], starts[i + 1]):
            total += data[place] * vector[columns[place]]
        products[i] = signs[i] * total


@compiled
def add_sparse_rows(
    sums: FloatArray,
    data: FloatArray,
    columns: NDArray[Any],
    starts: NDArray[Any],
    signs: FloatArray,
    weights: FloatArray,
) -> None:
    """Add the sum of s_i a_i z_i to sums (n,), in the order of the rows."""
    for i in range(weights.shape[0]):
        weight = signs[i] * weights[i]
        for place in range(starts[i], starts[i + 1]):
            sums[columns[place]] += weight * data[place]
