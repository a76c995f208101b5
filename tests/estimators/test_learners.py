"""Properties of every online estimator."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from okl.estimators import online
from okl.estimators.base import OnlineEstimator
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray
from okl.kernels import CustomKernel, Gaussian
from tests.estimators.cases import moons, several, waves

CLASSIFIERS: dict[str, OnlineEstimator] = {
    "fogd": online.FOGDClassifier(),
    "fogd-float64": online.FOGDClassifier(precision="float64"),
    "nogd": online.NOGDClassifier(budget=60),
    "nogd-kmeans": online.NOGDClassifier(budget=60, landmarks="kmeans", rank=40),
    "bsgd-merging": online.BudgetKernelClassifier(budget=60),
    "projectron": online.BudgetKernelClassifier(strategy="projectron", budget=60),
    "ogd": online.BudgetKernelClassifier(strategy="ogd", passes=2),
    "experts": online.ExpertKernelClassifier(),
    "pegasos": online.PegasosClassifier(),
}
REGRESSORS: dict[str, OnlineEstimator] = {
    "fogd": online.FOGDRegressor(),
    "nogd": online.NOGDRegressor(budget=60, rank=40),
    "nogd-rpcholesky": online.NOGDRegressor(budget=60, landmarks="rpcholesky", rank=40),
    "ogd": online.BudgetKernelRegressor(strategy="ogd", passes=2),
    "projectron": online.BudgetKernelRegressor(budget=60),
    "experts": online.ExpertKernelRegressor(),
}
CASES: list[tuple[OnlineEstimator, Any]] = [
    *((learner, data) for learner in CLASSIFIERS.values() for data in (moons, several)),
    *((learner, waves) for learner in REGRESSORS.values()),
]
CASE = pytest.mark.parametrize(("learner", "data"), CASES)


def prepare(learner: OnlineEstimator, data: Any) -> tuple[Any, FloatArray, FloatArray]:
    inputs, targets = data()
    return clone(learner).set_params(random_state=3), inputs, targets


def outputs(fitted: Any, inputs: FloatArray) -> FloatArray:
    scores: FloatArray = fitted.decision_function(inputs) if hasattr(fitted, "classes_") else fitted.predict(inputs)
    return scores


@CASE
def test_nonlinear_data_are_learnt_better_than_by_a_linear_model(learner: OnlineEstimator, data: Any) -> None:
    estimator, inputs, targets = prepare(learner, data)
    train_inputs, test_inputs, train_targets, test_targets = train_test_split(inputs, targets, random_state=0)
    assert estimator.fit(train_inputs, train_targets).score(test_inputs, test_targets) > 0.8


@CASE
def test_bits_depend_neither_on_threads_nor_on_other_rows(learner: OnlineEstimator, data: Any) -> None:
    estimator, inputs, targets = prepare(learner, data)
    whole = outputs(estimator.set_params(passes=1).fit(inputs, targets), inputs)
    threaded = clone(estimator).set_params(n_jobs=2).fit(inputs, targets)
    np.testing.assert_array_equal(outputs(threaded, inputs), whole)
    order = np.random.default_rng(0).permutation(len(inputs))
    np.testing.assert_array_equal(outputs(estimator, inputs[order]), whole[order])
    parts = [outputs(estimator, inputs[i : i + 3]) for i in range(0, 99, 3)]
    np.testing.assert_array_equal(np.concatenate(parts), whole[:99])


@CASE
def test_pickled_estimators_continue_to_the_same_bits(learner: OnlineEstimator, data: Any) -> None:
    estimator, inputs, targets = prepare(learner, data)
    again = pickle.loads(pickle.dumps(estimator.set_params(passes=1).fit(inputs[:500], targets[:500])))
    for model in (estimator, again):
        model.partial_fit(inputs[500:], targets[500:])
    np.testing.assert_array_equal(outputs(again, inputs), outputs(estimator, inputs))
    assert estimator.state_.progress.rows == len(targets)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (online.NOGDClassifier(budget=20, rank=21), "rank = 21 is more than the 20 landmarks"),
        (online.NOGDClassifier(budget=20, rank=21, landmarks="uniform"), "rank = 21 is more than the 20 landmarks"),
        (online.NOGDClassifier(landmarks="nearest"), "landmarks = 'nearest'"),  # type: ignore[arg-type]
        (online.BudgetKernelClassifier(strategy="nearest"), "strategy = 'nearest'; expected one of"),
        (
            online.BudgetKernelClassifier(strategy="rbp", regularisation=0.1),
            "regularisation = 0.1 is set, but the solver rbp has no regularisation",
        ),
        (online.BudgetKernelClassifier(kernel="cubic"), "kernel = 'cubic'"),
        (online.ExpertKernelClassifier(kernel="linear"), "'linear'"),
        (online.NOGDClassifier(budget=0), "budget = 0"),
        (
            online.NOGDClassifier(kernel=Gaussian(2.0), bandwidth=5.0),
            "bandwidth = 5 is set, but the kernel 'gaussian' has its own",
        ),
    ],
)
def test_parameters_that_do_not_fit_are_named(estimator: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        estimator.fit(*moons(400))


def test_nogd_takes_a_custom_kernel() -> None:
    def histogram_intersection(left: FloatArray, right: FloatArray) -> FloatArray:
        values: FloatArray = np.minimum(left[:, None, :], right[None, :, :]).sum(axis=2)
        return values

    inputs, labels = moons()
    inputs = inputs - inputs.min(axis=0)
    model = online.NOGDClassifier(kernel=CustomKernel("intersection", histogram_intersection), rank=60, random_state=0)
    assert model.fit(inputs[:700], labels[:700]).score(inputs[700:], labels[700:]) > 0.9
