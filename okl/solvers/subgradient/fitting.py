"""Fits on rows in memory: samples that grow fourfold, and the growth rule of Zhang & Sen."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray
from okl.foundation.validation import check_at_least
from okl.losses import Ray
from okl.solvers.subgradient import sampling
from okl.solvers.subgradient.scs import (
    ConjugateDirections,
    DescentRecord,
    Direction,
    ExactLineSearch,
    Point,
    Reason,
    SampleDescent,
    Scs,
    Watch,
    solve_sample,
)
from okl.solvers.subgradient.spaces import RowSource, Vector, inner_product


@dataclass(frozen=True, eq=False)
class SubgradientFit:
    """Result of a fit.

    vector, bias : the point; n_rows : of the last sample; objective, lower_bound : on it
    full : the bound on all rows, None if nothing is known of them; reason : why the last sample was left
    iterations : in all; notes : deviations from the parameters, with reasons; history : of all samples
    """

    vector: Vector
    bias: float
    n_rows: int
    objective: float
    lower_bound: float
    full: sampling.FullBound | None
    iterations: int
    reason: Reason
    notes: tuple[str, ...]
    history: tuple[DescentRecord, ...] = field(repr=False)


@dataclass(frozen=True)
class GeometricGrowth:
    """Samples that grow fourfold, each started at the end of the last.

    What is kept is the point, and in columns the cuts of a bundle: with one that the new rows have in common they are
    cuts of all. When the point's gap on rows that it had not met says that it is worth trying, fresh rows in
    independent samples bound its gap over all rows, at ever larger confidence so that all tries together keep to the
    one that is stated.

    first_sample : int >= 2, rows; replicates : int >= 2, samples of a bound
    confidence : in (0, 1); None: no bound but the exact one, on all rows
    Raises ConfigError : a number out of range

    Source: the bound is that of Mak, Morton & Wood, Operations Research Letters 24, 1999, section 3.
    """

    first_sample: int = sampling.FIRST_SAMPLE
    replicates: int = sampling.REPLICATES
    confidence: float | None = 0.95

    def __post_init__(self) -> None:
        check_at_least("first_sample", self.first_sample, 2)
        check_at_least("replicates", self.replicates, 2)
        if self.confidence is not None and not 0.0 < self.confidence < 1.0:
            raise ConfigError(f"confidence = {self.confidence!r}; expected a number in (0, 1), or None.")

    def fit(self, source: RowSource, targets: FloatArray, method: Scs, watch: Watch | None = None) -> SubgradientFit:
        """Learn rows of a source, with targets (n_rows,) or (n_rows, 2), with weights, as drawn; or DataError."""
        started_at, n_all = time.perf_counter(), source.n_rows
        plan = sampling.SamplePlan(method.gap, method.lam, self.first_sample)
        n_rows, notes = first_sample(targets, self.first_sample, method)
        solved: SampleDescent | None = None
        history: list[DescentRecord] = []
        estimate: sampling.GapEstimate | None = None
        tries = 0
        while True:
            space = source.space(n_rows)
            start = None if solved is None else space.lifted(solved.point.vector)
            tolerance = plan.tolerance(n_rows / n_all, n_rows)
            solved = solve_sample(space, targets[:n_rows], method, start, tolerance, started_at, watch, solved)
            history += solved.history if len(history) == 0 else solved.history[1:]
            if n_rows == n_all:
                return _fitted(solved, sampling.exact_bound(solved.objective, solved.lower_bound), notes, history)
            fresh = _Fresh(source, targets, method, solved)
            if self.confidence is not None and plan.needs_estimate(estimate, n_rows, solved.gap):
                estimate = fresh.estimate_gap()
            rows = None if estimate is None else plan.replicate_rows(estimate, n_rows, solved.gap, tries)
            if self.confidence is not None and rows and fresh.first + rows * self.replicates <= n_all:
                tries += 1
                # one try more halves what is left of the risk: all tries together stay below it
                full = fresh.bound(rows, self.replicates, 1.0 - (1.0 - self.confidence) / 2**tries)
                if full.gap <= method.gap:
                    return _fitted(solved, full, notes, history)
            n_rows = min(n_all, round(n_all * plan.next_share(n_rows / n_all)))


class _Fresh:
    """Independent samples of the next rows in the order of drawing: a point of the sample has met none of them."""

    def __init__(self, source: RowSource, targets: FloatArray, method: Scs, solved: SampleDescent) -> None:
        self.source, self.targets, self.solved = source, targets, solved
        self.loss, self.method = method.loss, replace(method, gap=sampling.SOLVED_TO * method.gap)
        self.first = len(solved.point.scores)

    def estimate_gap(self) -> sampling.GapEstimate | None:
        """Return the gap estimated by a few small samples; None if there are too few rows."""
        n_rows = len(self.solved.point.scores)
        rows = max(2, round(sampling.LOOK_SHARE * n_rows))
        if self.first + sampling.LOOKS * rows > self.source.n_rows:
            return None
        mean = self.bound(rows, sampling.LOOKS, 0.5).mean_gap
        return sampling.GapEstimate.of(mean, n_rows, rows, 0.5 * (self.solved.gap + self.method.gap))

    def bound(self, rows: int, replicates: int, confidence: float) -> sampling.FullBound:
        point, gaps, objectives = self.solved.point, [], []
        for _ in range(replicates):
            part = slice(self.first, self.first + rows)
            self.first += rows  # a bound takes other rows than the look that led to it
            apart = self.source.apart(point.vector, part.start, part.stop)
            losses = self.loss.value(apart.scores + point.bias, self.targets[part])
            objective = 0.5 * self.method.lam * point.squared_length + float(losses.mean())
            own = solve_sample(apart.space, self.targets[part], self.method, apart.start)
            gaps.append(max(0.0, objective - own.lower_bound))
            objectives.append(objective)
        return sampling.bound_of_gaps(gaps, objectives, confidence, rows * replicates)


def first_sample(targets: FloatArray, n_rows: int, method: Scs) -> tuple[int, tuple[str, ...]]:
    """Return the size of the first sample, doubled until it has two labels, and notes; DataError if all are equal."""
    n_all, notes = len(targets), []
    if n_all < n_rows:
        notes.append(f"the first sample should have {n_rows:,} rows, but there are {n_all:,}: it has all of them")
    wanted = n_rows = min(n_rows, n_all)
    if method.loss.task != "regression":
        labels = targets if targets.ndim == 1 else targets[:, 0]
        other = int(np.argmax(labels != labels[0]))
        if other == 0:
            raise DataError(
                f"All {n_all:,} labels are equal, but training requires two classes. Add rows of another class."
            )
        while n_rows <= other:
            n_rows = min(2 * n_rows, n_all)
    if n_rows > wanted:
        notes.append(
            f"the first {wanted:,} sampled rows had a single label, so the sample was enlarged to {n_rows:,} rows"
        )
    return n_rows, tuple(notes)


def _fitted(
    solved: SampleDescent, full: sampling.FullBound, notes: tuple[str, ...], history: list[DescentRecord]
) -> SubgradientFit:
    point = solved.point
    if solved.reason == "rounding":
        notes = (*notes, f"rounding leaves a gap of {solved.gap:.2g}: a smaller gap cannot be certified on these rows")
    elif solved.reason == "stalled":
        notes = (*notes, f"the last iterations no longer reduce the gap of {solved.gap:.2g}")
    return SubgradientFit(
        vector=point.vector,
        bias=point.bias,
        n_rows=len(point.scores),
        objective=solved.objective,
        lower_bound=solved.lower_bound,
        full=full,
        iterations=len(history) - 1,
        reason=solved.reason,
        notes=notes,
        history=tuple(history),
    )


_ETA_1, _GAMMA = 0.2, 2.0
# in units of (2 / lam)^(1/2), which no optimum is longer than
_FIRST_DELTA, _LEAST_DELTA, _LARGEST_DELTA = 0.25, 0.02, 1.0


class PaperRun:
    """The validation rows first, then the sample: in one space, where coefficients of the former stay 0."""

    def __init__(
        self, growth: PaperGrowth, source: RowSource, targets: FloatArray, method: Scs, n_validation: int
    ) -> None:
        self.growth, self.source, self.targets, self.method = growth, source, targets, method
        self.n_validation = n_validation
        own, self.notes = first_sample(targets[n_validation:], growth.first_sample, method)
        self.n_rows = n_validation + own
        self.started_at, self.history, self.iterations = time.perf_counter(), list[DescentRecord](), 0
        self.directions = ConjugateDirections(method.lam, method.directions == "conjugate")
        self.search = ExactLineSearch()
        self.space = source.space(self.n_rows)
        zero = self.space.zero()
        self.point = Point(zero, self.space.scores(zero), 0.0)
        self.unit = math.sqrt(2.0 / method.lam)
        self.delta = _FIRST_DELTA * self.unit
        self._idle, self.lower_bound = 0, -math.inf
        self._cut(np.zeros_like(self.point.scores))

    @property
    def whole(self) -> bool:
        """Return whether the sample has stopped growing."""
        return self.n_rows >= self.source.n_rows

    def finished(self) -> Reason | None:
        gap = self.objective - self.lower_bound
        if self.whole and gap <= self.method.gap:
            return "gap"
        if self.whole and self._idle >= 100:
            return "stalled"
        return "iterations" if self.iterations >= self.method.max_iterations else None

    def iterate(self) -> None:
        """Take a direction and a step, draw new rows, accept or reject the step, and add a cut."""
        direction = self.directions.propose(self.point, self.space)
        length = math.sqrt(max(0.0, inner_product(direction.vector, direction.vector)))
        step = self._step(direction, length)
        if not self.whole:
            direction = self._grow(direction)
        long = self.whole or length > self.method.lam * self.delta
        taken = step > 0.0 and self._accepted(direction, step) and long
        change = _GAMMA if taken else 1.0 / _GAMMA
        self.delta = min(_LARGEST_DELTA * self.unit, max(_LEAST_DELTA * self.unit, change * self.delta))
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
        lam, own = self.method.lam, slice(self.n_validation, None)
        slope = lam * inner_product(self.point.vector, direction.vector)
        ray = Ray(
            self.point.scores[own],
            direction.scores[own],
            self.targets[self.n_validation : self.n_rows],
            slope,
            lam * length * length,
        )
        return self.search.step(ray, self.method.loss, math.inf if self.whole else self.delta / length)

    def _grow(self, direction: Direction) -> Direction:
        """Draw new rows; the point, the direction and the averaged cut continue in the larger space."""
        before, self.n_rows = self.n_rows, min(self.source.n_rows, self.n_rows + self.growth.step_rows)
        self.space = self.source.space(self.n_rows)

        def extended(vector: Vector, scores: FloatArray) -> tuple[Vector, FloatArray]:
            lifted = self.space.lifted(vector)
            return lifted, np.concatenate([scores, self.space.scores(lifted, before)])

        vector, scores = extended(self.point.vector, self.point.scores)
        self.point = Point(vector, scores, self.point.squared_length)
        direction = Direction(*extended(direction.vector, direction.scores))
        self._take_in(slice(before, self.n_rows), before - self.n_validation, direction)
        if self.whole:
            n_validation, self.n_validation = self.n_validation, 0
            self._take_in(slice(0, n_validation), self.n_rows - n_validation, direction)
        return direction

    def _take_in(self, fresh: slice, had: int, last: Direction) -> None:
        """Join a cut of new rows to the averaged cut of the `had` rows before."""
        slopes, intercept = self._slopes(last.scores, fresh)
        n_fresh = fresh.stop - fresh.start
        cut = self.space.gather(slopes).scaled(self.n_rows / n_fresh)
        self.directions.grow(self.space, last, cut, intercept / n_fresh, had / (had + n_fresh))
        self.lower_bound = -math.inf

    def _accepted(self, direction: Direction, step: float) -> bool:
        """Return whether the objective falls on the grown sample, and by enough of that on the validation rows."""
        moved = self.point.vector.moved(step, direction.vector)
        half = 0.5 * self.method.lam * (inner_product(moved, moved) - self.point.squared_length)
        values = [
            self.method.loss.value(scores, self.targets[: self.n_rows])
            for scores in (self.point.scores, self.point.scores + step * direction.scores)
        ]
        change = values[1] - values[0]
        fall = -(half + float(change[self.n_validation :].mean()))
        if self.whole:
            return fall > 0.0
        return fall > 0.0 and -(half + float(change[: self.n_validation].mean())) >= _ETA_1 * fall

    def _slopes(self, along: FloatArray, part: slice) -> tuple[FloatArray, float]:
        """Return the slopes of a part of the rows, 0 for the others, and the sum of the intercepts."""
        slopes = np.zeros_like(self.point.scores)
        _, intercepts = self.method.loss.slopes_into(
            slopes[part], self.point.scores[part], along[part], self.targets[part]
        )
        return slopes, intercepts

    def _cut(self, along: FloatArray) -> None:
        own = self.n_rows - self.n_validation
        slopes, intercepts = self._slopes(along, slice(self.n_validation, self.n_rows))
        cut = self.space.gather(slopes).scaled(self.n_rows / own)
        self.lower_bound = max(self.lower_bound, self.directions.add(cut, intercepts / own, self.point))
        sample = slice(self.n_validation, self.n_rows)
        losses = self.method.loss.value(self.point.scores[sample], self.targets[sample])
        self.objective = float(losses.mean()) + 0.5 * self.method.lam * self.point.squared_length
        self.history.append(DescentRecord(time.perf_counter() - self.started_at, own, self.objective, self.lower_bound))

    def fitted(self, reason: Reason) -> SubgradientFit:
        """Return the result; while validation rows are outside the sample, there is no bound over all rows."""
        own = self.n_rows - self.n_validation
        full = sampling.exact_bound(self.objective, self.lower_bound) if own == self.source.n_rows else None
        return SubgradientFit(
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


@dataclass(frozen=True)
class PaperGrowth:
    """Algorithm 1 with its acceptance test and its control of step lengths, as repaired.

    A step is taken if the validation rows agree: their objective falls by at least eta_1 = 0.2 of the fall on the
    sample, and the direction is longer than lam delta. delta is multiplied by gamma = 2 after a step that was taken,
    divided by it after one that was not. A step of 0 is a failure. When the rows end, they join the sample, and it is
    solved to the gap.

    first_sample, step_rows : int >= 2 and >= 1, rows at first and new ones in an iteration
    validation_rows : int >= 1, fixed from the beginning, never in the sample: fresh ones cost kernel values by the
        square and brought nothing
    Raises ConfigError : a number out of range

    Source: Zhang & Sen, Algorithm 1, with the inequality of acceptance the right way round (their Lemma 3.9), and the
    regulariser of the validation objective that of the sample's kernel values.
    """

    first_sample: int = 150
    step_rows: int = 16
    validation_rows: int = 400

    def __post_init__(self) -> None:
        check_at_least("first_sample", self.first_sample, 2)
        check_at_least("step_rows", self.step_rows, 1)
        check_at_least("validation_rows", self.validation_rows, 1)

    def fit(
        self, source: RowSource, targets: FloatArray, method: Scs, watch: Callable[[Point, int], None] | None = None
    ) -> SubgradientFit:
        """Train on rows of a source, whose targets (n_rows,) are in the order of drawing; the first ones validate.

        watch : called after each iteration with the point, and the rows drawn for the sample so far
        Raises ConfigError : directions = "bundle"; DataError : labels are equal, or no rows are left to learn from
        """
        if method.directions == "bundle":
            raise ConfigError(
                'growth = "paper" requires directions = "conjugate" or "subgradient": the cuts of a bundle are '
                "valid on one sample only."
            )
        n_validation = min(self.validation_rows, source.n_rows // 4)
        if n_validation == 0:
            raise DataError(
                f"{source.n_rows} rows are too few for a sample and separate validation rows. Give at least 4 rows."
            )
        run = PaperRun(self, source, targets, method, n_validation)
        while (reason := run.finished()) is None:
            run.iterate()
            if watch is not None:
                watch(run.point, run.n_rows - run.n_validation)
        return run.fitted(reason)
