"""Stochastic conjugate subgradients on one sample: cuts, search directions, line searches, and Wolfe's method."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from okl.compiled.bundle import add_sloped_rows, least_step, score_rows, solve_master
from okl.compiled.dual_steps import inner
from okl.data.execution import Rows
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray
from okl.foundation.validation import check_at_least, check_choice, check_positive
from okl.losses import Hinge, PiecewiseLinear, Ray
from okl.solvers.subgradient.spaces import SampleSpace, Vector, inner_product

# A bundle of cuts: the lower model of the objective, its best bound, and the point that attains it.

_CHANGES_OF_CUT = 20


@stored("cutting-plane-bundle")
@dataclass(eq=False)
class Bundle:
    """Cuts <G_k, v> + b_k <= mean loss(v), and the best bound that their convex combinations give.

        maximise  sum gamma_k b_k - ||sum gamma_k G_k||^2 / (2 lam)   over the simplex

    The point w = -(1 / lam) sum gamma_k G_k is where the model, the largest cut plus lam/2 ||.||^2, is least. When the
    bundle is full, the cut that has gone unused for longest makes room; if all are in use, the weighted ones are first
    replaced by their sum, which is a cut and keeps the bound.

    lam : float > 0; size : int >= 2, the most cuts kept

    Source: the averaged dual of the paper's pair is the aggregate of two cuts; the bundle of several is Kiwiel, Methods
    of Descent for Nondifferentiable Optimization, 1985, chapter 2.
    """

    lam: float
    size: int = 100
    n_cuts: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        check_positive("lam", self.lam)
        check_at_least("bundle_size", self.size, 2)
        self._weights, self._intercepts = np.zeros(self.size), np.zeros(self.size)
        self._products = np.zeros((self.size, self.size))
        self._unused = np.zeros(self.size, dtype=np.int64)
        self._factor, self._solved = np.zeros((self.size, self.size)), np.zeros((2, self.size))
        self._support = np.zeros(self.size, dtype=np.int64)
        self._coefficients: Any = None  # (size, n), and the duals of these, from the first cut on
        self._duals: Any = None

    @property
    def weights(self) -> FloatArray:
        return self._weights[: self.n_cuts]

    def add(self, cut: Vector, intercept: float) -> None:
        """Add a cut; the weights of the others stay, so that the bound can only rise."""
        if self._coefficients is None:
            self._shape = cut.coefficients.shape
            self._coefficients = np.zeros((self.size, cut.coefficients.size))
            self._duals = self._coefficients
            if cut.dual is not cut.coefficients:
                self._duals = np.zeros((self.size, cut.dual.size))
        slot = self._free_slot()
        self._coefficients[slot], self._duals[slot] = cut.coefficients.ravel(), cut.dual.ravel()
        self._set(slot, intercept, 1.0 if self.n_cuts == 1 else 0.0)

    def master(self) -> float:
        """Return the best lower bound of any objective; the weights become those that attain it."""
        n, most = self.n_cuts, _CHANGES_OF_CUT * self.n_cuts
        bound = solve_master(
            self.weights,
            self._factor,
            self._solved,
            self._support,
            self._products,
            self._intercepts[:n],
            self.lam,
            most,
        )
        used = self.weights > 0.0
        self._unused[:n] = np.where(used, 0, self._unused[:n] + 1)
        return float(bound)

    def point(self) -> Vector:
        return self.aggregate()[0].scaled(-1.0 / self.lam)

    def aggregate(self) -> tuple[Vector, float]:
        """Return sum gamma_k G_k and sum gamma_k b_k: a cut."""
        coefficients = self._combined(self._coefficients)
        dual = coefficients if self._duals is self._coefficients else self._combined(self._duals)
        return Vector(coefficients, dual), float(inner(self.weights, self._intercepts[: self.n_cuts]))

    def carried(self, share: float, cut: Vector, intercept: float) -> Bundle:
        """Return these cuts as cuts of more rows, of which those here are a share; each includes a cut of the new rows.

        cut, intercept : of the new rows, already times one less the share; vectors whose dual they are themselves
        """
        other = Bundle(self.lam, self.size)
        other.n_cuts, other._shape, n = self.n_cuts, self._shape, self.n_cuts
        other._coefficients = share * self._coefficients + cut.coefficients.ravel()
        other._duals = other._coefficients
        other._intercepts = share * self._intercepts + intercept
        other._weights, other._unused = self._weights.copy(), self._unused.copy()
        for slot in range(n):
            score_rows(other._products[slot, :n], other._coefficients[:n], other._coefficients[slot])
        return other

    def _combined(self, rows: FloatArray) -> FloatArray:
        total = np.zeros(rows.shape[1])
        add_sloped_rows(total, rows[: self.n_cuts], self.weights)  # a BLAS's bits depend on its threads
        return total.reshape(self._shape)

    def _free_slot(self) -> int:
        if self.n_cuts < self.size:
            self.n_cuts += 1
            return self.n_cuts - 1
        if not (self.weights == 0.0).any():
            self._merge()
        return int(np.argmax(np.where(self.weights > 0.0, -1, self._unused)))

    def _merge(self) -> None:
        """Replace the cut of least weight by the aggregate of all, which alone is as good as they are."""
        cut, intercept = self.aggregate()
        slot = int(np.argmin(self.weights))
        self._coefficients[slot], self._duals[slot] = cut.coefficients.ravel(), cut.dual.ravel()
        self._weights[:] = 0.0
        self._set(slot, intercept, 1.0)

    def _set(self, slot: int, intercept: float, weight: float) -> None:
        n = self.n_cuts
        products = np.empty(n)
        score_rows(products, self._coefficients[:n], self._duals[slot])
        self._products[slot, :n], self._products[:n, slot] = products, products
        self._intercepts[slot], self._weights[slot], self._unused[slot] = intercept, weight, 0


@dataclass(frozen=True)
class Point:
    """A point, its scores on the sample, (n_rows,) or (n_rows, n_outputs), its squared length, its bias if free."""

    vector: Vector
    scores: FloatArray
    squared_length: float
    bias: float = 0.0


@stored("search-direction")
@dataclass(frozen=True)
class Direction:
    """A direction and its scores on the sample."""

    vector: Vector
    scores: FloatArray


class Scores(Protocol):
    """Rows of a sample that score vectors."""

    def scores(self, vector: Vector) -> FloatArray: ...


AHEAD = 0.1  # how far towards the bundle's proposal beyond the new point the next cut is taken


@stored("bundle-directions")
@dataclass(eq=False)
class BundleDirections:
    """Towards the minimum of the model of all cuts kept; lives as long as its sample.

    ahead : how far beyond the new point, in shares of the remaining way, the next cut is taken

    Source: the search from the best point, and the cut beyond it, are those of Franc & Sonnenburg, "Optimized cutting
    plane algorithm for large-scale risk minimization", JMLR 10, 2009, Algorithm 3.
    """

    lam: float
    size: int
    ahead: float = AHEAD
    bundle: Bundle = field(init=False)

    def __post_init__(self) -> None:
        self.bundle = Bundle(self.lam, self.size)

    def add(self, cut: Vector, intercept: float, point: Point) -> float:
        """Add a cut at the point; return the new lower bound of the sampled problem."""
        self.bundle.add(cut, intercept)
        return self.bundle.master()

    def propose(self, point: Point, rows: Scores) -> Direction:
        """Propose the minimum of the model; one read of the rows."""
        target = self.bundle.point()
        return Direction(target.moved(-1.0, point.vector), rows.scores(target) - point.scores)


@stored("conjugate-directions")
@dataclass(eq=False)
class ConjugateDirections:
    """d = -(lambda* (-d_before) + (1 - lambda*) g), the shortest such; lambda* = 0 is the plain subgradient method.

    The same weights average the cuts, whose mean is a cut and bounds the sampled problem from below.

    lam : float > 0; conjugate : False for lambda* = 0

    Source: Zhang & Sen, (5) and Algorithm 1; lambda* = clip(<g, g + d> / ||g + d||^2, 0, 1) for the appendix's
    opposite weight, and d_0 = -g_0 for the printed +g_0, with which nothing moves.
    """

    lam: float
    conjugate: bool = True
    ahead: float = field(default=0.0, init=False)
    last: Direction | None = field(default=None, init=False)
    _gradient: Vector | None = field(default=None, init=False)
    _cut: tuple[Vector, float] | None = field(default=None, init=False)
    _share: float = field(default=0.0, init=False)

    def add(self, cut: Vector, intercept: float, point: Point) -> float:
        self._gradient = cut.moved(self.lam, point.vector)
        self._share = self._weight_of_last(self._gradient)
        mean, height = cut, intercept
        if self._cut is not None:
            mean = cut.moved(self._share, self._cut[0].moved(-1.0, cut))
            height = intercept + self._share * (self._cut[1] - intercept)
        self._cut = (mean, height)
        single = intercept - 0.5 * inner_product(cut, cut) / self.lam
        return max(single, height - 0.5 * inner_product(mean, mean) / self.lam)

    def propose(self, point: Point, rows: Scores) -> Direction:
        """Return the conjugate direction; one read of the rows."""
        assert self._gradient is not None
        vector = self._gradient.scaled(self._share - 1.0)
        scores = (self._share - 1.0) * rows.scores(self._gradient)
        if self.last is not None:
            vector = vector.moved(self._share, self.last.vector)
            scores += self._share * self.last.scores
        self.last = Direction(vector, scores)
        return self.last

    def grow(self, space: SampleSpace, last: Direction, fresh: Vector, intercept: float, share: float) -> None:
        """Continue in a larger sample: the averaged cut is extended by a cut of its new rows.

        last : the last direction there; fresh, intercept : a cut of the new rows; share : of the old ones
        """
        self.last = last
        if self._cut is not None:
            old = space.lifted(self._cut[0])
            mean = fresh.moved(share, old.moved(-1.0, fresh))
            self._cut = (mean, intercept + share * (self._cut[1] - intercept))

    def _weight_of_last(self, gradient: Vector) -> float:
        if self.last is None or not self.conjugate:
            return 0.0
        total = gradient.moved(1.0, self.last.vector)
        length = inner_product(total, total)
        return min(1.0, max(0.0, inner_product(gradient, total) / length)) if length > 0.0 else 0.0


Directions = BundleDirections | ConjugateDirections


@dataclass(eq=False)
class ExactLineSearch:
    """The minimum itself, by selection over the kinks in time proportional to the rows.

    Source: it is what Zhang & Sen's Algorithm 2 looks for by halving; the objective is piecewise quadratic.
    """

    _positions: FloatArray = field(default_factory=lambda: np.empty(0), init=False, repr=False)
    _jumps: FloatArray = field(default_factory=lambda: np.empty(0), init=False, repr=False)

    def step(self, ray: Ray, loss: PiecewiseLinear, longest: float) -> float:
        n_outputs = 1 if ray.scores.ndim == 1 else ray.scores.shape[1]
        most = len(ray.scores) * loss.kinks_of_row(n_outputs)
        if len(self._positions) < most:
            self._positions, self._jumps = np.empty(most), np.empty(most)
        count, slope = loss.kinks_into(self._positions, self._jumps, ray, longest, 1.0 / len(ray.scores))
        return float(least_step(self._positions, self._jumps, count, slope, ray.curvature, longest))


class FreeBias:
    """The best bias of scores (n,) by selection, and slopes of mean 0 there.

    The slopes at the best bias, from its right and from its left, have sums of opposite signs; the mixture whose sum is
    0 is a subgradient in scores and bias at once, whose cut holds for every bias.
    """

    def __init__(self, loss: PiecewiseLinear, targets: FloatArray) -> None:
        self._loss, self._targets = loss, targets
        self._search, self._ones = ExactLineSearch(), np.ones(len(targets))
        self._left = np.empty(len(targets))

    def best(self, scores: FloatArray) -> float:
        """Return the b of least mean loss(y, scores + b); of several, the closest to 0."""
        right = self._step(scores, self._ones)
        return right if right > 0.0 else -self._step(scores, -self._ones)

    def slopes_into(self, out: FloatArray, scores: FloatArray) -> tuple[float, float]:
        """Overwrite out (n,) by slopes of sum 0 at scores with their best bias; sums of losses and intercepts."""
        losses, of_right = self._loss.slopes_into(out, scores, self._ones, self._targets)
        _, of_left = self._loss.slopes_into(self._left, scores, -self._ones, self._targets)
        right, left = float(out.sum()), float(self._left.sum())
        share = right / (right - left) if right > left else 0.0
        share = min(1.0, max(0.0, share))
        out += share * (self._left - out)
        return losses, of_right + share * (of_left - of_right)

    def _step(self, scores: FloatArray, along: FloatArray) -> float:
        ray = Ray(scores, along, self._targets, 0.0, 0.0)
        step = self._search.step(ray, self._loss, math.inf)
        return step if math.isfinite(step) else 0.0


# Descent on one sample.

Watch = Callable[["SampleDescent"], None]
Reason = Literal["gap", "rounding", "stalled", "iterations"]
_FLOOR = 64.0 * float(np.finfo(np.float64).eps)  # of the objective: what sums of so many terms may lose
_FEW, _MOST_CHANGES = 0.5, 30  # slopes that change, of all; sums made from the last one before a new one: rounding
_STALLED = 10  # iterations in which nothing changes


class Cut(NamedTuple):
    """A cut of the mean loss: <gathered, v> + intercept <= mean loss(v). losses : the mean loss at the point"""

    gathered: Vector
    intercept: float
    losses: float


class SampleRows(Protocol):
    """Rows of a sample, in this process or on shards; they hold the scores of the last direction."""

    def scores(self, vector: Vector) -> FloatArray:
        """Return the scores of a vector, or zeros for scores that stay on the shards."""

    def point(self, vector: Vector, scores: FloatArray) -> Point:
        """Return a vector as a point, with its squared length and its best bias."""

    def step(self, point: Point, direction: Direction, losses: float) -> float:
        """Return the step of least objective along a direction. losses : the mean loss at the point"""

    def cut(self, point: Point, direction: Direction | None, step: float, further: float) -> Cut:
        """Return the cut at a distance further along the direction; the last step to the point has this length."""


@dataclass(eq=False)
class Descent:
    """The iterations of a method on the rows of a sample.

    rows : in this process or on shards; directions : cuts so far, and where to search next; point : the best one
    losses : the mean loss there; lower_bound : of the sampled optimum
    iterations : done so far; idle : of them, the last ones in which nothing changed
    """

    rows: SampleRows
    lam: float
    directions: Directions
    point: Point
    losses: float = math.inf
    lower_bound: float = -math.inf
    iterations: int = 0
    idle: int = 0

    @property
    def objective(self) -> float:
        return self.losses + 0.5 * self.lam * self.point.squared_length

    @property
    def gap(self) -> float:
        return max(0.0, self.objective - self.lower_bound)

    def iterate(self) -> None:
        """Take a direction, a step and a cut: two reads of the rows."""
        before = self.objective, self.lower_bound
        direction = self.directions.propose(self.point, self.rows)
        step = self.rows.step(self.point, direction, self.losses)
        if step > 0.0:
            vector = self.point.vector.moved(step, direction.vector)
            self.point = self.rows.point(vector, self.point.scores + step * direction.scores)
        self.cut(direction, step, self.directions.ahead * max(0.0, 1.0 - step))
        self.iterations += 1
        self.idle = self.idle + 1 if (self.objective, self.lower_bound) == before else 0

    def cut(self, direction: Direction | None = None, step: float = 0.0, further: float = 0.0) -> None:
        """Add a cut at the point, or further along the last direction."""
        cut = self.rows.cut(self.point, direction, step, further)
        self.losses = cut.losses
        bound = self.directions.add(cut.gathered, cut.intercept, self.point)
        self.lower_bound = max(self.lower_bound, bound)


def exhausted(objective: float, lower_bound: float, idle: int) -> Literal["rounding", "stalled"] | None:
    """Return why there is no smaller gap: rounding leaves as much, or nothing changes; None if there may be."""
    if objective - lower_bound <= _FLOOR * (abs(objective) + abs(lower_bound)):
        return "rounding"
    return "stalled" if idle >= _STALLED else None


# Rows in this process: an exact line search, a free bias, and sums of those rows alone whose slopes have changed.


class RowsInMemory:
    """The rows of a space with their targets (n_rows,)."""

    def __init__(self, space: SampleSpace, targets: FloatArray, method: Scs) -> None:
        self.space, self.targets, self._method, self._search = space, targets, method, ExactLineSearch()
        self._free = FreeBias(method.loss, targets) if method.bias == "free" else None
        shape = (space.n_rows,) if space.n_outputs == 1 else (space.n_rows, space.n_outputs)
        self._slopes, self._last_slopes = np.empty(shape), np.zeros(shape)
        self._along: FloatArray = np.zeros(shape)
        self._gathered, self._changes = space.gather(self._last_slopes), 0

    def scores(self, vector: Vector) -> FloatArray:
        return self.space.scores(vector)

    def point(self, vector: Vector, scores: FloatArray) -> Point:
        return Point(vector, scores, inner_product(vector, vector), self._best_bias(scores))

    def step(self, point: Point, direction: Direction, losses: float) -> float:
        step = self._step(point, direction, 1.0)
        if self._free is not None and step < AHEAD:
            # the objective may rise on the straight way to the proposal and its bias, and yet be lower where the next
            # cut is taken: such a cut need not change the proposal, and nothing would ever change again
            step = self._step(point, direction, AHEAD)
        return step

    def _step(self, point: Point, direction: Direction, way: float) -> float:
        """Return the step of least objective; a free bias changes in proportion, to the best one after the way."""
        self._along = direction.scores
        if self._free is not None:
            change = self._best_bias(point.scores + way * direction.scores) - point.bias
            self._along = _biased(direction.scores, change / way)
        lam, vector = self._method.lam, direction.vector
        slope, curvature = lam * inner_product(point.vector, vector), lam * inner_product(vector, vector)
        ray = Ray(_biased(point.scores, point.bias), self._along, self.targets, slope, curvature)
        return self._search.step(ray, self._method.loss, math.inf)

    def cut(self, point: Point, direction: Direction | None, step: float, further: float) -> Cut:
        """Return the cut at a distance further along the direction; a step leaves nothing behind here."""
        n, loss, own = self.space.n_rows, self._method.loss, _biased(point.scores, point.bias)
        scores = own
        if direction is not None and further > 0.0:
            beyond = point.scores + further * direction.scores
            scores = _biased(beyond, self._best_bias(beyond))
        if self._free is None:
            losses, intercepts = loss.slopes_into(self._slopes, scores, self._along, self.targets)
        else:
            losses, intercepts = self._free.slopes_into(self._slopes, scores)
        if further > 0.0:
            losses = loss.line(own, self._along, self.targets, 0.0)[0]
        return Cut(self._gather(), intercepts / n, losses / n)

    def carry(self, before: RowsInMemory, bundle: Bundle, scores: FloatArray) -> Bundle:
        """Return cuts of the first rows as cuts of all: a common cut of the new rows is added. scores : of all rows"""
        n, n_old, slopes, loss = self.space.n_rows, before.space.n_rows, self._last_slopes, self._method.loss
        new_scores = scores[n_old:]
        sums = loss.slopes_into(slopes[n_old:], new_scores, np.zeros_like(new_scores), self.targets[n_old:])
        fresh = self.space.gather(slopes)
        slopes[:n_old] = before._last_slopes
        self._gathered, self._changes = fresh.moved(n_old / n, before._gathered), before._changes + 1
        return bundle.carried(n_old / n, fresh, sums[1] / n)

    def _best_bias(self, scores: FloatArray) -> float:
        return 0.0 if self._free is None else self._free.best(scores)

    def _gather(self) -> Vector:
        """Gather the rows of changed slopes: near the optimum few change between cuts, and only those are read."""
        change = self._slopes - self._last_slopes
        few = np.count_nonzero(change) < _FEW * np.count_nonzero(self._slopes)
        if few and self._changes < _MOST_CHANGES:
            self._gathered, self._changes = self._gathered.moved(1.0, self.space.gather(change)), self._changes + 1
        else:
            self._gathered, self._changes = self.space.gather(self._slopes), 0
        self._slopes, self._last_slopes = self._last_slopes, self._slopes
        return self._gathered


def _biased(scores: FloatArray, bias: float) -> FloatArray:
    return scores if bias == 0.0 else scores + bias


@dataclass(frozen=True)
class DescentRecord:
    """After an iteration: seconds since the start, rows in the sample, objective and lower bound on it."""

    seconds: float
    n_rows: int
    objective: float
    lower_bound: float


class SampleDescent(Descent):
    """The iterations of a method on the rows of a space.

    before : a run on the first of these rows that ended at the start: cuts of a bundle are carried on from it
    reason : of the end: "gap" reached; "rounding", no smaller gap is resolved; "stalled", nothing changes; "iterations"
        used up
    history : a record before the first iteration, and after each
    """

    rows: RowsInMemory
    reason: Reason

    def __init__(
        self, space: SampleSpace, targets: FloatArray, method: Scs, start: Vector, before: SampleDescent | None = None
    ) -> None:
        rows, directions = RowsInMemory(space, targets, method), method.new_directions()
        columns = start.dual is start.coefficients  # of rows, not of their kernels: vectors stay what they are
        if method.bias == "free" or not columns or not isinstance(directions, BundleDirections):
            before = None
        known = () if before is None else (before.point.scores,)
        scores = np.concatenate([*known, space.scores(start, sum(map(len, known)))])
        super().__init__(rows, method.lam, directions, rows.point(start, scores))
        if before is not None:
            assert isinstance(directions, BundleDirections)
            assert isinstance(before.directions, BundleDirections)
            directions.bundle = rows.carry(before.rows, before.directions.bundle, scores)
        self.cut()
        self.history: list[DescentRecord] = []

    @property
    def n_rows(self) -> int:
        return self.rows.space.n_rows

    def record(self, started_at: float) -> None:
        seconds = time.perf_counter() - started_at
        self.history.append(DescentRecord(seconds, self.n_rows, self.objective, self.lower_bound))

    def finished(self, gap: float, max_iterations: int) -> Reason | None:
        if self.gap <= gap:
            return "gap"
        reason = exhausted(self.objective, self.lower_bound, self.idle)
        return reason or ("iterations" if self.iterations >= max_iterations else None)


Bias = Literal["none", "regularised", "free"]
DirectionName = Literal["bundle", "conjugate", "subgradient"]


@dataclass(frozen=True)
class Scs:
    """Minimise lam/2 ||w||^2 + mean_i loss(y_i, <w, phi(x_i)> + b).

    lam : float > 0; gap : float > 0, of the objective, absolute
    directions : "bundle" of up to bundle_size cuts; "conjugate", the paper's pair; "subgradient", its lambda* = 0
    bundle_size : int >= 2
    bias : "none"; "regularised", b is one more weight, of a column of ones or of k + 1, which the space must
        contain; "free", b is not in the regulariser, with a bundle and one output only
    max_iterations : int >= 1, on one sample
    Raises ConfigError : a number outside its range, a combination that there is not
    Source: Zhang & Sen, "The stochastic conjugate subgradient algorithm for kernel support vector machines",
    Algorithm 1, with lam for the printed 1.
    """

    lam: float = 1e-3
    loss: PiecewiseLinear = field(default_factory=Hinge)
    gap: float = 1e-4
    directions: DirectionName = "bundle"
    bundle_size: int = 100
    bias: Bias = "none"
    max_iterations: int = 1000

    def __post_init__(self) -> None:
        check_positive("lam", self.lam)
        check_positive("gap", self.gap)
        check_choice("directions", self.directions, ("bundle", "conjugate", "subgradient"))
        check_choice("bias", self.bias, ("none", "regularised", "free"))
        check_at_least("bundle_size", self.bundle_size, 2)
        check_at_least("max_iterations", self.max_iterations, 1)
        if self.bias == "free" and (self.directions != "bundle" or self.loss.task == "multiclass"):
            raise ConfigError(
                'bias = "free" requires directions = "bundle" and one output. Use bias = "regularised" or "none".'
            )

    def new_directions(self) -> Directions:
        """Return directions of a new sample."""
        if self.directions == "bundle":
            return BundleDirections(self.lam, self.bundle_size)
        return ConjugateDirections(self.lam, self.directions == "conjugate")

    @property
    def problem(self) -> str:
        scores = "<w, phi(x)>" if self.bias == "none" else "<w, phi(x)> + b"
        length = "||w||^2 + b^2" if self.bias == "regularised" else "||w||^2"
        return f"least {self.lam:g}/2 ({length}) + mean {self.loss.name} loss of {scores}"


def solve_sample(
    space: SampleSpace,
    targets: FloatArray,
    method: Scs,
    start: Vector | None = None,
    until: float | None = None,
    started_at: float | None = None,
    watch: Watch | None = None,
    before: SampleDescent | None = None,
) -> SampleDescent:
    """Minimise the objective on the rows of a space.

    targets : (n_rows,), float64; start : first point, None for 0; until : the gap to stop at, None for the method's
    started_at : time.perf_counter() that seconds of the history count from, None for now
    watch : called with the run before every iteration and after the last one
    before : a run on the first of these rows that ended at the start, whose cuts are of use here, too
    Returns the run, which has reached the point, and from which one on more rows continues
    """
    started_at = time.perf_counter() if started_at is None else started_at
    descent = SampleDescent(space, targets, method, space.zero() if start is None else start, before)
    gap = method.gap if until is None else until
    descent.record(started_at)
    while (reason := descent.finished(gap, method.max_iterations)) is None:
        if watch is not None:
            watch(descent)
        descent.iterate()
        descent.record(started_at)
    if watch is not None:
        watch(descent)
    descent.reason = reason
    return descent


@stored("restarted-directions")
@dataclass(eq=False)
class RestartedDirections(ConjugateDirections):
    """The pair's shortest direction, restarted from the subgradient when it has become short.

    A short direction shows that 0 is nearly among subgradients of points on the way, not of the last one: those of far
    back have to go. What is short is halved each time.

    short : > 0, of the length of the first subgradient
    """

    short: float = 0.5
    _limit: float | None = field(default=None, init=False)

    def propose(self, point: Point, rows: Scores) -> Direction:
        """Return the conjugate direction, or minus the subgradient; one read of the rows."""
        direction = super().propose(point, rows)
        length = inner_product(direction.vector, direction.vector) ** 0.5
        if self._limit is None:
            self._limit = self.short * length
        elif length <= self._limit:
            self._limit *= 0.5
            # the next direction uses only the subgradient that it starts with
            self.last = None
        return direction


@dataclass(frozen=True)
class Wolfe(Scs):
    """Minimise as Scs does along the shortest convex combinations of subgradients, with exact searches; or ConfigError.

    Source: Wolfe, "A method of conjugate subgradients for minimizing nondifferentiable functions", Mathematical
    Programming Study 3, 1975, with two subgradients kept, as Zhang & Sen do; the certified gap in place of ||d||.
    """

    def new_directions(self) -> Directions:
        return RestartedDirections(self.lam)


@stored("kernel-descent-state")
@dataclass(frozen=True, eq=False)
class KernelDescent:
    """A sample that was solved to the tolerance of its size; a value.

    shares : through which the sample grew; sample : its rows, inputs (n, n_inputs)
    vector : coefficients (n,) or (n, n_outputs) of the rows, and K coefficients
    objective, lower_bound : the sampled optimum lies between; iterations : of all samples
    exhausted : whether more iterations give no smaller gap
    """

    shares: tuple[float, ...]
    sample: Rows
    vector: Vector
    objective: float
    lower_bound: float
    iterations: int
    exhausted: bool

    @property
    def n_rows(self) -> int:
        return len(self.sample.targets)

    @property
    def weights(self) -> FloatArray:
        return self.vector.coefficients

    @property
    def gap(self) -> float:
        return max(0.0, self.objective - self.lower_bound)

    @property
    def squared_length(self) -> float:
        return inner_product(self.vector, self.vector)

    @cached_property
    def support(self) -> tuple[FloatArray, FloatArray]:
        coefficients = self.vector.coefficients.reshape(self.n_rows, -1)
        supports = np.flatnonzero((coefficients != 0.0).any(axis=1))
        return self.sample.inputs[supports], np.ascontiguousarray(coefficients[supports].T)
