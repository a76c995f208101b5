"""Improved Ader of Zhang, Lu & Zhou: experts that project onto the constraints, so that none is ever violated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from okl.checks import check_at_least, check_positive
from okl.compiled.ocorectified import run_projected
from okl.compiled.ocorounds import mix_experts
from okl.compiled.ocorows import make_rows, make_work
from okl.errors import ConfigError
from okl.oco.constraints import Constraints, Matrix
from okl.oco.losses import QuadraticLosses
from okl.oco.methods.algorithm2 import first_weights
from okl.oco.methods.weighted import as_slope
from okl.oco.polyhedra import nearest_feasible
from okl.oco.problem import Problem
from okl.oco.sets import Vector

_PRICE = 1e6  # of a constraint: by far more than a projection asks for unless rows are nearly parallel


@dataclass(frozen=True, eq=False)
class AderState:
    """What evolves: a value that no method writes into.

    problem, horizon : as given; round : t >= 1; point : (p,) x_t; experts : (N, p); weights : (N,)
    """

    problem: Problem
    horizon: int
    round: int
    point: Vector
    experts: Matrix
    weights: Vector


@dataclass(frozen=True)
class ImprovedAder:
    """Gradient descent with many step sizes on linearised losses, each projected onto set and constraints, mixed.

    x_{i,t+1} = Pi(x_{i,t} - eta_i df_t(x_t)),  w_{i,t+1} ~ w_{i,t} exp(-alpha <df_t(x_t), x_{i,t} - x_t>)

    with eta_i = 2^(i-1) D / G sqrt(7 / (2 T)), N = ceil(log2(1 + 4 T / 7) / 2) + 1, alpha = sqrt(2 / T) / (G D). Regret
    against any comparators grows as sqrt(T (1 + P_T)); what it costs is a projection onto all constraints a round.

    Parameters
    ----------
    subgradient_bound : G > 0, of the losses

    Source: Zhang, Lu & Zhou, NeurIPS 2018, Algorithms 3 and 4 (Improved Ader), Theorem 4.
    """

    subgradient_bound: float

    name = "Improved Ader"

    def __post_init__(self) -> None:
        check_positive("subgradient_bound", self.subgradient_bound)

    def experts_for(self, horizon: int) -> int:
        """Return N."""
        return math.ceil(0.5 * math.log2(1.0 + 4.0 * horizon / 7.0)) + 1

    def start(self, problem: Problem, horizon: int | None = None, first: Vector | None = None) -> AderState:
        """Return the state before the first round: all experts at the feasible point nearest to the first one.

        Raises
        ------
        ConfigError : no horizon, an unbounded set, constraints that are not linear, a first point outside the set
        """
        if horizon is None:
            raise ConfigError("ImprovedAder takes the number of rounds: give a horizon.")
        check_at_least("horizon", horizon, 1)
        if not problem.region.bounded or problem.region.diameter == 0.0:
            raise ConfigError("ImprovedAder takes a bounded set of more than one point: give the box finite bounds.")
        number = self.experts_for(horizon)
        experts = np.tile(nearest_feasible(problem, problem.first_point(first)), (number, 1))
        weights, point = first_weights(number), np.empty(problem.dimension)
        mix_experts(point, experts, weights)
        return AderState(problem, horizon, 1, point, experts, weights)

    def play(self, state: AderState) -> Vector:
        """Return x_t, (p,)."""
        return state.point

    def learn(self, state: AderState, subgradient: Vector, constraints: Constraints | None = None) -> AderState:
        """Return the state after a round; constraints cannot change: a projection keeps to those of the problem.

        Raises
        ------
        ConfigError : constraints of the round were given
        """
        if constraints is not None:
            raise ConfigError("ImprovedAder projects onto the problem's constraints: they cannot change.")
        problem, slope = state.problem, as_slope(subgradient, state.point.size)
        slope.setflags(write=False)  # as rows of losses are: no second compilation
        points, experts, weights = np.empty((2, problem.dimension)), state.experts.copy(), state.weights.copy()
        self._fill(points, experts, weights, problem, slope[None, :], 0.0, state.horizon)
        return replace(state, round=state.round + 1, point=points[1], experts=experts, weights=weights)

    def run(self, problem: Problem, losses: QuadraticLosses, first: Vector | None = None) -> Matrix:
        """Return the points of all rounds, (n_rounds, p)."""
        state, points = self.start(problem, losses.n_rounds, first), np.empty((losses.n_rounds, problem.dimension))
        self._fill(points, state.experts, state.weights, problem, losses.linear, losses.curvature, losses.n_rounds)
        return points

    def _fill(
        self,
        points: Matrix,
        experts: Matrix,
        weights: Vector,
        problem: Problem,
        linear: Matrix,
        curvature: float,
        horizon: int,
    ) -> None:
        """Write the mixed points (n, p), the first of which the experts are at; experts and weights change in place."""
        rows, region = problem.linear, problem.region.region
        run_projected(
            points,
            experts,
            weights,
            np.empty(weights.size),
            np.empty(problem.dimension),
            make_work(rows.n_constraints, problem.dimension),
            linear,
            make_rows(rows.matrix, rows.bounds, region),
            region,
            np.full(rows.n_constraints, _PRICE),
            self._sizes(problem, horizon),
            curvature,
            self._rate(problem, horizon),
        )

    def _sizes(self, problem: Problem, horizon: int) -> Vector:
        """eta_i, (N,)."""
        least = problem.region.diameter / self.subgradient_bound * math.sqrt(3.5 / horizon)
        return np.array([2.0**i * least for i in range(self.experts_for(horizon))])

    def _rate(self, problem: Problem, horizon: int) -> float:
        """alpha."""
        return math.sqrt(2.0 / horizon) / (self.subgradient_bound * problem.region.diameter)
