"""ROC AUC, average precision and score histograms from mergeable counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.foundation.types import Doubles, FloatArray, IntArray, Integers

# Counts of float32 values by a sortable key: ROC AUC, average precision and histograms without holding the values.
#
# The image of a float32 under `keys_of` is a 32-bit integer that sorts as the float does. Counts by key are exact and
# merge exactly. Above `MOST_KEYS` distinct keys, low bits are dropped: as few as the total needs. A part never drops
# more bits than the total does (its keys are among the total's), so the result does not depend on how rows were cut
# into parts or on the order of merging. With b bits dropped, values that differ by less than 2^(b - 23) of their size
# may count as tied: if scores fill both signs of sixteen octaves evenly, 2^18 keys still resolve a relative 2^-13.

MOST_KEYS = 1 << 18
_SIGN = np.uint32(1 << 31)
_LARGEST = float(np.finfo(np.float32).max)


def keys_of(values: FloatArray) -> NDArray[np.uint32]:
    """Return integers (rows,) that sort as the float32 values do; values are clipped to float32, and -0 is 0."""
    inside = np.clip(values, -_LARGEST, _LARGEST).astype(np.float32)
    bits = (inside + np.float32(0)).view(np.uint32)  # -0 + 0 = 0: they are ties
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def values_of(keys: IntArray) -> Doubles:
    """Return the float32 values (rows,) of keys, as float64; larger keys give the largest finite value."""
    bounds = keys_of(np.array([-_LARGEST, _LARGEST]))
    inside = np.clip(keys, int(bounds[0]), int(bounds[1])).astype(np.uint32)
    bits = np.where(inside & _SIGN, inside & ~_SIGN, ~inside)
    return bits.view(np.float32).astype(np.float64)


@dataclass(frozen=True, eq=False)
class KeyedCounts:
    """Rows by the key of their value, in a few columns (for ranking: negative rows, positive rows).

    keys : (n_keys,) uint32, ascending, the low `dropped_bits` all 0
    counts : (n_keys, n_columns) int64, no row of zeros
    dropped_bits : 0 while counts are exact; values that differ by less than 2^(dropped_bits - 23) of their size may tie
    """

    keys: NDArray[np.uint32]
    counts: Integers
    dropped_bits: int = 0


def count_values(values: FloatArray, column: IntArray, n_columns: int, dropped_bits: int = 0) -> KeyedCounts:
    """Count values (rows,) by key and by the column (rows,) that each belongs to."""
    keys, inverse = np.unique(_drop(keys_of(values), dropped_bits), return_inverse=True)
    cells = np.bincount(inverse * n_columns + column, minlength=len(keys) * n_columns)
    return _coarsened(KeyedCounts(keys, cells.reshape(len(keys), n_columns).astype(np.int64), dropped_bits), MOST_KEYS)


def merge_counts(parts: Sequence[KeyedCounts], most_keys: int = MOST_KEYS) -> KeyedCounts:
    """Add up counts of the same columns, at the finest level that all have, coarsened if the total needs it."""
    bits = max(part.dropped_bits for part in parts)
    keys = np.concatenate([_drop(part.keys, bits) for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    return _coarsened(_sorted_sum(keys, counts, bits), most_keys)


def roc_auc(ranking: KeyedCounts) -> float | None:
    """Return the chance that a positive row scores above a negative one, ties counting 1/2; None without either.

    ranking has the columns (negative, positive). Equal to the area under the trapezoids of the ROC curve.
    Source: Hanley & McNeil, Radiology 143, 1982.
    """
    negative, positive = ranking.counts.astype(np.float64).T
    pairs = negative.sum() * positive.sum()
    if pairs == 0:
        return None
    below = np.cumsum(negative) - negative
    return float(np.sum(positive * (below + 0.5 * negative)) / pairs)


def average_precision(ranking: KeyedCounts) -> float | None:
    """Return the sum over thresholds of (gain in recall) x precision, not interpolated; None if one kind is missing.

    Source: Zhu, Recall, Precision and Average Precision, 2004; the definition scikit-learn uses.
    """
    negative, positive = ranking.counts[::-1].astype(np.float64).T  # from the highest score down
    if negative.sum() == 0 or positive.sum() == 0:
        return None
    hits = np.cumsum(positive)
    precision = hits / (hits + np.cumsum(negative))
    return float(np.sum(positive * precision) / hits[-1])


MOST_POINTS = 64


def threshold_points(ranking: KeyedCounts) -> dict[str, Any]:
    """Return rows and hits from thresholds on, as JSON: the ROC and precision-recall curves at some of their points.

    ranking has the columns (negative, positive).

    Returns rows and positive rows, and points [threshold, rows from it on, positive rows from it on], from the highest
        score down: all thresholds if they are few, otherwise about evenly spread over the positive and over the
        negative rows.
    """
    negative, positive = ranking.counts[::-1].T
    false, hits = np.cumsum(negative), np.cumsum(positive)
    chosen = np.arange(len(false))
    if len(chosen) > MOST_POINTS:
        shares = np.linspace(0.0, 1.0, MOST_POINTS // 2 + 1)
        found = [np.searchsorted(counts, np.ceil(shares * counts[-1])) for counts in (false, hits)]
        chosen = np.unique(np.concatenate(found))
        chosen = chosen[chosen < len(false)]
    thresholds = values_of(ranking.keys.astype(np.int64))[::-1]
    points = zip(thresholds[chosen].tolist(), (false + hits)[chosen].tolist(), hits[chosen].tolist(), strict=True)
    return {
        "rows": int(ranking.counts.sum()),
        "positive": int(ranking.counts[:, 1].sum()),
        "points": [list(point) for point in points],
    }


def threshold_for(ranking: KeyedCounts, recall: float | None = None, precision: float | None = None) -> float | None:
    """Return the highest threshold with a recall, or the lowest with a precision; None if no threshold has it.

    It lies between two values, so that rounding moves no row to the other side. ranking has the columns (negative,
    positive); exactly one of recall and precision is given.
    """
    negative, positive = ranking.counts[::-1].T  # from the highest score down
    hits, predicted = np.cumsum(positive), np.cumsum(negative + positive)
    if recall is not None:
        enough = np.flatnonzero(hits >= recall * hits[-1])[:1]
    else:
        assert precision is not None, "one of both is given"
        enough = np.flatnonzero((hits >= precision * predicted) & (hits > 0))[-1:]
    if not len(enough) or not hits[-1]:
        return None
    values = values_of(ranking.keys.astype(np.int64))[::-1]
    place = int(enough[0])
    return float(values[place : place + 2].mean())


def confusion_from(ranking: KeyedCounts, threshold: float) -> Integers:
    """Return the confusion matrix (2, 2) of two classes if the second is predicted from a threshold on."""
    above = values_of(ranking.keys.astype(np.int64)) >= threshold
    return np.column_stack([ranking.counts[~above].sum(axis=0), ranking.counts[above].sum(axis=0)])


def _drop(keys: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (keys >> np.uint32(bits)) << np.uint32(bits)


def _sorted_sum(keys: NDArray[np.uint32], counts: Integers, bits: int) -> KeyedCounts:
    if len(keys) == 0:
        return KeyedCounts(keys, counts, bits)
    order = np.argsort(keys, kind="stable")  # a merge sort: parts are sorted runs already
    keys = keys[order]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return KeyedCounts(keys[first], np.add.reduceat(counts[order], first, axis=0), bits)


def _coarsened(counts: KeyedCounts, most_keys: int) -> KeyedCounts:
    """Drop the fewest low bits that leave at most `most_keys` distinct keys."""
    if len(counts.keys) <= most_keys:
        return counts
    # neighbours stay apart under b dropped bits exactly if they differ in bit b or above
    apart = counts.keys[1:] ^ counts.keys[:-1]
    bits = counts.dropped_bits
    while 1 + np.count_nonzero(apart >> np.uint32(bits)) > most_keys:
        bits += 1
    return _sorted_sum(_drop(counts.keys, bits), counts.counts, bits)
