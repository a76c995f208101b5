"""Projections onto the sets of online convex optimisation, and how they change with what is projected.

The Jacobian of every projection is scale (D - s s'), with a diagonal D of zeros and ones and one vector s: that is all
a Newton step in the dual of a step needs.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled_row

BOX: Final = 0
BALL: Final = 1
SIMPLEX: Final = 2

Vector = NDArray[np.float64]


class Region(NamedTuple):
    """A set: low <= x <= high, or the ball about low, or x >= 0 that adds up to size.

    kind : BOX, BALL or SIMPLEX
    low, high : (p,) float64, the bounds of a box; both the centre of a ball; zeros for a simplex
    size : radius of a ball, total of a simplex
    """

    kind: int
    low: Vector
    high: Vector
    size: float


@compiled_row
def project_box(point: Vector, low: Vector, high: Vector) -> None:
    """Clip a point in place."""
    for j in range(point.shape[0]):
        point[j] = min(max(point[j], low[j]), high[j])


@compiled_row
def project_ball(point: Vector, centre: Vector, radius: float) -> None:
    """Pull a point to the sphere in place, if it lies outside."""
    squared = 0.0
    for j in range(point.shape[0]):
        squared += (point[j] - centre[j]) ** 2
    if squared > radius * radius:
        factor = radius / math.sqrt(squared)
        for j in range(point.shape[0]):
            point[j] = centre[j] + factor * (point[j] - centre[j])


@compiled_row
def _threshold(point: Vector, total: float) -> float:
    """Return tau with sum_j [point_j - tau]_+ = total: Newton's method from below, at most p steps and mostly five."""
    size = point.shape[0]
    tau = -total
    for j in range(size):
        tau += point[j]
    tau /= size
    active = size
    while True:
        above, n_above = -total, 0
        for j in range(size):
            if point[j] > tau:
                above += point[j]
                n_above += 1
        # rounding may leave none above when one coordinate holds all of the total
        if n_above == 0 or n_above == active:
            return float(tau)
        tau = above / n_above
        active = n_above


@compiled_row
def project_simplex(point: Vector, total: float) -> None:
    """Shift a point down to the simplex, in place."""
    tau = _threshold(point, total)
    for j in range(point.shape[0]):
        point[j] = max(point[j] - tau, 0.0)


@compiled_row
def project(point: Vector, region: Region) -> None:
    """Replace a point (p,) by the nearest one of the set, in place.

    Source of the simplex: Michelot, J. Optim. Theory Appl. 50, 1986: the threshold of the coordinates still above it.
    """
    if region.kind == BOX:
        project_box(point, region.low, region.high)
    elif region.kind == BALL:
        project_ball(point, region.low, region.size)
    else:
        project_simplex(point, region.size)
