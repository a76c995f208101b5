"""From part files to inputs and targets: row groups are read, scaled, transposed and put in order in one go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa

from okl.errors import DataError
from okl.execution.protocol import Rows
from okl.spans import Span
from okl.store.arrowreading import Positions, Targets, read_group, targets_of
from okl.store.dataset import Dataset, Shard
from okl.store.flatreading import FlatPiece, flat_jobs
from okl.store.order import Window
from okl.store.partfiles import open_part
from okl.timeline import READ
from okl.types import FloatArray, Precision, Split

DRAWS = 8192  # random numbers at a time: they stay in cache
SAMPLE_GROUPS = 16


def load_window(data: Dataset, window: Window, precision: Precision) -> Rows:
    """Read a window into fresh arrays; see `read_window`."""
    inputs = np.empty((window.rows, data.schema.n_features), dtype=precision)
    return read_window(data, window, inputs, np.empty(window.rows))


def read_window(data: Dataset, window: Window, inputs_out: FloatArray, targets_out: Targets) -> Rows:
    """Read a window into given arrays, rows in its order, inputs and targets scaled as the schema says.

    Parameters
    ----------
    inputs_out : C-contiguous (window.rows or more, n_features), float32 or float64
    targets_out : (window.rows or more,)

    Returns
    -------
    the first window.rows rows of both, filled

    Raises
    ------
    DataError : a shard that is missing or damaged
    """
    with Span(READ):
        for job in window_jobs(data, window, inputs_out, targets_out):
            job()
    return Rows(inputs_out[: window.rows], targets_out[: window.rows])


def permutation_of(window: Window) -> Positions | None:
    """Where each read row of a window goes, (rows,), uniformly drawn from its seed; None for the stored order."""
    from okl.compiled.shuffling import shuffle_from  # three times as fast as NumPy's

    if window.seed is None:
        return None
    random = np.random.default_rng(window.seed)
    positions, draws = np.arange(window.rows), np.empty(DRAWS)
    for last in range(window.rows - 1, 0, -DRAWS):
        some = draws[: min(last, DRAWS)]
        random.random(out=some)
        shuffle_from(positions, some, last)
    return positions


def window_jobs(
    data: Dataset, window: Window, inputs_out: FloatArray, targets_out: Targets
) -> list[Callable[[], None]]:
    """The calls that together fill the arrays with a window; in any order, or in parallel."""
    permutation = permutation_of(window)
    jobs: list[Callable[[], None]] = []
    flat: list[FlatPiece] = []
    start = 0
    for index, group, rows in window.pieces:
        into = range(start, start + rows) if permutation is None else permutation[start : start + rows]
        job = partial(read_group, data, data.shards[index], group, into, inputs_out, targets_out)
        piece = _flat_piece(data, data.shards[index], group, range(start, start + rows), job)
        if piece is None:
            jobs.append(job)
        else:
            flat.append(piece)
        start += rows
    return jobs + (flat_jobs(data.schema, flat, permutation, inputs_out, targets_out, targets_of) if flat else [])


def _flat_piece(
    data: Dataset, shard: Shard, group: int, rows: range, otherwise: Callable[[], None]
) -> FlatPiece | None:
    """A row group that is laid out for reading without Arrow, None if it is not, or cannot be looked at."""
    try:
        part = open_part(data, shard)
        layout = part.flat_group(group, data.schema.features, data.schema.target)
    except (pa.ArrowException, OSError, IndexError):
        return None  # Arrow meets the same, and says what it is
    if layout is None or layout.rows != len(rows):
        return None
    return FlatPiece(part, layout, rows.start, otherwise)


def expect_window(data: Dataset, window: Window) -> None:
    """Have the system bring a window's part of the files into memory meanwhile; a failure is left to who reads it."""
    for index, pieces in groupby(window.pieces, itemgetter(0)):
        groups = [group for _, group, _ in pieces]
        with suppress(pa.ArrowException, OSError, IndexError, DataError):
            if groups[-1] - groups[0] == len(groups) - 1:
                open_part(data, data.shards[index]).expect(groups[0], groups[-1])
            else:
                for group in groups:
                    open_part(data, data.shards[index]).expect(group, group)


def read_rows(data: Dataset, shard: Shard, groups: Sequence[int], precision: Precision) -> Rows:
    """Read some row groups of a shard, in the given order, as stored."""
    pieces = tuple((shard.index, group, shard.row_groups[group]) for group in groups)
    return load_window(data, Window(0, 0, sum(piece[2] for piece in pieces), pieces, None), precision)


def sample_rows(
    data: Dataset, split: Split, n: int, seed: int, precision: Precision, most_groups: int = SAMPLE_GROUPS
) -> Rows:
    """A seeded sample without replacement, from row groups spread over the split; all rows if n covers them.

    Within the groups that are read, every row is as likely as another; they come in the order of the data set.

    most_groups : read, unless these hold fewer than n rows; where like rows lie side by side, few are not like all

    Raises
    ------
    DataError : a shard that is missing or damaged
    """
    parts = []
    for shard, group, inside in sampled_places(data, split, n, seed, most_groups):
        rows = read_rows(data, shard, (group,), precision)
        parts.append(Rows(rows.inputs[inside], rows.targets[inside]))
    if not parts:
        return Rows(np.empty((0, data.schema.n_features), dtype=precision), np.empty(0))
    return Rows(np.concatenate([part.inputs for part in parts]), np.concatenate([part.targets for part in parts]))


def sampled_places(
    data: Dataset, split: Split, n: int, seed: int, most_groups: int = SAMPLE_GROUPS
) -> list[tuple[Shard, int, Positions]]:
    """Where the rows of `sample_rows` lie: shards, their row groups, and positions in these, in order."""
    groups = [(shard, group) for shard in data.split(split) for group in range(len(shard.row_groups))]
    random = np.random.default_rng((seed, 0x5A3B1E))
    if n < data.rows(split):
        groups = _spread(groups, n, random, most_groups)
    sizes = [shard.row_groups[group] for shard, group in groups]
    total = sum(sizes)
    taken = np.arange(total) if n >= total else np.sort(random.choice(total, size=n, replace=False))
    starts = np.cumsum([0, *sizes])
    found = []
    for (shard, group), start, size in zip(groups, starts, sizes, strict=False):
        inside = taken[(taken >= start) & (taken < start + size)] - start
        if len(inside):
            found.append((shard, group, inside))
    return found


def _spread(
    groups: list[tuple[Shard, int]], n: int, random: np.random.Generator, most_groups: int
) -> list[tuple[Shard, int]]:
    """One row group from each of so many equal stretches; more only where these hold fewer than n rows."""
    count = min(most_groups, len(groups))
    edges = np.linspace(0, len(groups), count + 1).astype(int)
    chosen = {int(random.integers(low, high)) for low, high in pairwise(edges)}
    rows = sum(groups[index][0].row_groups[groups[index][1]] for index in chosen)
    for index in random.permutation(len(groups)):
        if rows >= n:
            break
        if index not in chosen:
            chosen.add(int(index))
            rows += groups[index][0].row_groups[groups[index][1]]
    return [groups[index] for index in sorted(chosen)]
