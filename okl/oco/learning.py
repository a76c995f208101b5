"""Rounds of points and their queues: one, for constraints of either kind, or all of a run, compiled."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from okl.compiled.ocorounds import run_experts
from okl.compiled.ocorows import Rows, make_rows, make_work
from okl.errors import ConfigError
from okl.oco.constraints import Constraints, LinearConstraints, Matrix
from okl.oco.cuts import solve_by_cuts
from okl.oco.sets import ConvexSet, Vector


@dataclass(frozen=True, eq=False)
class Stepper:
    """Learns rounds over a set with constraints: compiled if they are linear, by cuts if not.

    Parameters
    ----------
    region, constraints : of the problem, or of the round
    """

    region: ConvexSet
    constraints: Constraints
    rows: Rows | None = field(init=False, repr=False)

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
            raise ConfigError(f"a subgradient takes {point.size} finite numbers, but got {subgradient!r}.")
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
    rows: Rows,
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
