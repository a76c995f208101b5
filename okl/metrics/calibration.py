"""Calibration: the share of correct rows by score, from mergeable counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.foundation.types import FloatArray, IntArray
from okl.metrics.ranking import KeyedCounts, count_values, values_of

MOST_BINS = 12
LEAST_ROWS = 25
"""Rows of a bin, if there are enough: a share of fewer rows is uncertain."""

DROPPED_BITS = 17
"""Leaves sign, exponent and 6 bits of a lead: it counts as one that is less than a sixty-fourth smaller."""


def lead_counts(scores: FloatArray, right: NDArray[np.bool_]) -> KeyedCounts:
    """Count rows by how far their best score leads the second, in columns (wrong, right).

    scores : (rows, K), K at least 2; right : (rows,), whether the best class is the true one
    """
    first_two: FloatArray = np.partition(scores, -2, axis=1)[:, -2:]
    return count_values(first_two[:, 1] - first_two[:, 0], right.astype(np.int64), 2, DROPPED_BITS)


def reliability(counts: KeyedCounts, of: str) -> dict[str, Any]:
    """Return bins of about equally many rows, from the lowest value up, as JSON.

    Parameters
    ----------
    counts : rows by value, in columns (miss, hit): of scores hits are positive rows, of leads those named rightly
    of : "score" of two classes, or "lead" of the best of several classes over the second

    Returns
    -------
    of, and bins: rows, hits, lowest and highest value, mean value; of scores also the mean of 1 / (1 + exp(-score)),
    which is the probability of a hit if the logistic loss was learned. Equal values stay in one bin.
    """
    rows = counts.counts.sum(axis=1)
    total = int(rows.sum())
    if total == 0:
        return {"of": of, "bins": []}
    values = values_of(counts.keys.astype(np.int64))
    n_bins = int(np.clip(total // LEAST_ROWS, 1, MOST_BINS))
    # a value belongs where the middle one of its rows does
    numbers = ((np.cumsum(rows) - (rows + 1) // 2) * n_bins) // total
    firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
    lasts = np.append(firsts[1:], len(rows)) - 1
    of_bins = [np.add.reduceat(column, firsts) for column in (rows, counts.counts[:, 1])]
    means = {"mean": _means(values, rows, firsts)}
    if of == "score":
        # tanh does not overflow for scores of any size
        means["probability"] = _means(0.5 * (1.0 + np.tanh(0.5 * values)), rows, firsts)
    names = ("rows", "hits", "lowest", "highest", *means)
    columns = (*of_bins, values[firsts], values[lasts], *means.values())
    cells = zip(*(column.tolist() for column in columns), strict=True)
    return {"of": of, "bins": [dict(zip(names, cell, strict=True)) for cell in cells]}


def _means(values: FloatArray, rows: IntArray, firsts: IntArray) -> NDArray[np.float64]:
    sums = np.add.reduceat(values * rows, firsts)
    means: NDArray[np.float64] = sums / np.add.reduceat(rows, firsts)
    return means
