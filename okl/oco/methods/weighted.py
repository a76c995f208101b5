"""What the earlier primal-dual methods share: weights of constraints, a gradient step, a projection onto the set."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from okl.checks import check_at_least
from okl.compiled.ocorivals import QUEUE, descend, run_weighted, weigh
from okl.compiled.ocorows import excesses
from okl.errors import ConfigError
from okl.oco.constraints import Constraints, LinearConstraints, Matrix
from okl.oco.losses import QuadraticLosses
from okl.oco.problem import Problem
from okl.oco.sets import Vector


@dataclass(frozen=True, eq=False)
class WeightedState:
    """What evolves: a value that no method writes into.

    problem, horizon : as given; round : t >= 1, of the point that comes next
    point : (p,) x_t; multipliers : (m,) one a constraint, after round t - 1
    """

    problem: Problem
    horizon: int | None
    round: int
    point: Vector
    multipliers: Vector


@dataclass(frozen=True)
class Weighted:
    """x_{t+1} = Pi_X(x_t - eta_t (df_t(x_t) + sum_i w_i dg_i(x_t))): a base for methods that say eta_t and w.

    A method names its rule of weights (see `okl.compiled.ocorivals.weigh`), and gives `schedule`.
    """

    @property
    def rule(self) -> int:
        """Which of the rules of weights."""
        raise NotImplementedError

    @property
    def needs_horizon(self) -> bool:
        """Whether the number of rounds must be known."""
        return False

    def schedule(self, first: int, last: int, horizon: int | None) -> Matrix:
        """Return step, damping and dual step of rounds first .. last, (3, last - first + 1)."""
        raise NotImplementedError

    def start(self, problem: Problem, horizon: int | None = None, first: Vector | None = None) -> WeightedState:
        """Return the state before the first round.

        Raises
        ------
        ConfigError : the method takes a horizon and got none, or the first point is not of the set
        """
        if self.needs_horizon:
            if horizon is None:
                raise ConfigError(f"{type(self).__name__} takes the number of rounds: give a horizon.")
            check_at_least("horizon", horizon, 1)
        if self.rule == QUEUE and not isinstance(problem.constraints, LinearConstraints):
            raise ConfigError(f"{type(self).__name__} minimises over the constraints: it takes linear ones.")
        return WeightedState(problem, horizon, 1, problem.first_point(first), np.zeros(problem.n_constraints))

    def play(self, state: WeightedState) -> Vector:
        """Return x_t, (p,)."""
        return state.point

    def learn(self, state: WeightedState, subgradient: Vector, constraints: Constraints | None = None) -> WeightedState:
        """Return the state after a round: see `okl.oco.methods.face`."""
        rows = state.problem.constraints if constraints is None else constraints
        step, damping, dual_step = self.schedule(state.round, state.round, state.horizon)[:, 0]
        excess = excess_at(rows, state.point)
        point, multipliers, weights = state.point.copy(), state.multipliers.copy(), np.empty(len(excess))
        weigh(weights, multipliers, excess, self.rule, damping, dual_step)
        normals = np.ascontiguousarray(rows.subgradients(state.point))
        descend(point, as_slope(subgradient, point.size), weights, normals, state.problem.region.region, step)
        return replace(state, round=state.round + 1, point=point, multipliers=multipliers)

    def run(self, problem: Problem, losses: QuadraticLosses, first: Vector | None = None) -> Matrix:
        """Return the points of all rounds, (n_rounds, p)."""
        state, rows = self.start(problem, losses.n_rounds, first), problem.linear
        points = np.empty((losses.n_rounds, problem.dimension))
        points[0] = state.point
        schedule = np.ascontiguousarray(self.schedule(1, losses.n_rounds, losses.n_rounds))
        region, linear, curvature = problem.region.region, losses.linear, losses.curvature
        dual = state.multipliers
        run_weighted(points, dual, rows.matrix, rows.bounds, linear, curvature, region, self.rule, schedule)
        return points


def excess_at(rows: Constraints, point: Vector) -> Vector:
    """Return g(point), (m,); of linear constraints with the bits that whole runs see."""
    if not isinstance(rows, LinearConstraints):
        return rows.values(point)
    excess = np.empty(rows.n_constraints)
    excesses(excess, point, rows.matrix, rows.bounds)
    return excess


def constant_rows(first: int, last: int, *values: float) -> Matrix:
    """Return rows of one value each, (n, last - first + 1)."""
    rows: Matrix = np.repeat(np.array(values, dtype=np.float64)[:, None], last - first + 1, axis=1)
    return rows


def as_slope(subgradient: object, size: int) -> Vector:
    """Return a copy of a subgradient (size,), or raise ConfigError if it has another shape or is not finite."""
    slope = np.array(subgradient, dtype=np.float64)  # writable: as scratch of whole runs is
    if slope.shape != (size,) or not np.isfinite(slope).all():
        raise ConfigError(f"a subgradient takes {size} finite numbers, but got {subgradient!r}.")
    return slope
