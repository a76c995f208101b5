"""Stochastic conjugate subgradients on one sample, and Wolfe's method on all rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

import numpy as np

from okl.data.executor import Rows
from okl.foundation.errors import ConfigError
from okl.foundation.stored import stored
from okl.foundation.types import FloatArray
from okl.foundation.validation import check_at_least, check_choice, check_positive
from okl.losses import Hinge, PiecewiseLinear
from okl.solvers.subgradient.bundle import (
    Bundle,
    BundleDirections,
    ConjugateDirections,
    Direction,
    Directions,
    ExactSearch,
    FreeBias,
    Point,
    Ray,
    Scores,
)
from okl.solvers.subgradient.spaces import SampleSpace, Vector, inner_product

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


class Descent:
    """The iterations of a method on the rows of a sample.

    rows : in this process or on shards; directions : cuts so far, and where to search next; point : the best one
    losses : the mean loss there; lower_bound : of the sampled optimum
    iterations : done so far; idle : of them, the last ones in which nothing changed
    """

    def __init__(
        self,
        rows: SampleRows,
        lam: float,
        directions: Directions,
        point: Point,
        losses: float = math.inf,
        lower_bound: float = -math.inf,
        iterations: int = 0,
        idle: int = 0,
    ) -> None:
        self.rows, self.lam, self.directions, self.point = rows, lam, directions, point
        self.losses, self.lower_bound, self.iterations, self.idle = losses, lower_bound, iterations, idle

    @property
    def objective(self) -> float:
        """Return the objective of the point on the sample."""
        return self.losses + 0.5 * self.lam * self.point.squared_length

    @property
    def gap(self) -> float:
        """Return the gap of the sampled problem, >= 0 but for rounding."""
        return self.objective - self.lower_bound

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
        """Take in a cut at the point, or further along the last direction."""
        cut = self.rows.cut(self.point, direction, step, further)
        self.losses = cut.losses
        bound = self.directions.add(cut.gathered, cut.intercept, self.point)
        self.lower_bound = max(self.lower_bound, bound)


def exhausted(objective: float, lower_bound: float, idle: int) -> Literal["rounding", "stalled"] | None:
    """Why float64 gives no smaller gap: rounding leaves as much, or nothing changes any more; None if it may."""
    if objective - lower_bound <= _FLOOR * (abs(objective) + abs(lower_bound)):
        return "rounding"
    return "stalled" if idle >= _STALLED else None


# Rows in this process: an exact line search, a free bias, and sums of those rows alone whose slopes have changed.


class RowsInMemory:
    """The rows of a space with their targets (n_rows,)."""

    def __init__(self, space: SampleSpace, targets: FloatArray, method: Scs) -> None:
        self.space, self.targets, self._method, self._search = space, targets, method, ExactSearch()
        self._free = FreeBias(method.loss, targets) if method.bias == "free" else None
        shape = (space.n_rows,) if space.n_outputs == 1 else (space.n_rows, space.n_outputs)
        self._slopes, self._last_slopes = np.empty(shape), np.zeros(shape)
        self._along: FloatArray = np.zeros(shape)
        self._gathered, self._changes = space.gather(self._last_slopes), 0

    def scores(self, vector: Vector) -> FloatArray:
        """Return the scores (n_rows,) or (n_rows, n_outputs) of a vector."""
        return self.space.scores(vector)

    def point(self, vector: Vector, scores: FloatArray) -> Point:
        """Return a vector as a point, with its squared length and its best bias."""
        return Point(vector, scores, inner_product(vector, vector), self._best_bias(scores))

    def step(self, point: Point, direction: Direction, losses: float) -> float:
        """Return the step of least objective along a direction, by selection over the kinks."""
        self._along = direction.scores
        if self._free is not None:
            self._along = _biased(self._along, self._best_bias(point.scores + self._along) - point.bias)
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
    """

    rows: RowsInMemory

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

    @property
    def n_rows(self) -> int:
        """Return the number of rows in the sample."""
        return self.rows.space.n_rows

    def record(self, started_at: float) -> DescentRecord:
        """Return the record of the current iteration."""
        return DescentRecord(time.perf_counter() - started_at, self.n_rows, self.objective, self.lower_bound)

    def finished(self, gap: float, max_iterations: int) -> Reason | None:
        """Why to stop, or None."""
        if self.gap <= gap:
            return "gap"
        reason = exhausted(self.objective, self.lower_bound, self.idle)
        return reason or ("iterations" if self.iterations >= max_iterations else None)


# The method.

Bias = Literal["none", "regularised", "free"]


@dataclass(frozen=True, eq=False)
class Sampled:
    """The solution of a sampled problem.

    point : weights, their scores on the sample, and the bias if it is free
    objective, lower_bound : the sampled optimum lies between
    descent : the run, from which one on more rows continues
    reason : "gap" reached; "rounding" or "stalled", differences are below rounding; "iterations" used up
    """

    point: Point
    objective: float
    lower_bound: float
    iterations: int
    reason: Reason
    history: tuple[DescentRecord, ...] = field(repr=False)
    descent: SampleDescent = field(repr=False)

    @property
    def gap(self) -> float:
        """Return the gap of the sampled problem, >= 0."""
        return max(0.0, self.objective - self.lower_bound)


@dataclass(frozen=True)
class Scs:
    """Minimise lam/2 ||w||^2 + mean_i loss(y_i, <w, phi(x_i)> + b).

    Parameters
    ----------
    lam : float > 0
    loss : PiecewiseLinear
    gap : float > 0, of the objective, absolute
    directions : "bundle" of up to bundle_size cuts; "conjugate", the paper's pair; "subgradient", its lambda* = 0
    bundle_size : int >= 2
    bias : "none"; "regularised", b is one more weight, of a column of ones or of k + 1, which whoever makes the space
        puts there; "free", b is not in the regulariser, with a bundle and one output only
    max_iterations : int >= 1, on one sample
    ahead : in [0, 1), how far towards the bundle's proposal beyond the new point the next cut is taken

    Raises
    ------
    ConfigError : a number outside its range, a combination that there is not

    Source: Zhang & Sen, "The stochastic conjugate subgradient algorithm for kernel support vector machines",
    Algorithm 1, with lam for the printed 1.
    """

    lam: float = 1e-3
    loss: PiecewiseLinear = field(default_factory=Hinge)
    gap: float = 1e-4
    directions: Literal["bundle", "conjugate", "subgradient"] = "bundle"
    bundle_size: int = 100
    bias: Bias = "none"
    max_iterations: int = 1000
    ahead: float = 0.1

    def __post_init__(self) -> None:
        check_positive("lam", self.lam)
        check_positive("gap", self.gap)
        check_choice("directions", self.directions, ("bundle", "conjugate", "subgradient"))
        check_choice("bias", self.bias, ("none", "regularised", "free"))
        check_at_least("bundle_size", self.bundle_size, 2)
        check_at_least("max_iterations", self.max_iterations, 1)
        if not 0.0 <= self.ahead < 1.0:
            raise ConfigError(f"ahead = {self.ahead!r}; expected a number of at least 0 and below 1.")
        if self.bias == "free" and (self.directions != "bundle" or self.loss.task == "multiclass"):
            raise ConfigError(
                'bias = "free" requires directions = "bundle" and one output. Use bias = "regularised" or "none".'
            )

    def new_directions(self) -> Directions:
        """Return directions of a new sample."""
        if self.directions == "bundle":
            return BundleDirections(self.lam, self.bundle_size, self.ahead)
        return ConjugateDirections(self.lam, self.directions == "conjugate")

    @property
    def problem(self) -> str:
        """Return a text that describes the problem."""
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
) -> Sampled:
    """Minimise the objective on the rows of a space.

    Parameters
    ----------
    space : rows
    targets : (n_rows,), float64
    method : Scs
    start : first point, None for 0
    until : the gap to stop at, None for the method's
    started_at : time.perf_counter() that seconds of the history count from, None for now
    watch : called with the run before every iteration and after the last one
    before : a run on the first of these rows that ended at the start, whose cuts are of use here, too

    Returns
    -------
    Sampled
    """
    started_at = time.perf_counter() if started_at is None else started_at
    descent = SampleDescent(space, targets, method, space.zero() if start is None else start, before)
    gap = method.gap if until is None else until
    history = [descent.record(started_at)]
    while (reason := descent.finished(gap, method.max_iterations)) is None:
        if watch is not None:
            watch(descent)
        descent.iterate()
        history.append(descent.record(started_at))
    if watch is not None:
        watch(descent)
    solution = descent.point, descent.objective, descent.lower_bound, descent.iterations
    return Sampled(*solution, reason, tuple(history), descent)


# Wolfe's method on all rows.


@stored("restarted-directions")
@dataclass(eq=False)
class RestartedDirections(ConjugateDirections):
    """The pair's shortest direction, restarted from the subgradient when it has become short.

    A short direction shows that 0 is nearly among subgradients of points on the way, not of the last one: those of far
    back have to go. What is short is halved each time.

    Parameters
    ----------
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
    """Minimise lam/2 ||w||^2 + mean_i loss(y_i, <w, phi(x_i)>) along the shortest convex combinations of subgradients.

    Parameters
    ----------
    lam, loss, gap, max_iterations : as in Scs; a search is exact
    short : > 0, below 1: a direction that is shorter, in units of the first subgradient, is the last before a restart

    Raises
    ------
    ConfigError : a number outside its range

    Source: Wolfe, "A method of conjugate subgradients for minimizing nondifferentiable functions", Mathematical
    Programming Study 3, 1975, with two subgradients kept, as Zhang & Sen do; the certified gap in place of ||d||.
    """

    short: float = 0.5

    def new_directions(self) -> Directions:
        """Return directions of a run."""
        return RestartedDirections(self.lam, short=self.short)

    def solve(self, space: SampleSpace, targets: FloatArray, watch: Watch | None = None) -> Sampled:
        """Solve on the rows of a space, with targets (n_rows,)."""
        return solve_sample(space, targets, self, watch=watch)


# Exact kernels.


@stored("kernel-descent-state")
@dataclass(frozen=True, eq=False)
class KernelDescent:
    """A sample that was solved as far as it is worth; a value.

    shares : through which the sample grew; sample : its rows, inputs (n, n_inputs)
    vector : coefficients (n,) or (n, n_outputs) of the rows, and K coefficients
    objective, lower_bound : the sampled optimum lies between; iterations : of all samples
    exhausted : whether rounding leaves no smaller gap
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
        """Return the number of rows in the sample."""
        return len(self.sample.targets)

    @property
    def weights(self) -> FloatArray:
        """Return the coefficients."""
        return self.vector.coefficients

    @property
    def gap(self) -> float:
        """Return the gap of the sampled problem, >= 0."""
        return max(0.0, self.objective - self.lower_bound)

    @property
    def squared_length(self) -> float:
        """Return the squared length of the point."""
        return inner_product(self.vector, self.vector)

    @cached_property
    def support(self) -> tuple[FloatArray, FloatArray]:
        """Return the support vectors (n_supports, n_inputs) and their coefficients (n_outputs, n_supports)."""
        coefficients = self.vector.coefficients.reshape(self.n_rows, -1)
        supports = np.flatnonzero((coefficients != 0.0).any(axis=1))
        return self.sample.inputs[supports], np.ascontiguousarray(coefficients[supports].T)
