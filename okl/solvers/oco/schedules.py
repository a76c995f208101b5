"""Step-size schedules and the regret and violation bounds of the theorems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.foundation.errors import ConfigError
from okl.foundation.validation import check_at_least, check_positive
from okl.solvers.oco.problem import Losses, Matrix, Problem, QuadraticLosses
from okl.solvers.oco.sets import Box, Simplex, Vector

Numbers = NDArray[np.float64]
"""(N, n, 3): the numbers of a method's rule, by expert and round."""

# Step sizes alpha_t and penalties gamma_t = gamma_0 / sqrt(alpha_t), as each theorem chooses them.


def covered(schedule: Schedule, subgradient_bound: float) -> bool:
    """Return whether gamma_0 is in (0, 1/(sqrt(2) G)], as every bound of the paper requires, with G of assumption 3.

    Any gamma_0 may be used; beyond this range no bound is claimed.
    """
    return schedule.penalty_scale * math.sqrt(2.0) * subgradient_bound <= 1.0 + 1e-12


def check_schedule(schedule: Schedule, problem: Problem, horizon: int | None) -> None:
    """Raise ConfigError if a schedule lacks the horizon or the bounded set that its theorem takes."""
    if schedule.needs_horizon:
        if horizon is None:
            raise ConfigError(f"{schedule.claim} needs the number of rounds. Set horizon, or use Anytime(...).")
        check_at_least("horizon", horizon, 1)
    if schedule.needs_bounded_set and not problem.region.bounded:
        raise ConfigError(
            f"{schedule.claim} needs a bounded set, but coordinates of the box are unbounded. Set "
            "finite bounds, or use KnownHorizon(...)."
        )


@dataclass(frozen=True)
class _Power:
    """alpha_0, gamma_0 and c of steps that shrink as a power.

    step_scale : alpha_0 > 0
    penalty_scale : gamma_0 > 0
    exponent : c in (0, 1)
    """

    step_scale: float = 1.0
    penalty_scale: float = 1.0
    exponent: float = 0.5

    def __post_init__(self) -> None:
        check_positive("step_scale", self.step_scale)
        check_positive("penalty_scale", self.penalty_scale)
        if not 0.0 < self.exponent < 1.0:
            raise ConfigError(f"exponent = {self.exponent!r}; expected a number above 0 and below 1.")


@dataclass(frozen=True)
class KnownHorizon(_Power):
    """alpha_t = alpha_0 / T^c, the same in all T rounds: equation (16).

    Parameters
    ----------
    step_scale : alpha_0 > 0
    penalty_scale : gamma_0 > 0
    exponent : c in (0, 1); regret grows as T^max(c, 1 - c), violation as T^((1 - c) / 2)

    Source: Yi et al., ICML 2021, Theorem 1.
    """

    claim = "Theorem 1"
    needs_horizon = True
    needs_bounded_set = False

    def step_sizes(self, rounds: Vector, horizon: int) -> Vector:
        return np.full(len(rounds), self.step_scale / float(horizon) ** self.exponent)


@dataclass(frozen=True)
class Anytime(_Power):
    """alpha_t = alpha_0 / t^c, for any number of rounds: equation (24).

    Parameters
    ----------
    step_scale : alpha_0 > 0
    penalty_scale : gamma_0 > 0
    exponent : c in (0, 1); regret grows as T^(1 - c) + T^c (1 + P_T)

    Source: Yi et al., ICML 2021, Theorem 2.
    """

    claim = "Theorem 2"
    needs_horizon = False
    needs_bounded_set = True

    def step_sizes(self, rounds: Vector, horizon: int) -> Vector:
        return self.step_scale / np.asarray(rounds, dtype=np.float64) ** self.exponent


@dataclass(frozen=True)
class KnownPathLength:
    """alpha_t = ((1 + P_T) / t)^c for comparators whose path length P_T is known.

    Parameters
    ----------
    path_length : P_T >= 0
    penalty_scale : gamma_0 > 0
    exponent : c in (0, 1)

    Source: Yi et al., ICML 2021, Corollary 2.
    """

    path_length: float
    penalty_scale: float = 1.0
    exponent: float = 0.5

    claim = "Corollary 2"
    needs_horizon = False
    needs_bounded_set = True

    def __post_init__(self) -> None:
        if not 0.0 <= self.path_length < math.inf:
            raise ConfigError(f"path_length = {self.path_length!r}; expected a finite number of at least 0.")
        _ = self._steps  # refuses what Anytime does

    @property
    def step_scale(self) -> float:
        """Return alpha_0 = (1 + P_T)^c."""
        return float((1.0 + self.path_length) ** self.exponent)

    @property
    def _steps(self) -> Anytime:
        return Anytime(self.step_scale, self.penalty_scale, self.exponent)

    def step_sizes(self, rounds: Vector, horizon: int) -> Vector:
        return self._steps.step_sizes(rounds, horizon)


@dataclass(frozen=True)
class StronglyConvex:
    """alpha_t = 1 / (mu t) for losses with f(x) >= f(y) + <x - y, df(y)> + mu ||x - y||^2.

    Parameters
    ----------
    strong_convexity : mu > 0, as equation (19) defines it, without 1/2: lam/2 ||w||^2 has mu = lam/2
    penalty_scale : gamma_0 > 0

    Source: Yi et al., ICML 2021, Corollary 1, equation (20).
    """

    strong_convexity: float
    penalty_scale: float = 1.0

    claim = "Corollary 1"
    needs_horizon = False
    needs_bounded_set = False

    def __post_init__(self) -> None:
        check_positive("strong_convexity", self.strong_convexity)
        check_positive("penalty_scale", self.penalty_scale)

    def step_sizes(self, rounds: Vector, horizon: int) -> Vector:
        return 1.0 / (np.asarray(rounds, dtype=np.float64) * self.strong_convexity)


Schedule = KnownHorizon | Anytime | KnownPathLength | StronglyConvex
"""Step sizes of the rounds and weights of violations."""

# Step sizes and penalties per round, for one run or several experts.


def round_numbers(first: int, last: int) -> Vector:
    """Return the rounds t = first .. last as numbers, (last - first + 1,)."""
    return np.arange(first, last + 1, dtype=np.float64)


def penalties(schedule: Schedule, step_sizes: Vector) -> Vector:
    """Return gamma_t = gamma_0 / sqrt(alpha_t) for step sizes alpha_t, of any shape."""
    return schedule.penalty_scale / np.sqrt(step_sizes)


def tables(
    schedule: Schedule, rounds: Vector, horizon: int, scales: Sequence[float], shared_penalties: bool = False
) -> tuple[Matrix, Matrix]:
    """Return alpha_{i,t} and gamma_{i,t} of these rounds for experts that scale the step sizes.

    schedule : of an expert of scale 1; rounds : (n,) numbers t; horizon : T, where the schedule takes it
    scales : (N,) factor of every expert's step sizes
    shared_penalties : whether all experts have the penalties of scale 1, not those of their own step sizes
    Returns (N, n) each
    """
    factors = np.asarray(scales)[:, None]
    own = schedule.step_sizes(rounds, horizon)[None, :]
    sizes = factors * own
    return sizes, penalties(schedule, np.broadcast_to(own, sizes.shape).copy() if shared_penalties else sizes)


# Bounds of the theorems.
#
# They are those of the paper's appendices, its slips corrected: a sum of 1/t is at most 1 + log T ((58), (60), end of
# appendix D), (74) counts experts from 2, (69) has its 1/(2 (1 - c)). Two more were found here: gamma_1^2 F^2 is
# gamma_0^2 F^2 T^c / alpha_0 in Theorem 1, where epsilon_1 lacks the T^c; and ||q_t||^2 <= epsilon t holds with the
# epsilon of t, not of T ((68)), so that equation (14) is summed here, term by term.


@dataclass(frozen=True)
class Constants:
    """Constants of the assumptions.

    subgradient_bound : G, of losses and constraints over the set: (9)
    value_bound : F, of a loss's range and of ||g|| over the set: (8)
    diameter : d(X), infinite for an unbounded set: (23)
    n_constraints : m
    """

    subgradient_bound: float
    value_bound: float
    diameter: float
    n_constraints: int


@dataclass(frozen=True)
class Bounds:
    """Bounds of a theorem.

    claim : which theorem
    regret : against the comparators of the path length; violation : the form (6)
    claimed : whether gamma_0, the schedule's penalty_scale, is at most 1 / (sqrt(2) G), G the subgradient_bound of the
        constants: see `covered`. If not, as with the default of 1 where G > .71, the numbers promise nothing
    """

    claim: str
    regret: float
    violation: float
    claimed: bool


def constants_of(problem: Problem, losses: Losses) -> Constants:
    """Return G and F of quadratic losses and linear constraints over a bounded set.

    Both are the smallest for losses over a box; elsewhere they are upper bounds, which the assumptions allow.

    Raises
    ------
    ConfigError : the set is unbounded, the constraints are not linear, or the losses not quadratic
    """
    region, rows = problem.region, problem.linear
    if not isinstance(losses, QuadraticLosses):
        raise ConfigError("constants_of takes QuadraticLosses. For others, give G and F to oco.schedules.Constants.")
    if not region.bounded:
        raise ConfigError("G and F of quadratic losses need a bounded set. Set finite bounds of the box.")
    slopes = _largest_gradient(problem, losses)
    steepest = max(slopes, float(np.linalg.norm(rows.matrix, 2)))
    extremes = [
        max(region.support(row) - bound, region.support(-row) + bound)
        for row, bound in zip(rows.matrix, rows.bounds, strict=True)
    ]
    spread = _largest_range(region, losses) if isinstance(region, Box) else slopes * region.diameter
    largest = max(spread, float(np.linalg.norm(extremes)))
    return Constants(steepest, largest, region.diameter, rows.n_constraints)


def _largest_gradient(problem: Problem, losses: QuadraticLosses) -> float:
    """Return max over rounds and points of ||2 curvature x + linear_t||; convex, so it is at the border."""
    region, factor = problem.region, 2.0 * losses.curvature
    if isinstance(region, Box):
        ends = np.maximum(np.abs(factor * region.low + losses.linear), np.abs(factor * region.high + losses.linear))
        return float(np.linalg.norm(ends, axis=1).max())
    if isinstance(region, Simplex):
        corner = factor * region.total
        squared = (losses.linear**2).sum(axis=1) + corner**2 + 2.0 * corner * losses.linear.max(axis=1)
        return float(math.sqrt(squared.max()))
    return float(
        np.linalg.norm(factor * region.region.low + losses.linear, axis=1).max() + factor * region.diameter / 2.0
    )


def _largest_range(box: Box, losses: QuadraticLosses) -> float:
    """Return max over rounds of the range of values over a box, coordinate by coordinate."""
    curvature, linear = losses.curvature, losses.linear

    def at(point: Vector) -> Vector:
        return curvature * point**2 + linear * point

    ends = np.maximum(at(box.low), at(box.high))
    lowest = np.minimum(at(box.low), at(box.high))
    if curvature > 0.0:
        lowest = at(np.clip(-linear / (2.0 * curvature), box.low, box.high))
    return float((ends - lowest).sum(axis=1).max())


def _violation(schedule: Schedule, sizes: Vector, moved: Vector, constants: Constants, spread: float) -> float:
    """Bound (14) with ||q_t||^2 <= 2 (moved_t + sum G^2 alpha / 2 + gamma_1^2 F^2 / 2 + spread t + sum F^2 (dgamma)^2).

    sizes : alpha_1 .. alpha_{T+1}; moved : (T,) bounds of the sums of Delta_t; spread : of the values of a loss
    """
    gammas, rounds = penalties(schedule, sizes), np.arange(1.0, len(sizes))
    steep, wide = constants.subgradient_bound**2, constants.value_bound**2
    taken = 0.5 * steep * np.cumsum(sizes[:-1]) + 0.5 * gammas[0] ** 2 * wide
    queues = np.sqrt(2.0 * (moved + taken + spread * rounds + wide * np.cumsum(np.diff(gammas) ** 2)))
    inverse = 1.0 / gammas[:-1]
    total = inverse[-1] * queues[-1] + float(((inverse[:-1] - inverse[1:]) * queues[:-1]).sum())
    return float(math.sqrt(constants.n_constraints) * total)


def bounds_of(
    schedule: Schedule, constants: Constants, horizon: int, distance: float | None = None, path_length: float = 0.0
) -> Bounds:
    """Return what Theorems 1 and 2 and Corollaries 1 and 2 promise of Algorithm 1.

    Parameters
    ----------
    schedule : of the algorithm; it determines the theorem
    constants : of problem and losses
    horizon : T
    distance : ||x* - x_1|| of the static optimum, None for the diameter; of Theorem 1 alone
    path_length : P_T of the comparators, for Theorem 2 and Corollary 2

    Raises
    ------
    ConfigError : the theorem takes a bounded set; a method in place of its schedule
    """
    _require_schedule(schedule)
    sizes = schedule.step_sizes(round_numbers(1, horizon + 1), horizon)
    steep, rounds = constants.subgradient_bound**2, round_numbers(1, horizon)
    claimed = covered(schedule, constants.subgradient_bound)
    if isinstance(schedule, KnownHorizon):
        far = _bounded(schedule.claim, constants.diameter) if distance is None else distance
        moved = far**2 / sizes[0]
        regret = moved + 0.5 * steep * horizon * sizes[0]
        all_moved = np.full(horizon, moved)
    elif isinstance(schedule, StronglyConvex):
        regret = steep * (1.0 + math.log(horizon)) / (2.0 * schedule.strong_convexity)
        all_moved = np.zeros(horizon)
    else:
        wide = _bounded(schedule.claim, constants.diameter)
        regret = _moving(wide, float(sizes[-2]), path_length) + 0.5 * steep * float(sizes[:-1].sum())
        all_moved = 2.0 * wide**2 / schedule.step_sizes(rounds, horizon)
    violation = _violation(schedule, sizes, all_moved, constants, constants.value_bound)
    return Bounds(schedule.claim, float(regret), violation, claimed)


def expert_bounds(
    schedule: Schedule, constants: Constants, horizon: int, n_experts: int, weight_rate: float, path_length: float = 0.0
) -> Bounds:
    """Return what Theorem 3 promises of Algorithm 2.

    The regret is the least over the experts, i = 1 .. N, of that of expert i and of not knowing that it is i; the
    theorem takes one of them, by the path length.

    Parameters
    ----------
    schedule : of the first expert; expert i takes steps 2^(i-1) times as long
    n_experts, weight_rate : N and beta of (36)
    constants, horizon, path_length : as for `bounds_of`
    """
    _require_schedule(schedule)
    wide = _bounded("Theorem 3", constants.diameter)
    slope = constants.subgradient_bound * wide
    sizes = schedule.step_sizes(round_numbers(1, horizon + 1), horizon)
    regret, violation = math.inf, 0.0
    for expert in range(1, n_experts + 1):
        longer = 2.0 ** (expert - 1) * sizes
        own = _moving(wide, float(longer[:-1].min()), path_length)
        own += 0.5 * constants.subgradient_bound**2 * float(longer[:-1].sum())
        prior = (n_experts + 1) / (expert * (expert + 1) * n_experts)
        regret = min(regret, own + 0.5 * weight_rate * slope**2 * horizon + math.log(1.0 / prior) / weight_rate)
        violation += _violation(schedule, longer, 2.0 * wide**2 / longer[:-1], constants, slope)
    return Bounds("Theorem 3", regret, violation, covered(schedule, constants.subgradient_bound))


def _require_schedule(schedule: Schedule) -> None:
    if not isinstance(schedule, Schedule):
        raise ConfigError(
            f"schedule is of type {type(schedule).__name__}; expected a schedule, such as oco.KnownHorizon() or "
            "Algorithm1().schedule. Methods other than Algorithms 1 and 2 have no numeric bounds here."
        )


def _moving(diameter: float, last_step: float, path_length: float) -> float:
    """Return (62), the cost of following the comparators, with the step size of the last round."""
    return 2.0 * diameter**2 / last_step * (1.0 + path_length / diameter)


def _bounded(claim: str, diameter: float) -> float:
    if not math.isfinite(diameter) or diameter <= 0.0:
        raise ConfigError(f"{claim} needs a bounded set of more than one point, but the diameter is {diameter}.")
    return diameter
