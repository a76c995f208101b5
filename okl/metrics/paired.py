"""Paired tests of two predictors on the same rows, by a criterion."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr

from okl.foundation.types import Criterion, Doubles, IntArray
from okl.metrics.criterion import area_placements, criterion_error, row_losses

TESTS: dict[Criterion, str] = {
    "accuracy": "exact McNemar test",
    "squared-error": "paired t-test of squared errors",
    "log-loss": "paired t-test of log losses",
    "balanced-accuracy": "paired t-test of weighted mistakes",
    "auc": "DeLong test",
    "average-precision": "paired bootstrap",
}
REPLICATES = 400


class SidedTest(NamedTuple):
    """One-sided p-values that the second of two predictors is better, or worse, than the first."""

    better: float
    worse: float

    @property
    def two_sided(self) -> float:
        return min(1.0, 2.0 * min(self.better, self.worse))


def mcnemar(only_first: int, only_second: int) -> SidedTest:
    """Test equal accuracy by the rows that only the first, or only the second, gets wrong.

    Source: exact test of McNemar, Psychometrika 12, 1947, as in Dietterich, Neural Computation 10, 1998, section 3.1.
    """
    from scipy import stats  # takes a third of a second, which most commands and all workers do without

    n = only_first + only_second
    if n == 0:
        return SidedTest(1.0, 1.0)
    return SidedTest(*(float(stats.binom.sf(fewer - 1, n, 0.5)) for fewer in (only_first, only_second)))


def paired_t(n: int, total: float, squares: float) -> SidedTest:
    """Test n differences, first less second, by their sum and the sum of their squares."""
    if n < 2:
        return SidedTest(1.0, 1.0)
    mean = total / n
    variance = max(0.0, (squares - n * mean**2) / (n - 1))
    if variance == 0.0:
        return _certain(mean)
    t = mean / math.sqrt(variance / n)
    return SidedTest(float(stdtr(n - 1, -t)), float(stdtr(n - 1, t)))


def scores_test(criterion: Criterion, first: Doubles, second: Doubles, classes: IntArray) -> SidedTest:
    """Test two predictors by their scores.

    first, second : (rows,) of two classes, or (rows, n_classes); classes : (rows,)

    Source: of two areas, DeLong, DeLong & Clarke-Pearson, Biometrics 44(3), 1988.
    """
    if criterion == "accuracy":
        wrong, other = (row_losses(criterion, scores, classes) > 0.0 for scores in (first, second))
        return mcnemar(int((wrong & ~other).sum()), int((other & ~wrong).sum()))
    if criterion in ("log-loss", "balanced-accuracy"):
        apart = row_losses(criterion, first, classes) - row_losses(criterion, second, classes)
        return paired_t(len(apart), float(apart.sum()), float(np.square(apart).sum()))
    if len(np.unique(classes)) < 2:
        return SidedTest(1.0, 1.0)
    positive = classes > 0
    gain = criterion_error(criterion, first, classes) - criterion_error(criterion, second, classes)
    error = (_delong if criterion == "auc" else _bootstrapped)(first, second, positive)
    if error == 0.0:
        return _certain(gain)
    return SidedTest(float(ndtr(-gain / error)), float(ndtr(gain / error)))


def _certain(gain: float) -> SidedTest:
    return SidedTest(1.0, 1.0) if gain == 0.0 else SidedTest(0.0, 1.0) if gain > 0.0 else SidedTest(1.0, 0.0)


def _delong(first: Doubles, second: Doubles, positive: NDArray[np.bool_]) -> float:
    """Return the standard error of the difference of two areas on the same rows."""
    placed = [area_placements(scores, positive) for scores in (first, second)]
    spreads = [
        float(np.var(mine - theirs, ddof=1)) / len(mine) if len(mine) > 1 else 0.0
        for mine, theirs in zip(*placed, strict=True)
    ]
    return math.sqrt(sum(spreads))


def _bootstrapped(first: Doubles, second: Doubles, positive: NDArray[np.bool_]) -> float:
    """Return the standard error of the difference of two average precisions over resampled rows."""
    n = len(positive)
    random, gains = np.random.default_rng(0), np.empty(REPLICATES)
    orders = [np.argsort(-scores, kind="stable") for scores in (first, second)]
    for replicate in range(REPLICATES):
        weights = np.bincount(random.integers(0, n, n), minlength=n).astype(np.float64)
        values = [_weighted_precision(weights[order], positive[order]) for order in orders]
        gains[replicate] = values[1] - values[0]
    return float(gains.std(ddof=1))


def _weighted_precision(weights: Doubles, positive: NDArray[np.bool_]) -> float:
    """Return the average precision of weighted rows, from the highest score down."""
    of_positive = weights * positive
    hits, rows = np.cumsum(of_positive), np.cumsum(weights)
    return float((of_positive * hits / np.maximum(rows, 1.0)).sum() / max(hits[-1], 1.0))
