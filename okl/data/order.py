"""The order in which rows are visited: shuffled windows drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from okl.foundation.class_tags import stored

if TYPE_CHECKING:
    from okl.data.dataset import Shard


def mix_bits(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of each number. Source: SplitMix64, Steele, Lea & Flood, OOPSLA 2014, figure 15."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


# Window plans: the order in which rows are visited, drawn from a seed.

WINDOW_BYTES = 32 * 2**20  # in stored order, too, where nothing is mixed: changing from reading to learning takes time
LEAST_WINDOW_ROWS = 2048  # fewer rows at once are hardly mixed, and their columns shorter than their metadata
MOST_INPUTS = WINDOW_BYTES // (4 * LEAST_WINDOW_ROWS)  # of what okl itself makes columns of
DRAWS = 8192  # random numbers drawn at once: they fit the first-level cache
Order = Literal["shuffle", "stored"]
Positions = NDArray[np.int64]


@stored("row-window")
@dataclass(frozen=True)
class Window:
    """Row groups that are held in memory together, and the seed of the permutation of their rows (None: as stored).

    pieces : (index of the shard in the data set, row group, rows) in the order of reading
    first_row : position of the window's first row in the pass
    """

    index: int
    first_row: int
    rows: int
    pieces: tuple[tuple[int, int, int], ...]
    seed: tuple[int, ...] | None


def plan_windows(
    shards: Sequence[Shard], n_features: int, order: Order, seed: tuple[int, ...], window_bytes: int = WINDOW_BYTES
) -> tuple[Window, ...]:
    """Return the windows of one pass over some shards.

    In shuffled order the row groups of all shards are permuted, then as many as fit a window are read together and
    their rows are permuted uniformly. A window that holds all rows is a uniform shuffle; otherwise rows of one row
    group stay within one window, whose share of the pass `largest_window_share` states.

    shards : shards to visit; n_features : inputs a row; order : "shuffle" or "stored"
    seed : integers that, with the pass, decide the order; window_bytes : memory for the inputs of one window as float32
    Returns windows in the order of visiting; their rows add up to the rows of the shards.
    """
    pieces = [(shard.index, group, rows) for shard in shards for group, rows in enumerate(shard.row_groups) if rows > 0]
    if order == "shuffle":
        pieces = [pieces[i] for i in np.random.default_rng(seed).permutation(len(pieces))]
    limit = max(1, window_bytes // (4 * max(1, n_features)))
    taken, rows = list[list[tuple[int, int, int]]](), 0
    for piece in pieces:
        if not taken or rows + piece[2] > limit:
            taken.append([])
            rows = 0
        taken[-1].append(piece)
        rows += piece[2]
    sizes = [sum(piece[2] for piece in window) for window in taken]
    return tuple(
        Window(index, first, size, tuple(window), (*seed, 1, index) if order == "shuffle" else None)
        for index, (first, size, window) in enumerate(zip(accumulate(sizes, initial=0), sizes, taken, strict=False))
    )


def permutation_of(window: Window) -> Positions | None:
    """Return the position of each read row in its window, (rows,), drawn uniformly; None for the stored order."""
    from okl.compiled.math import shuffle_from  # three times as fast as NumPy's

    if window.seed is None:
        return None
    random = np.random.default_rng(window.seed)
    positions, draws = np.arange(window.rows), np.empty(DRAWS)
    for last in range(window.rows - 1, 0, -DRAWS):
        some = draws[: min(last, DRAWS)]
        random.random(out=some)
        shuffle_from(positions, some, last)
    return positions


def largest_window_share(windows: Sequence[Window]) -> float:
    """Return how far from uniform a shuffle is: rows of the largest window over all rows, 1.0 if uniform."""
    total = sum(window.rows for window in windows)
    return max((window.rows for window in windows), default=0) / total if total else 1.0
