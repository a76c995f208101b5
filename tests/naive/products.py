"""Slow, obvious twins of okl.compiled.products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from okl.foundation.types import FloatArray


def multiply_rows(products: FloatArray, rows: FloatArray, signs: FloatArray, vector: FloatArray) -> None:
    for i, row in enumerate(rows):
        products[i] = signs[i] * sum(float(z) * v for z, v in zip(row, vector, strict=True))


def add_rows(sums: FloatArray, rows: FloatArray, signs: FloatArray, weights: FloatArray) -> None:
    for i, row in enumerate(rows):
        for j, z in enumerate(row):
            sums[j] += signs[i] * weights[i] * float(z)


def add_listed_rows(sums: FloatArray, rows: FloatArray, listed: NDArray[Any], weights: FloatArray) -> None:
    for i, weight in zip(listed, weights, strict=True):
        sums += weight * rows[i].astype(np.float64)


def add_listed_rows_twice(
    sums: FloatArray,
    others: FloatArray,
    rows: FloatArray,
    listed: NDArray[Any],
    weights: FloatArray,
    other_weights: FloatArray,
) -> None:
    add_listed_rows(sums, rows, listed, weights)
    add_listed_rows(others, rows, listed, other_weights)


def multiply_sparse_rows(products: FloatArray, matrix: csr_array, signs: FloatArray, vector: FloatArray) -> None:
    products[:] = signs * (matrix.toarray().astype(np.float64) @ vector)


def add_sparse_rows(sums: FloatArray, matrix: csr_array, signs: FloatArray, weights: FloatArray) -> None:
    sums += (signs * weights) @ matrix.toarray().astype(np.float64)
