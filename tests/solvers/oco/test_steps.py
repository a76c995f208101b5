from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from okl.compiled.oco import ENOUGH, LENGTH, make_work, maximise_dual, project, proximal_step
from okl.foundation.errors import ConfigError
from okl.solvers.oco import problem
from okl.solvers.oco.problem import ConvexConstraints, LinearConstraints, solve_by_cuts
from okl.solvers.oco.sets import Box
from tests.naive import oco as naive_oco
from tests.solvers.oco.cases import random_set, random_step, rows_over, solve_cone, solve_quadratic, take_step


def test_steps_meet_the_optimality_conditions() -> None:
    rng = np.random.default_rng(0)
    clipped, penalised, held = 0, 0, 0
    for index in range(900):
        centre, matrix, bounds, region, limits = random_step(rng, index)
        point, multipliers, gap = take_step(centre, matrix, bounds, region, limits)
        assert np.abs(point - region.project(centre - matrix.T @ multipliers)).max() < 1e-12
        assert (multipliers >= 0.0).all()
        assert (multipliers <= limits).all()
        excess = matrix @ point - bounds
        own = np.maximum((limits - multipliers) * excess, -multipliers * excess).sum()
        assert abs(own - gap) < 1e-12
        assert gap < 1e-11
        penalised += int((multipliers == limits).any() and limits.max() > 0.0)
        held += int(((multipliers > 0.0) & (multipliers < limits)).any())
        clipped += not np.allclose(point, centre - matrix.T @ multipliers)
    assert min(clipped, penalised, held) > 150


def test_steps_agree_with_a_cone_solver() -> None:
    rng, n_solved = np.random.default_rng(1), np.zeros(3, dtype=int)
    for index in range(180):
        centre, matrix, bounds, region, limits = random_step(rng, index)
        solution, solved = solve_cone(centre, matrix, bounds, region, limits)
        if solved:
            assert np.abs(take_step(centre, matrix, bounds, region, limits)[0] - solution).max() < 1e-8
            n_solved[index // 3 % 3] += 1
    assert n_solved.min() > 30


def test_steps_match_naive_in_the_plane() -> None:
    rng, box, moved = np.random.default_rng(2), Box(np.array([-1.0, -0.5]), np.array([1.0, 2.0])), 0
    for _ in range(100):
        rows = LinearConstraints(rng.normal(size=(3, 2)), 0.3 * rng.normal(size=3))
        centre, limits = 1.5 * rng.normal(size=2), rng.exponential(size=3)
        point, multipliers, _ = take_step(centre, rows.matrix, rows.bounds, box, limits)
        assert np.abs(point - naive_oco.proximal_step(centre, rows, box, limits)).max() < 1e-7
        moved += int(multipliers.any())
    assert moved > 50


def test_steps_in_the_plane_are_those_of_the_dual() -> None:
    rng, found, left, better = np.random.default_rng(6), np.zeros(4, dtype=int), 0, 0
    for index in range(2000):
        matrix, bounds, limits = plane_rows(rng, index)
        box, centre = Box(-rng.random(2), rng.random(2)), rng.normal(size=2) * rng.choice([0.5, 2.0])
        rows, plane, dual = rows_over(box, matrix, bounds), make_work(limits.size, 2), make_work(limits.size, 2)
        point = centre.copy()
        gap = proximal_step(point, plane, rows, box.region, limits)
        other = maximise_dual(dual, centre, rows, box.region, limits)
        assert other < 1e-11
        if plane.numbers[LENGTH] > 0.0:  # rows are nearly parallel: the dual step was taken
            left += 1
            assert np.array_equal(point, dual.point)
        else:
            assert gap <= ENOUGH
            better += int(other > ENOUGH)
            assert np.abs(point - dual.point).max() < 1e-9 + np.sqrt(2.0 * other) * (other > ENOUGH)
            found[np.count_nonzero(plane.multipliers)] += 1
    assert found.min() > 20
    assert 0 < left < 150
    assert better < 20


def plane_rows(rng: np.random.Generator, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw up to three rows in the plane: parallel, nearly so, opposite, or along a side; some at no price."""
    n_rows, near = int(rng.integers(1, 4)), 10.0 ** -rng.integers(3, 14)
    matrix = rng.normal(size=(n_rows, 2)) if index % 2 else rng.uniform(0.0, 2.0, (n_rows, 2))
    bounds = 0.5 * rng.normal(size=n_rows)
    if index % 3 > 0 and n_rows > 1:
        near *= index % 3 == 1
        matrix[1], bounds[1] = matrix[0] + near * rng.normal(size=2), bounds[0] + near * rng.normal()
    if index % 7 == 0:
        matrix[0, rng.integers(2)] = 0.0
    if index % 11 == 0:
        matrix[0] = -(1.0 + near) * matrix[-1]
    limits = rng.exponential(size=n_rows) * rng.choice([0.3, 3.0, 30.0]) * (rng.random(n_rows) > 0.1)
    return matrix, bounds, limits


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_projections_match_naive_and_are_idempotent(kind: int) -> None:
    rng, moved = np.random.default_rng(kind), 0
    for size in range(2, 30):
        region = random_set(rng, kind, size)
        point = 2.0 * rng.normal(size=size)
        expected, once = point.copy(), point.copy()
        naive_oco.project(expected, region.region)
        project(once, region.region)
        assert np.abs(once - expected).max() < 1e-12
        assert np.abs(region.project(once) - once).max() < 1e-12
        assert region.contains(once)
        moved += not np.allclose(once, point)
    assert moved > 20


def test_cuts_of_linear_constraints_give_the_compiled_step() -> None:
    rng, moved = np.random.default_rng(4), 0
    for index in range(18):
        centre, matrix, bounds, region, limits = random_step(rng, index)
        point, multipliers, _ = take_step(centre, matrix, bounds, region, limits)
        found, gap = solve_by_cuts(centre, region, LinearConstraints(matrix, bounds), limits)
        assert np.abs(point - found).max() < 1e-6
        assert gap < 1e-11
        moved += int(multipliers.any())
    assert moved > 8


def test_a_heavy_quadratic_constraint_gives_its_projection() -> None:
    rng, box = np.random.default_rng(5), Box(-np.ones(3), np.ones(3))
    inside = ConvexConstraints(lambda x: np.array([x @ x - 0.25]), lambda x: 2.0 * x[None, :], 1)
    for _ in range(5):
        centre = rng.normal(size=3)
        centre /= np.linalg.norm(centre)
        point, gap = solve_by_cuts(centre, box, inside, np.array([5.0]))
        assert np.abs(point - 0.5 * centre).max() < 1e-6
        assert gap < 1e-12


def quadratic_constraint(matrix: np.ndarray, bound: float, calls: list[np.ndarray]) -> ConvexConstraints:
    """Return x' matrix x <= bound, whose subgradients are counted by the points in calls."""

    def slope(x: np.ndarray) -> np.ndarray:
        calls.append(x)
        row: np.ndarray = 2.0 * (matrix @ x)[None]
        return row

    return ConvexConstraints(lambda x: np.array([x @ matrix @ x - bound]), slope, 1)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_steps_of_any_length_and_price_under_a_quadratic_constraint_are_solved(kind: int) -> None:
    rng, held = np.random.default_rng(kind), 0
    for step, price in product((0.1, 10.0, 1000.0), (1.0, 1e3, 1e6)):
        factor, region = rng.normal(size=(5, 5)), random_set(rng, kind, 5)
        matrix = (factor @ factor.T / 5.0 + 0.1 * np.eye(5)) * rng.choice([1e-3, 1.0])
        inside = region.project(rng.normal(size=5))
        bound, centre = 0.7 * inside @ matrix @ inside, inside + step * rng.normal(size=5)
        calls: list[np.ndarray] = []
        variance = quadratic_constraint(matrix, bound, calls)
        point, gap = solve_by_cuts(centre, region, variance, np.array([price]))
        length = 1.0 + float(np.linalg.norm(centre))
        assert np.abs(point - solve_quadratic(centre, region, matrix, bound, price)).max() < 1e-6 * length
        assert 2.0 * gap < 1e-12 * length**2 + 1e-13 * price  # the price multiplies the constraint's rounding error
        assert len(calls) < 300  # each is a round of cuts
        held += int(abs(variance.values(point)[0]) < 1e-6 * bound)
    assert held > 1


def test_a_step_that_cuts_do_not_solve_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem, "_MOST_ROUNDS", 3)
    box, curved = Box(-np.ones(50), np.ones(50)), np.geomspace(1.0, 1e3, 50)
    inside = ConvexConstraints(lambda x: np.array([x @ (curved * x) - 0.1]), lambda x: 2.0 * (curved * x)[None], 1)
    with pytest.raises(ConfigError, match=r"solved within .* only, after 3 cuts\. Reduce the step size") as error:
        solve_by_cuts(1e3 * np.ones(50), box, inside, np.array([1e6]))
    assert len(str(error.value)) <= 200


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_twenty_rows_in_nearly_parallel_pairs_leave_no_gap(kind: int) -> None:
    rng, active = np.random.default_rng(kind), 0
    for _ in range(20):
        matrix = rng.normal(size=(20, 60))
        matrix[10:] = matrix[:10] + 10.0 ** -rng.integers(2, 13, (10, 1)) * rng.normal(size=(10, 60))
        region = random_set(rng, kind, 60)
        inside = region.project(rng.normal(size=60) / 8.0)
        bounds, limits = matrix @ inside + 0.05 * rng.random(20), rng.exponential(size=20)
        _, multipliers, gap = take_step(inside + 0.3 * rng.normal(size=60), matrix, bounds, region, limits)
        assert gap < 1e-15
        active += int(np.count_nonzero(multipliers))
    assert active > 40
