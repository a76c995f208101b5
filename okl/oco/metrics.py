"""How a run did: regret, the four forms of constraint violation, path length, and how fast a figure grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from okl.errors import ConfigError
from okl.oco.constraints import Constraints, LinearConstraints, Matrix
from okl.oco.losses import Losses, QuadraticLosses
from okl.oco.sets import Vector


@dataclass(frozen=True)
class Violation:
    """How far points x_1 .. x_T went beyond constraints g(x) <= 0.

    net : ||[sum_t g(x_t)]_+||, where later slack makes good: equation (3)
    summed : ||sum_t [g(x_t)]_+||: equation (4)
    squared : sum_t ||[g(x_t)]_+||^2: equation (5)
    cumulative : sum_t ||[g(x_t)]_+||: equation (6)
    largest : max_t ||[g(x_t)]_+||

    Source: Yi et al., ICML 2021, section 1.
    """

    net: float
    summed: float
    squared: float
    cumulative: float
    largest: float


def constraint_values(constraints: Constraints, points: Matrix) -> Matrix:
    """Return g at every point, (T, m), for points (T, p)."""
    if isinstance(constraints, LinearConstraints):
        values: Matrix = points @ constraints.matrix.T - constraints.bounds
        return values
    return np.array([constraints.values(point) for point in points])


def violation_of(values: Matrix) -> Violation:
    """Return all forms of violation of constraint values g(x_t), (T, m)."""
    excess = np.maximum(values, 0.0)
    norms = np.linalg.norm(excess, axis=1)
    return Violation(
        net=float(np.linalg.norm(np.maximum(values.sum(axis=0), 0.0))),
        summed=float(np.linalg.norm(excess.sum(axis=0))),
        squared=float((norms**2).sum()),
        cumulative=float(norms.sum()),
        largest=float(norms.max(initial=0.0)),
    )


def losses_at(losses: Losses, points: Matrix) -> Vector:
    """Return f_t(points_t), (T,); a single point (1, p) is taken in every round."""
    points = np.broadcast_to(points, (losses.n_rounds, points.shape[1]))
    if isinstance(losses, QuadraticLosses):
        return losses.values(np.ascontiguousarray(points))
    return np.array([losses.value(at, point) for at, point in enumerate(points)])


def regret(losses: Losses, points: Matrix, comparators: Matrix) -> float:
    """Return sum_t f_t(x_t) - sum_t f_t(y_t): equation (1).

    Parameters
    ----------
    losses : of T rounds
    points : (T, p) x_t
    comparators : (T, p) y_t; (1, p) for one in all rounds, as the static regret has it
    """
    return float((losses_at(losses, points) - losses_at(losses, comparators)).sum())


def path_length(comparators: Matrix) -> float:
    """Return P_T = sum_t ||y_{t+1} - y_t|| of comparators (T, p)."""
    return float(np.linalg.norm(np.diff(comparators, axis=0), axis=1).sum())


def growth_exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the slope of log value against log size by least squares: values grow as size^slope.

    Raises
    ------
    ConfigError : fewer than two sizes, or a number that has no logarithm

    >>> round(growth_exponent([10, 100, 1000], [5, 50, 500]), 6)
    1.0
    """
    x, y = np.asarray(sizes, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if x.size < 2 or x.shape != y.shape or min(x.min(), y.min()) <= 0.0:
        raise ConfigError(
            f"a growth exponent takes as many values as sizes, two or more, all above 0; got {list(x)} and {list(y)}."
        )
    slope, _ = np.polyfit(np.log(x), np.log(y), 1)
    return float(slope)
