"""Weights of experts: AdaHedge and Fixed Share."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.jit import compiled_row, nested_row
from okl.compiled.math import exp_negative
from okl.compiled.sgd import (
    MULTICLASS_HINGE,
    ROWS,
    SURROGATE,
    THRESHOLDED_HALF_SQUARED,
    UPDATES,
    count_binary,
    count_class,
    count_squares,
    loss_value,
)
from okl.foundation.types import Doubles, Integers

# AdaHedge: exponential weights with a learning rate tuned online.
#
# Legend: E experts, L their cumulative losses, eta the learning rate, p = exp(-eta L) / sum their weights, gap the
# cumulative difference between the loss of the mixture, p'l, and the mix loss -log(p'exp(-eta l)) / eta.
#
# Source: de Rooij, van Erven, Gruenwald & Koolen, JMLR 15, 2014, section 2, equations (5) to (8): eta = ln(E) / gap.


GAP, LOWEST, HIGHEST = 0, 1, 2


class AdaHedgeState(NamedTuple):
    """State of AdaHedge, changed in place, float64.

    losses, recent : (E,), cumulative losses, infinite for experts that diverged; those of late
    numbers : (3,), at GAP, LOWEST and HIGHEST: the range of the targets so far, 0 included
    """

    losses: Doubles
    recent: Doubles
    numbers: Doubles


@compiled_row
def weigh(p: Doubles, losses: Doubles, eta: float) -> None:
    """Overwrite p (E,) by the weights of experts; equal among the best at an infinite rate."""
    lowest, total = math.inf, 0.0
    for e in range(p.shape[0]):
        lowest = min(lowest, losses[e])
    if eta == math.inf:
        for e in range(p.shape[0]):
            p[e] = 1.0 if losses[e] == lowest else 0.0
    else:
        for e in range(p.shape[0]):
            p[e] = exp_negative(-eta * (losses[e] - lowest))  # type: ignore[no-untyped-call]
    for e in range(p.shape[0]):
        total += p[e]
    share = 1.0 / total
    for e in range(p.shape[0]):
        p[e] *= share


@compiled_row
def mixability_gap(p: Doubles, loss: Doubles, eta: float) -> float:
    """Return the loss of the mixture minus the mix loss on a row, >= 0; loss (E,) is finite."""
    mean, least = 0.0, math.inf
    for e in range(p.shape[0]):
        mean += p[e] * loss[e]
        # where p is 0 the loss is left out, as of experts that diverged
        least = min(least, loss[e] if p[e] > 0.0 else math.inf)
    if eta == math.inf:
        return mean - least
    total = 0.0
    for e in range(p.shape[0]):
        total += p[e] * exp_negative(-eta * max(0.0, loss[e] - least))  # type: ignore[no-untyped-call]
    return max(0.0, mean - least + math.log(total) / eta)


# The mixture of experts, row by row: prediction, counters and losses.
#
# Legend as in okl.compiled.expert_weights, whose weights these are.

ETA, UNEQUAL = 0, 1
SQUARES_AT_ONCE = 8  # rows of a regression between two changes of the weights; divides a block


class MixtureMemory(NamedTuple):
    """State of the mixture between rows, independent of how rows are cut into blocks, changed in place.

    p, loss, together : (E,); votes : (n_classes,); numbers : (2,), at ETA, and at UNEQUAL whether weights are to change
    """

    p: Doubles
    loss: Doubles
    together: Doubles
    votes: Doubles
    numbers: Doubles


class MixtureCounters(NamedTuple):
    """counts, sums, class_counts as in okl.compiled.sgd, changed in place."""

    counts: Integers
    sums: Doubles
    class_counts: Integers


class ExpertRule(NamedTuple):
    """code, epsilon : the loss of okl.losses; class_weights : (n_classes,) float64, factors of steps and losses."""

    code: int
    epsilon: float
    class_weights: Doubles


class Mixture(NamedTuple):
    """State that `mix_rows` changes in place; complete : whether there is one team only, mixed at once."""

    counted: MixtureCounters
    hedge: AdaHedgeState
    memo: MixtureMemory
    complete: bool


def new_mixture_memory(n_experts: int, n_labels: int) -> MixtureMemory:
    """Return an empty memo for a number of experts; weights are computed at the first row."""
    doubles = np.zeros((3, n_experts))
    return MixtureMemory(doubles[0], doubles[1], doubles[2], np.zeros(n_labels), np.array([math.inf, 1.0]))


@nested_row
def _vote_of_signs(p: Doubles, loss: Doubles, predictions: Doubles, row: int, y: float) -> float:
    vote = 0.0
    for e in range(p.shape[0]):
        positive = predictions[row, e] >= 0.0
        vote += p[e] if positive else -p[e]
        loss[e] = 1.0 if positive != (y > 0.0) else 0.0
    return vote


@nested_row
def _votes_of_classes(votes: Doubles, p: Doubles, loss: Doubles, predictions: Doubles, row: int, y: float) -> None:
    for k in range(votes.shape[0]):
        votes[k] = 0.0
    for e in range(p.shape[0]):
        prediction = predictions[row, e]
        if not math.isnan(prediction):
            votes[int(prediction)] += p[e]
        loss[e] = 1.0 if prediction != y else 0.0


@nested_row
def _clipped_mean(
    p: Doubles, loss: Doubles, predictions: Doubles, row: int, y: float, lowest: float, highest: float
) -> float:
    mean = 0.0
    for e in range(p.shape[0]):
        prediction = predictions[row, e]
        prediction = 0.0 if math.isnan(prediction) else min(max(prediction, lowest), highest)
        mean += p[e] * prediction
        loss[e] = (prediction - y) * (prediction - y)
    return mean


@nested_row
def _charge(losses: Doubles, recent: Doubles, loss: Doubles, predictions: Doubles, row: int) -> bool:
    """Add what every expert lost; whether one lost more than another."""
    unequal = False
    for e in range(losses.shape[0]):
        lost = math.inf if math.isnan(predictions[row, e]) else loss[e]
        unequal = unequal or lost != loss[0]
        losses[e] += lost
        recent[e] += lost
    return unequal


@nested_row
def _scale(loss: Doubles, factor: float) -> None:
    for e in range(loss.shape[0]):
        loss[e] *= factor


@nested_row
def _add(total: Doubles, loss: Doubles) -> None:
    for e in range(total.shape[0]):
        total[e] += loss[e]


@nested_row
def _mix_numbers(
    mixture: Mixture, predictions: Doubles, stepped: NDArray[np.uint8], targets: Doubles, rule: ExpertRule
) -> None:
    counts, sums, class_counts = mixture.counted
    losses, recent, numbers = mixture.hedge
    p, loss, together, _, _ = mixture.memo
    weight = rule.class_weights[0]
    log_experts, n_rows, eta = math.log(p.shape[0]), targets.shape[0], math.inf
    for row in range(n_rows):
        y = targets[row]
        if row % SQUARES_AT_ONCE == 0:
            eta = log_experts / numbers[GAP] if numbers[GAP] > 0.0 else math.inf
            weigh(p, losses, eta)
        f = _clipped_mean(p, loss, predictions, row, y, numbers[LOWEST], numbers[HIGHEST])
        numbers[LOWEST], numbers[HIGHEST] = min(numbers[LOWEST], y), max(numbers[HIGHEST], y)
        count_squares(sums, class_counts, f, y)
        if weight != 1.0:
            _scale(loss, weight)
        _add(together, loss)
        _charge(losses, recent, loss, predictions, row)
        if (row + 1) % SQUARES_AT_ONCE == 0 or row + 1 == n_rows:
            numbers[GAP] += mixability_gap(p, together, eta)
            for e in range(together.shape[0]):
                together[e] = 0.0
        counts[ROWS] += 1
        counts[UPDATES] += stepped[row]


@nested_row
def _mix_votes(
    mixture: Mixture, predictions: Doubles, stepped: NDArray[np.uint8], targets: Doubles, rule: ExpertRule
) -> None:
    counts, _, class_counts = mixture.counted
    losses, recent, numbers = mixture.hedge
    p, loss, _, votes, last = mixture.memo
    code, _, class_weights = rule
    log_experts, eta, unequal = math.log(p.shape[0]), last[ETA], last[UNEQUAL] != 0.0
    for row in range(targets.shape[0]):
        y = targets[row]
        if unequal:
            eta = log_experts / numbers[GAP] if numbers[GAP] > 0.0 else math.inf
            weigh(p, losses, eta)
        if code == MULTICLASS_HINGE:
            _votes_of_classes(votes, p, loss, predictions, row, y)
            label = int(y)
            count_class(counts, class_counts, votes, label)
        else:
            label = count_binary(counts, class_counts, _vote_of_signs(p, loss, predictions, row, y), y)
        if class_weights[label] != 1.0:
            _scale(loss, class_weights[label])
        # where all lost the same, no weight changes: most rows of a classification
        unequal = _charge(losses, recent, loss, predictions, row)
        if unequal:
            numbers[GAP] += mixability_gap(p, loss, eta)
        counts[ROWS] += 1
        counts[UPDATES] += stepped[row]
    last[ETA], last[UNEQUAL] = eta, 1.0 if unequal else 0.0


@compiled_row
def mix_rows(
    mixture: Mixture, predictions: Doubles, stepped: NDArray[np.uint8], targets: Doubles, rule: ExpertRule
) -> None:
    """Predict every row by the weighted experts, count it, then add their losses; the mixture changes.

    Two classes and several: a vote; a mistake costs the weight of its class. Regression: the mean of the predictions,
    each clipped to the range of the targets so far; a prediction costs its squared error. NaN ends an expert.

    Weights change after every row; in regression, where hardly any two predictions cost the same, after every eighth,
    whose losses count as one: AdaHedge bounds the regret of any sequence of losses, whatever their range.

    predictions : (rows, E), E >= 2; stepped : (rows,); targets : (rows,)
    """
    if rule.code == THRESHOLDED_HALF_SQUARED:
        _mix_numbers(mixture, predictions, stepped, targets, rule)
    else:
        _mix_votes(mixture, predictions, stepped, targets, rule)


# Fixed Share: exponential weights that share a little weight after every row.
#
# Weights that only fell would forget an expert for good; what is shared keeps each within reach, so that the mixture
# follows the expert that predicts best on recent rows, where rows change.
#
# Legend: E experts, p their weights, l their losses on a row, within [0, 1], eta the learning rate, alpha the share.
#
#     v_e = p_e exp(-eta c l_e) / sum,    p_e <- (1 - alpha) v_e + alpha (1 - v_e) / (E - 1)
#
# Source: Herbster & Warmuth, Machine Learning 32, 1998, Figure 1 (share update) and section 5.

LOWEST_TARGET, HIGHEST_TARGET = 0, 1


class FixedShareState(NamedTuple):
    """State of Fixed Share, changed in place, float64.

    p : (E,), weights, which sum to 1; mistakes : (E,), sums of losses, infinite once an expert diverged
    numbers : (2,), at LOWEST and HIGHEST: the range of the targets of a regression so far, 0 included
    loss, votes : (E,) and (n_classes,), scratch
    """

    p: Doubles
    mistakes: Doubles
    numbers: Doubles
    loss: Doubles
    votes: Doubles


class ShareRule(NamedTuple):
    """eta, alpha : as above; code, epsilon : the loss of okl.losses; class_weights : (n_classes,) float64, c above."""

    eta: float
    alpha: float
    code: int
    epsilon: float
    class_weights: Doubles


@nested_row
def _share_out(p: Doubles, mistakes: Doubles, loss: Doubles, eta: float, alpha: float, weight: float) -> None:
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


@nested_row
def _mean_score(p: Doubles, loss: Doubles, predictions: Doubles, row: int, y: float) -> float:
    """Return the mean of scores; an expert whose sign is wrong loses 1."""
    mean = 0.0
    for e in range(p.shape[0]):
        prediction = predictions[row, e]
        if not math.isnan(prediction):
            mean += p[e] * prediction
        loss[e] = 1.0 if (prediction >= 0.0) != (y > 0.0) else 0.0
    return mean


@compiled_row
def share_rows(
    counted: MixtureCounters,
    shares: FixedShareState,
    predictions: Doubles,
    stepped: NDArray[np.uint8],
    targets: Doubles,
    rule: ShareRule,
) -> None:
    """Predict every row by the weighted experts, count it, then weigh and share; the first two change in place.

    Two classes: the sign of the mean of the scores, which is the score of the mean of the weights; an expert loses 1
    for a wrong sign, and the loss of the mean is summed at SURROGATE. Several classes: a vote. Regression: the mean of
    the predictions, each clipped to the range of the targets so far; an expert loses its squared error over the squared
    range. NaN ends an expert: its loss is infinite from there on.

    predictions : (rows, E), E >= 2; stepped : (rows,); targets : (rows,)
    """
    counts, sums, class_counts = counted
    p, mistakes, numbers, loss, votes = shares
    eta, alpha, code, epsilon, class_weights = rule
    for row in range(targets.shape[0]):
        y, label = targets[row], 0
        if code == MULTICLASS_HINGE:
            _votes_of_classes(votes, p, loss, predictions, row, y)
            label = int(y)
            count_class(counts, class_counts, votes, label)
        elif code == THRESHOLDED_HALF_SQUARED:
            # the range before the row bounds the predictions; with the row it is the unit of a loss, at most 1
            f = _clipped_mean(p, loss, predictions, row, y, numbers[LOWEST_TARGET], numbers[HIGHEST_TARGET])
            lowest, highest = min(numbers[LOWEST_TARGET], y), max(numbers[HIGHEST_TARGET], y)
            width, numbers[LOWEST_TARGET], numbers[HIGHEST_TARGET] = highest - lowest, lowest, highest
            _scale(loss, 1.0 / (width * width) if width > 0.0 else 0.0)
            count_squares(sums, class_counts, f, y)
        else:
            f = _mean_score(p, loss, predictions, row, y)
            label = count_binary(counts, class_counts, f, y)
            sums[SURROGATE] += class_weights[label] * loss_value(code, epsilon, f, y)
        for e in range(p.shape[0]):
            mistakes[e] += math.inf if math.isnan(predictions[row, e]) else loss[e]
        _share_out(p, mistakes, loss, eta, alpha, class_weights[label])
        counts[ROWS] += 1
        counts[UPDATES] += stepped[row]
