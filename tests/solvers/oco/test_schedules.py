"""Measured regret and violation, their growth, and the bounds of the theorems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from okl.foundation.errors import ConfigError
from okl.papers.yi2021 import draw_signs
from okl.solvers.oco.methods import Algorithm1, Algorithm2, Method
from okl.solvers.oco.problem import LinearConstraints, Problem
from okl.solvers.oco.runs import (
    constraint_values,
    growth_exponent,
    losses_at,
    path_length,
    regret,
    run_many,
    static_optimum,
    violation_of,
)
from okl.solvers.oco.schedules import (
    Anytime,
    Bounds,
    Constants,
    KnownHorizon,
    KnownPathLength,
    Schedule,
    StronglyConvex,
    bounds_of,
    constants_of,
    expert_bounds,
)
from okl.solvers.oco.sets import Box
from tests.solvers.oco.streams import flipping

REPEATS = 20


def within(constants: Constants) -> float:
    """Return the largest gamma_0 that the theorems allow."""
    return float(1.0 / (2.0**0.5 * constants.subgradient_bound))


@pytest.mark.parametrize("bias", [0.0, -1.0])
@pytest.mark.parametrize("n_rounds", [50, 1500])
def test_theorem_1_and_corollary_1_hold(n_rounds: int, bias: float) -> None:
    makers: list[tuple[float, Callable[[float], Schedule]]] = [
        (0.0, lambda gamma: KnownHorizon(0.5, gamma)),
        (0.4, lambda gamma: StronglyConvex(0.4, gamma)),
    ]
    for curvature, make in makers:
        problem, losses = draw_signs(n_rounds, 1, bias, curvature)
        constants = constants_of(problem, losses)
        schedule = make(within(constants))
        points = Algorithm1(schedule).run(problem, losses, np.ones(2))
        best = static_optimum(problem, losses)
        found = bounds_of(schedule, constants, n_rounds, float(np.linalg.norm(best - 1.0)))
        check(found, regret(losses, points, best[None, :]), problem, points)


@pytest.mark.parametrize("segments", [1, 4, 30])
def test_theorems_2_and_3_and_corollary_2_hold_against_moving_comparators(segments: int) -> None:
    problem, losses, comparators = flipping(1500, segments, 2)
    constants, moved = constants_of(problem, losses), path_length(comparators)
    gamma = within(constants)
    for schedule in (Anytime(0.5, gamma), KnownPathLength(moved, gamma)):
        points = Algorithm1(schedule).run(problem, losses, np.ones(2))
        found = bounds_of(schedule, constants, 1500, path_length=moved)
        check(found, regret(losses, points, comparators), problem, points)
    method = Algorithm2(Anytime(0.5, gamma))
    points = method.run(problem, losses, np.ones(2))
    numbers: Any = (method.experts_for(1500), method.rate_for(1500), moved)
    check(
        expert_bounds(method.schedule, constants, 1500, *numbers), regret(losses, points, comparators), problem, points
    )


def check(found: Bounds, measured: float, problem: Problem, points: Any) -> None:
    """Assert that both values are below their bounds and that the violation is not negligible."""
    violated = violation_of(constraint_values(problem.constraints, points)).cumulative
    assert found.claimed
    assert measured <= found.regret
    assert 1e-3 * found.violation < violated <= found.violation


def test_no_bound_is_claimed_outside_the_range_of_gamma() -> None:
    problem, losses = draw_signs(20, 0)
    constants = constants_of(problem, losses)
    assert bounds_of(KnownHorizon(1.0, within(constants)), constants, 20).claimed
    assert not bounds_of(KnownHorizon(1.0, 1.01 * within(constants)), constants, 20).claimed


def test_bounds_are_those_of_the_appendices() -> None:
    # written out from (53), (54), (58) and (64), corrected, for round numbers
    constants = Constants(subgradient_bound=2.0, value_bound=3.0, diameter=1.5, n_constraints=4)
    found = bounds_of(KnownHorizon(0.25, 0.1, 0.5), constants, 100, distance=1.2)
    assert found.regret == pytest.approx(10.0 / 0.25 * 1.44 + 0.5 * 4.0 * 0.25 * 10.0)
    epsilon = 2.0 / (0.25 * 10.0) * 1.44 + 4.0 * 0.25 / 10.0 + 0.01 * 9.0 / (0.25 * 10.0) + 2.0 * 3.0
    assert found.violation == pytest.approx((4.0 * 0.25 * epsilon) ** 0.5 / 0.1 * 100.0**0.25)
    assert bounds_of(StronglyConvex(0.5, 0.1), constants, 100).regret == pytest.approx(4.0 * (1.0 + np.log(100.0)))
    later = bounds_of(Anytime(0.25, 0.1), constants, 100, path_length=3.0)
    printed = 2.0 / 0.25 * 2.25 * 10.0 * (1.0 + 3.0 / 1.5) + 4.0 * 0.25 / (2.0 * 0.5) * 10.0
    assert 0.9 * printed < later.regret <= printed
    with pytest.raises(ConfigError, match="bounded set"):
        bounds_of(Anytime(), Constants(1.0, 1.0, np.inf, 1), 10)


def test_constants_bound_the_quantities_of_the_assumptions_tightly() -> None:
    problem, losses = draw_signs(30, 3, 0.2, 0.3)
    found = constants_of(problem, losses)
    rng = np.random.default_rng(0)
    corners = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    points = np.vstack([rng.uniform(-1.0, 1.0, (500, 2)), corners])
    slopes = [np.linalg.norm(losses.subgradient(at, point)) for at in range(30) for point in points]
    values = np.array([losses_at(losses, point[None, :]) for point in points])
    steepest = max(*slopes, np.linalg.norm(problem.linear.matrix, 2))
    widest = max(
        np.ptp(values, axis=0).max(), np.linalg.norm(constraint_values(problem.constraints, points), axis=1).max()
    )
    assert found.subgradient_bound == pytest.approx(steepest)
    assert widest <= found.value_bound <= 1.3 * widest
    open_box = Problem(Box(np.full(2, -np.inf), np.ones(2)), LinearConstraints(np.eye(2), np.ones(2)))
    with pytest.raises(ConfigError, match="bounded set"):
        constants_of(open_box, losses)


def exponents(make: Callable[[float], Method], bias: float) -> tuple[float, float]:
    """Return the growth exponents of mean regret and mean violation over horizons."""
    horizons, regrets, violations = [250, 1000, 4000], [], []
    for horizon in horizons:
        games = [draw_signs(horizon, seed, bias) for seed in range(REPEATS)]
        problems, losses = [game[0] for game in games], [game[1] for game in games]
        gamma = within(constants_of(problems[0], losses[0]))
        traces = run_many(make(gamma), problems, losses, np.ones(2))
        best = [losses_at(loss, static_optimum(problem, loss)[None, :]).sum() for problem, loss in games]
        regrets.append(float((traces.losses.sum(axis=1) - best).mean()))
        violations.append(float(traces.violations.sum(axis=1).mean()))
    return growth_exponent(horizons, regrets), growth_exponent(horizons, violations)


def test_regret_grows_as_the_root_and_violation_slower_than_promised() -> None:
    for make, most in (
        (lambda gamma: Algorithm1(KnownHorizon(1.0, gamma)), 0.30),
        (lambda gamma: Algorithm2(KnownHorizon(1.0, gamma)), 0.55),
    ):
        regret_slope, violation_slope = exponents(make, 0.0)
        assert 0.4 <= regret_slope <= 0.6
        assert violation_slope <= most
