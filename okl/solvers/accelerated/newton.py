"""Newton's method for margin models, with the same certificate as the accelerated method.

The dual problem is to minimise outer(||A a||) + separable(a) + region(a). Its primal problem is a function of the
weights w and of one threshold t for each hyperplane n_k'a = total_k of the region,

    P(w, t) = 1/2 ||w||^2 + sum_i loss_i(z_i) - total't,    z_i = s_i <w, z_i> - (N't)_i.

A loss whose slope is continuous (squared hinge, logistic, DWD) implies a dual entry a_i = -loss_i'(z_i), and Newton's
method minimises P itself. The hinge loss is made smooth by a proximal step on the dual from an anchor b,

    a_i = clip(b_i + pace u_i (1 - z_i), 0, u_i),    u_i the upper bound,

and anchors and paces follow each other as in the method of multipliers. The gap of any (w, t) to the dual entries it
implies is 1/2 ||w - A a||^2 plus what the proximal step leaves, so that the certificate needs no other read.

Source: Niu, Wang, Tang, Wang & Song, arXiv 1910.01312, for hinge losses; Yin & Li, COAP 2019, for squared ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from okl.foundation.class_tags import stored
from okl.foundation.types import FloatArray
from okl.solvers.accelerated.base import EPSILON, Iterate
from okl.solvers.accelerated.certified_steps import (
    CertifiedState,
    CertifiedSteps,
    NewtonRecord,
    compared,
    positive_solution,
)
from okl.solvers.accelerated.dual import DualProblem
from okl.solvers.accelerated.newton_parts import MOST_COLUMNS, Gradient, NewtonPart, Place, Point, added, result_of
from okl.solvers.accelerated.newton_problem import NewtonProblem, bends, in_memory, is_smooth
from okl.solvers.accelerated.operators import DenseRows, SparseRows
from okl.solvers.accelerated.problem import EuclideanNorm, LinearTerm
from okl.solvers.accelerated.shards import RootSearch, find_roots


@stored("newton-state")
@dataclass(frozen=True, eq=False)
class NewtonState(CertifiedState):
    """anchors : points before; best : the dual point of the best one, if rows are here, and A a."""

    point: Point
    anchors: tuple[Point, ...]
    best_point: Point
    best: Iterate


_FIRST_PACE, _FASTER, _MOST_PACE = 0.5, 3.0, 1e10
_SHARE = 0.1  # of what the proximal step leaves of the gap: the residual of an inner problem
_OF_TOLERANCE = 0.2
_MOST_STEPS, _STEPS_A_CHECK = 50, 3  # of an inner problem; of the only one
_MOST_NARROWINGS = 2  # of an inner problem
_MOST_TRIALS, _MOST_STANDING = 40, 2  # of a line search; steps that stand still
_FLAT, _TOO_SHORT = 0.1, 0.5  # slopes along a line, in that at its start, after which a step is taken
_BALANCED = 1e-8  # of the sum of the dual entries
_CANDIDATES = 3
_CANCELLED = 1e-12  # of a slope: the weight in a step by rows
_LOOSEST, _TIGHT, _MOST_PRODUCTS = 0.1, 1e-4, 1000  # shares of the right side that are left; products with a vector
_OF_MATRIX = 0.025  # of the columns: products that take as long as the matrix of a step
_RESOLVED, _LONGER = 1e-11, 1e-9  # of the objective of no weights: losses that may be rounding; of the weights
_SLOWER, _FIRST_SLOW, _STANDING = 1e-2, 1e-6, 1e-12  # of the pace; of the weights: a step that is rounding
_HALVED, _WIDE = 8, 16.0  # trials before a line search halves its logarithm; the ratio of bounds in which it does

_ONE_IN, _ROWS_A_COLUMN = 4, 20  # rows in a sample; of sparse rows, for each column, at least
_RARE = 0.1  # of the rows, of the smaller class, at most
_ROUGH, _FEW = 0.1, 5  # gap that is enough on a sample; steps


@dataclass(frozen=True)
class Newton(CertifiedSteps):
    """Newton's method on weights and thresholds, with proximal steps on the dual where losses have kinks."""

    def opened(self, problem: DualProblem, point: FloatArray | None = None) -> NewtonProblem:
        """Return what the other methods take, for rows in this process; see `in_memory`."""
        opened = in_memory(problem, point, self.tolerance)
        rows: Any = problem.rows
        sampled = isinstance(rows, SparseRows) and rows.n_points >= _ONE_IN * _ROWS_A_COLUMN * rows.n_image
        # classes of like size take few steps from no weights
        rare = (1.0 - abs(float(rows.signs.mean()))) / 2.0 <= _RARE
        if point is not None or not (sampled and rare and bends(problem)):
            return opened
        # k times as many rows have the same optimum as rows that are sqrt(k) times as long, times sqrt(k)
        some, longer = slice(None, None, _ONE_IN), math.sqrt(_ONE_IN)
        sample = problem.part(rows.some(some, longer), lambda values: values[some] if np.ndim(values) else values)
        near = self._after_few_steps(sample)
        return replace(opened, start=(longer * near.weights, near.thresholds))

    def _after_few_steps(self, problem: DualProblem) -> Point:
        """Return the best point of a few steps."""
        few = replace(self, tolerance=max(_ROUGH, self.tolerance), max_iterations=min(_FEW, self.max_iterations))
        opened = few.opened(problem)
        state = few.start(opened)
        while few.finished(state) is None:
            state = few.advance(state, opened)
        return state.best_point

    def start(self, problem: NewtonProblem, point: FloatArray | None = None) -> NewtonState:
        run = _Run(problem, self.tolerance, 0, problem.reads)
        weights, thresholds = problem.start or (
            np.zeros(problem.n_columns),
            np.zeros(len(problem.prototype.region.totals)),
        )
        # 0: the entries are those of the start
        pace = _FIRST_PACE / run.unit(weights) if problem.anchored and not problem.reads else 0.0
        return run.checked(Place(Point(0, weights, thresholds, pace), ()), None)

    def advance(self, state: NewtonState, problem: NewtonProblem) -> NewtonState:
        largest = state.history[0].certificate.primal
        run = _Run(problem, self.tolerance, state.history[-1].iteration, state.reads, largest)
        place = Place(state.point, state.anchors)
        if problem.anchored and state.point.pace == 0.0:
            place = Place(replace(state.point, pace=_FIRST_PACE), ())
        elif state.point.pace > 0.0:
            faster = min(_FASTER * state.point.pace, _MOST_PACE) if state.anchors else state.point.pace
            place = Place(replace(state.point, pace=faster), (*state.anchors, state.point))
        place = run.minimised(place, self.max_iterations)
        run.iteration = max(run.iteration, state.history[-1].iteration + 1)
        return run.checked(place, state)


@dataclass
class _Run:
    """An inner problem under way.

    iteration : Newton steps so far; reads : requests so far; largest : objective of the first point
    few_products : whether products with vectors may be faster than the matrix of a step
    """

    problem: NewtonProblem
    tolerance: float
    iteration: int
    reads: int
    largest: float = 0.0
    serial: int = field(init=False)
    few_products: bool = field(init=False)

    def __post_init__(self) -> None:
        self.serial = 2 * self.iteration
        prototype = self.problem.prototype
        # with a bias, dense problems of which this is so take accelerated gradients
        self.few_products = isinstance(prototype.rows, DenseRows) and is_smooth(prototype) and not prototype.intercept

    def evaluate(self, *request: Any) -> list[Any]:
        """Return the results of all partitions."""
        self.reads += 1
        return self.problem.evaluate(request)

    def unit(self, weights: FloatArray) -> float:
        """Return the size of the differences of margins that matter: 1 for the hinge, whose kink is at 1.

        nu-SVM has margins of any size: they spread as those of the difference of the class means, at first.
        """
        prototype = self.problem.prototype
        if not isinstance(prototype.separable, LinearTerm) or prototype.separable.slope != 0.0:
            return 1.0
        place = Place(Point(-1, weights, np.zeros(len(prototype.region.totals)), 1.0), ())
        place = self.balanced(place)
        image = added(self.evaluate(NewtonPart.gradient, place)).image
        sums = np.sum(
            self.evaluate(NewtonPart.spread, Place(replace(place.point, serial=-2, weights=image), ())), axis=0
        )
        counts = np.maximum(sums[:, 0], 1.0)
        variance = float(np.sum(sums[:, 2] - sums[:, 1] ** 2 / counts) / counts.sum())
        return math.sqrt(variance) if variance > 0.0 else 1.0

    def minimised(self, place: Place, max_iterations: int, narrowings: int = _MOST_NARROWINGS) -> Place:
        """Return where the losses' sum and the penalty are least, to a share of the gap.

        narrowings : how often steps may be taken on some rows before all are read
        """
        standing, least = 0, math.inf
        for _ in range(_MOST_STEPS if place.point.pace > 0.0 else _STEPS_A_CHECK):
            gradient = added(self.evaluate(NewtonPart.gradient, place))
            if self._is_near(place, gradient) or self.iteration >= max_iterations:
                break
            narrowed = self._narrowed(place, max_iterations - 1) if narrowings else None
            direction = narrowed or self._direction(place, gradient)
            step = self._step(place, gradient, direction)
            self.iteration += 1
            self.serial = 2 * self.iteration  # of the next direction, too: margins of the last one may be at hand
            if narrowed is not None:
                narrowings = narrowings - 1 if step > 0.0 else 0
                if step == 0.0:
                    continue
            residual = self._residual(place.point.weights, gradient.image)
            standing = standing + 1 if _stands(place.point, direction, step) and residual >= 0.5 * least else 0
            least = min(least, residual)
            if step == 0.0 or standing >= _MOST_STANDING:
                return self._slower(place)
            point = place.point
            moved = replace(
                point,
                serial=self.serial,
                weights=point.weights + step * direction.weights,
                thresholds=point.thresholds + step * direction.thresholds,
            )
            place = replace(place, point=moved)
        return place

    def _narrowed(self, place: Place, max_iterations: int) -> Point | None:
        """Return the direction to the least of the rows that matter near the place; None where these are most."""
        if not self.problem.holds_rows:
            return None
        (part,) = self.problem.evaluate((NewtonPart.narrowed, place))
        if part is None:
            return None
        problem = replace(self.problem, evaluate=partial(result_of, part))
        fewer = _Run(problem, self.tolerance, self.iteration, self.reads, self.largest)
        point, start = fewer.minimised(Place(place.point, ()), max_iterations, 0).point, place.point
        self.iteration, self.reads, self.serial = fewer.iteration, fewer.reads, 2 * fewer.iteration
        return Point(self.serial + 1, point.weights - start.weights, point.thresholds - start.thresholds, 0.0)

    def _slower(self, place: Place) -> Place:
        """Return the place with a smaller pace and without anchors, which may be far larger than the dual optimum.

        Margins are rounded, and dual entries move by the pace times their error.
        """
        if not self.problem.has_unit:
            return place
        return Place(replace(place.point, pace=_SLOWER * place.point.pace or _FIRST_SLOW), ())

    def _is_near(self, place: Place, gradient: Gradient) -> bool:
        point, prototype = place.point, self.problem.prototype
        rounded = self._is_rounded(gradient)
        size = self._regulariser(point.weights) + (0.0 if rounded else abs(gradient.risk))
        left = 0.0 if rounded else max(gradient.risk + gradient.value + gradient.along, 0.0)
        unbalanced = np.abs(gradient.balance - prototype.region.totals).max(initial=0.0)
        enough = _SHARE * max(left, _OF_TOLERANCE * self.tolerance * size)
        return self._residual(point.weights, gradient.image) <= enough and unbalanced <= _BALANCED * gradient.size

    def _is_rounded(self, gradient: Gradient) -> bool:
        """Return whether hinge losses may be those of margins of 1 that are rounded."""
        return self.problem.anchored and gradient.risk <= _RESOLVED * self.largest

    def _stretched(self, point: Point) -> Point:
        """Return weights that are longer by a share of the tolerance, so that margins of 1 are above it."""
        longer = 1.0 + min(_LONGER, 1e-2 * self.tolerance)
        return replace(
            point, serial=-3 - self.iteration, weights=longer * point.weights, thresholds=longer * point.thresholds
        )

    def _regulariser(self, weights: FloatArray) -> float:
        return 0.0 if self.problem.in_ball else 0.5 * float(weights @ weights)

    def _residual(self, weights: FloatArray, image: FloatArray) -> float:
        """Return what w and A a add to the gap: 1/2 ||w - A a||^2, or radius ||A a|| - <w, A a>."""
        outer = self.problem.prototype.outer
        if isinstance(outer, EuclideanNorm):
            return outer.radius * float(np.linalg.norm(image)) - float(weights @ image)
        return 0.5 * float(np.sum(np.square(weights - image)))

    def _slopes(self, place: Place, gradient: Gradient) -> FloatArray:
        """Return the gradient over weights and thresholds, (n_columns + n_hyperplanes,)."""
        of_weights = -gradient.image if self.problem.in_ball else place.point.weights - gradient.image
        return np.concatenate([of_weights, gradient.balance - self.problem.prototype.region.totals])

    def _direction(self, place: Place, gradient: Gradient) -> Point:
        slopes, n = self._slopes(place, gradient), self.problem.n_columns
        few = 0 < gradient.free < min(n, MOST_COLUMNS + 1)
        if few and self.problem.holds_rows and not self.problem.in_ball:
            (step,) = self.evaluate(NewtonPart.step_by_rows, place, slopes, gradient.margin)
            cancelled = np.any(np.abs(step[:n]) < _CANCELLED * np.abs(slopes[:n]))
            if n <= MOST_COLUMNS and cancelled:  # a weight is the difference of far larger ones
                step = self._by_curvature(place, gradient, slopes)
        elif n > MOST_COLUMNS and not self.problem.in_ball:
            step, _ = self._by_products(place, gradient, slopes, _MOST_PRODUCTS)
        else:
            step, solved = np.empty(0), False
            if self.few_products:
                step, solved = self._by_products(place, gradient, slopes, int(_OF_MATRIX * n))
            self.few_products = solved
            step = step if solved else self._by_curvature(place, gradient, slopes)
        return Point(self.serial + 1, step[:n], step[n:], 0.0)

    def _by_curvature(self, place: Place, gradient: Gradient, slopes: FloatArray) -> FloatArray:
        n = self.problem.n_columns
        curvature = self.evaluate(NewtonPart.curvature, place)
        matrix = curvature[0]
        for part in curvature[1:]:
            matrix = matrix + part
        diagonal = np.einsum("ii->i", matrix)
        # a threshold that no free row depends on: as far as the margins reach, at most
        stuck = np.flatnonzero(diagonal[n:] <= 0.0) + n
        diagonal[stuck] = np.maximum(np.abs(slopes[stuck]), EPSILON) / (1.0 + gradient.margin)
        if self.problem.in_ball:
            outer: Any = self.problem.prototype.outer
            return _step_in_ball(matrix, slopes, place.point.weights, outer.radius)
        diagonal[:n] += 1.0
        return -positive_solution(matrix, slopes)

    def _by_products(self, place: Place, gradient: Gradient, slopes: FloatArray, most: int) -> tuple[FloatArray, bool]:
        """Return a step that solves the Newton system to a share of its right side, by conjugate gradients.

        Also return whether at most so many products were enough.

        The diagonal preconditions them: columns may be of any size.

        Source: Dembo & Steihaug, Mathematical Programming 26, 1983, for the share.
        """
        n = self.problem.n_columns
        scale = np.sum(self.evaluate(NewtonPart.diagonal, place), axis=0)
        scale[:n] += 1.0
        stuck = np.flatnonzero(scale <= 0.0)
        scale[stuck] = np.maximum(np.abs(slopes[stuck]), EPSILON) / (1.0 + gradient.margin)

        def times(vector: FloatArray) -> FloatArray:
            total: FloatArray = np.sum(self.evaluate(NewtonPart.product, place, vector), axis=0)
            total[:n] += vector[:n]
            total[stuck] += scale[stuck] * vector[stuck]
            return total

        step, left = np.zeros(len(slopes)), -slopes
        direction = left / scale
        size = first = float(left @ direction)
        length = math.sqrt(first)
        share = min(_LOOSEST, math.sqrt(length / (1.0 + float(np.linalg.norm(place.point.weights)))))
        if not is_smooth(self.problem.prototype):  # rows become free on the way: a rough step may lead astray
            share = _LOOSEST if self.problem.rough and bends(self.problem.prototype) else _TIGHT
        for _ in range(most):
            moved = times(direction)
            along = size / float(direction @ moved)
            step += along * direction
            left = left - along * moved
            before, size = size, float(left @ (left / scale))
            if size <= share**2 * first:
                return step, True
            direction = left / scale + (size / before) * direction
        return step, False

    def _step(self, place: Place, gradient: Gradient, direction: Point) -> float:
        """Return how far to go: to where the slope along the direction is nearly 0; 0 where it does not fall."""
        weights, totals = place.point.weights, self.problem.prototype.region.totals
        penalty = 0.0 if self.problem.in_ball else 1.0
        along = np.concatenate([direction.weights, direction.thresholds])
        first = float(self._slopes(place, gradient) @ along)
        if not first < 0.0:
            return 0.0
        low, high, step = 0.0, math.inf, 1.0
        for trial in range(_MOST_TRIALS):
            sums = np.sum(self.evaluate(NewtonPart.line, place, direction, (step,)), axis=0)[0]
            slope = penalty * float((weights + step * direction.weights) @ direction.weights) + float(sums[0])
            slope -= float(totals @ direction.thresholds)
            fall = penalty * float(direction.weights @ direction.weights) + float(sums[1])
            if -_TOO_SHORT * first >= -slope >= _FLAT * first or (self.problem.in_ball and step == 1.0 and slope < 0.0):
                break
            low, high = (step, high) if slope < 0.0 else (low, step)
            following = step - slope / fall if fall > 0.0 else math.inf
            if math.isinf(high):
                step = min(max(following, 2.0 * step), 10.0 * step)
            elif low < following < high:
                step = following
            elif low == 0.0 and trial >= _HALVED:  # steps may be of any size
                step = high * 0.5 ** (trial - _HALVED + 2)
            else:
                wide = trial >= _HALVED and high > _WIDE * low
                step = math.sqrt(low * high) if wide else 0.5 * (low + high)
        return step

    def balanced(self, place: Place) -> Place:
        """Return the same weights with the thresholds at which the dual entries meet the hyperplanes."""
        region, point = self.problem.prototype.region, place.point
        totals = region.totals
        if not len(totals):
            return place

        def evaluate(candidates: FloatArray) -> FloatArray:
            sums = np.sum(self.evaluate(NewtonPart.balances, place, candidates), axis=0)
            sums[:, :, 0] += totals[:, np.newaxis]
            sums[:, :, 2] += np.abs(totals)[:, np.newaxis]
            return np.asarray(sums)

        searches = [RootSearch(float(guess), 1e-3 * (1.0 + abs(guess)), _CANDIDATES) for guess in point.thresholds]
        return replace(place, point=replace(point, thresholds=find_roots(searches, evaluate)))

    def checked(self, place: Place, before: NewtonState | None) -> NewtonState:
        """Return the state at a place, whose thresholds are made those of a dual point."""
        if place.point.pace > 0.0 or not self.problem.anchored:
            place = self.balanced(place)
        gradient, prototype = added(self.evaluate(NewtonPart.gradient, place)), self.problem.prototype
        point, of_losses = place.point, gradient.risk
        residual = float(np.linalg.norm(point.weights - gradient.image))
        if of_losses > 0.0 and self._is_rounded(gradient):
            longer = self._stretched(point)
            of_longer = added(self.evaluate(NewtonPart.gradient, replace(place, point=longer))).risk
            if of_longer + self._regulariser(longer.weights) < of_losses + self._regulariser(point.weights):
                point, of_losses = longer, of_longer
        squared = float(gradient.image @ gradient.image)
        risk = of_losses - float(prototype.region.totals @ point.thresholds)
        bias = prototype.risk.bias_at(point.thresholds) if prototype.intercept else 0.0
        certificate = prototype.certificate_from_sums(
            squared, risk, gradient.value, bias, gradient.terms, point.weights
        )
        # entries miss the hyperplanes by rounding, times the pace; thresholds are what a miss costs
        missed = float(np.abs(point.thresholds) @ np.abs(gradient.balance - prototype.region.totals))
        lower = certificate.dual - (missed if missed > certificate.rounding else 0.0)
        certificate = replace(certificate, dual=min(lower, certificate.primal))
        record = NewtonRecord(
            iteration=self.iteration,
            objective=-certificate.dual,
            certificate=certificate,
            residual=residual,
            reads=self.reads,
            free=gradient.free,
        )
        best_record, history, better = compared(record, before)
        if before is None or better:
            duals = self.evaluate(NewtonPart.duals, place)[0] if self.problem.holds_rows else np.empty(0)
            best_point, best = point, Iterate(duals, gradient.image)
        else:
            best_point, best = before.best_point, before.best
        return NewtonState(best_record, history, place.point, place.anchors, best_point, best)


def _stands(point: Point, direction: Point, step: float) -> bool:
    """Return whether a step changes weights and thresholds by no more than rounding."""
    of_weights = step * float(np.linalg.norm(direction.weights)) <= _STANDING * float(np.linalg.norm(point.weights))
    changes = step * np.abs(direction.thresholds) <= _STANDING * (1.0 + np.abs(point.thresholds))
    return of_weights and bool(changes.all())


def _step_in_ball(matrix: FloatArray, slopes: FloatArray, weights: FloatArray, radius: float) -> FloatArray:
    """Return the step to the least of a quadratic model over ||w|| <= radius and any thresholds.

    Source: More & Sorensen, SIAM Journal on Scientific and Statistical Computing 4, 1983, by eigenvalues.
    """
    n = len(weights)
    lower = np.tril(matrix)
    full = lower + np.tril(matrix, -1).T
    inner, cross, corner = full[:n, :n], full[:n, n:], full[n:, n:]
    moved = np.linalg.solve(corner, np.column_stack([cross.T, slopes[n:]])) if n < len(full) else np.zeros((0, n + 1))
    reduced, right = inner - cross @ moved[:, :n], cross @ moved[:, n] - slopes[:n]
    values, vectors = np.linalg.eigh(reduced)
    values = np.maximum(values, 0.0)
    right = vectors.T @ (right + reduced @ weights)

    def length(shift: float) -> float:
        return float(np.linalg.norm(right / (values + shift)))

    least = EPSILON * max(float(values[-1]), float(np.linalg.norm(right)) / radius)
    shift = least
    if length(least) > radius:
        low, high = least, float(np.linalg.norm(right)) / radius
        shift = max(low, high - float(values[-1]))
        for _ in range(100):
            place = right / (values + shift)
            norm = float(np.linalg.norm(place))
            low, high = (shift, high) if norm > radius else (low, shift)
            if abs(norm - radius) <= 4.0 * EPSILON * radius:
                break
            fall = float(np.sum(place**2 / (values + shift)))
            following = shift + (norm - radius) / radius * norm**2 / fall if fall > 0.0 else high
            shift = following if low < following < high else math.sqrt(low * high)
    target = vectors @ (right / (values + shift))
    target *= min(1.0, radius / max(float(np.linalg.norm(target)), EPSILON))
    step = target - weights
    return np.concatenate([step, -moved[:, n] - moved[:, :n] @ step])
