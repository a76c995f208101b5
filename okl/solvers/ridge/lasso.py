"""Lasso and group lasso: linear least squares with few inputs, and the metric with which ridge regression equals it.

The weights W of min 1/2 mean ||y_i - W'x_i||^2 + penalty sum_j ||W_j|| also minimise
1/2 mean ||y_i - W'x_i||^2 + penalty / 2 sum_j ||W_j||^2 / m_j with m_j = ||W_j||: both have the same gradient there.
So a ridge regression on inputs that were multiplied by sqrt(m_j), a learnt metric, is the lasso.

Source: Tibshirani, JRSS B 58, 1996; Yuan & Lin, JRSS B 68, 2006, for groups; Grandvalet, ICANN 1998, for the equality.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from okl.compiled.descent import descend_groups
from okl.compiled.jit import one_blas_thread
from okl.compiled.threads import run_tasks
from okl.foundation.types import Doubles, FloatArray, IntArray

STEPS, RATIO = 30, 0.8  # penalties of a path, each so many times the one before: down to a thousandth of the largest
_PATIENCE = 4  # penalties one after the other whose error is larger than the least, after which a path ends
_WORSE = 1.02  # times the least error
_SWEEPS, _ROUNDS = 200, 20  # over the columns of a round, which gets those that violate the optimality conditions
_MOST_NEW = 64  # columns that a round gets, unless more have a weight
TOLERANCE = 1e-3  # of the violation, in penalties
LEAST_WEIGHT = 1e-9  # of a metric, over the largest: without an effect on scores


class CentredRows(NamedTuple):
    """Inputs (rows, n_inputs) and values (rows, n_outputs) about their means (n_inputs,) and (n_outputs,).

    Rows are multiplied by the square roots of their weights, which have a sum of 1.
    """

    inputs: Doubles
    values: Doubles
    input_means: Doubles
    value_means: Doubles

    @classmethod
    def of(cls, inputs: FloatArray, values: Doubles, weights: Doubles | None) -> CentredRows:
        shares = np.full(len(inputs), 1.0 / len(inputs)) if weights is None else weights / weights.sum()
        centre, mean, roots = np.asarray(shares @ inputs, np.float64), shares @ values, np.sqrt(shares)[:, np.newaxis]
        return cls(np.ascontiguousarray((inputs - centre) * roots), (values - mean) * roots, centre, mean)

    @property
    def largest_penalty(self) -> float:
        """Return the least penalty whose weights are all 0."""
        return float(np.linalg.norm(self.inputs.T @ self.values, axis=1).max(initial=0.0))

    def scores(self, weights: Doubles, inputs: FloatArray) -> Doubles:
        """Return scores (n, n_outputs) of other inputs (n, n_inputs)."""
        some = np.flatnonzero(weights.any(axis=1))
        return (inputs[:, some] - self.input_means[some]) @ weights[some] + self.value_means


def lasso_path(rows: CentredRows, penalties: Doubles, tolerance: float = TOLERANCE) -> Iterator[Doubles]:
    """Yield the weights (n_inputs, n_outputs) of each penalty (n_penalties,), which are in descending order.

    Columns without a weight enter where the gradient of the losses is above the penalty; coordinate descent works on
    the products of these columns alone.
    """
    weights = np.zeros((rows.inputs.shape[1], rows.values.shape[1]))
    for penalty in penalties:
        for _ in range(_ROUNDS):
            some = np.flatnonzero(weights.any(axis=1))
            with one_blas_thread():
                slopes = rows.inputs.T @ (rows.inputs[:, some] @ weights[some] - rows.values)
            lengths = np.linalg.norm(slopes, axis=1)
            own = np.linalg.norm(weights[some], axis=1, keepdims=True)
            violations = np.maximum(lengths / penalty - 1.0, 0.0)
            violations[some] = np.linalg.norm(slopes[some] / penalty + weights[some] / own, axis=1)
            if violations.max(initial=0.0) <= tolerance:
                break
            lengths[some] = np.inf
            enter = np.argsort(-lengths, kind="stable")[: len(some) + max(_MOST_NEW, len(some))]
            working = np.sort(enter[lengths[enter] > (1.0 - tolerance) * penalty])
            columns = np.ascontiguousarray(rows.inputs[:, working])
            with one_blas_thread():
                products = np.ascontiguousarray(columns.T @ columns)
            of_working = np.ascontiguousarray(weights[working])
            descend_groups(of_working, np.ascontiguousarray(slopes[working]), products, penalty, _SWEEPS)
            weights = weights.copy()
            weights[working] = of_working
        yield weights


def _descending(largest: float) -> Doubles:
    return np.array([largest * RATIO**k for k in range(1, STEPS + 1)])


class HeldOut(NamedTuple):
    """Penalties of a path, and the scores (rows, n_outputs) of each row by the weights of all other folds."""

    penalties: Doubles
    scores: list[Doubles]


def held_out_scores(
    inputs: FloatArray, values: Doubles, weights: Doubles | None, folds: IntArray, n_threads: int = 1
) -> HeldOut:
    """Return held-out scores along the path, which ends where the squared errors of all folds rise.

    inputs : (rows, n_inputs); values : (rows, n_outputs); weights : (rows,), None for all 1; folds : (rows,)
    n_threads : bits do not depend on it
    """
    counted = np.ones(len(inputs)) if weights is None else weights
    largest = CentredRows.of(inputs, values, weights).largest_penalty
    penalties = _descending(largest)
    parts = [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in np.unique(folds)]
    sources = [CentredRows.of(inputs[others], values[others], counted[others]) for others, _ in parts]
    paths = [lasso_path(source, penalties) for source in sources]
    scores, errors = list[Doubles](), list[float]()
    while len(scores) < STEPS and np.ptp(values, axis=0).any():
        found = run_tasks(lambda k: sources[k].scores(next(paths[k]), inputs[parts[k][1]]), len(parts), n_threads)
        held = np.empty_like(values)
        for (_, some), each in zip(parts, found, strict=True):
            held[some] = each
        scores.append(held)
        errors.append(float(counted @ np.square(values - held).sum(axis=1)))
        if min(errors[-_PATIENCE:]) > _WORSE * min(errors):
            break
    return HeldOut(penalties[: len(scores)], scores)


def lasso_weights(inputs: FloatArray, values: Doubles, weights: Doubles | None, penalty: float) -> Doubles:
    """Return the weights (n_inputs, n_outputs) of a penalty, by a path from the largest one."""
    rows = CentredRows.of(inputs, values, weights)
    path = _descending(rows.largest_penalty)
    *_, last = lasso_path(rows, np.append(path[path > penalty], penalty), 1e-3 * TOLERANCE)
    return last


def lasso_metric(weights: Doubles, penalty: float) -> tuple[tuple[float, ...], float]:
    """Return the metric (n_inputs,), with a mean of 1, and the penalty of the ridge regression that equals a lasso.

    weights : (n_inputs, n_outputs), not all 0
    """
    lengths = np.linalg.norm(weights, axis=1)
    mean = float(lengths.mean())
    metric = np.maximum(lengths, LEAST_WEIGHT * lengths.max()) / mean
    return tuple(metric.tolist()), penalty / mean
