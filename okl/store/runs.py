"""Runs of consecutive rows read from part files: of flat row groups nothing but these rows' bytes is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from okl.execution.protocol import Rows
from okl.spans import Span
from okl.store.arrowreading import read_group, targets_of
from okl.store.dataset import Dataset, Shard
from okl.store.flatpages import FlatGroup, borrowed_memory, page_header
from okl.store.flatreading import page_scaling
from okl.store.partfiles import PartFile, open_part
from okl.timeline import READ
from okl.types import FloatArray, Precision

MOST_CHUNK_ROWS = 4096
KINDS = ("FLOAT", "DOUBLE")


class RowRuns(NamedTuple):
    """Runs of rows of one shard, in its order, each within a row group: its group, its first row there, its rows."""

    groups: NDArray[np.int64]
    firsts: NDArray[np.int64]
    rows: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """Rows of all of them."""
        return int(self.rows.sum())

    def part(self, which: slice) -> RowRuns:
        """Some of them."""
        return RowRuns(self.groups[which], self.firsts[which], self.rows[which])


def is_flat(data: Dataset, shard: Shard) -> bool:
    """Whether every row group of a shard can be read run by run; a file that cannot be opened is not flat."""
    try:
        part = open_part(data, shard)
        return all(_layout(data, part, shard, group) is not None for group in range(len(shard.row_groups)))
    except (pa.ArrowException, OSError, IndexError):
        return False  # who reads it says what it is


def bytes_of_runs(data: Dataset, shard: Shard, runs: RowRuns, footer: bool = True) -> int:
    """Bytes of the file that reading some runs takes: their values, or all of a group that Arrow reads.

    footer : whether that of the file counts too, which is read once

    Raises OSError or ArrowException if the file is missing or no Parquet file.
    """
    if not len(runs.groups):
        return 0
    part = open_part(data, shard)
    total = part.metadata.serialized_size + 8 if footer else 0
    n_features = data.schema.n_features
    for group in np.unique(runs.groups):
        layout = _layout(data, part, shard, int(group))
        if layout is None:
            total += _stored_bytes(data, part, int(group))
        else:
            headers = [len(page_header(layout.rows, kind)) for kind in KINDS]
            total += n_features * headers[0] + headers[1]
            total += (4 * n_features + 8) * int(runs.rows[runs.groups == group].sum())
    return int(total)


@dataclass
class LastGroup:
    """The row group that Arrow read last: runs that follow may be of the same."""

    key: tuple[str, int] = ("", -1)
    rows: Rows | None = None

    def read(self, data: Dataset, shard: Shard, group: int, precision: Precision) -> Rows:
        """All rows of a group."""
        if self.key != (shard.sha256, group) or self.rows is None:
            n_rows = shard.row_groups[group]
            inputs, targets = np.empty((n_rows, data.schema.n_features), dtype=precision), np.empty(n_rows)
            read_group(data, shard, group, range(n_rows), inputs, targets)
            self.key, self.rows = (shard.sha256, group), Rows(inputs, targets)
        return self.rows


def read_runs(data: Dataset, shard: Shard, runs: RowRuns, precision: Precision, last: LastGroup | None = None) -> Rows:
    """Read runs of a shard, in their order, scaled as the schema says.

    Parameters
    ----------
    last : what Arrow read last, used and brought up to date

    Raises
    ------
    DataError : a shard that is missing or damaged
    """
    with Span(READ):
        return _read_runs(data, shard, runs, precision, last or LastGroup())


def _read_runs(data: Dataset, shard: Shard, runs: RowRuns, precision: Precision, last: LastGroup) -> Rows:
    total = runs.n_rows
    inputs = np.empty((total + 1, data.schema.n_features), dtype=precision)  # the last row: see _read_flat
    targets = np.empty(total + 1)
    starts = np.cumsum([0, *runs.rows])
    layouts = _layouts(data, shard, runs)
    left = _read_flat(data, shard, runs, layouts, inputs, targets) if layouts else set(np.unique(runs.groups).tolist())
    for group in sorted(left):
        read = last.read(data, shard, group, precision)
        for index in np.flatnonzero(runs.groups == group):
            into = slice(starts[index], starts[index + 1])
            of = slice(runs.firsts[index], runs.firsts[index] + runs.rows[index])
            inputs[into], targets[into] = read.inputs[of], read.targets[of]
    return Rows(inputs[:total], targets[:total])


def _layouts(data: Dataset, shard: Shard, runs: RowRuns) -> dict[int, FlatGroup]:
    """The flat row groups among those of some runs; none of a file that cannot be looked at: Arrow says what it is."""
    try:
        part = open_part(data, shard)
        found = {group: _layout(data, part, shard, group) for group in np.unique(runs.groups).tolist()}
    except (pa.ArrowException, OSError, IndexError):
        return {}
    return {group: layout for group, layout in found.items() if layout is not None}


def _layout(data: Dataset, part: PartFile, shard: Shard, group: int) -> FlatGroup | None:
    layout = part.flat_group(group, data.schema.features, data.schema.target)
    return layout if layout is not None and layout.rows == shard.row_groups[group] else None


def _read_flat(
    data: Dataset,
    shard: Shard,
    runs: RowRuns,
    layouts: dict[int, FlatGroup],
    inputs: FloatArray,
    targets: NDArray[np.float64],
) -> set[int]:
    """Read the runs of flat groups; the groups that are left to Arrow.

    Every group comes first as its first row with the headers of its pages, which must be what they should be: that row
    goes to the last one of inputs and targets, which is nobody's.
    """
    from okl.compiled.pages import MOST_HEADER_BYTES, PADDING, Pages, read_pages  # numba: not needed to describe data

    mine = np.flatnonzero(np.isin(runs.groups, list(layouts)))
    groups = [*layouts, *runs.groups[mine].tolist()]
    heads = len(layouts)
    rows = np.concatenate([np.ones(heads, dtype=np.int64), runs.rows[mine]])
    offsets = np.concatenate([np.zeros(heads, dtype=np.int64), runs.firsts[mine]])
    begins = np.cumsum([0, *runs.rows])[mine]
    first = np.concatenate([np.full(heads, len(targets) - 1), begins]).astype(np.int64)
    widths = np.full(data.schema.n_features + 1, 4, dtype=np.int64)
    widths[-1] = 8
    starts: NDArray[np.int64] = np.stack([layouts[group].starts for group in groups])
    starts += offsets[:, np.newaxis] * widths  # stacked: a copy
    headers = np.zeros((len(groups), 2, MOST_HEADER_BYTES), dtype=np.uint8)
    lengths = np.zeros((len(groups), 2), dtype=np.int64)
    for index, layout in enumerate(layouts.values()):
        for which, kind in enumerate(KINDS):
            header = page_header(layout.rows, kind)
            headers[index, which, : len(header)] = header
            lengths[index, which] = len(header)
    part = open_part(data, shard)
    descriptors = np.full(len(groups), part.descriptor, dtype=np.int64)
    pages = Pages(descriptors, rows, first, starts, headers, lengths)
    chunk_rows = int(min(MOST_CHUNK_ROWS, rows.max()))
    scaling, finished = page_scaling(data.schema)
    failed, counter = np.zeros(len(groups), dtype=np.uint8), np.zeros(8, dtype=np.int64)
    nowhere = np.empty(0, dtype=np.int64)
    with borrowed_memory((data.schema.n_features + 2) * (4 * chunk_rows + PADDING)) as memory:
        read_pages(inputs, targets, failed, counter, memory, nowhere, pages, scaling, memory.ctypes.data, chunk_rows)
    left = {group for group, lost in zip(groups, failed, strict=True) if lost}
    left |= set(np.unique(runs.groups).tolist()) - set(layouts)
    if not finished:
        read = np.flatnonzero(np.repeat(~np.isin(runs.groups, list(left)), runs.rows))
        targets[read] = targets_of(data.schema, targets[read])
    return left


def _stored_bytes(data: Dataset, part: PartFile, group: int) -> int:
    wanted = {*data.schema.features, data.schema.target}
    row_group = part.metadata.row_group(group)
    columns = [row_group.column(index) for index in range(part.metadata.num_columns)]
    return sum(column.total_compressed_size for column in columns if column.path_in_schema in wanted)
