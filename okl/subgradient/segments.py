"""Work on rows in segments, cut and added up in an order that does not depend on the number of threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from okl.compiled.blocks import run_threads
from okl.compiled.cutpasses import (
    add_sloped_rows,
    add_sloped_rows_of_classes,
    score_rows,
    score_rows_of_classes,
)
from okl.types import FloatArray

_SEGMENTS, _LEAST_SEGMENT, _MOST_SEGMENT = 16, 256, 4096  # enough for threads to share evenly
_WORTH_A_THREAD = 2**21  # numbers read; fewer are read before a thread has begun


def rows_of_segment(n_rows: int) -> int:
    """Rows summed in one go: by how many there are only."""
    return min(max(-(-n_rows // _SEGMENTS), _LEAST_SEGMENT), _MOST_SEGMENT)


def by_segments(n_rows: int, n_threads: int, work: Callable[[int, slice], None], backwards: bool = False) -> None:
    """Call work(index, rows) for every segment; whoever is free takes the next one."""
    rows = rows_of_segment(n_rows)
    order = range(-(-n_rows // rows))
    waiting = iter(reversed(order) if backwards else order)

    def run(_: int) -> None:
        for index in waiting:
            work(index, slice(index * rows, min((index + 1) * rows, n_rows)))

    run_threads(min(n_threads, len(order)), run)


def sum_sloped_rows(rows: FloatArray, slopes: FloatArray, n_columns: int, n_threads: int) -> FloatArray:
    """Sum of slope_i z_i: (n_columns,) for slopes (m,), (K, n_columns) for slopes (m, K); float64.

    n_columns : of the rows' first ones, which are those that are read
    """
    add = add_sloped_rows if slopes.ndim == 1 else add_sloped_rows_of_classes
    shape = (n_columns,) if slopes.ndim == 1 else (slopes.shape[1], n_columns)
    parts = np.zeros((-(-len(rows) // rows_of_segment(len(rows))), *shape))
    # from the end, where the scores have just been made: what was read last is still in cache
    threads = threads_for(len(rows) * n_columns, n_threads)
    by_segments(len(rows), threads, lambda index, cut: add(parts[index], rows[cut], slopes[cut]), backwards=True)
    total = np.zeros(shape)
    for part in parts:  # whoever summed them
        total += part
    return total


def scores_of_rows(rows: FloatArray, weights: FloatArray, n_threads: int) -> FloatArray:
    """<w, z_i> of rows (m, n): (m,) for weights (n,), (m, K) for weights (K, n); float64."""
    score = score_rows if weights.ndim == 1 else score_rows_of_classes
    out = np.empty(len(rows) if weights.ndim == 1 else (len(rows), len(weights)))
    by_segments(len(rows), threads_for(rows.size, n_threads), lambda _, cut: score(out[cut], rows[cut], weights))
    return out


def threads_for(n_numbers: int, n_threads: int) -> int:
    """Threads that so many numbers are worth."""
    return min(n_threads, max(1, n_numbers // _WORTH_A_THREAD))
