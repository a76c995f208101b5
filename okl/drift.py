"""Whether rows have changed: the error of each window of a stream beside that of the windows before it.

A window fires if predictions, each made before its row was learnt, are worse than chance explains beside the later half
of the windows since the last signal: a learner that still improves leaves them better, not worse. A tracker is soon as
good as before, but not each of its experts: those that were nearly the best are tested too, each beside its own past,
at their share of the level.

Of the mistakes in two stretches at one rate, those in the window are hypergeometric (Fisher's exact test, one-sided).
Where windows vary among themselves by more than chance alone, by the mean square of successive differences, which a
slow trend does not inflate, the deviation is taken in units of theirs. Squared errors of a tracker's experts, clipped
so that no row makes a mean, are judged by Student's t with that variance, from eight windows on; those of other
learners, of whatever distribution, are not. Where nothing changes, at most a share `level` of the windows fires.

Source: Fisher, Journal of the Royal Statistical Society 98, 1935; von Neumann et al., Annals of Mathematical Statistics
12, 1941 (mean square successive difference); Gama, Sebastiao & Rodrigues, Machine Learning 90, 2013 (errors before
learning).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from okl.solvers import Standing
from okl.types import Task

Doubles = NDArray[np.float64]

LEVEL = 0.001
FEWEST_SPREAD = 8  # windows, for a variance between them
CLOSE = 1.25  # times the least error so far, up to which an expert is tested
EFFICIENCY = 2.0 / 3.0  # degrees of freedom of a mean square successive difference, for each difference


@dataclass(frozen=True)
class Window:
    """Some hundreds of rows, one after the other, and how they were predicted before they were learnt.

    first_row : from 0; rows : how many
    totals : (1 + experts,), mistakes, or sums of squared errors, of the learner; and the losses of each expert alone
    baseline_total : of the majority or mean so far
    past_error : of the rows it is compared with, NaN if there are none
    p_value : the chance of this if nothing changed, at most; fired : whether it is no more than the level; a window
        right after one that fired tells of the same change
    """

    first_row: int
    rows: int
    totals: tuple[float, ...]
    baseline_total: float
    past_error: float = math.nan
    p_value: float = 1.0
    fired: bool = False

    @property
    def error(self) -> float:
        """Mistake rate or mean squared error of the learner."""
        return self.totals[0] / self.rows


@dataclass
class DriftWatch:
    """Cuts a stream into windows, and tests each; fewer rows than half a window at the end belong to none.

    task : mistakes or squared errors; window_rows : at least, of a window; level : of the test, a window
    """

    task: Task
    window_rows: int
    level: float = LEVEL
    windows: list[Window] = field(default_factory=list)
    _done: int = 0
    _totals: tuple[float, ...] = ()
    _baseline: float = 0.0
    _since: int = 0

    def add(self, standing: Standing) -> None:
        """Note where the learner stands; a window ends where at least window_rows rows have gone by."""
        grown = standing.done_rows - self._done
        last = standing.done_rows == standing.total_rows
        if grown < (self.window_rows / 2 if last else self.window_rows):
            return
        totals = (standing.error * standing.done_rows, *standing.expert_losses)
        baseline, before = standing.baseline_error * standing.done_rows, self._totals or (0.0,) * len(totals)
        here = tuple(now - then for now, then in zip(totals, before, strict=True))
        self._judge(Window(self._done, grown, here, baseline - self._baseline))
        self._done, self._totals, self._baseline = standing.done_rows, totals, baseline

    def as_json(self) -> dict[str, Any]:
        """The entries "windows" and, if they are tested, "drift" of a run's result."""
        points = [[one.first_row, one.rows, one.error, one.baseline_total / one.rows] for one in self.windows]
        signals = [
            {
                "first_row": one.first_row,
                "last_row": one.first_row + one.rows - 1,
                "error": one.error,
                "past_error": one.past_error,
                "p_value": one.p_value,
            }
            for one in self.windows
            if one.fired
        ]
        windows = {"rows": self.window_rows, "points": points}
        if self.task == "regression" and not any(len(one.totals) > 1 for one in self.windows):
            return {"windows": windows}
        return {"windows": windows, "drift": {"signals": signals, "level": self.level, "windows": len(self.windows)}}

    def _judge(self, window: Window) -> None:
        past = self.windows[self._since :]
        if past:
            late = past[len(past) // 2 :]
            mean = sum(one.totals[0] for one in late) / sum(one.rows for one in late)
            p_value = worse(self.task, past, window)
            again = self.windows[-1].fired
            window = replace(window, past_error=mean, p_value=p_value, fired=p_value <= self.level and not again)
            if p_value <= self.level:
                self._since = len(self.windows)
        self.windows.append(window)


def worse(task: Task, past: list[Window], window: Window) -> float:
    """The chance of errors as large as the window's if nothing has changed since the later half of the past, at most.

    past : at least one window, the latest last; learner and experts are tested apart (Bonferroni)
    """
    first = 1 if task == "regression" else 0  # one row may make a learner's own squared error
    late = past[len(past) // 2 :]
    totals = np.array([one.totals[first:] for one in late])
    rows = np.array([one.rows for one in late], dtype=np.float64)
    here = np.array(window.totals[first:])
    errors = totals.sum(axis=0)
    finite = np.isfinite(errors) & np.isfinite(here)
    if not finite.any():
        return 1.0
    tested = np.flatnonzero(finite & (errors <= CLOSE * errors[finite].min()))
    return min(1.0, len(tested) * min(_chance(task, totals[:, k], rows, here[k], window.rows) for k in tested))


def _chance(task: Task, totals: Doubles, rows: Doubles, here: float, here_rows: int) -> float:
    """Of one series of losses."""
    if task == "regression":
        return _by_spread(totals / rows, here / here_rows) if len(totals) >= FEWEST_SPREAD else 1.0
    chance = _by_mistakes(float(totals.sum()), float(rows.sum()), here, here_rows)
    excess = _excess_spread(totals, rows) if len(totals) >= FEWEST_SPREAD else 1.0
    return float(stats.norm.sf(stats.norm.isf(chance) / math.sqrt(excess))) if excess > 1.0 and chance > 0.0 else chance


def _excess_spread(totals: Doubles, rows: Doubles) -> float:
    """How many times the variance of chance alone the rates of windows one after the other vary, at least 1."""
    rate = totals.sum() / rows.sum()
    by_chance = rate * (1.0 - rate) * (1.0 / rows[1:] + 1.0 / rows[:-1])
    return max(1.0, float((np.square(np.diff(totals / rows)) / by_chance).mean())) if 0.0 < rate < 1.0 else 1.0


def _by_mistakes(mistakes: float, rows: float, here: float, here_rows: int) -> float:
    """Fisher's exact test, one-sided."""
    found = round(here)
    return float(stats.hypergeom.sf(found - 1, round(rows) + here_rows, round(mistakes) + found, here_rows))


def _by_spread(errors: Doubles, here: float) -> float:
    """Student's test of a window's error against the mean of those before it."""
    variance = float(np.square(np.diff(errors)).mean()) / 2.0
    behind = here - float(errors.mean())
    if variance == 0.0:
        return 1.0 if behind <= 0.0 else 0.0
    deviation = math.sqrt(variance * (1.0 + 1.0 / len(errors)))
    return float(stats.t.sf(behind / deviation, EFFICIENCY * (len(errors) - 1)))
