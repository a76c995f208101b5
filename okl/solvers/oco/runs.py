"""Complete runs, offline optima, regret and constraint violation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from okl.foundation.errors import AssumptionWarning, ConfigError
from okl.foundation.validation import check_at_least
from okl.solvers.oco.methods import Method
from okl.solvers.oco.problem import (
    NEAR,
    Constraints,
    LinearConstraints,
    Losses,
    Matrix,
    Problem,
    QuadraticLosses,
    corners,
    deepest_point,
    find_feasible,
    inequalities,
    lowest_by_cuts,
    lowest_feasible,
    nearest_feasible,
    nearest_in_plane,
)
from okl.solvers.oco.rounds import Rounds, TwoPoint, check_functions, check_rounds, two_point_rows, two_point_slope
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


def constraint_values(constraints: Constraints | Rounds, points: Matrix) -> Matrix:
    """Return g at every point, (T, m), for points (T, p); of constraints of rounds, g_t at x_t."""
    if isinstance(constraints, Rounds):
        return constraints.values(points)
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
    """Return sum_t f_t(x_t) - sum_t f_t(y_t) of points x and comparators y, (T, p): equation (1).

    comparators : or (1, p) for one in all rounds, as the static regret has it
    Raises ConfigError : points of fewer or more rounds, or that are not finite
    """
    if len(points) not in (1, losses.n_rounds) or not np.isfinite(points).all():
        raise ConfigError(f"points of shape {np.shape(points)}; expected {losses.n_rounds} rows of finite numbers.")
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


class Growth(NamedTuple):
    """Growth of mean values as size^exponent, and a confidence interval of the exponent."""

    exponent: float
    low: float
    high: float


def growth_interval(sizes: Sequence[float], values: Matrix, confidence: float = 0.95) -> Growth:
    """Return the slope of log mean value against log size by least squares, and an interval of it.

    The interval is Student's of what repetitions add to the slope, to first order: sum_n w_n (value_nr / mean_n - 1).

    Parameters
    ----------
    sizes : n >= 2 sizes
    values : (n, R) of R >= 2 independent repetitions, numbers r of different sizes paired or not; their means above 0
    confidence : between 0 and 1

    Raises
    ------
    ConfigError : too few sizes or repetitions, or a mean that has no logarithm
    """
    from scipy.stats import t as student  # takes a fifth of the import of a command

    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] < 2 or not 0.0 < confidence < 1.0:
        raise ConfigError(
            f"values have the shape {values.shape}, confidence = {confidence}; expected one row a size of at least two "
            "repetitions, and a confidence between 0 and 1."
        )
    means = values.mean(axis=1)
    slope = growth_exponent(sizes, [float(mean) for mean in means])
    logs = np.log(np.asarray(sizes, dtype=np.float64))
    weights = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
    parts = weights @ (values / means[:, None] - 1.0)
    half = float(student.ppf(0.5 + 0.5 * confidence, parts.size - 1) * parts.std(ddof=1)) / parts.size**0.5
    return Growth(slope, slope - half, slope + half)


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
        _require_convex(problem, losses)
        return _lowest_by_cuts(problem, losses, range(losses.n_rounds))[0]
    assert isinstance(losses, QuadraticLosses)
    check_rounds(problem, losses, None)
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
        _require_convex(problem, losses)
        return np.array([_lowest_by_cuts(problem, losses, (at,))[0] for at in range(losses.n_rounds)])
    assert isinstance(losses, QuadraticLosses)
    check_rounds(problem, losses, None)
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


def minorants(losses: Losses, points: Matrix) -> QuadraticLosses:
    """Return f_t(x_t) + <df_t(x_t), x - x_t> + mu ||x - x_t||^2, which no f_t is below, as losses of x.

    points : (T, p) x_t, where they touch; mu : that of (19)
    """
    slopes = np.array([losses.subgradient(at, point) for at, point in enumerate(points)])
    mu, values = losses.strong_convexity, losses_at(losses, points)
    constant = values - (slopes * points).sum(axis=1) + mu * (points**2).sum(axis=1)
    return QuadraticLosses(mu, slopes - 2.0 * mu * points, constant)


def regret_certificate(problem: Problem, losses: Losses, points: Matrix) -> float:
    """Return an upper bound of the static regret of points (T, p), from the subgradients of the rounds played alone.

    sum_t f_t(x_t) - min over x of sum_t f_t(x_t) + <df_t(x_t), x - x_t> + mu ||x - x_t||^2,  x in X, g(x) <= 0

    It holds for any convex losses, and is the regret itself for linear ones, and for quadratic ones with their mu. Pass
    the first rounds for a certificate while the game goes on.

    problem : the comparators' set and constraints
    Raises ConfigError : there is no least value, as the set is unbounded; losses are not convex or subgradients wrong,
        on the lines that `play` checks, or where a loss of the comparator is below its minorant
    """
    _require_convex(problem, losses)
    below, played = minorants(losses, points), losses_at(losses, points)
    if _has_formula(problem, below):
        best = static_optimum(problem, below)
        bound = float(losses_at(below, best[None, :]).mean())
    else:
        best, bound = _lowest_by_cuts(problem, below, range(below.n_rounds))
    values, lowest = losses_at(losses, best[None, :]), losses_at(below, best[None, :])
    wrong = lowest - values > NEAR * (np.abs(played) + np.abs(values) + np.abs(lowest))
    if wrong.any():
        at = int(wrong.argmax())
        raise ConfigError(
            f"In round {at} the loss of a comparator is {values[at]:.6g}, below the minorant {lowest[at]:.6g} that the "
            "subgradient gives. Check that the losses are convex and return subgradients."
        )
    return float((played - bound).sum())


def _require_convex(problem: Problem, losses: Losses) -> None:
    """Raise ConfigError if functions of the first rounds are not convex, or return no subgradients."""
    for sentence in check_functions(problem, losses, None):
        raise ConfigError(sentence)


def _has_formula(problem: Problem, losses: Losses) -> bool:
    return isinstance(losses, QuadraticLosses) and isinstance(problem.constraints, LinearConstraints)


def _lowest_by_cuts(problem: Problem, losses: Losses, rounds: Sequence[int]) -> tuple[Vector, float]:
    """Return a point of least mean loss of some rounds, and a bound that no feasible point's is below."""
    point = problem.first_point(None) if problem.feasible_point is None else problem.feasible_point
    if isinstance(losses, QuadraticLosses) and len(rounds) == losses.n_rounds:  # their mean is one of them
        mean, constant = losses.linear.mean(axis=0, keepdims=True), losses.constants.mean(keepdims=True)
        losses, rounds = QuadraticLosses(losses.curvature, mean, constant), (0,)

    def value(x: Vector) -> float:
        return float(np.mean([losses.value(at, x) for at in rounds]))

    def slope(x: Vector) -> Vector:
        return np.asarray(np.mean([losses.subgradient(at, x) for at in rounds], axis=0))

    return lowest_by_cuts(problem.region, problem.constraints, value, slope, point)


def _is_flat(problem: Problem) -> bool:
    """Return whether the corners describe the set: it is bounded, in the plane, and not a ball."""
    return problem.dimension == 2 and not isinstance(problem.region, Ball) and problem.region.bounded


def _lowest_corners(problem: Problem, directions: Matrix) -> Matrix:
    """Return for every direction (T, 2) the corner where it is least."""
    ends = corners(*inequalities(problem))
    best: Matrix = ends[(directions @ ends.T).argmin(axis=1)]
    return best


# Complete runs.


@dataclass(frozen=True, eq=False)
class Played:
    """Points, losses and constraint values of T rounds.

    points : (T, p) x_t
    losses : (T,) f_t(x_t); under two-point feedback the mean of the two points
    values : (T, m) g_t(x_t); under two-point feedback the larger one
    """

    points: Matrix
    losses: Vector
    values: Matrix

    @property
    def violations(self) -> Vector:
        """Return ||[g_t(x_t)]_+|| of every round, (T,)."""
        return np.asarray(np.linalg.norm(np.maximum(self.values, 0.0), axis=1))

    @property
    def violation(self) -> Violation:
        """Return all forms of the violation."""
        return violation_of(self.values)


def unmet_assumptions(
    method: Method, problem: Problem, losses: Losses, constraints: Rounds | None = None
) -> tuple[str, ...]:
    """Return a sentence for each assumption of a method's theorems that does not hold.

    They are: constraints that stay, unless the method takes changing or stochastic ones; a point that satisfies the
    changing ones of all rounds; Slater's condition; losses as strongly convex as the step sizes need; steps of
    `YuNeely` and `YuanLamperski` that do not overshoot linear constraints.
    """
    check_method(method)
    check_rounds(problem, losses, constraints)
    found, name = [], type(method).__name__
    if constraints is not None and constraints.stochastic:
        if not method.takes_stochastic:
            found.append(f"{name} has no bounds for stochastic constraints. Use YuNeelyWei.")
    elif constraints is not None and not method.takes_changing:
        found.append(f"{name} has no bounds for constraints that change. Use Recoo, SinhaVaze or VazeSinha.")
    elif (
        constraints is not None
        and _margin(problem, overall := constraints.overall()) < -NEAR
        and find_feasible(problem.region, overall)[1]
    ):
        found.append(f"No point of the set satisfies the constraints of all rounds, which the bounds of {name} need.")
    if method.needs_slater and problem.region.bounded:
        margin = _margin(problem, problem.constraints)
        margin = margin if margin > NEAR else deepest_point(problem)[1]
        if margin <= NEAR:
            found.append(
                f"No point of the set satisfies all constraints strictly (largest margin {margin:.2g}), which the "
                f"bounds of {name} need."
            )
    if method.assumes_strong_convexity > losses.strong_convexity:
        found.append(
            f"The step sizes of {name} are for losses more strongly convex than these (strong_convexity = "
            f"{losses.strong_convexity:g})."
        )
    if constraints is None and method.needs_above and isinstance(problem.constraints, LinearConstraints):
        field, share = method.needs_above
        least = share * float(np.linalg.norm(problem.constraints.matrix, 2)) ** 2
        if getattr(method, field) <= least:
            found.append(
                f"{field} = {getattr(method, field):g}, but the bounds of {name} need more than {least:.6g} for these "
                f"constraints, which steps may overshoot. Raise {field}."
            )
    return tuple(found)


def _margin(problem: Problem, constraints: Constraints) -> float:
    """Return by how much the problem's feasible point satisfies constraints; -inf if there is none."""
    return -np.inf if problem.feasible_point is None else -float(constraints.values(problem.feasible_point).max())


def check_method(method: Method) -> None:
    """Raise ConfigError for a name or a class in place of a method."""
    if not isinstance(method, Method):
        raise ConfigError(f"method = {method!r}; expected a method with its parameters, such as oco.Recoo().")


def play_rounds(
    method: Method,
    problem: Problem,
    losses: Losses,
    first: Vector | None = None,
    horizon: int | None = None,
    constraints: Rounds | None = None,
    feedback: TwoPoint | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Matrix:
    """Return the points of all rounds, (n_rounds, p), played one by one for losses and constraints of any kind."""
    count = losses.n_rounds
    check_method(method)
    check_rounds(problem, losses, constraints)
    reach, units = 0.0, np.empty((0, problem.dimension))
    if feedback is not None:
        reach, units = feedback.reach_for(problem, count), feedback.directions(count, problem.dimension)
        problem = feedback.shrunken(problem, reach)
    points = np.empty((count, problem.dimension))
    state = method.start(problem, count if horizon is None else horizon, first)
    for at in range(count):
        points[at] = method.play(state)
        if progress is not None:
            progress(at + 1, count)
        if at + 1 == count:
            break
        limits = None if constraints is None else constraints.at(at)
        if feedback is None:
            slope = losses.subgradient(at, points[at])
        else:
            step = reach * units[at]
            difference = losses.value(at, points[at] + step) - losses.value(at, points[at] - step)
            slope = two_point_slope(np.float64(difference), units[at], reach)
            if feedback.constraints:
                limits = two_point_rows(limits or problem.constraints, points[at], units[at], reach)
        state = method.learn(state, slope, limits)
    return points


def play(
    method: Method,
    problem: Problem,
    losses: Losses,
    constraints: Rounds | None = None,
    feedback: TwoPoint | None = None,
    first: Vector | None = None,
    horizon: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Played:
    """Play all rounds: with the problem's constraints, or those of each round, and with subgradients or two values.

    Rounds are compiled where losses and constraints are arrays or compiled functions.

    Parameters
    ----------
    method, problem : as for `Method.start`; the problem's constraints are the comparators', `constraints.overall()`
    losses : of n_rounds rounds
    constraints : LinearRounds or ConvexRounds, seen after the point of the round; None for the problem's
    feedback : TwoPoint for values at two points in place of subgradients
    first : (p,) x_1, the method's choice if None
    horizon : passed to the method; None for the number of losses
    progress : called in each round with the rounds played and all rounds; not where rounds are compiled

    Returns
    -------
    Played

    Raises
    ------
    ConfigError : numbers of constraints or rounds that do not fit; what the method or feedback refuses; a subgradient
        that does not match differences of its function, on a few lines of the set in the first three rounds

    Warns
    -----
    AssumptionWarning : an assumption of the method's theorems does not hold, or a function is not convex on these lines

    >>> from okl import oco
    >>> rounds = oco.LinearRounds([[1.0, 1.0]], [[1.0 + 0.2 * (-1) ** t] for t in range(200)])
    >>> problem = oco.Problem(oco.Box([0.0, 0.0], [1.0, 1.0]), rounds.overall())
    >>> losses = oco.QuadraticLosses(0.0, [[-1.0, -0.5]] * 200)
    >>> played = oco.play(oco.VazeSinha(1.5), problem, losses, rounds)
    >>> played.points[-1].round(2).tolist(), round(played.violation.cumulative, 2)
    ([0.8, 0.0], 0.4)
    """
    for sentence in _unmet(method, problem, losses, constraints, feedback):
        warnings.warn(sentence, AssumptionWarning, stacklevel=2)
    return _play(method, problem, losses, constraints, feedback, first, horizon, progress)


def _unmet(
    method: Method, problem: Problem, losses: Losses, constraints: Rounds | None, feedback: TwoPoint | None = None
) -> tuple[str, ...]:
    """Return a sentence for each function that is not convex, and for each assumption that does not hold."""
    functions = () if feedback is not None else check_functions(problem, losses, constraints)
    return (*functions, *unmet_assumptions(method, problem, losses, constraints))


def _play(
    method: Method,
    problem: Problem,
    losses: Losses,
    constraints: Rounds | None,
    feedback: TwoPoint | None = None,
    first: Vector | None = None,
    horizon: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Played:
    limits = problem.constraints if constraints is None else constraints
    if feedback is None and method.can_run(problem, losses, constraints):
        points = method.run(problem, losses, first, constraints, horizon)
    else:
        points = play_rounds(method, problem, losses, first, horizon, constraints, feedback, progress)
    if feedback is None:
        return _finite(Played(points, losses_at(losses, points), constraint_values(limits, points)))
    step = feedback.reach_for(problem, len(points)) * feedback.directions(*points.shape)
    pair = points + step, points - step
    values = np.maximum(*(constraint_values(limits, one) for one in pair))
    return _finite(Played(points, 0.5 * np.add(*(losses_at(losses, one) for one in pair)), values))


def _finite(played: Played) -> Played:
    """Return what was played, or raise ConfigError for a loss or constraint that is no finite number."""
    bad = ~(np.isfinite(played.losses) & np.isfinite(played.values).all(axis=1))
    if bad.any():
        raise ConfigError(
            f"In round {int(bad.argmax())} a loss or constraint returned no finite number. Check it there."
        )
    return played


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


def run_many(
    method: Method,
    problems: Sequence[Problem],
    losses: Sequence[Losses],
    first: Vector | None = None,
    n_threads: int = 1,
    constraints: Sequence[Rounds | None] | None = None,
) -> Traces:
    """Run a method on many problems of as many rounds; the same bits for every number of threads.

    first : (p,) x_1 of all; constraints : those of each round of each problem, where they change
    Raises ConfigError : not as many problems as losses, or losses of different lengths
    Warns AssumptionWarning : once, if `play` warns for any of the problems
    """
    check_at_least("n_threads", n_threads, 1)
    rounds = [None] * len(problems) if constraints is None else list(constraints)
    lengths = {each.n_rounds for each in losses}
    if not len(problems) == len(losses) == len(rounds) or len(lengths) != 1:
        raise ConfigError(
            f"{len(problems)} problems and {len(losses)} losses of {sorted(lengths)} rounds; "
            "expected one loss for each problem, all of the same length."
        )
    unmet = [_unmet(method, *game) for game in zip(problems, losses, rounds, strict=True)]
    if any(unmet):
        warnings.warn(
            f"Assumptions of the bounds of {type(method).__name__} do not hold for some of the problems. `oco.play` on "
            "one of them names these assumptions.",
            AssumptionWarning,
            stacklevel=2,
        )
    out = np.empty((2, len(problems), lengths.pop()))

    def one(at: int) -> None:
        played = _play(method, problems[at], losses[at], rounds[at], first=first)
        out[0, at], out[1, at] = played.losses, played.violations

    if n_threads == 1:
        for at in range(len(problems)):
            one(at)
    else:
        with ThreadPoolExecutor(n_threads) as pool:  # compiled runs hold no GIL
            list(pool.map(one, range(len(problems))))
    return Traces(out[0], out[1])
