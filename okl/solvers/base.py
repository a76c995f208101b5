"""The interface of solvers, convergence curves and drift detection."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from scipy.special import ndtr, ndtri

from okl.data.dataset import Dataset, Schema
from okl.data.execution import Execution
from okl.features.base import FeatureMap
from okl.features.predictors import Predictor
from okl.foundation.class_tags import stored
from okl.foundation.types import Doubles, FloatArray, Precision, Task

State = TypeVar("State")


@stored("solver-outcome")
@dataclass(frozen=True)
class Outcome:
    """Reason why a solver stopped; a value, not an exception, so that a loop can still read the state.

    kind : "done" only where the tolerance was met; "not converged" for every other end with a finite model
    """

    kind: Literal["done", "diverged", "not converged"]
    reason: str

    @property
    def converged(self) -> bool:
        """Return whether the tolerance was met."""
        return self.kind == "done"


def reasons_of(outcomes: Sequence[Outcome]) -> str:
    """Return why the problems of all classes ended: of many reasons, that of the first problem that did not converge.

    >>> reasons_of([Outcome("not converged" if gap == 9 else "done", f"gap {gap}") for gap in (1, 9, 2, 3, 3)])
    'gap 9; 4 other classes ended with other figures'
    """
    reasons = list(dict.fromkeys(outcome.reason for outcome in outcomes))
    if len(reasons) <= _MOST_REASONS:
        return "; ".join(reasons)
    worst = next((outcome for outcome in outcomes if not outcome.converged), outcomes[0])
    others = sum(outcome.reason != worst.reason for outcome in outcomes)
    return f"{worst.reason}; {others} other classes ended with other figures"


_MOST_REASONS = 3
GIVEN, CHOSEN_AUTOMATICALLY = "as given", "by the automatic choice"


def named_reasons(chosen: Mapping[str, Any], options: Any, given: str = GIVEN) -> dict[str, Any]:
    """Return chosen values where no reason says "as given" of an option that is "auto", or where another word fits.

    options : an object with the options as attributes; given : reason of options that are not "auto"

    >>> from types import SimpleNamespace
    >>> named_reasons({"rank": 30, "rank_reason": "as given"}, SimpleNamespace(rank="auto"))
    {'rank': 30, 'rank_reason': 'by default'}
    """
    defaults = {name for name in chosen if getattr(options, name.removesuffix("_reason"), None) == "auto"}
    return {name: why if why != GIVEN else "by default" if name in defaults else given for name, why in chosen.items()}


@stored("solver-progress", renamed={"squared_gradients": None})
@dataclass(frozen=True)
class SolverProgress:
    """Progress of a state, and the quality of its predictions before it learned each row.

    done_rows, total_rows : rows learned and to learn, over all passes
    error, baseline_error : progressive mistake rate or squared error (scaled target units), of the learner and of the
        majority class or mean so far
    surrogate, stepped_gradients : sums so far, as in okl.solvers.online.base; 0 if not counted
    kept_wrong : of each model that a tracker keeps, the latest last, rows of this window it is wrong on; else empty
    violation : sum so far under constraints, as in okl.solvers.online.base; None without
    """

    done_rows: int
    total_rows: int
    error: float
    baseline_error: float
    surrogate: float = 0.0
    stepped_gradients: float = 0.0
    kept_wrong: tuple[int, ...] = ()
    violation: float | None = None


@stored("convergence")
@dataclass(frozen=True)
class Convergence:
    """Progress of a method that reads all rows in every iteration; the number of iterations is unknown.

    iterations : done, of all classes; relative_gap : of the current point, over the larger objective
    objective, dual_objective : primal and dual; the optimum is between the two
    sample_rows : of those rows that all this is about, where they are a sample; 0: all rows
    """

    iterations: int
    relative_gap: float
    objective: float
    dual_objective: float
    sample_rows: int = 0


class Solver(Protocol[State]):
    """Frozen configuration; all that evolves is in the state, a picklable value that no method writes into."""

    def start(self, data: Dataset, execution: Execution) -> State: ...

    def advance(self, state: State, data: Dataset, execution: Execution) -> State: ...

    def finished(self, state: State) -> Outcome | None: ...

    def progress(self, state: State) -> SolverProgress | Convergence: ...

    def predictor(self, state: State) -> Predictor: ...

    def chosen(self, state: State) -> dict[str, Any]:
        """Return the values that `start` chose from the data (bandwidth, step size, ...), each with its reason, as
        text.
        """


@runtime_checkable
class CertifiedSolver(Solver[State], Protocol[State]):
    """A solver whose finished states have a proof of their gap."""

    def certificate(self, state: State) -> dict[str, Any]:
        """Return the proof as JSON: its kind, "duality gap" or "gap over all rows", and figures by name."""


# Learning curves with a bounded number of points.

MOST_POINTS = 400


@stored("learning-curve")
@dataclass
class LearningCurve:
    """Progressive errors by the number of rows; a full curve drops every other point, so that memory stays bounded."""

    standings: list[SolverProgress] = field(default_factory=list)
    _stride: int = 1
    _seen: int = 0

    def add(self, progress: SolverProgress) -> None:
        """Record the progress of the solver."""
        self._seen += 1
        if self._seen % self._stride == 0:
            self.standings.append(progress)
        if len(self.standings) > MOST_POINTS:
            self.standings = self.standings[1::2]
            self._stride *= 2
        self._last = progress

    def recorded(self) -> list[SolverProgress]:
        """Return the previous and the current progress, as far as they are kept."""
        if self._seen and self.standings[-1:] != [self._last]:
            return [*self.standings, self._last]
        return self.standings

    def points(self) -> list[list[float]]:
        """Return a list of [rows seen, error so far, error since the point before, baseline's error so far]."""
        standings = self.recorded()
        points: list[list[float]] = []
        rows, total = 0, 0.0
        for progress in standings:
            grown = progress.done_rows - rows
            error_sum = progress.error * progress.done_rows
            recent = (error_sum - total) / grown if grown else progress.error
            points.append([progress.done_rows, progress.error, recent, progress.baseline_error])
            rows, total = progress.done_rows, error_sum
        return points

    def violations(self) -> list[list[float]]:
        """Return a list of [rows seen, violation a row so far, a row since the point before], or []."""
        points: list[list[float]] = []
        rows, total = 0, 0.0
        for progress in self.recorded():
            if progress.violation is not None and progress.done_rows > rows:
                recent = (progress.violation - total) / (progress.done_rows - rows)
                points.append([progress.done_rows, progress.violation / progress.done_rows, recent])
                rows, total = progress.done_rows, progress.violation
        return points


@stored("convergence-curve")
@dataclass
class ConvergenceCurve:
    """The gap by the number of iterations, with few points: a check comes every ten to a hundred iterations."""

    standings: list[Convergence] = field(default_factory=list)

    def add(self, progress: Convergence) -> None:
        """Record the progress of the solver."""
        if progress.iterations or not self.standings:
            self.standings.append(progress)

    def points(self) -> list[list[float]]:
        """Return a list of [iterations, relative gap, objective, dual objective], the last one always among them."""
        stride = -(-len(self.standings) // MOST_POINTS)
        return [
            [progress.iterations, progress.relative_gap, progress.objective, progress.dual_objective]
            for progress in self.standings[::-1][:: max(1, stride)][::-1]
        ]


# Drift detection from the error rates of windows.
#
# Of mistakes in two ranges of rows at one rate, those in the later are hypergeometric: a window fires if they are more
# than chance explains (Fisher's exact test, one-sided). Whose mistakes depends on who learns.
#
# A tracker keeps the models of the ends of the last few windows, and continues training. Such a model has seen
# neither the window nor those between, so that if nothing changes its mistakes in them are as many by chance; if
# something does, it cannot follow. Each of those that were kept since the last signal, with a window at least
# between, is tested, at its share of the level. This holds for any distribution of the rows, for several classes as
# for a regression, where a mistake is to miss a row by more than a limit that was set beforehand.
#
# Any other learner has its own mistakes only: each prediction made before training on its row, and the later half
# of the windows since the last signal. A learner that still improves leaves them better, not worse. Where windows
# vary among themselves by more than chance alone, by the mean square of successive differences, which a slow trend
# does not inflate, the deviation is taken in units of theirs. Its squared errors, of whatever distribution, are not
# tested.
#
# Where nothing changes, each window fires with a chance of `level` at most: were they independent, more than one in a
# hundred windows with a chance below 0.5%.
#
# Source: Fisher, Journal of the Royal Statistical Society 98, 1935; von Neumann et al., Annals of Mathematical
# Statistics 12, 1941 (mean square successive difference); Gama, Sebastiao & Rodrigues, Machine Learning 90, 2013
# (errors before learning).


LEVEL = 0.001
FEWEST_SPREAD = 8  # windows, for a variance between them


@stored("drift-window")
@dataclass(frozen=True)
class DriftWindow:
    """Some hundreds of rows, one after the other, and how they were predicted before they were learned.

    first_row : from 0; rows : how many
    total : mistakes, or the sum of squared errors, of the learner; baseline_total : of the majority or mean so far
    kept_wrong : of each model that a tracker kept before it, the latest last: rows that it is wrong on
    verdict : of the test
    """

    first_row: int
    rows: int
    total: float
    baseline_total: float
    kept_wrong: tuple[int, ...] = ()
    verdict: DriftTest | None = None

    @property
    def error(self) -> float:
        """Return mistake rate or mean squared error of the learner."""
        return self.total / self.rows

    @property
    def fired(self) -> bool:
        """Return whether the rows have changed, according to the test."""
        return self.verdict is not None and self.verdict.fired


@stored("drift-assessment")
@dataclass(frozen=True)
class DriftTest:
    """Upper bound of the chance of so many mistakes if nothing has changed, and the rates that it compares.

    rate, past_rate : mistakes a row in the window and before, of the learner, or of the kept model that differs most
    fired : whether the chance is no more than the level
    """

    p_value: float
    rate: float
    past_rate: float
    fired: bool = False


@stored("drift-watch")
@dataclass
class DriftWatch:
    """Drift detector: cuts a stream into windows and tests each; less than half a window at the end is left out.

    task : of the learner; window_rows : at least, of a window; level : of the test, a window
    """

    task: Task
    window_rows: int
    level: float = LEVEL
    windows: list[DriftWindow] = field(default_factory=list)
    _done: int = 0
    _total: float = 0.0
    _baseline: float = 0.0
    _since: int = 0

    def add(self, progress: SolverProgress) -> bool:
        """Record the learner's progress; return whether a window ends here, after at least window_rows rows."""
        grown = progress.done_rows - self._done
        last = progress.done_rows == progress.total_rows
        if grown < (self.window_rows / 2 if last else self.window_rows):
            return False
        total, baseline = progress.error * progress.done_rows, progress.baseline_error * progress.done_rows
        window = DriftWindow(self._done, grown, total - self._total, baseline - self._baseline, progress.kept_wrong)
        self._judge(window)
        self._done, self._total, self._baseline = progress.done_rows, total, baseline
        return True

    def as_json(self) -> dict[str, Any]:
        """Return the entries "windows" and, if they are tested, "drift" of a run's result."""
        points = [
            [window.first_row, window.rows, window.error, window.baseline_total / window.rows]
            for window in self.windows
        ]
        signals = [
            {
                "first_row": window.first_row,
                "last_row": window.first_row + window.rows - 1,
                "rate": window.verdict.rate,
                "past_rate": window.verdict.past_rate,
                "p_value": window.verdict.p_value,
            }
            for window in self.windows
            if window.verdict is not None and window.verdict.fired
        ]
        windows = {"rows": self.window_rows, "points": points}
        of_snapshots = any(window.kept_wrong for window in self.windows)
        if self.task == "regression" and not of_snapshots:
            return {"windows": windows}
        drift = {"signals": signals, "level": self.level, "windows": len(self.windows), "of_kept_models": of_snapshots}
        return {"windows": windows, "drift": drift}

    def _judge(self, window: DriftWindow) -> None:
        verdict = judge(self.task, self.windows[self._since :], window)
        if verdict is not None and verdict.p_value <= self.level:
            # a window right after one that fired reports the same change
            again = self.windows[-1].fired
            verdict = replace(verdict, fired=not again)
            self._since = len(self.windows)
        self.windows.append(replace(window, verdict=verdict))


def judge(task: Task, past: list[DriftWindow], window: DriftWindow) -> DriftTest | None:
    """Return the test of each window before it fires; None without past windows since the last signal."""
    if window.kept_wrong:
        return _of_snapshots(past, window)
    return _of_learner(past[len(past) // 2 :], window) if past and task != "regression" else None


def _of_snapshots(past: list[DriftWindow], window: DriftWindow) -> DriftTest | None:
    """Return the drift seen by the kept model that differs most, among those kept since the first window ended."""
    verdicts = []
    for age in range(2, min(len(window.kept_wrong), len(past)) + 1):
        unseen = past[1 - age :]
        wrong = sum(late_window.kept_wrong[-younger] for younger, late_window in enumerate(unseen, 1))
        verdicts.append(
            fisher_test(wrong, sum(late_window.rows for late_window in unseen), window.kept_wrong[-age], window.rows)
        )
    if not verdicts:
        return None
    clearest = min(verdicts, key=lambda late_window: late_window.p_value)
    return replace(clearest, p_value=min(1.0, len(verdicts) * clearest.p_value))  # Bonferroni


def _of_learner(late: list[DriftWindow], window: DriftWindow) -> DriftTest:
    """Return the drift seen by the learner itself over late windows."""
    totals = np.array([late_window.total for late_window in late])
    rows = np.array([float(late_window.rows) for late_window in late])
    verdict = fisher_test(round(totals.sum()), int(rows.sum()), round(window.total), window.rows)
    excess = excess_spread(totals, rows) if len(late) >= FEWEST_SPREAD else 1.0
    if excess == 1.0 or verdict.p_value == 0.0:
        return verdict
    deviation = float(-ndtri(verdict.p_value)) / math.sqrt(excess)
    return replace(verdict, p_value=float(ndtr(-deviation)))


def excess_spread(totals: Doubles, rows: Doubles) -> float:
    """Return the variance of the error rates of successive windows over that of chance alone, at least 1."""
    rate = float(totals.sum() / rows.sum())
    by_chance = rate * (1.0 - rate) * (1.0 / rows[1:] + 1.0 / rows[:-1])
    return max(1.0, float((np.square(np.diff(totals / rows)) / by_chance).mean())) if 0.0 < rate < 1.0 else 1.0


def fisher_test(past_wrong: int, past_rows: int, wrong: int, rows: int) -> DriftTest:
    """Return fisher's exact test that mistakes are more than before, one-sided; not yet fired."""
    from scipy import stats  # takes a second, and few runs track

    p_value = stats.hypergeom.sf(wrong - 1, past_rows + rows, past_wrong + wrong, rows)
    return DriftTest(float(p_value), wrong / rows, past_wrong / past_rows)


DrawnMap = tuple[FeatureMap, dict[str, Any]]
"""A feature map, and what was chosen from a sample, with the reasons."""


class SolverMap(Protocol):
    """Frozen configuration that becomes a feature map after a sample of the data has been seen."""

    def draw(self, schema: Schema, sample: FloatArray, seed: int, precision: Precision) -> DrawnMap:
        """Return the map, and what was chosen from the sample (rows, n_features), with the reason."""
