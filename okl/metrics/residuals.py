"""Residual statistics of a regression as mergeable sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.foundation.types import FloatArray
from okl.metrics.ranking import KeyedCounts, count_values, merge_counts, values_of

DROPPED_BITS = 17
"""Leaves sign, exponent and 6 bits: a bin is 1/64 to 1/128 of the residual in it, at most 2^15 bins over all floats."""

HISTOGRAM_BINS = 40
SHARE_SHOWN = 0.99
GRID_CELLS = 40


@dataclass(frozen=True, eq=False)
class Residuals:
    """Sums and counts of predicted minus true, in the target's units.

    squared_sum, absolute_sum : over rows
    target_mean, target_squares : mean of the targets, and sum of their squared distances from it
    counts : rows by residual, in bins that grow with its size; one column
    grid : (GRID_CELLS, GRID_CELLS) int64, rows by (true, predicted) over target_range, ends included; or None
    """

    rows: int
    squared_sum: float
    absolute_sum: float
    target_mean: float
    target_squares: float
    counts: KeyedCounts
    target_range: tuple[float, float] | None = None
    grid: NDArray[np.int64] | None = None

    def pictures(self) -> dict[str, Any]:
        """Return what figures of the residuals take, ready for JSON."""
        drawn: dict[str, Any] = {"residual_histogram": self.histogram()}
        if self.grid is not None and self.target_range is not None:
            drawn["predicted_vs_true"] = {"range": list(self.target_range), "counts": self.grid.tolist()}
        return drawn

    def histogram(self) -> dict[str, list[Any]]:
        """Return evenly spaced edges (HISTOGRAM_BINS + 1) about 0, and counts between them, below and above them.

        The edges hold at least SHARE_SHOWN of the rows. Counts sum to the rows; a row is out of place by less than 1/64
        of its residual.
        """
        if self.rows == 0:
            return {"edges": [], "counts": []}
        keys, counts = self.counts.keys.astype(np.int64), self.counts.counts[:, 0]
        low, high = values_of(keys), values_of(keys + (1 << DROPPED_BITS) - 1)
        reach = np.maximum(np.abs(low), np.abs(high))
        order = np.argsort(reach, kind="stable")
        enough = int(np.searchsorted(np.cumsum(counts[order]), math.ceil(SHARE_SHOWN * self.rows)))
        limit = float(reach[order][enough])
        # residuals of exactly 0 lie in the bin of the smallest floats, whose reach is next to nothing
        edges = np.linspace(-1.0, 1.0, HISTOGRAM_BINS + 1) * (limit if limit > 1e-30 else 1.0)
        share_below = np.clip((edges[:, None] - low) / np.maximum(high - low, 1e-45), 0.0, 1.0)
        below = np.rint(share_below @ counts).astype(np.int64)
        inner = np.diff(below, prepend=0, append=self.rows)
        return {"edges": edges.tolist(), "counts": inner.tolist()}

    def per_row(self, total: float) -> float | None:
        """Return a sum divided by the rows; None without rows, or if it is not finite."""
        mean = total / self.rows if self.rows else math.inf
        return mean if math.isfinite(mean) else None


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
        squared_sum=squared_sum,
        absolute_sum=float(np.sum(np.abs(residual))),
        target_mean=mean,
        target_squares=squares,
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
        squared_sum=a.squared_sum + b.squared_sum,
        absolute_sum=a.absolute_sum + b.absolute_sum,
        target_mean=a.target_mean + apart * share,
        target_squares=a.target_squares + b.target_squares + apart**2 * a.rows * share,
    )


def _grid(true: FloatArray, predicted: FloatArray, target_range: tuple[float, float]) -> NDArray[np.int64]:
    """Return rows by cell of (true, predicted); what lies outside the range counts in the cells at its ends."""
    low, high = target_range
    per_unit = GRID_CELLS / (high - low) if high > low else 0.0
    cells = [np.clip((values - low) * per_unit, 0, GRID_CELLS - 1).astype(np.int64) for values in (true, predicted)]
    counts = np.bincount(cells[0] * GRID_CELLS + cells[1], minlength=GRID_CELLS**2)
    return counts.reshape(GRID_CELLS, GRID_CELLS).astype(np.int64)
