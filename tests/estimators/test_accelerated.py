"""The nine models as scikit-learn estimators: optima compared with scikit-learn, and sample weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, NuSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from okl.estimators.accelerated import (
    AcceleratedClassifier,
    CSVMClassifier,
    DWDClassifier,
    L1L2SVMClassifier,
    L1LogisticClassifier,
    L2SVMClassifier,
    LogisticClassifier,
    MMFDAClassifier,
    MMMPMClassifier,
    NuSVMClassifier,
    UnifiedClassifier,
)
from okl.foundation.types import FloatArray
from okl.solvers.accelerated.models import MODEL_NAMES, model_class

MODEL = pytest.mark.parametrize("model", MODEL_NAMES)


def cancer(rows: int = 569) -> tuple[FloatArray, FloatArray]:
    inputs, labels = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(inputs)[:rows], labels[:rows]


def iris() -> tuple[FloatArray, FloatArray]:
    inputs, labels = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(inputs), labels


# classes that differ only in their model: checks of one also cover the other
LIKE: dict[type[AcceleratedClassifier], type[AcceleratedClassifier]] = {
    L2SVMClassifier: CSVMClassifier,
    NuSVMClassifier: DWDClassifier,
    MMMPMClassifier: MMFDAClassifier,
    L1L2SVMClassifier: L1LogisticClassifier,
}


# the checks use random labels, which have no good solution; coarse gaps are enough
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [  # type: ignore[untyped-decorator]
        UnifiedClassifier(tol=0.3),
        CSVMClassifier(tol=0.3),
        LogisticClassifier(tol=0.3),  # probabilities without calibration
        DWDClassifier(max_iter=5, method="fapg"),  # a parameter chosen from the rows
        MMFDAClassifier(tol=0.3),  # dense rows and no class weights
        L1LogisticClassifier(tol=0.3),  # without its own bias
    ]
)
def test_scikit_learn_checks_pass(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def test_every_class_is_checked_or_differs_from_one_that_is_in_its_model_alone() -> None:
    def own(kind: type) -> dict[str, Any]:
        return {name: value for name, value in vars(kind).items() if name[0] != "_" and not name.endswith("_request")}

    every = {*AcceleratedClassifier.__subclasses__()}
    while inner := {kind for kind in every if kind.__subclasses__()}:
        every = every - inner | {kind for base in inner for kind in base.__subclasses__()}
    checked = {UnifiedClassifier, LogisticClassifier}
    assert every == {*LIKE} | {*LIKE.values()} | checked
    assert len({getattr(kind, "SOLVER", None) for kind in every}) == len(every)
    for kind, like in LIKE.items():
        assert kind.__bases__ == like.__bases__
        assert own(kind) | {"SOLVER": like.SOLVER} == own(like)
        assert vars(kind).keys() - {"__slotnames__"} == vars(like).keys() - {"__slotnames__"}  # which copying would add


@pytest.mark.parametrize("made", LIKE)
def test_a_class_fits_its_model(made: Any) -> None:
    inputs, labels = cancer(150)
    fitted, named = made(tol=1e-4).fit(inputs, labels), UnifiedClassifier(model=made.SOLVER, tol=1e-4)
    np.testing.assert_array_equal(fitted.coef_, named.fit(inputs, labels).coef_)


@MODEL
def test_every_model_learns_and_certifies(model: str) -> None:
    inputs, labels = cancer()
    fitted = UnifiedClassifier(model=model, tol=1e-6).fit(inputs, labels)
    assert fitted.score(inputs, labels) > 0.94
    assert fitted.coef_.shape == (1, 30)
    assert fitted.duality_gap_ == fitted.objective_ - fitted.dual_objective_
    assert 0.0 <= fitted.duality_gap_ <= 1e-6 * abs(fitted.objective_)
    np.testing.assert_allclose(
        fitted.decision_function(inputs), inputs @ fitted.coef_[0] + fitted.intercept_, rtol=1e-9
    )


def test_c_svm_is_that_of_libsvm_linear_and_gaussian() -> None:
    inputs, labels = cancer()
    classifier = CSVMClassifier(C=0.5, tol=1e-9).fit(inputs, labels)
    peer = SVC(C=0.5, kernel="linear", tol=1e-8).fit(inputs, labels)
    np.testing.assert_allclose(classifier.coef_, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(classifier.intercept_, peer.intercept_, atol=1e-3)
    signs = np.where(labels == 1, 1.0, -1.0)
    shortfalls = np.maximum(0.0, 1.0 - signs * peer.decision_function(inputs))
    assert classifier.objective_ == pytest.approx(0.5 * (peer.coef_**2).sum() + 0.5 * shortfalls.sum(), rel=1e-6)
    classifier = CSVMClassifier(kernel="gaussian", bandwidth=5.0, tol=1e-9).fit(inputs, labels)
    peer = SVC(gamma=1 / 50.0, tol=1e-8).fit(inputs, labels)
    np.testing.assert_allclose(classifier.decision_function(inputs), peer.decision_function(inputs), atol=1e-4)
    # rows at a bound or just within it may differ by the gap
    assert len(set(peer.support_) - set(classifier.support_)) <= 2


def test_nu_svm_is_that_of_libsvm_up_to_its_scale() -> None:
    inputs, labels = cancer()
    classifier = NuSVMClassifier(nu=0.2, tol=1e-9).fit(inputs, labels)
    peer = NuSVC(nu=0.2, kernel="linear", tol=1e-8).fit(inputs, labels)
    direction, peer_direction = (found / np.linalg.norm(found) for found in (classifier.coef_, peer.coef_))
    np.testing.assert_allclose(direction, peer_direction, atol=1e-4)
    np.testing.assert_array_equal(classifier.predict(inputs), peer.predict(inputs))


def test_logistic_and_l2_svm_are_those_of_liblinear() -> None:
    inputs, labels = cancer()
    classifier = LogisticClassifier(C=2.0, tol=1e-10).fit(inputs, labels)
    peer = LogisticRegression(C=2.0, tol=1e-9, max_iter=1000).fit(inputs, labels)
    np.testing.assert_allclose(classifier.coef_, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(classifier.intercept_, peer.intercept_, atol=1e-4)
    classifier = L2SVMClassifier(C=0.1, fit_intercept=False, tol=1e-9).fit(inputs, labels)
    peer = LinearSVC(C=0.1, fit_intercept=False, tol=1e-9, max_iter=100_000, dual=False).fit(inputs, labels)
    np.testing.assert_allclose(classifier.coef_, peer.coef_, atol=1e-5)
    assert classifier.intercept_ == 0.0


def test_l1_models_are_those_of_liblinear_and_leave_columns_out() -> None:
    inputs, labels = cancer()
    classifier = L1LogisticClassifier(C=0.2, fit_intercept=False, tol=1e-9).fit(inputs, labels)
    peer = LogisticRegression(
        C=0.2, l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=1e-8, max_iter=10_000, random_state=0
    ).fit(inputs, labels)
    np.testing.assert_allclose(classifier.coef_, peer.coef_, atol=1e-3)
    assert 0 < np.count_nonzero(classifier.coef_) < 30
    with_bias = clone(classifier).set_params(fit_intercept=True).fit(inputs, labels)
    assert with_bias.score(inputs, labels) >= classifier.score(inputs, labels)
    assert with_bias.intercept_ != 0.0


@pytest.mark.parametrize("model", [name for name in MODEL_NAMES if not name.startswith("mm-")])
def test_sparse_rows_give_the_solution_of_dense_ones(model: str) -> None:
    inputs, labels = cancer(200)
    inputs = np.where(np.abs(inputs) > 0.7, inputs, 0.0)
    dense = UnifiedClassifier(model=model, tol=1e-6).fit(inputs, labels)
    fitted = UnifiedClassifier(model=model, tol=1e-6).fit(sparse.csr_array(inputs), labels)
    np.testing.assert_allclose(fitted.coef_, dense.coef_, rtol=0.01, atol=1e-3)
    np.testing.assert_allclose(
        fitted.decision_function(sparse.csr_matrix(inputs)), dense.decision_function(inputs), rtol=1e-2, atol=1e-3
    )


@pytest.mark.parametrize("model", [name for name in MODEL_NAMES if model_class(name).TAKES_KERNEL])
def test_kernel_of_products_gives_the_solution_of_explicit_columns(model: str) -> None:
    inputs, labels = cancer(150)
    explicit = UnifiedClassifier(model=model, tol=1e-6).fit(inputs, labels)
    # (x'x)^1 is the linear kernel under another name; no kernel value is cached
    same: dict[str, Any] = {"kernel": "polynomial", "degree": 1, "offset": 0.0, "bandwidth": 1.0}
    kernel = UnifiedClassifier(model=model, tol=1e-6, memory_budget=1, **same)
    kernel.fit(inputs, labels)
    assert kernel.objective_ == pytest.approx(explicit.objective_, rel=3e-6)
    assert kernel.dual_coef_.shape == (1, len(kernel.support_))
    np.testing.assert_array_equal(kernel.support_vectors_, inputs[kernel.support_])
    np.testing.assert_allclose(
        kernel.decision_function(inputs), explicit.decision_function(inputs), rtol=0.02, atol=0.02
    )


@MODEL
def test_weights_are_repeated_rows_to_the_last_bit(model: str) -> None:
    inputs, labels = cancer(120)
    weights = np.random.default_rng(0).integers(0, 4, len(labels))
    assert 10 < (weights == 0).sum() < 60
    order = np.random.default_rng(1).permutation(int(weights.sum()))
    whole, some = (UnifiedClassifier(model=model) for _ in range(2))
    whole.fit(inputs.repeat(weights, axis=0)[order], labels.repeat(weights)[order])
    some.fit(inputs, labels, sample_weight=weights)
    np.testing.assert_array_equal(some.coef_, whole.coef_)
    np.testing.assert_array_equal(some.intercept_, whole.intercept_)
    assert some.objective_ == whole.objective_


@MODEL
def test_several_classes_are_one_against_the_rest(model: str) -> None:
    inputs, labels = iris()
    several = UnifiedClassifier(model=model, tol=1e-4, n_jobs=2).fit(inputs, labels)
    assert several.coef_.shape == (3, 4)
    assert several.score(inputs, labels) > 0.8
    for code in range(3):
        alone = UnifiedClassifier(model=model, tol=1e-4).fit(inputs, labels == code)
        # equal rows are merged in an order that does not depend on the labels
        np.testing.assert_allclose(several.coef_[code], alone.coef_[0], rtol=1e-6, atol=1e-9)
        assert several.objective_[code] == pytest.approx(alone.objective_, rel=1e-9)
        assert several.n_iter_[code] == pytest.approx(alone.n_iter_, abs=20)


@pytest.mark.parametrize("data", [cancer, iris])
def test_probabilities_increase_with_scores_and_beat_class_shares(data: Any) -> None:
    inputs, labels = data()
    fitted = CSVMClassifier(probability=True, tol=1e-3, random_state=0).fit(inputs[::2], labels[::2])
    found, scores = fitted.predict_proba(inputs[1::2]), fitted.decision_function(inputs[1::2])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    shares = np.bincount(labels[::2]) / len(labels[::2])
    constant = np.tile(shares, (len(found), 1))
    assert log_loss(labels[1::2], found) < 0.5 * log_loss(labels[1::2], constant)
    if scores.ndim == 1:
        assert (np.diff(found[np.argsort(scores), 1]) >= 0.0).all()
    with pytest.raises(AttributeError) as raised:
        CSVMClassifier().predict_proba(inputs)
    assert str(raised.value.__cause__) == "Its scores are not probabilities. Set probability=True."


@pytest.mark.parametrize("data", [cancer, iris])
def test_scores_of_the_logistic_model_are_the_logarithm_of_the_odds(data: Any) -> None:
    inputs, labels = data()
    fitted, twin = LogisticClassifier(C=1.0, tol=1e-6).fit(inputs, labels), LogisticRegression(tol=1e-9, max_iter=1000)
    expected = np.stack(
        [twin.fit(inputs, labels == code).predict_proba(inputs)[:, 1] for code in range(labels.max() + 1)], axis=1
    )
    found = fitted.predict_proba(inputs)
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), atol=1e-3)
    assert (fitted.classes_[found.argmax(axis=1)] == fitted.predict(inputs)).all()
    shifted = UnifiedClassifier(model="logistic", bias="errors")
    assert not hasattr(shifted, "predict_proba")
    assert hasattr(shifted.set_params(probability=True), "predict_proba")


@pytest.mark.parametrize("norm", ["1", "inf"])
def test_a_bounded_norm_is_reached_and_certified_by_rows_of_any_kind(norm: str) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 6))
    labels = rows[:, 0] - rows[:, 1] + 0.3 * rng.normal(size=200) > 0.0
    model = UnifiedClassifier(model="logistic", norm=norm, radius=0.5, tol=1e-6)
    dense, csr = model.fit(rows, labels), clone(model).fit(sparse.csr_array(rows), labels)
    assert dense.duality_gap_ <= 1e-6 * dense.objective_
    assert np.linalg.norm(dense.coef_[0], float(norm)) == pytest.approx(0.5, rel=1e-9)
    assert csr.coef_ == pytest.approx(dense.coef_, abs=1e-6)
    for changes, sentence in (
        ({"model": "c-svm"}, "norm = '.*' is set, but the solver c-svm has no norm"),
        ({"norm": None}, "radius = 0.5 is set without a norm"),
        ({"method": "newton"}, "a bound on a norm takes method = fapg"),
        ({"kernel": "gaussian"}, "requires explicit rows"),
    ):
        with pytest.raises(ValueError, match=sentence):
            clone(model).set_params(**changes).fit(rows, labels)


def test_default_of_dwd_does_not_depend_on_the_unit_of_the_inputs() -> None:
    inputs, labels = cancer(200)
    plain, scaled = (DWDClassifier(tol=1e-6).fit(factor * inputs, labels) for factor in (1.0, 1e3))
    np.testing.assert_allclose(scaled.coef_, plain.coef_, atol=1e-3)
    assert scaled.chosen_["nu"] == pytest.approx(1e6 * plain.chosen_["nu"])
