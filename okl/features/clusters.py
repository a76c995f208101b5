"""Cluster centres of rows by k-means: the same bits on any number of threads, which scikit-learn's does not promise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from okl.compiled.kernelblocks import squared_distances
from okl.compiled.projection import panels_of
from okl.types import FloatArray, IntArray

MOST_ROUNDS = 20
_BLOCK = 4096


def cluster_centres(rows: FloatArray, n_clusters: int, rng: np.random.Generator) -> FloatArray:
    """Centres (n_clusters, n_inputs), float64, that rows lie close to: Lloyd's rounds after a k-means++ start.

    Each round moves every centre to the mean of the rows that are nearest to it, the first on a tie; a centre without
    rows stays. Rounds end when no row changes its centre, or after 20: by then the error falls by little.

    Parameters
    ----------
    rows : (rows, n_inputs), finite, at least n_clusters; all of them are looked at in each round

    Source: Arthur & Vassilvitskii, SODA 2007, section 2.2.
    """
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    centres = _spread_rows(rows, n_clusters, rng)
    nearest = np.full(len(rows), -1)
    for _ in range(MOST_ROUNDS):
        before, nearest = nearest, _nearest(rows, centres)
        if np.array_equal(before, nearest):
            break
        counts = np.bincount(nearest, minlength=n_clusters)
        members = csr_array((np.ones(len(rows)), (nearest, np.arange(len(rows)))), shape=(n_clusters, len(rows)))
        filled = counts > 0
        centres[filled] = (members @ rows)[filled] / counts[filled, None]
    return centres


def _spread_rows(rows: FloatArray, number: int, rng: np.random.Generator) -> FloatArray:
    """Rows drawn one after the other, each in proportion to its squared distance from those before it."""
    chosen = [int(rng.integers(len(rows)))]
    distances = np.full(len(rows), np.inf)
    for _ in range(1, number):
        distances = np.minimum(distances, _squares(rows, rows[chosen[-1:]])[:, 0])
        chosen.append(draw_in_proportion(distances, rng))
    return rows[chosen]


def draw_in_proportion(weights: NDArray[np.float64], rng: np.random.Generator) -> int:
    """An index with probability in proportion to its weight, none of them negative; any index if all are 0."""
    totals = np.cumsum(weights)
    if not totals[-1] > 0:
        return int(rng.integers(len(weights)))
    # the first total above the draw: an index of weight 0 has none of its own
    return int(np.searchsorted(totals, rng.random() * totals[-1], side="right"))


def _nearest(rows: FloatArray, centres: FloatArray) -> IntArray:
    blocks = range(0, len(rows), _BLOCK)
    nearest = [_squares(rows[first : first + _BLOCK], centres).argmin(axis=1) for first in blocks]
    return np.concatenate(nearest)


def _squares(rows: FloatArray, centres: FloatArray) -> FloatArray:
    """Squared distances (rows, centres)."""
    squares = np.empty((len(rows), len(centres)))
    squared_distances(squares, rows, panels_of(centres.T))
    return squares
