"""Slow, obvious twins of okl/compiled/hadamard.py: Hadamard matrices written out."""

from __future__ import annotations

import numpy as np

from okl.compiled.hadamard import Structured
from okl.types import FloatArray


def hadamard_matrix(size: int) -> FloatArray:
    matrix: FloatArray = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def hadamard_transform(columns: FloatArray) -> None:
    columns[...] = hadamard_matrix(len(columns)) @ columns.astype(np.float64)


def half_turn_matrix(n_inputs: int, structured: Structured) -> FloatArray:
    """(n_inputs, n_frequencies): what rows are multiplied with."""
    hadamard = hadamard_matrix(structured.signs.shape[2])
    rotations = []
    for first, second, third in structured.signs.astype(np.float64):
        rotations.append(hadamard @ np.diag(first) @ hadamard @ np.diag(second) @ hadamard @ np.diag(third))
    rows = np.concatenate(rotations)[: len(structured.half_turns), :n_inputs]
    matrix: FloatArray = (rows * structured.half_turns[:, None].astype(np.float64)).T
    return matrix


def project_structured(products: FloatArray, inputs: FloatArray, structured: Structured) -> None:
    products[...] = inputs.astype(np.float64) @ half_turn_matrix(inputs.shape[1], structured)


def structured_transform(features: FloatArray, inputs: FloatArray, structured: Structured) -> None:
    products = np.empty((len(inputs), len(structured.half_turns)))
    project_structured(products, inputs, structured)
    waves = np.concatenate([np.sin(np.pi * products), np.cos(np.pi * products)], axis=1)
    features[...] = structured.amplitude * waves
