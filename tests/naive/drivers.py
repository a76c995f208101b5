"""Slow, obvious twins of okl/compiled/drivers.py: all rows in one block, by one thread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import Block
from okl.compiled.fourier import Waves
from okl.compiled.gradients import Summed
from okl.compiled.updates import Learnt, Rule
from okl.types import FloatArray
from tests.naive.fourier import map_block, score_block
from tests.naive.gradients import sum_block
from tests.naive.updates import learn_block


def mapped(inputs: FloatArray, waves: Waves) -> Block:
    shape = (len(inputs), waves.n_frequencies)
    block = Block(np.empty(shape, dtype=inputs.dtype), np.empty(shape, dtype=inputs.dtype))
    map_block(block, inputs, waves)
    return block


def learn_fourier(learnt: Learnt, inputs: FloatArray, targets: NDArray[np.float64], waves: Waves, rule: Rule) -> None:
    learn_block(learnt, mapped(inputs, waves), targets, rule)


def sum_fourier(
    summed: Summed, inputs: FloatArray, targets: NDArray[np.float64], waves: Waves, weights: FloatArray, rule: Rule
) -> None:
    block = mapped(inputs, waves)
    scores = np.empty((len(inputs), len(weights)), dtype=inputs.dtype)
    score_block(scores, block, weights)
    sum_block(summed, block, scores, targets, rule)
