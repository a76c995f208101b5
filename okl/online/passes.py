"""How passes over rows are laid out: windows that are read together, and segments of these that a step learns."""

from __future__ import annotations

from okl.store.dataset import Dataset
from okl.store.order import Order, Window, plan_windows

SEGMENTS, MOST_SEGMENT_ROWS, BLOCK_ROWS = 8, 262144, 256  # starting threads takes half a millisecond a segment

Segment = tuple[int, slice]
"""Index of a window, and which of its rows."""


def windows_of(data: Dataset, order: Order, n_passes: int, seed: int) -> tuple[Window, ...]:
    """All passes one after the other, so that reading ahead goes on from one to the next."""
    shards, n_features = data.split("train"), data.schema.n_features
    passes = [plan_windows(shards, n_features, order, (seed, index)) for index in range(n_passes)]
    return tuple(window for windows in passes for window in windows)


def segments_of(windows: tuple[Window, ...], rows: int, segments: int) -> tuple[Segment, ...]:
    """Windows cut at multiples of a block, so many a pass or so: the same bits, and progress within a window.

    rows : of a pass
    """
    wanted = max(1, min(rows // segments, MOST_SEGMENT_ROWS))
    size = -(-wanted // BLOCK_ROWS) * BLOCK_ROWS
    return tuple(
        (index, slice(first, min(first + size, window.rows)))
        for index, window in enumerate(windows)
        for first in range(0, window.rows, size)
    )
