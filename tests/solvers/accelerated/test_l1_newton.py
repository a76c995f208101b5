from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from okl.solvers.accelerated import l1_newton
from okl.solvers.accelerated.choice import MethodChoice, solve
from okl.solvers.accelerated.fapg import Fapg
from okl.solvers.accelerated.l1_newton import Curvature, L1Newton, L1Part, minimised_model, violation, working_columns
from okl.solvers.accelerated.models.l1 import L1LogisticRegression, L1SquaredHinge
from okl.solvers.accelerated.newton_parts import Point
from okl.solvers.accelerated.operators import DenseRows, SparseRows
from tests.solvers.accelerated.model_cases import Doubles, two_classes

MODELS: list[Any] = [L1LogisticRegression, L1SquaredHinge]


def solved(model: Any, rows: Any, tolerance: float = 1e-9, point: Doubles | None = None) -> tuple[Any, Any, Any]:
    method, problem = L1Newton(tolerance), model.problem(rows)
    state, outcome, _ = solve(problem, method, point)
    return state, outcome, method.solution(state, problem).weights


@pytest.mark.parametrize("kind", MODELS)
def test_second_derivatives_match_finite_differences(kind: Any) -> None:
    rows, rng = two_classes(2), np.random.default_rng(2)
    for form in (rows, SparseRows(sparse.csr_array(rows.rows), rows.labels)):
        problem = kind(0.7).problem(form)
        opened = L1Newton().opened(problem)
        base, columns = 0.3 * rng.standard_normal(4), np.array([0, 2, 3])
        (curvature,) = opened.evaluate((L1Part.curvature, Point(0, base, np.empty(0), 0.0), columns, 0.0))
        curvature = np.tril(curvature) + np.tril(curvature, -1).T
        for position, column in enumerate(columns):
            step = np.zeros(4)
            step[column] = 1e-6
            points = [
                Point(9 + 2 * position + k, base + sign * step, np.empty(0), 0.0) for k, sign in enumerate((1, -1))
            ]
            up, down = (opened.evaluate((L1Part.slopes, point))[0][0] for point in points)
            np.testing.assert_allclose(curvature[position], (up - down)[columns] / 2e-6, rtol=1e-5, atol=1e-6)
            derivative = opened.evaluate((L1Part.line, points[1], Point(99 + position, step, np.empty(0), 0.0), 2.0))[0]
            assert derivative == pytest.approx(up @ step, rel=1e-9)


@pytest.mark.parametrize("columns", [np.array([0, 2, 3]), np.arange(4)], ids=["some columns", "all columns"])
def test_sparse_rows_use_a_diagonal_hessian_below_a_share_of_the_mean_curvature(columns: Any) -> None:
    rows = two_classes(2)
    form = SparseRows(sparse.csr_array(rows.rows), rows.labels)
    problem = L1LogisticRegression(0.7).problem(form)
    weights = 0.7 * problem.loss.second_derivative(form.margins(np.array([2.0, -1.0, 3.0, 1.0])))
    small = weights < 0.5 * weights.mean()
    assert 0.2 < small.mean() < 0.8
    part = rows.rows[:, columns].astype(np.float64)
    full = part[~small].T @ (weights[~small, np.newaxis] * part[~small])
    expected = full + np.diag(weights[small] @ np.square(part[small]))
    at = Point(0, np.array([2.0, -1.0, 3.0, 1.0]), np.empty(0), 0.0)
    (curvature,) = L1Newton().opened(problem).evaluate((L1Part.curvature, at, columns, 0.5))
    np.testing.assert_allclose(np.tril(curvature), np.tril(expected), rtol=1e-10)


def test_the_model_of_a_step_is_minimised_for_columns_of_any_size() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        n = int(rng.integers(1, 12))
        factor = rng.standard_normal((n + 3, n)) * 10.0 ** rng.integers(-3, 6, n)
        factor[:, -1] = factor[:, 0]  # two equal columns
        products, slopes = factor.T @ factor, factor.T @ rng.standard_normal(n + 3) * 3.0
        found = minimised_model(np.zeros(n), slopes, products, 1e-6)
        at = slopes + products @ found
        rounding = 1e-10 * (np.abs(products) @ np.abs(found) + np.abs(slopes)).max()
        assert violation(found, at) <= 1e-6 + rounding


@pytest.mark.parametrize("kind", MODELS)
def test_optimum_is_that_of_liblinear_and_fapg(kind: Any) -> None:
    rng = np.random.default_rng(4)
    for C, n_columns in product((0.05, 5.0), (5, 120)):
        labels = np.where(rng.random(80) < 0.4, 1.0, -1.0)
        inputs = rng.standard_normal((80, n_columns)) + 0.3 * labels[:, np.newaxis]
        state, outcome, weights = solved(kind(C), SparseRows(sparse.csr_array(inputs), labels))
        _, _, same = solved(kind(C), DenseRows(inputs, labels))
        proof = state.best_record.certificate
        assert outcome.kind == "done"
        np.testing.assert_allclose(weights, same, atol=1e-6 * np.abs(weights).max(initial=1.0))
        assert np.count_nonzero(weights) <= 80
        problem = kind(C).problem(DenseRows(inputs, labels))
        reference = solve(problem, Fapg(tolerance=1e-4, max_iterations=3000))[0].best_record.certificate
        assert reference.dual - 1e-9 <= proof.primal <= reference.primal + proof.gap
        common: dict[str, Any] = {"C": C, "fit_intercept": False, "tol": 1e-5, "max_iter": 20_000, "random_state": 0}
        peer: Any = LogisticRegression(solver="liblinear", l1_ratio=1.0, **common)
        if kind is L1SquaredHinge:
            peer = LinearSVC(dual=False, penalty="l1", **common)
        peer_weights = peer.fit(inputs, labels).coef_[0]
        values = [
            np.abs(w).sum() + problem.weights @ problem.loss.value(labels * (inputs @ w))
            for w in (weights, peer_weights)
        ]
        assert values[0] == pytest.approx(proof.primal, rel=1e-9)
        assert values[0] <= values[1] + proof.gap + 1e-12 * values[1]
        assert values[1] == pytest.approx(values[0], rel=1e-3)


@pytest.mark.parametrize("kind", MODELS)
def test_large_costs_raw_columns_and_weights_are_certified(kind: Any) -> None:
    rows = two_classes(4, n_rows=300, n_columns=6)
    inputs = rows.rows * 10.0 ** np.array([-4.0, -1.0, 0.0, 2.0, 4.0, 5.0])
    weights = np.random.default_rng(4).integers(1, 4, 300).astype(np.float64)
    for C in (2.0**-5, 1e3, 2.0**15):
        problem = kind(C).problem(DenseRows(inputs, rows.labels), weights)
        state, outcome, method = solve(problem, MethodChoice(tolerance=1e-6))
        assert isinstance(method, L1Newton)
        assert outcome.kind == "done", (C, outcome)
        again = problem.certificate(state.best.point, problem_image(problem, state.best.point), state.slopes)
        assert again.primal == pytest.approx(state.best_record.certificate.primal, rel=1e-9)


def test_nearly_separable_rows_are_solved_with_many_short_steps() -> None:
    """The gap stays near 1 for dozens of steps, which must not end the run."""
    C = 1e5
    rng = np.random.default_rng(0)
    inputs = (rng.random((400, 100)) < 0.05).astype(np.float64)
    scores = inputs @ rng.standard_normal(100) + 0.3 * rng.standard_normal(400)
    labels = np.where(scores > np.quantile(scores, 0.95), 1.0, -1.0)
    _, outcome, weights = solved(L1SquaredHinge(C), DenseRows(inputs, labels), tolerance=1e-8)
    assert outcome.kind == "done", outcome
    assert any(step.damping > 0.0 for step in steps_of(L1SquaredHinge(C).problem(DenseRows(inputs, labels)), 24))
    slopes = -2.0 * C * inputs.T @ (labels * np.maximum(0.0, 1.0 - labels * (inputs @ weights)))
    np.testing.assert_allclose(np.clip(-slopes, -1.0, 1.0)[weights != 0], np.sign(weights[weights != 0]), rtol=1e-3)
    assert np.abs(slopes).max() < 1.0 + 1e-3


def steps_of(problem: Any, n_steps: int) -> list[Any]:
    method = L1Newton()
    opened = method.opened(problem)
    states = [method.start(opened)]
    for _ in range(n_steps):
        states.append(method.advance(states[-1], opened))
    return states


def problem_image(problem: Any, point: Doubles) -> Doubles:
    image = np.empty(problem.n_image)
    problem.apply(image, point)
    return image


def test_working_columns_hold_all_weights_and_the_steepest_others(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, slopes = np.zeros(50), np.linspace(0.0, 3.0, 50)
    weights[[0, 7]] = 1.0
    assert set(working_columns(weights, slopes)) >= {0, 7, 49}
    monkeypatch.setattr(l1_newton, "_MOST_WORKING", 4)
    assert working_columns(weights, slopes).tolist() == [0, 7, *range(46, 50)]
    # solved through ever larger sets of columns
    labels = np.where(np.arange(60) % 2 == 0, 1.0, -1.0)
    inputs = np.random.default_rng(5).standard_normal((60, 200)) + 0.2 * labels[:, np.newaxis]
    state, outcome, weights = solved(L1LogisticRegression(5.0), DenseRows(inputs, labels))
    assert outcome.kind == "done"
    assert 4 < np.count_nonzero(weights) < 60
    # a warm start begins near the optimum
    again, outcome, _ = solved(L1LogisticRegression(5.5), DenseRows(inputs, labels), point=state.best.point)
    assert outcome.kind == "done"
    assert again.history[0].certificate.relative_gap < 0.2


@pytest.mark.parametrize("kind", MODELS)
def test_a_direction_of_any_length_does_not_raise_the_objective(kind: Any) -> None:
    problem = kind(32.0).problem(two_classes(5))
    opened = L1Newton().opened(problem)
    state = L1Newton().start(opened)

    def objective(weights: Any) -> float:
        problem.apply(margins := np.empty(problem.n_image), weights)
        return float(problem.smooth(weights, margins) + problem.penalty(weights))

    steps: list[float] = []
    for length in (1e-3, 1.0, 1e20, 1e60):
        change = -length * np.sign(state.slopes) * (np.abs(state.slopes) > 1.0)
        direction = Point(state.point.serial + 1 + len(steps), change, np.empty(0), 0.0)
        slopes_at_end, _ = l1_newton._sums(opened, replace(direction, serial=-direction.serial))
        step, _ = l1_newton._length(opened, state.point, state.slopes, direction, slopes_at_end)
        assert objective(step * change) <= objective(state.point.weights)
        steps.append(step)
    assert min(steps[:2]) > 0.0
    assert steps[3] < 1e-40


def test_second_derivatives_of_the_last_step_are_reused_for_smooth_losses_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n_matrices = 0
    of_rows = L1Part.curvature

    def counted(self: L1Part, *given: Any) -> Any:
        nonlocal n_matrices
        n_matrices += 1
        return of_rows(self, *given)

    monkeypatch.setattr(L1Part, "curvature", counted)
    for kind, is_reused in ((L1LogisticRegression, True), (L1SquaredHinge, False)):
        ends = []
        for least in (1, 10**9):
            monkeypatch.setattr(l1_newton, "_MANY_VALUES", least)
            n_matrices = 0
            state, outcome, _ = solved(kind(2.0), two_classes(3), tolerance=1e-9)
            assert outcome.kind == "done"
            ends.append((n_matrices, state.history[-1].iteration, state.best_record.certificate.primal))
        (n_reusing, n_steps, objective), (n_fresh, n_fresh_steps, fresh_objective) = ends
        assert n_fresh == n_fresh_steps
        assert n_reusing < min(n_steps, n_fresh) if is_reused else n_reusing == n_steps
        assert objective == pytest.approx(fresh_objective, rel=1e-8)


def test_second_derivatives_that_fall_geometrically_are_followed() -> None:
    """Losses exp(-w) have the slopes -exp(-w) and the second derivatives exp(-w)."""
    change = np.array([0.01, 0.0])
    start = Curvature(np.array([2, 5]), np.diag([1.0, 1.0]))
    end = start.after(change, np.array([1.0 - np.exp(-0.01), 0.0]))
    assert end is not None
    assert end.products[0, 0] == pytest.approx(np.exp(-0.01), rel=1e-4)
    assert start.after(change, -change) is None  # slopes of a convex function do not decrease
    assert start.after(change, 100.0 * change) is None


def test_reused_second_derivatives_hold_every_steep_column() -> None:
    curvature = Curvature(np.array([1, 4, 6]), np.arange(9.0).reshape(3, 3))
    slopes = np.zeros(8)
    slopes[[3, 4]] = -0.9, 2.0
    some = curvature.over(np.array([3, 4, 6]), slopes)
    assert some is not None
    assert some.columns.tolist() == [4, 6]
    assert some.products.tolist() == [[4.0, 5.0], [7.0, 8.0]]
    slopes[3] = -1.1
    assert curvature.over(np.array([3, 4, 6]), slopes) is None
