"""The surrogate of Sinha & Vaze, whose constraints may change adversarially."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from okl.checks import check_at_least, check_positive
from okl.compiled.ocosurrogate import run_surrogate, surrogate_step
from okl.errors import ConfigError
from okl.oco.constraints import Constraints, Matrix
from okl.oco.losses import QuadraticLosses
from okl.oco.methods.weighted import as_slope, excess_at
from okl.oco.problem import Problem
from okl.oco.sets import Vector


@dataclass(frozen=True, eq=False)
class SurrogateState:
    """What evolves: a value that no method writes into.

    problem, horizon : as given; round : t >= 1, of the point that comes next
    point : (p,) x_t; sums : (2,) Q_{t-1} and the squared norms of all subgradients of surrogates so far
    """

    problem: Problem
    horizon: int
    round: int
    point: Vector
    sums: Vector


@dataclass(frozen=True)
class SinhaVaze:
    """Adaptive gradient descent on surrogates that price the violation exponentially.

    Q_t = Q_{t-1} + beta [max_i g_i(x_t)]_+
    d_t = beta df_t(x_t) + beta lambda exp(lambda Q_t) d[max_i g_i(x_t)]_+
    x_{t+1} = Pi_X(x_t - D / sqrt(2 sum_{s <= t} ||d_s||^2) d_t)

    with beta = 1 / (2 G D) and lambda = 1 / (2 sqrt(T)), D the diameter of the set. Regret grows as T^(1/2) and the
    violation (6) as T^(1/2) log T, for constraints that an adversary chooses anew in every round.

    Parameters
    ----------
    subgradient_bound : G > 0, of losses and constraints over the set

    Source: Sinha & Vaze, NeurIPS 2024, Algorithm 1 with the parameters of Theorem 1.
    """

    subgradient_bound: float

    name = "Sinha & Vaze"

    def __post_init__(self) -> None:
        check_positive("subgradient_bound", self.subgradient_bound)

    def start(self, problem: Problem, horizon: int | None = None, first: Vector | None = None) -> SurrogateState:
        """Return the state before the first round.

        Raises
        ------
        ConfigError : no horizon, an unbounded set, or a first point outside it
        """
        if horizon is None:
            raise ConfigError("SinhaVaze takes the number of rounds: give a horizon.")
        check_at_least("horizon", horizon, 1)
        if not problem.region.bounded or problem.region.diameter == 0.0:
            raise ConfigError("SinhaVaze takes a bounded set of more than one point: give the box finite bounds.")
        return SurrogateState(problem, horizon, 1, problem.first_point(first), np.zeros(2))

    def play(self, state: SurrogateState) -> Vector:
        """Return x_t, (p,)."""
        return state.point

    def learn(
        self, state: SurrogateState, subgradient: Vector, constraints: Constraints | None = None
    ) -> SurrogateState:
        """Return the state after a round: see `okl.oco.methods.face`."""
        rows = state.problem.constraints if constraints is None else constraints
        point, sums = state.point.copy(), state.sums.copy()
        normals = np.ascontiguousarray(rows.subgradients(state.point))
        excess, slope = excess_at(rows, state.point), as_slope(subgradient, state.point.size)
        numbers = self._numbers(state.problem, state.horizon)
        surrogate_step(point, sums, slope, excess, normals, state.problem.region.region, *numbers)
        return replace(state, round=state.round + 1, point=point, sums=sums)

    def run(self, problem: Problem, losses: QuadraticLosses, first: Vector | None = None) -> Matrix:
        """Return the points of all rounds, (n_rounds, p)."""
        state, rows = self.start(problem, losses.n_rounds, first), problem.linear
        points = np.empty((losses.n_rounds, problem.dimension))
        points[0] = state.point
        numbers = self._numbers(problem, losses.n_rounds)
        region, linear = problem.region.region, losses.linear
        run_surrogate(points, state.sums, rows.matrix, rows.bounds, linear, losses.curvature, region, *numbers)
        return points

    def _numbers(self, problem: Problem, horizon: int) -> tuple[float, float, float]:
        """beta, lambda, and what a step is before it is divided by the root."""
        diameter = problem.region.diameter
        return 0.5 / (self.subgradient_bound * diameter), 0.5 / math.sqrt(horizon), diameter / math.sqrt(2.0)
