"""The other methods: against naive twins, step by step against whole runs, and their bounds of the violation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.foundation.errors import ConfigError
from okl.solvers.oco.baselines import (
    ImprovedAder,
    Jenatton,
    Mahdavi,
    Polyak,
    Recoo,
    SinhaVaze,
    VazeSinha,
    YuanLamperski,
    YuNeely,
    YuNeelyWei,
    default_method,
)
from okl.solvers.oco.methods import Method
from okl.solvers.oco.problem import ConvexConstraints, LinearConstraints, Problem, QuadraticLosses
from okl.solvers.oco.runs import play_rounds
from okl.solvers.oco.sets import Ball, Box, ConvexSet, Simplex
from tests.naive import oco as naive_oco
from tests.naive.oco import run_projected, run_rectified

Doubles = NDArray[np.float64]
ROUNDS = 60
METHODS: list[Method] = [
    YuNeely(0.25), YuNeely(0.25, first_queued=False), YuanLamperski(1.5, 0.5),
    YuanLamperski(3.0, 1.5, strongly_convex=True), Jenatton(0.7, 0.01), Mahdavi(0.8, 0.5), SinhaVaze(4.0),
    Recoo(2.0), Recoo(strong_convexity=0.5), SinhaVaze(4.0, 1.5), YuNeelyWei(2.0, 0.5), ImprovedAder(4.0),
]  # fmt: skip
FEASIBLE: list[Method] = [Polyak(0.5, 0.3), VazeSinha(4.0)]  # from a point that satisfies the constraints
SETS: list[ConvexSet] = [Box(-np.ones(3), np.ones(3)), Ball(np.full(3, 0.1), 1.2), Simplex(3, 1.5)]


def game(region: ConvexSet, seed: int = 0, n_rounds: int = ROUNDS) -> tuple[Problem, QuadraticLosses]:
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(0.0, 2.0, (2, region.dimension))
    bounds = matrix @ region.project(np.full(region.dimension, 0.2)) + 0.1
    linear = rng.normal(size=(n_rounds, region.dimension)) - 0.8
    return Problem(region, LinearConstraints(matrix, bounds)), QuadraticLosses(0.3, linear)


@pytest.mark.parametrize("region", SETS, ids=lambda region: type(region).__name__)
def test_round_by_round_gives_the_bits_of_a_whole_run(region: ConvexSet) -> None:
    problem, losses = game(region)
    for method in METHODS + FEASIBLE:
        points = (
            method.run(problem, losses) if method.can_run(problem, losses) else play_rounds(method, problem, losses)
        )
        assert np.array_equal(points, play_rounds(method, problem, losses)), method.name
        assert all(region.contains(point) for point in points)
        assert np.linalg.norm(np.diff(points, axis=0), axis=1).max() > 1e-3, method.name


@pytest.mark.parametrize("region", SETS, ids=lambda region: type(region).__name__)
def test_rounds_match_naive(region: ConvexSet) -> None:
    problem, losses = game(region)
    matrix, bounds, horizon = problem.linear.matrix, problem.linear.bounds, ROUNDS
    first = problem.first_point(None)
    states: dict[str, Any] = {
        name: (first, np.zeros(2)) for name in ("Yu & Neely", "Yuan & Lamperski", "Jenatton", "Mahdavi")
    }
    sinha: tuple[Doubles, float, float] = (first, 0.0, 0.0)
    drift, strong, feasible = (first, np.zeros(2)), (first, 0.0), first
    runs = {m.name: m.run(problem, losses) for m in (METHODS[0], METHODS[2], *METHODS[4:7], METHODS[10])}
    strongly, stepped = METHODS[9].run(problem, losses), FEASIBLE[0].run(problem, losses, first)
    for at in range(ROUNDS):
        for name, (point, dual) in states.items():
            assert runs[name][at] == pytest.approx(point, abs=1e-9), (name, at)
            slope, t = losses.subgradient(at, point), at + 1
            rest = (slope, matrix, bounds, region.project)
            if name == "Yu & Neely":
                states[name] = naive_oco.yu_neely(point, dual, *rest, 0.25 * horizon**0.5, horizon**0.25)
            elif name == "Yuan & Lamperski":
                eta = 1.5 / horizon**0.5
                states[name] = (naive_oco.yuan_lamperski(point, *rest, eta, 0.5 * eta), dual)
            elif name == "Jenatton":
                theta = 0.01 / t**0.5
                states[name] = naive_oco.ascent(point, dual, *rest, 0.7 / t**0.5, theta, 1.0 / ((t + 1) * theta))
            else:
                eta = 0.8 / horizon**0.5
                states[name] = naive_oco.ascent(point, dual, *rest, eta, 0.5 * eta, eta)
        assert runs["Sinha & Vaze"][at] == pytest.approx(sinha[0], abs=1e-9), at
        assert runs["Yu, Neely & Wei"][at] == pytest.approx(drift[0], abs=1e-9), at
        assert strongly[at] == pytest.approx(strong[0], abs=1e-9), at
        assert stepped[at] == pytest.approx(feasible, abs=1e-9), at
        where = (matrix, bounds, region.project)
        slope = losses.subgradient(at, drift[0])
        drift = naive_oco.yu_neely_wei(drift[0], drift[1], slope, *where, 2.0 * horizon**0.5, 0.5 * horizon)
        slope = losses.subgradient(at, strong[0])
        strong = naive_oco.sinha_vaze_strongly(strong[0], strong[1], slope, *where, 4.0, 1.5, at + 1, horizon)
        eta = 0.5 / horizon**0.5
        feasible = naive_oco.polyak(feasible, losses.subgradient(at, feasible), *where, eta, 0.3 * eta)
        slope = losses.subgradient(at, sinha[0])
        sinha = naive_oco.sinha_vaze(*sinha, slope, matrix, bounds, region.project, 4.0, region.diameter, horizon)


def test_runs_on_the_step_match_naive() -> None:
    box = Box(-np.ones(2), np.ones(2))
    problem, losses = game(box)
    first, rows = np.array([0.9, 0.8]), problem.linear
    recoo = run_rectified(first, losses, rows, box, 2.0, 0.05)
    assert Recoo(2.0).run(problem, losses, first) == pytest.approx(recoo, abs=1e-8)
    ader = run_projected(first, losses, rows, box, 4.0)
    assert ImprovedAder(4.0).run(problem, losses, first) == pytest.approx(ader, abs=1e-7)


def test_constraints_are_touched_and_projecting_experts_never_violate_them() -> None:
    problem, losses = game(SETS[0])
    for method in METHODS[:-1]:
        assert max(problem.constraints.values(point).max() for point in method.run(problem, losses)) > 0.0
    points = METHODS[-1].run(problem, losses)
    assert max(problem.constraints.values(point).max() for point in points) <= 1e-8
    assert min(abs(problem.constraints.values(point)).min() for point in points) <= 1e-8


def test_learning_leaves_the_state_unchanged_and_takes_constraints_of_the_round() -> None:
    problem, losses = game(SETS[0])
    looser = LinearConstraints(problem.linear.matrix, problem.linear.bounds + 5.0)
    for method in METHODS[:-1]:
        state = method.start(problem, ROUNDS, np.full(3, 0.9))
        before = [np.copy(value) for value in vars(state).values() if isinstance(value, np.ndarray)]
        learnt = method.learn(state, losses.subgradient(0, method.play(state)))
        other = method.learn(state, losses.subgradient(0, method.play(state)), looser)
        after = [value for value in vars(state).values() if isinstance(value, np.ndarray)]
        assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
        assert learnt.round == 2
        later = losses.subgradient(1, method.play(learnt))
        assert not np.array_equal(method.play(method.learn(learnt, later)), method.play(method.learn(other, later)))


def test_convex_constraints_are_taken_by_gradient_methods() -> None:
    ring = ConvexConstraints(lambda x: np.array([x @ x - 0.5]), lambda x: 2.0 * x[None, :], 1)
    problem = Problem(SETS[0], ring)
    _, losses = game(SETS[0], n_rounds=1500)
    for method in (YuanLamperski(1.0, 2.0), Jenatton(0.5, 0.5), Mahdavi(1.0, 1.0)):
        points = play_rounds(method, problem, losses)
        assert points[-1] @ points[-1] < 0.75
        assert problem.region.project(-losses.linear.mean(axis=0) / 0.6) @ np.ones(3) > 1.5  # the optimum without it
    with pytest.raises(ConfigError, match="linear"):
        YuNeely().start(problem, 5)


def test_the_default_method_supports_linear_and_convex_constraints() -> None:
    problem, losses = game(SETS[0], n_rounds=25)
    rows = problem.linear
    convex = Problem(problem.region, ConvexConstraints(rows.values, rows.subgradients, rows.n_constraints))
    method, first = default_method(2.0), np.ones(3)
    points = method.run(problem, losses, first)
    assert np.abs(play_rounds(method, convex, losses, first) - points).max() < 1e-6
    assert problem.constraints.values(first).max() > 0.5
    assert problem.constraints.values(points[-1]).max() < 0.05


@pytest.mark.parametrize(
    "method",
    [YuNeely(), YuanLamperski(), Mahdavi(), SinhaVaze(1.0), ImprovedAder(1.0), YuNeelyWei(), Polyak(), VazeSinha(1.0)],
)
def test_a_missing_horizon_is_an_error(method: Method) -> None:
    with pytest.raises(ConfigError, match=r"needs the number of rounds\. Set horizon"):
        method.start(game(SETS[0])[0])


@pytest.mark.parametrize("method", [SinhaVaze(1.0), ImprovedAder(1.0), YuNeelyWei(), Polyak(), VazeSinha(1.0)])
def test_an_unbounded_set_is_refused(method: Method) -> None:
    open_box = Box(np.full(2, -np.inf), np.full(2, np.inf))
    problem = Problem(open_box, LinearConstraints(np.eye(2), np.ones(2)))
    with pytest.raises(ConfigError, match="bounded set"):
        method.start(problem, 5)
