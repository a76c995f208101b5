"""Offline optima, against a cone solver; regret, forms of violation and exponents against their definitions."""

from __future__ import annotations

from typing import Any

import clarabel
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from okl.foundation.errors import ConfigError
from okl.solvers.oco import problem as problem_module
from okl.solvers.oco.problem import ConvexConstraints, ConvexLosses, LinearConstraints, Problem, QuadraticLosses
from okl.solvers.oco.runs import (
    dynamic_optima,
    dynamic_regret,
    growth_exponent,
    losses_at,
    path_length,
    regret,
    static_optimum,
    static_regret,
    violation_of,
)
from okl.solvers.oco.sets import Ball, Box, ConvexSet, Simplex

Doubles = NDArray[np.float64]


def problems(seed: int, count: int) -> list[Problem]:
    """Return boxes, balls and simplices in two to six dimensions with rows that some of their points violate."""
    rng, found = np.random.default_rng(seed), []
    for at in range(count):
        size = 2 if at % 4 == 0 else int(rng.integers(2, 7))
        box = Box(-rng.uniform(0.2, 1, size), rng.uniform(0.2, 1, size))
        sets: list[ConvexSet] = [box, Ball(0.3 * rng.normal(size=size), rng.uniform(0.5, 2)), Simplex(size, 1.5)]
        region = sets[at % 3]
        matrix = rng.normal(size=(int(rng.integers(1, 5)), size))
        inside = region.project(rng.normal(size=size))
        found.append(Problem(region, LinearConstraints(matrix, matrix @ inside + rng.uniform(0.0, 0.3, len(matrix)))))
    return found


def by_cone_solver(problem: Problem, curvature: float, direction: Doubles) -> float:
    """Return the least value of curvature ||x||^2 + <direction, x> over the feasible set."""
    size, rows = problem.dimension, problem.linear
    matrices, bounds, cones = [rows.matrix], [rows.bounds], [clarabel.NonnegativeConeT(rows.n_constraints)]
    region: Any = problem.region
    if isinstance(region, Box):
        matrices += [np.eye(size), -np.eye(size)]
        bounds += [region.high, -region.low]
        cones.append(clarabel.NonnegativeConeT(2 * size))
    elif isinstance(region, Simplex):
        matrices += [-np.eye(size), np.ones((1, size))]
        bounds += [np.zeros(size), np.array([region.total])]
        cones += [clarabel.NonnegativeConeT(size), clarabel.ZeroConeT(1)]
    else:
        matrices += [np.zeros((1, size)), -np.eye(size)]
        bounds += [np.array([region.radius]), -region.centre]
        cones.append(clarabel.SecondOrderConeT(size + 1))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    quadratic = sparse.csc_matrix(2.0 * curvature * np.eye(size))
    stacked = sparse.csc_matrix(np.vstack(matrices))
    solver = clarabel.DefaultSolver(quadratic, direction, stacked, np.concatenate(bounds), cones, settings)
    return float(solver.solve().obj_val)


@pytest.mark.parametrize("curvature", [0.0, 0.7])
def test_optima_agree_with_a_cone_solver_and_are_feasible(curvature: float) -> None:
    rng = np.random.default_rng(1)
    touched = 0
    for problem in problems(0, 36):
        losses = QuadraticLosses(curvature, rng.normal(size=(3, problem.dimension)))
        best = np.vstack([static_optimum(problem, losses)[None, :], dynamic_optima(problem, losses)])
        directions = np.vstack([losses.linear.mean(axis=0)[None, :], losses.linear])
        for point, direction in zip(best, directions, strict=True):
            value = curvature * point @ point + direction @ point
            expected = by_cone_solver(problem, curvature, direction)
            assert value == pytest.approx(expected, abs=2e-8)
            assert problem.region.contains(point, 1e-8)
            excess = problem.constraints.values(point).max()
            assert excess <= 1e-8
            touched += excess > -1e-8
    assert 36 < touched < 144  # constraints bind somewhere, not everywhere


@pytest.mark.parametrize("curvature", [0.0, 0.7])
def test_optima_of_losses_by_functions_are_those_of_formulas(curvature: float) -> None:
    rng = np.random.default_rng(3)
    for problem in problems(0, 5):
        losses = QuadraticLosses(curvature, rng.normal(size=(3, problem.dimension)))
        called = ConvexLosses(losses.value, losses.subgradient, 3)
        best, found = static_optimum(problem, losses), static_optimum(problem, called)
        assert problem.constraints.values(found).max(initial=0.0) <= 1e-6
        assert problem.region.contains(found, 1e-8)
        assert regret(losses, found[None, :], best[None, :]) == pytest.approx(0.0, abs=1e-5)
        assert regret(losses, dynamic_optima(problem, called), dynamic_optima(problem, losses)) == pytest.approx(
            0.0, abs=1e-5
        )


def test_the_optimum_of_a_kinked_loss_is_its_median() -> None:
    centres = np.array([-0.9, -0.2, 0.1, 0.4, 0.8])
    losses = ConvexLosses(
        lambda at, x: float(abs(x[0] - centres[at])), lambda at, x: np.sign(x - centres[at]), len(centres)
    )
    free = Problem(Box(-np.ones(1), np.ones(1)), LinearConstraints(np.array([[1.0]]), np.array([0.5])))
    bound = Problem(Box(-np.ones(1), np.ones(1)), LinearConstraints(np.array([[1.0]]), np.array([-0.5])))
    assert static_optimum(free, losses)[0] == pytest.approx(0.1, abs=1e-5)
    assert static_optimum(bound, losses)[0] == pytest.approx(-0.5, abs=1e-5)
    assert static_regret(free, losses, np.zeros((5, 1))) == pytest.approx(np.abs(centres).sum() - 2.3, abs=1e-5)


@pytest.mark.parametrize("radius", [0.2, 0.1])
def test_the_optimum_of_many_kinked_losses_in_a_disc_is_found(radius: float) -> None:
    centres = np.random.default_rng(0).normal(size=(100, 2))
    losses = ConvexLosses(
        lambda at, x: float(np.abs(x - centres[at]).sum()), lambda at, x: np.sign(x - centres[at]), 100
    )
    disc = ConvexConstraints(lambda x: np.array([x @ x - radius**2]), lambda x: 2.0 * x[None, :], 1)
    found = static_optimum(Problem(Box(-np.ones(2), np.ones(2)), disc), losses)
    median, angles = np.median(centres, axis=0), np.linspace(0.0, 2.0 * np.pi, 100_001)
    rim = radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    candidates = median[None, :] if np.linalg.norm(median) <= radius else rim
    least = np.sum([np.abs(candidates - centre).sum(axis=1) for centre in centres], axis=0).min()
    assert disc.values(found).max() <= 1e-6
    assert losses_at(losses, found[None, :]).sum() == pytest.approx(least, rel=2e-6)


def test_projection_ends_next_to_the_simplex() -> None:
    point = np.array([0.42199999999999976, 0.103, -5.0000000000000005e-17, 0.02, 0.518, 0.437])
    assert Simplex(6, 1.5).project(point) == pytest.approx(np.maximum(point, 0.0), abs=1e-15)


def test_a_loss_without_the_round_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"loss takes \(x\); expected a function of round and point, loss\(t, x\)"):
        ConvexLosses(lambda x: float(x @ x), lambda at, x: 2.0 * x, 5)  # type: ignore[arg-type, misc]


def test_too_few_cuts_give_the_bounds_that_they_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem_module, "_MOST_LEVEL_CUTS", 3)
    losses = ConvexLosses(lambda at, x: float(x @ x), lambda at, x: 2.0 * x, 1)
    problem = Problem(Box(-np.ones(2), np.ones(2)), LinearConstraints(np.array([[1.0, 2.0]]), np.array([-1.0])))
    with pytest.raises(ConfigError, match=r"After 3 cuts a feasible point has the mean loss .* none has less than"):
        static_optimum(problem, losses)


def test_regrets_are_differences_of_cumulative_losses() -> None:
    problem = problems(0, 1)[0]
    rng = np.random.default_rng(2)
    losses = QuadraticLosses(0.5, rng.normal(size=(40, 2)), rng.normal(size=40))
    points = np.array([problem.region.project(point) for point in rng.normal(size=(40, 2))])
    optima = dynamic_optima(problem, losses)
    assert dynamic_regret(problem, losses, optima) == pytest.approx(0.0, abs=1e-12)
    assert static_regret(problem, losses, points) == pytest.approx(
        sum(losses.value(at, point) for at, point in enumerate(points))
        - sum(losses.value(at, static_optimum(problem, losses)) for at in range(40))
    )
    assert dynamic_regret(problem, losses, points) >= static_regret(problem, losses, points)
    assert regret(losses, points, points) == 0.0
    assert losses_at(losses, points[:1]).shape == (40,)


def test_forms_of_violation_are_their_definitions() -> None:
    values = np.array([[3.0, -1.0], [-1.0, 4.0], [-5.0, -1.0], [0.0, 3.0]])
    found = violation_of(values)
    assert found.net == pytest.approx(5.0)  # the 3 in column 1 is compensated later, column 2 sums to 5
    assert found.summed == pytest.approx(np.hypot(3.0, 7.0))
    assert found.squared == pytest.approx(9.0 + 16.0 + 9.0)
    assert found.cumulative == pytest.approx(3.0 + 4.0 + 3.0)
    assert found.largest == 4.0
    assert path_length(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0], [3.0, 5.0]])) == 6.0


def test_growth_exponent_is_that_of_a_power() -> None:
    sizes = [100.0, 1000.0, 20000.0]
    assert growth_exponent(sizes, [3.0 * size**0.25 for size in sizes]) == pytest.approx(0.25)
    with pytest.raises(ConfigError, match="all above 0"):
        growth_exponent(sizes, [1.0, 0.0, 2.0])


def test_problems_without_a_minimum_are_refused() -> None:
    open_box = Box(np.array([-np.inf, 0.0]), np.array([np.inf, 1.0]))
    problem = Problem(open_box, LinearConstraints(np.array([[0.0, 1.0]]), np.array([1.0])))
    with pytest.raises(ConfigError, match="finite bounds"):
        static_optimum(problem, QuadraticLosses(0.0, np.array([[1.0, 0.0]])))
    with pytest.raises(ConfigError, match="coordinates"):
        static_optimum(problem, QuadraticLosses(0.0, np.ones((2, 3))))
