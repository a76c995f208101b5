"""What each thread runs over a window of rows: features of its blocks in a private buffer, shared state in turns.

Thread t of n takes the blocks t, t + n, t + 2n, ... It maps a block while others work, waits until all earlier
blocks are done, works on the shared state, and passes the turn on: exact, and the same bits for any number of threads.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import Block
from okl.compiled.constrained import Limits, Watched, learn_constrained_block
from okl.compiled.constrainedsteps import Found
from okl.compiled.door import compiled
from okl.compiled.fourier import Waves, map_part, score_block
from okl.compiled.gradients import Summed, sum_block
from okl.compiled.turns import pass_turn, wait_turn
from okl.compiled.updates import Learnt, Rule, learn_block
from okl.types import FloatArray


@compiled
def learn_fourier(
    learnt: Learnt,
    turns: NDArray[np.int64],
    block: Block,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    waves: Waves,
    rule: Rule,
    thread: int,
    n_threads: int,
) -> bool:
    """Learn rows in order, the Fourier map fused in; changes learnt, turns, block. False if another thread failed."""
    size = block.left.shape[0]
    n_blocks = (inputs.shape[0] + size - 1) // size
    for index in range(thread, n_blocks, n_threads):
        part = map_part(block, inputs, waves, index)
        if not wait_turn(turns, index):
            return False
        learn_block(learnt, part, targets[index * size : index * size + part.left.shape[0]], rule)
        pass_turn(turns, index + 1)
    return True


@compiled
def learn_constrained_fourier(
    learnt: Learnt,
    watched: Watched,
    found: Found,
    turns: NDArray[np.int64],
    block: Block,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    waves: Waves,
    rule: Rule,
    limits: Limits,
    thread: int,
    n_threads: int,
) -> bool:
    """Learn rows in order, the Fourier map fused in, under limits; see `learn_fourier`."""
    size = block.left.shape[0]
    n_blocks = (inputs.shape[0] + size - 1) // size
    for index in range(thread, n_blocks, n_threads):
        part = map_part(block, inputs, waves, index)
        if not wait_turn(turns, index):
            return False
        some = targets[index * size : index * size + part.left.shape[0]]
        learn_constrained_block(learnt, watched, found, part, some, rule, limits)
        pass_turn(turns, index + 1)
    return True


@compiled
def sum_fourier(
    summed: Summed,
    turns: NDArray[np.int64],
    block: Block,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    waves: Waves,
    weights: FloatArray,
    rule: Rule,
    thread: int,
    n_threads: int,
) -> bool:
    """Add rows up in block order at fixed weights; changes summed, turns and block. False if another thread failed."""
    size = block.left.shape[0]
    n_blocks = (inputs.shape[0] + size - 1) // size
    scores = np.empty((size, weights.shape[0]), weights.dtype)
    for index in range(thread, n_blocks, n_threads):
        part = map_part(block, inputs, waves, index)
        n_rows = part.left.shape[0]
        score_block(scores[:n_rows], part, weights)
        if not wait_turn(turns, index):
            return False
        sum_block(summed, part, scores[:n_rows], targets[index * size : index * size + n_rows], rule)
        pass_turn(turns, index + 1)
    return True
