"""Slow, obvious twins of okl/compiled/projection.py."""

from __future__ import annotations

import numpy as np

from okl.types import FloatArray


def panels_of(matrix: FloatArray, width: int) -> FloatArray:
    n_inputs, n_columns = matrix.shape
    panels = np.zeros((-(-n_columns // width), n_inputs, width), dtype=matrix.dtype)
    for i in range(n_inputs):
        for j in range(n_columns):
            panels[j // width, i, j % width] = matrix[i, j]
    return panels


def unpacked(panels: FloatArray, n_columns: int) -> FloatArray:
    """The matrix (n_inputs, n_columns) that was packed into panels."""
    _, n_inputs, width = panels.shape
    matrix = np.empty((n_inputs, n_columns), dtype=panels.dtype)
    for i in range(n_inputs):
        for j in range(n_columns):
            matrix[i, j] = panels[j // width, i, j % width]
    return matrix


def project(products: FloatArray, inputs: FloatArray, panels: FloatArray) -> None:
    matrix = unpacked(panels, products.shape[1])
    for row, x in enumerate(inputs):
        for j in range(products.shape[1]):
            products[row, j] = sum(float(x[i]) * float(matrix[i, j]) for i in range(len(x)))
