"""SCSClassifier and SCSRegressor: they solve the stated problem in every space and with every bias."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from okl.estimators.subgradient import SCSClassifier, SCSRegressor
from okl.features.fourier import draw_fourier_map
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray
from okl.kernels import CustomKernel, Gaussian
from okl.losses import EpsilonInsensitive, Hinge, MulticlassHinge

SPACES = pytest.mark.parametrize("feature_map", ["orthogonal", None])


def two(rows: int = 600) -> tuple[FloatArray, FloatArray]:
    made = make_classification(rows, 8, n_informative=5, weights=[0.7], class_sep=0.8, random_state=0)
    return StandardScaler().fit_transform(made[0]), made[1]


def iris() -> tuple[FloatArray, FloatArray]:
    inputs, labels = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(inputs), labels


def squared_norm(model: Any, bias: str) -> float:
    """Return ||w||^2, plus b^2 if it is regularised."""
    squared = float((model.intercept_**2).sum()) if bias == "regularised" else 0.0
    if hasattr(model, "coef_"):
        return squared + float((model.coef_**2).sum())
    matrix = model.space_.kernel.matrix(model.support_vectors_, model.support_vectors_)
    return squared + sum(float(weights @ matrix @ weights) for weights in model.dual_coef_)


@SPACES
@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
def test_scores_have_the_objective_that_is_reported(feature_map: Any, bias: Any) -> None:
    inputs, labels = two()
    settings = {"feature_map": feature_map, "bias": bias, "lam": 0.01, "gap": 1e-5, "random_state": 0}
    model = SCSClassifier(**settings).fit(inputs, labels)
    losses = Hinge().value(model.decision_function(inputs), 2.0 * labels - 1.0)
    assert 0.005 * squared_norm(model, bias) + losses.mean() == pytest.approx(model.objective_, rel=1e-9)
    assert 0.0 <= model.objective_ - model.lower_bound_ <= 1e-5
    assert model.certificate_ is not None
    assert model.certificate_.confidence is None
    assert model.n_sample_ == len(labels)
    assert (model.intercept_ == 0.0).all() == (bias == "none")
    assert ("b^2" in model.problem_) == (bias == "regularised")


@pytest.mark.parametrize("feature_map", ["fixed", None])
@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
@pytest.mark.parametrize("task", ["two", "three", "number"])
def test_rows_that_weigh_2_are_rows_twice(feature_map: Any, bias: Any, task: str) -> None:
    if task == "three" and bias == "free":
        return
    inputs, targets = iris() if task == "three" else two(200)
    targets = inputs @ np.arange(inputs.shape[1]) if task == "number" else targets
    weights = np.random.default_rng(0).integers(0, 4, len(targets))
    own = draw_fourier_map(Gaussian(2.0), inputs.shape[1], 20, 0) if feature_map else None
    settings: dict[str, Any] = {"feature_map": own, "bias": bias, "lam": 0.01, "gap": 1e-6}
    settings["bandwidth"] = "auto" if own else 2.0
    regression = task == "number"
    made: Any = SCSRegressor(**settings) if regression else SCSClassifier(**settings, class_weight="balanced")
    repeated = np.repeat(np.arange(len(targets)), weights)
    weighted = clone(made).fit(inputs, targets, sample_weight=7.0 * weights)
    copies = clone(made).fit(inputs[repeated], targets[repeated])
    assert weighted.objective_ == pytest.approx(copies.objective_, abs=2e-6)
    scores = [model._scores(inputs) for model in (weighted, copies)]
    assert np.abs(scores[0] - scores[1]).max() < 0.05 * np.abs(scores[1]).max()
    assert abs(weighted.objective_ - clone(made).fit(inputs, targets).objective_) > 1e-4


@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
def test_sparse_rows_are_dense_rows(bias: Any) -> None:
    inputs, labels = two()
    inputs[np.random.default_rng(0).random(inputs.shape) < 0.6] = 0.0
    codes = labels + (inputs[:, 0] > 0.5) if bias != "free" else labels
    made = SCSClassifier(kernel="linear", feature_map=None, bias=bias, lam=0.01, gap=1e-4)
    for given in (codes, labels):
        dense, thin = clone(made).fit(inputs, given), clone(made).fit(sparse.csr_array(inputs), given)
        assert thin.objective_ == pytest.approx(dense.objective_, abs=2e-4)
        np.testing.assert_allclose(
            thin.decision_function(sparse.csr_array(inputs)), dense.decision_function(inputs), atol=0.2
        )
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        SCSClassifier().fit(sparse.csr_array(inputs), labels)
    with pytest.raises(DataError, match="Every row of class 1 has sample_weight 0"):
        made.fit(inputs, labels, sample_weight=1.0 - labels)


@SPACES
@pytest.mark.parametrize("bias", ["none", "regularised"])
def test_several_classes_and_regression_have_the_reported_objective(feature_map: Any, bias: Any) -> None:
    inputs, labels = iris()
    settings = {"feature_map": feature_map, "bias": bias, "lam": 0.01, "gap": 1e-4, "random_state": 0}
    model = SCSClassifier(**settings).fit(inputs, labels)
    losses = MulticlassHinge().value(model.decision_function(inputs), labels)
    assert 0.005 * squared_norm(model, bias) + losses.mean() == pytest.approx(model.objective_, rel=1e-9)
    assert model.score(inputs, labels) > 0.95
    numbers = 1000.0 + 50.0 * inputs[:, 0]
    regressor = SCSRegressor(**settings, epsilon=0.05).fit(inputs, numbers)
    scaled = [
        (values - regressor.target_center_) / regressor.target_spread_
        for values in (regressor.predict(inputs), numbers)
    ]
    losses = EpsilonInsensitive(0.05).value(*scaled)
    assert 0.005 * squared_norm(regressor, bias) + losses.mean() == pytest.approx(regressor.objective_, rel=1e-9)


def test_regressor_does_not_depend_on_the_unit_of_the_target_and_is_good_on_a_real_set() -> None:
    inputs, targets = load_diabetes(return_X_y=True)
    parts = train_test_split(StandardScaler().fit_transform(inputs), targets, random_state=0)
    plain = SCSRegressor(lam=0.01, random_state=0).fit(parts[0], parts[2])
    other = SCSRegressor(lam=0.01, random_state=0).fit(parts[0], 1e6 * (parts[2] - 100.0))
    assert plain.score(parts[1], parts[3]) > 0.3
    np.testing.assert_allclose(other.predict(parts[1]) / 1e6 + 100.0, plain.predict(parts[1]), rtol=1e-6)


@SPACES
def test_same_random_state_gives_the_same_bits_on_any_number_of_threads(feature_map: Any) -> None:
    inputs, labels = two(3000)
    model = SCSClassifier(feature_map=feature_map, first_sample=200, lam=0.01, random_state=0)
    scores = model.fit(inputs, labels).decision_function(inputs)
    for other in (clone(model), clone(model).set_params(n_jobs=2)):
        np.testing.assert_array_equal(other.fit(inputs, labels).decision_function(inputs), scores)
    np.testing.assert_array_equal(model.decision_function(inputs[7:9]), scores[7:9])
    another = clone(model).set_params(random_state=1).fit(inputs, labels)
    assert (another.decision_function(inputs) != scores).any()


def test_large_set_is_learnt_from_some_of_its_rows_with_a_confidence() -> None:
    inputs, labels = two(40_000)
    model = SCSClassifier(lam=0.1, gap=0.02, n_columns=64, random_state=0).fit(inputs, labels)
    assert model.n_sample_ < 20_000
    assert model.certificate_ is not None
    assert 0.95 <= (model.certificate_.confidence or 0.0) < 1.0
    assert model.certificate_.gap <= 0.02


@SPACES
def test_weights_of_classes_are_in_the_objective(feature_map: Any) -> None:
    inputs, labels = two()
    settings: dict[str, Any] = {"feature_map": feature_map, "lam": 0.01, "gap": 1e-4, "random_state": 0}
    model = SCSClassifier(class_weight="balanced", **settings).fit(inputs, labels)
    weights = len(labels) / (2.0 * np.bincount(labels))
    losses = weights[labels] * Hinge().value(model.decision_function(inputs), 2.0 * labels - 1.0)
    assert 0.005 * squared_norm(model, "none") + losses.mean() == pytest.approx(model.objective_, rel=1e-9)
    assert "class-weighted hinge" in model.problem_
    rare, plain = labels == 1, SCSClassifier(**settings).fit(inputs, labels)
    assert rare.mean() < 0.4
    assert (model.predict(inputs)[rare] == 1).mean() > (plain.predict(inputs)[rare] == 1).mean()


def test_growth_of_the_paper_reaches_the_same_objective() -> None:
    inputs, labels = two()
    settings: dict[str, Any] = {"lam": 0.01, "gap": 1e-3, "random_state": 0, "feature_map": None}
    model = SCSClassifier(growth="paper", directions="conjugate", first_sample=100, **settings).fit(inputs, labels)
    plain = SCSClassifier(**settings).fit(inputs, labels)
    assert abs(model.objective_ - plain.objective_) <= 2e-3
    assert model.n_sample_ == len(labels)


def test_missing_the_requested_gap_warns_with_the_reached_one() -> None:
    inputs, labels = two()
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        SCSClassifier(max_iter=2, gap=1e-6, random_state=0).fit(inputs, labels)
    with pytest.warns(ConvergenceWarning, match="rounding"):
        model = SCSClassifier(gap=1e-18, lam=0.1, random_state=0).fit(inputs, labels)
    assert any("cannot be certified" in note for note in model.notes_)
    with pytest.warns(ConvergenceWarning, match="the last iterations no longer reduce it"):
        SCSClassifier(gap=1e-18, lam=0.001, random_state=0, feature_map=None).fit(inputs, labels)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lam": 0.0}, "lam"),
        ({"lam": "small"}, "lam"),
        ({"gap": -1.0}, "gap"),
        ({"confidence": 1.5}, "confidence"),
        ({"confidence": 7, "growth": "paper", "directions": "conjugate"}, "confidence = 7"),
        ({"confidence": "high"}, "confidence = 'high'"),
        ({"bias": "some"}, "bias"),
        ({"growth": "fast"}, "growth"),
        ({"growth": "paper"}, "bundle"),
        ({"first_sample": 0}, "first_sample"),
        ({"kernel": CustomKernel("sine", lambda a, b: np.sin(3.0 * a @ b.T)), "feature_map": None}, "indefinite"),
        ({"kernel": Gaussian(1.0), "bandwidth": 2.0, "feature_map": None}, "bandwidth"),
        ({"feature_map": None, "memory_budget": 1000}, "budget"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SCSClassifier(**settings).fit(*two())


def test_one_class_and_infinite_targets_are_refused() -> None:
    inputs, labels = two()
    with pytest.raises(DataError, match="requires at least two classes"):
        SCSClassifier().fit(inputs, np.zeros_like(labels))
    with pytest.raises(DataError, match="no finite standard deviation"):
        SCSRegressor().fit(inputs, np.where(labels > 0, 1.7e308, -1.7e308))
