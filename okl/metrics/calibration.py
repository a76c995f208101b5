"""Calibration: the share of correct rows by score, and log-odds of scores fitted to held-out rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from okl.compiled.jit import one_blas_thread
from okl.foundation.class_tags import stored
from okl.foundation.errors import DataError
from okl.foundation.types import Doubles, FloatArray, IntArray
from okl.metrics.ranking import KeyedCounts, count_values, values_of

# Reliability: bins of rows by score.

MOST_BINS = 12
LEAST_ROWS = 25
"""Rows of a bin, if there are enough: a share of fewer rows is uncertain."""

DROPPED_BITS = 17
"""Low bits of a lead to drop: sign, exponent and 6 bits remain, so it is rounded down by less than a 64th."""


def lead_counts(scores: FloatArray, right: NDArray[np.bool_]) -> KeyedCounts:
    """Count rows (wrong, right) by the lead of the best score over the second, of scores (rows, K >= 2)."""
    first_two: FloatArray = np.partition(scores, -2, axis=1)[:, -2:]
    return count_values(first_two[:, 1] - first_two[:, 0], right.astype(np.int64), 2, DROPPED_BITS)


def reliability(counts: KeyedCounts, of: str) -> dict[str, Any]:
    """Return bins of about equally many rows, from the lowest value up, as JSON.

    counts : rows by value, in columns (miss, hit): of scores hits are positive rows, of leads those named rightly
    of : "score" or "log-odds" of two classes, or "lead" of the best of several classes over the second
    Returns a dict: of, what is binned; bins : rows, hits, lowest and highest value, mean value; of scores and log-odds
        also the mean of 1 / (1 + exp(-score)), which is the probability of a hit for log-odds. Equal values stay in one
        bin.
    """
    rows = counts.counts.sum(axis=1)
    total = int(rows.sum())
    if total == 0:
        return {"of": of, "bins": []}
    values = values_of(counts.keys.astype(np.int64))
    n_bins = int(np.clip(total // LEAST_ROWS, 1, MOST_BINS))
    # a value belongs where the middle one of its rows does
    numbers = ((np.cumsum(rows) - (rows + 1) // 2) * n_bins) // total
    firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
    lasts = np.append(firsts[1:], len(rows)) - 1
    of_bins = [np.add.reduceat(column, firsts) for column in (rows, counts.counts[:, 1])]
    means = {"mean": _means(values, rows, firsts)}
    if of != "lead":
        # tanh does not overflow for scores of any size
        means["probability"] = _means(0.5 * (1.0 + np.tanh(0.5 * values)), rows, firsts)
    names = ("rows", "hits", "lowest", "highest", *means)
    columns = (*of_bins, values[firsts], values[lasts], *means.values())
    cells = zip(*(column.tolist() for column in columns), strict=True)
    return {"of": of, "bins": [dict(zip(names, cell, strict=True)) for cell in cells]}


def _means(values: FloatArray, rows: IntArray, firsts: IntArray) -> Doubles:
    sums = np.add.reduceat(values * rows, firsts)
    return sums / np.add.reduceat(rows, firsts)


# A sigmoid fitted to held-out scores of two classes.

_MOST_STEPS, _LEAST_SLOPE, _LEAST_STEP = 100, 1e-5, 1e-10
_RIDGE = 1e-12  # of the Hessian's diagonal, where scores are all alike

_Fit = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class Sigmoid:
    """Probability of the positives: 1 / (1 + exp(slope score + offset)); the slope of useful scores is negative."""

    slope: float
    offset: float

    def probabilities(self, scores: FloatArray) -> Doubles:
        """Return probabilities of scores of any shape, in (0, 1), without overflow."""
        probabilities: Doubles = 0.5 * (1.0 - np.tanh(0.5 * (self.slope * scores + self.offset)))
        return probabilities


LOG_ODDS = Sigmoid(-1.0, 0.0)
"""Sigmoid for scores that are the logarithm of the odds, as the logistic loss makes them."""


@one_blas_thread()  # bits depend on the number of threads
def fit_sigmoid(scores: FloatArray, labels: FloatArray, sample_weight: FloatArray | None = None) -> Sigmoid:
    """Fit a sigmoid by maximum likelihood, to targets a little inside 0 and 1.

    Targets are (n+ + 1) / (n+ + 2) for positives and 1 / (n- + 2) for negatives, n+ and n- the weights of the classes.

    scores : (m,), of rows that were not learned from; labels : (m,), -1 or +1; sample_weight : (m,) or None
    Raises DataError : a class does not occur, or scores are not finite

    Source: Lin, Lin & Weng, Machine Learning 68, 2007, appendix C: Newton's method with backtracking for Platt's
    sigmoid, in a form without cancellation.
    """
    weights = np.ones(len(scores)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    positive = float(weights[labels > 0].sum())
    negative = float(weights[labels <= 0].sum())
    if min(positive, negative) == 0.0 or not np.isfinite(scores).all():
        raise DataError(
            "Calibration requires finite scores of both classes, but positives have total weight "
            f"{positive:g} and negatives {negative:g}. Hold out more rows."
        )
    targets = np.where(labels > 0, (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0))
    unit = _unit_of(wide := np.asarray(scores, dtype=np.float64))
    sigmoid = _newton((wide * unit, targets, weights), np.array([0.0, np.log((negative + 1.0) / (positive + 1.0))]))
    return Sigmoid(sigmoid.slope * unit, sigmoid.offset)


def _unit_of(scores: FloatArray) -> float:
    """Return a factor for scores so small or large that the limits of Newton's method would not suit their slope.

    It is a power of two, which changes no digit; 1 for others.
    """
    spread = float(np.ptp(scores))
    return 1.0 if spread == 0.0 or 1e-3 <= spread <= 1e4 else 2.0 ** min(1000, -round(math.log2(spread)))


def _newton(fit: _Fit, at: FloatArray) -> Sigmoid:
    value = _loss(fit, at)
    for _ in range(_MOST_STEPS):
        slopes, hessian = _derivatives(fit, at)
        if np.abs(slopes).max() < _LEAST_SLOPE * float(fit[2].mean()):
            break
        direction = -np.linalg.solve(hessian, slopes)
        step, expected = 1.0, float(slopes @ direction)
        while step >= _LEAST_STEP and _loss(fit, at + step * direction) >= value + 1e-4 * step * expected:
            step *= 0.5
        if step < _LEAST_STEP:  # as far as rounding lets it
            break
        at = at + step * direction
        value = _loss(fit, at)
    return Sigmoid(float(at[0]), float(at[1]))


def _loss(fit: _Fit, at: FloatArray) -> float:
    scores, targets, weights = fit
    inner = at[0] * scores + at[1]
    # log(1 + exp(inner)) - (1 - target) inner, of which the larger part never cancels
    return float(weights @ (np.logaddexp(0.0, -np.abs(inner)) + np.where(inner >= 0, targets, targets - 1.0) * inner))


def _derivatives(fit: _Fit, at: FloatArray) -> tuple[FloatArray, FloatArray]:
    scores, targets, weights = fit
    probabilities = Sigmoid(float(at[0]), float(at[1])).probabilities(scores)
    errors = weights * (targets - probabilities)
    spreads = weights * probabilities * (1.0 - probabilities)
    columns = np.stack([scores, np.ones(len(scores))])
    hessian = (columns * spreads) @ columns.T
    return columns @ errors, hessian + np.diag(_RIDGE + _RIDGE * np.diag(hessian))


def normalised(probabilities: FloatArray) -> Doubles:
    """Return rows (m, k) of probabilities that sum to 1; (m,) of one class becomes (m, 2), negatives first."""
    if probabilities.ndim == 1:
        return np.stack([1.0 - probabilities, probabilities], axis=1)
    normal: Doubles = probabilities / probabilities.sum(axis=1, keepdims=True)
    return normal


# Log-odds of scores, of two classes or several.

LEAST_SLOPE = 1e-3
"""Slope for standardised scores that rank no better than chance: probabilities are close to the shares of classes."""

_LARGEST_OFFSET = 20.0


@stored("score-calibration")
@dataclass(frozen=True)
class ScoreCalibration:
    """Log-odds slope * score + offset of two classes; of several, logits slope * scores + offsets under softmax.

    slope : > 0, so that the order of scores is kept; offsets : one for each output
    mixing : (n_classes, n_classes), what each score (row) adds to each logit, besides the slope; () for nothing
    """

    slope: float
    offsets: tuple[float, ...]
    mixing: tuple[tuple[float, ...], ...] = ()

    def apply(self, scores: FloatArray) -> Doubles:
        """Return log-odds (rows,), or logits (rows, n_classes), of scores of the same shape."""
        return self.scaled(scores) + (np.array(self.offsets) if scores.ndim == 2 else self.offsets[0])

    def scaled(self, scores: FloatArray) -> Doubles:
        """Return the same without the offsets; a row's bits do not depend on other rows."""
        wide = np.asarray(scores, dtype=np.float64)
        logits: Doubles = self.slope * wide
        for score, added in enumerate(self.mixing):
            logits += wide[:, score : score + 1] * np.array(added)
        return logits

    def of_weights(self, weights: FloatArray) -> FloatArray:
        """Return weights of the logits, of weights of the scores (n_outputs,) or (n_outputs, n)."""
        weighted: FloatArray = self.slope * weights
        return weighted + np.array(self.mixing).T @ weights if self.mixing else weighted


def fit_calibration(
    scores: FloatArray, classes: IntArray, sample_weight: FloatArray | None = None, mixes: bool = False
) -> ScoreCalibration:
    """Fit slope and offsets of the least log loss to scores of rows that were not learned from.

    Least squares of several classes hide a class that lies between others: where its indicator is largest, it is a
    bump, which takes far more rows to learn than the sides of it. The scores of all classes, mixed, show it again.

    scores : (rows,) of two classes, or (rows, n_classes); classes : (rows,), indices
    sample_weight : (rows,) above 0, or None
    mixes : whether scores of several classes may be mixed, where that reduces the log loss of held-out folds beyond a
        standard error
    Raises DataError : one of two classes does not occur, or scores are not finite
    Source: of two classes, `fit_sigmoid`; of several, the temperature with biases of Alexandari, Kundaje & Shrikumar,
    ICML 2020, with a Gaussian prior of one row on each bias; mixed, the matrix scaling of Guo, Pleiss, Sun &
    Weinberger, ICML 2017, in the place of the discriminant analysis of Hastie, Tibshirani & Buja, JASA 89, 1994.
    """
    weights = np.ones(len(classes)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if scores.ndim == 2:
        return _fit_several(np.asarray(scores, dtype=np.float64), classes, weights, mixes)
    sigmoid = fit_sigmoid(scores, np.where(classes > 0, 1.0, -1.0), weights)
    spread, least = float(np.std(scores)) or 1.0, LEAST_SLOPE
    if -sigmoid.slope * spread >= least:
        return ScoreCalibration(-sigmoid.slope, (-sigmoid.offset,))
    positive = float(weights[classes > 0].sum())
    prior = math.log((positive + 1.0) / (float(weights.sum()) - positive + 1.0))
    return ScoreCalibration(least / spread, (prior - least / spread * float(np.mean(scores)),))


MIXED_CLASSES, MIXED_ROWS = 30, 50
"""Classes whose scores may be mixed, at most, and rows a class, at least on average."""
_FOLDS = 5
_MIXING_SPREAD = 4.0  # of the prior of a mixed weight, of standardised scores


@one_blas_thread()  # bits depend on the number of threads
def _fit_several(scores: Doubles, classes: IntArray, weights: Doubles, mixes: bool) -> ScoreCalibration:
    if not np.isfinite(scores).all():
        raise DataError("Calibration requires finite scores. Use a smaller step size.")
    plain = _fit_softmax(scores, classes, weights, False)
    n_classes = scores.shape[1]
    if not mixes or n_classes > MIXED_CLASSES or len(classes) < MIXED_ROWS * n_classes:
        return plain
    folds, gains = np.arange(len(classes)) % _FOLDS, np.empty(len(classes))
    for fold in range(_FOLDS):
        learnt, held = folds != fold, folds == fold
        losses = (
            log_losses(
                _fit_softmax(scores[learnt], classes[learnt], weights[learnt], mixed).apply(scores[held]), classes[held]
            )
            for mixed in (False, True)
        )
        gains[held] = next(losses) - next(losses)
    gains *= weights / weights.mean()
    if float(gains.mean()) <= float(gains.std()) / len(gains) ** 0.5:
        return plain
    return _fit_softmax(scores, classes, weights, True)


def _fit_softmax(scores: Doubles, classes: IntArray, weights: Doubles, mixed: bool) -> ScoreCalibration:
    n_rows, n_classes = scores.shape
    spread, rows, firsts = float(scores.std()) or 1.0, np.arange(n_rows), 1 + n_classes
    precision = 1.0 / _MIXING_SPREAD**2

    def value_and_slopes(parameters: Doubles) -> tuple[float, Doubles]:
        slope, offsets, mixing = math.exp(parameters[0]), parameters[1:firsts], parameters[firsts:]
        logits = slope / spread * scores + offsets
        if mixed:
            logits += scores @ (mixing.reshape(n_classes, n_classes) / spread)
        excess = probabilities_of(logits)
        value = float((weights * log_losses(logits, classes)).sum() + 0.5 * offsets @ offsets)
        excess[rows, classes] -= 1.0
        excess *= weights[:, np.newaxis]
        slopes = [[float((excess * (slope / spread * scores)).sum())], excess.sum(axis=0) + offsets]
        if mixed:
            value += 0.5 * precision * float(mixing @ mixing)
            slopes.append((scores.T @ excess).ravel() / spread + precision * mixing)
        return value / n_rows, np.concatenate(slopes) / n_rows

    bounds = [(math.log(LEAST_SLOPE), -math.log(LEAST_SLOPE)), *[(-_LARGEST_OFFSET, _LARGEST_OFFSET)] * n_classes]
    n_mixed = n_classes**2 * mixed
    found = minimize(
        value_and_slopes,
        np.zeros(firsts + n_mixed),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds + [(None, None)] * n_mixed,
    )
    mixing = found.x[firsts:].reshape(-1, n_classes) / spread
    return ScoreCalibration(
        math.exp(found.x[0]) / spread, tuple(map(float, found.x[1:firsts])), tuple(map(tuple, mixing.tolist()))
    )


def log_losses(logits: FloatArray, classes: IntArray) -> Doubles:
    """Return minus log probability of each row's class, (rows,), by log-odds (rows,) or logits (rows, n_classes)."""
    wide = np.asarray(logits, dtype=np.float64)
    if wide.ndim == 1:
        return np.logaddexp(0.0, np.where(classes > 0, -wide, wide))
    top = wide.max(axis=1, keepdims=True)
    losses: Doubles = np.log(np.exp(wide - top).sum(axis=1)) + top[:, 0]
    losses -= wide[np.arange(len(wide)), classes]
    return losses


def probabilities_of(logits: FloatArray) -> Doubles:
    """Return probabilities (rows, n_classes) of log-odds (rows,) of two classes, or of logits (rows, n_classes)."""
    wide = np.asarray(logits, dtype=np.float64)
    if wide.ndim == 1:
        return normalised(LOG_ODDS.probabilities(wide))
    powers: Doubles = np.exp(wide - wide.max(axis=1, keepdims=True))
    return normalised(powers)
