from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq, minimize

from okl.solvers.accelerated import choice
from okl.solvers.accelerated.choice import MethodChoice, solve
from okl.solvers.accelerated.fapg import Fapg
from okl.solvers.accelerated.minimax_newton import MinimaxNewton, derivatives, objective
from okl.solvers.accelerated.models.minimax import MMFDA, MMMPM
from okl.solvers.accelerated.operators import DenseRows
from okl.solvers.accelerated.problem import class_moments
from tests.solvers.accelerated.model_cases import Doubles, two_classes

MODELS: list[Any] = [MMFDA, MMMPM]


def problem_of(kind: Any, rows: DenseRows, share: float) -> Any:
    return kind(share * kind.valid_range(rows)[1]).problem(rows)


def raw_rows(seed: int = 4) -> DenseRows:
    """Return unscaled columns of very different size."""
    rows = two_classes(seed, n_rows=300, n_columns=6)
    return DenseRows(rows.rows * 10.0 ** np.array([-4.0, -1.0, 0.0, 2.0, 4.0, 5.0]), rows.labels)


@pytest.mark.parametrize("kind", MODELS)
def test_derivatives_match_finite_differences(kind: Any) -> None:
    problem = problem_of(kind, two_classes(2), 0.5)
    weights = np.random.default_rng(2).standard_normal(problem.n_image)
    slopes, hessian = derivatives(problem, weights, 0.1)
    for column, step in enumerate(1e-6 * np.eye(len(weights))):
        (up, above), (down, below) = (
            (objective(problem, at, 0.1), derivatives(problem, at, 0.1)[0]) for at in (weights + step, weights - step)
        )
        assert slopes[column] == pytest.approx((up - down) / 2e-6, rel=1e-6, abs=1e-8)
        np.testing.assert_allclose(hessian[column], (above - below) / 2e-6, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("kind", MODELS)
def test_optimum_is_that_of_fapg_and_of_a_general_solver(kind: Any, share: float) -> None:
    problem = problem_of(kind, two_classes(3), share)
    state, outcome, method = solve(problem, MethodChoice(tolerance=1e-10))
    assert isinstance(method, MinimaxNewton)
    assert outcome.kind == "done"
    found = method.solution(state, problem)
    slow, _, fapg = solve(problem, Fapg(tolerance=1e-10))
    expected = fapg.solution(slow, problem)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-4, atol=1e-6)
    assert found.bias == pytest.approx(expected.bias, rel=1e-4, abs=1e-6)
    general = minimize(lambda w: objective(problem, w, 0.0), problem.difference, method="BFGS", tol=1e-10)
    assert found.certificate.primal == pytest.approx(general.fun, rel=1e-6)


@pytest.mark.parametrize("share", [0.3, 0.9, 0.99])
def test_columns_of_very_different_size_are_solved_to_the_root_of_one_equation(share: float) -> None:
    """For MM-FDA, w = (I + kappa / s (S+ + S-))^-1 d, of the s that is its spread."""
    rows = raw_rows()
    moments = class_moments(rows, None)
    problem = problem_of(MMFDA, rows, share)
    # float64 ends at 1e-9 to 4e-8, by the processor
    state, outcome, method = solve(problem, MethodChoice(tolerance=3e-7))
    assert outcome.kind == "done"
    covariance = moments.total_covariance  # its factors keep small columns, its eigenvectors do not

    def weights_of(spread: float) -> Doubles:
        matrix = np.eye(len(covariance)) + problem.kappa / spread * covariance
        return np.asarray(cho_solve(cho_factor(matrix), moments.difference))

    def spread_left(logarithm: float) -> float:
        spread = np.exp(logarithm)
        weights = weights_of(spread)
        return float(np.sqrt(weights @ covariance @ weights) / spread - 1.0)

    expected = weights_of(np.exp(brentq(spread_left, -30.0, 30.0, xtol=1e-14)))
    solution = method.solution(state, problem)
    assert solution.certificate.primal == pytest.approx(objective(problem, expected, 0.0), rel=1e-6)


@pytest.mark.parametrize("kind", MODELS)
def test_few_steps_certify_a_problem_that_needs_thousands_of_accelerated_iterations(kind: Any) -> None:
    problem = problem_of(kind, raw_rows(), 0.95)
    slow, _, _ = solve(problem, MethodChoice("fapg", 1e-6, 2000))
    state, outcome, _ = solve(problem, MethodChoice("newton", 1e-6))
    assert outcome.kind == "done"
    assert state.history[-1].iteration <= 60
    assert slow.history[-1].iteration > 10 * state.history[-1].iteration
    point = state.best.point
    assert all(np.linalg.norm(point[ball]) <= problem.kappa * (1 + 1e-12) for ball in problem.balls)


def test_a_class_that_does_not_spread_along_the_weights_is_solved() -> None:
    """Three rows of a class have spread 0 at the optimum, where the spread has no derivative."""
    rng = np.random.default_rng(0)
    labels = np.where(np.arange(400) < 3, 1.0, -1.0)
    rows = DenseRows(rng.standard_normal((400, 12)) + 1.5 * (labels > 0)[:, np.newaxis], labels)
    problem = problem_of(MMMPM, rows, 0.6)
    state, outcome, method = solve(problem, MethodChoice(tolerance=1e-8))
    assert outcome.kind == "done"
    weights: Doubles = method.solution(state, problem).weights
    spread = np.linalg.norm(class_moments(rows, None).positive.covariance @ weights)
    assert spread < 1e-6 * np.linalg.norm(weights)


def test_a_warm_start_begins_near_the_optimum_and_wide_problems_are_left_to_fapg(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = problem_of(MMMPM, two_classes(5), 0.5)
    state, _, _ = solve(problem, MethodChoice(tolerance=1e-8))
    again, outcome, _ = solve(problem, MethodChoice(tolerance=1e-6), state.best.point)
    assert outcome.kind == "done"
    assert again.history[-1].iteration <= 2
    monkeypatch.setattr(choice, "MOST_COLUMNS", problem.n_image - 1)
    assert isinstance(MethodChoice().choose(problem), Fapg)


def objective_of_rows(kind: Any, rows: DenseRows, weights: Doubles, kappa: float) -> float:
    """Return the objective from the scores of the rows, without a covariance matrix."""
    groups = [rows.rows[rows.labels == sign] for sign in (1.0, -1.0)]
    spreads = [float(np.std(group @ weights)) for group in groups]
    spread = float(np.hypot(spreads[0], spreads[1])) if kind is MMFDA else sum(spreads)
    along = float((groups[0].mean(axis=0) - groups[1].mean(axis=0)) @ weights)
    return 0.5 * float(weights @ weights) - along + kappa * spread


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", MODELS)
def test_certificate_of_columns_of_very_different_size_is_that_of_the_rows(kind: Any, seed: int) -> None:
    rows = two_classes(seed, n_rows=40, n_columns=6)
    rows = DenseRows(rows.rows * 10.0 ** np.array([-6.0, 6.0, -3.0, 2.0, 0.0, 4.0]), rows.labels)
    problem = problem_of(kind, rows, 0.5)
    state, outcome, solver = solve(problem, MethodChoice(tolerance=1e-6))
    found = solver.solution(state, problem)
    expected = objective_of_rows(kind, rows, found.weights, problem.kappa)
    assert outcome.kind == "done"
    assert found.certificate.primal == pytest.approx(expected, rel=1e-9)
    assert found.certificate.dual <= expected


@pytest.mark.parametrize("method", [MethodChoice(tolerance=1e-4), Fapg(tolerance=1e-4)])
@pytest.mark.parametrize("kind", MODELS)
def test_certificate_of_more_columns_than_rows_is_that_of_the_given_kappa(kind: Any, method: Any) -> None:
    rows = two_classes(5, n_rows=8, n_columns=20)
    problem = problem_of(kind, rows, 50.0)  # the weights are those of kappa_max, their objective need not be
    state, _, solver = solve(problem, method)
    found = solver.solution(state, problem)
    expected = objective_of_rows(kind, rows, found.weights, problem.kappa)
    assert found.certificate.primal == pytest.approx(expected, rel=1e-9)
    assert found.certificate.relative_gap <= 1e-4
