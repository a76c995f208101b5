"""Landmark selection for Nystrom maps: rows or k-means centres."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from scipy.sparse import csr_array, issparse

from okl.compiled.jit import one_blas_thread
from okl.compiled.kernels import block_squared_distances
from okl.compiled.products import panels_of
from okl.foundation.errors import ConfigError
from okl.foundation.types import Doubles, FloatArray, IntArray
from okl.foundation.validation import check_at_least, check_choice
from okl.kernels import Kernel, kernel_diagonal, kernel_matrix

# k-means with the same bits on any number of threads.

MOST_ROUNDS = 20
_BLOCK = 4096


def cluster_centres(rows: FloatArray, n_clusters: int, rng: np.random.Generator) -> FloatArray:
    """Return centres (n_clusters, n_inputs), float64, that rows lie close to: Lloyd's rounds after a k-means++ start.

    Each round moves every centre to the mean of the rows that are nearest to it, the first on a tie; a centre without
    rows stays. Rounds end when no row changes its centre, or after 20: by then the error falls by little.

    rows : (rows, n_inputs), finite, at least n_clusters; all of them are read in each round

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
    """Return rows drawn one after the other, each in proportion to its squared distance from those before it."""
    chosen = [int(rng.integers(len(rows)))]
    distances = np.full(len(rows), np.inf)
    for _ in range(1, number):
        distances = np.minimum(distances, _squares(rows, rows[chosen[-1:]])[:, 0])
        chosen.append(draw_in_proportion(distances, rng))
    return rows[chosen]


def draw_in_proportion(weights: Doubles, rng: np.random.Generator) -> int:
    """Return an index with probability in proportion to its weight, none of them negative; any index if all are 0."""
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
    """Return squared distances (rows, centres)."""
    squares = np.empty((len(rows), len(centres)))
    block_squared_distances(squares, rows, panels_of(centres.T))
    return squares


# Landmarks: sampled rows or cluster centres.

Landmarks = Literal["uniform", "kmeans", "rpcholesky"]
MOST_ROWS: dict[str, int] = {"kmeans": 20_000, "rpcholesky": 10_000}


def choose_landmarks(kernel: Kernel, rows: Any, n_landmarks: int, method: Landmarks, seed: int) -> Any:
    """Choose landmarks from rows in memory.

    "uniform": rows, each as likely as another. "kmeans": cluster centres of at most 20,000 sampled rows. "rpcholesky":
    rows of at most 10,000 sampled ones, one after the other, in proportion to how much of k(x, x) those before it leave
    unexplained; if nothing is left, the rest uniformly.

    kernel : for rpcholesky only; rows : (rows, n_inputs), finite; sparse ones give sparse landmarks, without kmeans
    n_landmarks : int >= 1, at most the number of rows; seed : int >= 0; the same landmarks on any number of threads
    Returns (n_landmarks, n_inputs), in the precision of the rows.
    Raises ConfigError : more landmarks than rows that the method reads, or an unknown method
    Raises DataError : a kernel of the user's own has values that do not fit

    Source: uniform, Williams & Seeger, NIPS 2000; kmeans, Zhang, Tsang & Kwok, ICML 2008, section 4; rpcholesky, Chen,
    Epperly, Tropp & Webber, arXiv 2207.06503, Algorithm 2.1.
    """
    check_choice("landmarks", method, get_args(Landmarks))
    n_landmarks = check_at_least("n_landmarks", n_landmarks, 1)
    rng = np.random.default_rng((seed, 0x1A2D))
    n_rows = rows.shape[0]
    n_candidates = min(n_rows, MOST_ROWS.get(method, n_rows))
    if n_landmarks > n_candidates:
        raise ConfigError(
            f"{n_landmarks:,} landmarks are requested, but {method} chooses them from {n_candidates:,} rows. "
            f"Request at most {n_candidates:,}."
        )
    if method == "uniform":
        return rows[rng.choice(n_rows, size=n_landmarks, replace=False)]
    if n_candidates < n_rows:
        rows = rows[np.sort(rng.choice(n_rows, size=n_candidates, replace=False))]
    if method == "kmeans":
        return cluster_centres(rows, n_landmarks, rng).astype(rows.dtype)
    return rows[cholesky_pivots(kernel, rows, n_landmarks, rng)]


def cholesky_pivots(kernel: Kernel, rows: Any, number: int, rng: np.random.Generator) -> list[int]:
    """Return the distinct pivots of a randomly pivoted partial Cholesky factorisation of the rows' kernel matrix.

    K is about F F'; after each pivot s the column (K - F F')[:, s] / sqrt((K - F F')[s, s]) joins F, and what is left
    of the diagonal gives the probability of a row. Time O(rows number^2), memory O(rows number); K is never held.

    Source: Chen, Epperly, Tropp & Webber, arXiv 2207.06503, Algorithm 2.1.
    """
    n_rows, columns = rows.shape[0], rows.tocsc() if issparse(rows) else rows
    factor = np.empty((number, n_rows))
    with one_blas_thread():
        left = kernel_diagonal(kernel, rows)
    noise = n_rows * float(np.finfo(np.float64).eps) * max(float(left.max()), 0.0)
    pivots: list[int] = []
    with one_blas_thread():  # bits depend on the number of threads
        for step in range(number):
            left[left <= noise] = 0.0
            if not left.any():
                return pivots + _any_others(n_rows, pivots, number - step, rng)
            pivot = draw_in_proportion(left, rng)
            column = kernel_matrix(kernel, rows[pivot : pivot + 1], columns)[0] - factor[:step, pivot] @ factor[:step]
            factor[step] = column / np.sqrt(column[pivot])
            left -= factor[step] ** 2
            left[pivot] = 0.0
            pivots.append(pivot)
    return pivots


def _any_others(n_rows: int, taken: list[int], number: int, rng: np.random.Generator) -> list[int]:
    others = np.setdiff1d(np.arange(n_rows), taken)
    return [int(index) for index in rng.choice(others, size=number, replace=False)]
