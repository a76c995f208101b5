"""Rows through all experts of a round, in place: each group says its words and learns, then the words are mixed."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import Block, borrowed_block, run_threads
from okl.compiled.door import one_blas_thread
from okl.compiled.expertmaps import Teams, learn_team_in_turns, learn_teams
from okl.compiled.experts import ExpertRule, Said, Team, learn_team
from okl.compiled.hedge import Counted, Hedge, mix_rows
from okl.compiled.turns import give_up_turns, new_turns
from okl.compiled.updates import THRESHOLDED_HALF_SQUARED
from okl.features.scoring import block_of
from okl.online.experts.candidates import Candidates
from okl.online.experts.state import Experts, Group
from okl.types import FloatArray

LEAST_ROWS = 1024  # of features, for each thread: below, starting it takes longer than its work

STRETCH_ROWS = 32768  # bounds the memory of what is said; a multiple of every block

Words = tuple[NDArray[np.float64], NDArray[np.uint8]]


def learn_round(
    experts: Experts,
    counted: Counted,
    candidates: Candidates,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    rule: ExpertRule,
    seen: int,
    n_threads: int,
) -> None:
    """Rows of one round; the arrays of experts, and counted, change in place. Same bits for any number of threads.

    Words are mixed after a stretch is learnt, not beside the next one: a third thread that wants two cores cost more
    than it gained.

    seen : rows before these
    """
    hedge = Hedge(experts.losses, experts.recent, experts.numbers)
    for first in range(0, len(targets), STRETCH_ROWS):
        part = slice(first, first + STRETCH_ROWS)
        words, stepped = _said(experts, candidates, inputs[part], targets[part], rule, seen + first, n_threads)
        mix_rows(counted, hedge, words, stepped, targets[part], rule.class_weights, rule.code)


def _said(
    experts: Experts,
    candidates: Candidates,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    rule: ExpertRule,
    seen: int,
    n_threads: int,
) -> Words:
    """What all experts said of rows before they learnt them: (rows, E), and whether one stepped, (rows,)."""
    linear = _linear_block(experts, candidates, inputs)
    heard = [
        _learn_group(group, candidates, linear, inputs, targets, rule, seen, n_threads) for group in experts.groups
    ]
    words = [said.transpose(1, 0, 2, 3).reshape(len(targets), -1) for said, _ in heard]
    stepped = np.concatenate([steps for _, steps in heard]).max(axis=0)
    return np.ascontiguousarray(np.concatenate(words, axis=1) if len(words) > 1 else words[0]), stepped


def _learn_group(
    group: Group,
    candidates: Candidates,
    linear: Block | None,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    rule: ExpertRule,
    seen: int,
    n_threads: int,
) -> Words:
    """What M maps with T step sizes said: (M, rows, T, 2), and whether they stepped, (M, rows)."""
    n_maps, n_steps = group.steps.shape
    words = np.empty((n_maps, len(targets), n_steps, 2))
    stepped = np.zeros((n_maps, len(targets)), dtype=np.uint8)
    if group.kind != "fourier":
        assert linear is not None
        _learn_linear(Said(words[0], stepped[0]), _team(group), linear, targets, rule, seen)
    elif n_maps == 1:
        _learn_in_turns(Said(words[0], stepped[0]), group, candidates, inputs, targets, rule, seen, n_threads)
    else:
        _learn_apart((words, stepped), group, candidates, inputs, targets, rule, seen, n_threads)
    return words, stepped


def _team(group: Group) -> Team:
    return Team(group.weights[0], group.pulls[0], group.squares[0], group.steps[0])


def _linear_block(experts: Experts, candidates: Candidates, inputs: FloatArray) -> Block | None:
    """Features of the linear map, for all groups that take it."""
    if candidates.linear is None or all(group.kind == "fourier" for group in experts.groups):
        return None
    return block_of(candidates.linear.transform(inputs))


def _learn_linear(
    said: Said, team: Team, block: Block, targets: NDArray[np.float64], rule: ExpertRule, seen: int
) -> None:
    cautions = np.ones(len(targets))
    if rule.code == THRESHOLDED_HALF_SQUARED:
        # a step of at most 1 over the squared norm never overshoots a squared residual, however far out a row lies
        cautions /= np.maximum(1.0, np.einsum("ij,ij->i", block.left, block.left, dtype=np.float64))
    learn_team(said, team, block, targets, cautions, rule, seen)


def _learn_in_turns(
    said: Said,
    group: Group,
    candidates: Candidates,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    rule: ExpertRule,
    seen: int,
    n_threads: int,
) -> None:
    """One map: threads compute features ahead."""
    fourier, turns, team = candidates.fourier(*group.candidates[0]), new_turns(), _team(group)
    n_threads = max(1, min(n_threads, len(inputs) // LEAST_ROWS, -(-len(inputs) // fourier.rows_per_block)))

    def run(thread: int) -> None:
        with borrowed_block(fourier.rows_per_block, fourier.widths, inputs.dtype) as block:
            learn_team_in_turns(said, team, turns, block, inputs, targets, fourier.waves, rule, seen, thread, n_threads)

    with one_blas_thread():
        run_threads(n_threads, run, partial(give_up_turns, turns))


def _learn_apart(
    heard: Words,
    group: Group,
    candidates: Candidates,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    rule: ExpertRule,
    seen: int,
    n_threads: int,
) -> None:
    """Several maps: each thread takes some of them."""
    base, octave = np.array(group.candidates, dtype=np.int64).T.copy()
    waves = candidates.fourier(0, 0).waves
    arrays = (group.weights, group.pulls, group.squares, group.steps)
    teams = Teams(*arrays, base, octave, candidates.panels, waves.amplitude)
    edges = (
        np.linspace(0, len(base), max(1, min(n_threads, len(base), len(base) * len(inputs) // LEAST_ROWS)) + 1)
        .astype(int)
        .tolist()
    )
    parts = list(pairwise(edges))
    fourier = candidates.bases[0]

    def run(thread: int) -> None:
        with borrowed_block(fourier.rows_per_block, fourier.widths, inputs.dtype) as block:
            learn_teams(*heard, teams, block, inputs, targets, rule, seen, *parts[thread])

    run_threads(len(parts), run)
