"""The rectified queue of Guo, Liu, Wei & Ying: the violation of fixed constraints stays bounded."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from okl.checks import check_positive
from okl.compiled.ocorectified import run_rectified
from okl.compiled.ocorows import make_rows, make_work
from okl.errors import ConfigError
from okl.oco.constraints import Constraints, LinearConstraints, Matrix
from okl.oco.cuts import solve_by_cuts
from okl.oco.losses import QuadraticLosses
from okl.oco.methods.weighted import WeightedState, as_slope
from okl.oco.problem import Problem
from okl.oco.roundsteps import round_numbers
from okl.oco.sets import Vector


@dataclass(frozen=True)
class Recoo:
    """A queue of clipped violations that never falls below a price that grows.

    Q_t = max(Q_{t-1} + gamma_t [g(x_t)]_+, eta_t)
    x_{t+1} = argmin over X of <df_t(x_t), x> + gamma_t <Q_t, [g(x)]_+> + alpha_t ||x - x_t||^2

    with alpha_t = sqrt(t) / alpha_0, or mu t where losses are strongly convex, gamma_t = gamma_0 t^(1/2 + epsilon) and
    eta_t = sqrt(t). The number of rounds need not be known. Regret grows as T^(1/2), or as log T; the violation (6) of
    fixed constraints stays bounded, as the sum of 1 / (gamma_t eta_t) is finite.

    Parameters
    ----------
    step_scale : alpha_0 > 0
    penalty_scale : gamma_0 > 0
    excess_exponent : epsilon > 0
    strong_convexity : mu of (19), 0 if the losses have none

    Source: Guo, Liu, Wei & Ying, NeurIPS 2022, Algorithm 1 (RECOO) and Theorems 1 and 2.
    """

    step_scale: float = 1.0
    penalty_scale: float = 1.0
    excess_exponent: float = 0.05
    strong_convexity: float = 0.0

    name = "RECOO"

    def __post_init__(self) -> None:
        check_positive("step_scale", self.step_scale)
        check_positive("penalty_scale", self.penalty_scale)
        check_positive("excess_exponent", self.excess_exponent)
        if not 0.0 <= self.strong_convexity < np.inf:
            raise ConfigError(f"strong_convexity = {self.strong_convexity!r}, but it takes a finite number from 0 on.")

    def schedule(self, first: int, last: int) -> Matrix:
        """Return 1 / alpha_t, gamma_t and eta_t of rounds first .. last, (3, last - first + 1)."""
        rounds = round_numbers(first, last)
        roots = np.sqrt(rounds)
        steps = 1.0 / (self.strong_convexity * rounds) if self.strong_convexity else self.step_scale / roots
        return np.array([steps, self.penalty_scale * roots * rounds**self.excess_exponent, roots])

    def start(self, problem: Problem, horizon: int | None = None, first: Vector | None = None) -> WeightedState:
        """Return the state before the first round; a horizon is not needed.

        Raises
        ------
        ConfigError : a first point outside the set
        """
        return WeightedState(problem, horizon, 1, problem.first_point(first), np.zeros(problem.n_constraints))

    def play(self, state: WeightedState) -> Vector:
        """Return x_t, (p,)."""
        return state.point

    def learn(self, state: WeightedState, subgradient: Vector, constraints: Constraints | None = None) -> WeightedState:
        """Return the state after a round: see `okl.oco.methods.face`."""
        rows = state.problem.constraints if constraints is None else constraints
        slope = as_slope(subgradient, state.point.size)
        if not isinstance(rows, LinearConstraints):
            return self._learn_convex(state, slope, rows)
        slope.setflags(write=False)  # as rows of losses are: no second compilation
        points, queue = np.vstack([state.point, state.point]), state.multipliers.copy()
        self._fill(points, queue, state.problem, rows, slope[None, :], 0.0, state.round)
        return replace(state, round=state.round + 1, point=points[1], multipliers=queue)

    def _learn_convex(self, state: WeightedState, slope: Vector, constraints: Constraints) -> WeightedState:
        """Return the state after a round with constraints that are not linear: its step by cuts."""
        step, penalty, least = self.schedule(state.round, state.round)[:, 0]
        queue = np.maximum(state.multipliers + penalty * np.maximum(constraints.values(state.point), 0.0), least)
        target, limits = state.point - 0.5 * step * slope, 0.5 * step * penalty * queue
        point, _ = solve_by_cuts(target, state.problem.region, constraints, limits)
        return replace(state, round=state.round + 1, point=point, multipliers=queue)

    def run(self, problem: Problem, losses: QuadraticLosses, first: Vector | None = None) -> Matrix:
        """Return the points of all rounds, (n_rounds, p)."""
        points, queue = np.empty((losses.n_rounds, problem.dimension)), np.zeros(problem.n_constraints)
        points[0] = problem.first_point(first)
        self._fill(points, queue, problem, problem.linear, losses.linear, losses.curvature, 1)
        return points

    def _fill(
        self,
        points: Matrix,
        queue: Vector,
        problem: Problem,
        constraints: LinearConstraints,
        linear: Matrix,
        curvature: float,
        first: int,
    ) -> None:
        """Write the points after the first one (n, p) in place, with the queue (m,), from round first on."""
        region, scratch, limits = problem.region.region, np.empty(problem.dimension), np.empty(queue.size)
        rows, work = make_rows(constraints.matrix, constraints.bounds, region), make_work(queue.size, scratch.size)
        schedule = np.ascontiguousarray(self.schedule(first, first + len(points) - 1))
        run_rectified(points, queue, limits, scratch, work, linear, rows, region, schedule, curvature)
