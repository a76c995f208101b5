"""Landmarks of a Nystrom map: rows, or points among them, that stand for all."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_at_least, check_choice
from okl.compiled.door import one_blas_thread
from okl.errors import ConfigError
from okl.features.clusters import cluster_centres, draw_in_proportion
from okl.kernels import Kernel, ShiftInvariantKernel
from okl.types import FloatArray

Landmarks = Literal["uniform", "kmeans", "rpcholesky"]
MOST_ROWS: dict[str, int] = {"kmeans": 20_000, "rpcholesky": 10_000}
_BLOCK = 256


def choose_landmarks(kernel: Kernel, rows: FloatArray, n_landmarks: int, method: Landmarks, seed: int) -> FloatArray:
    """Choose landmarks from rows in memory.

    "uniform": rows, each as likely as another. "kmeans": cluster centres of at most 20,000 sampled rows. "rpcholesky":
    rows of at most 10,000 sampled ones, one after the other, in proportion to how much of k(x, x) those before it leave
    unexplained; if nothing is left, the rest uniformly.

    Parameters
    ----------
    kernel : asked by rpcholesky only; rows : (rows, n_inputs), finite
    n_landmarks : int >= 1, at most the number of rows
    seed : int >= 0; the same landmarks on any number of threads

    Returns
    -------
    (n_landmarks, n_inputs), in the precision of the rows

    Raises
    ------
    ConfigError : more landmarks than rows that the method looks at, or an unknown method
    DataError : a kernel of the user's own has values that do not fit

    Source: uniform, Williams & Seeger, NIPS 2000; kmeans, Zhang, Tsang & Kwok, ICML 2008, section 4; rpcholesky, Chen,
    Epperly, Tropp & Webber, arXiv 2207.06503, Algorithm 2.1.
    """
    check_choice("landmarks", method, get_args(Landmarks))
    n_landmarks = check_at_least("n_landmarks", n_landmarks, 1)
    rng = np.random.default_rng((seed, 0x1A2D))
    looked_at = min(len(rows), MOST_ROWS.get(method, len(rows)))
    if n_landmarks > looked_at:
        raise ConfigError(
            f"{n_landmarks:,} landmarks were asked for, but {method} chooses them from {looked_at:,} rows. "
            f"Ask for at most {looked_at:,}."
        )
    if method == "uniform":
        return rows[rng.choice(len(rows), size=n_landmarks, replace=False)]
    if looked_at < len(rows):
        rows = rows[np.sort(rng.choice(len(rows), size=looked_at, replace=False))]
    if method == "kmeans":
        return cluster_centres(rows, n_landmarks, rng).astype(rows.dtype)
    return rows[cholesky_pivots(kernel, rows, n_landmarks, rng)]


def cholesky_pivots(kernel: Kernel, rows: FloatArray, number: int, rng: np.random.Generator) -> list[int]:
    """Pivots of a randomly pivoted partial Cholesky factorisation of the rows' kernel matrix: indices, all unlike.

    K is about F F'; after each pivot s the column (K - F F')[:, s] / sqrt((K - F F')[s, s]) joins F, and what is left
    of the diagonal says how likely a row is next. Time O(rows number^2), memory O(rows number); K is never held.

    Source: Chen, Epperly, Tropp & Webber, arXiv 2207.06503, Algorithm 2.1.
    """
    factor = np.empty((number, len(rows)))
    with one_blas_thread():
        left = kernel_diagonal(kernel, rows)
    noise = len(rows) * float(np.finfo(np.float64).eps) * max(float(left.max()), 0.0)
    pivots: list[int] = []
    with one_blas_thread():  # bits depend on the number of threads
        for step in range(number):
            left[left <= noise] = 0.0
            if not left.any():
                return pivots + _any_others(len(rows), pivots, number - step, rng)
            pivot = draw_in_proportion(left, rng)
            column = kernel.matrix(rows[pivot : pivot + 1], rows)[0] - factor[:step, pivot] @ factor[:step]
            factor[step] = column / np.sqrt(column[pivot])
            left -= factor[step] ** 2
            left[pivot] = 0.0
            pivots.append(pivot)
    return pivots


def kernel_diagonal(kernel: Kernel, rows: FloatArray) -> NDArray[np.float64]:
    """k(x, x) of every row: (rows,), float64."""
    if isinstance(kernel, ShiftInvariantKernel):
        return np.ones(len(rows))
    parts = [rows[first : first + _BLOCK] for first in range(0, len(rows), _BLOCK)]
    return np.concatenate([np.diag(kernel.matrix(part, part)) for part in parts])


def _any_others(n_rows: int, taken: list[int], number: int, rng: np.random.Generator) -> list[int]:
    others = np.setdiff1d(np.arange(n_rows), taken)
    return [int(index) for index in rng.choice(others, size=number, replace=False)]
