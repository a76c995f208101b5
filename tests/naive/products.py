"""Slow, obvious twins of okl.compiled.products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def multiply_sparse_rows(
    products: FloatArray,
    data: FloatArray,
    columns: NDArray[Any],
    starts: NDArray[Any],
    signs: FloatArray,
    vector: FloatArray,
) -> None:
    for i in range(len(products)):
        places = range(starts[i], starts[i + 1])
        products[i] = signs[i] * sum(float(data[place]) * vector[columns[place]] for place in places)


def add_sparse_rows(
    sums: FloatArray,
    data: FloatArray,
    columns: NDArray[Any],
    starts: NDArray[Any],
    signs: FloatArray,
    weights: FloatArray,
) -> None:
    for i in range(len(weights)):
        for place in range(starts[i], starts[i + 1]):
            sums[columns[place]] += signs[i] * weights[i] * float(data[place])
