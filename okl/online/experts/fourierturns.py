"""Fourier maps of experts on threads that take blocks of rows in turns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import borrowed_block
from okl.compiled.crew import Crew
from okl.compiled.expertmaps import Mixture, Teams, learn_teams
from okl.compiled.experts import ExpertRule
from okl.compiled.turns import give_up_turns, new_turns
from okl.online.experts.candidates import Candidates
from okl.online.experts.state import Group
from okl.types import FloatArray

LEAST_WORK = 2**20  # entries of features and weights that a thread is worth: below, starting it takes longer
LEAST_BLOCK_ROWS, MOST_BLOCK_ROWS = 32, 128  # learning goes through a block several times: it stays in the cache
BLOCKS_EACH = 4  # of a thread, at least: in a short round blocks are smaller

Words = tuple[NDArray[np.float64], NDArray[np.uint8]]


def learn_fourier(
    heard: Words,
    group: Group,
    candidates: Candidates,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    rule: ExpertRule,
    seen: int,
    n_threads: int,
    crew: Crew,
    mixture: Mixture,
    besides: Callable[[], None],
) -> None:
    """Learn rows in Fourier maps: words (M, rows, T, 2), whether they stepped (M, rows), and the group change in place.

    Threads compute features ahead and learn them in turns; same bits for any number of them, and any size of blocks.

    mixture : as in okl.compiled.expertmaps; besides : what the first thread does before it
        takes blocks, while others do already
    """
    work = len(inputs) * group.weights[0, 0, 0].size * (len(group.weights) + group.weights[..., 0, 0].size)
    n_threads = max(1, min(n_threads, work // LEAST_WORK, -(-len(inputs) // LEAST_BLOCK_ROWS)))
    size = _rows_at_once(candidates.bases[0].rows_per_block, len(inputs), n_threads)
    teams, widths = _teams(group, candidates), (group.weights.shape[-1],) * 2
    turns = np.stack([new_turns() for _ in range(len(group.weights) + 1)])

    def run(thread: int) -> None:
        if thread == 0:
            besides()
        with borrowed_block(size, widths, inputs.dtype) as block:
            learn_teams(*heard, teams, turns, block, inputs, targets, rule, seen, mixture)

    def give_up() -> None:
        for turn in turns:
            give_up_turns(turn)

    crew.run(n_threads, run, give_up)


def _teams(group: Group, candidates: Candidates) -> Teams:
    arrays = (group.weights, group.pulls, group.squares, group.steps)
    if len(group.candidates) == 1:
        waves = candidates.fourier(*group.candidates[0]).waves
        none = np.zeros(1, dtype=np.int64)
        return Teams(*arrays, none, none, waves.panels[None], waves.n_frequencies, waves.amplitude)
    base, octave = np.array(group.candidates, dtype=np.int64).T.copy()
    waves = candidates.fourier(0, 0).waves
    return Teams(*arrays, base, octave, candidates.panels, waves.n_frequencies, waves.amplitude)


def _rows_at_once(most: int, n_rows: int, n_threads: int) -> int:
    size = min(most, MOST_BLOCK_ROWS)
    while n_threads > 1 and size > LEAST_BLOCK_ROWS and size * n_threads * BLOCKS_EACH > n_rows:
        size //= 2
    return size
