"""Whether some point of a set satisfies all constraints; if none does, which constraints cannot hold together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog, nnls

from okl.oco.constraints import Constraints, LinearConstraints, Matrix
from okl.oco.sets import Ball, Box, ConvexSet, Simplex, Vector

TOLERANCE = 1e-9  # of rows of length 1: below it, rounding cannot be told from a violation
_MOST_CUTS = 200


@dataclass(frozen=True, eq=False)
class Feasibility:
    """What is known of {x in the set : g(x) <= 0}.

    point : (p,) a point of it, within TOLERANCE; None if there is none, or none was found
    conflict : indices of constraints that cannot hold together in the set, none of which can be left out; empty unless
        that is proved
    """

    point: Vector | None
    conflict: tuple[int, ...] = ()


def _scaled(matrix: Matrix, bounds: Vector) -> tuple[Matrix, Vector]:
    lengths = np.linalg.norm(matrix, axis=1)
    lengths[lengths == 0.0] = 1.0
    return matrix / lengths[:, None], bounds / lengths


def _in_polyhedron(region: Box | Simplex, matrix: Matrix, bounds: Vector) -> Vector | None:
    """Solve min s : matrix x - s <= bounds, x in the set, s >= -1; return x, well inside, if s is at most 0."""
    n_rows, size = matrix.shape
    rows = np.hstack([matrix, np.full((n_rows, 1), -1.0)])
    objective = np.append(np.zeros(size), 1.0)
    if isinstance(region, Box):
        limits = [*zip(region.low, region.high, strict=True), (-1.0, None)]
        found = linprog(objective, A_ub=rows, b_ub=bounds, bounds=limits)
    else:
        limits = [(0.0, None)] * size + [(-1.0, None)]
        sums = np.append(np.ones(size), 0.0)[None, :]
        found = linprog(objective, A_ub=rows, b_ub=bounds, A_eq=sums, b_eq=[region.total], bounds=limits)
    if found.x is None or found.fun > TOLERANCE * (1.0 + np.abs(bounds).max()):
        return None
    point: Vector = found.x[:size]
    return point


def _in_ball(region: Ball, matrix: Matrix, bounds: Vector) -> Vector | None:
    """Return the point of the polyhedron nearest to the ball's centre if it is in the ball.

    The least distance is the residual of a nonnegative least-squares problem: Lawson & Hanson, Solving Least Squares
    Problems, 1974, chapter 23, problem LDP.
    """
    slack = (bounds - matrix @ region.centre) / region.radius
    target = np.append(np.zeros(matrix.shape[1]), 1.0)
    system = np.vstack([-matrix.T, -slack[None, :]])
    weights, length = nnls(system, target)
    if length <= TOLERANCE:
        return None
    residual = system @ weights - target
    offset = -residual[:-1] / residual[-1]
    if np.linalg.norm(offset) > 1.0 + TOLERANCE or (matrix @ offset - slack).max() > 1e-6:
        return None
    point: Vector = region.centre + region.radius * offset
    return point


def _point(region: ConvexSet, matrix: Matrix, bounds: Vector) -> Vector | None:
    if isinstance(region, Ball):
        return _in_ball(region, matrix, bounds)
    assert isinstance(region, (Box, Simplex))
    return _in_polyhedron(region, matrix, bounds)


def _least_conflict(region: ConvexSet, matrix: Matrix, bounds: Vector, groups: Iterable[int]) -> tuple[int, ...]:
    """Leave out one constraint after the other as long as the rest cannot hold together."""
    kept = np.asarray(list(groups))
    for group in sorted(set(kept.tolist())):
        others = kept != group
        if others.any() and _point(region, matrix[others], bounds[others]) is None:
            matrix, bounds, kept = matrix[others], bounds[others], kept[others]
    return tuple(sorted(set(kept.tolist())))


def find_feasible(region: ConvexSet, constraints: Constraints) -> Feasibility:
    """Find a point of the set that satisfies the constraints, or a least set of constraints that exclude each other.

    Linear constraints are decided by one linear programme, or one projection for the ball. Convex ones are cut where
    they are violated (Kelley, J. SIAM 8, 1960) until a point satisfies all or the cuts already exclude each other;
    after 200 rounds of cuts without either, the result is neither.

    Parameters
    ----------
    region : Box, Ball or Simplex
    constraints : m of them

    Returns
    -------
    Feasibility
    """
    if isinstance(constraints, LinearConstraints):
        matrix, bounds = _scaled(constraints.matrix, constraints.bounds)
        point = _point(region, matrix, bounds)
        if point is not None:
            return Feasibility(point)
        return Feasibility(None, _least_conflict(region, matrix, bounds, range(bounds.size)))
    return _by_cuts(region, constraints)


def _by_cuts(region: ConvexSet, constraints: Constraints) -> Feasibility:
    point = region.project(np.zeros(region.dimension))
    matrix, bounds = np.empty((0, region.dimension)), np.empty(0)
    groups: list[int] = []
    for _ in range(_MOST_CUTS):
        values = constraints.values(point)
        violated = np.flatnonzero(values > TOLERANCE)
        if violated.size == 0:
            return Feasibility(point)
        rows = constraints.subgradients(point)[violated]
        rows, limits = _scaled(rows, rows @ point - values[violated])
        matrix, bounds = np.vstack([matrix, rows]), np.append(bounds, limits)
        groups += violated.tolist()
        found = _point(region, matrix, bounds)
        if found is None:
            return Feasibility(None, _least_conflict(region, matrix, bounds, groups))
        point = region.project(found)
    return Feasibility(None)
