"""The iterations of the paper's own growth: a sample that grows, rows that judge, a length that steps keep to."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np

from okl.subgradient.certificate import exact_bound
from okl.subgradient.descent import Reason, Record
from okl.subgradient.directions import ConjugateDirections, Direction, Point
from okl.subgradient.fitting import Fitted, first_sample
from okl.subgradient.linesearch import Ray
from okl.subgradient.scs import Scs
from okl.subgradient.sources import Source
from okl.subgradient.vectors import Vector, inner_product
from okl.types import FloatArray

if TYPE_CHECKING:
    from okl.subgradient.paper import PaperGrowth


class PaperRun:
    """Judges first, then the sample: both in one space, where coefficients of judges stay 0."""

    def __init__(self, growth: PaperGrowth, source: Source, targets: FloatArray, method: Scs, judges: int) -> None:
        self.growth, self.source, self.targets, self.method, self.judges = growth, source, targets, method, judges
        own, self.notes = first_sample(targets[judges:], growth.first_sample, method)
        self.n_rows = judges + own
        self.most = source.n_rows if growth.most_rows is None else min(source.n_rows, judges + growth.most_rows)
        self.begun, self.history, self.iterations = time.perf_counter(), list[Record](), 0
        self.directions = ConjugateDirections(method.lam, method.directions == "conjugate")
        self.search = method.new_search()
        self.space = source.space(self.n_rows)
        zero = self.space.zero()
        self.point = Point(zero, self.space.scores(zero), 0.0)
        self.unit = math.sqrt(2.0 / method.lam)
        self.delta = growth.delta_parts[0] * self.unit
        self._idle, self.lower_bound = 0, -math.inf
        self._cut(np.zeros_like(self.point.scores))

    @property
    def whole(self) -> bool:
        """Whether the sample has stopped growing."""
        return self.n_rows >= self.most

    def finished(self) -> Reason | None:
        """Why to stop, or None."""
        gap = self.objective - self.lower_bound
        if self.whole and gap <= self.method.gap:
            return "gap"
        if self.whole and self._idle >= 100:
            return "stalled"
        return "iterations" if self.iterations >= self.method.max_iterations else None

    def iterate(self) -> None:
        """A direction, a step, new rows, a verdict on the step, a cut."""
        direction = self.directions.propose(self.point, self.space)
        length = math.sqrt(max(0.0, inner_product(direction.vector, direction.vector)))
        step = self._step(direction, length)
        if not self.whole:
            direction = self._grow(direction)
        eta_2 = self.method.lam if self.growth.eta_2 is None else self.growth.eta_2
        taken = step > 0.0 and self._accepted(direction, step) and (self.whole or length > eta_2 * self.delta)
        _, least, largest = self.growth.delta_parts
        change = self.growth.gamma if taken else 1.0 / self.growth.gamma
        self.delta = min(largest * self.unit, max(least * self.unit, change * self.delta))
        if taken:
            vector = self.point.vector.moved(step, direction.vector)
            scores = self.point.scores + step * direction.scores
            self.point = Point(vector, scores, inner_product(vector, vector))
        self._idle = 0 if taken else self._idle + 1
        self.iterations += 1
        self._cut(direction.scores)

    def _step(self, direction: Direction, length: float) -> float:
        if length == 0.0:
            return 0.0
        lam, own = self.method.lam, slice(self.judges, None)
        slope = lam * inner_product(self.point.vector, direction.vector)
        ray = Ray(
            self.point.scores[own],
            direction.scores[own],
            self.targets[self.judges : self.n_rows],
            slope,
            lam * length * length,
            length * length,
        )
        return self.search.step(ray, self.method.loss, math.inf if self.whole else self.delta / length)

    def _grow(self, direction: Direction) -> Direction:
        """Draw new rows; the point, the direction and the averaged cut go on in the larger space."""
        before, self.n_rows = self.n_rows, min(self.most, self.n_rows + self.growth.step_rows)
        self.space = self.source.space(self.n_rows)

        def extended(vector: Vector, scores: FloatArray) -> tuple[Vector, FloatArray]:
            lifted = self.space.lifted(vector)
            return lifted, np.concatenate([scores, self.space.scores(lifted, before)])

        vector, scores = extended(self.point.vector, self.point.scores)
        self.point = Point(vector, scores, self.point.squared_length)
        direction = Direction(*extended(direction.vector, direction.scores))
        self._take_in(slice(before, self.n_rows), before - self.judges, direction)
        if self.n_rows == self.source.n_rows:
            judges, self.judges = self.judges, 0
            self._take_in(slice(0, judges), self.n_rows - judges, direction)
        return direction

    def _take_in(self, fresh: slice, had: int, last: Direction) -> None:
        """Join what fresh rows say to the averaged cut of the `had` rows before."""
        slopes, intercept = self._slopes(last.scores, fresh)
        n_fresh = fresh.stop - fresh.start
        cut = self.space.gather(slopes).scaled(self.n_rows / n_fresh)
        self.directions.grow(self.space, last, cut, intercept / n_fresh, had / (had + n_fresh))
        self.lower_bound = -math.inf

    def _accepted(self, direction: Direction, step: float) -> bool:
        """Whether the objective falls on the grown sample, and by enough of that on the rows that judge."""
        moved = self.point.vector.moved(step, direction.vector)
        half = 0.5 * self.method.lam * (inner_product(moved, moved) - self.point.squared_length)
        values = [
            self.method.loss.value(scores, self.targets[: self.n_rows])
            for scores in (self.point.scores, self.point.scores + step * direction.scores)
        ]
        change = values[1] - values[0]
        fall = -(half + float(change[self.judges :].mean()))
        if self.whole:
            return fall > 0.0
        return fall > 0.0 and -(half + float(change[: self.judges].mean())) >= self.growth.eta_1 * fall

    def _slopes(self, along: FloatArray, part: slice) -> tuple[FloatArray, float]:
        """Slopes of a part of the rows, 0 for the others; the sum of their intercepts."""
        slopes = np.zeros_like(self.point.scores)
        _, intercepts = self.method.loss.slopes_into(
            slopes[part], self.point.scores[part], along[part], self.targets[part]
        )
        return slopes, intercepts

    def _cut(self, along: FloatArray) -> None:
        own = self.n_rows - self.judges
        slopes, intercepts = self._slopes(along, slice(self.judges, self.n_rows))
        cut = self.space.gather(slopes).scaled(self.n_rows / own)
        self.lower_bound = max(self.lower_bound, self.directions.add(cut, intercepts / own, self.point))
        losses = self.method.loss.value(self.point.scores[self.judges :], self.targets[self.judges : self.n_rows])
        self.objective = float(losses.mean()) + 0.5 * self.method.lam * self.point.squared_length
        self.history.append(Record(time.perf_counter() - self.begun, own, self.objective, self.lower_bound))

    def fitted(self, reason: Reason) -> Fitted:
        """The result; rows that still judge are no part of the sample, and nothing is known of all."""
        own = self.n_rows - self.judges
        full = exact_bound(self.objective, self.lower_bound) if own == self.source.n_rows else None
        return Fitted(
            vector=self.point.vector,
            bias=0.0,
            n_rows=own,
            objective=self.objective,
            lower_bound=self.lower_bound,
            full=full,
            iterations=self.iterations,
            reason=reason,
            notes=self.notes,
            history=tuple(self.history),
        )
