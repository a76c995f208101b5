"""Spaces of the nine models, and their errors and warnings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from okl.estimators.accelerated import CSVMClassifier, MMFDAClassifier, NuSVMClassifier, UnifiedClassifier
from okl.estimators.subgradient import SCSClassifier
from okl.features.fourier import draw_fourier_map
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray
from okl.kernels import CustomKernel, Gaussian
from tests.estimators.cases import moons, several


def products(left: FloatArray, right: FloatArray) -> FloatArray:
    values: FloatArray = (1.0 + left @ right.T) ** 3
    return values


@pytest.mark.parametrize(
    "space",
    [
        {"kernel": "gaussian", "bandwidth": 0.5},
        {"kernel": CustomKernel("cubic", products)},
        {"kernel": "gaussian", "bandwidth": 0.5, "feature_map": "fourier", "n_columns": 100},
        {"kernel": "gaussian", "bandwidth": 0.5, "feature_map": "nystrom", "n_columns": 40},
        {"feature_map": draw_fourier_map(Gaussian(0.5), 2, 50, 0, "float64")},
    ],
)
def test_spaces_fit_nonlinear_data_better_than_a_linear_model(space: dict[str, Any]) -> None:
    inputs, labels = moons(300)
    fitted = CSVMClassifier(**space, tol=1e-4, C=10.0, random_state=0).fit(inputs[:200], labels[:200])
    assert fitted.score(inputs[200:], labels[200:]) > 0.93
    assert hasattr(fitted, "coef_") == ("feature_map" in space) != hasattr(fitted, "dual_coef_")


@pytest.mark.parametrize("space", [{}, {"kernel": "gaussian"}, {"kernel": "gaussian", "feature_map": "fourier"}])
def test_bits_depend_neither_on_threads_nor_on_other_rows(space: dict[str, Any]) -> None:
    inputs, labels = several(400)
    settings = {"tol": 1e-2, "n_columns": 60, "random_state": 3, **space}
    alone, threaded = (CSVMClassifier(n_jobs=jobs, **settings).fit(inputs, labels) for jobs in (1, 2))
    whole = alone.decision_function(inputs)
    np.testing.assert_array_equal(threaded.decision_function(inputs), whole)
    order = np.random.default_rng(0).permutation(len(inputs))
    np.testing.assert_array_equal(alone.decision_function(inputs[order]), whole[order])


def test_bias_of_fewest_errors_has_a_higher_score_than_the_own_bias() -> None:
    inputs, labels = moons(200)
    own, fewest, none = (
        CSVMClassifier(**given).fit(inputs, labels) for given in ({}, {"bias": "errors"}, {"fit_intercept": False})
    )
    np.testing.assert_array_equal(own.coef_, fewest.coef_)
    assert own.intercept_ != fewest.intercept_
    assert none.intercept_ == 0.0
    assert fewest.score(inputs, labels) > own.score(inputs, labels)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"model": "svm"}, "model = 'svm'; expected one of"),
        ({"C": 0.0}, "UnifiedClassifier: C = 0.0: input should be greater than 0"),
        ({"C": -1}, "C = -1"),
        ({"C": float("inf")}, "C = inf: input should be a finite number"),
        ({"C": 1e300}, r"C = 1e\+300 is above 1e\+100, beyond which its square is infinite"),
        ({"C": "large"}, "C = 'large': input should be a valid number"),
        ({"nu": 0.5}, "nu = 0.5 is set, but the solver c-svm has no nu: it belongs to nu-svm or dwd"),
        ({"model": "nu-svm", "nu": 1.0}, r"nu = 1.0 is outside \(0, 0.99"),
        ({"model": "mm-fda", "kappa": 100.0}, r"kappa = 100.0 is outside \(0, "),
        ({"model": "mm-mpm", "kernel": "gaussian"}, "kernel = 'gaussian' is not available for model = 'mm-mpm'"),
        ({"kernel": "cubic"}, "kernel = 'cubic'"),
        ({"bandwidth": 1.0}, "bandwidth = 1.0 have no effect with the linear kernel"),
        ({"kernel": Gaussian(1.0), "bandwidth": 1.0}, "which has its own"),
        ({"feature_map": "wavelet"}, "feature_map = 'wavelet'; expected one of"),
        ({"feature_map": 7}, "feature_map = 7; expected a map of okl.features"),
        ({"feature_map": "fourier"}, "'linear' is not shift-invariant"),
        ({"feature_map": draw_fourier_map(Gaussian(1.0), 3, 5, 0)}, "takes 3 inputs, but X has 2 columns"),
        ({"bias": "best"}, "bias = 'best'"),
        ({"bias": "errors", "fit_intercept": False}, "is an intercept, but fit_intercept = False"),
        ({"model": "mm-fda", "class_weight": "balanced"}, "class_weight does not change .* of model = 'mm-fda'"),
        ({"model": "mm-mpm", "class_weight": {1: 2.0}}, "class_weight does not change .* of model = 'mm-mpm'"),
        ({"method": "fast"}, "method = 'fast'"),
        ({"tol": 0.0}, "tol = 0.0"),
        ({"kernel": "gaussian", "memory_budget": 0}, "memory_budget = 0"),
    ],
)
def test_parameters_that_do_not_fit_are_named(parameters: dict[str, Any], message: str) -> None:
    inputs, labels = moons(200)
    with pytest.raises(ConfigError, match=message):
        UnifiedClassifier(**parameters).fit(inputs[:-1], labels[:-1])


def test_rows_that_do_not_fit_are_named() -> None:
    inputs, labels = moons(100)
    with pytest.raises(DataError, match="requires at least two classes, but y holds one class: 1"):
        CSVMClassifier().fit(inputs, np.ones(100))
    with pytest.raises(DataError, match="Every row of class 0 has sample_weight 0"):
        CSVMClassifier().fit(inputs, labels, sample_weight=labels)
    words = np.array(["no", "yes"], dtype=object)[labels.astype(int)]
    for estimator in (CSVMClassifier(class_weight="balanced"), SCSClassifier(class_weight="balanced")):
        with pytest.raises(DataError, match="Every row of class 'no' has sample_weight 0"):
            estimator.fit(inputs, words, sample_weight=labels)
    with pytest.raises(TypeError, match="Sparse data was passed"):
        CSVMClassifier(kernel="gaussian").fit(sparse.csr_array(inputs), labels)
    with pytest.raises(DataError, match="the same mean"):
        MMFDAClassifier().fit(np.vstack([inputs, inputs]), np.repeat([0, 1], 100))


def test_unfinished_solutions_warn_with_the_gap_that_was_reached() -> None:
    inputs, labels = moons(200)
    with pytest.warns(
        ConvergenceWarning, match=r"CSVMClassifier: 10 Newton steps.*gap is .*tol = 0.0001. Raise max_iter"
    ):
        CSVMClassifier(max_iter=10).fit(inputs, labels)
    with pytest.warns(ConvergenceWarning, match=r"numerical floor.*tol = 1e-17. Scale the inputs, or raise tol"):
        CSVMClassifier(tol=1e-17).fit(inputs, labels)


def test_non_separable_rows_get_the_larger_class() -> None:
    inputs = np.tile(moons(50)[0], (3, 1))
    labels = np.repeat([0, 1, 1], 50)
    with pytest.warns(UserWarning, match="no tried nu gives weights other than 0"):
        fitted = NuSVMClassifier().fit(inputs, labels)
    assert not fitted.coef_.any()
    np.testing.assert_array_equal(fitted.predict(inputs), 1)


@pytest.mark.parametrize("nu", [None, 0.4])
def test_default_nu_is_within_the_valid_range(nu: float | None) -> None:
    inputs, labels = moons(200)
    fitted = UnifiedClassifier(model="nu-svm", nu=nu).fit(inputs, labels)
    assert fitted.objective_ < 0.0
    assert ("nu" in fitted.chosen_) == (nu is None)
