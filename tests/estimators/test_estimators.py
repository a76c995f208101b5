"""The scikit-learn estimators: scikit-learn's checks without expected failures, and further tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine, make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from okl.estimators.fourier_map import FourierMap
from okl.estimators.online import (
    BudgetKernelClassifier,
    BudgetKernelRegressor,
    ExpertKernelClassifier,
    ExpertKernelRegressor,
    FOGDClassifier,
    FOGDRegressor,
    NOGDClassifier,
    NOGDRegressor,
    PegasosClassifier,
)
from okl.estimators.ridge import KernelRidgeClassifier, KernelRidgeRegressor, LocalRidgeClassifier, LocalRidgeRegressor
from okl.estimators.subgradient import SCSClassifier, SCSRegressor
from tests.estimators.cases import CASE, classes_of, moons, outputs, prepare, several, waves

DRAWN = "maps, landmarks and samples are drawn from the rows, and a row left out leaves its repeats in"
UNEQUAL = {"check_sample_weight_equivalence_on_dense_data": DRAWN}
WEIGHTED = SCSClassifier | SCSRegressor | KernelRidgeClassifier | KernelRidgeRegressor


@pytest.mark.filterwarnings("ignore:The first call of partial_fit chooses the step size")
@parametrize_with_checks(
    [  # type: ignore[untyped-decorator]
        BudgetKernelClassifier(passes=1),
        BudgetKernelRegressor(passes=1),
        ExpertKernelClassifier(passes=1),
        ExpertKernelRegressor(passes=1),
        FOGDClassifier(passes=1),
        FOGDRegressor(passes=1),
        FourierMap(),
        KernelRidgeClassifier(n_landmarks=100),
        KernelRidgeRegressor(n_landmarks=100),
        LocalRidgeClassifier(cell_rows=50, partitions=1, penalty=0.01),
        LocalRidgeRegressor(cell_rows=50, bandwidth=1.0, penalty=0.001),
        NOGDClassifier(passes=1),
        NOGDRegressor(passes=1),
        PegasosClassifier(passes=1),
        SCSClassifier(),
        SCSRegressor(),
    ],
    expected_failed_checks=lambda estimator: UNEQUAL if isinstance(estimator, WEIGHTED) else {},
)
def test_scikit_learn_checks_pass(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.parametrize("kernel", ["linear", "sparse", "gaussian"])
@pytest.mark.parametrize("kind", [KernelRidgeClassifier, KernelRidgeRegressor])
def test_weights_of_kernel_least_squares_are_repeated_rows(kind: Any, kernel: str) -> None:
    rng = np.random.default_rng(0)
    inputs, weights = rng.normal(size=(300, 4)), rng.integers(0, 4, 300).astype(float)
    targets = (inputs[:, 0] + rng.normal(size=300) > 0.5).astype(float)
    rows: Any = csr_array(inputs) if kernel == "sparse" else inputs
    given = {"bandwidth": 2.0, "n_landmarks": 5000} if kernel == "gaussian" else {"kernel": "linear"}
    repeats, own = np.repeat(np.arange(300), weights.astype(int)), weights > 0.0

    def scores(rows: Any, targets: Any, sample_weight: Any = None, penalty: Any = 1e-3) -> Any:
        made = kind(random_state=0, penalty=penalty, **given).fit(rows, targets, sample_weight=sample_weight)
        return made._scores(inputs)

    found = scores(rows, targets, 5.0 * weights)
    assert found == pytest.approx(scores(rows[repeats], targets[repeats]), abs=1e-5)
    assert np.abs(found - scores(rows, targets)).max() > 0.05
    alone = scores(rows[own], targets[own], weights[own], "auto")
    assert scores(rows, targets, weights, "auto") == pytest.approx(alone, abs=1e-6)  # rows of weight 0 are left out


@pytest.mark.parametrize("made", [FOGDClassifier(loss="logistic"), NOGDClassifier(loss="logistic")])
def test_probabilities_are_shares_of_rows(made: Any) -> None:
    inputs, labels = load_breast_cancer(return_X_y=True)
    inputs = StandardScaler().fit_transform(inputs)
    found = made.set_params(random_state=0).fit(inputs[::2], labels[::2]).predict_proba(inputs[1::2])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert (made.classes_[found.argmax(axis=1)] == made.predict(inputs[1::2])).all()
    assert log_loss(labels[1::2], found) < 0.2  # the class shares give 0.66
    for part in np.array_split(np.argsort(found[:, 1]), 5):
        assert abs(labels[1::2][part].mean() - found[part, 1].mean()) < 0.1


def test_scores_that_are_no_odds_have_no_probabilities_but_can_be_calibrated() -> None:
    for made in (FOGDClassifier(), FOGDClassifier(loss="logistic", track=True), KernelRidgeClassifier()):
        assert not hasattr(made, "predict_proba")
    with pytest.raises(AttributeError) as raised:
        FOGDClassifier().predict_proba([[0.0]])
    assert 'loss="logistic"' in str(raised.value.__cause__)
    inputs, labels = several()
    assert not hasattr(FOGDClassifier(loss="logistic", random_state=0).fit(inputs, labels), "predict_proba")
    calibrated = CalibratedClassifierCV(KernelRidgeClassifier(n_landmarks=100), cv=3).fit(inputs[::2], labels[::2])
    found = calibrated.predict_proba(inputs[1::2])
    assert log_loss(labels[1::2], found) < 0.5 * np.log(4)  # four classes, equally frequent


@pytest.mark.parametrize(("load", "least"), [(load_breast_cancer, 0.97), (load_wine, 0.97)])
def test_classifier_defaults_are_good_on_small_real_sets(load: Callable[..., Any], least: float) -> None:
    inputs, labels = load(return_X_y=True)
    model = make_pipeline(StandardScaler(), FOGDClassifier(random_state=0))
    assert cross_val_score(model, inputs, labels, cv=4).mean() > least


def test_regressor_defaults_are_good_on_a_small_real_set() -> None:
    inputs, targets = load_diabetes(return_X_y=True)
    model = make_pipeline(StandardScaler(), FOGDRegressor(random_state=0))
    assert cross_val_score(model, inputs, targets, cv=4).mean() > 0.45


@CASE
def test_same_random_state_gives_the_same_bits_and_another_gives_others(case: str) -> None:
    estimator, inputs, targets = prepare(case, passes=2)
    first = outputs(estimator.fit(inputs, targets), inputs)
    np.testing.assert_array_equal(outputs(estimator.fit(inputs, targets), inputs), first)
    np.testing.assert_array_equal(outputs(clone(estimator).fit(inputs, targets), inputs), first)
    np.testing.assert_array_equal(outputs(clone(estimator).set_params(n_jobs=2).fit(inputs, targets), inputs), first)
    assert (outputs(clone(estimator).set_params(random_state=4).fit(inputs, targets), inputs) != first).any()


@CASE
def test_partial_fit_in_parts_of_256_rows_equals_one_pass_in_order(case: str) -> None:
    fixed = {"bandwidth": 2.0, "step_size": 0.5, "passes": 1, "shuffle": False}
    estimator, inputs, targets = prepare(case, **fixed)
    parts = clone(estimator)
    if isinstance(estimator, FOGDRegressor):
        estimator.set_params(scale_target=False)
        parts.set_params(scale_target=False)
    for start in range(0, len(targets), 256):
        rows = slice(start, start + 256)
        parts.partial_fit(inputs[rows], targets[rows], **classes_of(estimator, targets))
    estimator.fit(inputs, targets)
    assert parts.state_.progress.rows == len(targets)
    np.testing.assert_array_equal(outputs(parts, inputs), outputs(estimator, inputs))


@CASE
def test_partial_fit_continues_after_fit_and_fit_starts_over(case: str) -> None:
    estimator, inputs, targets = prepare(case, passes=2)
    first = outputs(estimator.fit(inputs, targets), inputs)
    estimator.partial_fit(inputs[:300], targets[:300])
    assert estimator.state_.progress.rows == 2 * len(targets) + 300
    assert (outputs(estimator, inputs) != first).any()
    np.testing.assert_array_equal(outputs(estimator.fit(inputs, targets), inputs), first)


@CASE
def test_fit_leaves_its_inputs_unchanged(case: str) -> None:
    estimator, inputs, targets = prepare(case)
    before = inputs.copy(), targets.copy()
    estimator.fit(inputs, targets).partial_fit(inputs, targets)
    estimator.predict(inputs)
    np.testing.assert_array_equal(inputs, before[0])
    np.testing.assert_array_equal(targets, before[1])


def test_labels_of_any_kind_are_predicted() -> None:
    inputs, labels = several()
    names = np.array(["oak", "ash", "elm", "yew"])[labels]
    numbered, named = (FOGDClassifier(passes=2, random_state=0, shuffle=False) for _ in range(2))
    order = np.argsort(["oak", "ash", "elm", "yew"])
    numbered.fit(inputs, np.argsort(order)[labels])
    named.fit(inputs, names)
    assert named.classes_.tolist() == ["ash", "elm", "oak", "yew"]
    np.testing.assert_array_equal(named.predict(inputs), named.classes_[numbered.predict(inputs)])
    assert named.decision_function(inputs).shape == (900, 4)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_class_weights_favour_their_class(loss: Literal["hinge", "logistic"]) -> None:
    inputs, labels = make_classification(1500, 10, weights=[0.9], flip_y=0.1, class_sep=0.5, random_state=1)
    rare = labels == 1
    recalls = []
    for class_weight in (None, "balanced", {0: 1.0, 1: 30.0}):
        model = FOGDClassifier(loss=loss, class_weight=class_weight, passes=3, random_state=0).fit(inputs, labels)
        recalls.append(float((model.predict(inputs)[rare] == 1).mean()))
    assert recalls[0] + 0.1 < recalls[1] < recalls[2]
    balanced = len(labels) / (2 * np.bincount(labels))
    by_hand = FOGDClassifier(loss=loss, class_weight=dict(enumerate(balanced)), passes=3, random_state=0)
    model.set_params(class_weight="balanced").fit(inputs, labels)
    np.testing.assert_array_equal(by_hand.fit(inputs, labels).predict(inputs), model.predict(inputs))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e7])
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_regression_does_not_depend_on_the_unit_of_the_target(scale: float, shift: float) -> None:
    inputs, targets = waves()
    plain = FOGDRegressor(passes=5, random_state=0).fit(inputs, targets)
    other = FOGDRegressor(passes=5, random_state=0).fit(inputs, (targets + shift) * scale)
    assert plain.score(inputs, targets) > 0.9
    np.testing.assert_allclose(other.predict(inputs) / scale - shift, plain.predict(inputs), atol=1e-3)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_regression_never_diverges_on_unscaled_targets(scale: float) -> None:
    inputs, targets = waves()
    model = FOGDRegressor(scale_target=False, random_state=0).fit(inputs, (targets + 20) * scale)
    assert model.chosen_["step_size"] <= 1
    assert np.abs(model.predict(inputs)).max() <= 30 * scale


def test_constant_target_is_predicted_and_nothing_is_learnt() -> None:
    inputs = waves()[0]
    model = FOGDRegressor(random_state=0).fit(inputs, np.full(len(inputs), 7.0))
    np.testing.assert_array_equal(model.predict(inputs), 7.0)
    assert model.state_.progress.updates == 0


def test_pipeline_and_grid_search_choose_the_better_bandwidth() -> None:
    inputs, labels = moons(400)
    pipeline = make_pipeline(StandardScaler(), FOGDClassifier(n_frequencies=100, passes=5, random_state=0))
    grid = {
        "fogdclassifier__bandwidth": np.array([1, 50]),  # NumPy integers are numbers too
        "fogdclassifier__n_frequencies": np.array([50, 100]),
        "fogdclassifier__step_size": np.array([0.5], dtype=np.float32),
    }
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(inputs, labels)
    assert search.best_params_["fogdclassifier__bandwidth"] == 1
    assert search.best_score_ > 0.95
    assert search.predict(inputs[:3]).shape == (3,)
