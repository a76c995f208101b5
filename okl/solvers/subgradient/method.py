"""Stochastic conjugate subgradients on one sample, and Wolfe's method on all rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from okl.data.executor import Rows
from okl.foundation.errors import ConfigError
from okl.foundation.stored import stored
from okl.foundation.types import FloatArray
from okl.foundation.validation import check_at_least, check_choice, check_positive
from okl.losses import Hinge, PiecewiseLinear
from okl.solvers.subgradient.bundle import (
    BracketingSearch,
    BundleDirections,
    ConjugateDirections,
    Direction,
    Directions,
    ExactSearch,
    FreeBias,
    LineSearch,
    Point,
    Ray,
)
from okl.solvers.subgradient.spaces import SampleSpace, Vector, inner_product

# Descent on one sample.

Watch = Callable[["SampleDescent"], None]
Reason = Literal["gap", "rounding", "stalled", "iterations"]
_FLOOR = 64.0 * float(np.finfo(np.float64).eps)  # of the objective: what sums of so many terms may lose
_FEW, _MOST_CHANGES = 0.5, 30  # slopes that change, of all; sums made from the last one before a new one: rounding
_STALLED = 10  # iterations in which nothing changes


@dataclass(frozen=True)
class DescentRecord:
    """After an iteration: seconds since the start, rows in the sample, objective and lower bound on it."""

    seconds: float
    n_rows: int
    objective: float
    lower_bound: float


class SampleDescent:
    """The iterations of a method on the rows of a space.

    objective, lower_bound : the sampled optimum lies between; iterations : done so far
    before : a run on the first of these rows that ended at the start: cuts of a bundle are carried on from it
    """

    point: Point

    def __init__(
        self, space: SampleSpace, targets: FloatArray, method: Scs, start: Vector, before: SampleDescent | None = None
    ) -> None:
        self.space, self.targets, self.method = space, targets, method
        self._free = FreeBias(method.loss, targets) if method.bias == "free" else None
        self._directions, self._search = method.new_directions(), method.new_search()
        columns = start.dual is start.coefficients  # of rows, not of their kernels: vectors stay what they are
        if self._free is not None or not columns or not isinstance(self._directions, BundleDirections):
            before = None
        stored_scores = () if before is None else (before.point.scores,)
        scores = np.concatenate([*stored_scores, space.scores(start, sum(map(len, stored_scores)))])
        self.point = Point(start, scores, inner_product(start, start), self._best_bias(scores))
        self._slopes, self._last_slopes = np.empty_like(scores), np.zeros_like(scores)
        self._gathered, self._changes = space.gather(self._last_slopes), 0
        self.lower_bound, self.iterations, self._idle = -math.inf, 0, 0
        if before is not None:
            self._carry(before)
        self._cut(self._biased(scores, self.point.bias), np.zeros_like(scores), at_point=True)

    @property
    def gap(self) -> float:
        """Return the gap of the sampled problem, >= 0."""
        return self.objective - self.lower_bound

    @property
    def floor(self) -> float:
        """Return the gap that rounding alone may leave."""
        return _FLOOR * (abs(self.objective) + abs(self.lower_bound))

    def record(self, started_at: float) -> DescentRecord:
        """Return the record of the current iteration."""
        return DescentRecord(time.perf_counter() - started_at, self.space.n_rows, self.objective, self.lower_bound)

    def finished(self, gap: float, max_iterations: int) -> Reason | None:
        """Why to stop, or None."""
        if self.gap <= max(gap, self.floor):
            return "gap" if self.gap <= gap else "rounding"
        if self._idle >= _STALLED:
            return "stalled"
        return "iterations" if self.iterations >= max_iterations else None

    def iterate(self) -> None:
        """Take a direction, a step and a cut: two reads of the rows."""
        before = self.objective, self.lower_bound
        direction = self._directions.propose(self.point, self.space)
        along = direction.scores
        if self._free is not None:
            along = self._biased(along, self._best_bias(self.point.scores + along) - self.point.bias)
        step = self._step(direction, along)
        if step > 0.0:
            self._move(direction, step)
        ahead = self._directions.ahead * max(0.0, 1.0 - step)
        if ahead > 0.0:
            scores = self.point.scores + ahead * direction.scores
            self._cut(self._biased(scores, self._best_bias(scores)), along, at_point=False)
        else:
            self._cut(self._biased(self.point.scores, self.point.bias), along, at_point=True)
        self.iterations += 1
        self._idle = self._idle + 1 if (self.objective, self.lower_bound) == before else 0

    def _carry(self, before: SampleDescent) -> None:
        """Extend cuts of fewer rows by a common cut of the new rows."""
        n, n_old, loss = self.space.n_rows, before.space.n_rows, self.method.loss
        scores, targets, slopes = self.point.scores[n_old:], self.targets[n_old:], self._last_slopes
        _, intercepts = loss.slopes_into(slopes[n_old:], scores, np.zeros_like(scores), targets)
        fresh = self.space.gather(slopes)
        slopes[:n_old] = before._last_slopes
        self._gathered, self._changes = fresh.moved(n_old / n, before._gathered), before._changes + 1
        assert isinstance(self._directions, BundleDirections)
        assert isinstance(before._directions, BundleDirections)
        self._directions.bundle = before._directions.bundle.carried(n_old / n, fresh, intercepts / n)

    def _step(self, direction: Direction, along: FloatArray) -> float:
        lam, squared = self.method.lam, inner_product(direction.vector, direction.vector)
        slope = lam * inner_product(self.point.vector, direction.vector)
        scores = self._biased(self.point.scores, self.point.bias)
        ray = Ray(scores, along, self.targets, slope, lam * squared, squared)
        return self._search.step(ray, self.method.loss, math.inf)

    def _move(self, direction: Direction, step: float) -> None:
        vector = self.point.vector.moved(step, direction.vector)
        scores = self.point.scores + step * direction.scores
        self.point = Point(vector, scores, inner_product(vector, vector), self._best_bias(scores))

    def _best_bias(self, scores: FloatArray) -> float:
        return 0.0 if self._free is None else self._free.best(scores)

    def _biased(self, scores: FloatArray, bias: float) -> FloatArray:
        return scores if bias == 0.0 else scores + bias

    def _cut(self, scores: FloatArray, along: FloatArray, at_point: bool) -> None:
        n, loss = self.space.n_rows, self.method.loss
        if self._free is None:
            losses, intercepts = loss.slopes_into(self._slopes, scores, along, self.targets)
        else:
            losses, intercepts = self._free.slopes_into(self._slopes, scores)
        if not at_point:
            own = self._biased(self.point.scores, self.point.bias)
            losses = loss.line(own, along, self.targets, 0.0)[0]
        self.objective = losses / n + 0.5 * self.method.lam * self.point.squared_length
        bound = self._directions.add(self._gather(), intercepts / n, self.point)
        self.lower_bound = max(self.lower_bound, bound)

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
    line_search : "exact", or "bracketing", the paper's, for its own directions
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
    line_search: Literal["exact", "bracketing"] = "exact"
    bias: Bias = "none"
    max_iterations: int = 1000
    ahead: float = 0.1

    def __post_init__(self) -> None:
        check_positive("lam", self.lam)
        check_positive("gap", self.gap)
        check_choice("directions", self.directions, ("bundle", "conjugate", "subgradient"))
        check_choice("line_search", self.line_search, ("exact", "bracketing"))
        check_choice("bias", self.bias, ("none", "regularised", "free"))
        check_at_least("bundle_size", self.bundle_size, 2)
        check_at_least("max_iterations", self.max_iterations, 1)
        if not 0.0 <= self.ahead < 1.0:
            raise ConfigError(f"ahead = {self.ahead!r}; expected a number of at least 0 and below 1.")
        if self.line_search == "bracketing" and self.directions == "bundle":
            raise ConfigError(
                'line_search = "bracketing" measures steps by the length of a subgradient. Set directions = '
                '"conjugate" or "subgradient", or line_search = "exact".'
            )
        if self.bias == "free" and (self.directions != "bundle" or self.loss.task == "multiclass"):
            raise ConfigError(
                'bias = "free" requires directions = "bundle" and one output. Use bias = "regularised" or "none".'
            )

    def new_directions(self) -> Directions:
        """Return directions of a new sample."""
        if self.directions == "bundle":
            return BundleDirections(self.lam, self.bundle_size, self.ahead)
        return ConjugateDirections(self.lam, self.directions == "conjugate")

    def new_search(self) -> LineSearch:
        """Return the line search."""
        return ExactSearch() if self.line_search == "exact" else BracketingSearch()

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

    def propose(self, point: Point, space: SampleSpace) -> Direction:
        """Return the conjugate direction, or minus the subgradient; one read of the rows."""
        direction = super().propose(point, space)
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
