from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.svm import SVR

from okl.foundation.errors import ConfigError, DataError
from okl.kernels import Gaussian
from okl.solvers.accelerated.fitting import fit_binary
from okl.solvers.accelerated.method import Fapg
from okl.solvers.accelerated.models.regression import InsensitiveRegression, RidgeRegression
from okl.solvers.accelerated.operators import target_rows
from tests.solvers.accelerated.model_cases import Doubles

METHOD = Fapg(method="proven", tolerance=1e-8)


@pytest.fixture(scope="module")
def progress() -> tuple[Doubles, Doubles]:
    inputs, targets = load_diabetes(return_X_y=True)
    inputs = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    return np.ascontiguousarray(inputs[::2]), targets[::2] / targets.std()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_ridge_matches_normal_equations(bias: bool, weighted: bool, progress: tuple[Doubles, Doubles]) -> None:
    inputs, targets = progress
    weights = np.random.default_rng(0).integers(0, 3, len(targets)).astype(float) if weighted else None
    found = fit_binary(RidgeRegression(0.05, bias), target_rows(inputs, targets), METHOD, weights)
    other = Ridge(alpha=10.0, fit_intercept=bias).fit(inputs, targets, weights)
    assert found.weights == pytest.approx(other.coef_, abs=1e-4 * np.abs(other.coef_).max())
    assert found.bias == pytest.approx(-other.intercept_, abs=1e-4)
    residuals = targets - other.predict(inputs)
    loss = residuals**2 @ (np.ones(len(targets)) if weights is None else weights)
    assert found.certificate.primal == pytest.approx(0.5 * other.coef_ @ other.coef_ + 0.05 * loss, rel=1e-7)


@pytest.mark.parametrize("width", [0.0, 0.3])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_insensitive_regression_matches_libsvm(kernel: str, width: float, progress: tuple[Doubles, Doubles]) -> None:
    inputs, targets = progress
    gaussian = Gaussian(3.0)
    machine = SVR(kernel=kernel, gamma=1 / 18, C=0.5, epsilon=width, tol=1e-9).fit(inputs, targets)
    point = np.zeros(len(targets))
    point[machine.support_] = machine.dual_coef_[0]
    gram = inputs @ inputs.T if kernel == "linear" else gaussian.matrix(inputs, inputs)
    expected = targets @ point - width * np.abs(point).sum() - 0.5 * point @ gram @ point
    rows = target_rows(inputs, targets, None if kernel == "linear" else gaussian)
    found = fit_binary(InsensitiveRegression(0.5, width), rows, METHOD)
    assert found.certificate.primal == pytest.approx(expected, rel=1e-6)
    scores = inputs @ found.weights if kernel == "linear" else gram @ found.weights
    assert scores - found.bias == pytest.approx(machine.predict(inputs), abs=0.02)


def test_sparse_rows_and_repeated_rows_make_no_difference(progress: tuple[Doubles, Doubles]) -> None:
    inputs, targets = progress
    weights = np.random.default_rng(1).integers(0, 3, len(targets))
    repeated = np.repeat(np.arange(len(targets)), weights)
    model = InsensitiveRegression(0.2, 0.2, fit_intercept=False)
    one = fit_binary(model, target_rows(sparse.csr_array(inputs), targets), METHOD, weights.astype(float))
    other = fit_binary(model, target_rows(inputs[repeated], targets[repeated]), METHOD)
    assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-7)
    assert one.bias == other.bias == 0.0


def test_useless_numbers_are_refused(progress: tuple[Doubles, Doubles]) -> None:
    inputs, targets = progress
    with pytest.raises(ConfigError, match="removes the regularisation"):
        RidgeRegression(np.inf)
    with pytest.raises(ConfigError, match="width"):
        InsensitiveRegression(width=-0.1)
    with pytest.raises(DataError, match="one finite number for each row"):
        target_rows(inputs, np.where(targets > 1, np.nan, targets))
    with pytest.raises(DataError, match="sample_weight"):
        fit_binary(RidgeRegression(), target_rows(inputs, targets), METHOD, np.zeros(len(targets)))
