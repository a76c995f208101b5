"""AdaHedge: experts speak, their words are weighed by what they have lost so far, and the rate learns itself.

Legend: E experts, L their cumulative losses, eta the learning rate, p = exp(-eta L) / sum their weights, gap the
cumulative difference between the loss of the mixture, p'l, and the mix loss -log(p'exp(-eta l)) / eta.

Source: de Rooij, van Erven, Gruenwald & Koolen, JMLR 15, 2014, section 2, equations (5) to (8): eta = ln(E) / gap.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.counting import ROWS, UPDATES, count_binary, count_class, count_squares
from okl.compiled.door import compiled
from okl.compiled.updates import MULTICLASS_HINGE, THRESHOLDED_HALF_SQUARED

GAP, LOWEST, HIGHEST = 0, 1, 2


class Hedge(NamedTuple):
    """What the mixture remembers, changed in place, float64.

    losses, recent : (E,), cumulative losses, infinite for experts that diverged; those of late
    numbers : (3,), at GAP, LOWEST and HIGHEST: the range of the targets so far, 0 included
    """

    losses: NDArray[np.float64]
    recent: NDArray[np.float64]
    numbers: NDArray[np.float64]


class Counted(NamedTuple):
    """counts, sums, class_counts as in okl.compiled.counting, changed in place."""

    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    class_counts: NDArray[np.int64]


@compiled
def weigh(p: NDArray[np.float64], losses: NDArray[np.float64], gap: float) -> None:
    """Overwrite p (E,) by the weights of experts; equal among the best while nothing was lost by mixing."""
    lowest = losses.min()
    eta = math.log(p.shape[0]) / gap if gap > 0.0 else math.inf
    total = 0.0
    for e in range(p.shape[0]):
        behind = losses[e] - lowest
        p[e] = 1.0 if behind == 0.0 else math.exp(-eta * behind)
        total += p[e]
    for e in range(p.shape[0]):
        p[e] /= total


@compiled
def mixability_gap(p: NDArray[np.float64], loss: NDArray[np.float64], gap: float) -> float:
    """What the mixture loses above the mix loss on a row, >= 0; loss (E,) is finite where p > 0."""
    mean, least = 0.0, math.inf
    for e in range(p.shape[0]):
        if p[e] > 0.0:
            mean += p[e] * loss[e]
            least = min(least, loss[e])
    if gap <= 0.0:
        return max(0.0, mean - least)
    eta, total = math.log(p.shape[0]) / gap, 0.0
    for e in range(p.shape[0]):
        if p[e] > 0.0:
            total += p[e] * math.exp(-eta * (loss[e] - least)) if loss[e] > least else p[e]
    return max(0.0, mean - least + math.log(total) / eta)


@compiled
def _hear_sign(p: NDArray[np.float64], loss: NDArray[np.float64], words: NDArray[np.float64], y: float) -> float:
    vote = 0.0
    for e in range(p.shape[0]):
        if p[e] > 0.0:
            vote += p[e] if words[e] >= 0.0 else -p[e]
        loss[e] = 1.0 if (words[e] >= 0.0) != (y > 0.0) else 0.0
    return vote


@compiled
def _hear_class(
    votes: NDArray[np.float64], p: NDArray[np.float64], loss: NDArray[np.float64], words: NDArray[np.float64], y: float
) -> None:
    votes[:] = 0.0
    for e in range(p.shape[0]):
        if p[e] > 0.0 and not math.isnan(words[e]):
            votes[int(words[e])] += p[e]
        loss[e] = 1.0 if words[e] != y else 0.0


@compiled
def _hear_number(
    p: NDArray[np.float64],
    loss: NDArray[np.float64],
    words: NDArray[np.float64],
    numbers: NDArray[np.float64],
    y: float,
) -> float:
    mean = 0.0
    for e in range(p.shape[0]):
        word = 0.0 if math.isnan(words[e]) else min(max(words[e], numbers[LOWEST]), numbers[HIGHEST])
        mean += p[e] * word
        loss[e] = (word - y) * (word - y)
    numbers[LOWEST], numbers[HIGHEST] = min(numbers[LOWEST], y), max(numbers[HIGHEST], y)
    return mean


@compiled
def mix_rows(
    counted: Counted,
    hedge: Hedge,
    words: NDArray[np.float64],
    stepped: NDArray[np.uint8],
    targets: NDArray[np.float64],
    class_weights: NDArray[np.float64],
    code: int,
) -> None:
    """Predict every row by the experts' weighted words, count it, then charge the experts; counted and hedge change.

    Two classes and several: a vote, a mistake costs the class's weight. Regression: the mean of the words, each clipped
    to the range of the targets so far; a word costs its squared error. A word that is NaN ends its expert.

    words : (rows, E); stepped : (rows,); class_weights : (n_classes,), (1,) for regression
    """
    counts, sums, class_counts = counted
    losses, recent, numbers = hedge
    n_experts = losses.shape[0]
    p, loss, votes = np.empty(n_experts), np.empty(n_experts), np.empty(class_counts.shape[0])
    for row in range(targets.shape[0]):
        said, y = words[row], targets[row]
        weigh(p, losses, numbers[GAP])
        if code == THRESHOLDED_HALF_SQUARED:
            label = count_squares(sums, class_counts, _hear_number(p, loss, said, numbers, y), y)
        elif code == MULTICLASS_HINGE:
            _hear_class(votes, p, loss, said, y)
            label = int(y)
            count_class(counts, class_counts, votes, label)
        else:
            label = count_binary(counts, class_counts, _hear_sign(p, loss, said, y), y)
        for e in range(n_experts):
            loss[e] *= class_weights[label]
        numbers[GAP] += mixability_gap(p, loss, numbers[GAP])
        for e in range(n_experts):
            lost = math.inf if math.isnan(said[e]) else loss[e]
            losses[e] += lost
            recent[e] += lost
        counts[ROWS] += 1
        counts[UPDATES] += stepped[row]
