"""A run on one sample: a point whose objective only falls, a bound that only rises."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from okl.subgradient.bias import FreeBias
from okl.subgradient.directions import BundleDirections, Direction, Point
from okl.subgradient.linesearch import Ray
from okl.subgradient.vectors import Space, Vector, inner_product
from okl.types import FloatArray

if TYPE_CHECKING:
    from okl.subgradient.scs import Scs

Watch = Callable[["Descent"], None]
Reason = Literal["gap", "rounding", "stalled", "iterations"]
_FLOOR = 64.0 * float(np.finfo(np.float64).eps)  # of the objective: what sums of so many terms may lose
_FEW, _MOST_CHANGES = 0.5, 30  # slopes that change, of all; sums made from the last one before a new one: rounding
_STALLED = 10  # iterations in which nothing changes


@dataclass(frozen=True)
class Record:
    """After an iteration: seconds since the start, rows in the sample, objective and lower bound on it."""

    seconds: float
    n_rows: int
    objective: float
    lower_bound: float


class Descent:
    """The iterations of a method on the rows of a space.

    objective, lower_bound : the sampled optimum lies between; iterations : done so far
    before : a run on the first of these rows that ended at the start: cuts of a bundle are carried on from it
    """

    point: Point

    def __init__(
        self, space: Space, targets: FloatArray, method: Scs, start: Vector, before: Descent | None = None
    ) -> None:
        self.space, self.targets, self.method = space, targets, method
        self._free = FreeBias(method.loss, targets) if method.bias == "free" else None
        self._directions, self._search = method.new_directions(), method.new_search()
        columns = start.dual is start.coefficients  # of rows, not of their kernels: vectors stay what they are
        if self._free is not None or not columns or not isinstance(self._directions, BundleDirections):
            before = None
        known = () if before is None else (before.point.scores,)
        scores = np.concatenate([*known, space.scores(start, sum(map(len, known)))])
        self.point = Point(start, scores, inner_product(start, start), self._best_bias(scores))
        self._slopes, self._last_slopes = np.empty_like(scores), np.zeros_like(scores)
        self._gathered, self._changes = space.gather(self._last_slopes), 0
        self.lower_bound, self.iterations, self._idle = -math.inf, 0, 0
        if before is not None:
            self._carry(before)
        self._cut(self._biased(scores, self.point.bias), np.zeros_like(scores), at_point=True)

    @property
    def gap(self) -> float:
        """Objective less lower bound, >= 0 up to rounding."""
        return self.objective - self.lower_bound

    @property
    def floor(self) -> float:
        """The gap that rounding alone may leave."""
        return _FLOOR * (abs(self.objective) + abs(self.lower_bound))

    def record(self, begun: float) -> Record:
        """Where the run stands."""
        return Record(time.perf_counter() - begun, self.space.n_rows, self.objective, self.lower_bound)

    def finished(self, gap: float, max_iterations: int) -> Reason | None:
        """Why to stop, or None."""
        if self.gap <= max(gap, self.floor):
            return "gap" if self.gap <= gap else "rounding"
        if self._idle >= _STALLED:
            return "stalled"
        return "iterations" if self.iterations >= max_iterations else None

    def iterate(self) -> None:
        """One direction, one step, one cut: two reads of the rows."""
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

    def _carry(self, before: Descent) -> None:
        """Each cut of fewer rows, and one that the new rows have in common, together are a cut of all rows."""
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
        """Of the slopes: near the optimum few change from one cut to the next, and theirs alone are the rows read."""
        change = self._slopes - self._last_slopes
        few = np.count_nonzero(change) < _FEW * np.count_nonzero(self._slopes)
        if few and self._changes < _MOST_CHANGES:
            self._gathered, self._changes = self._gathered.moved(1.0, self.space.gather(change)), self._changes + 1
        else:
            self._gathered, self._changes = self.space.gather(self._slopes), 0
        self._slopes, self._last_slopes = self._last_slopes, self._slopes
        return self._gathered
