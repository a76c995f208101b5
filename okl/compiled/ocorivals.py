"""Rounds of the methods that add weighted constraints to the gradient and project: one loop, three rules of weights."""

from __future__ import annotations

from typing import Final

import numpy as np

from okl.compiled.door import compiled
from okl.compiled.ocolosses import quadratic_subgradient
from okl.compiled.ocorows import Matrix, Vector, excesses
from okl.compiled.regions import Region, project

QUEUE: Final = 0
PENALTY: Final = 1
ASCENT: Final = 2


@compiled
def weigh(weights: Vector, multipliers: Vector, excess: Vector, rule: int, damping: float, dual_step: float) -> None:
    """Write how much each constraint counts (m,), and move the multipliers (m,) in place.

    QUEUE: q <- max(-d g, q + d g) unless damping = 0, weight d (q + d g). PENALTY: weight [g]_+ / damping, kept as the
    multiplier. ASCENT: weight q, then q <- [q + d (g - damping q)]_+. g is the excess, d the dual step.
    """
    for i in range(excess.shape[0]):
        if rule == QUEUE:
            scaled = dual_step * excess[i]
            if damping > 0.0:
                multipliers[i] = max(-scaled, multipliers[i] + scaled)
            weights[i] = dual_step * (multipliers[i] + scaled)
        elif rule == PENALTY:
            multipliers[i] = max(0.0, excess[i]) / damping
            weights[i] = multipliers[i]
        else:
            weights[i] = multipliers[i]
            multipliers[i] = max(0.0, multipliers[i] + dual_step * (excess[i] - damping * multipliers[i]))


@compiled
def descend(point: Vector, subgradient: Vector, weights: Vector, rows: Matrix, region: Region, step: float) -> None:
    """Move a point (p,) in place to the projection of x - step (subgradient + rows' weights)."""
    for j in range(point.shape[0]):
        slope = subgradient[j]
        for i in range(weights.shape[0]):
            slope += weights[i] * rows[i, j]
        point[j] -= step * slope
    project(point, region)


@compiled
def run_weighted(
    points: Matrix,
    multipliers: Vector,
    matrix: Matrix,
    bounds: Vector,
    linear: Matrix,
    curvature: float,
    region: Region,
    rule: int,
    schedule: Matrix,
) -> None:
    """Write the points of all rounds (T, p), the first of which is given; the multipliers (m,) change in place.

    matrix, bounds : constraints (m, p), (m,); linear, curvature : losses; schedule : (3, T), step, damping, dual step
    """
    n_rounds, size = points.shape
    excess, weights, subgradient = np.empty(bounds.shape[0]), np.empty(bounds.shape[0]), np.empty(size)
    point = points[0].copy()
    for t in range(n_rounds):
        points[t] = point
        quadratic_subgradient(subgradient, point, linear[t], curvature)
        excesses(excess, point, matrix, bounds)
        weigh(weights, multipliers, excess, rule, schedule[1, t], schedule[2, t])
        descend(point, subgradient, weights, matrix, region, schedule[0, t])
