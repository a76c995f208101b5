"""Whether rows have changed: the mistakes in each window of a stream beside those in the windows before it.

Of mistakes in two stretches at one rate, those in the later are hypergeometric: a window fires if they are more than
chance explains (Fisher's exact test, one-sided). Whose mistakes depends on who learns.

A tracker keeps the models of the ends of the last few windows, and learns on beside them. Such a model has seen neither
the window nor those between, so that if nothing changes its mistakes in them are as many by chance; if something does,
it cannot follow. Each of those that were kept since the last signal, with a window at least between, is tested, at its
share of the level. This holds for any distribution of the rows, for several classes as for a regression, where a
mistake is to miss a row by more than a limit that was set beforehand.

Any other learner has its own mistakes only: each prediction made before its row was learnt, beside the later half of
the windows since the last signal. A learner that still improves leaves them better, not worse. Where windows vary among
themselves by more than chance alone, by the mean square of successive differences, which a slow trend does not inflate,
the deviation is taken in units of theirs. Its squared errors, of whatever distribution, are not tested.

Where nothing changes, each window fires with a chance of `level` at most: were they independent, more than one in a
hundred windows with a chance below 0.5%.

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


@dataclass(frozen=True)
class Window:
    """Some hundreds of rows, one after the other, and how they were predicted before they were learnt.

    first_row : from 0; rows : how many
    total : mistakes, or the sum of squared errors, of the learner; baseline_total : of the majority or mean so far
    kept_wrong : of each model that a tracker kept before it, the latest last: rows that it is wrong on
    verdict : what the test said
    """

    first_row: int
    rows: int
    total: float
    baseline_total: float
    kept_wrong: tuple[int, ...] = ()
    verdict: Verdict | None = None

    @property
    def error(self) -> float:
        """Mistake rate or mean squared error of the learner."""
        return self.total / self.rows

    @property
    def fired(self) -> bool:
        """Whether rows have changed, as far as the test tells."""
        return self.verdict is not None and self.verdict.fired


@dataclass(frozen=True)
class Verdict:
    """The chance of so many mistakes if nothing has changed, at most, and whose they are.

    rate, past_rate : mistakes a row in the window and before, of the learner, or of the kept model that differs most
    fired : whether the chance is no more than the level
    """

    p_value: float
    rate: float
    past_rate: float
    fired: bool = False


@dataclass
class DriftWatch:
    """Cuts a stream into windows, and tests each; fewer rows than half a window at the end belong to none.

    task : of the learner; window_rows : at least, of a window; level : of the test, a window
    """

    task: Task
    window_rows: int
    level: float = LEVEL
    windows: list[Window] = field(default_factory=list)
    _done: int = 0
    _total: float = 0.0
    _baseline: float = 0.0
    _since: int = 0

    def add(self, standing: Standing) -> bool:
        """Note where the learner stands; whether a window ends here, where window_rows rows at least have gone by."""
        grown = standing.done_rows - self._done
        last = standing.done_rows == standing.total_rows
        if grown < (self.window_rows / 2 if last else self.window_rows):
            return False
        total, baseline = standing.error * standing.done_rows, standing.baseline_error * standing.done_rows
        window = Window(self._done, grown, total - self._total, baseline - self._baseline, standing.kept_wrong)
        self._judge(window)
        self._done, self._total, self._baseline = standing.done_rows, total, baseline
        return True

    def as_json(self) -> dict[str, Any]:
        """The entries "windows" and, if they are tested, "drift" of a run's result."""
        points = [[one.first_row, one.rows, one.error, one.baseline_total / one.rows] for one in self.windows]
        signals = [
            {
                "first_row": one.first_row,
                "last_row": one.first_row + one.rows - 1,
                "rate": one.verdict.rate,
                "past_rate": one.verdict.past_rate,
                "p_value": one.verdict.p_value,
            }
            for one in self.windows
            if one.verdict is not None and one.verdict.fired
        ]
        windows = {"rows": self.window_rows, "points": points}
        of_kept = any(one.kept_wrong for one in self.windows)
        if self.task == "regression" and not of_kept:
            return {"windows": windows}
        drift = {"signals": signals, "level": self.level, "windows": len(self.windows), "of_kept_models": of_kept}
        return {"windows": windows, "drift": drift}

    def _judge(self, window: Window) -> None:
        verdict = judge(self.task, self.windows[self._since :], window)
        if verdict is not None and verdict.p_value <= self.level:
            # a window right after one that fired tells of the same change
            again = self.windows[-1].fired
            verdict = replace(verdict, fired=not again)
            self._since = len(self.windows)
        self.windows.append(replace(window, verdict=verdict))


def judge(task: Task, past: list[Window], window: Window) -> Verdict | None:
    """Test a window; not yet fired, and None where there is nothing to compare it with.

    past : the windows since the last signal, the one that fired the first
    """
    if window.kept_wrong:
        return _of_kept(past, window)
    return _of_learner(past[len(past) // 2 :], window) if past and task != "regression" else None


def _of_kept(past: list[Window], window: Window) -> Verdict | None:
    """Of the models that were kept since the first of the past windows ended, the one that differs most."""
    verdicts = []
    for age in range(2, min(len(window.kept_wrong), len(past)) + 1):
        unseen = past[1 - age :]
        wrong = sum(one.kept_wrong[-younger] for younger, one in enumerate(unseen, 1))
        verdicts.append(fishers(wrong, sum(one.rows for one in unseen), window.kept_wrong[-age], window.rows))
    if not verdicts:
        return None
    clearest = min(verdicts, key=lambda one: one.p_value)
    return replace(clearest, p_value=min(1.0, len(verdicts) * clearest.p_value))  # Bonferroni


def _of_learner(late: list[Window], window: Window) -> Verdict:
    """Of the learner itself, beside late windows."""
    totals, rows = np.array([one.total for one in late]), np.array([float(one.rows) for one in late])
    verdict = fishers(round(totals.sum()), int(rows.sum()), round(window.total), window.rows)
    excess = excess_spread(totals, rows) if len(late) >= FEWEST_SPREAD else 1.0
    if excess == 1.0 or verdict.p_value == 0.0:
        return verdict
    deviation = float(stats.norm.isf(verdict.p_value)) / math.sqrt(excess)
    return replace(verdict, p_value=float(stats.norm.sf(deviation)))


def excess_spread(totals: Doubles, rows: Doubles) -> float:
    """How many times the variance of chance alone the rates of windows one after the other vary, at least 1."""
    rate = float(totals.sum() / rows.sum())
    by_chance = rate * (1.0 - rate) * (1.0 / rows[1:] + 1.0 / rows[:-1])
    return max(1.0, float((np.square(np.diff(totals / rows)) / by_chance).mean())) if 0.0 < rate < 1.0 else 1.0


def fishers(past_wrong: int, past_rows: int, wrong: int, rows: int) -> Verdict:
    """Fisher's exact test that mistakes are more than before, one-sided; not yet fired."""
    p_value = stats.hypergeom.sf(wrong - 1, past_rows + rows, past_wrong + wrong, rows)
    return Verdict(float(p_value), wrong / rows, past_wrong / past_rows)
