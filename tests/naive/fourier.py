"""Slow, obvious twins of okl.compiled.fourier."""

from __future__ import annotations

import numpy as np

from okl.compiled.fourier import Structured, Waves
from okl.compiled.threads import Block
from okl.foundation.types import FloatArray

# Structured projections: Hadamard matrices written out.


def hadamard_matrix(size: int) -> FloatArray:
    matrix: FloatArray = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def hadamard_transform(columns: FloatArray) -> None:
    columns[...] = hadamard_matrix(len(columns)) @ columns.astype(np.float64)


def half_turn_matrix(n_inputs: int, structured: Structured) -> FloatArray:
    """Return the matrix (n_inputs, n_frequencies) that multiplies rows."""
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


# Dense projections.


def panels_of(matrix: FloatArray, width: int) -> FloatArray:
    n_inputs, n_columns = matrix.shape
    panels = np.zeros((-(-n_columns // width), n_inputs, width), dtype=matrix.dtype)
    for i in range(n_inputs):
        for j in range(n_columns):
            panels[j // width, i, j % width] = matrix[i, j]
    return panels


def unpacked(panels: FloatArray, n_columns: int) -> FloatArray:
    """Return the matrix (n_inputs, n_columns) that was packed into panels."""
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


# Feature maps.


def map_block(block: Block, inputs: FloatArray, waves: Waves) -> None:
    half_turns = unpacked(waves.panels, waves.n_frequencies).astype(np.float64)
    for row, x in enumerate(inputs.astype(np.float64)):
        for j, frequency in enumerate(half_turns.T):
            angle = np.pi * sum(x[i] * frequency[i] for i in range(len(x)))
            block.left[row, j] = waves.amplitude * np.sin(angle)
            block.right[row, j] = waves.amplitude * np.cos(angle)


def dot(left: FloatArray, right: FloatArray) -> float:
    return float(sum(float(a) * float(b) for a, b in zip(left, right, strict=True)))


def score_block(scores: FloatArray, block: Block, weights: FloatArray) -> None:
    features = np.concatenate([block.left, block.right], axis=1)
    for row in range(len(scores)):
        for output in range(len(weights)):
            scores[row, output] = dot(features[row], weights[output])


def fourier_transform(
    features: FloatArray, block: Block, inputs: FloatArray, waves: Waves, thread: int, n_threads: int
) -> None:
    size = len(block.left)
    for first in range(thread * size, len(inputs), n_threads * size):
        part = inputs[first : first + size]
        mapped = Block(block.left[: len(part)], block.right[: len(part)])
        map_block(mapped, part, waves)
        features[first : first + size] = np.concatenate([mapped.left, mapped.right], axis=1)


def fourier_scores(
    scores: FloatArray,
    block: Block,
    inputs: FloatArray,
    waves: Waves,
    weights: FloatArray,
    thread: int,
    n_threads: int,
) -> None:
    features = np.zeros((len(inputs), weights.shape[1]), dtype=inputs.dtype)
    fourier_transform(features, block, inputs, waves, thread, n_threads)
    size = len(block.left)
    for first in range(thread * size, len(inputs), n_threads * size):
        for row in range(first, min(first + size, len(inputs))):
            for output in range(len(weights)):
                scores[row, output] = dot(features[row], weights[output])
