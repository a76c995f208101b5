"""Offline optima of quadratic losses, exact: the best point in hindsight, and the best one of every round."""

from __future__ import annotations

import numpy as np

from okl.errors import ConfigError
from okl.oco.constraints import Matrix
from okl.oco.losses import QuadraticLosses
from okl.oco.metrics import regret
from okl.oco.polyhedra import corners, inequalities, lowest_feasible, nearest_feasible, nearest_in_plane
from okl.oco.problem import Problem
from okl.oco.sets import Ball, Vector


def static_optimum(problem: Problem, losses: QuadraticLosses) -> Vector:
    """Return a point that minimises sum_t f_t over the set and its linear constraints, (p,).

    A linear programme where the losses are linear, in the plane by corners; else one projection. The comparator of the
    static regret.

    Raises
    ------
    ConfigError : lengths differ, the constraints are not linear, or there is no least value
    """
    _check(problem, losses)
    if losses.curvature == 0.0:
        total = losses.linear.sum(axis=0, keepdims=True)
        best: Vector = (_lowest_corners if _is_flat(problem) else lowest_feasible)(problem, total)[0]
        return best
    return nearest_feasible(problem, -losses.linear.mean(axis=0) / (2.0 * losses.curvature))


def dynamic_optima(problem: Problem, losses: QuadraticLosses) -> Matrix:
    """Return for every round a point that minimises f_t over the set and its linear constraints, (T, p).

    In the plane all rounds at once, by sides and corners; elsewhere one linear programme for all, or a projection each.
    """
    _check(problem, losses)
    if losses.curvature == 0.0:
        return (_lowest_corners if _is_flat(problem) else lowest_feasible)(problem, losses.linear)
    free = -losses.linear / (2.0 * losses.curvature)
    if _is_flat(problem):
        return nearest_in_plane(*inequalities(problem), free)
    return np.array([nearest_feasible(problem, point) for point in free])


def static_regret(problem: Problem, losses: QuadraticLosses, points: Matrix) -> float:
    """Return the regret of points (T, p) against the best fixed point that satisfies the constraints."""
    return regret(losses, points, static_optimum(problem, losses)[None, :])


def dynamic_regret(problem: Problem, losses: QuadraticLosses, points: Matrix) -> float:
    """Return the regret of points (T, p) against the best feasible point of every round."""
    return regret(losses, points, dynamic_optima(problem, losses))


def _is_flat(problem: Problem) -> bool:
    """Whether corners tell all of the set: it is bounded, in the plane, and no ball."""
    return problem.dimension == 2 and not isinstance(problem.region, Ball) and problem.region.bounded


def _lowest_corners(problem: Problem, directions: Matrix) -> Matrix:
    """Return for every direction (T, 2) the corner where it is least."""
    ends = corners(*inequalities(problem))
    best: Matrix = ends[(directions @ ends.T).argmin(axis=1)]
    return best


def _check(problem: Problem, losses: QuadraticLosses) -> None:
    if problem.dimension != losses.dimension:
        raise ConfigError(
            f"the losses have {losses.dimension} coordinates, but points of the set have {problem.dimension}."
        )
