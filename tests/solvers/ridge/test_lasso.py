from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Lasso, MultiTaskLasso

from okl.data.execution import Rows
from okl.solvers.ridge.gram import MapBasis, Outputs
from okl.solvers.ridge.lasso import CentredRows, held_out_scores, lasso_metric, lasso_path, lasso_weights
from okl.solvers.ridge.penalty_path import fit_rows
from okl.solvers.ridge.solver import plain_inputs


def rows_of(n_outputs: int, rows: int = 60, n_inputs: int = 150) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(n_outputs)
    inputs = random.normal(size=(rows, n_inputs)) + 2.0 * random.normal(size=(rows, 1)) + 5.0
    inputs[:, 7] = 3.0  # a constant
    values = inputs[:, :4] @ random.normal(size=(4, n_outputs)) + 0.5 * random.normal(size=(rows, n_outputs))
    return inputs, values


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_weights_equal_those_of_scikit_learn(n_outputs: int) -> None:
    inputs, values = rows_of(n_outputs)
    for penalty in (1.0, 0.2, 0.05):
        penalty *= CentredRows.of(inputs, values, None).largest_penalty
        weights = lasso_weights(inputs, values, None, penalty)
        solver = Lasso if n_outputs == 1 else MultiTaskLasso
        peer = solver(alpha=penalty, tol=1e-12, max_iter=1_000_000).fit(inputs, values)
        np.testing.assert_allclose(weights, np.atleast_2d(peer.coef_).T, atol=1e-6)
    assert 0 < np.count_nonzero(weights.any(axis=1)) < 60


def test_weighted_rows_equal_repeated_ones() -> None:
    inputs, values = rows_of(2)
    counts = np.arange(len(inputs)) % 3 + 1
    weights = lasso_weights(inputs, values, counts.astype(np.float64), 0.1)
    repeated = lasso_weights(np.repeat(inputs, counts, axis=0), np.repeat(values, counts, axis=0), None, 0.1)
    np.testing.assert_allclose(weights, repeated, atol=1e-6)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_ridge_in_the_metric_is_the_lasso(n_outputs: int) -> None:
    inputs, values = rows_of(1, rows=200, n_inputs=40)
    targets = values[:, 0]
    if n_outputs > 1:
        targets = np.searchsorted(np.quantile(targets, [0.3, 0.6]), targets).astype(np.float64)
    outputs = Outputs("regression" if n_outputs == 1 else "multiclass", n_outputs)
    rows = CentredRows.of(inputs, outputs.of(targets), None)
    penalty = 0.2 * rows.largest_penalty
    weights = lasso_weights(inputs, outputs.of(targets), None, penalty)
    metric, of_ridge = lasso_metric(weights, penalty)
    assert np.mean(metric) == pytest.approx(1.0)
    scaled = inputs * np.sqrt(metric)
    basis = MapBasis(plain_inputs(40, "float64"))
    ridge = fit_rows(basis, Rows(scaled, targets), outputs, of_ridge)
    scores = np.asarray(ridge.predictor(basis).scores(scaled), np.float64).reshape(len(inputs), -1)
    np.testing.assert_allclose(scores, rows.scores(weights, inputs), atol=1e-5)
    assert np.count_nonzero(weights.any(axis=1)) < 30


def test_held_out_scores_are_those_of_the_other_folds_on_any_number_of_threads() -> None:
    inputs, values = rows_of(2)
    folds = np.arange(len(inputs)) % 4
    held = held_out_scores(inputs, values, None, folds)
    for scores, again in zip(held.scores, held_out_scores(inputs, values, None, folds, 2).scores, strict=True):
        assert np.array_equal(scores, again)
    others = folds != 2
    source = CentredRows.of(inputs[others], values[others], None)
    for weights, scores in zip(lasso_path(source, held.penalties), held.scores, strict=True):
        np.testing.assert_allclose(source.scores(weights, inputs[~others]), scores[~others], atol=1e-12)
    errors = [float(np.square(values - scores).sum()) for scores in held.scores]
    assert np.argmin(errors) > 0
    assert min(errors) < 0.5 * float(np.square(values - values.mean(axis=0)).sum())


def test_a_constant_target_has_no_path() -> None:
    inputs, _ = rows_of(1)
    assert held_out_scores(inputs, np.ones((len(inputs), 1)), None, np.arange(len(inputs)) % 2).scores == []
