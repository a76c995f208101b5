"""Probabilities from scores: a sigmoid fitted to scores of rows that the model has not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_at_least
from okl.compiled.door import one_blas_thread
from okl.errors import DataError
from okl.types import FloatArray

_MOST_STEPS, _LEAST_SLOPE, _LEAST_STEP = 100, 1e-5, 1e-10
_RIDGE = 1e-12  # of the Hessian's diagonal, where scores are all alike

_Fit = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class Sigmoid:
    """Probability of the positives: 1 / (1 + exp(slope score + offset)); the slope of useful scores is negative."""

    slope: float
    offset: float

    def probabilities(self, scores: FloatArray) -> NDArray[np.float64]:
        """Of scores of any shape, in (0, 1), without overflow."""
        found: NDArray[np.float64] = 0.5 * (1.0 - np.tanh(0.5 * (self.slope * scores + self.offset)))
        return found


LOG_ODDS = Sigmoid(-1.0, 0.0)
"""Of scores that are the logarithm of the odds, as the logistic loss makes them."""


@one_blas_thread()  # bits depend on the number of threads
def fit_sigmoid(scores: FloatArray, labels: FloatArray, sample_weight: FloatArray | None = None) -> Sigmoid:
    """Fit a sigmoid by maximum likelihood, to targets a little inside 0 and 1.

    Targets are (n+ + 1) / (n+ + 2) for positives and 1 / (n- + 2) for negatives, n+ and n- the weights of the classes.

    Parameters
    ----------
    scores : (m,), of rows that were not learnt from
    labels : (m,), -1 or +1
    sample_weight : (m,) or None

    Raises
    ------
    DataError : a class does not occur, or scores are not finite

    Source: Lin, Lin & Weng, Machine Learning 68, 2007, appendix C: Newton's method with backtracking for Platt's
    sigmoid, in a form without cancellation.
    """
    weights = np.ones(len(scores)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    positive = float(weights[labels > 0].sum())
    negative = float(weights[labels <= 0].sum())
    if min(positive, negative) == 0.0 or not np.isfinite(scores).all():
        raise DataError(
            f"Calibration takes finite scores of both classes, but positives weigh {positive:g} and negatives "
            f"{negative:g}: hold out more rows."
        )
    targets = np.where(labels > 0, (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0))
    fit = (np.asarray(scores, dtype=np.float64), targets, weights)
    return _newton(fit, np.array([0.0, np.log((negative + 1.0) / (positive + 1.0))]))


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


def cross_validated_scores(
    scores_of: Callable[[NDArray[np.intp], NDArray[np.intp]], FloatArray],
    labels: NDArray[Any],
    n_folds: int = 5,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Scores of every row by a model that did not learn from it.

    Parameters
    ----------
    scores_of : (rows to learn from, rows to score) -> scores of the latter, (rows,) or (rows, classes)
    labels : (m,), whose classes every fold holds in proportion
    n_folds : int >= 2; no more than the rarest class has rows
    seed : int; the same folds for the same seed

    Raises
    ------
    DataError : a class has a single row
    """
    rarest = int(np.unique(labels, return_counts=True)[1].min())
    if rarest < 2:
        raise DataError("A class has a single row, but calibration takes two folds: add rows, or do not calibrate.")
    folds = stratified_folds(labels, min(check_at_least("n_folds", n_folds, 2), rarest), seed)
    parts = [scores_of(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in range(folds.max() + 1)]
    scores = np.empty((len(labels), *parts[0].shape[1:]))
    for fold, part in enumerate(parts):
        scores[folds == fold] = part
    return scores


def stratified_folds(labels: NDArray[Any], n_folds: int, seed: int) -> NDArray[np.intp]:
    """Fold of every row (m,), from 0; rows of a class are shuffled and dealt, each class where the last one ended."""
    rng, folds, dealt = np.random.default_rng(seed), np.empty(len(labels), dtype=np.intp), 0
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        folds[rows] = (dealt + np.arange(len(rows))) % n_folds
        dealt += len(rows)
    return folds


def normalised(probabilities: FloatArray) -> NDArray[np.float64]:
    """Rows (m, k) of probabilities that sum to 1; (m,) of one class becomes (m, 2), negatives first."""
    if probabilities.ndim == 1:
        return np.stack([1.0 - probabilities, probabilities], axis=1)
    found: NDArray[np.float64] = probabilities / probabilities.sum(axis=1, keepdims=True)
    return found
