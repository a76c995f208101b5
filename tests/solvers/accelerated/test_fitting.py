from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_iris

from okl.compiled.threads import run_tasks
from okl.foundation.errors import DataError
from okl.kernels import Gaussian
from okl.metrics.calibration import fit_sigmoid, normalised
from okl.solvers.accelerated.fapg import Fapg
from okl.solvers.accelerated.fitting import (
    cross_validated_scores,
    fit_binary,
    relabelled,
    signs_by_class,
    stratified_folds,
)
from okl.solvers.accelerated.models.svm import L2SVM
from okl.solvers.accelerated.operators import DenseRows
from okl.solvers.accelerated.problem import error_minimising_bias
from tests.solvers.accelerated.model_cases import Doubles, kernel_matrix

METHOD = Fapg(method="proven", tolerance=1e-6)


@pytest.fixture(scope="module")
def iris() -> tuple[Doubles, Doubles]:
    inputs, target = load_iris(return_X_y=True)
    assert np.unique(target).tolist() == [0, 1, 2]
    return np.ascontiguousarray((inputs - inputs.mean(axis=0)) / inputs.std(axis=0)), target


def test_two_classes_are_one_fit_with_the_second_as_positive() -> None:
    classes, (signs,) = signs_by_class(np.array(["b", "c", "b"]))
    assert classes.tolist() == ["b", "c"]
    assert signs.tolist() == [-1.0, 1.0, -1.0]
    classes, each = signs_by_class(np.array([2, 0, 1, 2]))
    assert np.array(each).tolist() == [[-1, 1, -1, -1], [-1, -1, 1, -1], [1, -1, -1, 1]]
    with pytest.raises(DataError, match="at least two classes"):
        signs_by_class(np.zeros(100))


def test_rows_under_other_labels_share_their_arrays(iris: tuple[Doubles, Doubles]) -> None:
    rows = kernel_matrix(Gaussian(2.0), iris[0], np.where(iris[1] == 0, 1.0, -1.0))
    other = relabelled(rows, -rows.labels)
    assert other.tiles is rows.tiles
    assert np.array_equal(other.signs, -rows.signs)


def test_tasks_in_threads_return_in_order() -> None:
    for n_threads in (1, 2, 5):
        assert run_tasks(lambda task: task**2, 4, n_threads) == [0, 1, 4, 9]


def test_sigmoid_is_the_most_likely() -> None:
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(1.0, 1.0, 60), rng.normal(-0.5, 1.5, 40)])
    labels = np.where(np.arange(100) < 60, 1.0, -1.0)
    weights = rng.uniform(0.5, 2.0, 100)
    found = fit_sigmoid(scores, labels, weights)
    positive, negative = weights[:60].sum(), weights[60:].sum()
    targets = np.where(labels > 0, (positive + 1) / (positive + 2), 1 / (negative + 2))

    def loss(at: Doubles) -> float:
        inner = at[0] * scores + at[1]
        return float(weights @ (targets * np.logaddexp(0, inner) + (1 - targets) * np.logaddexp(0, -inner)))

    best = minimize(loss, np.zeros(2), tol=1e-10)
    assert loss(np.array([found.slope, found.offset])) <= best.fun + 1e-8
    assert found.slope < -0.5
    extreme = found.probabilities(np.array([-1e6, 0.0, 1e6]))
    assert np.all(np.diff(extreme) > 0)
    assert np.isfinite(fit_sigmoid(np.ones(100), labels).offset)  # equal scores: the share of the positives


def test_calibration_scores_are_those_of_held_out_rows(iris: tuple[Doubles, Doubles]) -> None:
    _, target = iris
    seen: list[int] = []

    def scores_of(train: np.ndarray, test: np.ndarray) -> Doubles:
        assert not set(train) & set(test)
        assert len(train) + len(test) == len(target)
        assert np.bincount(target[test].astype(int)).tolist() == [10, 10, 10]
        seen.extend(test)
        return np.stack([test, -test], axis=1).astype(float)

    scores = cross_validated_scores(scores_of, target, n_folds=5, seed=3)
    assert sorted(seen) == list(range(150))
    assert np.array_equal(scores[:, 0], np.arange(150))
    assert np.array_equal(stratified_folds(target, 5, 3), stratified_folds(target, 5, 3))
    assert normalised(np.array([[0.2, 0.6]])).sum() == pytest.approx(1.0)
    assert normalised(np.array([0.2])).tolist() == [[0.8, 0.2]]


def test_weighted_errors_count_as_often_as_they_weigh() -> None:
    rng = np.random.default_rng(4)
    scores, weights = rng.normal(size=40), rng.integers(1, 9, 40)
    labels = np.where(scores + rng.normal(size=40) > 0, 1.0, -1.0)
    repeated = np.repeat(np.arange(40), weights)
    found = error_minimising_bias(scores, labels, weights.astype(float))
    assert found == error_minimising_bias(scores[repeated], labels[repeated])
    assert found != error_minimising_bias(scores, labels)


def test_bias_of_fewest_errors_has_fewer_than_the_others(iris: tuple[Doubles, Doubles]) -> None:
    inputs, target = iris
    rows = DenseRows(inputs, np.where(target == 1, 1.0, -1.0))
    fit = fit_binary(L2SVM(0.1), rows, METHOD)
    scores = inputs @ fit.weights
    np.testing.assert_allclose(rows.scores(fit.weights), scores, rtol=1e-12)
    own, errors, none = fit.bias, error_minimising_bias(scores, rows.labels), 0.0
    wrong = [np.sum(np.sign(scores - bias) != rows.labels) for bias in (own, errors, none)]
    assert wrong[1] < min(wrong[0], wrong[2])
