"""Classification and regression metrics from mergeable counts.

`measure` turns a block of scores and targets into a `Tally`, `merge` adds tallies up, `Tally.report` gives the metrics.
Counts add up exactly; sums of regression are float64, added in the order given (shard order): the same order gives the
same bits, and another cut into blocks differs by rounding only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.foundation.errors import DataError, DivergedError
from okl.foundation.types import FloatArray, IntArray, Task
from okl.metrics.base import CLASSES, metric, metrics
from okl.metrics.calibration import lead_counts, reliability
from okl.metrics.ranking import MOST_KEYS, KeyedCounts, count_values, merge_counts
from okl.metrics.residuals import GRID_CELLS, Residuals, measure_residuals, merge_residuals

MOST_PARTS = 1
"""Parts of a split that merge_named holds in addition to a new one: each may count 2^18 scores; four were no faster."""

MOST_WAITING = 5 * MOST_KEYS
"""Cells (8 bytes) that merge holds before it adds up: a full ranking takes three million; about 100 MB at the peak."""


@dataclass(frozen=True, eq=False)
class Tally:
    """Mergeable counts from which the metrics of a set of rows are computed; picklable, never written into.

    confusion : (K, K) int64, rows of true class i predicted as class j; None for regression
    ranking : rows by score, columns (negative, positive); None unless the task is binary
    leads : rows by the lead of their best score, columns (wrong, right); None unless the task is multiclass
    residuals : sums and counts of residuals; None unless the task is regression
    """

    task: Task
    confusion: NDArray[np.int64] | None = None
    ranking: KeyedCounts | None = None
    leads: KeyedCounts | None = None
    residuals: Residuals | None = None

    @property
    def rows(self) -> int:
        """Return rows measured."""
        if self.residuals is not None:
            return self.residuals.rows
        return 0 if self.confusion is None else int(self.confusion.sum())

    def report(self) -> dict[str, Any]:
        """Return metrics by name, ready for JSON; None for what these rows do not define (one class only, no rows).

        The metrics of the task, and for classes confusion (K x K) and reliability; for a regression residual_histogram,
        and predicted_vs_true if requested.
        """
        report: dict[str, Any] = {
            name: known.value(self) for name, known in metrics().items() if self.task in known.tasks
        }
        if self.residuals is not None:
            return report | self.residuals.pictures()
        assert self.confusion is not None
        report |= {"confusion": self.confusion.tolist()}
        counts, of = (self.leads, "lead") if self.ranking is None else (self.ranking, "score")
        return report if counts is None else report | {"reliability": reliability(counts, of)}

    @property
    def table(self) -> NDArray[np.int64]:
        """Return the confusion matrix of a classification."""
        assert self.confusion is not None, "a metric of classes is for classifications"
        return self.confusion


def measure(
    task: Task,
    scores: FloatArray,
    targets: FloatArray,
    n_classes: int = 2,
    target_range: tuple[float, float] | None = None,
) -> Tally:
    """Measure a block of rows.

    Parameters
    ----------
    scores : (rows,), or (rows, n_classes) for several classes; before the link. For regression in the target's units
    targets : (rows,): -1 or +1 (binary), class indices (multiclass), the target itself, unscaled (regression)
    n_classes : classes of a multiclass task
    target_range : lowest and highest target to count in the picture of predicted against true; None: no such picture

    Returns
    -------
    Tally of these rows

    Raises
    ------
    DivergedError : a score is NaN or infinite
    DataError : a target is not one of the classes
    """
    if not np.isfinite(scores).all():
        raise DivergedError("Scores are NaN or infinite: the model has diverged. Use a smaller step size.")
    if task == "regression":
        return Tally(task, residuals=measure_residuals(scores, targets, target_range))
    if task == "multiclass":
        predicted = predicted_classes(scores)
        leads = lead_counts(scores, predicted == np.asarray(targets))
        return Tally(task, confusion=_confusion(targets, predicted, n_classes), leads=leads)
    true = np.asarray(targets) > 0
    ranking = count_values(scores, true.astype(np.int64), 2)
    return Tally(task, confusion=_confusion(true, predicted_classes(scores), 2), ranking=ranking)


def predicted_classes(scores: FloatArray) -> IntArray:
    """Return class index of each row: the first best of several scores; of one score, 1 from 0 upward and 0 below."""
    if scores.ndim == 2:
        best: IntArray = np.argmax(scores, axis=1)
        return best
    return (scores >= 0).astype(np.int64)


def merge(tallies: Iterable[Tally]) -> Tally:
    """Add tallies of one task up, in the order given; they are taken one by one, so a generator costs little memory.

    Raises
    ------
    ValueError : there are no tallies
    """
    waiting: list[Tally] = []
    cells = 0
    for tally in tallies:
        waiting.append(tally)
        cells += _cells(tally)
        if cells > MOST_WAITING:  # seldom: a key is sorted a few times at most, however small the blocks are
            waiting = [_sum(waiting)]
            cells = _cells(waiting[0])
    if not waiting:
        raise ValueError("merge requires at least one tally, but got none.")
    return _sum(waiting)


def merge_named(parts: Iterable[Mapping[str, Tally]]) -> dict[str, Tally]:
    """Add tallies up by name, in the order given; a few parts at a time, so that many of them cost little memory.

    Raises
    ------
    ValueError : there are no parts
    """
    waiting: dict[str, list[Tally]] = {}
    for part in parts:
        for name, tally in part.items():
            waiting.setdefault(name, []).append(tally)
            if len(waiting[name]) > MOST_PARTS:
                waiting[name] = [merge(waiting[name])]
    if not waiting:
        raise ValueError("merge_named requires at least one part, but got none.")
    return {name: merge(tallies) for name, tallies in waiting.items()}


def _sum(tallies: list[Tally]) -> Tally:
    if len(tallies) == 1:
        return tallies[0]
    confusions = [tally.confusion for tally in tallies if tally.confusion is not None]
    rankings = [tally.ranking for tally in tallies if tally.ranking is not None]
    leads = [tally.leads for tally in tallies if tally.leads is not None]
    residuals = [tally.residuals for tally in tallies if tally.residuals is not None]
    return Tally(
        tallies[0].task,
        confusion=reduce(np.add, confusions) if confusions else None,
        ranking=merge_counts(rankings) if rankings else None,
        leads=merge_counts(leads) if leads else None,
        residuals=merge_residuals(residuals) if residuals else None,
    )


def _cells(tally: Tally) -> int:
    residuals = None if tally.residuals is None else tally.residuals.counts
    counts = [tally.ranking, tally.leads, residuals]
    n_counts = sum(3 * len(part.keys) for part in counts if part is not None)
    return n_counts + (tally.confusion.size if tally.confusion is not None else GRID_CELLS**2)


def _confusion(true: NDArray[Any], predicted: IntArray, n_classes: int) -> NDArray[np.int64]:
    classes = np.asarray(true).astype(np.int64)
    if len(classes) and not (classes.min() >= 0 and classes.max() < n_classes):
        raise DataError(
            f"Class indices run from {classes.min()} to {classes.max()}, but there are {n_classes} classes."
        )
    cells = np.bincount(classes * n_classes + predicted, minlength=n_classes**2)
    return cells.reshape(n_classes, n_classes).astype(np.int64)


# Metrics of classes.


@metric("Accuracy", *CLASSES)
def accuracy(tally: Tally) -> float | None:
    """Return the share of rows whose class is predicted."""
    return int(tally.table.diagonal().sum()) / tally.rows if tally.rows else None


@metric("Mistake rate", *CLASSES)
def mistake_rate(tally: Tally) -> float | None:
    """Return the share of rows whose class is not predicted."""
    return (tally.rows - int(tally.table.diagonal().sum())) / tally.rows if tally.rows else None


@metric("Balanced accuracy", *CLASSES, main=True)
def balanced_accuracy(tally: Tally) -> float | None:
    """Return the mean recall of the classes among the targets."""
    hits, of_class = tally.table.diagonal(), tally.table.sum(axis=1)
    present = of_class > 0
    return math.fsum(hits[present] / of_class[present]) / int(present.sum()) if tally.rows else None


@metric("Macro F1", "multiclass", main=True)
def macro_f1(tally: Tally) -> float | None:
    """Return the mean of 2 hits / (rows of the class + rows predicted as it) over classes among either."""
    named = tally.table.sum(axis=1) + tally.table.sum(axis=0)
    present = named > 0
    if not present.any():
        return None
    return math.fsum(2.0 * tally.table.diagonal()[present] / named[present]) / int(present.sum())
