from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from okl.foundation.errors import ConfigError, DataError, DivergedError
from okl.kernels import Gaussian
from okl.solvers.accelerated import newton
from okl.solvers.accelerated.certified_steps import positive_solution
from okl.solvers.accelerated.choice import MethodChoice, solve
from okl.solvers.accelerated.dual import DualProblem
from okl.solvers.accelerated.fapg import Fapg
from okl.solvers.accelerated.l1_newton import L1Newton
from okl.solvers.accelerated.models.dwd import DWD
from okl.solvers.accelerated.models.logistic import LogisticRegression
from okl.solvers.accelerated.models.nusvm import NuSVM
from okl.solvers.accelerated.models.svm import CSVM, L2SVM
from okl.solvers.accelerated.newton import Newton
from okl.solvers.accelerated.newton_parts import NewtonPart, Place, Point
from okl.solvers.accelerated.newton_problem import in_memory
from okl.solvers.accelerated.operators import DenseRows, SparseRows
from okl.solvers.accelerated.problem import HalfSquare
from okl.solvers.accelerated.working_sets import WorkingSets
from tests.solvers.accelerated.model_cases import MAKERS, Doubles, cone_optimum, kernel_matrix, two_classes

MARGIN_MODELS = [name for name in MAKERS if not name.startswith(("mm-", "l1-"))]
MODELS = [CSVM(0.7), CSVM(1e4), L2SVM(0.4), LogisticRegression(2.0), NuSVM(0.4), DWD(0.01)]


def violation(problem: DualProblem, found: Any) -> float:
    """Return the largest violation of the optimality conditions, in units of the dual entries and of 1e-4 P."""
    point, image = found.best.point, np.empty(problem.n_image)
    problem.apply(image, point)
    margins = np.empty(problem.n_points)
    weights = found.best_point.weights
    problem.rows.adjoint(margins, weights)
    region: Any = problem.region
    balance = region.normals[:, 0] * point[region.signs > 0].sum() if len(region.totals) else np.zeros(0)
    balance = balance + region.normals[:, 1] * point[region.signs < 0].sum() if len(region.totals) else balance
    of_length = isinstance(problem.outer, HalfSquare)  # in a ball A a may be 0
    upper = np.broadcast_to(region.upper, len(point))
    size = np.abs(point).max()
    terms = (
        float(np.abs(balance - region.totals).max(initial=0.0)) / max(float(point.sum()), size),
        float(np.maximum(-point, point - upper).max()) / size,
        5e3 * float(np.sum((weights - image) ** 2)) / abs(found.best_record.certificate.primal) if of_length else 0.0,
    )
    return float(max(terms))


@pytest.mark.parametrize("name", MARGIN_MODELS)
def test_newton_and_fapg_reach_the_same_optimum(name: str) -> None:
    rows = two_classes(1, n_rows=150)
    problem, other = MAKERS[name](rows), MAKERS[name](SparseRows(sparse.csr_array(rows.rows), rows.labels))  # type: ignore[arg-type]
    expected = solve(problem, Fapg(tolerance=1e-9))[0].best_record.certificate
    for one in (problem, other):
        state, outcome, method = solve(one, Newton(1e-9))
        found, size = state.best_record.certificate, abs(expected.primal)
        assert outcome.kind == "done"
        assert state.history[-1].iteration < 80
        assert found.primal == pytest.approx(expected.primal, abs=expected.gap + found.gap + 1e-12 * size)
        assert found.dual <= expected.primal + 1e-12 * size
        # the primal objective is that of the weights and the bias
        solution, margins = method.solution(state, one), np.empty(one.n_points)
        one.rows.adjoint(margins, solution.weights)  # type: ignore[attr-defined]
        value = problem.risk.value(margins, solution.bias)  # type: ignore[attr-defined]
        value += problem.outer.regulariser(float(solution.weights @ solution.weights))  # type: ignore[attr-defined]
        assert value == pytest.approx(found.primal, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_bound_holds_where_rows_lie_far_from_the_origin(seed: int) -> None:
    rows = two_classes(seed, n_columns=3)
    moved = np.round(rows.rows * 2**20) / 2**20  # exact in float64 after a shift of 2^14
    model = CSVM(100.0)
    best = solve(model.problem(DenseRows(moved, rows.labels)), Newton(1e-12))[0].best_record.certificate.primal
    found = solve(model.problem(DenseRows(moved + 2.0**14, rows.labels)), Newton(1e-8))[0].best_record.certificate
    assert found.dual <= best * (1.0 + 1e-11)


def test_optimality_conditions_hold_on_random_problems() -> None:
    rng = np.random.default_rng(0)
    for seed in range(12):
        rows = two_classes(seed, n_rows=int(rng.integers(8, 60)), n_columns=int(rng.integers(1, 9)))
        scales = 10.0 ** rng.integers(-3, 4, rows.n_image)
        rows = DenseRows(rows.rows * scales, rows.labels)
        weights = rng.integers(1, 4, rows.n_points).astype(np.float64)
        for model in MODELS:
            problem: Any = model.problem(rows, weights)
            state, outcome, _ = solve(problem, Newton(1e-8))
            assert outcome.kind == "done", (seed, model, outcome)
            if "optimum is 0" not in outcome.reason:
                assert violation(problem, state) < 1e-3, (seed, model)


@pytest.mark.parametrize("name", MARGIN_MODELS)
def test_derivatives_match_finite_differences(name: str) -> None:
    problem, rng = MAKERS[name](two_classes(2)), np.random.default_rng(2)
    assert isinstance(problem, DualProblem)
    opened = in_memory(problem)
    n, k = problem.n_image, len(problem.region.totals)
    serials = iter(range(10**6))

    def at(vector: Doubles) -> Place:
        return Place(Point(next(serials), vector[:n], vector[n:], 0.7 / problem.n_points), ())

    def slopes(vector: Doubles) -> Doubles:
        (part,) = opened.evaluate((NewtonPart.gradient, at(vector)))
        return np.concatenate([-part.image, part.balance])

    base = 0.3 * rng.standard_normal(n + k) + (1.0 if name.startswith("dwd") else 0.0)
    (curvature,) = opened.evaluate((NewtonPart.curvature, at(base)))
    curvature = np.tril(curvature) + np.tril(curvature, -1).T
    assert np.abs(curvature).max() > 0.0
    for _ in range(3):
        direction = rng.standard_normal(n + k)
        ends = [slopes(base + step * direction) for step in (-1e-6, 1e-6)]
        np.testing.assert_allclose(curvature @ direction, (ends[1] - ends[0]) / 2e-6, rtol=1e-4, atol=1e-6)
        line = Point(next(serials), direction[:n], direction[n:], 0.0)
        (sums,) = opened.evaluate((NewtonPart.line, at(base), line, (0.0,)))
        np.testing.assert_allclose(sums[0], [slopes(base) @ direction, direction @ curvature @ direction], rtol=1e-9)


def test_costs_and_columns_of_any_size_are_solved() -> None:
    rng = np.random.default_rng(4)
    rows = two_classes(4, n_rows=300, n_columns=6)
    identity = 1e5 + np.arange(300.0)  # an unscaled number of the row
    wide = DenseRows(np.column_stack([rows.rows * 10.0 ** rng.integers(-4, 5, 6), identity]), rows.labels)
    for model in (CSVM(32768.0), CSVM(1e-3), L2SVM(1e4), LogisticRegression(1e3), NuSVM(0.6)):
        state, outcome, _ = solve(model.problem(wide), MethodChoice(tolerance=1e-6))
        assert outcome.kind == "done", (model, outcome)
        assert state.best_record.certificate.relative_gap <= 1e-6 or "optimum is 0" in outcome.reason


@pytest.mark.parametrize("scale", [1e20, 1e30])
def test_columns_too_large_for_float64_are_never_called_solved(scale: float) -> None:
    rows = two_classes(6, n_rows=100, n_columns=3)
    for model in (CSVM(), L2SVM(), LogisticRegression()):
        problem = model.problem(DenseRows(scale * rows.rows, rows.labels))
        state, outcome, _ = solve(problem, MethodChoice(tolerance=1e-4))
        assert outcome.kind == "not converged", (model, outcome)
        assert state.history[-1].iteration < 200


@pytest.mark.parametrize("scales", [(1e10, 1e10, 1e10), (1e10, 1.0, 1e-6), (1e7, 1e3, 1e8)])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_large_columns_are_certified_by_the_optimum_of_scaled_ones(
    scales: tuple[float, ...], noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((200, 3))
    labels = np.where(inputs[:, 0] + noise * rng.standard_normal(200) > 0.0, 1.0, -1.0)
    for model, most in product((CSVM(), L2SVM(), LogisticRegression()), (1000, 2)):
        monkeypatch.setattr(newton, "MOST_COLUMNS", most)  # 2: by products with vectors
        problem = model.problem(DenseRows(np.array(scales) * inputs, labels))
        state, outcome, method = solve(problem, Newton(1e-4))
        assert outcome.kind == "done", (model, most, outcome)
        assert state.history[-1].iteration < 200
        found = method.solution(state, problem)
        margins = labels * (inputs @ (np.array(scales) * found.weights) - found.bias)
        value = problem.risk.loss.value(margins) @ problem.risk.weights + 0.5 * found.weights @ found.weights  # type: ignore[attr-defined]
        assert value == pytest.approx(found.certificate.primal, rel=1e-6)


def test_a_system_that_is_not_finite_is_an_error() -> None:
    with pytest.raises(DivergedError, match="Scale the columns"):
        positive_solution(np.array([[1.0, np.nan], [np.nan, 1.0]]), np.ones(2))


def test_hinge_optimum_is_that_of_a_cone_solver() -> None:
    import clarabel

    rows, C = two_classes(5, n_rows=80), 1e4
    m, n = rows.rows.shape
    margins = np.hstack([rows.signs[:, None] * rows.rows, -rows.signs[:, None], np.eye(m)])
    quadratic = np.diag(np.concatenate([np.ones(n), np.zeros(1 + m)]))
    linear = np.concatenate([np.zeros(n + 1), np.full(m, C)])
    limits = np.vstack([-margins, np.hstack([np.zeros((m, n + 1)), -np.eye(m)])])
    cones = [clarabel.NonnegativeConeT(2 * m)]
    expected = cone_optimum(quadratic, linear, limits, np.concatenate([-np.ones(m), np.zeros(m)]), cones)
    found = solve(CSVM(C).problem(rows), Newton(1e-9))[0].best_record.certificate
    assert found.primal == pytest.approx(expected, rel=1e-7)


def test_more_columns_than_rows() -> None:
    rng = np.random.default_rng(6)
    labels = np.where(np.arange(40) % 3 == 0, 1.0, -1.0)
    rows = DenseRows(rng.standard_normal((40, 120)) + 0.2 * labels[:, None], labels)
    for model, form in product(MODELS, (rows, SparseRows(sparse.csr_array(rows.rows), labels))):
        problem: Any = model.problem(form)
        state, outcome, _ = solve(problem, Newton(1e-8))
        assert outcome.kind == "done"
        assert violation(problem, state) < 1e-3


@pytest.mark.parametrize("model", [L2SVM(0.4), LogisticRegression(2.0), CSVM(0.7)])
def test_systems_by_products_reach_the_same_optimum(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = two_classes(8, n_rows=200)
    expected = solve(model.problem(rows), Newton(1e-9))[0].best_record.certificate
    monkeypatch.setattr(newton, "MOST_COLUMNS", 3)
    state, outcome, _ = solve(model.problem(rows), Newton(1e-9))
    assert outcome.kind == "done"
    found = state.best_record.certificate
    assert found.primal == pytest.approx(expected.primal, abs=expected.gap + found.gap + 1e-12 * expected.primal)
    assert state.reads > 15


def test_a_warm_start_begins_near_the_optimum() -> None:
    problem = CSVM(1.0).problem(two_classes(7, n_rows=200))
    state, _, method = solve(problem, Newton(1e-8))
    again, outcome, _ = solve(CSVM(1.05).problem(problem.rows), method, 1.05 * state.best.point)
    assert outcome.kind == "done"
    assert again.history[0].certificate.relative_gap < 0.2 * state.history[0].certificate.relative_gap


def test_the_choice_depends_on_sizes() -> None:
    rows = two_classes(0)
    few, many = CSVM(1.0).problem(rows), CSVM(1.0).problem(DenseRows(np.ones((4, 1001)), np.array([1.0, -1, 1, -1])))
    exact = CSVM(1.0).problem(kernel_matrix(Gaussian(1.0), rows.rows, rows.labels))
    auto = MethodChoice()
    wide = LogisticRegression(1.0).problem(many.rows)
    assert [type(auto.choose(problem)) for problem in (few, many, exact, wide)] == [Newton, Fapg, WorkingSets, Newton]
    assert type(auto.choose(few, n_columns=2000)) is Fapg
    sparse_model = MAKERS["l1-logistic"](rows)
    assert type(auto.choose(sparse_model)) is L1Newton
    assert auto.choose(sparse_model, n_columns=2000) == replace(auto, name="fapg").choose(few)
    assert type(replace(auto, name="newton").choose(many)) is Newton
    assert replace(auto, name="proven").choose(few) == Fapg("proven", 1e-6, max_iterations=20_000)
    with pytest.raises(ConfigError, match="explicit columns"):
        replace(auto, name="newton").choose(exact)
    with pytest.raises(ConfigError, match="exact kernel"):
        replace(auto, name="working-sets").choose(few)


@pytest.mark.parametrize(("kind", "share"), [(CSVM, 1 / 50), (LogisticRegression, 1 / 100), (L2SVM, 1 / 1000)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_small_c_uses_accelerated_gradients_on_many_dense_columns(kind: Any, share: float, dtype: Any) -> None:
    random = np.random.default_rng(3)
    inputs = (random.normal(size=(1500, 80)) + 0.3).astype(dtype)
    rows = DenseRows(inputs, np.where(inputs[:, 0] + random.normal(size=1500) > 0.3, 1.0, -1.0))
    limit = share * 80**2 / float(np.linalg.norm(inputs, 2)) ** 2
    auto = MethodChoice()
    small, large = kind(0.8 * limit).problem(rows), kind(1.25 * limit).problem(rows)
    assert [type(auto.choose(problem)) for problem in (small, large)] == [Fapg, Newton]
    state, outcome, _ = solve(small, auto)
    assert outcome.kind == "done"
    assert state.history[-1].iteration <= 160
    # not for sparse rows, few columns, or gaps near rounding
    assert type(auto.choose(kind(0.8 * limit).problem(SparseRows(sparse.csr_array(inputs), rows.labels)))) is Newton
    assert type(auto.choose(kind(1e-9).problem(DenseRows(inputs[:, :49], rows.labels)))) is Newton
    tight = [type(replace(auto, tolerance=1e-8).choose(kind(0.25 * C * limit).problem(rows))) for C in (0.8, 1.25)]
    assert tight == [Fapg, Newton]
    assert type(replace(auto, tolerance=1e-10).choose(small)) is Newton


def test_steps_without_progress_near_the_least_nu_name_a_larger_nu() -> None:
    reasons = []
    for seed in range(2, 5):
        random = np.random.default_rng(seed)
        inputs = random.normal(size=(300, 20)).astype(np.float32)
        signs = np.where(inputs[:, 0] + 2.0 * random.normal(size=300) > 0.0, 1.0, -1.0)
        least, _ = NuSVM.valid_range(rows := DenseRows(inputs, signs))
        for more in (1e-8, 1e-9):
            _, outcome, _ = solve(NuSVM(nu=least + more).problem(rows), Newton(1e-6, 1000))
            reasons += [outcome.reason] if "make no progress" in outcome.reason else []
    assert reasons
    assert all("nu-SVM is close to its least valid nu" in reason for reason in reasons)


@pytest.mark.parametrize(
    "model", [CSVM(1.0), CSVM(300.0, fit_intercept=False), NuSVM(0.2)], ids=["bias", "no bias", "nu"]
)
def test_sparse_rows_far_from_the_margin_are_left_out_of_steps(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    inputs = random.normal(size=(1500, 12)) * (random.random((1500, 12)) < 0.4)
    scores = inputs @ random.normal(size=12)
    labels = np.where(scores + 0.2 * random.normal(size=1500) > 0.0, 1.0, -1.0)
    weights = np.where(np.arange(1500) % 5 == 0, 0.0, 1.0)
    sparse_problem = model.problem(SparseRows(sparse.csr_array(inputs), labels), weights)
    parts = []
    narrowed = NewtonPart.narrowed

    def watched(part: NewtonPart, at: Place) -> NewtonPart | None:
        """Compare the sums of the rows that remain with those of all rows."""
        fewer = narrowed(part, at)
        if fewer is not None:
            parts.append(len(fewer._first) / len(part._first))
            of_some, of_all = fewer.gradient(Place(at.point, ())), part.gradient(at)
            some, every = (np.hstack([of.image, of.balance, of.risk, of.value, of.along]) for of in (of_some, of_all))
            np.testing.assert_allclose(some, every, rtol=1e-9, atol=1e-9 * of_all.size)
            assert of_some.free == of_all.free
        return fewer

    line = NewtonPart.line

    def compared(part: Any, at: Place, direction: Point, steps: Any) -> Doubles:
        """Compare the margins of both points, which may be those at hand, with new ones."""
        for point in (at.point, direction):
            margins = part._margins(point.serial, point.weights)
            np.testing.assert_allclose(margins, part._problem.rows.margins(point.weights))
        return np.asarray(line(part, at, direction, steps))

    monkeypatch.setattr(NewtonPart, "narrowed", watched)
    monkeypatch.setattr(NewtonPart, "line", compared)
    found, outcome, _ = solve(sparse_problem, Newton(1e-8))
    assert outcome.kind == "done"
    assert parts
    assert max(parts) < 0.6
    expected = solve(model.problem(DenseRows(inputs, labels), weights), Newton(1e-8))[0].best_record.certificate
    assert found.best_record.certificate.primal == pytest.approx(expected.primal, rel=3e-8)
    assert violation(sparse_problem, found) < 1e-4
    few = solve(sparse_problem, Newton(1e-8, 9))[0]
    assert few.history[-1].iteration == 9


def sparse_rows(n_rows: int, n_columns: int, share: float, noise: float = 1.0) -> tuple[Doubles, Doubles]:
    """Draw sparse inputs, sorted by class, some without a value, and labels."""
    random = np.random.default_rng(5)
    inputs = random.normal(size=(n_rows, n_columns)) * (random.random((n_rows, n_columns)) < share)
    inputs[::7] = 0.0
    labels = np.where(inputs @ random.normal(size=n_columns) + noise * random.normal(size=n_rows) > 0.8, 1.0, -1.0)
    order = np.argsort(labels, kind="stable")
    return inputs[order], labels[order]


@pytest.mark.parametrize("in_sample", ["both classes", "one class", "the other"])
@pytest.mark.parametrize("model", [L2SVM(0.5), LogisticRegression(3.0), LogisticRegression(2.0, fit_intercept=False)])
def test_a_sample_of_many_sparse_rows_leaves_the_optimum(
    model: Any, in_sample: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, _ = sparse_rows(2000, 8, 0.4)
    labels = np.where(inputs[:, 0] - inputs[:, 1] > 1.6, 1.0, -1.0)
    assert 0.02 < np.mean(labels > 0.0) < 0.1
    if in_sample != "both classes":
        labels = np.where(np.arange(2000) % 16 == 1, 1.0, -1.0) * (1.0 if in_sample == "one class" else -1.0)
    problem: Any = model.problem(SparseRows(sparse.csr_array(inputs), labels))
    state, outcome, _ = solve(problem, Newton(1e-9))
    monkeypatch.setattr(newton, "_ROWS_A_COLUMN", 2000)
    other = solve(problem, Newton(1e-9))[0]
    assert outcome.kind == "done"
    if in_sample == "both classes":
        assert state.history[0].certificate.gap < 0.5 * other.history[0].certificate.gap
    found, expected = state.best_record.certificate, other.best_record.certificate
    assert found.primal == pytest.approx(expected.primal, abs=expected.gap + found.gap + 1e-12 * expected.primal)


@pytest.mark.parametrize("fit_intercept", [False, True], ids=["no bias", "bias"])
def test_passes_over_dual_entries_solve_a_small_c(fit_intercept: bool) -> None:
    inputs, labels = sparse_rows(1500, 12, 0.4)
    weights = np.where(np.arange(1500) % 5 == 0, 0.0, 1.0 + np.arange(1500) % 3)
    model = CSVM(0.01, fit_intercept)
    problem: Any = model.problem(SparseRows(sparse.csr_array(inputs), labels), weights)
    found, outcome, method = solve(problem, Newton(1e-4))
    assert outcome.kind == "done"
    assert found.history[-1].iteration == 0
    assert found.reads > 1
    expected = solve(model.problem(DenseRows(inputs, labels), weights), Newton(1e-9))[0].best_record.certificate
    proof = found.best_record.certificate
    assert proof.dual - 1e-9 * proof.primal <= expected.primal <= proof.primal
    assert violation(problem, found) < 1.0
    solution = method.solution(found, problem)
    value = problem.risk.value(problem.rows.margins(solution.weights), solution.bias)
    assert value + 0.5 * solution.weights @ solution.weights == pytest.approx(proof.primal, rel=1e-9)
    again = solve(problem, Newton(1e-4))[0]
    assert np.array_equal(again.best.point, found.best.point)


@pytest.mark.parametrize("fit_intercept", [False, True], ids=["no bias", "bias"])
def test_newton_steps_follow_passes_that_are_slow(fit_intercept: bool) -> None:
    inputs, labels = sparse_rows(1500, 12, 0.4)
    model = CSVM(100.0, fit_intercept)
    found, outcome, _ = solve(model.problem(SparseRows(sparse.csr_array(inputs), labels)), Newton(1e-8))
    assert outcome.kind == "done"
    assert found.history[-1].iteration > 0
    expected = solve(model.problem(DenseRows(inputs, labels)), Newton(1e-8))[0].best_record.certificate
    assert found.best_record.certificate.primal == pytest.approx(expected.primal, rel=2e-8)


def test_many_sparse_columns_use_passes_and_newton_steps() -> None:
    inputs, labels = sparse_rows(600, 1500, 0.02)
    for C in (0.1, 10.0):
        problem = CSVM(C).problem(SparseRows(sparse.csr_array(inputs), labels))
        assert type(MethodChoice().choose(problem)) is Newton
        state, outcome, _ = solve(problem, MethodChoice(tolerance=1e-5))
        assert outcome.kind == "done"
        expected = solve(problem, Fapg(tolerance=1e-6, max_iterations=20_000))[0].best_record.certificate
        assert state.best_record.certificate.primal == pytest.approx(expected.primal, rel=2e-5)


def test_logistic_steps_use_products_where_these_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    matrices: list[int] = []
    curvature = NewtonPart.curvature

    def counted(part: NewtonPart, at: Place) -> Any:
        matrices.append(at.point.serial)
        return curvature(part, at)

    monkeypatch.setattr(NewtonPart, "curvature", counted)
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(600, 200)) * np.geomspace(1.0, 0.03, 200)
    rows = DenseRows(inputs, np.where(inputs[:, 0] + rng.normal(size=600) > 0.0, 1.0, -1.0))
    counts = []
    for C in (0.01, 100.0):
        matrices.clear()
        problem = LogisticRegression(C, fit_intercept=False).problem(rows)
        state, outcome, _ = solve(problem, MethodChoice(tolerance=1e-5))
        assert outcome.kind == "done"
        expected = solve(problem, Fapg(tolerance=1e-6, max_iterations=20_000))[0].best_record.certificate
        assert state.best_record.certificate.primal == pytest.approx(expected.primal, rel=2e-5)
        counts.append(len(matrices))
    assert counts[0] == 0 < counts[1]


def test_dense_rows_without_a_bias_use_passes_first() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(600, 60))
    rows = DenseRows(inputs, np.where(inputs[:, 0] + rng.normal(size=600) > 0.0, 1.0, -1.0))
    steps = []
    for C in (1e-3, 1.0):
        problem = CSVM(C, fit_intercept=False).problem(rows)
        assert type(MethodChoice().choose(problem)) is Newton
        state, outcome, _ = solve(problem, MethodChoice(tolerance=1e-5))
        assert outcome.kind == "done"
        expected = solve(problem, Fapg(tolerance=1e-6, max_iterations=20_000))[0].best_record.certificate
        assert state.best_record.certificate.primal == pytest.approx(expected.primal, rel=2e-5)
        steps.append(state.history[-1].iteration)
    assert steps[0] == 0 < steps[1]


@pytest.mark.parametrize("fit_intercept", [False, True], ids=["no bias", "bias"])
def test_passes_that_leave_the_range_of_float64_are_not_called_solved(fit_intercept: bool) -> None:
    rows = two_classes(6, n_rows=100, n_columns=3)
    problem = CSVM(1.0, fit_intercept).problem(SparseRows(sparse.csr_array(1e30 * rows.rows), rows.labels))
    outcome = solve(problem, MethodChoice(tolerance=1e-4))[1]
    assert outcome.kind == "not converged"


@pytest.mark.parametrize("fit_intercept", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize(("C", "length"), [(1.0, 0.0), (1.0, 1e-150), (1e-300, 1.0)])
def test_passes_that_leave_no_gap_are_solved(fit_intercept: bool, C: float, length: float) -> None:
    problem = CSVM(C, fit_intercept).problem(SparseRows(length * sparse.eye_array(8), np.repeat([1.0, -1.0], 4)))
    state, outcome, _ = solve(problem, Newton(1e-6))
    assert outcome.kind == "done"
    assert state.best_record.certificate.primal == pytest.approx(8 * C)


def test_a_direction_after_a_rejected_one_has_its_own_margins(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, labels = sparse_rows(1500, 12, 0.4, noise=0.1)
    problem: Any = CSVM(100.0).problem(SparseRows(sparse.csr_array(inputs), labels))
    narrowed, step, line = newton._Run._narrowed, newton._Run._step, NewtonPart.line
    rejected: list[int] = []
    named: dict[int, Any] = {}

    def reversed_once(run: Any, *given: Any) -> Point | None:
        direction = narrowed(run, *given)
        if direction is None or rejected:
            return direction
        rejected.append(direction.serial)
        return replace(direction, weights=-direction.weights, thresholds=-direction.thresholds)

    def stepped(run: Any, current: Place, gradient: Any, direction: Point) -> float:
        if run.problem.holds_rows and len(run.problem.prototype.rows.labels) == 1500:
            assert np.array_equal(named.setdefault(direction.serial, direction.weights), direction.weights)
        return step(run, current, gradient, direction)

    def compared(part: Any, at: Place, direction: Point, steps: Any) -> Doubles:
        margins = part._margins(direction.serial, direction.weights)
        np.testing.assert_allclose(margins, part._problem.rows.margins(direction.weights))
        return np.asarray(line(part, at, direction, steps))

    monkeypatch.setattr(newton._Run, "_narrowed", reversed_once)
    monkeypatch.setattr(newton._Run, "_step", stepped)
    monkeypatch.setattr(NewtonPart, "line", compared)
    _, outcome, _ = solve(problem, Newton(1e-8))
    assert outcome.kind == "done"
    assert rejected


def sparse_columns() -> tuple[Doubles, Doubles]:
    """Return rows of 30 columns with a third of the values, and labels that are not separable."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((400, 30)) * (rng.random((400, 30)) < 0.3)
    return inputs, np.where(inputs[:, 0] + inputs[:, 1] + 0.3 * rng.standard_normal(400) > 0.0, 1.0, -1.0)


@pytest.mark.parametrize("kind", [DenseRows, lambda rows, labels: SparseRows(sparse.csr_array(rows), labels)])
@pytest.mark.parametrize("C", [2.0**-5, 1.0, 1e3, 2.0**15])
def test_hinge_losses_of_columns_of_very_different_size_are_solved(C: float, kind: Any) -> None:
    inputs, labels = sparse_columns()
    inputs[:, :4] *= [1e8, 1e-8, 1e8, 1e-8]
    state, outcome, _ = solve(CSVM(C).problem(kind(inputs, labels)), MethodChoice(tolerance=1e-4))
    assert outcome.kind == "done"
    assert state.history[-1].iteration > 0


def outcome_kind(problem: DualProblem, method: MethodChoice) -> str:
    """Return the kind of the outcome, or the reason for divergence."""
    try:
        outcome = solve(problem, method)[1]
    except DivergedError as error:
        return str(error)
    return outcome.reason if outcome.kind == "diverged" else outcome.kind


@pytest.mark.parametrize("model", [CSVM(1e3), L2SVM(1.0), LogisticRegression(1.0), NuSVM(0.7), DWD(0.1)])
@pytest.mark.parametrize("method", ["auto", "fapg"])
@pytest.mark.parametrize("size", [1e150, 1e-200])
def test_values_at_the_limits_of_float64_end_without_warnings(model: Any, method: Any, size: float) -> None:
    inputs, labels = sparse_columns()
    inputs[:, 3] *= size
    weights = np.where(np.arange(400) % 7 == 0, 1e6, 1.0)
    kinds = DenseRows(inputs, labels), SparseRows(sparse.csr_array(inputs), labels)
    for rows, of in product(kinds, (None, weights)):
        end = outcome_kind(model.problem(rows, of), MethodChoice(method, 1e-4, 200))
        assert size > 1.0 or method == "fapg" or end == "done"
        assert end in ("done", "not converged") or "Scale the columns" in end or "the objective is inf" in end


def test_rows_whose_squared_length_is_not_finite_are_refused() -> None:
    inputs, labels = sparse_columns()
    inputs[5] = 1e200
    for rows in (DenseRows(inputs, labels), SparseRows(sparse.csr_array(inputs), labels)):
        with pytest.raises(DataError, match=r"largest value is 1e\+200. Scale the columns"):
            solve(CSVM(1.0).problem(rows), MethodChoice())
