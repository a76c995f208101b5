"""Constraints that change with the round or are drawn in each, two-point feedback, and rounds for compiled code."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from okl.compiled.extension import OracleCode
from okl.compiled.oco import RoundArrays
from okl.foundation.errors import ConfigError
from okl.foundation.types import Doubles
from okl.foundation.validation import check_at_least, check_positive
from okl.solvers.oco.problem import (
    Constraints,
    ConvexConstraints,
    ConvexLosses,
    LinearConstraints,
    Losses,
    Matrix,
    Problem,
    QuadraticLosses,
    check_arguments,
    compile_oracle,
    names_of,
)
from okl.solvers.oco.sets import Ball, Box, Vector, set_fields


@dataclass(frozen=True, eq=False)
class LinearRounds:
    """Constraints matrices[t] @ x <= bounds[t] in round t.

    Parameters
    ----------
    matrices : (n_rounds, m, p), or (m, p) of all rounds
    bounds : (n_rounds, m)
    stochastic : whether rounds are independent draws that are to hold on average
    names : of the m constraints

    Raises
    ------
    ConfigError : shapes that do not fit, numbers that are not finite
    """

    matrices: Doubles
    bounds: Matrix
    stochastic: bool = field(default=False, kw_only=True)
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        bounds = np.array(self.bounds, dtype=np.float64, order="C")
        matrices = np.array(self.matrices, dtype=np.float64, order="C")
        if matrices.ndim == 2 and bounds.ndim == 2:
            matrices = np.repeat(matrices[None], len(bounds), axis=0)
        if bounds.ndim != 2 or bounds.size == 0 or matrices.ndim != 3 or matrices.shape[:2] != bounds.shape:
            raise ConfigError(
                f"matrices of shape {matrices.shape} and bounds of shape {bounds.shape}; expected (n_rounds, m, p) and "
                "(n_rounds, m)."
            )
        if not (np.isfinite(matrices).all() and np.isfinite(bounds).all()):
            raise ConfigError(
                "matrices and bounds of the rounds must be finite. Give rounds without a limit a wide one."
            )
        set_fields(self, matrices=matrices, bounds=bounds, names=names_of(self.names, bounds.shape[1]))

    @property
    def n_rounds(self) -> int:
        return len(self.bounds)

    @property
    def n_constraints(self) -> int:
        return int(self.bounds.shape[1])

    def at(self, t: int) -> LinearConstraints:
        return LinearConstraints(self.matrices[t], self.bounds[t], self.names)

    def values(self, points: Matrix) -> Matrix:
        """Return g_t(x_t) for points (n_rounds, p), (n_rounds, m)."""
        return np.asarray(np.einsum("tmp,tp->tm", self.matrices, points) - self.bounds)

    def overall(self) -> Constraints:
        """Return the comparators' constraints: the mean of stochastic ones, or what satisfies every round."""
        if self.stochastic:
            return LinearConstraints(self.matrices.mean(axis=0), self.bounds.mean(axis=0), self.names)
        if (self.matrices == self.matrices[0]).all():
            return LinearConstraints(self.matrices[0], self.bounds.min(axis=0), self.names)

        def tightest(x: Vector) -> Matrix:
            worst = (self.matrices @ x - self.bounds).argmax(axis=0)
            return np.asarray(self.matrices[worst, np.arange(self.n_constraints)])

        return ConvexConstraints(
            lambda x: (self.matrices @ x - self.bounds).max(axis=0), tightest, self.n_constraints, self.names
        )


@dataclass(frozen=True, eq=False)
class ConvexRounds:
    """Constraints g_t(x) <= 0 by two functions of round and point.

    Parameters
    ----------
    value : t, x (p,) -> g_t(x) (m,)
    subgradient : t, x (p,) -> (m, p)
    n_rounds, n_constraints : int >= 1
    stochastic : whether rounds are independent draws that are to hold on average
    names : of the m constraints
    compiled : whether numba compiles both functions, to be called inside compiled rounds

    Raises
    ------
    ConfigError : a function that does not take a round and a point, or that numba does not compile
    """

    value: Callable[[int, Vector], Vector]
    subgradient: Callable[[int, Vector], Matrix]
    n_rounds: int
    n_constraints: int
    stochastic: bool = field(default=False, kw_only=True)
    names: Sequence[str] = ()
    compiled: bool = False
    code: OracleCode | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        check_at_least("n_rounds", self.n_rounds, 1)
        check_at_least("n_constraints", self.n_constraints, 1)
        check_arguments("value", self.value)
        check_arguments("subgradient", self.subgradient)
        set_fields(self, names=names_of(self.names, self.n_constraints))
        if self.compiled:
            compile_oracle(self, "value", "subgradient", takes_round=True)

    def at(self, t: int) -> ConvexConstraints:
        return ConvexConstraints(partial(self.value, t), partial(self.subgradient, t), self.n_constraints, self.names)

    def values(self, points: Matrix) -> Matrix:
        """Return g_t(x_t) for points (n_rounds, p), (n_rounds, m)."""
        return np.array([self.at(t).values(point) for t, point in enumerate(points)])

    def overall(self) -> ConvexConstraints:
        """Return the comparators' constraints: the mean of stochastic ones, or the largest of all rounds."""

        def each(x: Vector) -> Matrix:
            return np.array([self.value(t, x) for t in range(self.n_rounds)])

        def slopes(x: Vector) -> Matrix:
            if self.stochastic:
                return np.asarray(np.mean([self.subgradient(t, x) for t in range(self.n_rounds)], axis=0))
            return np.array([self.subgradient(int(t), x)[i] for i, t in enumerate(each(x).argmax(axis=0))])

        over = np.mean if self.stochastic else np.max
        return ConvexConstraints(lambda x: over(each(x), axis=0), slopes, self.n_constraints, self.names)


Rounds = LinearRounds | ConvexRounds
"""Constraints of each round, seen after its point is chosen."""


@dataclass(frozen=True)
class TwoPoint:
    """Feedback of values at two points of a round, x_t + delta u_t and x_t - delta u_t, in place of subgradients.

        df_t(x_t) ~ p / (2 delta) (f_t(x_t + delta u_t) - f_t(x_t - delta u_t)) u_t,   u_t uniform on the sphere

    The points x_t stay delta away from the border of the set, so that both points, which are what is played, are in it.
    The estimate is unbiased for the mean of f_t over a ball of radius delta.

    Parameters
    ----------
    seed : int >= 0; the same seed gives the same directions, and the same bits
    reach : delta > 0, below the radius r of the largest ball in the set; None for r log(1 + T) / T, at most r / 2
    constraints : whether constraints, too, are seen by their values at the two points; if not, in full

    Source: Agarwal, Dekel & Xiao, COLT 2010, for losses; Mahdavi, Jin & Yang, JMLR 13, 2012, for constraints. A margin
    of delta replaces their scaled set (1 - xi) X. Neither paper was at hand to check delta = log T / T against.
    """

    seed: int = 0
    reach: float | None = None
    constraints: bool = True

    def __post_init__(self) -> None:
        check_at_least("seed", self.seed, 0)
        if self.reach is not None:
            check_positive("reach", self.reach)

    def reach_for(self, problem: Problem, n_rounds: int) -> float:
        """Return delta.

        Raises
        ------
        ConfigError : the set is no bounded box or ball, or is not wide enough for reach
        """
        region = problem.region
        if not isinstance(region, (Box, Ball)) or not region.bounded:
            raise ConfigError(
                "Two-point feedback needs a ball, or a box with finite bounds: points move in all directions."
            )
        radius = region.radius if isinstance(region, Ball) else 0.5 * float((region.high - region.low).min())
        reach = min(0.5 * radius, radius * math.log1p(n_rounds) / n_rounds) if self.reach is None else self.reach
        if not 0.0 < reach < radius:
            raise ConfigError(
                f"reach = {reach!r}; expected less than {radius}, the radius of the largest ball in the set."
            )
        return reach

    def shrunken(self, problem: Problem, reach: float) -> Problem:
        """Return the problem over the points of its box or ball that are delta from the border."""
        region = problem.region
        if isinstance(region, Ball):
            return Problem(Ball(region.centre, region.radius - reach), problem.constraints)
        assert isinstance(region, Box)
        return Problem(Box(region.low + reach, region.high - reach), problem.constraints)

    def directions(self, n_rounds: int, dimension: int) -> Matrix:
        """Return u_t of all rounds, (n_rounds, dimension), of length 1."""
        normal = np.random.default_rng(self.seed).standard_normal((n_rounds, dimension))
        return np.asarray(normal / np.linalg.norm(normal, axis=1, keepdims=True))


def two_point_slope(difference: Doubles | float, direction: Vector, reach: float) -> Doubles:
    """Return p / (2 delta) difference u: (p,) of a difference of losses, (m, p) of one (m,) of constraints."""
    return np.asarray(np.multiply.outer(difference, direction) * (0.5 * direction.size / reach))


def two_point_rows(constraints: Constraints, point: Vector, direction: Vector, reach: float) -> LinearConstraints:
    """Return constraints linearised at a point as values at two points around it show them."""
    above, below = (constraints.values(point + side * reach * direction) for side in (1.0, -1.0))
    rows = two_point_slope(above - below, direction, reach)
    return LinearConstraints(rows, rows @ point - 0.5 * (above + below))


def check_rounds(problem: Problem, losses: Losses, constraints: Rounds | None) -> None:
    """Raise ConfigError if the sizes of losses or constraints of rounds are not those of the problem."""
    size = problem.dimension
    if isinstance(losses, QuadraticLosses) and losses.dimension != size:
        raise ConfigError(f"the losses have {losses.dimension} coordinates, but points of the set have {size}.")
    if constraints is None:
        return
    if isinstance(constraints, LinearRounds) and constraints.matrices.shape[2] != size:
        raise ConfigError(
            f"the constraints have {constraints.matrices.shape[2]} columns, but points of the set have {size}."
        )
    if constraints.n_constraints != problem.n_constraints or constraints.n_rounds != losses.n_rounds:
        raise ConfigError(
            f"{constraints.n_rounds} rounds of {constraints.n_constraints} constraints; expected {losses.n_rounds} of "
            f"{problem.n_constraints}, as losses and problem have."
        )


# Functions of the user, against their subgradients on chords of the set.

_CHECKED_ROUNDS, _CHORDS = 3, 4
_CLOSE = 1e-3  # share of half a chord
_SLOPE_TOLERANCE = 1e-2  # of the largest slope: single precision and differences of values leave less

_Oracle = tuple[Sequence[str], Callable[[Vector], Vector], Callable[[Vector], Matrix]]


def check_functions(problem: Problem, losses: Losses, constraints: Rounds | None) -> tuple[str, ...]:
    """Check functions of the first rounds on chords of the set; return a sentence about the first that is not convex.

    With the middle x and half a chord d, and s close to 0 or 1, a convex function f has

        (f(x) - f(x - s d)) / s  <=  <df(x), d>  <=  (f(x + s d) - f(x)) / s

    Values that are not finite are left to the rounds.

    Raises
    ------
    ConfigError : a subgradient does not match differences of the values; sizes that do not fit
    """
    check_rounds(problem, losses, constraints)
    rng, start, region = np.random.default_rng(0), problem.first_point(None), problem.region
    reach = region.diameter if region.bounded else 1.0
    ends = start + reach * rng.standard_normal((_CHORDS, 2, 2, problem.dimension))
    # means of two: the functions may be infinite on the border of the set
    chords = np.apply_along_axis(region.project, 3, ends).mean(axis=2)
    for t in range(min(losses.n_rounds, _CHECKED_ROUNDS)):
        for oracle in _oracles(problem, losses, constraints, t):
            for first, last in chords:
                if sentence := _unmet_on_chord(oracle, 0.5 * (first + last), 0.5 * (last - first), t):
                    return (sentence,)
    return ()


def _oracles(problem: Problem, losses: Losses, constraints: Rounds | None, t: int) -> list[_Oracle]:
    """Return names, values (m,) and subgradients (m, p) of the functions of a round."""
    found: list[_Oracle] = []
    if isinstance(losses, ConvexLosses):
        found.append((("loss",), lambda x: np.array([losses.value(t, x)]), lambda x: losses.subgradient(t, x)[None, :]))
    limits = problem.constraints if constraints is None else constraints.at(t)
    if isinstance(limits, ConvexConstraints):
        found.append(([f"constraint {name!r}" for name in limits.names], limits.values, limits.subgradients))
    return found


def _unmet_on_chord(oracle: _Oracle, middle: Vector, half: Vector, t: int) -> str:
    """Return a sentence about the first function that is not convex on a chord, or ""; ConfigError as above."""
    names, values, slopes = oracle
    with np.errstate(all="ignore"):
        here, given = values(middle), slopes(middle) @ half
        for share in (_CLOSE, 1.0):
            ends = np.array([values(middle - share * half), values(middle + share * half)])
            below, above = (here - ends[0]) / share, (ends[1] - here) / share
            room = _SLOPE_TOLERANCE * np.maximum(np.abs(given), np.maximum(np.abs(below), np.abs(above)))
            room += 1e-12 * np.abs(here) / share
            low, high = (np.minimum(below, above), np.maximum(below, above)) if share < 1.0 else (below, above)
            wrong = (given < low - room) | (given > high + room)
            if not wrong.any():
                continue
            at = int(wrong.argmax())
            if share < 1.0:
                raise ConfigError(
                    f"In round {t} the subgradient of the {names[at]} gives a slope of {given[at]:.6g} on a line, but "
                    f"differences of its values give {0.5 * (below + above)[at]:.6g}. Return its subgradient."
                )
            side = int(given[at] > above[at] + room[at])
            return (
                f"In round {t} the {names[at]} is {ends[side, at]:.6g} at a point where its linear minorant is "
                f"{here[at] + (2 * side - 1) * given[at]:.6g}: it is not convex, and no bound holds."
            )
    return ""


def arrays_of(problem: Problem, losses: Losses, constraints: Rounds | None, linearised: bool) -> RoundArrays | None:
    """Return losses and constraints as compiled rounds read them; None if one is a function that is not compiled.

    linearised : whether the method reads values and subgradients of constraints at its points alone
    """
    check_rounds(problem, losses, constraints)
    limits = problem.constraints if constraints is None else constraints
    none = np.zeros((0, problem.n_constraints, problem.dimension)), np.zeros((0, problem.n_constraints))
    changing = (limits.matrices, limits.bounds) if isinstance(limits, LinearRounds) else none
    if isinstance(losses, QuadraticLosses):
        linear, curvature, loss = losses.linear, losses.curvature, 0
    elif isinstance(losses, ConvexLosses) and losses.code is not None:
        linear, curvature, loss = np.zeros((1, problem.dimension)), 0.0, losses.code.both.address
    else:
        return None
    code = limits.code if isinstance(limits, (ConvexConstraints, ConvexRounds)) else None
    if not isinstance(limits, (LinearConstraints, LinearRounds)) and (code is None or not linearised):
        return None
    for array in (linear, *changing):
        array.setflags(write=False)  # as the arrays of losses: compiled code is made once for all
    return RoundArrays(linear, curvature, *changing, loss, 0 if code is None else code.both.address)
