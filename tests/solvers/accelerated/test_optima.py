from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression as Liblinear
from sklearn.svm import SVC, LinearSVC, NuSVC

from okl.kernels import Gaussian
from okl.solvers.accelerated.base import Certificate, CompositeProblem, RowOperator
from okl.solvers.accelerated.fapg import Fapg, solve
from okl.solvers.accelerated.models.dwd import DWD
from okl.solvers.accelerated.models.l1 import L1LogisticRegression, L1SquaredHinge
from okl.solvers.accelerated.models.logistic import LogisticRegression
from okl.solvers.accelerated.models.minimax import MMFDA, MMMPM
from okl.solvers.accelerated.models.nusvm import NuSVM
from okl.solvers.accelerated.models.svm import CSVM, L2SVM
from okl.solvers.accelerated.operators import DenseRows, SparseRows
from okl.solvers.accelerated.problem import class_moments
from tests.solvers.accelerated.model_cases import (
    Doubles,
    dwd_optimum,
    kernel_matrix,
    minimax_optimum,
    spreads_of,
    two_classes,
)

TIGHT = Fapg(tolerance=1e-8)


@pytest.fixture(scope="module")
def cancer() -> tuple[Doubles, Doubles]:
    inputs, target = load_breast_cancer(return_X_y=True)
    inputs = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    return np.ascontiguousarray(inputs[::2]), np.where(target[::2] == 1, 1.0, -1.0)


def solved(problem: CompositeProblem, method: Fapg = TIGHT) -> Certificate:
    state, outcome = solve(problem, method)
    assert outcome.kind == "done"
    assert outcome.reason.startswith("relative duality gap"), outcome.reason
    return state.best_record.certificate


def libsvm_dual(machine: SVC | NuSVC, gram: Doubles, n_rows: int) -> tuple[Doubles, float]:
    """Return the signed dual point of LIBSVM and its 1/2 a'Qa."""
    point = np.zeros(n_rows)
    point[machine.support_] = machine.dual_coef_[0]
    return point, 0.5 * float(point @ gram @ point)


def rows_and_gram(kernel: str, cancer: tuple[Doubles, Doubles]) -> tuple[RowOperator, Doubles]:
    inputs, labels = cancer
    if kernel == "linear":
        return DenseRows(inputs, labels), inputs @ inputs.T
    # LIBSVM's gamma is 1 / (2 bandwidth^2)
    gaussian = Gaussian(4.0)
    return kernel_matrix(gaussian, inputs, labels), gaussian.matrix(inputs, inputs).astype(np.float64)


@pytest.mark.parametrize("method", ["proven", "practical"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_c_svm_matches_libsvm(kernel: str, method: str, cancer: tuple[Doubles, Doubles]) -> None:
    rows, gram = rows_and_gram(kernel, cancer)
    machine = SVC(C=0.5, kernel=kernel, gamma=1 / 32, tol=1e-9).fit(*cancer)
    point, square = libsvm_dual(machine, gram, rows.n_points)
    found = solved(CSVM(0.5).problem(rows), Fapg(method=method, tolerance=1e-7))  # type: ignore[arg-type]
    assert found.primal == pytest.approx(np.abs(point).sum() - square, rel=2e-7)
    assert found.bias == pytest.approx(-machine.intercept_[0], abs=1e-3)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_nu_svm_matches_libsvm(kernel: str, cancer: tuple[Doubles, Doubles]) -> None:
    rows, gram = rows_and_gram(kernel, cancer)
    machine = NuSVC(nu=0.3, kernel=kernel, gamma=1 / 32, tol=1e-9).fit(*cancer)
    point, square = libsvm_dual(machine, gram, rows.n_points)
    # LIBSVM's point sums to nu m / rho, this one to 1
    expected = -square / np.abs(point).sum() ** 2
    assert solved(NuSVM(0.3).problem(rows)).primal == pytest.approx(expected, rel=1e-6)


def test_models_without_bias_match_liblinear(cancer: tuple[Doubles, Doubles]) -> None:
    inputs, labels = cancer
    rows = SparseRows(sparse.csr_array(inputs), labels)
    common = {"fit_intercept": False, "tol": 1e-10, "max_iter": 10**6}
    logistic = Liblinear(C=2.0, solver="liblinear", **common).fit(inputs, labels).coef_[0]
    squared = LinearSVC(C=0.5, dual=False, **common).fit(inputs, labels).coef_[0]
    hinge = LinearSVC(C=0.1, loss="hinge", random_state=0, **common).fit(inputs, labels).coef_[0]
    cases: list[tuple[Any, Doubles, Callable[[Doubles], Doubles]]] = [
        (LogisticRegression(2.0, fit_intercept=False), logistic, lambda z: 2.0 * np.logaddexp(0, -z)),
        (L2SVM(0.5, fit_intercept=False), squared, lambda z: 0.5 * np.maximum(0, 1 - z) ** 2),
        (CSVM(0.1, fit_intercept=False), hinge, lambda z: 0.1 * np.maximum(0, 1 - z)),
    ]
    for model, weights, loss in cases:
        expected = 0.5 * weights @ weights + loss(labels * (inputs @ weights)).sum()
        assert solved(model.problem(rows)).primal == pytest.approx(expected, rel=1e-6)


def test_sparse_weights_match_liblinear(cancer: tuple[Doubles, Doubles]) -> None:
    inputs, labels = cancer
    common = {"fit_intercept": False, "tol": 1e-10, "max_iter": 10**6}
    logistic = Liblinear(C=0.5, solver="liblinear", l1_ratio=1.0, random_state=0, **common).fit(inputs, labels)
    squared = LinearSVC(C=0.1, penalty="l1", dual=False, random_state=0, **common).fit(inputs, labels)
    cases: list[tuple[Any, Doubles, Callable[[Doubles], Doubles]]] = [
        (L1LogisticRegression(0.5), logistic.coef_[0], lambda z: 0.5 * np.logaddexp(0, -z)),
        (L1SquaredHinge(0.1), squared.coef_[0], lambda z: 0.1 * np.maximum(0, 1 - z) ** 2),
    ]
    for model, weights, loss in cases:
        problem = model.problem(DenseRows(inputs, labels))
        state, _ = solve(problem, Fapg(method="proven", tolerance=1e-7))
        solution = Fapg().solution(state, problem)
        expected = np.abs(weights).sum() + loss(labels * (inputs @ weights)).sum()
        assert 0 < np.count_nonzero(solution.weights) < len(weights)
        assert solution.certificate.primal == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("method", ["proven", "practical"])
@pytest.mark.parametrize(("nu", "tolerance"), [(0.001, 1e-4), (0.01, 1e-8), (0.1, 1e-8)])
def test_dwd_matches_cone_solver(nu: float, tolerance: float, method: str) -> None:
    rows = two_classes(5, distance=3.0)
    found = solved(DWD(nu).problem(rows), Fapg(method=method, tolerance=tolerance))  # type: ignore[arg-type]
    optimum = dwd_optimum(rows, nu)
    assert found.primal == pytest.approx(optimum, rel=max(tolerance, 1e-7))
    assert found.dual <= optimum * (1 + 1e-8)


def test_ball_of_dwd_may_be_slack() -> None:
    # ||A a|| is 0 at that optimum, where it has no derivative: the width it is smoothed by is what the gap can reach
    problem = DWD(0.001).problem(two_classes(5, distance=3.0))
    state, _ = solve(problem, Fapg(tolerance=1e-4))
    assert np.linalg.norm(Fapg().solution(state, problem).weights) < 0.99


@pytest.mark.parametrize("kappa", [0.05, 0.3])
@pytest.mark.parametrize("model", [MMFDA, MMMPM])
def test_minimax_models_match_cone_solver(model: type[MMFDA] | type[MMMPM], kappa: float) -> None:
    rows = two_classes(6, distance=3.0)
    moments = class_moments(rows)
    expected = minimax_optimum(moments.difference, spreads_of(moments, model is MMFDA), kappa)
    assert expected < -1e-3
    assert solved(model(kappa).problem(rows)).primal == pytest.approx(expected, rel=1e-7)
