"""Which rows of a shard take part in a round: a slice of the shard's seeded order, so that a pass visits each once."""

from __future__ import annotations

import numpy as np

from okl.execution.protocol import Rows
from okl.execution.resident import resident
from okl.store.dataset import Dataset, Shard
from okl.store.order import Order, plan_windows
from okl.store.reading import load_window
from okl.types import Precision


def round_rows(
    data: Dataset,
    shard: Shard,
    order: Order,
    seed: tuple[int, ...],
    part: tuple[int, int],
    precision: Precision,
) -> Rows:
    """Rows of one round: part = (round, rounds) of the shard in the order that (seed, shard) draws.

    Windows of the shard stay in this process's memory between rounds, within the limit of `okl.execution.resident`;
    what comes back must not be written into.
    """
    index, parts = part
    start, stop = shard.rows * index // parts, shard.rows * (index + 1) // parts
    seed = (*seed, shard.index)
    pieces: list[Rows] = []
    for window in plan_windows((shard,), data.schema.n_features, order, seed):
        low, high = max(start, window.first_row), min(stop, window.first_row + window.rows)
        if low < high:
            key = (data.read_sha256, str(data.folder), shard.index, window, precision)
            rows = resident(key, lambda window=window: load_window(data, window, precision))  # type: ignore[misc]
            inside = slice(low - window.first_row, high - window.first_row)
            pieces.append(Rows(rows.inputs[inside], rows.targets[inside]))
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:  # more rounds than rows
        return Rows(np.empty((0, data.schema.n_features), dtype=precision), np.empty(0))
    return Rows(np.concatenate([p.inputs for p in pieces]), np.concatenate([p.targets for p in pieces]))
