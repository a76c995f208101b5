"""Steps of fixed size, four rows at a time: as exact as one after the other, at a third of the time.

The weights before the first of four rows score all of them, so that what is loaded of a vector serves four products.
What the rows before it in the four have changed is added to a score by the product of their features. When all four
have been decided, the weights take their sum.

    f_r = w'z_r + sum_(e<r) m_e z_e'z_r,    w <- w + sum_e m_e z_e,    m_e the move of row e, for each output

Pulls go the same way, with moves times the age of their row. Legend as in okl.compiled.experts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import Block
from okl.compiled.door import compiled, compiled_row
from okl.compiled.expertfours import FOUR, add_earlier, pair_four, score_four, take_four
from okl.compiled.experts import AVERAGED, LAST, ExpertRule, Said, Team, age_of, push_of, word_of, wrong_output
from okl.types import FloatArray


class Room(NamedTuple):
    """Scratch for four rows, overwritten.

    scores, averaged : (4, K); gram : (4, 4), products of features, above the diagonal; moves, ages : (4,), all float64
    outputs : (4, 2) int64, those that a move is added to and taken from, -1 for none
    shares : (2, 4), what four rows add to the weights and the pulls of an output, in their precision
    """

    scores: NDArray[np.float64]
    averaged: NDArray[np.float64]
    gram: NDArray[np.float64]
    moves: NDArray[np.float64]
    ages: NDArray[np.float64]
    outputs: NDArray[np.int64]
    shares: FloatArray


@compiled
def new_room(weights: FloatArray) -> Room:
    """Scratch for a team of such weights (T, K, H, n)."""
    scores, averaged, gram = (
        np.empty((FOUR, weights.shape[1])),
        np.empty((FOUR, weights.shape[1])),
        np.empty((FOUR, FOUR)),
    )
    moves, ages, outputs = np.empty(FOUR), np.empty(FOUR), np.empty((FOUR, 2), dtype=np.int64)
    return Room(scores, averaged, gram, moves, ages, outputs, np.empty((2, FOUR), dtype=weights.dtype))


@compiled_row
def learn_steps(
    said: Said,
    team: Team,
    room: Room,
    block: Block,
    targets: NDArray[np.float64],
    cautions: FloatArray,
    rule: ExpertRule,
    seen: int,
) -> None:
    """Every learner of a team says its words on the rows of a block, then learns them; said, team and room change."""
    # tuples are taken apart before the loop: handing them on in it costs as much as a dot product
    words, stepped = said
    weights, pulls, _, steps = team
    scores, averaged, gram, moves, ages, outputs, shares = room
    lefts, rights = block
    code, epsilon, class_weights = rule
    n_rows, n_outputs = targets.shape[0], weights.shape[1]
    for first in range(0, n_rows, FOUR):
        # beyond the end the last row comes again, with moves of 0
        a, b, c, d = first, min(first + 1, n_rows - 1), min(first + 2, n_rows - 1), min(first + 3, n_rows - 1)
        count, paired = min(FOUR, n_rows - first), False
        for i in range(FOUR):
            ages[i] = age_of(seen + first + i)
        for i in range(count):
            stepped[first + i] = 0
        for t in range(weights.shape[0]):
            for k in range(n_outputs):
                score_four(scores, averaged, weights, pulls, t, k, lefts, rights, a, b, c, d)
            moves[:] = 0.0
            moved = False
            for i in range(count):
                row = first + i
                y = targets[row]
                if moved:
                    if not paired:
                        pair_four(gram, lefts, rights, a, b, c, d)
                        paired = True
                    add_earlier(scores, averaged, gram, moves, ages, outputs, i)
                for k in range(n_outputs):
                    share = averaged[i, k] / ages[i] if ages[i] > 0.0 else 0.0
                    averaged[i, k] = scores[i, k] - share
                words[row, t, LAST], words[row, t, AVERAGED] = word_of(scores, i), word_of(averaged, i)
                true = int(y) if n_outputs > 1 else 0
                wrong = wrong_output(scores, i, true)
                push = push_of(scores, i, y, wrong, code, epsilon, class_weights)
                if push != 0.0:
                    moved = True
                    stepped[row] = 1
                    moves[i], outputs[i, 0], outputs[i, 1] = cautions[row] * steps[t] * push, true, wrong
            if moved:
                take_four(weights, pulls, t, lefts, rights, a, b, c, d, moves, ages, outputs, shares)
