"""Rounds with changing, random or two-point feedback; certificates; theoretical bounds."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from okl import oco
from okl.foundation.errors import AssumptionWarning, ConfigError
from okl.papers.yi2021 import draw_signs
from okl.solvers.oco.methods import Method
from okl.solvers.oco.rounds import two_point_rows, two_point_slope
from okl.solvers.oco.runs import unmet_assumptions
from tests.naive import oco as naive_oco

Doubles = NDArray[np.float64]
ROUNDS = 50
CHANGING: list[Method] = [
    oco.Algorithm1(oco.KnownHorizon(2.0, 0.3)), oco.Algorithm2(oco.Anytime(1.0, 0.3)), oco.YuNeely(0.25),
    oco.YuanLamperski(1.5, 0.5), oco.Jenatton(0.7, 0.01), oco.Mahdavi(0.8, 0.5), oco.Recoo(2.0), oco.SinhaVaze(4.0),
    oco.SinhaVaze(4.0, 0.3), oco.YuNeelyWei(2.0, 0.5), oco.Polyak(0.5, 0.3), oco.VazeSinha(4.0),
]  # fmt: skip
GRADIENT = CHANGING[3:6] + CHANGING[7:11]  # that read values and subgradients of constraints at their points alone
SETS: list[oco.Box | oco.Ball | oco.Simplex] = [
    oco.Box(-np.ones(3), np.ones(3)), oco.Ball(np.full(3, 0.1), 1.2), oco.Simplex(3, 1.5),
]  # fmt: skip


def game(
    region: oco.Box | oco.Ball | oco.Simplex, seed: int = 0, n_rounds: int = ROUNDS, stochastic: bool = False
) -> tuple[oco.Problem, oco.QuadraticLosses, oco.LinearRounds]:
    """Draw losses with infeasible minima and two changing constraints that one point always satisfies."""
    rng = np.random.default_rng(seed)
    inside = region.project(np.full(region.dimension, 0.2))
    matrices = rng.uniform(0.0, 2.0, (n_rounds, 2, region.dimension))
    bounds = matrices @ inside + rng.uniform(0.05, 0.5, (n_rounds, 2))
    rounds = oco.LinearRounds(matrices, bounds, stochastic=stochastic)
    losses = oco.QuadraticLosses(0.3, rng.normal(size=(n_rounds, region.dimension)) - 0.8)
    return oco.Problem(region, rounds.overall()), losses, rounds


def _sum_to(bound: float) -> oco.LinearConstraints:
    return oco.LinearConstraints(np.ones((1, 3)), np.array([bound]))


def play_quietly(method: Method, *rest: Any, **options: Any) -> oco.Played:
    """Play without warnings, which other tests check."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        return oco.play(method, *rest, **options)


@pytest.mark.parametrize("region", SETS, ids=lambda region: type(region).__name__)
@pytest.mark.parametrize("method", CHANGING, ids=lambda method: method.name)
def test_changing_constraints_give_the_same_bits_round_by_round(method: Method, region: Any) -> None:
    problem, losses, rounds = game(region)
    if isinstance(method, oco.YuNeely):  # its problem's constraints must be linear
        problem = oco.Problem(region, rounds.at(0))
    whole = play_quietly(method, problem, losses, rounds).points  # compiled, but for Vaze & Sinha
    assert np.array_equal(whole, oco.play_rounds(method, problem, losses, constraints=rounds))
    state, fixed = method.start(problem, ROUNDS), method.start(problem, ROUNDS)
    for t in range(ROUNDS - 1):
        state = method.learn(state, losses.subgradient(t, method.play(state)), rounds.at(t))
        fixed = method.learn(fixed, losses.subgradient(t, method.play(fixed)), rounds.at(0))
    assert np.array_equal(whole[-1], method.play(state))
    assert not np.array_equal(method.play(fixed), method.play(state))
    assert all(region.contains(point) for point in whole)


@pytest.mark.parametrize("region", SETS, ids=lambda region: type(region).__name__)
def test_rounds_that_all_have_the_same_constraints_are_those_of_the_problem(region: Any) -> None:
    _, losses, rounds = game(region)
    fixed = oco.Problem(region, rounds.at(0))
    same = oco.LinearRounds(rounds.matrices[0], np.repeat(rounds.bounds[:1], ROUNDS, axis=0))
    for method in CHANGING:
        expected = play_quietly(method, fixed, losses).points
        assert play_quietly(method, fixed, losses, same).points == pytest.approx(expected, abs=1e-7), method.name
    looser = oco.LinearRounds(rounds.matrices[0], rounds.bounds[:1] + np.array([[0.3], [0.1], [0.2]]))
    overall = looser.overall()
    assert isinstance(overall, oco.LinearConstraints)
    assert overall.bounds == pytest.approx(rounds.bounds[0] + 0.1)


def test_played_rounds_have_the_losses_and_violations_of_their_points() -> None:
    problem, losses, rounds = game(SETS[0])
    played = oco.play(oco.Recoo(2.0), problem, losses, rounds)
    values = np.array([rounds.at(t).values(point) for t, point in enumerate(played.points)])
    assert played.values == pytest.approx(values)
    assert played.losses == pytest.approx([losses.value(t, point) for t, point in enumerate(played.points)])
    assert played.violation.cumulative == pytest.approx(np.linalg.norm(np.maximum(values, 0.0), axis=1).sum())
    many = oco.run_many(oco.Recoo(2.0), [problem] * 2, [losses] * 2, n_threads=2, constraints=[rounds] * 2)
    assert np.array_equal(many.violations, np.tile(played.violations, (2, 1)))


@pytest.mark.parametrize("stochastic", [False, True])
def test_comparators_satisfy_every_round_or_stochastic_ones_on_average(stochastic: bool) -> None:
    problem, losses, rounds = game(SETS[0], stochastic=stochastic)
    convex = oco.ConvexRounds(
        lambda t, x: rounds.at(t).values(x), lambda t, x: rounds.matrices[t], ROUNDS, 2, stochastic=stochastic
    )
    for overall in (rounds.overall(), convex.overall()):
        for point in np.random.default_rng(1).normal(size=(20, 3)):
            every = constraint_values_of(rounds, point)
            expected = every.mean(axis=0) if stochastic else every.max(axis=0)
            assert overall.values(point) == pytest.approx(expected)
            step = 1e-6 * np.eye(3)
            measured = [(overall.values(point + s) - overall.values(point - s)) / 2e-6 for s in step]
            assert overall.subgradients(point) == pytest.approx(np.array(measured).T, abs=1e-6)
    values = constraint_values_of(rounds, oco.static_optimum(problem, losses))
    assert (values.mean(axis=0) if stochastic else values.max(axis=0)).max() == pytest.approx(0.0, abs=2e-6)


def constraint_values_of(rounds: oco.LinearRounds, point: Doubles) -> Doubles:
    return rounds.values(np.repeat(point[None], rounds.n_rounds, axis=0))


def test_vaze_and_sinha_match_naive() -> None:
    region = SETS[0]
    problem, losses, rounds = game(region, n_rounds=10)
    horizon, first = 10, np.full(3, 0.9)
    points = oco.play_rounds(oco.VazeSinha(4.0, switch=False), problem, losses, first, constraints=rounds)
    point, cuts, limits = first, np.zeros((0, 3)), np.zeros(0)
    for t in range(horizon):
        assert points[t] == pytest.approx(point, abs=1e-6)
        moved = point - region.diameter / (4.0 * math.sqrt(t + 1)) * losses.subgradient(t, point)
        point = naive_oco.project_dykstra(moved, cuts, limits, region.project, 250)
        cuts, limits = np.vstack([cuts, rounds.matrices[t]]), np.append(limits, rounds.bounds[t])
        point = naive_oco.project_dykstra(point, cuts, limits, region.project, 250)
    assert (constraint_values_of(rounds, points[-1])[:-1] <= 1e-9).all()


def test_vaze_and_sinha_switch_without_a_feasible_point_or_with_a_large_violation() -> None:
    problem, losses, _ = game(SETS[0], n_rounds=60)
    sides = np.where(np.arange(60) % 2 == 0, 1.0, -1.0)[:, None, None] * np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    rounds = oco.LinearRounds(sides, np.full((60, 2), -0.5))  # x_1, x_3 <= -1/2, then >= 1/2
    points = oco.play_rounds(oco.VazeSinha(4.0), problem, losses, constraints=rounds)
    assert np.isfinite(points).all()
    assert len(np.unique(points[2:], axis=0)) > 40
    with pytest.raises(ConfigError, match=r"No point .* rounds 1 to 2 together\. Set switch=True"):
        oco.play_rounds(oco.VazeSinha(4.0, switch=False), problem, losses, constraints=rounds)
    for horizon, switched in ((2, True), (60, False)):  # sqrt(2) log 2 is below the first violation
        method, problem = oco.VazeSinha(4.0), oco.Problem(SETS[0], _sum_to(0.5))
        state = method.start(problem, horizon, np.ones(3))
        for t in range(2):
            state = method.learn(state, losses.subgradient(t, method.play(state)))
        assert state.duals[0, 2] == 2.5
        assert (state.duals[0, 1] > 0.0) == switched


# Theoretical bounds.


@pytest.mark.parametrize("seed", range(2))
def test_regret_and_violation_of_methods_for_changing_constraints_are_within_their_bounds(seed: int) -> None:
    problem, losses, rounds = game(SETS[seed % 2], seed, n_rounds=400)
    size = np.linalg.norm(losses.linear, axis=1).max() + 0.6 * SETS[seed % 2].diameter
    steepest = max(float(size), float(np.linalg.norm(rounds.matrices, axis=2).max()))
    wide, horizon = problem.region.diameter, losses.n_rounds
    nested = oco.play(oco.VazeSinha(steepest), problem, losses, rounds)
    found = oco.static_regret(problem, losses, nested.points)
    assert found <= 1.5 * steepest * wide * math.sqrt(horizon)
    strong = oco.play(oco.SinhaVaze(steepest, 0.3), problem, losses, rounds)
    found, logs = oco.static_regret(problem, losses, strong.points), 1.0 + math.log(horizon)
    most = steepest**2 * logs / 0.6
    assert found <= most
    violated = np.maximum(strong.values.max(axis=1), 0.0).sum()
    queue = math.sqrt(2.0 * 4.0 * steepest**2 * logs / 0.3 * (most + steepest * wide * horizon))
    assert 0.001 * queue < violated <= queue
    assert 0.0 < nested.violation.cumulative < violated


@pytest.mark.parametrize("seed", range(4))
def test_polyak_steps_never_violate_with_the_tightening_that_is_proved(seed: int) -> None:
    problem, losses = draw_signs(3000, seed, -1.0)
    loss_bound, constraint_bound = 2.0 * math.sqrt(2.0), math.sqrt(5.0)
    _, margin = oco.deepest_point(problem)
    assert margin == pytest.approx(0.5 + 4.0 / 3.0, abs=0.6)
    wide = problem.region.diameter
    enough = oco.Polyak.tightening_for(loss_bound, constraint_bound, wide, margin)
    far, kappa = 0.0, margin / (2.0 * wide * constraint_bound)
    for _ in range(3000):  # of the proof: how far x_t may be from the tightened set, for steps of length 1
        far = math.sqrt(1.0 - kappa**2) * far + loss_bound
    assert enough == pytest.approx(constraint_bound * far)
    step = 0.5 * margin / enough * math.sqrt(3000)  # rho = margin / 2: the largest value that the proof allows
    tight = oco.play(oco.Polyak(step, enough), problem, losses)
    assert tight.values.max() <= 0.0
    loose = oco.play(oco.Polyak(1.0, 0.0), problem, losses)
    assert 0.0 < loose.values.max() < 0.1  # without tightening, it violates a little
    scale = step / math.sqrt(3000)
    moved = wide**2 / (2.0 * scale) + 0.5 * scale * loss_bound**2 * 3000 + loss_bound * wide / 2.0 * 3000
    assert oco.static_regret(problem, losses, tight.points) <= moved


def test_stochastic_constraints_hold_on_average_and_regret_is_small() -> None:
    def mean_of(n_rounds: int) -> tuple[float, float]:
        regrets, sums = [], []
        for seed in range(10):
            rng = np.random.default_rng([seed, n_rounds])
            matrices = np.ones((n_rounds, 1, 2)) + rng.normal(scale=0.5, size=(n_rounds, 1, 2))
            rounds = oco.LinearRounds(matrices, rng.normal(1.0, 0.5, (n_rounds, 1)), stochastic=True)
            problem = oco.Problem(oco.Box(np.zeros(2), np.ones(2)), rounds.overall())
            losses = oco.QuadraticLosses(0.0, -rng.uniform(0.0, 2.0, (n_rounds, 2)))
            played = oco.play(oco.YuNeelyWei(1.0, 0.5), problem, losses, rounds)
            regrets.append(oco.static_regret(problem, losses, played.points))
            sums.append(played.violation.net)
        return float(np.mean(regrets)), float(np.mean(sums))

    (_, short), (regret, long) = mean_of(400), mean_of(6400)
    assert long < 8.0 * short  # 4 for growth as the square root; 16 for a constant violation per round
    assert long < 6.0 * math.sqrt(6400)
    assert regret < 3.0 * math.sqrt(6400)


# Two-point feedback.


def test_two_point_slopes_are_the_gradient_on_average_and_along_their_direction() -> None:
    rng = np.random.default_rng(0)
    curved = oco.QuadraticLosses(0.7, rng.normal(size=(1, 4)))
    point, reach, slopes = rng.normal(size=4), 0.01, np.zeros((5000, 4))
    units, gradient = oco.TwoPoint(3).directions(5000, 4), curved.subgradient(0, point)
    for at, unit in enumerate(units):
        difference = curved.value(0, point + reach * unit) - curved.value(0, point - reach * unit)
        slopes[at] = two_point_slope(difference, unit, reach)
    np.testing.assert_allclose(slopes, 4.0 * (units @ gradient)[:, None] * units, rtol=0, atol=1e-9)
    errors = slopes.std(axis=0) / math.sqrt(5000)
    assert (np.abs(slopes.mean(axis=0) - gradient) < 4.0 * errors).all()
    assert errors.max() < 0.1
    ring = oco.ConvexConstraints(lambda x: np.array([x @ x - 1.0, x[0]]), lambda x: np.array([2 * x, np.eye(4)[0]]), 2)
    rows = [two_point_rows(ring, point, unit, reach) for unit in oco.TwoPoint(4).directions(2000, 4)]
    mean = np.mean([one.matrix for one in rows], axis=0)
    assert mean == pytest.approx(ring.subgradients(point), abs=0.2)
    assert rows[0].values(point) == pytest.approx(ring.values(point), abs=2.0 * reach**2)


@pytest.mark.parametrize("region", [SETS[0], SETS[1]], ids=lambda region: type(region).__name__)
def test_two_point_rounds_stay_in_the_set_and_repeat_with_their_seed(region: Any) -> None:
    problem, losses, rounds = game(region)
    feedback = oco.TwoPoint(7, reach=0.2)
    step = 0.2 * feedback.directions(ROUNDS, 3)
    for method in CHANGING[:2] + CHANGING[3:]:
        played = play_quietly(method, problem, losses, rounds, feedback)
        for points in (played.points + step, played.points - step):
            assert all(region.contains(point) for point in points)
        again = play_quietly(method, problem, losses, rounds, oco.TwoPoint(7, reach=0.2))
        assert np.array_equal(played.points, again.points)
        assert not np.array_equal(
            played.points, play_quietly(method, problem, losses, rounds, oco.TwoPoint(8, 0.2)).points
        )
        known = play_quietly(method, problem, losses, rounds, oco.TwoPoint(7, 0.2, constraints=False))
        assert not np.array_equal(played.points, known.points)
    pair = [oco.regret(losses, points, np.zeros((1, 3))) for points in (played.points + step, played.points - step)]
    zero = oco.regret(losses, np.zeros((ROUNDS, 3)), np.zeros((1, 3)))
    assert played.losses.sum() - oco.runs.losses_at(losses, np.zeros((1, 3))).sum() == pytest.approx(
        np.mean(pair) - zero
    )


def test_two_point_regret_grows_as_the_root() -> None:
    regrets: list[list[float]] = []
    for n_rounds in (250, 2000):
        regrets.append([])
        for seed in range(6):
            problem, losses = draw_signs(n_rounds, seed, 0.0)
            method = oco.YuanLamperski(1.0, 3.0)
            played = oco.play(method, problem, losses, feedback=oco.TwoPoint(seed))
            value = played.losses.sum() - oco.runs.losses_at(losses, oco.static_optimum(problem, losses)[None]).sum()
            regrets[-1].append(float(value))
    found = oco.growth_interval([250, 2000], np.array(regrets))
    assert found.low < 0.5 < found.high + 0.1
    assert found.exponent < 0.75


# Certificates.


def kinked(n_rounds: int, size: int, seed: int) -> oco.ConvexLosses:
    centres = np.random.default_rng(seed).normal(scale=0.5, size=(n_rounds, size))
    return oco.ConvexLosses(
        lambda t, x: float(np.abs(x - centres[t]).sum()), lambda t, x: np.sign(x - centres[t]), n_rounds
    )


@pytest.mark.parametrize("region", SETS, ids=lambda region: type(region).__name__)
def test_certificates_bound_the_regret_of_any_convex_loss(region: Any) -> None:
    _, curved, _ = game(region)
    fixed = oco.Problem(region, oco.LinearConstraints(np.ones((2, 3)) * [[1.0], [0.3]], np.array([1.6, 1.0])))
    ring = oco.Problem(region, oco.ConvexConstraints(lambda x: np.array([x @ x - 0.9]), lambda x: 2.0 * x[None, :], 1))
    losses = kinked(ROUNDS, 3, 1)
    for where in (fixed, ring):
        points = oco.play(oco.Recoo(1.0), where, losses).points
        for count in (5, 40, ROUNDS):
            played = oco.ConvexLosses(losses.loss, losses.loss_subgradient, count)
            certified = oco.regret_certificate(where, played, points[:count])
            regret = oco.static_regret(where, played, points[:count])
            assert regret <= certified <= regret + 3.0 * count
    points = oco.Recoo(1.0).run(fixed, curved)
    exact = oco.regret_certificate(fixed, curved, points)
    assert exact == pytest.approx(oco.static_regret(fixed, curved, points), abs=1e-6)
    weaker = oco.ConvexLosses(curved.value, curved.subgradient, ROUNDS)
    assert oco.regret_certificate(fixed, weaker, points) > exact + 0.1
    below = oco.minorants(curved, points)
    assert below.values(points) == pytest.approx(curved.values(points))
    for point in np.random.default_rng(0).normal(size=(5, 3)):
        rest = np.repeat(point[None], ROUNDS, axis=0)
        assert (oco.minorants(weaker, points).values(rest) <= curved.values(rest) + 1e-9).all()


# Functions of the user in compiled rounds.

SLOPES = np.random.default_rng(5).normal(size=(ROUNDS, 3)) - 0.5
BUDGETS = 0.6 + 0.2 * np.sin(np.arange(ROUNDS))


def softly(t: int, x: Doubles) -> float:
    return float(math.log(1.0 + math.exp(x @ SLOPES[t])) + 0.1 * (x @ x))


def softly_slope(t: int, x: Doubles) -> Doubles:
    slope: Doubles = SLOPES[t] / (1.0 + math.exp(-(x @ SLOPES[t]))) + 0.2 * x
    return slope


# number by number: slices, products and sums of arrays would take seconds to compile, in every process


def budgets(t: int, x: Doubles) -> Doubles:
    values = np.empty(2)
    values[0], values[1] = x[0] + x[1] + x[2] - BUDGETS[t], x[0] * x[0] + x[1] * x[1] + x[2] * x[2] - 1.0
    return values


def budget_slopes(t: int, x: Doubles) -> Doubles:
    slopes = np.ones((2, 3))
    for j in range(3):
        slopes[1, j] = 2.0 * x[j]
    return slopes


def length(x: Doubles) -> Doubles:
    values = np.empty(2)
    values[0], values[1] = x[0] + x[1] + x[2] - 0.4, x[0] * x[0] + x[1] * x[1] + x[2] * x[2] - 1.0
    return values


def length_slopes(x: Doubles) -> Doubles:
    slopes = np.ones((2, 3))
    for j in range(3):
        slopes[1, j] = 2.0 * x[j]
    return slopes


def test_gradients_of_the_users_functions_match_finite_differences() -> None:
    point, step = np.array([0.3, -0.2, 0.5]), 1e-6
    for t in (0, 7):
        for row in 1e-6 * np.eye(3):
            change = (softly(t, point + row) - softly(t, point - row)) / (2.0 * step)
            assert softly_slope(t, point) @ row / step == pytest.approx(change, abs=1e-8)
            moved = (budgets(t, point + row) - budgets(t, point - row)) / (2.0 * step)
            assert budget_slopes(t, point) @ row / step == pytest.approx(moved, abs=1e-8)


def test_compiled_functions_play_as_python_ones_do() -> None:
    box = oco.Box(-np.ones(3), np.ones(3))
    problem = oco.Problem(box, oco.ConvexConstraints(length, length_slopes, 2))
    same = oco.Problem(box, oco.ConvexConstraints(length, length_slopes, 2, compiled=True))
    losses, quick = (oco.ConvexLosses(softly, softly_slope, ROUNDS, 0.1, compiled=one) for one in (False, True))
    rounds, fast = (oco.ConvexRounds(budgets, budget_slopes, ROUNDS, 2, compiled=one) for one in (False, True))
    first = np.full(3, 0.5)
    for method in GRADIENT:
        assert method.can_run(same, quick)
        assert method.can_run(problem, quick, fast)
        assert not method.can_run(problem, losses, fast)
        for where, limits in ((same, None), (problem, fast)):
            expected = oco.play_rounds(method, problem, losses, first, None, None if limits is None else rounds)
            found = method.run(where, quick, first, limits)
            assert found == pytest.approx(expected, abs=1e-9)
            assert np.array_equal(found, oco.play_rounds(method, where, quick, first, None, limits))
            assert np.linalg.norm(np.diff(found, axis=0), axis=1).max() > 1e-3
    proximal = oco.Recoo()
    assert not proximal.can_run(same, quick)  # it minimises over the constraints themselves: cuts, not compiled
    linear = oco.Problem(box, _sum_to(0.4))
    assert np.array_equal(proximal.run(linear, quick, first), oco.play_rounds(proximal, linear, quick, first))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # numba prints the error, too
def test_functions_that_cannot_be_compiled_or_fail_are_named() -> None:
    def fails(t: int, x: Doubles) -> float:
        if t == 3:
            raise ValueError("no loss")
        return float(x[0])

    def ones(t: int, x: Doubles) -> Doubles:
        return np.ones(3)

    with pytest.raises(ConfigError, match=r"loss or loss_subgradient cannot be compiled: .* Set compiled=False"):
        oco.ConvexLosses(lambda t, x: float(str(x)), ones, 5, compiled=True)
    failing = oco.ConvexLosses(fails, ones, 10, compiled=True)
    with pytest.raises(ConfigError, match=r"In round 3 a loss or constraint raised an error"):
        oco.Mahdavi().run(oco.Problem(SETS[0], _sum_to(1.0)), failing)
    short = oco.ConvexRounds(lambda t, x: np.ones(1), lambda t, x: np.ones((1, 3)), ROUNDS, 2, compiled=True)
    problem, losses, _ = game(SETS[0])
    with pytest.raises(ConfigError, match=r"constraint (values|subgradients) have the shape \(1.*; expected \(2,"):
        oco.Mahdavi().run(problem, losses, None, short)
    with pytest.raises(ConfigError, match=r"a compiled run of Mahdavi does not take these losses\. Use play"):
        oco.Mahdavi().run(oco.Problem(SETS[0], _sum_to(1.0)), kinked(10, 3, 0))


# Assumptions, exponents, and bad input.


def test_violated_assumptions_give_warnings() -> None:
    problem, losses, rounds = game(SETS[0])
    drawn = oco.LinearRounds(rounds.matrices, rounds.bounds, stochastic=True)
    infeasible = oco.LinearRounds(
        rounds.matrices * np.where(np.arange(ROUNDS) % 2, 1.0, -1.0)[:, None, None], -rounds.bounds
    )
    flat = oco.LinearConstraints(np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]), np.array([0.2, -0.2]))
    line, linear = oco.Problem(SETS[0], flat), oco.QuadraticLosses(0.0, losses.linear)
    cases: list[tuple[Method, oco.Problem, oco.QuadraticLosses, oco.LinearRounds | None, str]] = [
        (oco.Mahdavi(), problem, losses, rounds, "no bounds for constraints that change"),
        (oco.SinhaVaze(4.0), problem, losses, drawn, "no bounds for stochastic constraints. Use YuNeelyWei"),
        (
            oco.SinhaVaze(4.0),
            problem,
            losses,
            infeasible,
            "No point of the set satisfies the constraints of all rounds",
        ),
        (oco.Polyak(), line, losses, None, "satisfies all constraints strictly"),
        (oco.Algorithm1(oco.StronglyConvex(0.3)), line, linear, None, "more strongly convex than these"),
        (oco.SinhaVaze(4.0, 0.31), line, losses, None, "more strongly convex than these"),
        (oco.YuanLamperski(ratio=2.0, strongly_convex=True), line, linear, None, "more strongly convex than these"),
        (oco.Recoo(strong_convexity=0.4), line, losses, None, "more strongly convex than these"),
    ]
    for method, where, against, limits, message in cases:
        with pytest.warns(AssumptionWarning, match=message) as caught:
            oco.play(method, where, against, limits)
        assert len(caught) == 1
        assert caught[0].filename == __file__
        assert len(str(caught[0].message)) <= 200
    for method in (oco.Recoo(strong_convexity=0.3), oco.SinhaVaze(4.0, 0.3), oco.VazeSinha(4.0)):
        assert unmet_assumptions(method, problem, losses, rounds) == ()
    assert unmet_assumptions(oco.YuNeelyWei(), oco.Problem(SETS[0], drawn.overall()), losses, drawn) == ()
    with pytest.warns(AssumptionWarning, match="bounds of Recoo do not hold for some of the problems") as caught:
        oco.run_many(oco.Recoo(strong_convexity=0.4), [line] * 2, [losses] * 2, n_threads=2)
    assert [warning.filename for warning in caught] == [__file__]


def test_steps_that_overshoot_are_warned_of_with_the_least_valid_parameter() -> None:
    apart = oco.LinearConstraints(np.array([[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]]), np.array([6.0, -5.0]))
    problem = oco.Problem(oco.Box(np.zeros(3), np.full(3, 4.0)), apart)  # ||A||^2 / 2 = 3
    losses = oco.QuadraticLosses(0.0, np.random.default_rng(0).normal(size=(2000, 3)) - 1.0)
    pairs: list[tuple[Method, Method, str]] = [
        (oco.YuNeely(), oco.YuNeely(3.01), "proximal_scale = 0.5, but the bounds of YuNeely need more than 3 for"),
        (oco.YuanLamperski(ratio=0.5), oco.YuanLamperski(ratio=3.01), "ratio = 0.5, but the bounds .* more than 3 for"),
    ]
    for small, enough, sentence in pairs:
        with pytest.warns(AssumptionWarning, match=sentence) as caught:
            far = oco.play(small, problem, losses).violation.cumulative
        assert [len(str(warning.message)) <= 200 for warning in caught] == [True]
        assert far > 2000.0  # of a corner in every round
        assert oco.play(enough, problem, losses).violation.cumulative < 200.0  # and no warning
    assert "more than 6.75 for" in unmet_assumptions(oco.YuNeely(3.01, 1.5), problem, losses)[0]


def test_what_is_no_method_schedule_or_number_is_named() -> None:
    problem, losses = oco.Problem(SETS[0], _sum_to(1.0)), oco.QuadraticLosses(0.0, np.ones((4, 3)))
    for wrong in ("recoo", oco.Recoo):
        for begin in (oco.play, oco.play_rounds, unmet_assumptions):
            with pytest.raises(ConfigError, match=r"^method = .*[Rr]ecoo.*; expected a method .* such as oco\.Recoo"):
                begin(wrong, problem, losses)  # type: ignore[arg-type]
    constants = oco.constants_of(problem, losses)
    with pytest.raises(ConfigError, match="schedule is of type Algorithm1; expected a schedule, such as"):
        oco.bounds_of(oco.Algorithm1(), constants, 4)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="schedule is of type Algorithm2; expected a schedule"):
        oco.expert_bounds(oco.Algorithm2(), constants, 4, 2, 0.1)  # type: ignore[arg-type]
    linear = np.ones((4, 3))
    linear[2, 1] = np.nan
    with pytest.raises(ConfigError, match=r"^linear\[2, 1\] = nan; expected a finite number"):
        oco.QuadraticLosses(0.0, linear)
    with pytest.raises(ConfigError, match=r"^constant\[1\] = nan"):
        oco.QuadraticLosses(0.0, np.ones((2, 3)), [0.0, np.nan])  # type: ignore[arg-type]


def _bowl(t: int, x: Doubles) -> float:
    return float(((x - 0.3 * SLOPES[t]) ** 2).sum())


def _bowl_slope(t: int, x: Doubles) -> Doubles:
    slope: Doubles = 2.0 * (x - 0.3 * SLOPES[t])
    return slope


@pytest.mark.parametrize("region", SETS, ids=lambda region: type(region).__name__)
@pytest.mark.parametrize("factor", [0.5, -1.0, 1.1])
def test_a_subgradient_that_does_not_match_its_function_is_refused_with_both_slopes(factor: float, region: Any) -> None:
    linear = oco.Problem(region, _sum_to(1.6))
    losses = oco.ConvexLosses(_bowl, lambda t, x: factor * _bowl_slope(t, x), ROUNDS)
    points = np.tile(region.project(np.zeros(3)), (ROUNDS, 1))
    for use in (
        lambda: oco.play(oco.Recoo(), linear, losses),
        lambda: oco.static_optimum(linear, losses),
        lambda: oco.regret_certificate(linear, losses, points),
    ):
        with pytest.raises(ConfigError, match=r"In round 0 the subgradient of the loss gives a slope of") as caught:
            use()
        given, measured = (float(one.rstrip(".")) for one in re.findall(r"-?\d[\d.e-]*", str(caught.value))[1:])
        assert given == pytest.approx(factor * measured, rel=1e-5)
        assert len(str(caught.value)) <= 200
    curved = oco.ConvexConstraints(lambda x: length(x) - 4.0, lambda x: factor * length_slopes(x), 2, ["sum", "length"])
    with pytest.raises(ConfigError, match=r"subgradient of the constraint '(sum|length)'"):
        oco.play(oco.Mahdavi(), oco.Problem(region, curved), oco.ConvexLosses(_bowl, _bowl_slope, ROUNDS))


CURVES: list[tuple[Callable[[Doubles], float], Callable[[Doubles], Doubles]]] = [
    (lambda x: float(-x @ x), lambda x: -2.0 * x),
    (lambda x: float(np.sin(20.0 * x).sum()), lambda x: 20.0 * np.cos(20.0 * x)),
]


@pytest.mark.parametrize("region", SETS, ids=lambda region: type(region).__name__)
@pytest.mark.parametrize(("value", "slope"), CURVES)
def test_a_loss_that_is_not_convex_is_warned_of_and_has_no_comparator(value: Any, slope: Any, region: Any) -> None:
    problem, losses = (
        oco.Problem(region, _sum_to(1.6)),
        oco.ConvexLosses(lambda t, x: value(x), lambda t, x: slope(x), 9),
    )
    with pytest.warns(AssumptionWarning, match="In round 0 the loss is .*: it is not convex") as caught:
        points = oco.play(oco.Recoo(), problem, losses).points
    assert len(str(caught[0].message)) <= 200
    for use in (oco.static_optimum, oco.dynamic_optima, lambda a, b: oco.regret_certificate(a, b, points)):
        with pytest.raises(ConfigError, match="it is not convex"):
            use(problem, losses)


def test_losses_that_turn_concave_in_a_later_round_have_no_certificate() -> None:
    problem = oco.Problem(SETS[1], _sum_to(1.6))
    losses = oco.ConvexLosses(
        lambda t, x: (1.0 if t < 30 else -2.0) * float((x - 0.2) @ (x - 0.2)),
        lambda t, x: (2.0 if t < 30 else -4.0) * (x - 0.2),
        ROUNDS,
    )
    points = np.tile(np.full(3, 0.5), (ROUNDS, 1))
    with pytest.raises(ConfigError, match=r"In round [34]\d the loss of a comparator is .*, below the minorant"):
        oco.regret_certificate(problem, losses, points)
    with pytest.raises(ConfigError, match=r"A function is .* where a linear minorant of it is"):
        oco.static_optimum(problem, losses)


def test_a_play_of_functions_reports_each_round() -> None:
    seen: list[tuple[int, int]] = []
    losses = oco.ConvexLosses(_bowl, _bowl_slope, 7)
    oco.play(oco.Recoo(), oco.Problem(SETS[0], _sum_to(1.6)), losses, progress=lambda *done: seen.append(done))
    assert seen == [(at, 7) for at in range(1, 8)]


def test_a_loss_of_several_numbers_is_refused() -> None:
    losses = oco.ConvexLosses(lambda t, x: x, lambda t, x: np.ones(3), ROUNDS)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match=r"the loss of round 0 returns an array of shape \(3,\); expected one number"):
        oco.play(oco.Recoo(), oco.Problem(SETS[0], _sum_to(1.6)), losses)


def test_intervals_of_exponents_have_their_nominal_coverage() -> None:
    rng, inside = np.random.default_rng(0), 0
    sizes = np.array([100.0, 400.0, 1600.0])
    for _ in range(800):
        noise = rng.gamma(4.0, 0.25, (3, 12))
        found = oco.growth_interval(sizes.tolist(), 3.0 * sizes[:, None] ** 0.5 * noise)
        inside += found.low <= 0.5 <= found.high
        assert found.low < found.exponent < found.high
    assert 0.92 <= inside / 800 <= 0.98
    with pytest.raises(ConfigError, match="at least two repetitions"):
        oco.growth_interval([1.0, 2.0], np.ones((2, 1)))


LENGTH: Any = length
INVALID_RECORDS: list[tuple[Callable[[], object], str]] = [
    (lambda: oco.LinearRounds(np.ones((4, 2, 3)), np.ones((4, 3))), r"expected \(n_rounds, m, p\) and"),
    (lambda: oco.LinearRounds(np.ones((1, 3)), np.array([[np.inf]])), "must be finite"),
    (lambda: oco.ConvexRounds(LENGTH, budget_slopes, 4, 1), r"expected a function of round and point"),
    (lambda: oco.TwoPoint(reach=-1.0), "expected a finite number above 0"),
    (lambda: oco.Polyak(tightening=-1.0), "expected a finite number of at least 0"),
    (lambda: oco.SinhaVaze(1.0, -0.1), "expected a finite number of at least 0"),
    (lambda: oco.Polyak.tightening_for(1.0, 1.0, 1.0, 0.0), "margin = 0.0; expected a finite number above 0"),
]


@pytest.mark.parametrize(("make", "sentence"), INVALID_RECORDS)
def test_invalid_records_raise_errors_that_name_the_problem(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        make()


def test_rounds_that_do_not_fit_are_refused() -> None:
    problem, losses, rounds = game(SETS[0])
    method, few = oco.SinhaVaze(4.0), oco.LinearRounds(rounds.matrices[:5], rounds.bounds[:5])
    one = oco.LinearRounds(rounds.matrices[:, :1], rounds.bounds[:, :1])
    plane = oco.LinearRounds(rounds.matrices[:, :, :2], rounds.bounds)
    flat = oco.QuadraticLosses(0.0, np.ones((ROUNDS, 2)))
    for limits, against, sentence in (
        (few, losses, "5 rounds of 2 constraints; expected 50 of 2"),
        (one, losses, "50 rounds of 1 constraints; expected 50 of 2"),
        (plane, losses, "the constraints have 2 columns"),
        (rounds, flat, "the losses have 2 coordinates"),
    ):
        for play in (
            lambda *rest: method.run(rest[0], rest[1], None, rest[2]),
            lambda *rest: play_quietly(method, *rest),
        ):
            with pytest.raises(ConfigError, match=sentence):
                play(problem, against, limits)
    with pytest.raises(ConfigError, match="which cannot change"):
        oco.ImprovedAder(4.0).run(oco.Problem(SETS[0], rounds.at(0)), losses, None, rounds)
    with pytest.raises(ConfigError, match="needs a ball, or a box with finite bounds"):
        play_quietly(method, game(SETS[2])[0], losses, None, oco.TwoPoint())
    with pytest.raises(ConfigError, match=r"reach = 1.5; expected less than 1.0"):
        play_quietly(method, problem, losses, None, oco.TwoPoint(0, 1.5))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # numba prints the error in a callback
def test_functions_that_read_beyond_their_data_or_return_nan_are_refused_in_both_modes() -> None:
    data = np.linspace(0.0, 1.0, 50)
    for compiled in (True, False):
        for bad in (lambda t, x: data[t] * x[0], lambda t, x: x[0] if t != 30 else math.nan):
            losses = oco.ConvexLosses(bad, lambda t, x: np.ones(1), 60, compiled=compiled)
            problem = oco.Problem(oco.Box(np.zeros(1), np.ones(1)), oco.LinearConstraints(np.eye(1), np.ones(1)))
            with pytest.raises((ConfigError, IndexError)):
                oco.play(oco.Algorithm1(oco.KnownHorizon(60, 0.5)), problem, losses)
    with pytest.raises(ConfigError, match=r"points of shape \(3, 1\); expected 4 rows"):
        oco.static_regret(problem, oco.QuadraticLosses(0.0, np.ones((4, 1))), np.zeros((3, 1)))


def test_names_of_rounds_are_keyword_only() -> None:
    assert oco.LinearRounds(np.ones((1, 2)), np.ones((5, 1)), ["cap"]).names == ("cap",)
    with pytest.raises(TypeError):
        oco.ConvexRounds(lambda t, x: x, lambda t, x: np.eye(2), 5, 2, ["a", "b"], True, False)  # type: ignore[call-arg]
