"""Rows block by block through a feature map into shared sums, in turns: a Fourier map fused in, others by transform."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import MOST_ROWS, Block, borrowed_block, run_threads
from okl.compiled.door import one_blas_thread
from okl.compiled.drivers import learn_fourier, sum_fourier
from okl.compiled.fourier import score_block
from okl.compiled.gradients import Summed, sum_block
from okl.compiled.turns import give_up_turns, new_turns, pass_turn, wait_turn
from okl.compiled.updates import Learnt, Rule, learn_block
from okl.features.fourier import FourierFeatures
from okl.features.protocol import FeatureMap
from okl.features.scoring import block_of
from okl.spans import Span
from okl.timeline import MAP
from okl.types import FloatArray

Turns = NDArray[np.int64]
Work = Callable[[Turns, int, int], None]


def learn_rows(
    learnt: Learnt,
    feature_map: FeatureMap,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    rule: Rule,
    n_threads: int,
) -> None:
    """Learn rows in their order; everything in learnt changes in place. Same bits for any number of threads.

    inputs : (rows, n_inputs), C-contiguous, in the map's precision; targets : (rows,), checked
    """

    def learn_fused(fourier: FourierFeatures, turns: Turns, thread: int, n_threads: int) -> None:
        with borrowed_block(fourier.rows_per_block, fourier.widths, inputs.dtype) as block:
            learn_fourier(learnt, turns, block, inputs, targets, fourier.waves, rule, thread, n_threads)

    def learn_any(turns: Turns, thread: int, n_threads: int) -> None:
        def learn(block: Block, part: slice) -> None:
            learn_block(learnt, block, targets[part], rule)

        learn_mapped(feature_map, inputs, turns, thread, n_threads, learn)

    in_turns(feature_map, len(inputs), n_threads, learn_fused, learn_any)


def learn_mapped(
    feature_map: FeatureMap,
    inputs: FloatArray,
    turns: Turns,
    thread: int,
    n_threads: int,
    learn: Callable[[Block, slice], None],
) -> None:
    """Call learn with every n_threads-th block of features and its rows, in turns; until another thread fails."""
    for index, part, block in _mapped_blocks(feature_map, inputs, thread, n_threads):
        if not wait_turn(turns, index):
            return
        learn(block, part)
        pass_turn(turns, index + 1)


def sum_rows(
    summed: Summed,
    feature_map: FeatureMap,
    weights: FloatArray,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    rule: Rule,
    n_threads: int,
) -> None:
    """Add the subgradients of rows at fixed weights to summed, which changes in place, in block order."""

    def sum_fused(fourier: FourierFeatures, turns: Turns, thread: int, n_threads: int) -> None:
        with borrowed_block(fourier.rows_per_block, fourier.widths, inputs.dtype) as block:
            sum_fourier(summed, turns, block, inputs, targets, fourier.waves, weights, rule, thread, n_threads)

    def sum_any(turns: Turns, thread: int, n_threads: int) -> None:
        for index, part, block in _mapped_blocks(feature_map, inputs, thread, n_threads):
            scores = np.empty((len(block.left), len(weights)), dtype=weights.dtype)
            score_block(scores, block, weights)
            if not wait_turn(turns, index):
                return
            sum_block(summed, block, scores, targets[part], rule)
            pass_turn(turns, index + 1)

    in_turns(feature_map, len(inputs), n_threads, sum_fused, sum_any)


def _mapped_blocks(
    feature_map: FeatureMap, inputs: FloatArray, thread: int, n_threads: int
) -> Iterator[tuple[int, slice, Block]]:
    for index in range(thread, -(-len(inputs) // MOST_ROWS), n_threads):
        part = slice(index * MOST_ROWS, (index + 1) * MOST_ROWS)
        with Span(MAP):
            block = block_of(feature_map.transform(inputs[part]))
        yield index, part, block


def in_turns(
    feature_map: FeatureMap,
    n_rows: int,
    n_threads: int,
    fused: Callable[[FourierFeatures, Turns, int, int], None],
    general: Work,
) -> None:
    """Run one of two works in threads; one that fails releases all who wait for their turn."""
    size = feature_map.rows_per_block if isinstance(feature_map, FourierFeatures) else MOST_ROWS
    n_threads = max(1, min(n_threads, -(-n_rows // size)))
    turns = new_turns()

    def run(thread: int) -> None:
        if isinstance(feature_map, FourierFeatures):
            fused(feature_map, turns, thread, n_threads)
        else:
            general(turns, thread, n_threads)

    with one_blas_thread():
        run_threads(n_threads, run, partial(give_up_turns, turns))
