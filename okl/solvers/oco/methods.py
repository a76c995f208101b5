"""The interface of methods, and Algorithms 1 and 2 of Yi et al."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import numpy as np

from okl.compiled.oco import ConstraintRows, make_rows, make_work, mix_experts, run_experts, weigh_experts
from okl.foundation.errors import ConfigError
from okl.foundation.validation import check_at_least, check_positive
from okl.solvers.oco.problem import Constraints, LinearConstraints, Matrix, Problem, QuadraticLosses, solve_by_cuts
from okl.solvers.oco.schedules import (
    Anytime,
    KnownHorizon,
    Schedule,
    check_schedule,
    round_numbers,
    schedule_rounds,
    tables,
)
from okl.solvers.oco.sets import ConvexSet, Vector

# The interface.


class MethodState(Protocol):
    """State of a method: an immutable value; each round returns a new one."""

    @property
    def round(self) -> int: ...  # t >= 1, the round that comes next

    @property
    def problem(self) -> Problem: ...


AnyState = TypeVar("AnyState", bound=MethodState)


class Method(Protocol[AnyState]):
    """A frozen configuration that chooses points.

    In round t = 1, 2, ... the point `play(state)` is chosen; then the subgradient of the loss there is learned. `run`
    does the same for losses that are known as arrays, compiled, with the same bits.
    """

    @property
    def name(self) -> str: ...  # as reports print it

    def start(self, problem: Problem, horizon: int | None = None, first: Vector | None = None) -> AnyState: ...

    def play(self, state: AnyState) -> Vector: ...

    def learn(self, state: AnyState, subgradient: Vector, constraints: Constraints | None = None) -> AnyState:
        """Return the state after a round; its argument stays as it is.

        Parameters
        ----------
        state : before
        subgradient : (p,) of the round's loss at play(state)
        constraints : of this round, where they change; None for the problem's. No theorem holds for changing ones
        """
        ...

    def run(self, problem: Problem, losses: QuadraticLosses, first: Vector | None = None) -> Matrix:
        """Return the points of all rounds, (n_rounds, p); the horizon is the number of losses."""
        ...


# Rounds of primal points and queues.


@dataclass(frozen=True, eq=False)
class Stepper:
    """Learns rounds over a set with constraints: compiled if they are linear, by cuts if not.

    Parameters
    ----------
    region, constraints : of the problem, or of the round
    """

    region: ConvexSet
    constraints: Constraints
    rows: ConstraintRows | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rows = None
        if isinstance(self.constraints, LinearConstraints):
            rows = make_rows(self.constraints.matrix, self.constraints.bounds, self.region.region)
        object.__setattr__(self, "rows", rows)

    def learn(
        self, point: Vector, queue: Vector, subgradient: Vector, step_size: float, penalty: float, next_penalty: float
    ) -> tuple[Vector, Vector, float]:
        """Return the next point (p,), its queue (m,) and the duality gap of the step; nothing changes in place.

        Raises
        ------
        ConfigError : a subgradient of another shape, or not finite
        """
        subgradient = np.ascontiguousarray(subgradient, dtype=np.float64)
        if subgradient.shape != point.shape or not np.isfinite(subgradient).all():
            raise ConfigError(f"a subgradient needs {point.size} finite numbers, but is {subgradient!r}.")
        if self.rows is not None:
            slope, experts, queues = subgradient[None, :], point[None, :].copy(), queue[None, :].copy()
            slope.setflags(write=False)  # as rows of losses are: no second compilation
            sizes, penalties = np.array([[step_size, step_size]]), np.array([[penalty, next_penalty]])
            points = np.empty((2, point.size))
            gap = run_rounds(points, experts, queues, np.ones(1), slope, self.rows, self.region, sizes, penalties)
            return points[1].copy(), queues[0], gap
        clipped = penalty * np.maximum(self.constraints.values(point), 0.0)
        queue = queue + clipped
        limits = 0.5 * step_size * next_penalty * (queue + clipped)
        point, gap = solve_by_cuts(point - 0.5 * step_size * subgradient, self.region, self.constraints, limits)
        return point, queue, gap


def run_rounds(
    points: Matrix,
    experts: Matrix,
    queues: Matrix,
    weights: Vector,
    linear: Matrix,
    rows: ConstraintRows,
    region: ConvexSet,
    step_sizes: Matrix,
    penalties: Matrix,
    curvature: float = 0.0,
    rate: float = 0.0,
) -> float:
    """Run `run_experts` with room to work in: points (T, p), experts (N, p), queues (N, m), weights (N,) change.

    linear : (T, p), read-only, with curvature the losses; step_sizes (N, T), penalties (N, T + 1), at least
    rate : beta, of the weights

    Returns
    -------
    the largest duality gap of a step
    """
    (number, size), n_rows = experts.shape, queues.shape[1]
    regrets, limits, slope, work = np.empty(number), np.empty(n_rows), np.empty(size), make_work(n_rows, size)
    return run_experts(
        points,
        experts,
        queues,
        weights,
        regrets,
        limits,
        slope,
        work,
        linear,
        rows,
        region.region,
        step_sizes,
        penalties,
        curvature,
        rate,
    )


# Algorithm 1.


@dataclass(frozen=True, eq=False)
class QueueState:
    """Before a round.

    round : t >= 1
    point : (p,) x_t;  queue : (m,) q_{t-1}
    gap : largest duality gap of a step so far
    """

    problem: Problem
    horizon: int | None
    round: int
    point: Vector
    queue: Vector
    gap: float = 0.0
    stepper: Stepper = field(repr=False, kw_only=True)


@dataclass(frozen=True)
class Algorithm1:
    """Step against the loss and a queue of clipped violations.

        q_t = q_{t-1} + gamma_t [g(x_t)]_+,   q-hat_t = q_t + gamma_t [g(x_t)]_+
        x_{t+1} = argmin over X of  alpha_t <df_t(x_t), x> + alpha_t gamma_{t+1} <q-hat_t, [g(x)]_+> + ||x - x_t||^2

    Parameters
    ----------
    schedule : alpha_t and gamma_t: KnownHorizon (Theorem 1), Anytime (Theorem 2), StronglyConvex (Corollary 1),
        KnownPathLength (Corollary 2)

    Source: Yi et al., ICML 2021, Algorithm 1.
    """

    schedule: Schedule = field(default_factory=KnownHorizon)

    name = "Algorithm 1"

    def start(self, problem: Problem, horizon: int | None = None, first: Vector | None = None) -> QueueState:
        """Return the state before round 1.

        Raises
        ------
        ConfigError : the schedule takes a horizon or a bounded set that there is not; first is outside the set
        """
        check_schedule(self.schedule, problem, horizon)
        queue = np.zeros(problem.n_constraints)
        point = problem.first_point(first)
        return QueueState(problem, horizon, 1, point, queue, stepper=Stepper(problem.region, problem.constraints))

    def play(self, state: QueueState) -> Vector:
        """Return x_t, (p,)."""
        return state.point

    def learn(self, state: QueueState, subgradient: Vector, constraints: Constraints | None = None) -> QueueState:
        """Return the state after a round with this subgradient at x_t (p,)."""
        stepper = state.stepper if constraints is None else Stepper(state.problem.region, constraints)
        sizes, weights = schedule_rounds(self.schedule, round_numbers(state.round, state.round + 1), state.horizon)
        point, queue, gap = stepper.learn(state.point, state.queue, subgradient, sizes[0], weights[0], weights[1])
        return replace(state, round=state.round + 1, point=point, queue=queue, gap=max(gap, state.gap))

    def run(self, problem: Problem, losses: QuadraticLosses, first: Vector | None = None) -> Matrix:
        """Return the points of all rounds, (n_rounds, p)."""
        check_schedule(self.schedule, problem, losses.n_rounds)
        linear, region = problem.linear, problem.region
        rows = make_rows(linear.matrix, linear.bounds, region.region)
        used = schedule_rounds(self.schedule, round_numbers(1, losses.n_rounds + 1), losses.n_rounds)
        sizes, penalties = used[0][None, :].copy(), used[1][None, :].copy()
        points, expert = np.empty((losses.n_rounds, problem.dimension)), problem.first_point(first)[None, :].copy()
        queues, curvature = np.zeros((1, problem.n_constraints)), losses.curvature
        run_rounds(points, expert, queues, np.ones(1), losses.linear, rows, region, sizes, penalties, curvature)
        return points


# Algorithm 2: many step sizes mixed by exponential weights.


@dataclass(frozen=True, eq=False)
class ExpertsState:
    """Before a round.

    round : t >= 1
    point : (p,) x_t;  experts : (N, p) x_{i,t};  queues : (N, m) q_{i,t-1};  weights : (N,) w_{i,t}
    gap : largest duality gap of a step so far
    """

    problem: Problem
    horizon: int
    round: int
    point: Vector
    experts: Matrix
    queues: Matrix
    weights: Vector
    gap: float = 0.0
    stepper: Stepper = field(repr=False, kw_only=True)


@dataclass(frozen=True)
class Algorithm2:
    """Run Algorithm 1 with step sizes alpha_{i,t} = ratio^(i-1) alpha_t, i = 1 .. N, on linearised losses, and mix.

        w_{i,1} = (N + 1) / (i (i + 1) N),   w_{i,t+1} ~ w_{i,t} exp(-beta <df_t(x_t), x_{i,t} - x_t>)
        x_t = sum_i w_{i,t} x_{i,t},   N = ceil(kappa log2(1 + T)) + 1,   beta = beta_0 / T^c

    Every expert's penalty is gamma_{i,t} = gamma_0 / sqrt(alpha_{i,t}). With one expert it is Algorithm 1.

    Parameters
    ----------
    schedule : of the first expert, KnownHorizon or Anytime; also gives c
    weight_scale : beta_0 > 0
    path_exponent : kappa in [0, c]; regret grows as T^c (1 + P_T)^(1 - kappa) + T^(1 - c) (1 + P_T)^kappa
    n_experts : N >= 1, in place of the formula; None for it
    ratio : > 0 of following experts' step sizes; 2, as equation (36) has it. Table 2 leaves it out: every expert is
        then the same (ratio = 1)
    shared_penalties : whether every expert's penalty is gamma_0 / sqrt(alpha_{1,t}), as Table 2 has it; no bound is
        claimed then

    Source: Yi et al., ICML 2021, Algorithm 2 and Theorem 3, equation (36).
    """

    schedule: KnownHorizon | Anytime = field(default_factory=Anytime)
    weight_scale: float = 1.0
    path_exponent: float = 0.5
    n_experts: int | None = None
    ratio: float = 2.0
    shared_penalties: bool = False

    name = "Algorithm 2"
    claim = "Theorem 3"

    def __post_init__(self) -> None:
        check_positive("weight_scale", self.weight_scale)
        check_positive("ratio", self.ratio)
        if not 0.0 <= self.path_exponent <= self.schedule.exponent:
            raise ConfigError(
                f"path_exponent = {self.path_exponent!r}; expected a number between 0 and the exponent of the schedule."
            )
        if self.n_experts is not None:
            check_at_least("n_experts", self.n_experts, 1)

    def experts_for(self, horizon: int) -> int:
        """Return N, the number of experts for so many rounds."""
        return self.n_experts or math.ceil(self.path_exponent * math.log2(1.0 + horizon)) + 1

    def rate_for(self, horizon: int) -> float:
        """Return beta, how fast the experts' weights follow their losses."""
        return float(self.weight_scale / float(horizon) ** self.schedule.exponent)

    def scales_for(self, horizon: int) -> tuple[float, ...]:
        """Return ratio^(i-1) of every expert."""
        return tuple(self.ratio**i for i in range(self.experts_for(horizon)))

    def _check(self, problem: Problem, horizon: int | None) -> int:
        check_schedule(self.schedule, problem, horizon)
        if horizon is None:
            raise ConfigError(f"{self.claim} needs the number of rounds to choose the number of experts. Set horizon.")
        if not problem.region.bounded:
            raise ConfigError(
                f"{self.claim} needs a bounded set, but coordinates of the box are unbounded. Set "
                "finite bounds, or use Algorithm1(KnownHorizon(...))."
            )
        return check_at_least("horizon", horizon, 1)

    def start(self, problem: Problem, horizon: int | None = None, first: Vector | None = None) -> ExpertsState:
        """Return the state before round 1, all experts at the first point.

        Raises
        ------
        ConfigError : no horizon, an unbounded set, a first point outside the set
        """
        horizon = self._check(problem, horizon)
        number = self.experts_for(horizon)
        experts = np.tile(problem.first_point(first), (number, 1))
        weights = first_weights(number)
        queues = np.zeros((number, problem.n_constraints))
        point = np.empty(problem.dimension)
        mix_experts(point, experts, weights)
        stepper = Stepper(problem.region, problem.constraints)
        return ExpertsState(problem, horizon, 1, point, experts, queues, weights, stepper=stepper)

    def play(self, state: ExpertsState) -> Vector:
        """Return x_t, (p,)."""
        return state.point

    def learn(self, state: ExpertsState, subgradient: Vector, constraints: Constraints | None = None) -> ExpertsState:
        """Return the state after a round with this subgradient at x_t (p,)."""
        stepper = state.stepper if constraints is None else Stepper(state.problem.region, constraints)
        weights, regrets = state.weights.copy(), np.empty(state.weights.size)
        weigh_experts(weights, regrets, state.experts, state.point, subgradient, self.rate_for(state.horizon))
        rounds = round_numbers(state.round, state.round + 1)
        sizes, penalties = tables(
            self.schedule, rounds, state.horizon, self.scales_for(state.horizon), self.shared_penalties
        )
        experts, queues, point, gap = (
            np.empty_like(state.experts),
            np.empty_like(state.queues),
            np.empty_like(state.point),
            state.gap,
        )
        for i in range(weights.size):
            experts[i], queues[i], own = stepper.learn(
                state.experts[i], state.queues[i], subgradient, sizes[i, 0], penalties[i, 0], penalties[i, 1]
            )
            gap = max(gap, own)
        mix_experts(point, experts, weights)
        return replace(
            state, round=state.round + 1, point=point, experts=experts, queues=queues, weights=weights, gap=gap
        )

    def run(self, problem: Problem, losses: QuadraticLosses, first: Vector | None = None) -> Matrix:
        """Return the points of all rounds, (n_rounds, p)."""
        horizon = self._check(problem, losses.n_rounds)
        number, region, linear = self.experts_for(horizon), problem.region, problem.linear
        sizes, penalties = tables(
            self.schedule, round_numbers(1, horizon + 1), horizon, self.scales_for(horizon), self.shared_penalties
        )
        points, experts = np.empty((horizon, problem.dimension)), np.tile(problem.first_point(first), (number, 1))
        rows = make_rows(linear.matrix, linear.bounds, region.region)
        queues, weights = np.zeros((number, problem.n_constraints)), first_weights(number)
        used = (losses.curvature, self.rate_for(horizon))
        run_rounds(points, experts, queues, weights, losses.linear, rows, region, sizes, penalties, *used)
        return points


def first_weights(n_experts: int) -> Vector:
    """Return w_{i,1} = (N + 1) / (i (i + 1) N), (N,), which add up to 1."""
    at = round_numbers(1, n_experts)
    weights: Vector = (n_experts + 1.0) / (at * (at + 1.0) * n_experts)
    return weights
