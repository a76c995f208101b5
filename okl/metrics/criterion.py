"""Criteria by which models are chosen and compared, and paired tests of two predictors by a criterion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr

from okl.foundation.errors import ConfigError
from okl.foundation.types import Criterion, Doubles, IntArray, Optimise, Task
from okl.metrics.calibration import fit_calibration, log_losses
from okl.metrics.ranking import average_precision, count_values

# The criterion of a data set.

METRICS: dict[Criterion, str] = {
    "log-loss": "log_loss",
    "auc": "roc_auc",
    "average-precision": "average_precision",
    "balanced-accuracy": "balanced_accuracy",
    "accuracy": "mistake_rate",
    "squared-error": "mse",
}
"""Name of each criterion's metric in reports of okl.metrics.definitions."""
OF_RANKING = ("auc", "average-precision")
OF_PROBABILITIES = ("log-loss", *OF_RANKING)
"""Criteria that the logistic loss suits better than the hinge loss."""
RARE = 0.2
"""Share of the rows outside the most frequent class below which mistake rates hardly differ between models."""


def criterion_of(optimise: Optimise, task: Task, class_counts: Sequence[int], target: str = "y") -> Criterion:
    """Return the criterion as given, or by the share of rows outside the largest class; ConfigError of another task."""
    if task == "regression":
        if optimise != "auto":
            raise ConfigError(
                f"optimise = {optimise!r} is for classification, but {target!r} makes this a regression task, which is "
                "judged by the squared error. Remove it."
            )
        return "squared-error"
    if optimise in OF_RANKING and task != "binary":
        raise ConfigError(
            f"optimise = {optimise!r} is for two classes, but {target!r} has {len(class_counts)}. Use log-loss, "
            "balanced-accuracy or accuracy."
        )
    if optimise != "auto":
        return optimise
    return "log-loss" if outside_share(class_counts) < RARE else "accuracy"


def outside_share(class_counts: Sequence[int]) -> float:
    """Return the share of the rows that are not of the most frequent class; 1 without rows.

    >>> outside_share([3, 1]), outside_share([])
    (0.25, 1.0)
    """
    rows = sum(class_counts)
    return 1.0 - max(class_counts) / rows if rows else 1.0


def criterion_error(criterion: Criterion, scores: Doubles, classes: IntArray) -> float:
    """Return the error of scores, less is better: 1 less the rate or area, or the log loss of calibrated scores.

    scores : (rows,) of two classes, positive for the second, or (rows, n_classes); classes : (rows,), of the rows
    """
    if criterion not in OF_RANKING:
        return float(row_losses(criterion, scores, classes).mean())
    positive = classes > 0
    if criterion == "auc":
        return 1.0 - area(scores, positive)
    found = average_precision(count_values(scores, positive.astype(np.int64), 2))
    return 1.0 - (0.0 if found is None else found)


def row_losses(criterion: Criterion, scores: Doubles, classes: IntArray) -> Doubles:
    """Return losses (rows,) whose mean is the error: of log-loss, accuracy or balanced-accuracy.

    Rows of balanced-accuracy are weighted by rows / (classes * rows of the class).
    """
    if criterion == "log-loss":
        if scores.ndim == 1 and len(np.unique(classes)) < 2:
            return np.zeros(len(classes))  # a single class cannot be calibrated
        return log_losses(fit_calibration(scores, classes).apply(scores), classes)
    predicted = scores.argmax(axis=1) if scores.ndim == 2 else (scores >= 0.0).astype(np.intp)
    wrong: Doubles = (predicted != classes).astype(np.float64)
    if criterion == "accuracy":
        return wrong
    present, index, counts = np.unique(classes, return_inverse=True, return_counts=True)
    return wrong * (len(classes) / (len(present) * counts))[index]


def _ranks(values: Doubles) -> Doubles:
    """Return the ranks of values from 1, those of ties being their mean."""
    from scipy.stats import rankdata  # takes a third of a second, which most commands and all workers do without

    ranks: Doubles = rankdata(values)
    return ranks


def area(scores: Doubles, positive: NDArray[np.bool_]) -> float:
    """Return the ROC AUC, ties counting one half; 0.5 if one kind is missing."""
    n_positive = int(positive.sum())
    pairs = n_positive * (len(positive) - n_positive)
    if pairs == 0:
        return 0.5
    above = float(_ranks(scores)[positive].sum()) - 0.5 * n_positive * (n_positive + 1)
    return above / pairs


def area_placements(scores: Doubles, positive: NDArray[np.bool_]) -> tuple[Doubles, Doubles]:
    """Return the share of negative rows below each positive one, and of positive rows above each negative one.

    Their means are the ROC AUC. Source: DeLong, DeLong & Clarke-Pearson, Biometrics 44(3), 1988.
    """
    ranks = _ranks(scores)
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    of_positive = (ranks[positive] - _ranks(scores[positive])) / n_negative
    of_negative = 1.0 - (ranks[~positive] - _ranks(scores[~positive])) / n_positive
    return of_positive, of_negative


def standard_error(criterion: Criterion, error: float, class_counts: Sequence[int]) -> float:
    """Return the standard error of an error, from counts alone; 0 for the log loss, which needs its rows.

    Source: of the ROC AUC, Hanley & McNeil, Radiology 143, 1982; of the average precision, a binomial share of the
    positive rows as in Boyd, Eng & Page, ECML 2013.
    """
    counts = [count for count in class_counts if count]
    rows, rarest = sum(counts), min(counts, default=0)
    if criterion == "accuracy":
        return math.sqrt(max(error * (1.0 - error), 1.0 / rows) / rows)
    if len(counts) < 2 or criterion not in ("auc", "average-precision", "balanced-accuracy"):
        return 0.0
    if criterion == "auc":
        value, negative, positive = 1.0 - error, class_counts[0], class_counts[1]
        of_positive, of_negative = value / (2.0 - value), 2.0 * value**2 / (1.0 + value)
        spread = value * error + (positive - 1) * (of_positive - value**2) + (negative - 1) * (of_negative - value**2)
        return math.sqrt(max(spread, 0.0) / (positive * negative))
    if criterion == "average-precision":
        return math.sqrt(max(error * (1.0 - error), 1.0 / class_counts[1]) / class_counts[1])
    return math.sqrt(max(error * (1.0 - error), 1.0 / rarest) * sum(1.0 / count for count in counts)) / len(counts)


# Paired tests of two predictors on the same rows, by a criterion.


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
    """Test two predictors by their scores (rows,) of two classes, or (rows, n_classes), and class indices.

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
