"""Slow, obvious twins of okl/compiled/fourier.py."""

from __future__ import annotations

import numpy as np

from okl.compiled.blocks import Block
from okl.compiled.fourier import Waves
from okl.types import FloatArray
from tests.naive.projection import unpacked


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
