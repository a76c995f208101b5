"""Algorithm 1: a queue of clipped violations, weighed in every step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from okl.compiled.ocorows import make_rows
from okl.oco.constraints import Constraints, Matrix
from okl.oco.learning import Stepper, run_rounds
from okl.oco.losses import QuadraticLosses
from okl.oco.problem import Problem
from okl.oco.roundsteps import round_numbers, schedule_rounds
from okl.oco.schedules import KnownHorizon, Schedule, check_schedule
from okl.oco.sets import Vector


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
