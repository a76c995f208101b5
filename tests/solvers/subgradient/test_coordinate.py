from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.svm import LinearSVC

from okl.foundation.errors import ConfigError
from okl.kernels import Gaussian
from okl.solvers.subgradient.coordinate import CoordinateResult, DualDescent

Doubles = NDArray[np.float64]
ROWS, COLUMNS = 300, 12


def problem(precision: str = "float64") -> tuple[NDArray[Any], Doubles]:
    """Noisy rows, some of which are at either bound and some between."""
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((ROWS, COLUMNS)) / np.sqrt(COLUMNS)
    signal = 3.0 * rows[:, 0] - 2.0 * rows[:, 1] + 0.4 * rng.standard_normal(ROWS)
    return rows.astype(precision), np.where(signal > 0, 1.0, -1.0)


def objective(method: DualDescent, rows: NDArray[Any], targets: Doubles, weights: Doubles) -> float:
    lost = np.maximum(0.0, 1.0 - targets * (rows.astype(np.float64) @ weights))
    return float(0.5 * method.lam * weights @ weights + lost.mean())


def assert_certified(method: DualDescent, found: CoordinateResult) -> None:
    assert -1e-12 <= found.gap <= method.relative_gap * found.objective
    inside = np.abs(found.coefficients)
    assert (inside == 0).any()
    assert (inside == 1).any()
    assert ((inside > 0) & (inside < 1)).any()


@pytest.mark.parametrize("lam", [0.1, 0.001])
def test_hinge_comes_to_the_objective_of_liblinear(lam: float) -> None:
    rows, targets = problem()
    method = DualDescent(lam, relative_gap=1e-8)
    found = method.solve_rows(rows, targets)
    machine = LinearSVC(
        C=1.0 / (lam * ROWS), loss="hinge", fit_intercept=False, tol=1e-10, max_iter=10**6, random_state=0
    ).fit(rows, targets)
    theirs = objective(method, rows, targets, machine.coef_[0])
    assert found.objective == pytest.approx(theirs, rel=1e-6)
    assert found.objective == pytest.approx(objective(method, rows, targets, found.weights), rel=1e-12)
    np.testing.assert_allclose(found.weights, machine.coef_[0], atol=1e-3)
    assert_certified(method, found)


def test_float32_rows_lose_no_digits_of_the_gap() -> None:
    rows, targets = problem("float32")
    method = DualDescent(0.001, relative_gap=1e-8)
    assert_certified(method, method.solve_rows(rows, targets))


def test_kernel_in_memory_computed_anew_and_factored_agree() -> None:
    rows, targets = problem()
    kernel, method = Gaussian(1.0), DualDescent(0.003, relative_gap=1e-9)
    matrix = kernel.matrix(rows, rows)
    factor = np.linalg.cholesky(matrix + 1e-12 * np.eye(ROWS))
    expected = method.solve_rows(factor, targets)
    for found in (method.solve_matrix(matrix, targets), method.solve_kernel(kernel, rows, targets)):
        assert found.objective == pytest.approx(expected.objective, rel=1e-8)
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-3)
        np.testing.assert_allclose(found.scores, matrix @ found.coefficients / (0.003 * ROWS), atol=1e-9)
        assert_certified(method, found)


def test_every_bound_on_the_way_is_below_every_objective() -> None:
    rows, targets = problem()
    history = DualDescent(0.001, relative_gap=1e-9).solve_rows(rows, targets).history
    assert len(history) > 2
    assert max(look.dual for look in history) <= min(look.primal for look in history) + 1e-12
    assert [look.visits for look in history] == sorted({look.visits for look in history})


def test_a_row_of_zeros_costs_its_loss_and_moves_nothing() -> None:
    rows, targets = problem()
    rows[7] = 0.0
    found = DualDescent(0.01).solve_rows(rows, targets)
    assert found.coefficients[7] == targets[7]
    assert np.isfinite(found.objective)


def test_time_and_visits_end_the_descent() -> None:
    rows, targets = problem()
    assert DualDescent(1e-5, relative_gap=1e-12, most_passes=3).solve_rows(rows, targets).history[-1].visits < 9 * ROWS
    assert len(DualDescent(1e-5, relative_gap=1e-12, most_seconds=1e-9).solve_rows(rows, targets).history) == 1


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"lam": 0.0}, "lam"),
        ({"lam": 1.0, "relative_gap": 0.0}, "relative_gap"),
    ],
)
def test_bad_parameters_are_named(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        DualDescent(**parameters)
