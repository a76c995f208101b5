"""Complete runs, offline optima, regret and constraint violation."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from okl.compiled.oco import violations
from okl.foundation.errors import ConfigError
from okl.foundation.validation import check_at_least
from okl.solvers.oco.methods import Method
from okl.solvers.oco.problem import (
    Constraints,
    LinearConstraints,
    Losses,
    Matrix,
    Problem,
    QuadraticLosses,
    corners,
    inequalities,
    lowest_feasible,
    nearest_feasible,
    nearest_in_plane,
    nearest_within,
)
from okl.solvers.oco.sets import Ball, Vector

# Measures: regret, constraint violation, path length and growth exponents.


@dataclass(frozen=True)
class Violation:
    """Violation of constraints g(x) <= 0 by points x_1 .. x_T.

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
        return points @ constraints.matrix.T - constraints.bounds
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
            "a growth exponent needs as many values as sizes, at least two, all above 0, but got "
            f"{list(x)} and {list(y)}."
        )
    slope, _ = np.polyfit(np.log(x), np.log(y), 1)
    return float(slope)


_MOST_CUTS = 2000
_LEVEL = 0.3  # from the bound to the least value found; convergence is proved for any share between 0 and 1
_NEAR = 1e-6  # of the mean loss: how far a comparator by cuts may be from the least one; and of the constraints


def static_optimum(problem: Problem, losses: Losses) -> Vector:
    """Return a point that minimises sum_t f_t over the set and its constraints, (p,): the static regret's comparator.

    Of quadratic losses a linear programme where they are linear, in the plane by corners; else one projection. Of
    losses by functions, or under constraints by functions, the level method with cutting planes: no constraint is above
    1e-6, and the mean loss within 1e-6 of the least one, or within that share of a mean loss above 1.

    Raises
    ------
    ConfigError : lengths differ, there is no least value, losses by functions have a set without bounds, or 2000 cuts
        do not suffice; the error has the bounds that they give
    """
    if not _has_formula(problem, losses):
        return _lowest_by_cuts(problem, losses, range(losses.n_rounds))
    assert isinstance(losses, QuadraticLosses)
    _check(problem, losses)
    if losses.curvature == 0.0:
        total = losses.linear.sum(axis=0, keepdims=True)
        best: Vector = (_lowest_corners if _is_flat(problem) else lowest_feasible)(problem, total)[0]
        return best
    return nearest_feasible(problem, -losses.linear.mean(axis=0) / (2.0 * losses.curvature))


def dynamic_optima(problem: Problem, losses: Losses) -> Matrix:
    """Return for every round a point that minimises f_t over the set and its constraints, (T, p).

    In the plane all rounds at once, by sides and corners; elsewhere one linear programme for all, or a projection each.
    Losses or constraints by functions as in `static_optimum`, round by round.
    """
    if not _has_formula(problem, losses):
        return np.array([_lowest_by_cuts(problem, losses, (at,)) for at in range(losses.n_rounds)])
    assert isinstance(losses, QuadraticLosses)
    _check(problem, losses)
    if losses.curvature == 0.0:
        return (_lowest_corners if _is_flat(problem) else lowest_feasible)(problem, losses.linear)
    free = -losses.linear / (2.0 * losses.curvature)
    if _is_flat(problem):
        return nearest_in_plane(*inequalities(problem), free)
    return np.array([nearest_feasible(problem, point) for point in free])


def static_regret(problem: Problem, losses: Losses, points: Matrix) -> float:
    """Return the regret of points (T, p) against the best fixed point that satisfies the constraints."""
    return regret(losses, points, static_optimum(problem, losses)[None, :])


def dynamic_regret(problem: Problem, losses: Losses, points: Matrix) -> float:
    """Return the regret of points (T, p) against the best feasible point of every round."""
    return regret(losses, points, dynamic_optima(problem, losses))


def _has_formula(problem: Problem, losses: Losses) -> bool:
    return isinstance(losses, QuadraticLosses) and isinstance(problem.constraints, LinearConstraints)


def _lowest_by_cuts(problem: Problem, losses: Losses, rounds: Sequence[int]) -> Vector:
    """Return a point of least mean loss of some rounds, by the level method.

    x_{k+1} is the point nearest to x_k of those of X where no cut of a constraint is above 0 and no cut of the mean
    loss above a level between the bound and the least value found. Where there is none, the level is the new bound.

    Source: Lemarechal, Nemirovskii & Nesterov, Math. Programming 69, 1995, sections 2.2 and 3.
    """
    region, constraints = problem.region, problem.constraints
    if not region.bounded:
        raise ConfigError("The best point of losses by functions needs a bounded set. Set finite bounds.")
    point = problem.first_point(None) if problem.feasible_point is None else problem.feasible_point
    loss_cuts, limit_cuts = _Cuts(region.dimension), _Cuts(region.dimension)
    best, bound, least = point, -np.inf, np.inf
    for _ in range(_MOST_CUTS):
        value = float(np.mean([losses.value(at, point) for at in rounds]))
        slope = np.asarray(np.mean([losses.subgradient(at, point) for at in rounds], axis=0))
        loss_cuts.add(slope[None], np.array([value]), point)
        bound = max(bound, value - float(np.linalg.norm(slope)) * region.diameter)  # by convexity
        limits = constraints.values(point)
        if (over := limits > 0.0).any():
            limit_cuts.add(constraints.subgradients(point)[over], limits[over], point)
        if limits.max(initial=0.0) <= _NEAR and value < least:
            best, least = point, value
        after = None
        while after is None and not least - bound <= _NEAR * max(1.0, abs(least)):
            level = bound + _LEVEL * (least - bound)
            rows, offsets = [limit_cuts.rows], [limit_cuts.offsets]
            if level < np.inf:
                rows, offsets = [*rows, loss_cuts.rows], [*offsets, loss_cuts.offsets + level]
            after = nearest_within(region, np.vstack(rows), np.concatenate(offsets), point)
            if after is None and level == np.inf:
                raise ConfigError("No point of the set satisfies the constraints together. Loosen one of them.")
            bound = level if after is None else bound
        if after is None:
            return best
        point = after
    found = f"a feasible point has the mean loss {least:.9g}" if least < np.inf else "no feasible point was found"
    raise ConfigError(
        f"After {_MOST_CUTS} cuts {found}, and no one has less than {bound:.9g}. Check that the functions are convex "
        "and return subgradients."
    )


class _Cuts:
    """Cuts rows @ x - offsets <= f(x) of convex functions: (n, p) and (n,)."""

    def __init__(self, dimension: int) -> None:
        self.rows, self.offsets = np.empty((0, dimension)), np.empty(0)

    def add(self, slopes: Matrix, values: Vector, point: Vector) -> None:
        self.rows = np.vstack([self.rows, slopes])
        self.offsets = np.append(self.offsets, slopes @ point - values)


def _is_flat(problem: Problem) -> bool:
    """Return whether the corners describe the set: it is bounded, in the plane, and not a ball."""
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


@dataclass(frozen=True, eq=False)
class Traces:
    """Losses and violations of R runs, by round.

    losses : (R, T), f_t(x_t)
    violations : (R, T), ||[g(x_t)]_+||
    """

    losses: Matrix
    violations: Matrix

    @property
    def cumulative_losses(self) -> Matrix:
        """Return sums up to every round, (R, T)."""
        return np.cumsum(self.losses, axis=1)

    @property
    def cumulative_violations(self) -> Matrix:
        """Return sums up to every round, (R, T): equation (6)."""
        return np.cumsum(self.violations, axis=1)


def play_rounds(
    method: Method, problem: Problem, losses: Losses, first: Vector | None = None, horizon: int | None = None
) -> Matrix:
    """Play all rounds one by one, for losses and constraints of any kind.

    Parameters
    ----------
    method, problem, losses : who plays, where, against what
    first : (p,) x_1, the point of the set nearest to 0 if None
    horizon : passed to the method; None for the number of losses

    Returns
    -------
    points (n_rounds, p)
    """
    points = np.empty((losses.n_rounds, problem.dimension))
    state = method.start(problem, losses.n_rounds if horizon is None else horizon, first)
    for at in range(losses.n_rounds):
        points[at] = method.play(state)
        state = method.learn(state, losses.subgradient(at, points[at]))
    return points


def trace(method: Method, problem: Problem, losses: QuadraticLosses, first: Vector | None = None) -> Traces:
    """Run once and keep only losses and violations, (1, T) each."""
    return run_many(method, [problem], [losses], first, n_threads=1)


def run_many(
    method: Method,
    problems: Sequence[Problem],
    losses: Sequence[QuadraticLosses],
    first: Vector | None = None,
    n_threads: int = 1,
) -> Traces:
    """Run a method on many problems of as many rounds; the same bits for every number of threads.

    Parameters
    ----------
    method : the same for all
    problems, losses : R of each, of T rounds
    first : (p,) x_1 of all
    n_threads : int >= 1

    Returns
    -------
    Traces, (R, T) each

    Raises
    ------
    ConfigError : not as many problems as losses, or losses of different lengths
    """
    check_at_least("n_threads", n_threads, 1)
    lengths = {each.n_rounds for each in losses}
    if len(problems) != len(losses) or len(lengths) != 1:
        raise ConfigError(
            f"{len(problems)} problems and {len(losses)} losses of {sorted(lengths)} rounds; "
            "expected one loss for each problem, all of the same length."
        )
    out = np.empty((2, len(problems), lengths.pop()))

    def one(at: int) -> None:
        points = method.run(problems[at], losses[at], first)
        rows = problems[at].linear
        out[0, at] = losses[at].values(points)
        violations(out[1, at], points, rows.matrix, rows.bounds)

    if n_threads == 1:
        for at in range(len(problems)):
            one(at)
    else:
        with ThreadPoolExecutor(n_threads) as pool:  # compiled runs hold no GIL
            list(pool.map(one, range(len(problems))))
    return Traces(out[0], out[1])
