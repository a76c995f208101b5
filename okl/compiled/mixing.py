"""The mixture of experts, row by row: it predicts by their weighted words, is counted, and charges them.

Legend as in okl.compiled.hedge, whose weights these are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.counting import ROWS, UPDATES, count_binary, count_class, count_squares
from okl.compiled.door import compiled_row
from okl.compiled.hedge import GAP, HIGHEST, LOWEST, Hedge, mixability_gap, weigh
from okl.compiled.steplosses import MULTICLASS_HINGE, THRESHOLDED_HALF_SQUARED

ETA, UNEQUAL = 0, 1
SQUARES_AT_ONCE = 8  # rows of a regression between two changes of the weights; divides a block


class Memo(NamedTuple):
    """What the mixture keeps from row to row, however rows are cut, changed in place.

    p, loss, together : (E,); votes : (n_classes,); numbers : (2,), at ETA, and at UNEQUAL whether weights are to change
    """

    p: NDArray[np.float64]
    loss: NDArray[np.float64]
    together: NDArray[np.float64]
    votes: NDArray[np.float64]
    numbers: NDArray[np.float64]


class Counted(NamedTuple):
    """counts, sums, class_counts as in okl.compiled.counting, changed in place."""

    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    class_counts: NDArray[np.int64]


def new_memo(n_experts: int, n_labels: int) -> Memo:
    """For so many experts: weights are to be found at the first row."""
    doubles = np.zeros((3, n_experts))
    return Memo(doubles[0], doubles[1], doubles[2], np.zeros(n_labels), np.array([math.inf, 1.0]))


@compiled_row
def _hear_sign(
    p: NDArray[np.float64], loss: NDArray[np.float64], words: NDArray[np.float64], row: int, y: float
) -> float:
    vote = 0.0
    for e in range(p.shape[0]):
        positive = words[row, e] >= 0.0
        vote += p[e] if positive else -p[e]
        loss[e] = 1.0 if positive != (y > 0.0) else 0.0
    return vote


@compiled_row
def _hear_class(
    votes: NDArray[np.float64],
    p: NDArray[np.float64],
    loss: NDArray[np.float64],
    words: NDArray[np.float64],
    row: int,
    y: float,
) -> None:
    for k in range(votes.shape[0]):
        votes[k] = 0.0
    for e in range(p.shape[0]):
        word = words[row, e]
        if not math.isnan(word):
            votes[int(word)] += p[e]
        loss[e] = 1.0 if word != y else 0.0


@compiled_row
def _hear_number(
    p: NDArray[np.float64],
    loss: NDArray[np.float64],
    words: NDArray[np.float64],
    row: int,
    y: float,
    lowest: float,
    highest: float,
) -> float:
    mean = 0.0
    for e in range(p.shape[0]):
        word = words[row, e]
        word = 0.0 if math.isnan(word) else min(max(word, lowest), highest)
        mean += p[e] * word
        loss[e] = (word - y) * (word - y)
    return mean


@compiled_row
def _charge(
    losses: NDArray[np.float64],
    recent: NDArray[np.float64],
    loss: NDArray[np.float64],
    words: NDArray[np.float64],
    row: int,
) -> bool:
    """Add what every expert lost; whether one lost more than another."""
    unequal = False
    for e in range(losses.shape[0]):
        lost = math.inf if math.isnan(words[row, e]) else loss[e]
        unequal = unequal or lost != loss[0]
        losses[e] += lost
        recent[e] += lost
    return unequal


@compiled_row
def _scale(loss: NDArray[np.float64], factor: float) -> None:
    for e in range(loss.shape[0]):
        loss[e] *= factor


@compiled_row
def _add(total: NDArray[np.float64], loss: NDArray[np.float64]) -> None:
    for e in range(total.shape[0]):
        total[e] += loss[e]


@compiled_row
def _mix_numbers(
    counted: Counted,
    hedge: Hedge,
    memo: Memo,
    words: NDArray[np.float64],
    stepped: NDArray[np.uint8],
    targets: NDArray[np.float64],
    weight: float,
) -> None:
    counts, sums, class_counts = counted
    losses, recent, numbers = hedge
    p, loss, together, _, _ = memo
    log_experts, n_rows, eta = math.log(p.shape[0]), targets.shape[0], math.inf
    for row in range(n_rows):
        y = targets[row]
        if row % SQUARES_AT_ONCE == 0:
            eta = log_experts / numbers[GAP] if numbers[GAP] > 0.0 else math.inf
            weigh(p, losses, eta)
        f = _hear_number(p, loss, words, row, y, numbers[LOWEST], numbers[HIGHEST])
        numbers[LOWEST], numbers[HIGHEST] = min(numbers[LOWEST], y), max(numbers[HIGHEST], y)
        count_squares(sums, class_counts, f, y)
        if weight != 1.0:
            _scale(loss, weight)
        _add(together, loss)
        _charge(losses, recent, loss, words, row)
        if (row + 1) % SQUARES_AT_ONCE == 0 or row + 1 == n_rows:
            numbers[GAP] += mixability_gap(p, together, eta)
            for e in range(together.shape[0]):
                together[e] = 0.0
        counts[ROWS] += 1
        counts[UPDATES] += stepped[row]


@compiled_row
def _mix_votes(
    counted: Counted,
    hedge: Hedge,
    memo: Memo,
    words: NDArray[np.float64],
    stepped: NDArray[np.uint8],
    targets: NDArray[np.float64],
    class_weights: NDArray[np.float64],
    code: int,
) -> None:
    counts, _, class_counts = counted
    losses, recent, numbers = hedge
    p, loss, _, votes, kept = memo
    log_experts, eta, unequal = math.log(p.shape[0]), kept[ETA], kept[UNEQUAL] != 0.0
    for row in range(targets.shape[0]):
        y = targets[row]
        if unequal:
            eta = log_experts / numbers[GAP] if numbers[GAP] > 0.0 else math.inf
            weigh(p, losses, eta)
        if code == MULTICLASS_HINGE:
            _hear_class(votes, p, loss, words, row, y)
            label = int(y)
            count_class(counts, class_counts, votes, label)
        else:
            label = count_binary(counts, class_counts, _hear_sign(p, loss, words, row, y), y)
        if class_weights[label] != 1.0:
            _scale(loss, class_weights[label])
        # where all lost the same, no weight changes: most rows of a classification
        unequal = _charge(losses, recent, loss, words, row)
        if unequal:
            numbers[GAP] += mixability_gap(p, loss, eta)
        counts[ROWS] += 1
        counts[UPDATES] += stepped[row]
    kept[ETA], kept[UNEQUAL] = eta, 1.0 if unequal else 0.0


@compiled_row
def mix_rows(
    counted: Counted,
    hedge: Hedge,
    memo: Memo,
    words: NDArray[np.float64],
    stepped: NDArray[np.uint8],
    targets: NDArray[np.float64],
    class_weights: NDArray[np.float64],
    code: int,
) -> None:
    """Predict every row by the experts' weighted words, count it, then charge the experts; the first three change.

    Two classes and several: a vote, a mistake costs the class's weight. Regression: the mean of the words, each clipped
    to the range of the targets so far; a word costs its squared error. A word that is NaN ends its expert.

    Weights change after every row; in regression, where hardly any two words cost the same, after every eighth, whose
    losses count as one: as AdaHedge bounds the regret of any sequence of losses, whatever their range.

    words : (rows, E), E >= 2; stepped : (rows,); class_weights : (n_classes,), (1,) for regression
    """
    if code == THRESHOLDED_HALF_SQUARED:
        _mix_numbers(counted, hedge, memo, words, stepped, targets, class_weights[0])
    else:
        _mix_votes(counted, hedge, memo, words, stepped, targets, class_weights, code)
