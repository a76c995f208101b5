"""Learning from rows in memory: samples that grow until the bound on all rows reaches the gap, or the rows end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np

from okl.checks import check_at_least
from okl.errors import ConfigError, DataError
from okl.subgradient.certificate import REPLICATES, SOLVED_TO, FullBound, bound_of_gaps, exact_bound
from okl.subgradient.descent import Reason, Record, Watch
from okl.subgradient.growth import FIRST_SAMPLE, Plan, Seen
from okl.subgradient.scs import Sampled, Scs, solve_sample
from okl.subgradient.sources import Source
from okl.subgradient.vectors import Vector
from okl.types import FloatArray


@dataclass(frozen=True, eq=False)
class Fitted:
    """What was learnt.

    vector, bias : the point; n_rows : of the last sample; objective, lower_bound : on it
    full : the bound on all rows, None if nothing is known of them; reason : why the last sample was left
    iterations : in all; notes : what was done otherwise than asked, and why; history : of all samples
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
    history: tuple[Record, ...] = field(repr=False)


@dataclass(frozen=True)
class GeometricGrowth:
    """Samples that grow fourfold, each begun where the one before ended.

    A bundle's cuts hold on their own sample only: what is kept is the point. When the point's gap on rows that it had
    not met says that it is worth trying, fresh rows in independent samples bound its gap over all rows, at ever larger
    confidence so that all tries together keep to the one that is stated.

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
            raise ConfigError(f"confidence = {self.confidence!r}, but it takes a number in (0, 1), or None.")

    def fit(self, source: Source, targets: FloatArray, method: Scs, watch: Watch | None = None) -> Fitted:
        """Learn rows of a source, whose targets (n_rows,) are in the order of drawing.

        Raises
        ------
        DataError : all labels are equal
        """
        begun, n_all = time.perf_counter(), source.n_rows
        plan = Plan(method.gap, method.lam, self.first_sample, self.replicates)
        n_rows, notes = first_sample(targets, self.first_sample, method)
        solved: Sampled | None = None
        history: list[Record] = []
        seen: Seen | None = None
        tries = 0
        while True:
            before, solved = solved, self._solved(source, n_rows, targets, method, plan, solved, begun, watch)
            history += solved.history if before is None else solved.history[1:]
            if before is not None:
                seen = _seen(before, solved)
            if n_rows == n_all:
                return _fitted(solved, exact_bound(solved.objective, solved.lower_bound), notes, history)
            rows = None if seen is None else plan.replicate_rows(seen, n_rows, solved.gap)
            if self.confidence is not None and rows and n_rows + rows * self.replicates <= n_all:
                tries += 1
                full = self._bound(source, targets, method, solved, rows, tries)
                if full.gap <= method.gap:
                    return _fitted(solved, full, notes, history)
            n_rows = min(n_all, round(n_all * plan.next_share(n_rows / n_all)))

    def _solved(
        self,
        source: Source,
        n_rows: int,
        targets: FloatArray,
        method: Scs,
        plan: Plan,
        before: Sampled | None,
        begun: float,
        watch: Watch | None,
    ) -> Sampled:
        space = source.space(n_rows)
        start = None if before is None else space.lifted(before.point.vector)
        tolerance = plan.tolerance(n_rows / source.n_rows, n_rows)
        return solve_sample(space, targets[:n_rows], method, start, tolerance, begun, watch)

    def _bound(
        self, source: Source, targets: FloatArray, method: Scs, solved: Sampled, rows: int, tries: int
    ) -> FullBound:
        """Of independent samples of `rows` rows each, the next ones to be drawn: the point has met none of them."""
        assert self.confidence is not None
        first, gaps, objectives = len(solved.point.scores), [], []
        for index in range(self.replicates):
            part = slice(first + index * rows, first + (index + 1) * rows)
            space, scores = source.apart(solved.point.vector, part.start, part.stop)
            losses = method.loss.value(scores + solved.point.bias, targets[part])
            here = 0.5 * method.lam * solved.point.squared_length + float(losses.mean())
            own = solve_sample(space, targets[part], replace(method, gap=SOLVED_TO * method.gap))
            gaps.append(max(0.0, here - own.lower_bound))
            objectives.append(here)
        # one try more halves what is left of the risk: all tries together stay below it
        confidence = 1.0 - (1.0 - self.confidence) / 2**tries
        return bound_of_gaps(gaps, objectives, confidence, rows * self.replicates)


def first_sample(targets: FloatArray, n_rows: int, method: Scs) -> tuple[int, tuple[str, ...]]:
    """Rows of the first sample, twice as many as asked for until two labels are among them; and notes on that.

    Raises
    ------
    DataError : all labels are equal
    """
    n_all, notes = len(targets), []
    if n_all < n_rows:
        notes.append(f"the first sample takes {n_rows:,} rows, but there are {n_all:,}: it has them all")
    wanted = n_rows = min(n_rows, n_all)
    if method.loss.task != "regression":
        other = int(np.argmax(targets != targets[0]))
        if other == 0:
            raise DataError(
                f"All {n_all:,} labels are equal: two classes are needed to learn from. Give rows of another class."
            )
        while n_rows <= other:
            n_rows = min(2 * n_rows, n_all)
    if n_rows > wanted:
        notes.append(f"the first {wanted:,} rows drawn had one label only, the sample was drawn on to {n_rows:,} rows")
    return n_rows, tuple(notes)


def _seen(before: Sampled, after: Sampled) -> Seen:
    """What the point of a sample lost on the rows that came with the next one: its excess, and the bound's optimism."""
    old, new = before.history[-1].n_rows, after.history[0].n_rows
    share = old / new
    fresh = (after.history[0].objective - share * before.objective) / (1.0 - share)
    return Seen(old, 0.5 * old * max(0.0, fresh - before.lower_bound))


def _fitted(solved: Sampled, full: FullBound, notes: tuple[str, ...], history: list[Record]) -> Fitted:
    point = solved.point
    if solved.reason in ("rounding", "stalled"):
        notes = (*notes, f"rounding leaves a gap of {solved.gap:.2g}: these rows cannot certify a smaller one")
    return Fitted(
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
