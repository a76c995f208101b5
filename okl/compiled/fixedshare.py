"""Fixed Share: experts speak, their words are weighed, and a little weight is shared out after every row.

Weights that only fell would forget an expert for good; what is shared keeps each within reach, so that the mixture
follows whoever predicts best of late, on rows that change.

Legend: E experts, p their weights, l their losses on a row, within [0, 1], eta the learning rate, alpha the share.

    v_e = p_e exp(-eta c l_e) / sum,    p_e <- (1 - alpha) v_e + alpha (1 - v_e) / (E - 1)

Source: Herbster & Warmuth, Machine Learning 32, 1998, Figure 1 (share update) and section 5.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.counting import ROWS, SURROGATE, UPDATES, count_binary, count_class, count_squares
from okl.compiled.door import compiled_row
from okl.compiled.exponential import exp_negative
from okl.compiled.mixing import Counted
from okl.compiled.steplosses import MULTICLASS_HINGE, THRESHOLDED_HALF_SQUARED, loss_value
from okl.types import FloatArray

LOWEST, HIGHEST = 0, 1


class Shares(NamedTuple):
    """What the mixture remembers, changed in place, float64.

    p : (E,), weights, which sum to 1; mistakes : (E,), sums of losses, infinite once an expert diverged
    numbers : (2,), at LOWEST and HIGHEST: the range of the targets of a regression so far, 0 included
    loss, votes : (E,) and (n_classes,), scratch
    """

    p: FloatArray
    mistakes: FloatArray
    numbers: FloatArray
    loss: FloatArray
    votes: FloatArray


class ShareRule(NamedTuple):
    """eta, alpha : as above; code, epsilon : the loss of okl.losses; class_weights : (n_classes,) float64, c above."""

    eta: float
    alpha: float
    code: int
    epsilon: float
    class_weights: NDArray[np.float64]


@compiled_row
def _share_out(p: FloatArray, mistakes: FloatArray, loss: FloatArray, eta: float, alpha: float, weight: float) -> None:
    """Weigh by the losses of a row, each times the class's weight, then share."""
    total, n_alive = 0.0, 0
    for e in range(p.shape[0]):
        if mistakes[e] == math.inf:
            p[e] = 0.0
        else:
            n_alive += 1
            if loss[e] != 0.0:
                p[e] *= exp_negative(-eta * weight * loss[e])  # type: ignore[no-untyped-call]
            total += p[e]
    if n_alive > 1 and total > 0.0:
        each = alpha / (n_alive - 1)
        for e in range(p.shape[0]):
            if mistakes[e] != math.inf:
                v = p[e] / total
                p[e] = (1.0 - alpha) * v + each * (1.0 - v)
    elif n_alive > 0:
        for e in range(p.shape[0]):
            p[e] = 1.0 / n_alive if mistakes[e] != math.inf else 0.0


@compiled_row
def _hear_scores(p: FloatArray, loss: FloatArray, words: NDArray[np.float64], row: int, y: float) -> float:
    """The mean of scores; an expert whose sign is wrong loses 1."""
    mean = 0.0
    for e in range(p.shape[0]):
        word = words[row, e]
        if math.isnan(word):
            loss[e] = math.inf
        else:
            mean += p[e] * word
            loss[e] = 1.0 if (word >= 0.0) != (y > 0.0) else 0.0
    return mean


@compiled_row
def _hear_classes(
    votes: FloatArray, p: FloatArray, loss: FloatArray, words: NDArray[np.float64], row: int, y: float
) -> None:
    for k in range(votes.shape[0]):
        votes[k] = 0.0
    for e in range(p.shape[0]):
        word = words[row, e]
        if math.isnan(word):
            loss[e] = math.inf
        else:
            votes[int(word)] += p[e]
            loss[e] = 1.0 if word != y else 0.0


@compiled_row
def _hear_numbers(
    p: FloatArray, loss: FloatArray, words: NDArray[np.float64], row: int, y: float, lowest: float, highest: float
) -> float:
    """The mean of words clipped to the range of the targets; an expert loses its squared error in units of the range.

    The range is that before the row for the words, and with the row for the loss, which is so at most 1.
    """
    mean, width = 0.0, max(highest, y) - min(lowest, y)
    unit = 1.0 / (width * width) if width > 0.0 else 0.0
    for e in range(p.shape[0]):
        if math.isnan(words[row, e]):
            loss[e] = math.inf
        else:
            word = min(max(words[row, e], lowest), highest)
            mean += p[e] * word
            loss[e] = (word - y) * (word - y) * unit
    return mean


@compiled_row
def share_rows(
    counted: Counted,
    shares: Shares,
    words: NDArray[np.float64],
    stepped: NDArray[np.uint8],
    targets: NDArray[np.float64],
    rule: ShareRule,
) -> None:
    """Predict every row by the weighed words, count it, then weigh and share; the first two change in place.

    Two classes: the mean of the scores, whose sign is predicted, so that a mean of weights says the same; an expert
    loses 1 for a wrong sign, and the loss of the mean is summed at SURROGATE. Several classes: a vote. Regression: the
    mean of the words, each clipped to the range of the targets so far; an expert loses its squared error over the
    squared range. A word that is NaN ends its expert, whose loss is infinite from there on.

    words : (rows, E), E >= 2; stepped : (rows,); targets : (rows,)
    """
    counts, sums, class_counts = counted
    p, mistakes, numbers, loss, votes = shares
    eta, alpha, code, epsilon, class_weights = rule
    for row in range(targets.shape[0]):
        y, label = targets[row], 0
        if code == MULTICLASS_HINGE:
            _hear_classes(votes, p, loss, words, row, y)
            label = int(y)
            count_class(counts, class_counts, votes, label)
        elif code == THRESHOLDED_HALF_SQUARED:
            f = _hear_numbers(p, loss, words, row, y, numbers[LOWEST], numbers[HIGHEST])
            numbers[LOWEST], numbers[HIGHEST] = min(numbers[LOWEST], y), max(numbers[HIGHEST], y)
            count_squares(sums, class_counts, f, y)
        else:
            f = _hear_scores(p, loss, words, row, y)
            label = count_binary(counts, class_counts, f, y)
            sums[SURROGATE] += class_weights[label] * loss_value(code, epsilon, f, y)
        for e in range(p.shape[0]):
            mistakes[e] += loss[e]
        _share_out(p, mistakes, loss, eta, alpha, class_weights[label])
        counts[ROWS] += 1
        counts[UPDATES] += stepped[row]
