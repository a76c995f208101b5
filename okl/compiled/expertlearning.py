"""A team of experts learns rows: by steps of fixed size, or by AdaGrad's, row by row.

Legend as in okl.compiled.experts.

Source: Duchi, Hazan & Singer, JMLR 12, 2011, section 1.1 (AdaGrad).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import Block
from okl.compiled.door import compiled, compiled_row, compiled_row_sum
from okl.compiled.experts import AVERAGED, LAST, ExpertRule, Said, Team, age_of, push_of, word_of, wrong_output
from okl.compiled.expertsteps import Room, learn_steps, new_room
from okl.types import FloatArray

_LEAST_SQUARE = 1e-30


@compiled_row_sum
def score_row(
    scores: NDArray[np.float64],
    averaged: NDArray[np.float64],
    weights: FloatArray,
    pulls: FloatArray,
    t: int,
    lefts: FloatArray,
    rights: FloatArray,
    row: int,
    age: float,
) -> None:
    """Overwrite scores[0] and averaged[0] (K,) by those of a row by the last and the averaged weights."""
    for k in range(weights.shape[1]):
        f, h = weights.dtype.type(0), weights.dtype.type(0)
        for j in range(lefts.shape[1]):
            f += weights[t, k, 0, j] * lefts[row, j]
            h += pulls[t, k, 0, j] * lefts[row, j]
        for j in range(rights.shape[1]):
            f += weights[t, k, 1, j] * rights[row, j]
            h += pulls[t, k, 1, j] * rights[row, j]
        scores[0, k] = f
        averaged[0, k] = scores[0, k] - np.float64(h) / age if age > 0.0 else scores[0, k]


@compiled_row
def adagrad_row(
    weights: FloatArray,
    pulls: FloatArray,
    squares: FloatArray,
    t: int,
    k: int,
    lefts: FloatArray,
    rights: FloatArray,
    row: int,
    push: np.floating[Any],
    step: np.floating[Any],
    age: np.floating[Any],
) -> None:
    """Step along push * z, each column in the size of its own gradients; changes the first three in place."""
    least = weights.dtype.type(_LEAST_SQUARE)
    for half in range(weights.shape[2]):
        part = lefts if half == 0 else rights
        for j in range(part.shape[1]):
            ascent = push * part[row, j]
            square = squares[t, k, half, j] + ascent * ascent
            squares[t, k, half, j] = square
            change = step * ascent / np.sqrt(square + least)
            weights[t, k, half, j] += change
            pulls[t, k, half, j] += age * change


@compiled_row
def learn_adaptively(
    said: Said,
    team: Team,
    room: Room,
    block: Block,
    targets: NDArray[np.float64],
    cautions: FloatArray,
    rule: ExpertRule,
    seen: int,
) -> None:
    """As `learn_steps`, with AdaGrad's steps; said, team and room change in place."""
    words, stepped = said
    weights, pulls, squares, steps = team
    lefts, rights = block
    scores, averaged = room.scores, room.averaged
    code, epsilon, class_weights = rule
    kind, several = weights.dtype.type, weights.shape[1] > 1
    for row in range(targets.shape[0]):
        y, age = targets[row], age_of(seen + row)
        true = int(y) if several else 0
        stepped[row] = 0
        for t in range(weights.shape[0]):
            score_row(scores, averaged, weights, pulls, t, lefts, rights, row, age)
            words[row, t, LAST], words[row, t, AVERAGED] = word_of(scores, 0), word_of(averaged, 0)
            wrong = wrong_output(scores, 0, true)
            push = push_of(scores, 0, y, wrong, code, epsilon, class_weights)
            if push != 0.0:
                stepped[row] = 1
                pushed, step, aged = kind(push), kind(cautions[row] * steps[t]), kind(age)
                adagrad_row(weights, pulls, squares, t, true, lefts, rights, row, pushed, step, aged)
                if wrong >= 0:
                    adagrad_row(weights, pulls, squares, t, wrong, lefts, rights, row, -pushed, step, aged)


@compiled
def learn_team(
    said: Said,
    team: Team,
    block: Block,
    targets: NDArray[np.float64],
    cautions: FloatArray,
    rule: ExpertRule,
    seen: int,
) -> None:
    """Every learner of a team says its word on a row, then learns it; said and team change in place.

    cautions : (rows,) float64, factors of steps; seen : rows that the team has learnt before
    """
    room = new_room(team.weights)
    if team.squares.shape[0] > 0:
        learn_adaptively(said, team, room, block, targets, cautions, rule, seen)
    else:
        learn_steps(said, team, room, block, targets, cautions, rule, seen)
