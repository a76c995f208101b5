from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import okl
from okl.estimators.online import (
    ConstrainedFOGDClassifier,
    ConstrainedFOGDRegressor,
    ConstrainedNOGDClassifier,
    ConstrainedNOGDRegressor,
    FOGDClassifier,
    NOGDClassifier,
    NOGDRegressor,
)
from okl.features.nystrom import NystromFeatures
from okl.foundation.errors import ConfigError, DataError, DivergedError
from okl.foundation.types import FloatArray
from tests.estimators.cases import moons

BOUND = 0.01


def covariance(scores: FloatArray, column: FloatArray) -> float:
    return float(np.cov(scores.astype(np.float64), column, bias=True)[0, 1])


FOGD: dict[str, Any] = {"n_frequencies": 50, "random_state": 0}
NOGD: dict[str, Any] = {"budget": 60, "random_state": 0}


@pytest.mark.parametrize("track", [False, True])
@pytest.mark.parametrize(
    ("kind", "values"), [(ConstrainedFOGDClassifier, FOGD), (ConstrainedNOGDClassifier, NOGD)], ids=["fogd", "nogd"]
)
def test_fit_keeps_its_constraints_and_more_rows_refresh_them(track: bool, kind: Any, values: dict[str, Any]) -> None:
    inputs, labels = moons()
    side = np.where(inputs[:, 0] > 0.5, "right", "left")
    right = (side == "right").astype(np.float64)
    texts = [f"abs(covariance(x)) <= {BOUND}", "difference(side=right, side=left) <= 0.2"]
    sensitive = {"x": right, "side": side}
    fair = kind(constraints=texts, passes=1, track=track, **values)
    fair.fit(inputs, labels, sensitive)
    assert abs(covariance(fair.decision_function(inputs), right)) <= BOUND
    assert fair.claims_theorem_
    assert fair.score(inputs, labels) > 0.7
    drawn = np.random.default_rng(0).permutation(len(labels))
    parts = np.split(drawn, [256, 512])
    assert (len(getattr(fair.state_, "shares", ())) > 1) == track
    assert isinstance(fair.learner_.feature_map, NystromFeatures) == (values is NOGD)
    fair = kind(constraints=texts, track=track, **values)
    for part in parts:
        sensitive_part = {name: values[part] for name, values in sensitive.items()}
        fair.partial_fit(inputs[part], labels[part], classes=[0, 1], sensitive=sensitive_part)
    assert abs(covariance(fair.decision_function(inputs), right)) <= BOUND
    assert not fair.claims_theorem_


def test_limits_hold_for_the_score_of_each_class() -> None:
    inputs, labels = moons()
    right = (inputs[:, 0] > 0.5).astype(np.float64)
    three = labels + (inputs[:, 1] > 0.5)
    fair = ConstrainedFOGDClassifier(constraints=[f"abs(covariance(x)) <= {BOUND}"], n_frequencies=50, random_state=0)
    scores = fair.fit(inputs, three, {"x": right}).decision_function(inputs)
    assert scores.shape == (len(labels), 3)
    assert max(abs(covariance(of_class, right)) for of_class in scores.T) <= BOUND
    assert fair.score(inputs, three) > 0.5


@pytest.mark.parametrize("scale_target", [True, False])
@pytest.mark.parametrize(
    ("kind", "values"), [(ConstrainedFOGDRegressor, FOGD), (ConstrainedNOGDRegressor, NOGD)], ids=["fogd", "nogd"]
)
def test_limits_of_a_regression_are_in_the_unit_of_its_target(
    scale_target: bool, kind: Any, values: dict[str, Any]
) -> None:
    inputs, labels = moons()
    targets, right = 1000.0 + 50.0 * labels + 20.0 * inputs[:, 0], (inputs[:, 0] > 0.5).astype(np.float64)
    texts = ["abs(difference(right=1, right=0)) <= 5", "mean(right=1) >= 1030"]
    radius = 8.0 if scale_target else 8000.0
    fair = kind(constraints=texts, radius=radius, bandwidth=1.0, scale_target=scale_target, **values)
    for part in (slice(0, 512), slice(512, None)):  # the second call refreshes the rows of the first
        fair.partial_fit(inputs[part], targets[part], {"right": right[part]})
    predictions = [fair.predict(inputs), fair.fit(inputs, targets, {"right": right}).predict(inputs)]
    for predicted in predictions:
        assert abs(predicted[right == 1].mean() - predicted[right == 0].mean()) <= 5.0
        assert predicted[right == 1].mean() >= 1030.0
    assert abs(targets[right == 1].mean() - targets[right == 0].mean()) > 7.0
    assert np.abs(predictions[0] - predictions[1]).max() > 0.1


def test_missing_columns_and_constraints_raise() -> None:
    inputs, labels = moons(100)
    with pytest.raises(DataError, match="no column 'x'"):
        ConstrainedFOGDClassifier(constraints=["mean(x=1) <= 1"]).fit(inputs, labels, {"z": labels})
    limit = "mean(side=1) <= 1"
    with pytest.raises(ConfigError, match=r"constraints = 'mean\(side=1\) <= 1'; expected a list of such expressions"):
        ConstrainedFOGDClassifier(constraints=limit).fit([[0.0], [1.0]], [0, 1], {"side": [0, 1]})
    with pytest.raises(
        DataError, match=r"sensitive is of type ndarray; expected columns by name, such as {'side': val"
    ):
        ConstrainedFOGDClassifier(constraints=[limit]).fit([[0.0], [1.0]], [0, 1], cast(Any, np.array([0, 1])))
    with pytest.raises(ConfigError, match="constraints is empty"):
        ConstrainedFOGDClassifier().fit(inputs, labels)
    with pytest.raises(DataError, match="must have 100 rows, as X has"):
        ConstrainedFOGDClassifier(constraints=["mean(x=1) <= 1"]).fit(inputs, labels, {"x": labels[:7]})


def scores_after_more_rows(
    model: ConstrainedFOGDClassifier, rows: slice, labels: FloatArray, side: FloatArray
) -> FloatArray:
    """Return scores of all rows after partial_fit on further rows."""
    inputs, _ = moons(768)
    model.partial_fit(inputs[rows], labels[rows], classes=[0, 1], sensitive={"x": side[rows]})
    scores: FloatArray = model.decision_function(inputs)
    return scores


def test_rows_with_conflicting_constraints_leave_the_estimator_unchanged() -> None:
    inputs, labels = moons(768)
    side = (inputs[:, 0] > 2.0).astype(np.float64)
    side[256:512] = np.arange(256) % 2  # on which scores cannot depend that strongly
    one, other = (
        ConstrainedFOGDClassifier(
            constraints=["difference(x=1, x=0) >= 0.5"], radius=1.0, n_frequencies=20, bandwidth=0.5, random_state=0
        )
        for _ in range(2)
    )
    before = scores_after_more_rows(one, slice(0, 256), labels, side)
    scores_after_more_rows(other, slice(0, 256), labels, side)
    with pytest.raises(ConfigError, match="No weights of norm up to 1 "):
        scores_after_more_rows(one, slice(256, 512), labels, side)
    np.testing.assert_array_equal(one.decision_function(inputs), before)
    np.testing.assert_array_equal(
        scores_after_more_rows(one, slice(512, 768), labels, side),
        scores_after_more_rows(other, slice(512, 768), labels, side),
    )


@pytest.mark.parametrize("started", [True, False], ids=["later rows", "the first rows"])
def test_rows_that_diverge_leave_the_estimator_unchanged(started: bool) -> None:
    inputs, labels = moons(768)
    labels = np.where((np.arange(768) >= 256) & (np.arange(768) < 512), labels, 1)  # these rows have an infinite weight
    side = np.round(inputs[:, 0])
    one, other = (
        ConstrainedFOGDClassifier(
            constraints=["abs(covariance(x)) <= 0.01"],
            class_weight={0: 1e300, 1: 1.0},
            n_frequencies=20,
            bandwidth=0.5,
            random_state=0,
        )
        for _ in range(2)
    )
    for model in (one, other) if started else ():
        before = scores_after_more_rows(model, slice(0, 256), labels, side)
    with pytest.raises(DivergedError, match="no longer finite"):
        scores_after_more_rows(one, slice(256, 512), labels, side)
    if started:
        np.testing.assert_array_equal(one.decision_function(inputs), before)
    np.testing.assert_array_equal(
        scores_after_more_rows(one, slice(512, 768), labels, side),
        scores_after_more_rows(other, slice(512, 768), labels, side),
    )
    assert np.ptp(one.decision_function(inputs)) > 1.0


@pytest.mark.parametrize("kernel", ["linear", "polynomial", "gaussian"])
def test_tracked_numbers_stay_in_their_range_for_kernels_of_any_length(kernel: str) -> None:
    rng = np.random.default_rng(1)
    inputs = rng.standard_normal((240, 4))
    targets = 1000.0 + 10.0 * inputs[:, 0] + 3.0 * rng.standard_normal(240)
    for n_passes in (1, 5):
        fitted = NOGDRegressor(kernel=kernel, track=True, passes=n_passes, random_state=0).fit(inputs, targets)
        assert fitted.score(inputs, targets) > (0.1 if kernel == "gaussian" else 0.4)


def test_values_of_auto_parameters_are_not_as_given() -> None:
    inputs, labels = moons()
    ranks: tuple[Any, ...] = ("auto", 30)
    reasons = [NOGDClassifier(rank=rank, random_state=0).fit(inputs, labels).chosen_ for rank in ranks]
    assert [chosen["rank"] for chosen in reasons] == [30, 30]
    assert [chosen["rank_reason"] for chosen in reasons] == ["by default", "as given"]


@pytest.mark.parametrize("kind", [FOGDClassifier, okl.KernelRidgeClassifier, okl.CSVMClassifier])
def test_missing_values_and_wrong_numbers_of_jobs_are_refused_in_a_sentence(kind: Any) -> None:
    inputs, labels = moons()
    absent = np.where(np.arange(len(inputs))[:, np.newaxis] == 3, np.nan, inputs)
    with pytest.raises(DataError, match=r"Input X contains NaN\. .* okl\.KernelClassifier and okl\.KernelRegressor do"):
        kind().fit(absent, labels)
    for jobs in ("a", 1.5, 0):
        with pytest.raises(ConfigError, match=r"n_jobs = .*; expected a whole number such as 2, -1 for all cores"):
            kind(n_jobs=jobs).fit(inputs, labels)
    if kind is FOGDClassifier:
        with pytest.raises(ConfigError, match="shuffle = 'yes'; expected True or False"):
            FOGDClassifier(shuffle=cast(Any, "yes")).fit(inputs, labels)


def test_a_first_call_of_few_rows_warns_unless_the_step_size_is_given() -> None:
    inputs, labels = moons()
    with pytest.warns(UserWarning, match=r"chooses the step size, on 100 rows\. Give it 256 or more"):
        FOGDClassifier(random_state=0).partial_fit(inputs[:100], labels[:100], np.unique(labels))
    FOGDClassifier(random_state=0).partial_fit(inputs[:256], labels[:256], np.unique(labels))
    FOGDClassifier(random_state=0, step_size=0.5).partial_fit(inputs[:100], labels[:100], np.unique(labels))


def test_names_of_maps_and_kernels_are_those_that_the_class_accepts() -> None:
    inputs, labels = moons()
    kernels = (
        r"kernel = 'rbf'; expected one of gaussian, laplacian, matern32, matern52 \(did you mean 'gaussian'\?\)\.$"
    )
    maps = r"map = '(x|exact)'; expected one of auto, independent, nystrom, orthogonal, quasi, structured\.$"
    for values, message in (({"kernel": "rbf"}, kernels), ({"map": "x"}, maps), ({"map": "exact"}, maps)):
        with pytest.raises(ConfigError, match=message):
            FOGDClassifier(**cast(Any, values)).fit(inputs, labels)
    with pytest.raises(ConfigError, match=r"'polynomial' is not shift-invariant.* the solver nogd"):
        FOGDClassifier(kernel="polynomial").fit(inputs, labels)
