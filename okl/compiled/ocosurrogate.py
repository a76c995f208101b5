"""Rounds of gradient descent on a surrogate: the loss and an exponentially growing price of the worst violation."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from okl.compiled.door import compiled
from okl.compiled.ocolosses import quadratic_subgradient
from okl.compiled.ocorows import Matrix, Vector, excesses
from okl.compiled.regions import Region, project

QUEUE: Final = 0
SQUARES: Final = 1


@compiled
def surrogate_step(
    point: Vector,
    sums: Vector,
    subgradient: Vector,
    excess: Vector,
    rows: Matrix,
    region: Region,
    scale: float,
    rate: float,
    reach: float,
) -> None:
    """Move a point (p,) and the sums (2,) in place: the queue, and squared norms of the surrogate's subgradients.

    subgradient : (p,) of the loss; excess : (m,) g at the point; rows : (m, p) subgradients of g
    scale : beta, of both; rate : of the exponential, Phi(q) = exp(rate q) - 1; reach : step times the root of the sum
    """
    worst = 0
    for i in range(1, excess.shape[0]):
        if excess[i] > excess[worst]:
            worst = i
    price = 0.0
    if excess[worst] > 0.0:
        sums[QUEUE] += scale * excess[worst]
        price = rate * math.exp(rate * sums[QUEUE])
    for j in range(point.shape[0]):
        slope = scale * (subgradient[j] + price * rows[worst, j])
        sums[SQUARES] += slope * slope
    if sums[SQUARES] > 0.0:
        step = reach * scale / math.sqrt(sums[SQUARES])
        for j in range(point.shape[0]):
            point[j] -= step * (subgradient[j] + price * rows[worst, j])
        project(point, region)


@compiled
def run_surrogate(
    points: Matrix,
    sums: Vector,
    matrix: Matrix,
    bounds: Vector,
    linear: Matrix,
    curvature: float,
    region: Region,
    scale: float,
    rate: float,
    reach: float,
) -> None:
    """Write the points of all rounds (T, p), the first of which is given; the sums (2,) change in place."""
    excess, subgradient, point = np.empty(bounds.shape[0]), np.empty(points.shape[1]), points[0].copy()
    for t in range(points.shape[0]):
        points[t] = point
        quadratic_subgradient(subgradient, point, linear[t], curvature)
        excesses(excess, point, matrix, bounds)
        surrogate_step(point, sums, subgradient, excess, matrix, region, scale, rate, reach)
