"""Learners of one feature map that differ in their step size, side by side: each a pair of experts, last and averaged.

The weights after rows 1, 2, ... are averaged with weights that grow as the third power of the row's number. The average
is never formed: with s_i = i^4 it is w_n - pull_n / s_n, pull_n = sum_i s_(i-1) (w_i - w_(i-1)), as summation by parts
shows, so that a row which leaves the weights alone costs nothing.

Legend: K outputs, T step sizes; w weights, u pulls, q sums of squared gradients, z features, y target, f score.

Source: Lu et al., JMLR 17(47), 2016, Algorithms 1, 3 and 5 (steps); Shamir & Zhang, ICML 2013, section 4 (averages that
favour late rows).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled_row
from okl.compiled.steplosses import MULTICLASS_HINGE, slope
from okl.types import FloatArray

LAST, AVERAGED = 0, 1
_AGE_UNIT = 2.0**-20  # rows in millions: the fourth power of a billion rows still fits float32


class Team(NamedTuple):
    """What learns in one map, changed in place: (T, K, H, n_columns / H) each.

    H : halves of a block: 2 or, if the second is empty, 1
    weights : after the last row; pulls : see above; squares : of AdaGrad, (0, 0, 0, 0) for steps of fixed size
    steps : (T,) float64, step sizes on the map's scale
    """

    weights: FloatArray
    pulls: FloatArray
    squares: FloatArray
    steps: NDArray[np.float64]


class Said(NamedTuple):
    """What experts said of rows before they learnt them, overwritten.

    words : (rows, T, 2) float64, at LAST and AVERAGED: scores, or the class for several; NaN for a score that is not
    finite; stepped : (rows,) uint8, whether any weights changed
    """

    words: NDArray[np.float64]
    stepped: NDArray[np.uint8]


class ExpertRule(NamedTuple):
    """code, epsilon : the loss of okl.losses; class_weights : (n_classes,) float64, factors of steps and losses."""

    code: int
    epsilon: float
    class_weights: NDArray[np.float64]


@compiled_row
def age_of(seen: int) -> float:
    """s_i = i^4 after `seen` rows, in a unit that keeps it within float32."""
    millions = seen * _AGE_UNIT
    return millions * millions * millions * millions


@compiled_row
def word_of(scores: NDArray[np.float64], row: int) -> float:
    """The score of one output, or the index of the largest of several, the first on a tie; NaN if one is not finite."""
    best, total = 0, scores[row, 0]
    for k in range(1, scores.shape[1]):
        total += scores[row, k]
        if scores[row, k] > scores[row, best]:
            best = k
    if not np.isfinite(total):
        return np.nan
    return np.float64(best) if scores.shape[1] > 1 else total


@compiled_row
def wrong_output(scores: NDArray[np.float64], row: int, true: int) -> int:
    """Index of the largest of scores[row] that is not the true class's, the first on a tie; -1 for one output."""
    if scores.shape[1] == 1:
        return -1
    best = 0 if true != 0 else 1
    for k in range(best + 1, scores.shape[1]):
        if k != true and scores[row, k] > scores[row, best]:
            best = k
    return best


@compiled_row
def push_of(
    scores: NDArray[np.float64],
    row: int,
    y: float,
    wrong: int,
    code: int,
    epsilon: float,
    class_weights: NDArray[np.float64],
) -> float:
    """Minus the loss's derivative by the score of the true output, times the class's weight; 0 for no step.

    A step of s adds s * push * z to the weights of the true output, and takes it from those of the wrong one, if any.
    """
    if code == MULTICLASS_HINGE:
        true = int(y)
        weight: float = class_weights[true]
        return weight if scores[row, true] - scores[row, wrong] < 1.0 else 0.0
    push: float = -class_weights[class_weights.shape[0] - 1 if y > 0.0 else 0] * slope(code, epsilon, scores[row, 0], y)
    return push
