"""Exact answers on {x in X : A x <= b}: the nearest point, the lowest point of a line, in the plane for all rounds."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.optimize import brentq, linprog, nnls
from scipy.sparse import csr_array, kron
from scipy.sparse import eye_array as identity

from okl.errors import ConfigError
from okl.oco.constraints import Matrix
from okl.oco.problem import Problem
from okl.oco.sets import Ball, Box, Simplex, Vector

_FEASIBLE = 1e-9
_MOST = 1e12  # of the length of a step along a direction, in units of the set


def inequalities(problem: Problem) -> tuple[Matrix, Vector]:
    """Return all of Ax <= b and of the set but for a ball as rows (n, p) and bounds (n,), rows of length 1."""
    rows, bounds = [problem.linear.matrix], [problem.linear.bounds]
    region, unit = problem.region, np.eye(problem.dimension)
    if isinstance(region, Box):
        low, high = np.isfinite(region.low), np.isfinite(region.high)
        rows += [unit[high], -unit[low]]
        bounds += [region.high[high], -region.low[low]]
    elif isinstance(region, Simplex):
        ones = np.ones((1, problem.dimension))
        rows += [-unit, ones, -ones]
        bounds += [np.zeros(problem.dimension), np.array([region.total]), np.array([-region.total])]
    matrix, limits = np.vstack(rows), np.concatenate(bounds)
    lengths = np.linalg.norm(matrix, axis=1)
    kept = lengths > 0.0  # a row of zeros says nothing: the problem is feasible
    return matrix[kept] / lengths[kept, None], limits[kept] / lengths[kept]


def _nearest(matrix: Matrix, limits: Vector, point: Vector) -> Vector:
    """The point nearest to a given one with matrix x <= limits.

    The shift is the residual of a nonnegative least-squares problem, which ends after finitely many steps: Lawson &
    Hanson, Solving Least Squares Problems, 1974, chapter 23, problem LDP.
    """
    slack = limits - matrix @ point
    if not slack.size or slack.min() >= 0.0:
        return point
    scale = -float(slack.min())  # at most the length of the shift: the residual keeps its digits
    system = np.vstack([-matrix.T, -slack[None, :] / scale])
    target = np.append(np.zeros(point.size), 1.0)
    weights, _ = nnls(system, target)
    residual = system @ weights - target
    nearest: Vector = point - scale * residual[:-1] / residual[-1]
    return nearest


def nearest_feasible(problem: Problem, point: Vector) -> Vector:
    """Return the point of the set with A x <= b that is nearest to a given one, (p,)."""
    matrix, limits = inequalities(problem)
    region = problem.region
    found = _nearest(matrix, limits, point)
    if not isinstance(region, Ball) or np.linalg.norm(found - region.centre) <= region.radius:
        return found

    def pulled(factor: float) -> Vector:
        return _nearest(matrix, limits, factor * point + (1.0 - factor) * region.centre)

    def beyond(factor: float) -> float:
        return float(np.linalg.norm(pulled(factor) - region.centre)) - region.radius

    # the multiplier of the ball pulls what is projected to the centre, by a factor 1 / (1 + multiplier)
    return pulled(brentq(beyond, 0.0, 1.0, xtol=1e-15, rtol=1e-14)) if beyond(0.0) < 0.0 else pulled(0.0)


def lowest_feasible(problem: Problem, directions: Matrix) -> Matrix:
    """Return for every direction (T, p) a point of the set with A x <= b where <direction, x> is least, (T, p).

    Raises
    ------
    ConfigError : there is none, the set being unbounded
    """
    if isinstance(problem.region, Ball):
        return np.array([_lowest_in_ball(problem, direction) for direction in directions])
    matrix, limits = inequalities(problem)
    blocks = kron(identity(len(directions)), csr_array(matrix), format="csr")
    free = (None, None)
    found = linprog(directions.ravel(), A_ub=blocks, b_ub=np.tile(limits, len(directions)), bounds=free)
    if found.x is None:
        raise ConfigError(f"the losses have no least value: {found.message} Give the box finite bounds.")
    lowest: Matrix = found.x.reshape(directions.shape)
    return lowest


def _lowest_in_ball(problem: Problem, direction: Vector) -> Vector:
    region = problem.region
    assert isinstance(region, Ball)
    matrix, limits = inequalities(problem)
    length = float(np.linalg.norm(direction))
    if length == 0.0:
        return nearest_feasible(problem, region.centre)

    def moved(log_step: float) -> Vector:
        return _nearest(matrix, limits, region.centre - np.exp(log_step) * region.radius / length * direction)

    def beyond(log_step: float) -> float:
        return float(np.linalg.norm(moved(log_step) - region.centre)) - region.radius

    low, high = -np.log(_MOST), np.log(_MOST) / 2.0
    if beyond(low) >= 0.0 or beyond(high) <= 0.0:
        return moved(low if beyond(low) >= 0.0 else high)
    return moved(brentq(beyond, low, high, xtol=1e-15, rtol=1e-14))


def corners(matrix: Matrix, limits: Vector) -> Matrix:
    """Return the corners of {x in R^2 : matrix x <= limits}, (n, 2)."""
    found = []
    for pair in combinations(range(len(limits)), 2):
        rows = matrix[list(pair)]
        if abs(np.linalg.det(rows)) > 1e-14:
            point = np.linalg.solve(rows, limits[list(pair)])
            if (matrix @ point - limits).max() <= _FEASIBLE:
                found.append(point)
    return np.array(found).reshape(-1, 2)


def nearest_in_plane(matrix: Matrix, limits: Vector, points: Matrix) -> Matrix:
    """Return the nearest point of {x in R^2 : matrix x <= limits} for each of (T, 2): itself, on a side, a corner."""
    sides = points[:, None, :] - (points @ matrix.T - limits)[:, :, None] * matrix[None, :, :]
    ends = np.broadcast_to(corners(matrix, limits), (len(points), len(corners(matrix, limits)), 2))
    candidates = np.concatenate([points[:, None, :], sides, ends], axis=1)
    outside = ((candidates @ matrix.T - limits) > _FEASIBLE).any(axis=2)
    distances = np.where(outside, np.inf, ((candidates - points[:, None, :]) ** 2).sum(axis=2))
    nearest: Matrix = candidates[np.arange(len(points)), distances.argmin(axis=1)]
    return nearest
