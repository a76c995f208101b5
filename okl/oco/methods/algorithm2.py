"""Algorithm 2: Algorithm 1 with many step sizes at once, mixed by exponential weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from okl.checks import check_at_least, check_positive
from okl.compiled.ocorounds import mix_experts, weigh_experts
from okl.compiled.ocorows import make_rows
from okl.errors import ConfigError
from okl.oco.constraints import Constraints, Matrix
from okl.oco.learning import Stepper, run_rounds
from okl.oco.losses import QuadraticLosses
from okl.oco.problem import Problem
from okl.oco.roundsteps import round_numbers, tables
from okl.oco.schedules import Anytime, KnownHorizon, check_schedule
from okl.oco.sets import Vector


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
                f"path_exponent = {self.path_exponent!r}, but it is between 0 and the schedule's exponent."
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
            raise ConfigError(f"{self.claim} takes the number of rounds, for the number of experts: give a horizon.")
        if not problem.region.bounded:
            raise ConfigError(
                f"{self.claim} takes a bounded set, but coordinates of the box are unbounded: "
                "give them finite bounds, or take Algorithm1(KnownHorizon(...))."
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
