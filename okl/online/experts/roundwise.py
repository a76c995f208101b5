"""Rows through all experts of a round, in place: each group says its words and learns, then the words are mixed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.compiled.crew import Crew
from okl.compiled.expertlearning import learn_team
from okl.compiled.expertmaps import Mixture
from okl.compiled.experts import ExpertRule, Said, Team
from okl.compiled.hedge import Hedge
from okl.compiled.mixing import Counted, mix_rows, new_memo
from okl.compiled.steplosses import THRESHOLDED_HALF_SQUARED
from okl.features.scoring import block_of
from okl.online.experts.candidates import Candidates
from okl.online.experts.fourierturns import Words, learn_fourier
from okl.online.experts.state import Experts, Group
from okl.types import FloatArray

STRETCH_ROWS = 32768  # bounds the memory of what is said; a multiple of every block


def learn_round(
    experts: Experts,
    counted: Counted,
    candidates: Candidates,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    rule: ExpertRule,
    seen: int,
    n_threads: int,
    crew: Crew,
) -> None:
    """Rows of one round; the arrays of experts, and counted, change in place. Same bits for any number of threads.

    Words of one map are mixed block by block, those of several after a stretch is learnt: a third thread that wants two
    cores cost more than it gained.

    seen : rows before these; crew : the threads
    """
    hedge = Hedge(experts.losses, experts.recent, experts.numbers)
    memo = new_memo(len(experts.losses), len(counted.class_counts))
    mixture = Mixture(counted, hedge, memo, experts.n_maps == 1 and experts.groups[0].kind == "fourier")
    for first in range(0, len(targets), STRETCH_ROWS):
        part = slice(first, first + STRETCH_ROWS)
        words, stepped = _said(
            experts, candidates, inputs[part], targets[part], rule, seen + first, n_threads, crew, mixture
        )
        if not mixture.complete:
            mix_rows(counted, hedge, memo, words, stepped, targets[part], rule.class_weights, rule.code)


def _said(
    experts: Experts,
    candidates: Candidates,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    rule: ExpertRule,
    seen: int,
    n_threads: int,
    crew: Crew,
    mixture: Mixture,
) -> Words:
    """What all experts said of rows before they learnt them: (rows, E), and whether one stepped, (rows,)."""
    heard = [_room(group, len(targets)) for group in experts.groups]
    several = list(zip(experts.groups, heard, strict=True))
    linear = [(group, words) for group, words in several if group.kind != "fourier"]
    fourier = [(group, words) for group, words in several if group.kind == "fourier"]

    def learn_linear() -> None:
        if linear:
            _learn_linear(linear, candidates, inputs, targets, rule, seen)

    for group, words in fourier:
        learn_fourier(words, group, candidates, inputs, targets, rule, seen, n_threads, crew, mixture, learn_linear)
    if not fourier:
        learn_linear()
    said = [words.transpose(1, 0, 2, 3).reshape(len(targets), -1) for words, _ in heard]
    stepped = np.concatenate([steps for _, steps in heard]).max(axis=0)
    return np.ascontiguousarray(np.concatenate(said, axis=1) if len(said) > 1 else said[0]), stepped


def _room(group: Group, n_rows: int) -> Words:
    """Room for what M maps with T step sizes say: (M, rows, T, 2), and whether they step, (M, rows)."""
    n_maps, n_steps = group.steps.shape
    return np.empty((n_maps, n_rows, n_steps, 2)), np.empty((n_maps, n_rows), dtype=np.uint8)


def _learn_linear(
    groups: list[tuple[Group, Words]],
    candidates: Candidates,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    rule: ExpertRule,
    seen: int,
) -> None:
    """Groups of the linear map, whose features are computed once."""
    assert candidates.linear is not None
    block = block_of(candidates.linear.transform(inputs))
    cautions = np.ones(len(targets))
    if rule.code == THRESHOLDED_HALF_SQUARED:
        # a step of at most 1 over the squared norm never overshoots a squared residual, however far out a row lies
        cautions /= np.maximum(1.0, np.einsum("ij,ij->i", block.left, block.left, dtype=np.float64))
    for group, (words, stepped) in groups:
        team = Team(group.weights[0], group.pulls[0], group.squares[0], group.steps[0])
        learn_team(Said(words[0], stepped[0]), team, block, targets, cautions, rule, seen)
