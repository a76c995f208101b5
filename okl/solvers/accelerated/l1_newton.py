"""Newton's method for smooth losses with an l1 penalty, with the same certificate as the accelerated method.

A step minimises the penalty and a quadratic model of the losses over the columns that have a weight or may get one: by
coordinate descent, which finds their signs, and by the linear system of the weights of these signs, which does not slow
down where columns are of unlike size or nearly dependent. Slopes of the losses give the dual point.

Where the losses have second derivatives and rows have many values, every second step takes the matrix of the last one
times a factor: the matrix takes longer than all else, and far from the optimum an exact one gains little. For the same
reason sparse rows of small second derivatives add to its diagonal alone, until a step is not good.

Where the second derivatives change much along a step, as for squared hinges of rows that can nearly be separated, the
model holds near the start of the step only, and steps are short. The squared length of the step times a damping is then
added to the model; the damping rises after a short step and falls after a full one.

Source: Yuan, Ho & Lin, JMLR 13, 2012, newGLMNET; Lee, Battle, Raina & Ng, NIPS 2006, for the search of signs;
Nocedal & Wright, Numerical Optimization, 2006, section 10.3, for the damping.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from okl.compiled.descent import descend_weights
from okl.foundation.class_tags import stored
from okl.foundation.types import Doubles, FloatArray, IntArray
from okl.solvers.accelerated import certified_steps
from okl.solvers.accelerated.base import EPSILON, CompositeProblem, Iterate, check_start
from okl.solvers.accelerated.dual import SparseProblem
from okl.solvers.accelerated.newton_parts import Cache, LastArrays, Point, Request, result_of
from okl.solvers.accelerated.newton_problem import NewtonWork, PartsProblem
from okl.solvers.accelerated.operators import DenseRows, SparseRows


class L1Part:
    """Rows of a partition: pure functions of a point, whose margins are kept while there is room."""

    def __init__(self, problem: SparseProblem, cache: Cache) -> None:
        self._problem, self._cache = problem, cache

    def slopes(self, at: Point) -> tuple[FloatArray, float]:
        """Return the gradient of the losses over the weights, (n_columns,), and their sum."""
        problem = self._problem
        slopes = problem.rows.image(problem.weights * self._derivatives(at))  # type: ignore[attr-defined]
        return slopes, float(problem.weights @ problem.loss.value(self._margins(at)))

    def curvature(self, at: Point, columns: IntArray, least: float) -> FloatArray:
        """Return the second derivatives over some columns, at least their lower triangle.

        least : of the mean second derivative; of sparse rows below it the diagonal is enough
        """
        problem, rows = self._problem, self._problem.rows
        weights = problem.weights * problem.loss.second_derivative(self._margins(at))
        border = np.empty((0, rows.n_points))
        curvature: FloatArray = rows.curvature(weights, border, columns, least * float(weights.mean()))  # type: ignore[attr-defined]
        return curvature

    def line(self, at: Point, direction: Point, step: float) -> float:
        """Return the derivative of the losses at a step along a direction."""
        change = self._margins(direction)
        derivative = self._problem.loss.derivative(self._margins(at) + step * change)
        return float((self._problem.weights * derivative) @ change)

    def conjugate(self, at: Point, factor: float) -> float:
        """Return minus the dual objective of the slopes at a point, made feasible by a factor in (0, 1]."""
        problem = self._problem
        return float(problem.weights @ problem.loss.conjugate(-factor * self._derivatives(at)))

    def _derivatives(self, at: Point) -> FloatArray:
        return self._cache(("derivatives", at.serial), lambda: self._problem.loss.derivative(self._margins(at)))

    def _margins(self, at: Point) -> FloatArray:
        rows: Any = self._problem.rows
        return self._cache(("margins", at.serial), lambda: rows.margins(at.weights))


def is_supported(problem: CompositeProblem) -> bool:
    """Return whether this method solves a problem: explicit rows in memory and an l1 penalty."""
    return type(problem) is SparseProblem and type(problem.rows) in (DenseRows, SparseRows)


@stored("l1-newton-work")
@dataclass(frozen=True, eq=False)
class L1Work(NewtonWork):
    """Work on a shard for an l1 model."""

    def problem_of(self, evaluate: Callable[[Request], list[Any]]) -> Any:
        start = None if self.warm is None else self.warm.weights
        return PartsProblem(self.prototype, self.rows.n_columns, evaluate, start)

    def part_of(self, problem: Any, longest: float, cached: Cache) -> Any:
        return L1Part(problem, cached)


@stored("l1-curvature")
@dataclass(frozen=True, eq=False)
class Curvature:
    """Second derivatives of the losses over some columns, as those of an earlier point imply them.

    columns : ascending, (k,); products : (k, k)
    """

    columns: IntArray
    products: FloatArray

    def over(self, columns: IntArray, slopes: FloatArray) -> Curvature | None:
        """Return those over some of the columns; None where others are as steep as the penalty."""
        shared, places, _ = np.intersect1d(self.columns, columns, assume_unique=True, return_indices=True)
        others = np.setdiff1d(columns, shared, assume_unique=True)
        if np.abs(slopes[others]).max(initial=0.0) > 1.0:
            return None
        return replace(self, columns=shared, products=self.products[np.ix_(places, places)])

    def after(self, change: FloatArray, change_of_slopes: FloatArray) -> Curvature | None:
        """Return those after a step over the columns, as if all had changed by one factor; None without a factor.

        The mean along the step follows from the slopes. If they fall or rise geometrically, those at its end are, to
        first order, the square of the mean in those at its start.
        """
        first, along = float(change @ self.products @ change), float(change @ change_of_slopes)
        if not 0.0 < along < _MOST_CHANGED * first:
            return None
        mean = along / first
        return Curvature(self.columns, mean**2 * self.products)


@stored("l1-newton-state")
@dataclass(frozen=True, eq=False)
class L1State(certified_steps.CertifiedState):
    """point, slopes : the gradient of the losses there; best_point, best : its weights, to start another run from."""

    point: Point
    slopes: FloatArray
    best_point: Point
    best: Iterate
    damping: float = 0.0  # of the next step, in the largest second derivative
    curvature: Curvature | None = None  # for the next step, unless it is computed anew
    needs_all_rows: bool = False  # as a step with the diagonal of some was not good


_NEAR = 0.3  # of the slope of the penalty: columns whose losses are less steep by more stay out of a step
_MOST_WORKING, _GROWTH = 1000, 2  # columns of a step, unless more have a weight; new ones for each that has
_SHARE, _ROUGH = 0.01, 0.1  # of the violation that a step leaves; where no step was short
_FLAT, _MOST_TRIALS = 0.1, 40  # of the slope along a step; of its lengths
_MOST_ROUNDS, _SWEEPS, _MOST_FACES = 60, 16, 100  # of the search of signs; steps in a round
_MANY_VALUES = 100_000  # of rows in memory: second derivatives of fewer take less time than the steps that reuse them
_GOOD, _MOST_CHANGED = 0.8, 10.0  # of the violation: left by a good step; factor of second derivatives after it
_LEAST_CURVED = 0.02  # of the mean second derivative: products of two columns in rows below it are left out
_SHORT, _FULL = 0.1, 0.9  # lengths of a step that raise and lower the damping
# first, largest; none below; by this factor
_LEAST_DAMPING, _MOST_DAMPING, _NO_DAMPING, _DAMPED = 1e-8, 1.0, 1e-12, 10.0


@dataclass(frozen=True)
class L1Newton(certified_steps.CertifiedSteps):
    """Newton's method with an l1 penalty."""

    def opened(self, problem: SparseProblem, point: FloatArray | None = None) -> PartsProblem:
        """Return what the other methods take, of rows in this process; DataError for an invalid point."""
        if point is not None:
            check_start(point, problem.n_points)
        evaluate = partial(result_of, L1Part(problem, LastArrays()))
        rows: Any = problem.rows
        reuses_curvature = rows.rows.size >= _MANY_VALUES
        return PartsProblem(problem, problem.n_points, evaluate, point, reuses_curvature=reuses_curvature)

    def start(self, problem: PartsProblem, point: FloatArray | None = None) -> L1State:
        first = np.zeros(problem.n_columns) if problem.start is None else np.array(problem.start, dtype=np.float64)
        opening = Point(0, first, np.empty(0), 0.0)
        return _checked(problem, opening, _sums(problem, opening), None, 2)

    def advance(self, state: L1State, problem: PartsProblem) -> L1State:
        point, slopes = state.point, state.slopes
        columns = working_columns(point.weights, slopes)
        reused = state.curvature and state.curvature.over(columns, slopes)
        least = 0.0 if state.needs_all_rows or problem.prototype.loss.has_kinks else _LEAST_CURVED
        curvature = reused or _curvature(problem, point, columns, least)
        columns, products, before = curvature.columns, curvature.products, violation(point.weights, slopes)
        bends = np.einsum("ii->i", products)
        bends += state.damping * float(bends.max(initial=0.0))
        weights = point.weights[columns]
        # short steps go along faces of the penalty: rough ones would leave them too often
        enough = (_SHARE if state.damping > 0.0 else _ROUGH) * before
        target = minimised_model(weights, slopes[columns], products, enough)
        change = np.zeros(problem.n_columns)
        change[columns] = target - weights
        moved = point.weights.copy()
        moved[columns] = target  # zeros stay zeros
        following = replace(point, serial=point.serial + 1, weights=moved)
        sums = _sums(problem, following)
        direction = replace(point, serial=point.serial + 2, weights=change)
        step, n_trials = _length(problem, point, slopes, direction, sums[0])
        if step < 1.0:
            following = replace(point, serial=point.serial + 3, weights=point.weights + step * change)
            sums = _sums(problem, following)
            n_trials += 1
        after = _checked(problem, following, sums, state, n_trials + (2 if reused else 3))
        is_good = step == 1.0 and state.damping == 0.0 and violation(moved, sums[0]) <= _GOOD * before
        after = replace(after, needs_all_rows=state.needs_all_rows or not is_good)
        if reused:
            return after
        if is_good and problem.reuses_curvature and not problem.prototype.loss.has_kinks:
            return replace(after, curvature=curvature.after(target - weights, (sums[0] - slopes)[columns]))
        return replace(after, damping=_next_damping(state.damping, step))


def _curvature(problem: PartsProblem, point: Point, columns: IntArray, least: float) -> Curvature:
    lower = np.tril(np.sum(problem.evaluate((L1Part.curvature, point, columns, least)), axis=0))
    return Curvature(columns, lower + np.tril(lower, -1).T)


def _next_damping(damping: float, step: float) -> float:
    """Return the damping after a step of some length, at most 1."""
    if step < _SHORT:
        return max(min(_DAMPED * damping, _MOST_DAMPING), _LEAST_DAMPING)
    if step >= _FULL:
        return damping / _DAMPED if damping > _NO_DAMPING else 0.0
    return damping


_Sums = tuple[FloatArray, float]
"""The gradient of the losses over the weights, (n_columns,), and their sum."""


def _sums(problem: PartsProblem, point: Point) -> _Sums:
    parts, risks = zip(*problem.evaluate((L1Part.slopes, point)), strict=True)
    return np.sum(parts, axis=0), float(sum(risks))


def _checked(problem: PartsProblem, point: Point, sums: _Sums, before: L1State | None, requests: int) -> L1State:
    """Return the state at a point; requests : to all rows since the last one."""
    slopes, risk = sums
    factor = 1.0 / max(1.0, float(np.abs(slopes).max()))
    dual = float(sum(problem.evaluate((L1Part.conjugate, point, factor))))
    certificate = problem.prototype.certificate_from_sums(risk, float(np.abs(point.weights).sum()), dual)
    record = certified_steps.NewtonRecord(
        iteration=0 if before is None else before.history[-1].iteration + 1,
        objective=certificate.primal,
        certificate=certificate,
        residual=violation(point.weights, slopes),
        reads=requests + (0 if before is None else before.reads),
        free=int(np.count_nonzero(point.weights)),
    )
    best_record, history, better = certified_steps.compared(record, before)
    best_point = point if before is None or better else before.best_point
    return L1State(best_record, history, point, slopes, best_point, Iterate(best_point.weights, np.empty(0)))


def _length(
    problem: PartsProblem, point: Point, slopes: FloatArray, direction: Point, slopes_at_end: FloatArray
) -> tuple[float, int]:
    """Return how far to go, at most 1: to where the objective is nearly flat; and how often all rows were read.

    slopes, slopes_at_end : of the losses, at the point and after a step of length 1
    """
    weights, change = point.weights, direction.weights

    def slope_of_norm(step: float) -> float:
        moved = weights + step * change
        signs = np.sign(np.where(moved != 0.0, moved, weights if step > 0.0 else change))
        return float(signs @ change)

    first = float(slopes @ change) + slope_of_norm(0.0)
    if not first < 0.0:
        return 0.0, 0
    along = float(slopes_at_end @ change) + slope_of_norm(1.0)
    if along <= -_FLAT * first:
        return 1.0, 0
    low, high, step, below = 0.0, 1.0, 1.0, first
    for n_trials in range(1, _MOST_TRIALS):
        if along < 0.0:
            low, below = step, along
        else:
            high = step
        secant = low + (step - low) * below / (below - along) if along > 0.0 else 0.5 * (low + high)
        step = min(max(secant, low + 0.1 * (high - low)), high - 0.1 * (high - low))
        along = float(sum(problem.evaluate((L1Part.line, point, direction, step)))) + slope_of_norm(step)
        if abs(along) <= -_FLAT * first:
            return step, n_trials
    return low, _MOST_TRIALS - 1  # beyond, the objective may be higher than at the start


def working_columns(weights: FloatArray, slopes: FloatArray) -> IntArray:
    """Return the columns of a step: those with a weight, and those without whose losses are steepest."""
    steep = np.abs(slopes)
    near = min(_NEAR, violation(weights, slopes))
    has_weight = weights != 0.0
    columns = np.flatnonzero(has_weight | (steep >= 1.0 - near))
    n_weights = int(np.count_nonzero(has_weight))
    most = max(_MOST_WORKING, (1 + _GROWTH) * n_weights)
    if len(columns) > most:
        others = columns[~has_weight[columns]]
        steepest = others[np.argsort(-steep[others], kind="stable")[: most - n_weights]]
        columns = np.sort(np.concatenate([np.flatnonzero(has_weight), steepest]))
    return columns


def violation(weights: FloatArray, slopes: FloatArray) -> float:
    """Return the largest violation of the optimality conditions, in slopes of the penalty."""
    return float(_violations(weights, slopes).max(initial=0.0))


def _violations(weights: FloatArray, slopes: FloatArray) -> Doubles:
    return np.where(weights != 0.0, np.abs(slopes + np.sign(weights)), np.maximum(np.abs(slopes) - 1.0, 0.0))


def minimised_model(weights: FloatArray, slopes: FloatArray, products: FloatArray, tolerance: float) -> FloatArray:
    """Return v (n,) that minimises g'(v - w) + 1/2 (v - w)'H(v - w) + ||v||_1, H symmetric, to a violation."""
    products = np.ascontiguousarray(products)
    point, at = weights.copy(), slopes.copy()
    for _ in range(_MOST_ROUNDS):
        descend_weights(point, at, products, _SWEEPS)
        at = slopes + products @ (point - weights)
        left = _violations(point, at)
        if left.max(initial=0.0) <= tolerance:
            break
        noise = 4.0 * EPSILON * (np.abs(products) @ (np.abs(point) + np.abs(weights)))
        if np.all(left <= np.maximum(tolerance, noise)):
            break
        for _ in range(_MOST_FACES):
            face = np.flatnonzero(point)
            if not len(face):
                break
            point[face], is_least = _step_on_face(point, at, products, face)
            at = slopes + products @ (point - weights)
            if is_least:
                break
    return point


def _step_on_face(point: FloatArray, at: FloatArray, products: FloatArray, face: IntArray) -> tuple[FloatArray, bool]:
    """Return weights of some columns (n_face,) after a step to the least of the model among weights of their signs.

    Also return whether the step got there: one that ends where weights become 0 leaves fewer columns for the next.
    """
    inner, weights = np.ascontiguousarray(products[np.ix_(face, face)]), point[face]
    bends = np.einsum("ii->i", inner)
    bends[bends <= 0.0] = EPSILON * max(float(bends.max()), 1e-300)
    slopes = at[face] + np.sign(weights)
    direction = -certified_steps.positive_solution(inner, slopes)
    crossings = np.where(direction * weights < 0.0, -weights / np.where(direction == 0.0, 1.0, direction), np.inf)
    nearest = float(crossings.min())
    length = 1.0
    while length > nearest:
        moved = np.where(crossings <= length, 0.0, weights + length * direction)
        change = moved - weights
        rise = float(at[face] @ change) + 0.5 * float(change @ inner @ change)
        if rise + float(np.abs(moved).sum() - np.abs(weights).sum()) < 0.0:
            return moved, False
        length *= 0.25
    length = min(1.0, nearest)
    return np.where(crossings <= length, 0.0, weights + length * direction), nearest > 1.0
