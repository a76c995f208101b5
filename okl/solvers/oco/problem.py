"""Constraints, losses and problems of online convex optimisation, with exact feasibility answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from inspect import signature
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, linprog, nnls
from scipy.sparse import csr_array, kron
from scipy.sparse import eye_array as identity

from okl.compiled.extension import OracleCode, compiled_oracle
from okl.compiled.oco import CompiledSet, project, quadratic_subgradient, quadratic_values
from okl.foundation.errors import ConfigError
from okl.foundation.types import Integers
from okl.foundation.validation import check_at_least
from okl.solvers.oco.sets import Ball, Box, ConvexSet, Simplex, Vector, as_vector, refuse_first, set_fields

# Long-term constraints g(x) <= 0: linear ones, and convex ones by value and subgradient.

Matrix = NDArray[np.float64]


def names_of(names: Sequence[str], number: int) -> tuple[str, ...]:
    """Return one name for each constraint, "row 0", "row 1", ... if none are given, or raise ConfigError."""
    if names and len(names) != number:
        raise ConfigError(
            f"there are {len(names)} names for {number} constraints. Give one name for each constraint, or none."
        )
    return tuple(names) or tuple(f"row {at}" for at in range(number))


def compile_oracle(owner: Any, value: str, slope: str, takes_round: bool) -> None:
    """Replace two functions of a record by compiled ones, their machine code as its code; or raise ConfigError."""
    try:
        code = compiled_oracle(getattr(owner, value), getattr(owner, slope), takes_round)
    except TypeError as error:
        raise ConfigError(f"{value} or {slope} cannot be compiled: {error} Set compiled=False.") from error
    set_fields(owner, **{value: code.value, slope: code.slope, "code": code})


@dataclass(frozen=True, eq=False)
class LinearConstraints:
    """Constraints matrix @ x <= bounds.

    Parameters
    ----------
    matrix : (m, p), finite
    bounds : (m,), finite
    names : what errors and reports call the rows; "row 0", "row 1", ... if none are given

    Raises
    ------
    ConfigError : shapes that do not fit, numbers that are not finite
    """

    matrix: Matrix
    bounds: Vector
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        matrix = np.array(self.matrix, dtype=np.float64, order="C")
        bounds = as_vector("bounds", self.bounds)
        if matrix.ndim != 2 or matrix.shape[0] != bounds.size:
            raise ConfigError(
                f"a matrix of shape {matrix.shape} with {bounds.size} bounds; expected one bound for each row."
            )
        if not (np.isfinite(matrix).all() and np.isfinite(bounds).all()):
            raise ConfigError("matrix and bounds of linear constraints must be finite. Remove rows without a bound.")
        set_fields(self, matrix=matrix, bounds=bounds, names=names_of(self.names, bounds.size))

    @property
    def n_constraints(self) -> int:
        return int(self.bounds.size)

    @property
    def dimension(self) -> int:
        return int(self.matrix.shape[1])

    def values(self, point: Vector) -> Vector:
        return self.matrix @ point - self.bounds

    def subgradients(self, point: Vector) -> Matrix:
        return self.matrix


@dataclass(frozen=True, eq=False)
class ConvexConstraints:
    """Constraints g(x) <= 0 by two functions.

    Parameters
    ----------
    value : x (p,) -> g(x) (m,)
    subgradient : x (p,) -> (m, p), row i a subgradient of g_i at x
    n_constraints : int >= 1, m
    names : as for linear constraints
    compiled : whether numba compiles both functions, to be called inside compiled rounds

    Raises
    ------
    ConfigError : a function that numba does not compile
    """

    value: Callable[[Vector], Vector]
    subgradient: Callable[[Vector], Matrix]
    n_constraints: int
    names: Sequence[str] = ()
    compiled: bool = False
    code: OracleCode | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        check_at_least("n_constraints", self.n_constraints, 1)
        set_fields(self, names=names_of(self.names, self.n_constraints))
        if self.compiled:
            compile_oracle(self, "value", "subgradient", takes_round=False)

    def values(self, point: Vector) -> Vector:
        values = np.asarray(self.value(point), dtype=np.float64)
        if values.shape != (self.n_constraints,):
            raise ConfigError(f"the constraint values have the shape {values.shape}; expected ({self.n_constraints},).")
        return values

    def subgradients(self, point: Vector) -> Matrix:
        rows = np.asarray(self.subgradient(point), dtype=np.float64)
        if rows.shape != (self.n_constraints, point.size):
            shape = (self.n_constraints, point.size)
            raise ConfigError(f"the constraint subgradients have the shape {rows.shape}; expected {shape}.")
        return rows


Constraints = LinearConstraints | ConvexConstraints
"""Convex functions that are to be at most 0 in the long run."""

# Losses of the rounds: quadratic or convex.


@dataclass(frozen=True, eq=False)
class QuadraticLosses:
    """f_t(x) = curvature ||x||^2 + <linear_t, x> + constant_t; curvature 0 is online linear programming.

    Parameters
    ----------
    curvature : float >= 0
    linear : (n_rounds, p), finite
    constant : (n_rounds,), zeros if None

    Raises
    ------
    ConfigError : shapes that do not fit, numbers that are not finite, a negative curvature
    """

    curvature: float
    linear: Matrix
    constant: Vector | None = None

    def __post_init__(self) -> None:
        linear = np.array(self.linear, dtype=np.float64, order="C")
        if linear.ndim != 2 or linear.size == 0:
            raise ConfigError(f"linear has the shape {linear.shape}; expected one row of numbers for each round.")
        refuse_first("linear", linear, ~np.isfinite(linear))
        constant = as_vector("constant", np.zeros(linear.shape[0]) if self.constant is None else self.constant)
        if constant.size != linear.shape[0]:
            raise ConfigError(
                f"constant has {constant.size} numbers for {linear.shape[0]} rounds; expected one for each round."
            )
        if not 0.0 <= self.curvature < np.inf:
            raise ConfigError(
                f"curvature = {self.curvature!r}; expected a finite number of at least 0, as the losses are convex."
            )
        set_fields(self, curvature=float(self.curvature), linear=linear, constant=constant)

    @property
    def n_rounds(self) -> int:
        return int(self.linear.shape[0])

    @property
    def dimension(self) -> int:
        return int(self.linear.shape[1])

    @property
    def constants(self) -> Vector:
        """Return the constant of every round, (n_rounds,)."""
        assert self.constant is not None  # filled in at the start
        return self.constant

    @property
    def strong_convexity(self) -> float:
        """Return the mu of equation (19), which has no 1/2: the curvature."""
        return self.curvature

    def value(self, at: int, point: Vector) -> float:
        return float(self.curvature * (point @ point) + self.linear[at] @ point + self.constants[at])

    def subgradient(self, at: int, point: Vector) -> Vector:
        """Return the gradient of round t = at, (p,), with the bits that whole runs see."""
        out = np.empty(self.dimension)
        quadratic_subgradient(out, point, self.linear[at], self.curvature)
        return out

    def values(self, points: Matrix) -> Vector:
        out = np.empty(self.n_rounds)
        quadratic_values(out, points, self.linear, self.constants, self.curvature)
        return out


@dataclass(frozen=True, eq=False)
class ConvexLosses:
    """Losses by two functions of round and point.

    Parameters
    ----------
    loss : t, x (p,) -> f_t(x)
    loss_subgradient : t, x (p,) -> (p,)
    n_rounds : int >= 1
    strong_convexity : the mu of equation (19), 0 if there is none
    compiled : whether numba compiles both functions, to be called inside compiled rounds

    Raises
    ------
    ConfigError : a function that does not take a round and a point, or that numba does not compile
    """

    loss: Callable[[int, Vector], float]
    loss_subgradient: Callable[[int, Vector], Vector]
    n_rounds: int
    strong_convexity: float = 0.0
    compiled: bool = False
    code: OracleCode | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        check_at_least("n_rounds", self.n_rounds, 1)
        check_arguments("loss", self.loss)
        check_arguments("loss_subgradient", self.loss_subgradient)
        if self.compiled:
            compile_oracle(self, "loss", "loss_subgradient", takes_round=True)

    def value(self, at: int, point: Vector) -> float:
        value = np.asarray(self.loss(at, point), dtype=np.float64)
        if value.size != 1:
            raise ConfigError(f"the loss of round {at} returns an array of shape {value.shape}; expected one number.")
        return float(value.item())

    def subgradient(self, at: int, point: Vector) -> Vector:
        subgradient = np.asarray(self.loss_subgradient(at, point), dtype=np.float64)
        if subgradient.shape != point.shape:
            raise ConfigError(
                f"the loss of round {at} returns a subgradient of shape {subgradient.shape}; expected {point.shape}."
            )
        return subgradient


Losses = QuadraticLosses | ConvexLosses
"""Convex losses f_t, rounds t = 0 .. n_rounds - 1."""


def check_arguments(name: str, function: Callable[..., object]) -> None:
    """Raise ConfigError if a function does not take a round and a point."""
    try:
        parameters = signature(function)
    except ValueError:  # of functions in C
        return
    try:
        parameters.bind(0, None)
    except TypeError:
        raise ConfigError(f"{name} takes {parameters}; expected a function of round and point, {name}(t, x).") from None


# Feasibility, and the constraints that contradict each other.

FEASIBILITY_TOLERANCE = 1e-9  # of rows of length 1: below it, rounding is not distinguishable from a violation
_MOST_CUTS = 200


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
        optimum = linprog(objective, A_ub=rows, b_ub=bounds, bounds=limits)
    else:
        limits = [(0.0, None)] * size + [(-1.0, None)]
        sums = np.append(np.ones(size), 0.0)[None, :]
        optimum = linprog(objective, A_ub=rows, b_ub=bounds, A_eq=sums, b_eq=[region.total], bounds=limits)
    if optimum.x is None or optimum.fun > FEASIBILITY_TOLERANCE * (1.0 + np.abs(bounds).max()):
        return None
    point: Vector = optimum.x[:size]
    return point


def _shortest_shift(matrix: Matrix, slack: Vector) -> Vector | None:
    """Return the shortest shift with matrix shift <= slack, (p,), for rows of length 1; None if there is none.

    It is the residual of a nonnegative least-squares problem, which ends after finitely many steps: Lawson & Hanson,
    Solving Least Squares Problems, 1974, chapter 23, problem LDP.
    """
    if not slack.size or slack.min() >= 0.0:
        return np.zeros(matrix.shape[1])
    scale = -float(slack.min())  # at most the length of the shift: the residual keeps its digits
    system = np.vstack([-matrix.T, -slack[None, :] / scale])
    target = np.append(np.zeros(matrix.shape[1]), 1.0)
    weights, length = nnls(system, target)
    if length <= FEASIBILITY_TOLERANCE:
        return None
    residual = system @ weights - target
    shift: Vector = -scale * residual[:-1] / residual[-1]
    return shift


def _in_ball(region: Ball, matrix: Matrix, bounds: Vector) -> Vector | None:
    """Return the point of the polyhedron nearest to the ball's centre if it is in the ball."""
    slack = bounds - matrix @ region.centre
    shift = _shortest_shift(matrix, slack)
    if shift is None or np.linalg.norm(shift) > region.radius * (1.0 + FEASIBILITY_TOLERANCE):
        return None
    if (matrix @ shift - slack).max() > 1e-6 * region.radius:
        return None
    return region.centre + shift


def _point(region: ConvexSet, matrix: Matrix, bounds: Vector) -> Vector | None:
    if isinstance(region, Ball):
        return _in_ball(region, matrix, bounds)
    return _in_polyhedron(region, matrix, bounds)


def find_conflict(region: ConvexSet, matrix: Matrix, bounds: Vector, groups: Iterable[int]) -> tuple[int, ...]:
    """Return the fewest groups of rows matrix x <= bounds, of length 1, that no point of the set satisfies together.

    One group after the other is left out as long as the rest cannot hold together; empty if all rows can.
    """
    indices = np.asarray(list(groups))
    if _point(region, matrix, bounds) is not None:
        return ()
    for group in sorted(set(indices.tolist())):
        others = indices != group
        if others.any() and _point(region, matrix[others], bounds[others]) is None:
            matrix, bounds, indices = matrix[others], bounds[others], indices[others]
    return tuple(sorted(set(indices.tolist())))


def find_feasible(region: ConvexSet, constraints: Constraints) -> tuple[Vector | None, tuple[int, ...]]:
    """Find a point of the set that satisfies the constraints, or a least set of constraints that exclude each other.

    Linear constraints are decided by one linear programme, or one projection for the ball. Convex ones are cut where
    they are violated (Kelley, J. SIAM 8, 1960) until a point satisfies all or the cuts already exclude each other;
    after 200 rounds of cuts without either, the result is neither.

    Returns
    -------
    point : (p,) within FEASIBILITY_TOLERANCE; None if there is none, or none was found
    conflict : indices of constraints that cannot hold together in the set, none of which can be left out; empty unless
        that is proved
    """
    if isinstance(constraints, LinearConstraints):
        matrix, bounds = _scaled(constraints.matrix, constraints.bounds)
        nearest = _point(region, matrix, bounds)
        return nearest, () if nearest is not None else find_conflict(region, matrix, bounds, range(bounds.size))
    point = region.project(np.zeros(region.dimension))
    matrix, bounds = np.empty((0, region.dimension)), np.empty(0)
    groups: list[int] = []
    for _ in range(_MOST_CUTS):
        values = constraints.values(point)
        violated = np.flatnonzero(values > FEASIBILITY_TOLERANCE)
        if violated.size == 0:
            return point, ()
        rows = constraints.subgradients(point)[violated]
        rows, limits = _scaled(rows, rows @ point - values[violated])
        matrix, bounds = np.vstack([matrix, rows]), np.append(bounds, limits)
        groups += violated.tolist()
        solution = _point(region, matrix, bounds)
        if solution is None:
            return None, find_conflict(region, matrix, bounds, groups)
        point = region.project(solution)
    return None, ()


# The problem: the set and its long-term constraints.


@dataclass(frozen=True, eq=False)
class Problem:
    """Online convex optimisation over a set, with constraints that are to hold in the long run.

    Parameters
    ----------
    region : Box, Ball or Simplex, in R^p
    constraints : LinearConstraints, or ConvexConstraints by their values and subgradients

    Attributes
    ----------
    feasible_point : (p,) a point of the set that satisfies the constraints; None if none was found for convex ones

    Raises
    ------
    ConfigError : no point of the set satisfies the constraints (the ones in conflict are named), or lengths differ

    Source: Yi et al., ICML 2021, section 2.2.
    """

    region: ConvexSet
    constraints: Constraints
    feasible_point: Vector | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rows = self.constraints
        if isinstance(rows, LinearConstraints) and rows.dimension != self.region.dimension:
            raise ConfigError(
                f"the constraints have {rows.dimension} columns, but points of the set have {self.region.dimension}."
            )
        point, conflict = find_feasible(self.region, rows)
        if conflict:
            names = " and ".join(f"{rows.names[at]!r}" for at in conflict)
            raise ConfigError(
                f"no point of the set satisfies {names}. Loosen or remove "
                f"{'this constraint' if len(conflict) == 1 else 'one of these constraints'}."
            )
        object.__setattr__(self, "feasible_point", point)

    @property
    def dimension(self) -> int:
        return self.region.dimension

    @property
    def n_constraints(self) -> int:
        return self.constraints.n_constraints

    @property
    def linear(self) -> LinearConstraints:
        """Return the constraints as linear ones; ConfigError if they are not."""
        if not isinstance(self.constraints, LinearConstraints):
            raise ConfigError(
                "expected LinearConstraints, but the problem has ConvexConstraints. `play` takes them, round by round; "
                "compiled runs of proximal methods, and `constants_of`, do not."
            )
        return self.constraints

    def first_point(self, first: Vector | None) -> Vector:
        """Return x_1: a copy of a point of the set that was given, or ConfigError, or the one nearest to 0."""
        if first is None:
            nearest = self.region.project(as_vector("first", [0.0] * self.dimension))
            nearest.setflags(write=False)
            return nearest
        point = as_vector("first", first)
        if point.size != self.dimension or not self.region.contains(point):
            raise ConfigError(f"first = {point!r}; expected a point of the set, in R^{self.dimension}.")
        return point


# Polyhedra {x in X : A x <= b}: projection and linear minimisation.

_FEASIBLE = 1e-9
_MOST = 1e12  # of the length of a step along a direction, in units of the set


def inequalities(problem: Problem) -> tuple[Matrix, Vector]:
    """Return all of Ax <= b and of the set but for a ball as rows (n, p) and bounds (n,), rows of length 1."""
    return _rows_of(problem.region, problem.linear.matrix, problem.linear.bounds)


def _rows_of(region: ConvexSet, matrix: Matrix, limits: Vector) -> tuple[Matrix, Vector]:
    rows, bounds, unit = [matrix], [limits], np.eye(region.dimension)
    if isinstance(region, Box):
        low, high = np.isfinite(region.low), np.isfinite(region.high)
        rows += [unit[high], -unit[low]]
        bounds += [region.high[high], -region.low[low]]
    elif isinstance(region, Simplex):
        ones = np.ones((1, region.dimension))
        rows += [-unit, ones, -ones]
        bounds += [np.zeros(region.dimension), np.array([region.total]), np.array([-region.total])]
    matrix, limits = np.vstack(rows), np.concatenate(bounds)
    lengths = np.linalg.norm(matrix, axis=1)
    nonzero = lengths > 0.0  # a row of zeros is no constraint: the problem is feasible
    return matrix[nonzero] / lengths[nonzero, None], limits[nonzero] / lengths[nonzero]


def _nearest(matrix: Matrix, limits: Vector, point: Vector) -> Vector:
    """Return the point nearest to a given one with matrix x <= limits, which some points satisfy."""
    shift = _shortest_shift(matrix, limits - matrix @ point)
    assert shift is not None  # the problem is feasible
    return point + shift


def nearest_feasible(problem: Problem, point: Vector) -> Vector:
    """Return the point of the set with A x <= b that is nearest to a given one, (p,)."""
    return _nearest_in_region(problem.region, *inequalities(problem), point)


def nearest_within(region: ConvexSet, matrix: Matrix, bounds: Vector, point: Vector) -> Vector | None:
    """Return the point of the set with matrix x <= bounds that is nearest to a given one, (p,); None if none has."""
    rows, limits = _rows_of(region, matrix, bounds)
    if isinstance(region, Ball):
        return None if _in_ball(region, rows, limits) is None else _nearest_in_region(region, rows, limits, point)
    shift = _shortest_shift(rows, limits - rows @ point)
    return None if shift is None else point + shift


def _nearest_in_region(region: ConvexSet, matrix: Matrix, limits: Vector, point: Vector) -> Vector:
    nearest = _nearest(matrix, limits, point)
    if not isinstance(region, Ball) or np.linalg.norm(nearest - region.centre) <= region.radius:
        return nearest

    def pulled(factor: float) -> Vector:
        return _nearest(matrix, limits, factor * point + (1.0 - factor) * region.centre)

    def beyond(factor: float) -> float:
        return float(np.linalg.norm(pulled(factor) - region.centre)) - region.radius

    # the multiplier of the ball pulls what is projected to the centre, by a factor 1 / (1 + multiplier)
    return pulled(brentq(beyond, 0.0, 1.0, xtol=1e-15, rtol=1e-14)) if beyond(0.0) < 0.0 else pulled(0.0)


def lowest_feasible(problem: Problem, directions: Matrix) -> Matrix:
    """Return points (T, p) of the set with A x <= b where <direction, x> is least; ConfigError if unbounded."""
    if isinstance(problem.region, Ball):
        return np.array([_lowest_in_ball(problem, direction) for direction in directions])
    matrix, limits = inequalities(problem)
    blocks = kron(identity(len(directions)), csr_array(matrix), format="csr")
    free = (None, None)
    optimum = linprog(directions.ravel(), A_ub=blocks, b_ub=np.tile(limits, len(directions)), bounds=free)
    if optimum.x is None:
        raise ConfigError(f"the losses have no minimum: {optimum.message} Set finite bounds of the box.")
    lowest: Matrix = optimum.x.reshape(directions.shape)
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
    points = []
    for pair in combinations(range(len(limits)), 2):
        rows = matrix[list(pair)]
        if abs(np.linalg.det(rows)) > 1e-14:
            point = np.linalg.solve(rows, limits[list(pair)])
            if (matrix @ point - limits).max() <= _FEASIBLE:
                points.append(point)
    return np.array(points).reshape(-1, 2)


def nearest_in_plane(matrix: Matrix, limits: Vector, points: Matrix) -> Matrix:
    """Return the nearest point of {x in R^2 : matrix x <= limits} for each of (T, 2): itself, on a side, a corner."""
    sides = points[:, None, :] - (points @ matrix.T - limits)[:, :, None] * matrix[None, :, :]
    ends = np.broadcast_to(corners(matrix, limits), (len(points), len(corners(matrix, limits)), 2))
    candidates = np.concatenate([points[:, None, :], sides, ends], axis=1)
    outside = ((candidates @ matrix.T - limits) > _FEASIBLE).any(axis=2)
    distances = np.where(outside, np.inf, ((candidates - points[:, None, :]) ** 2).sum(axis=2))
    nearest: Matrix = candidates[np.arange(len(points)), distances.argmin(axis=1)]
    return nearest


# Steps with convex constraints, by cutting planes.
#
#     min over x in X of  1/2 ||x - c||^2 + sum_j limit_j [g_j(x)]_+,     g_j(x) >= g_j(y) + <dg_j(y), x - y>
#
# The dual of the model has a multiplier a cut, and a constraint's multipliers share its limit; what they leave
# belongs to the zero of [.]_+, which is one cut more. The multipliers' face is left one cut at a time: the classical
# active set.

CUT_TOLERANCE = 1e-15  # of the gap, relative to the model's terms: ||x - x*||^2 is at most twice the gap
_MOST_ROUNDS = 2000
_MOST_STEPS = 400
_ROUNDING = 4.0 * 2.0**-52
_REGULARISER = 1e-13


@dataclass(eq=False)
class _Model:
    """Cuts normals @ x - offsets, each of a constraint, with multipliers; the first ones are the zero cuts."""

    centre: Vector
    region: ConvexSet
    limits: Vector
    normals: Matrix = field(init=False)
    offsets: Vector = field(init=False)
    owners: Integers = field(init=False)
    multipliers: Vector = field(init=False)
    compiled: CompiledSet = field(init=False)

    def __post_init__(self) -> None:
        self.compiled = self.region.region
        self.normals = np.zeros((self.limits.size, self.centre.size))
        self.offsets = np.zeros(self.limits.size)
        self.owners = np.arange(self.limits.size)
        self.multipliers = self.limits.copy()

    def add(self, normals: Matrix, offsets: Vector, owners: Integers, excess: Vector) -> None:
        """Add cuts, and drop those without multiplier whose excess is below that of their constraint's best cut."""
        best = self.heights(excess)[self.owners]
        active = (self.multipliers > 0.0) | (excess >= best) | (np.arange(self.owners.size) < self.limits.size)
        self.normals = np.vstack([self.normals[active], normals])
        self.offsets = np.append(self.offsets[active], offsets)
        self.owners = np.append(self.owners[active], owners)
        self.multipliers = np.append(self.multipliers[active], np.zeros(owners.size))

    def point(self, multipliers: Vector) -> Vector:
        point: Vector = self.centre - multipliers @ self.normals
        project(point, self.compiled)
        return point

    def excess(self, point: Vector) -> Vector:
        """Return the value of every cut, (n_cuts,)."""
        return self.normals @ point - self.offsets

    def heights(self, excess: Vector) -> Vector:
        """Return the largest cut of every constraint, (m,), at least 0."""
        heights = np.zeros(self.limits.size)
        np.maximum.at(heights, self.owners, excess)
        return heights

    def gaps(self, excess: Vector) -> Vector:
        """Return what each constraint adds to the gap, (m,), all at least 0 but for rounding."""
        lag = self.heights(excess)[self.owners] - excess
        return np.bincount(self.owners, self.multipliers * lag, self.limits.size).astype(np.float64)

    def rounding(self, point: Vector) -> float:
        """Return how much of the gap rounding may be."""
        sizes = np.abs(self.normals) @ np.maximum(np.abs(point), np.abs(self.centre)) + np.abs(self.offsets)
        return float(_ROUNDING * (self.multipliers @ sizes))

    def moved(self, rows: Matrix, point: Vector) -> Matrix:
        """Return rows (n, p) times the Jacobian of the projection that led to point."""
        if isinstance(self.region, Box):
            free = (point > self.region.low) & (point < self.region.high)
            return np.where(free, rows, 0.0)
        if isinstance(self.region, Ball):
            pulled = self.centre - self.normals.T @ self.multipliers - self.region.centre
            length = float(np.linalg.norm(pulled))
            if length <= self.region.radius:
                return rows
            along = pulled / length
            return self.region.radius / length * (rows - np.outer(rows @ along, along))
        free = point > 0.0
        means = rows[:, free].mean(axis=1, keepdims=True)
        return np.where(free, rows - means, 0.0)


def _direction(model: _Model, point: Vector, excess: Vector, chosen: Integers) -> Vector:
    """Return Newton's direction (n_chosen,) in the chosen multipliers, whose sum in every constraint stays.

    Each multiplier moves against the largest one of its constraint. Differences of normals are scaled to length 1:
    those of cuts next to the solution are short, and the regulariser must not hide them.
    """
    owners, order = model.owners[chosen], np.argsort(model.multipliers[chosen], kind="stable")
    largest = np.zeros(model.limits.size, dtype=np.int64)
    largest[owners[order]] = order  # the last one of a constraint stays
    base = largest[owners]
    rows, slopes = model.normals[chosen] - model.normals[chosen[base]], excess[chosen] - excess[chosen[base]]
    lengths = np.linalg.norm(rows, axis=1)
    lengths[lengths == 0.0] = 1.0
    rows /= lengths[:, None]
    hessian = model.moved(rows, point) @ rows.T
    hessian.flat[:: len(rows) + 1] += _REGULARISER
    direction: Vector = np.linalg.solve(hessian, slopes / lengths) / lengths
    direction[base == np.arange(base.size)] = 0.0
    np.subtract.at(direction, base, direction.copy())
    return direction


def _search(model: _Model, direction: Vector, first: float) -> float:
    """Return the share of the direction (n_cuts,) to go: all of it unless the dual falls before, to its top then."""
    low, high, share = 0.0, 1.0, 1.0
    for _ in range(50):
        slope = float(direction @ model.excess(model.point(model.multipliers + share * direction)))
        if abs(slope) <= 1e-3 * first or (share == 1.0 and slope > 0.0):
            return share
        low, high = (share, high) if slope > 0.0 else (low, share)
        share = 0.5 * (low + high)
    return low


def _face_step(model: _Model, point: Vector, excess: Vector, entering: int | None) -> bool:
    """Move on the face of positive multipliers, with one cut entering; False if nothing rises."""
    inside = model.multipliers > 0.0
    if entering is not None:
        inside[entering] = True
    chosen = np.flatnonzero(inside)
    moved = _direction(model, point, excess, chosen)
    direction = np.zeros(inside.size)
    falling = moved < 0.0
    with np.errstate(over="ignore"):  # no limit, where a multiplier hardly falls
        shares = -model.multipliers[chosen][falling] / moved[falling]
    most = min(1.0, float(shares.min())) if shares.size else 1.0
    direction[chosen] = most * moved
    first = float(direction @ excess)
    if not first > 0.0:
        return False
    share = _search(model, direction, first)
    met = chosen[falling][shares <= most] if share == 1.0 and most < 1.0 else chosen[:0]
    multipliers = np.maximum(model.multipliers + share * direction, 0.0)
    multipliers[met] = 0.0
    changed = not np.array_equal(multipliers, model.multipliers)
    model.multipliers = multipliers
    return changed


def _solve_model(model: _Model, enough: float) -> Vector:
    """Improve the multipliers until the model's gap is small or nothing rises; return the point."""
    for _ in range(_MOST_STEPS):
        point = model.point(model.multipliers)
        excess = model.excess(point)
        gaps = model.gaps(excess)
        if gaps.sum() <= max(enough, model.rounding(point)):
            return point
        own = np.where(model.owners == gaps.argmax(), excess, -np.inf)
        if not _face_step(model, point, excess, int(own.argmax())) and not _face_step(model, point, excess, None):
            return point
    return model.point(model.multipliers)


def solve_by_cuts(centre: Vector, region: ConvexSet, constraints: Constraints, limits: Vector) -> tuple[Vector, float]:
    """Return argmin over x in X of 1/2 ||x - c||^2 + limits' [g(x)]_+, (p,), and its gap.

    centre : (p,) c; region : X; constraints : m convex functions with subgradients
    limits : (m,) >= 0
    Returns point, gap : the squared distance to the solution is at most twice the gap. It is above CUT_TOLERANCE, in
        units of the size of the penalty, only where rounding came first
    Raises ConfigError : after 2000 rounds of cuts the point may be 1e-6 from the solution, or that share of a longer c
    Source: Kelley, J. SIAM 8, 1960, with the proximal term that is in the step already.
    """
    model = _Model(centre, region, limits)
    point, best, least, stuck = region.project(centre), centre, np.inf, False
    for _ in range(_MOST_ROUNDS):
        values = constraints.values(point)
        excess = model.excess(point)
        lag = limits * (np.maximum(values, 0.0) - model.heights(excess))
        gap = float(np.maximum(lag, 0.0).sum() + np.maximum(model.gaps(excess), 0.0).sum())
        if gap < least:
            best, least = point, gap
        enough = max(CUT_TOLERANCE * (1.0 + float(limits @ np.abs(values))), model.rounding(point))
        cut = np.flatnonzero(lag > 0.1 * enough / limits.size)
        if gap <= enough or cut.size == 0 or stuck:
            break
        rows = constraints.subgradients(point)[cut]
        model.add(rows, rows @ point - values[cut], cut, excess)
        before, point = point, _solve_model(model, 0.1 * enough)
        stuck = bool(np.abs(point - before).max() <= _ROUNDING * np.abs(centre).max())  # by rounding, or at a corner
    else:
        if (far := float(np.sqrt(2.0 * least))) > NEAR * (1.0 + float(np.linalg.norm(centre))):
            raise ConfigError(
                f"A step under convex constraints is solved within {far:.1g} only, after {_MOST_ROUNDS} cuts. "
                "Reduce the step size, and check that the constraints are convex."
            )
    return best, least


# The level method, for functions that are known by value and subgradient.

_MOST_LEVEL_CUTS = 2000
_LEVEL = 0.3  # from the bound to the least value found; convergence is proved for any share between 0 and 1
NEAR = 1e-6  # how far a value by cuts may be from the least one, absolute or of a value above 1; and of the constraints


def lowest_by_cuts(
    region: ConvexSet,
    constraints: Constraints | None,
    value: Callable[[Vector], float],
    subgradient: Callable[[Vector], Vector],
    point: Vector,
) -> tuple[Vector, float]:
    """Return a point of least value over a set and its constraints, (p,), and a bound that no value is below.

    x_{k+1} is the point nearest to x_k of those of X where no cut of a constraint is above 0 and no cut of the function
    above a level between the bound and the least value found. Where there is none, the level is the new bound.

    region : bounded; constraints : m of them, at most 1e-6 at the point; or None; value, subgradient : of the function
    point : (p,) to start at
    Raises ConfigError : the set is unbounded, no point satisfies the constraints, or 2000 cuts do not suffice
    Source: Lemarechal, Nemirovskii & Nesterov, Math. Programming 69, 1995, sections 2.2 and 3.
    """
    if not region.bounded:
        raise ConfigError("The best point of losses by functions needs a bounded set. Set finite bounds.")
    loss_cuts, limit_cuts = _Cuts(region.dimension), _Cuts(region.dimension)
    best, bound, least = point, -np.inf, np.inf
    for _ in range(_MOST_LEVEL_CUTS):
        here, slope = value(point), subgradient(point)
        below = float((loss_cuts.rows @ point - loss_cuts.offsets).max(initial=-np.inf))
        if below > here + NEAR * max(1.0, abs(here)):
            raise ConfigError(
                f"A function is {here:.6g} where a linear minorant of it is {below:.6g}. Check that the losses and "
                "constraints are convex and return subgradients."
            )
        loss_cuts.add(slope[None], np.array([here]), point)
        bound = max(bound, here - float(np.linalg.norm(slope)) * region.diameter)  # by convexity
        limits = np.zeros(0) if constraints is None else constraints.values(point)
        if constraints is not None and (over := limits > 0.0).any():
            limit_cuts.add(constraints.subgradients(point)[over], limits[over], point)
        if limits.max(initial=0.0) <= NEAR and here < least:
            best, least = point, here
        after = None
        while after is None and not least - bound <= NEAR * max(1.0, abs(least)):
            level = bound + _LEVEL * (least - bound)
            rows, offsets = [limit_cuts.rows], [limit_cuts.offsets]
            if level < np.inf:
                rows, offsets = [*rows, loss_cuts.rows], [*offsets, loss_cuts.offsets + level]
            after = nearest_within(region, np.vstack(rows), np.concatenate(offsets), point)
            if after is None and level == np.inf:
                raise ConfigError("No point of the set satisfies the constraints together. Loosen one of them.")
            bound = level if after is None else bound
        if after is None:
            return best, bound
        point = after
    found = f"a feasible point has the mean loss {least:.9g}" if least < np.inf else "no feasible point was found"
    raise ConfigError(
        f"After {_MOST_LEVEL_CUTS} cuts {found}, and none has less than {bound:.9g}. Check that the functions are "
        "convex and return subgradients."
    )


class _Cuts:
    """Cuts rows @ x - offsets <= f(x) of convex functions: (n, p) and (n,)."""

    def __init__(self, dimension: int) -> None:
        self.rows, self.offsets = np.empty((0, dimension)), np.empty(0)

    def add(self, slopes: Matrix, values: Vector, point: Vector) -> None:
        self.rows = np.vstack([self.rows, slopes])
        self.offsets = np.append(self.offsets, slopes @ point - values)


def deepest_point(problem: Problem) -> tuple[Vector, float]:
    """Return a point of the set where the largest constraint is least, (p,), and by how much that is below 0.

    The set is bounded. This margin is within 1e-6 of the largest one, or within that share of one above 1; Slater's
    condition holds if it is above 0.
    """
    constraints = problem.constraints

    def steepest(x: Vector) -> Vector:
        row: Vector = constraints.subgradients(x)[int(constraints.values(x).argmax())]
        return row

    start = problem.first_point(None) if problem.feasible_point is None else problem.feasible_point
    point, _ = lowest_by_cuts(problem.region, None, lambda x: float(constraints.values(x).max()), steepest, start)
    return point, -float(constraints.values(point).max())
