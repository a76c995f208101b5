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

    A linear programme where the losses are linear, else one projection; the comparator of the static regret.

    Raises
    ------
    ConfigError : lengths differ, the constraints are not linear, or there is no least value
    """
    _check(problem, losses)
    if losses.curvature == 0.0:
        total: Vector = lowest_feasible(problem, losses.linear.sum(axis=0, keepdims=True))[0]
        return total
    return nearest_feasible(problem, -losses.linear.mean(axis=0) / (2.0 * losses.curvature))


def dynamic_optima(problem: Problem, losses: QuadraticLosses) -> Matrix:
    """Return for every round a point that minimises f_t over the set and its linear constraints, (T, p).

    In the plane all rounds at once, by sides and corners; elsewhere one linear programme for all, or a projection each.
    """
    _check(problem, losses)
    flat = problem.dimension == 2 and not isinstance(problem.region, Ball) and problem.region.bounded
    if losses.curvature == 0.0:
        if not flat:
            return lowest_feasible(problem, losses.linear)
        ends = corners(*inequalities(problem))
        best: Matrix = ends[(losses.linear @ ends.T).argmin(axis=1)]
        return best
    free = -losses.linear / (2.0 * losses.curvature)
    if flat:
        return nearest_in_plane(*inequalities(problem), free)
    return np.array([nearest_feasible(problem, point) for point in free])


def static_regret(problem: Problem, losses: QuadraticLosses, points: Matrix) -> float:
    """Return the regret of points (T, p) against the best fixed point that satisfies the constraints."""
    return regret(losses, points, static_optimum(problem, losses)[None, :])


def dynamic_regret(problem: Problem, losses: QuadraticLosses, points: Matrix) -> float:
    """Return the regret of points (T, p) against the best feasible point of every round."""
    return regret(losses, points, dynamic_optima(problem, losses))


def _check(problem: Problem, losses: QuadraticLosses) -> None:
    if problem.dimension != losses.dimension:
        raise ConfigError(
            f"the losses have {losses.dimension} coordinates, but points of the set have {problem.dimension}."
        )
