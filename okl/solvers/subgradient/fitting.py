"""Fits on rows in memory."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np

from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray
from okl.foundation.validation import check_at_least
from okl.solvers.subgradient.certificate import REPLICATES, SOLVED_TO, FullBound, bound_of_gaps, exact_bound
from okl.solvers.subgradient.drawing import FIRST_SAMPLE, GapEstimate, SamplePlan
from okl.solvers.subgradient.method import DescentRecord, Reason, Sampled, Scs, Watch, solve_sample
from okl.solvers.subgradient.spaces import RowSource, Vector

LOOKS, LOOK_SHARE = 3, 0.125  # samples, and rows of each over those of the sample, to see what a point is worth


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
    full: FullBound | None
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

    Parameters
    ----------
    first_sample : int >= 2, rows
    replicates : int >= 2, samples of a bound
    confidence : in (0, 1); None: no bound but the exact one, on all rows

    Raises
    ------
    ConfigError : a number out of range

    Source: the bound is that of Mak, Morton & Wood, Operations Research Letters 24, 1999, section 3.
    """

    first_sample: int = FIRST_SAMPLE
    replicates: int = REPLICATES
    confidence: float | None = 0.95

    def __post_init__(self) -> None:
        check_at_least("first_sample", self.first_sample, 2)
        check_at_least("replicates", self.replicates, 2)
        if self.confidence is not None and not 0.0 < self.confidence < 1.0:
            raise ConfigError(f"confidence = {self.confidence!r}; expected a number in (0, 1), or None.")

    def fit(self, source: RowSource, targets: FloatArray, method: Scs, watch: Watch | None = None) -> SubgradientFit:
        """Learn rows of a source, whose targets (n_rows,) are in the order of drawing.

        Raises
        ------
        DataError : all labels are equal
        """
        started_at, n_all = time.perf_counter(), source.n_rows
        plan = SamplePlan(method.gap, method.lam, self.first_sample, self.replicates)
        n_rows, notes = first_sample(targets, self.first_sample, method)
        solved: Sampled | None = None
        history: list[DescentRecord] = []
        estimate: GapEstimate | None = None
        tries = 0
        while True:
            space = source.space(n_rows)
            start = None if solved is None else space.lifted(solved.point.vector)
            tolerance = plan.tolerance(n_rows / n_all, n_rows)
            before = None if solved is None else solved.descent
            solved = solve_sample(space, targets[:n_rows], method, start, tolerance, started_at, watch, before)
            history += solved.history if len(history) == 0 else solved.history[1:]
            if n_rows == n_all:
                return _fitted(solved, exact_bound(solved.objective, solved.lower_bound), notes, history)
            fresh = _Fresh(source, targets, method, solved)
            if self.confidence is not None and plan.worth_looking(estimate, n_rows, solved.gap):
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

    def __init__(self, source: RowSource, targets: FloatArray, method: Scs, solved: Sampled) -> None:
        self.source, self.targets, self.solved = source, targets, solved
        self.loss, self.method = method.loss, replace(method, gap=SOLVED_TO * method.gap)
        self.first = len(solved.point.scores)

    def estimate_gap(self) -> GapEstimate | None:
        """Return the gap estimated by a few small samples; None if there are too few rows."""
        n_rows = len(self.solved.point.scores)
        rows = max(2, round(LOOK_SHARE * n_rows))
        if self.first + LOOKS * rows > self.source.n_rows:
            return None
        mean = self.bound(rows, LOOKS, 0.5).mean_gap
        return GapEstimate.of(mean, n_rows, rows, 0.5 * (self.solved.gap + self.method.gap))

    def bound(self, rows: int, replicates: int, confidence: float) -> FullBound:
        """Return the bound of the gap over all rows, from samples of `rows` rows each."""
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
        return bound_of_gaps(gaps, objectives, confidence, rows * replicates)


def first_sample(targets: FloatArray, n_rows: int, method: Scs) -> tuple[int, tuple[str, ...]]:
    """Return the size of the first sample, doubled until it holds two labels, and notes about changes.

    Raises
    ------
    DataError : all labels are equal
    """
    n_all, notes = len(targets), []
    if n_all < n_rows:
        notes.append(f"the first sample should have {n_rows:,} rows, but there are {n_all:,}: it has all of them")
    wanted = n_rows = min(n_rows, n_all)
    if method.loss.task != "regression":
        other = int(np.argmax(targets != targets[0]))
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


def _fitted(solved: Sampled, full: FullBound, notes: tuple[str, ...], history: list[DescentRecord]) -> SubgradientFit:
    point = solved.point
    if solved.reason in ("rounding", "stalled"):
        notes = (*notes, f"rounding leaves a gap of {solved.gap:.2g}: a smaller gap cannot be certified on these rows")
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
