"""Classification and regression metrics from mergeable counts.

`measure` turns a block of scores and targets into a `Tally`, `merge` adds tallies up, `Tally.report` gives the metrics.
Counts add up exactly; sums of regression are float64, added in the order given (shard order): the same order gives the
same bits, and another cut into blocks differs by rounding only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial, reduce
from typing import Any, NamedTuple

import numpy as np

from okl.foundation.catalogue import METRICS, load
from okl.foundation.errors import DataError, DivergedError
from okl.foundation.types import Doubles, FloatArray, IntArray, Integers, Task
from okl.metrics.calibration import lead_counts, log_losses, reliability
from okl.metrics.ranking import (
    MOST_KEYS,
    KeyedCounts,
    average_precision,
    count_values,
    merge_counts,
    roc_auc,
    threshold_points,
    values_of,
)

# Residuals of a regression as mergeable sums

DROPPED_BITS = 17
"""Low bits to drop: sign, exponent and 6 bits remain, in at most 2^15 bins; a bin is 1/64 to 1/128 of its residuals."""

HISTOGRAM_BINS = 40
SHARE_SHOWN = 0.99
SHARES_STATED = (0.5, 0.9)
GRID_CELLS = 40


@dataclass(frozen=True, eq=False)
class Residuals:
    """Sums and counts of predicted minus true, in the target's units.

    residual_sum, squared_sum, absolute_sum : over rows
    target_mean, target_squares : mean of the targets, and sum of their squared distances from it
    negative, negative_targets : predictions and targets below 0
    counts : rows by residual, in bins that grow with its size; one column
    grid : (GRID_CELLS, GRID_CELLS) int64, rows by (true, predicted) over target_range, ends included; or None
    """

    rows: int
    residual_sum: float
    squared_sum: float
    absolute_sum: float
    target_mean: float
    target_squares: float
    negative: int
    negative_targets: int
    counts: KeyedCounts
    target_range: tuple[float, float] | None = None
    grid: Integers | None = None

    def pictures(self) -> dict[str, Any]:
        """Return what figures and warnings of the residuals take, ready for JSON."""
        drawn: dict[str, Any] = {"residual_histogram": self.histogram()}
        if self.rows:
            error = _mean_and_error(self.residual_sum, self.squared_sum, self.rows)
            drawn["bias"] = error | {"target_mean": finite_or_none(self.target_mean)}
        if self.negative and not self.negative_targets:  # only targets of any sign have predictions of any sign
            drawn["negative_predictions"] = self.negative
        if self.grid is not None and self.target_range is not None:
            drawn["predicted_vs_true"] = {"range": list(self.target_range), "counts": self.grid.tolist()}
        return drawn

    def histogram(self) -> dict[str, list[Any]]:
        """Return evenly spaced edges (HISTOGRAM_BINS + 1) about 0, and counts between them, below and above them.

        The edges hold at least SHARE_SHOWN of the rows. Counts sum to the rows; a row is out of place by less than 1/64
        of its residual. absolute_quantiles : [share, bound] for SHARES_STATED; the absolute residual is at most the
        bound on this share of the rows, and the quantile is less than 1/64 below the bound.
        """
        if self.rows == 0:
            return {"edges": [], "counts": [], "absolute_quantiles": []}
        keys, counts = self.counts.keys.astype(np.int64), self.counts.counts[:, 0]
        low, high = values_of(keys), values_of(keys + (1 << DROPPED_BITS) - 1)
        reach = np.maximum(np.abs(low), np.abs(high))
        order = np.argsort(reach, kind="stable")
        enough = np.searchsorted(np.cumsum(counts[order]), np.ceil(self.rows * np.array([*SHARES_STATED, SHARE_SHOWN])))
        # residuals of exactly 0 lie in the bin of the smallest floats, whose reach is next to nothing
        *bounds, limit = np.where(reach > 1e-38, reach, 0.0)[order][enough].tolist()
        edges = np.linspace(-1.0, 1.0, HISTOGRAM_BINS + 1) * (limit or 1.0)
        share_below = np.clip((edges[:, None] - low) / np.maximum(high - low, 1e-45), 0.0, 1.0)
        below = np.rint(share_below @ counts).astype(np.int64)
        inner = np.diff(below, prepend=0, append=self.rows)
        stated = [list(pair) for pair in zip(SHARES_STATED, bounds, strict=True)]
        return {"edges": edges.tolist(), "counts": inner.tolist(), "absolute_quantiles": stated}

    def per_row(self, total: float) -> float | None:
        """Return a sum divided by the rows; None without rows, or if it is not finite."""
        return finite_or_none(total / self.rows if self.rows else math.inf)


def measure_residuals(
    scores: FloatArray, targets: FloatArray, target_range: tuple[float, float] | None = None
) -> Residuals:
    """Return residuals of a block: scores and targets (rows,), both in the target's units."""
    predicted, true = np.asarray(scores, dtype=np.float64), np.asarray(targets, dtype=np.float64)
    residual = predicted - true
    mean = float(true.mean()) if len(true) else 0.0
    with np.errstate(over="ignore"):  # a square beyond float64 is reported as None
        squared_sum = float(np.sum(residual**2))
        squares = float(np.sum((true - mean) ** 2))
    return Residuals(
        rows=len(true),
        residual_sum=float(np.sum(residual)),
        squared_sum=squared_sum,
        absolute_sum=float(np.sum(np.abs(residual))),
        target_mean=mean,
        target_squares=squares,
        negative=int(np.sum(predicted < 0.0)),
        negative_targets=int(np.sum(true < 0.0)),
        counts=count_values(residual, np.zeros(len(true), dtype=np.int64), 1, DROPPED_BITS),
        target_range=target_range,
        grid=None if target_range is None else _grid(true, predicted, target_range),
    )


def merge_residuals(parts: Sequence[Residuals]) -> Residuals:
    """Add residuals up in the order given; the pictures of one range only."""
    counts = merge_counts([part.counts for part in parts])
    grids = [part.grid for part in parts if part.grid is not None]
    return replace(reduce(_pair, parts), counts=counts, grid=reduce(np.add, grids) if grids else None)


def _pair(a: Residuals, b: Residuals) -> Residuals:
    """Return the merged sums of two parts. Source: Chan, Golub & LeVeque, Stanford STAN-CS-79-773, equation 2.1."""
    rows = a.rows + b.rows
    share = b.rows / rows if rows else 0.0
    apart = b.target_mean - a.target_mean
    return replace(
        a,
        rows=rows,
        residual_sum=a.residual_sum + b.residual_sum,
        squared_sum=a.squared_sum + b.squared_sum,
        absolute_sum=a.absolute_sum + b.absolute_sum,
        target_mean=a.target_mean + apart * share,
        negative=a.negative + b.negative,
        negative_targets=a.negative_targets + b.negative_targets,
        target_squares=a.target_squares + b.target_squares + apart**2 * a.rows * share,
    )


def _grid(true: FloatArray, predicted: FloatArray, target_range: tuple[float, float]) -> Integers:
    """Return rows by cell of (true, predicted); what lies outside the range counts in the cells at its ends."""
    low, high = target_range
    per_unit = GRID_CELLS / (high - low) if high > low else 0.0
    cells = [np.clip((values - low) * per_unit, 0, GRID_CELLS - 1).astype(np.int64) for values in (true, predicted)]
    counts = np.bincount(cells[0] * GRID_CELLS + cells[1], minlength=GRID_CELLS**2)
    return counts.reshape(GRID_CELLS, GRID_CELLS).astype(np.int64)


# Tallies: all counts of a set of rows

MOST_WAITING = 5 * MOST_KEYS
"""Cells (8 bytes) that merge holds before it adds up: a full ranking takes three million; about 100 MB at the peak."""


MOST_LARGEST = 10
"""Rows of largest loss that a tally holds."""


class LargestLosses(NamedTuple):
    """Largest losses of rows, in descending order; of equal losses, the one that was counted first.

    losses : (k,), k <= MOST_LARGEST
    shards : (k,), index of the shard of each row; rows : (k,), position of the row in it
    """

    losses: Doubles
    shards: Integers
    rows: Integers


def largest_losses(losses: FloatArray, shard: int, first: int) -> LargestLosses:
    """Return the largest of the losses (rows,) of consecutive rows of a shard (index), from position `first` on."""
    order = np.argsort(-losses, kind="stable")[:MOST_LARGEST]
    return LargestLosses(np.asarray(losses[order], dtype=np.float64), np.full(len(order), shard), first + order)


def _largest(parts: list[LargestLosses]) -> LargestLosses:
    losses, shards, rows = (np.concatenate(values) for values in zip(*parts, strict=True))
    order = np.argsort(-losses, kind="stable")[:MOST_LARGEST]
    return LargestLosses(losses[order], shards[order], rows[order])


@dataclass(frozen=True, eq=False)
class Tally:
    """Mergeable counts from which the metrics of a set of rows are computed; picklable, never written into.

    confusion : (K, K) int64, rows of true class i predicted as class j; None for regression
    ranking : rows by score, columns (negative, positive); None unless the task is binary
    leads : rows by the lead of their best score, columns (wrong, right); None unless the task is multiclass
    log_loss : sum of the log losses; None for scores without probabilities. With it, `ranking` is by log-odds
    residuals : sums and counts of residuals; None unless the task is regression
    excess : by metric, sums of the loss of each row less that of a reference predictor, and of the squares of these
    largest : the rows of largest loss, if these were noted; or None
    """

    task: Task
    confusion: Integers | None = None
    ranking: KeyedCounts | None = None
    leads: KeyedCounts | None = None
    log_loss: float | None = None
    residuals: Residuals | None = None
    excess: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    largest: LargestLosses | None = None

    @property
    def rows(self) -> int:
        if self.residuals is not None:
            return self.residuals.rows
        return 0 if self.confusion is None else int(self.confusion.sum())

    def report(self) -> dict[str, Any]:
        """Return metrics by name, ready for JSON; None for what these rows do not define (one class only, no rows).

        The metrics of the task, and for classes confusion (K x K), reliability and, for two, thresholds; for a
        regression residual_histogram, bias (mean and standard_error of the residuals, target_mean), and
        predicted_vs_true if requested; excess (by metric, mean and standard_error of the loss less that of a
        reference), if it was compared with one.
        """
        report: dict[str, Any] = {name: known.value(self) for name, known in metrics().items() if known.applies(self)}
        if self.excess and self.rows:
            report |= {"excess": {name: _mean_and_error(*sums, self.rows) for name, sums in self.excess.items()}}
        if self.residuals is not None:
            return report | self.residuals.pictures()
        assert self.confusion is not None
        report |= {"confusion": self.confusion.tolist()}
        if self.ranking is not None:
            of = "score" if self.log_loss is None else "log-odds"
            return report | {"reliability": reliability(self.ranking, of), "thresholds": threshold_points(self.ranking)}
        return report if self.leads is None else report | {"reliability": reliability(self.leads, "lead")}

    @property
    def table(self) -> Integers:
        assert self.confusion is not None, "a metric of classes is for classifications"
        return self.confusion

    @property
    def sums(self) -> Residuals:
        assert self.residuals is not None, "a metric of residuals is for regressions"
        return self.residuals


def measure(
    task: Task,
    scores: FloatArray,
    targets: FloatArray,
    n_classes: int = 2,
    target_range: tuple[float, float] | None = None,
    logits: FloatArray | None = None,
) -> Tally:
    """Measure a block of rows.

    scores : (rows,), or (rows, n_classes) for several classes; before the link. For regression in the target's units
    targets : (rows,): -1 or +1 (binary), class indices (multiclass), the target itself, unscaled (regression)
    n_classes : classes of a multiclass task
    target_range : lowest and highest target to count in the picture of predicted against true; None: no such picture
    logits : of the shape of the scores, log-odds of two classes or logits of several; None without probabilities
    Returns Tally of these rows
    Raises DivergedError : a score is NaN or infinite
    Raises DataError : a target is not one of the classes
    """
    if not np.isfinite(scores).all():
        raise DivergedError("Scores are NaN or infinite: the model has diverged. Use a smaller step size.")
    if task == "regression":
        return Tally(task, residuals=measure_residuals(scores, targets, target_range))
    predicted = predicted_classes(scores)
    if task == "multiclass":
        true = np.asarray(targets).astype(np.int64)
        counts: dict[str, Any] = {"leads": lead_counts(scores, predicted == np.asarray(targets))}
    else:
        true, n_classes = (np.asarray(targets) > 0).astype(np.int64), 2
        counts = {"ranking": count_values(scores if logits is None else logits, true, 2)}
    confusion = _confusion(true, predicted, n_classes)
    log_loss = None if logits is None else float(log_losses(logits, true).sum())
    return Tally(task, confusion=confusion, log_loss=log_loss, **counts)


def predicted_classes(scores: FloatArray) -> IntArray:
    """Return class index of each row: the first best of several scores; of one score, 1 from 0 upward and 0 below."""
    if scores.ndim == 2:
        best: IntArray = np.argmax(scores, axis=1)
        return best
    return (scores >= 0).astype(np.int64)


def merge(tallies: Iterable[Tally]) -> Tally:
    """Add tallies of one task up, one by one in the order given; ValueError without any."""
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
    """Add tallies up by name, one part after the other in the order given; ValueError without any."""
    totals: dict[str, Tally] = {}
    for part in parts:
        for name, tally in part.items():
            totals[name] = merge([totals[name], tally]) if name in totals else tally
    if not totals:
        raise ValueError("merge_named requires at least one part, but got none.")
    return totals


def _sum(tallies: list[Tally]) -> Tally:
    if len(tallies) == 1:
        return tallies[0]

    def total(name: str, add: Callable[[list[Any]], Any]) -> Any:
        parts = [part for tally in tallies if (part := getattr(tally, name)) is not None]
        return add(parts) if parts else None

    excesses = [tally.excess for tally in tallies]
    return Tally(
        tallies[0].task,
        confusion=total("confusion", partial(reduce, np.add)),
        ranking=total("ranking", merge_counts),
        leads=total("leads", merge_counts),
        log_loss=total("log_loss", lambda losses: sum(losses[1:], losses[0])),
        residuals=total("residuals", merge_residuals),
        excess={
            name: (sum(one[name][0] for one in excesses), sum(one[name][1] for one in excesses))
            for name in excesses[0]
            if all(name in one for one in excesses)
        },
        largest=total("largest", _largest),
    )


def _mean_and_error(total: float, squares: float, rows: int) -> dict[str, float | None]:
    mean = total / rows
    error = math.sqrt(max(0.0, squares / rows - mean * mean) / rows) if math.isfinite(squares) else math.inf
    return {"mean": finite_or_none(mean), "standard_error": finite_or_none(error)}


def finite_or_none(value: float) -> float | None:
    """Return a number as JSON has it: None for NaN and infinity."""
    return value if math.isfinite(value) else None


def _cells(tally: Tally) -> int:
    residuals = None if tally.residuals is None else tally.residuals.counts
    counts = [tally.ranking, tally.leads, residuals]
    n_counts = sum(3 * len(part.keys) for part in counts if part is not None)
    return n_counts + (tally.confusion.size if tally.confusion is not None else GRID_CELLS**2)


def _confusion(classes: IntArray, predicted: IntArray, n_classes: int) -> Integers:
    if len(classes) and not (classes.min() >= 0 and classes.max() < n_classes):
        raise DataError(
            f"Class indices run from {classes.min()} to {classes.max()}, but there are {n_classes} classes."
        )
    cells = np.bincount(classes * n_classes + predicted, minlength=n_classes**2)
    return cells.reshape(n_classes, n_classes).astype(np.int64)


# Metrics by name: single numbers of a tally.


@dataclass(frozen=True)
class Metric:
    """A number of the rows that a tally counts.

    title : in reports; tasks : that it is defined for
    value : of a tally of one of these tasks; None where its rows do not define the number
    main : whether it is among the first numbers of a report
    needs : field of the tally without which the metric is left out
    """

    title: str
    tasks: tuple[Task, ...]
    value: Callable[[Tally], float | None]
    main: bool = False
    needs: str = ""

    def applies(self, tally: Tally) -> bool:
        return tally.task in self.tasks and (not self.needs or getattr(tally, self.needs) is not None)


CLASSES: tuple[Task, ...] = ("binary", "multiclass")


def metric(
    title: str, *tasks: Task, main: bool = False, needs: str = ""
) -> Callable[[Callable[[Tally], float | None]], Metric]:
    """Return a decorator that makes a function of a tally a metric; see `Metric`."""
    return lambda value: Metric(title, tasks, value, main, needs)


@cache
def metrics() -> dict[str, Metric]:
    """Return the metrics of `okl.foundation.catalogue` by name."""
    return {name: load(path) for name, path in METRICS.items()}


@metric("Accuracy", *CLASSES, main=True)
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


@metric("Log loss", *CLASSES, main=True, needs="log_loss")
def log_loss(tally: Tally) -> float | None:
    """Return the mean of -log of the probability of the true class."""
    return None if tally.log_loss is None or not tally.rows else tally.log_loss / tally.rows


@metric("Macro F1", "multiclass", main=True)
def macro_f1(tally: Tally) -> float | None:
    """Return the mean of 2 hits / (rows of the class + rows predicted as it) over classes among either."""
    named = tally.table.sum(axis=1) + tally.table.sum(axis=0)
    present = named > 0
    if not present.any():
        return None
    return math.fsum(2.0 * tally.table.diagonal()[present] / named[present]) / int(present.sum())


@metric("ROC AUC", "binary", main=True)
def area_under_roc(tally: Tally) -> float | None:
    """Return the area under the ROC curve."""
    return None if tally.ranking is None else roc_auc(tally.ranking)


@metric("Average precision", "binary", main=True)
def mean_precision(tally: Tally) -> float | None:
    """Return the average precision."""
    return None if tally.ranking is None else average_precision(tally.ranking)


def _mean_square(tally: Tally) -> float | None:
    return tally.sums.per_row(tally.sums.squared_sum)


# the same number of a tally; a run reports the first in units of the scaled target
squared_loss = metric("Squared loss", "regression")(_mean_square)
mean_square = metric("Mean squared error", "regression")(_mean_square)


@metric("Root mean squared error", "regression")
def root_mean_square(tally: Tally) -> float | None:
    """Return the root of the mean squared residual, in the unit of the target."""
    mean = _mean_square(tally)
    return None if mean is None else math.sqrt(mean)


@metric("Mean absolute error", "regression", main=True)
def absolute_loss(tally: Tally) -> float | None:
    """Return the mean absolute residual."""
    return tally.sums.per_row(tally.sums.absolute_sum)


@metric("R2", "regression", main=True)
def explained_variance(tally: Tally) -> float | None:
    """Return the share of the variance that is explained; a constant target has none (scikit-learn gives 0 or 1)."""
    sums = tally.sums
    return finite_or_none(1.0 - sums.squared_sum / sums.target_squares if sums.target_squares > 0 else math.inf)
