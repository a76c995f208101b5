"""Samples solved by cuts and conjugate subgradients: against closed forms, exact solvers and each other."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.svm import SVC, SVR, LinearSVC

from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray
from okl.kernels import CustomKernel, Gaussian, Laplacian
from okl.losses import EpsilonInsensitive, Hinge, MulticlassHinge, PiecewiseLinear
from okl.solvers.subgradient.scs import Bundle, SampleDescent, Scs, Wolfe, solve_sample
from okl.solvers.subgradient.spaces import ExplicitRows, KernelRows, KernelValues, SampleSpace
from tests.solvers.subgradient.exact import hinge_optimum

# Samples solved by cuts and conjugate subgradients: against closed forms, exact solvers and each other.

Doubles = NDArray[np.float64]

PAPERS: tuple[dict[str, Any], ...] = (
    {"directions": "conjugate"},
    {"directions": "subgradient"},
)


def problem(n_rows: int = 300, n_columns: int = 8, seed: int = 0) -> tuple[Doubles, Doubles]:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n_rows, n_columns)) / np.sqrt(n_columns)
    noise = 0.3 * rng.standard_normal(n_rows)
    return rows, np.where(rows @ rng.standard_normal(n_columns) + noise > 0.1, 1.0, -1.0)


def kernel_rows(rows: FloatArray, constant: float = 0.0) -> KernelRows:
    return KernelRows(KernelValues(Gaussian(1.0), rows, constant), len(rows))


@pytest.mark.parametrize("kernel", [Gaussian(0.5), Gaussian(5.0), Laplacian(1.0)])
@pytest.mark.parametrize("directions", ["bundle", "conjugate", "subgradient"])
def test_lam_of_one_gives_the_closed_form(kernel: Gaussian | Laplacian, directions: Any) -> None:
    rows, targets = problem()
    space = KernelRows(KernelValues(kernel, rows), len(rows))
    solved = solve_sample(space, targets, Scs(lam=1.0, gap=1e-9, directions=directions))
    np.testing.assert_allclose(solved.point.vector.coefficients, targets / len(rows), rtol=0, atol=1e-12 / len(rows))
    assert solved.gap <= 1e-14
    assert solved.iterations == 1


@pytest.mark.parametrize("lam", [0.1, 0.01, 0.001])
def test_optima_are_those_of_second_order_methods_in_a_map_and_by_a_kernel(lam: float) -> None:
    rows, targets = problem()
    method = Scs(lam=lam, gap=1e-8)
    spaces: tuple[SampleSpace, ...] = (ExplicitRows(rows), kernel_rows(rows))
    exact = (hinge_optimum(lam, rows, targets), hinge_optimum(lam, rows, targets, Gaussian(1.0)))
    for space, best in zip(spaces, exact, strict=True):
        solved = solve_sample(space, targets, method)
        assert solved.reason == "gap"
        assert solved.objective == pytest.approx(best.objective, abs=2e-8)
        assert solved.lower_bound <= best.objective + 1e-12
        assert solved.objective == pytest.approx(objective(space, solved, targets, Hinge(), lam), rel=1e-12)


def objective(space: Any, solved: SampleDescent, targets: FloatArray, loss: PiecewiseLinear, lam: float) -> float:
    vector = solved.point.vector
    losses = loss.value(space.scores(vector) + solved.point.bias, targets)
    return 0.5 * lam * float((vector.coefficients * vector.dual).sum()) + float(losses.mean())


def test_bounds_never_exceed_the_optimum_on_random_problems() -> None:
    rng, gaps, tight = np.random.default_rng(7), [], 0
    for index in range(240):
        n_rows, lam = int(rng.integers(2, 60)), float(10.0 ** rng.uniform(-3, 0.5))
        rows = rng.standard_normal((n_rows, 4)) * 10.0 ** rng.uniform(-1, 1)
        loss: PiecewiseLinear = (Hinge(), EpsilonInsensitive(0.2), EpsilonInsensitive(0.0))[index % 3]
        targets = rng.choice([-1.0, 1.0], n_rows)
        options = ({}, *PAPERS)[index % 4 % 3]
        exact = solve_sample(ExplicitRows(rows), targets, Scs(lam=lam, loss=loss, gap=1e-11, max_iterations=500))
        solved = solve_sample(
            ExplicitRows(rows), targets, Scs(lam=lam, loss=loss, gap=1e-3, max_iterations=40, **options)
        )
        rounding = 1e-12 * (1.0 + exact.objective)
        assert exact.gap < 1e-9 * (1.0 + exact.objective)
        bounds = [record.lower_bound for record in solved.history]
        assert max(bounds) <= exact.objective + rounding
        assert all(record.objective >= exact.lower_bound - rounding for record in solved.history)
        falls = np.diff([record.objective for record in solved.history])
        assert (falls <= rounding).all()
        assert (np.diff(bounds) >= 0.0).all()
        gaps.append(solved.gap)
        tight += solved.reason == "gap"
    assert 48 < tight < 240
    assert max(gaps) > 1e-2


def test_several_classes_are_those_of_liblinear() -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((200, 6))
    targets = np.argmax(rows[:, :4] + 0.5 * rng.standard_normal((200, 4)), axis=1).astype(np.float64)
    solved = solve_sample(ExplicitRows(rows, 4), targets, Scs(lam=0.01, loss=MulticlassHinge(), gap=1e-8))
    peer = LinearSVC(multi_class="crammer_singer", C=1 / (0.01 * 200), fit_intercept=False, tol=1e-10, max_iter=10**6)
    weights = peer.fit(rows, targets).coef_
    wanted = 0.005 * (weights**2).sum() + MulticlassHinge().value(rows @ weights.T, targets).mean()
    assert solved.objective == pytest.approx(wanted, abs=1e-7)
    kernel = KernelRows(KernelValues(Gaussian(2.0), rows), 200, 4)
    exact = solve_sample(kernel, targets, Scs(lam=0.01, loss=MulticlassHinge(), gap=1e-6))
    assert exact.reason == "gap"
    np.testing.assert_allclose(exact.point.vector.coefficients.sum(axis=1), 0.0, atol=1e-12)


@pytest.mark.parametrize("lam", [0.1, 0.003])
def test_free_bias_is_that_of_libsvm(lam: float) -> None:
    rows, labels = problem()
    space, gamma, matrix = kernel_rows(rows), 0.5, Gaussian(1.0).matrix(rows, rows)
    numbers = np.sin(3 * rows[:, 0]) + 5.0
    peers = (
        (Hinge(), labels, SVC(gamma=gamma, C=1 / (lam * 300), tol=1e-8)),
        (EpsilonInsensitive(0.1), numbers, SVR(gamma=gamma, C=1 / (lam * 300), tol=1e-8, epsilon=0.1)),
    )
    for loss, targets, peer in peers:
        solved = solve_sample(space, targets, Scs(lam=lam, loss=loss, gap=1e-7, bias="free"))
        peer.fit(rows, targets)
        weights = np.zeros(300)
        weights[peer.support_] = peer.dual_coef_[0]
        losses = loss.value(matrix @ weights + peer.intercept_[0], targets)
        wanted = 0.5 * lam * weights @ matrix @ weights + losses.mean()
        assert solved.reason == "gap"
        assert solved.objective == pytest.approx(wanted, abs=1e-6)
        assert solved.objective == pytest.approx(objective(space, solved, targets, loss, lam), rel=1e-12)
        assert solved.point.bias != 0.0


@pytest.mark.parametrize(("n_rows", "n_columns", "lam"), [(60, 3, 0.01), (60, 5, 0.01), (120, 8, 1e-4)])
def test_free_bias_does_not_stall_above_the_optimum(n_rows: int, n_columns: int, lam: float) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rows = rng.standard_normal((n_rows, n_columns))
        targets = np.where(rows[:, 0] + rng.standard_normal(n_rows) > 0.3, 1.0, -1.0)
        solved = solve_sample(ExplicitRows(rows), targets, Scs(lam=lam, gap=1e-8, bias="free"))
        exact = hinge_optimum(lam, rows, targets, free_bias=True)
        assert solved.reason == "gap"
        assert solved.lower_bound <= exact.objective + 1e-12
        assert solved.objective == pytest.approx(exact.objective, abs=1e-8)


def test_regularised_bias_is_a_constant_in_the_kernel_or_a_column_of_ones() -> None:
    rows, targets = problem()
    method = Scs(lam=0.01, gap=1e-9, bias="regularised")
    by_column = solve_sample(ExplicitRows(np.column_stack([rows, np.ones(300)])), targets, method)
    linear = CustomKernel("mine", lambda left, right: left @ right.T)
    by_kernel = solve_sample(KernelRows(KernelValues(linear, rows, 1.0), 300), targets, method)
    assert by_column.objective == pytest.approx(by_kernel.objective, abs=2e-9)
    assert "b^2" in method.problem


def test_conjugate_directions_reduce_the_gap_on_a_fixed_sample() -> None:
    rows, targets = problem(500)
    gaps = [
        solve_sample(kernel_rows(rows), targets, Scs(lam=0.001, gap=1e-12, max_iterations=60, **options)).gap
        for options in ({}, *PAPERS)
    ]
    assert gaps[0] < 0.1 * gaps[1] < 0.05 * gaps[2]


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_threads_and_a_warm_start_in_a_larger_sample_do_not_change_the_result(precision: str) -> None:
    rows, targets = problem(40_000, 128, seed=3)
    rows = rows.astype(precision)
    first = solve_sample(ExplicitRows(rows[:500]), targets[:500], Scs(lam=0.01, gap=1e-2)).point.vector
    found = [
        solve_sample(ExplicitRows(rows, n_threads=threads), targets, Scs(lam=0.01), first).point.vector.coefficients
        for threads in (1, 2, 3)
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    assert (found[0] != first.coefficients).any()


def test_kernel_vectors_lift_into_larger_samples() -> None:
    rows, _ = problem(200)
    values = KernelValues(Gaussian(1.0), rows)
    matrix, rng = Gaussian(1.0).matrix(rows, rows), np.random.default_rng(0)
    for n_outputs in (1, 3):
        shape = (50,) if n_outputs == 1 else (50, n_outputs)
        small = KernelRows(values, 50, n_outputs).vector(rng.standard_normal(shape))
        np.testing.assert_allclose(small.dual, matrix[:50, :50] @ small.coefficients, atol=1e-12)
        large = KernelRows(values, 200, n_outputs).lifted(small)
        np.testing.assert_allclose(large.dual, matrix[:, :50] @ small.coefficients, atol=1e-12)


def test_a_full_bundle_drops_cuts_and_keeps_its_bound() -> None:
    rows, targets = problem(300, 8)
    sizes = {
        size: solve_sample(ExplicitRows(rows), targets, Scs(lam=0.001, gap=1e-6, bundle_size=size))
        for size in (2, 10, 100)
    }
    assert all(solved.reason == "gap" or size == 2 for size, solved in sizes.items())
    assert sizes[2].iterations > sizes[10].iterations >= sizes[100].iterations > 10
    bounds = [record.lower_bound for record in sizes[2].history]
    assert (np.diff(bounds) >= 0.0).all()


def test_bundle_of_one_cut_bounds_by_it() -> None:
    bundle, space = Bundle(0.5, 4), ExplicitRows(np.eye(3))
    bundle.add(space.vector(np.array([1.0, 2.0, 0.0])), 0.75)
    assert bundle.master() == pytest.approx(0.75 - 5.0)
    np.testing.assert_allclose(bundle.point().coefficients, [-2.0, -4.0, 0.0])


def test_a_gap_below_rounding_ends_with_a_reason() -> None:
    rows, targets = problem(100)
    solved = solve_sample(ExplicitRows(rows), targets, Scs(lam=0.1, gap=1e-18))
    assert solved.reason in ("rounding", "stalled")
    assert solved.gap < 1e-13


def test_indefinite_kernels_are_refused() -> None:
    rows, targets = problem(100)
    sigmoid = CustomKernel("sigmoid", lambda left, right: np.tanh(left @ right.T - 1.0))
    with pytest.raises(ConfigError, match="indefinite"):
        solve_sample(KernelRows(KernelValues(sigmoid, rows), 100), targets, Scs())


@pytest.mark.parametrize(
    "options",
    [
        {"lam": 0.0},
        {"lam": -1.0},
        {"lam": float("nan")},
        {"gap": 0.0},
        {"bundle_size": 1},
        {"directions": "newton"},
        {"bias": "free", "directions": "conjugate"},
        {"bias": "free", "loss": MulticlassHinge()},
        {"max_iterations": 0},
    ],
)
def test_wrong_numbers_and_combinations_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Scs(**options)


ROWS, LAM = 400, 0.003


def rows_of() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((ROWS, 8))
    return rows, np.where(rows[:, 0] - rows[:, 1] ** 2 + 0.5 + 0.5 * rng.standard_normal(ROWS) > 0, 1.0, -1.0)


def test_the_optimum_is_reached_and_the_bound_stays_below() -> None:
    rows, targets = rows_of()
    best = hinge_optimum(LAM, rows, targets)
    found = solve_sample(ExplicitRows(rows), targets, Wolfe(LAM, gap=1e-5, max_iterations=2000))
    assert found.reason == "gap"
    assert -1e-9 <= found.objective - best.bound <= 1e-5
    assert all(record.lower_bound <= best.objective + 1e-9 for record in found.history)
    values = [record.objective for record in found.history]
    assert all(after <= before + 1e-15 for before, after in pairwise(values))
    np.testing.assert_allclose(found.point.vector.coefficients, best.weights, atol=0.1)


def test_the_optimum_is_reached_with_a_kernel() -> None:
    rows, targets = rows_of()
    kernel = Gaussian(2.0)
    best = hinge_optimum(LAM, rows, targets, kernel)
    space = KernelRows(KernelValues(kernel, rows), ROWS)
    found = solve_sample(space, targets, Wolfe(LAM, gap=1e-4, max_iterations=2000))
    assert found.reason == "gap"
    assert found.objective == pytest.approx(best.objective, abs=1e-4)


def test_restarts_beat_conjugate_directions_and_both_beat_subgradients() -> None:
    rows, targets = rows_of()
    space = ExplicitRows(rows)
    settings = {"lam": LAM, "gap": 1e-12, "max_iterations": 150}
    plain = (Scs(directions="conjugate", **settings), Scs(directions="subgradient", **settings))  # type: ignore[arg-type]
    methods = (Wolfe(**settings), *plain)  # type: ignore[arg-type]
    gaps = [solve_sample(space, targets, method).gap for method in methods]
    assert gaps == sorted(gaps)
    assert gaps[0] < 0.5 * gaps[1] < 0.2 * gaps[2]


def test_lam_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="lam"):
        Wolfe(0.0)
