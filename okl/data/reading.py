"""Reading of row windows from Parquet shards into scaled float32 blocks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from threading import local
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.sparse import csr_array

from okl.data.dataset import INDICES, VALUES, Dataset, Schema, Shard
from okl.data.execution import Rows
from okl.data.ingest.targets import group_share, stored_index
from okl.data.order import Positions, Window, permutation_of
from okl.data.sparse import rows_of_lists, stacked, with_dense_columns
from okl.data.values import one_array
from okl.foundation.errors import DataError, first_line
from okl.foundation.locations import Place, RemoteCopy, verify_file, whole_copy_of
from okl.foundation.telemetry import READ, Span
from okl.foundation.types import FloatArray, Integers, Precision, Split

Targets = NDArray[np.float64]

# Open part files of the process, with their metadata.

OPEN_FILES = 32


class PartFile:
    """An open part file (or local copy of a remote one, which it holds) for any number of threads.

    Raises OSError or ArrowException : the file is missing, or is no Parquet file
    """

    def __init__(self, path: Path, copy: RemoteCopy | None = None) -> None:
        self.path, self._copy = path, copy
        # not file.schema: schema and metadata refer to each other and would stay in memory until a garbage collection
        with pq.ParquetFile(path, memory_map=False, pre_buffer=False) as file:
            self.metadata = file.metadata
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def sizes(self, group: int, columns: set[str]) -> list[tuple[int, str]]:
        row_group = self.metadata.row_group(group)
        chunks = [row_group.column(index) for index in range(self.metadata.num_columns)]
        return [(chunk.total_compressed_size, chunk.compression) for chunk in chunks if chunk.path_in_schema in columns]

    def prefetch(self, group: int) -> None:
        """Start reading a row group into the page cache, without waiting, unless its last byte is cached."""
        row_group = self.metadata.row_group(group)
        last = row_group.column(self.metadata.num_columns - 1)
        start, stop = row_group.column(0).data_page_offset, last.data_page_offset + last.total_compressed_size
        if sys.platform == "linux" and not self._is_cached(stop - 1):
            os.posix_fadvise(self._descriptor, start, stop - start, os.POSIX_FADV_WILLNEED)

    def _is_cached(self, position: int) -> bool:
        """Return whether a byte is in the page cache: this check takes a microsecond, posix_fadvise a hundred."""
        try:
            return os.preadv(self._descriptor, [bytearray(1)], position, os.RWF_NOWAIT) == 1
        except OSError:  # not cached, or the file system does not support the flag
            return False


@lru_cache(maxsize=OPEN_FILES)
def _open_part(folder: Place, shard: Shard) -> PartFile:
    location = folder / shard.path
    if isinstance(location, Path):
        verify_file(location, shard.sha256)
        return PartFile(location)
    copy = whole_copy_of(location, shard.size_bytes, shard.sha256)
    return PartFile(Path(f"/dev/fd/{copy.descriptor}"), copy)


def open_part(data: Dataset, shard: Shard) -> PartFile:
    """Return the part file of a shard, opened unless this process has it open; the last ones used stay open.

    The first call verifies the sha256 of the file, and downloads a remote one; DataError if that fails.
    Raises OSError or ArrowException : the file is missing, or is no Parquet file
    """
    return _open_part(data.folder, shard)


class _ArrowFiles(local):
    """Part files that a thread has open for Arrow; the last ones used stay open."""

    def __init__(self) -> None:
        self.open = lru_cache(maxsize=OPEN_FILES)(_open_for_arrow)


def _open_for_arrow(folder: Place, shard: Shard) -> pq.ParquetFile:
    part = _open_part(folder, shard)
    # no memory map: the pages of a whole data set would count as memory of this process, and the process would crash
    # if the file were truncated
    return pq.ParquetFile(part.path, metadata=part.metadata, memory_map=False, pre_buffer=False)


_arrow_files = _ArrowFiles()

# Row groups: columns read by Arrow, scaled and transposed into rows.


def read_columns(data: Dataset, shard: Shard, group: int, columns: Sequence[str]) -> pa.Table:
    """Return columns of a row group as stored, in the order of `columns`; raise DataError if they cannot be read."""
    path = data.path(shard)
    try:
        # select: a column named a also matches a.b
        file = _arrow_files.open(data.folder, shard)
        return file.read_row_group(group, columns=list(columns), use_threads=False).select(columns)
    except (pa.ArrowException, OSError, IndexError, KeyError) as error:
        raise DataError(
            f"{path} is missing or damaged at row group {group}: {first_line(error)}. Ingest the source again."
        ) from None


def stored_column(data: Dataset, name: str) -> FloatArray:
    """Return a stored input, (rows,), of the training rows and then the test rows."""
    pieces = [(shard, group) for shard in data.shards for group in range(len(shard.row_groups))]
    return np.concatenate([read_columns(data, *piece, [name]).column(0).to_numpy() for piece in pieces])


def read_group(
    data: Dataset, shard: Shard, group: int, into: Positions, inputs_out: FloatArray, targets_out: Targets
) -> None:
    """Read a row group; row r goes to row into[r] of inputs_out (., n_features) and targets_out (.,)."""
    schema = data.schema
    table = read_columns(data, shard, group, [*schema.features, schema.target])
    if len(table) != len(into):
        raise DataError(
            f"{data.path(shard)}: row group {group} has {len(table)} rows, expected {len(into)} as manifest.json "
            "says. Ingest the source again."
        )
    *inputs, targets = [one_array(column) for column in table.columns]  # referenced: the addresses point into them
    addresses = np.array([_address(chunk) for chunk in inputs], dtype=np.int64)
    write_inputs(schema, inputs_out, addresses, into)
    targets_out[into] = targets_of(schema, targets.to_numpy(zero_copy_only=True))


def write_inputs(schema: Schema, inputs_out: FloatArray, addresses: Positions, into: Positions) -> None:
    """Write scaled inputs into rows `into` of inputs_out from columns at addresses, see `scatter_columns`."""
    from okl.compiled.columns import scatter_columns, squash_columns  # numba: not needed to describe a data set

    first, second = schema.reading_stages
    scatter_columns(inputs_out, addresses, into, *first)
    if schema.squashed:
        squash_columns(inputs_out, into, *second)


def scaled_inputs(schema: Schema, values: FloatArray, precision: Precision) -> FloatArray:
    """Return scaled inputs (rows, n_features) of raw values that are rounded to float32, the same as `write_inputs`."""
    columns = np.ascontiguousarray(np.transpose(values), dtype=np.float32)
    inputs = np.empty(values.shape, dtype=precision)
    addresses = columns.ctypes.data + np.arange(len(columns), dtype=np.int64) * columns.strides[0]
    write_inputs(schema, inputs, addresses, np.arange(len(inputs)))
    return inputs


def _address(chunk: pa.Array) -> int:
    """Return the address of the first value of a column without nulls; five times as fast as through NumPy."""
    address: int = chunk.buffers()[1].address + chunk.offset * chunk.type.byte_width
    return address


def targets_of(schema: Schema, stored: Targets) -> Targets:
    """Return training targets of stored values (rows,): -1 or +1, the class index, or the scaled target."""
    if schema.task == "regression":
        shift, factor = schema.target_shift_and_factor
        return (stored - shift) * factor
    if schema.task == "binary":
        return np.where(stored == schema.stored_labels[1], 1.0, -1.0)
    if schema.stored_labels == tuple(map(float, range(len(schema.labels)))):
        return stored
    return stored_index(stored, schema.stored_labels).astype(np.float64)


# Windows of rows.


def load_window(data: Dataset, window: Window, precision: Precision) -> Rows:
    """Read a window into new arrays, rows in its order, scaled by the schema; DataError for a damaged shard."""
    if data.schema.sparse is not None:
        with Span(READ):
            return _load_sparse(data, window, precision)
    inputs, targets = np.empty((window.rows, data.schema.n_features), dtype=precision), np.empty(window.rows)
    with Span(READ):
        for job in window_jobs(data, window, inputs, targets):
            job()
    return Rows(inputs, targets)


def _load_sparse(data: Dataset, window: Window, precision: Precision) -> Rows:
    """Read a window of sparse rows: compressed rows, with the scaled dense columns before the others."""
    schema, columns = data.schema, data.schema.sparse
    assert columns is not None, "the caller has looked"
    blocks, targets = [], np.empty(window.rows)
    start, dense_schema = 0, replace(schema, sparse=None)
    for index, group, rows in window.pieces:
        shard = data.shards[index]
        dense, cut = np.empty((rows, len(schema.features)), dtype=precision), slice(start, start + rows)
        read_group(replace(data, schema=dense_schema), shard, group, np.arange(rows), dense, targets[cut])
        # one after the other: Arrow takes several times the memory of a column while it reads it
        indices, values = (one_array(read_columns(data, shard, group, [name]).column(0)) for name in (INDICES, VALUES))
        blocks.append(with_dense_columns(dense, rows_of_lists(indices, values, columns.n_columns, precision), columns))
        start += rows
    inputs, permutation = stacked(blocks), permutation_of(window)
    if permutation is not None:
        order = np.argsort(permutation)
        inputs, targets = inputs[order], targets[order]
    return Rows(inputs, targets)


def window_jobs(
    data: Dataset, window: Window, inputs_out: FloatArray, targets_out: Targets
) -> list[Callable[[], None]]:
    """Return calls that together read a window into arrays, one a row group; in any order, or in parallel.

    inputs_out : C-contiguous (window.rows or more, n_features), float32 or float64
    targets_out : (window.rows or more,)
    """
    permutation = permutation_of(window)
    positions = np.arange(window.rows) if permutation is None else permutation
    jobs: list[Callable[[], None]] = []
    start = 0
    for index, group, rows in window.pieces:
        into = positions[start : start + rows]
        jobs.append(partial(read_group, data, data.shards[index], group, into, inputs_out, targets_out))
        start += rows
    return jobs


def prefetch_window(data: Dataset, window: Window) -> None:
    """Start reading the row groups of a window into the page cache; the later read reports any failure."""
    for index, group, _ in window.pieces:
        with suppress(pa.ArrowException, OSError, IndexError, DataError):
            open_part(data, data.shards[index]).prefetch(group)


def read_rows(data: Dataset, shard: Shard, groups: Sequence[int], precision: Precision) -> Rows:
    """Read row groups of a shard, in the given order, with rows as stored."""
    pieces = tuple((shard.index, group, shard.row_groups[group]) for group in groups)
    return load_window(data, Window(0, 0, sum(piece[2] for piece in pieces), pieces, None), precision)


class RowRuns(NamedTuple):
    """Runs of rows of one shard, in its order, each within a row group: its group, its first row there, its rows."""

    groups: Integers
    firsts: Integers
    rows: Integers

    @property
    def n_rows(self) -> int:
        return int(self.rows.sum())

    def part(self, which: slice) -> RowRuns:
        return RowRuns(self.groups[which], self.firsts[which], self.rows[which])


def is_uncompressed(data: Dataset, shard: Shard) -> bool:
    """Return whether inputs and target of a shard are stored without compression; False if it cannot be opened."""
    columns = {*data.schema.features, data.schema.target}
    try:
        part = open_part(data, shard)
        groups = range(len(shard.row_groups))
        return all(kind == "UNCOMPRESSED" for group in groups for _, kind in part.sizes(group, columns))
    except (pa.ArrowException, OSError, IndexError):
        return False  # the later read reports the failure


def bytes_of_runs(data: Dataset, shard: Shard, runs: RowRuns, footer: bool = True) -> int:
    """Return the bytes, with the footer if it is read, that reading runs takes: the columns of their row groups."""
    if not len(runs.groups):
        return 0
    part, columns = open_part(data, shard), {*data.schema.features, data.schema.target}
    total = part.metadata.serialized_size + 8 if footer else 0
    return total + sum(size for group in np.unique(runs.groups) for size, _ in part.sizes(int(group), columns))


def stored_row_bytes(data: Dataset, shard: Shard) -> int:
    """Return the mean bytes of a row of a shard before compression, at least 1."""
    metadata = open_part(data, shard).metadata
    total = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    return int(max(1, -(-total // max(1, metadata.num_rows))))


@dataclass
class LastGroup:
    """The row group read last: the next runs may be of the same group."""

    key: tuple[str, int] = ("", -1)
    rows: Rows | None = None

    def read(self, data: Dataset, shard: Shard, group: int, precision: Precision) -> Rows:
        if self.key != (shard.sha256, group) or self.rows is None:
            self.key, self.rows = (shard.sha256, group), read_rows(data, shard, (group,), precision)
        return self.rows


def read_runs(data: Dataset, shard: Shard, runs: RowRuns, precision: Precision, last: LastGroup | None = None) -> Rows:
    """Read runs of a shard, in their order, scaled by the schema.

    last : the row group read last, used and replaced
    Raises DataError : a shard that is missing or damaged
    """
    last = last or LastGroup()
    if data.schema.sparse is not None:
        return _read_sparse_runs(data, shard, runs, precision, last)
    inputs = np.empty((runs.n_rows, data.schema.n_features), dtype=precision)
    targets = np.empty(runs.n_rows)
    starts = np.cumsum([0, *runs.rows])
    with Span(READ):
        for group in np.unique(runs.groups).tolist():
            read = last.read(data, shard, group, precision)
            for index in np.flatnonzero(runs.groups == group):
                into = slice(starts[index], starts[index + 1])
                of = slice(runs.firsts[index], runs.firsts[index] + runs.rows[index])
                inputs[into], targets[into] = read.inputs[of], read.targets[of]
    return Rows(inputs, targets)


def _read_sparse_runs(data: Dataset, shard: Shard, runs: RowRuns, precision: Precision, last: LastGroup) -> Rows:
    parts = [Rows(csr_array((0, data.schema.n_features), dtype=precision), np.empty(0))]
    for group, first, n_rows in zip(*(column.tolist() for column in runs), strict=True):
        read = last.read(data, shard, group, precision)
        parts.append(Rows(read.inputs[first : first + n_rows], read.targets[first : first + n_rows]))
    return Rows(stacked([part.inputs for part in parts]), np.concatenate([part.targets for part in parts]))


# Samples of rows.

SAMPLE_GROUPS = 16
MANY_GROUPS = 128  # of samples that stand for all rows, also where neighbours are similar: some seconds of reading


def sample_rows(
    data: Dataset, split: Split, n: int, seed: int, precision: Precision, most_groups: int = SAMPLE_GROUPS
) -> Rows:
    """Draw a seeded sample without replacement, from row groups spread over the split; all rows if n covers them.

    Rows of the groups that are read have equal probabilities; they come in the order of the data set.

    most_groups : row groups to read, unless these hold fewer than n rows; with few groups, a sample of a data set whose
        neighbouring rows are similar is not representative
    Raises DataError : a shard is missing or damaged
    """
    parts = []
    for shard, group, inside in sampled_positions(data, split, n, seed, most_groups):
        rows = read_rows(data, shard, (group,), precision)
        parts.append(Rows(rows.inputs[inside], rows.targets[inside]))
    if not parts:
        return Rows(np.empty((0, data.schema.n_features), dtype=precision), np.empty(0))
    return Rows(stacked([part.inputs for part in parts]), np.concatenate([part.targets for part in parts]))


def sample_keys(
    data: Dataset, name: str, split: Split, n: int, seed: int, most_groups: int = SAMPLE_GROUPS
) -> pa.Array:
    """Return the values of a stored column, such as a key, in the rows of `sample_rows`."""
    parts = [
        one_array(read_columns(data, shard, group, [name]).column(0)).take(pa.array(inside))
        for shard, group, inside in sampled_positions(data, split, n, seed, most_groups)
    ]
    return pa.concat_arrays(parts)


def sampled_groups(data: Dataset, name: str, n: int, seed: int) -> Integers:
    """Return numbers (n,) from 0 of the groups of `sample_rows` of many training groups, in a seeded order of groups.

    name : stored column whose equal values are a group
    """
    shares = group_share(sample_keys(data, name, "train", n, seed, MANY_GROUPS), seed)
    codes: Integers = np.unique(shares, return_inverse=True)[1]
    return codes


def sampled_positions(
    data: Dataset, split: Split, n: int, seed: int, most_groups: int = SAMPLE_GROUPS
) -> list[tuple[Shard, int, Positions]]:
    """Return the shard, the row group and the positions in it of the rows of `sample_rows`, in order."""
    groups = [(shard, group) for shard in data.split(split) for group in range(len(shard.row_groups))]
    random = np.random.default_rng((seed, 0x5A3B1E))
    if n < data.rows(split):
        groups = _spread(groups, n, random, most_groups)
    sizes = [shard.row_groups[group] for shard, group in groups]
    total = sum(sizes)
    taken = np.arange(total) if n >= total else np.sort(random.choice(total, size=n, replace=False))
    starts = np.cumsum([0, *sizes])
    positions = []
    for (shard, group), start, size in zip(groups, starts, sizes, strict=False):
        inside = taken[(taken >= start) & (taken < start + size)] - start
        if len(inside):
            positions.append((shard, group, inside))
    return positions


def _spread(
    groups: list[tuple[Shard, int]], n: int, random: np.random.Generator, most_groups: int
) -> list[tuple[Shard, int]]:
    """Draw a row group from each of most_groups equal ranges; more only where these hold fewer than n rows."""
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
