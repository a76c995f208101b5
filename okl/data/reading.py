"""Reading of row windows from Parquet shards into scaled float32 blocks."""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from threading import Lock, local
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okl.data.dataset import Dataset, Schema, Shard
from okl.data.executor import Rows
from okl.data.ingest.targets import stored_index
from okl.data.order import Window
from okl.foundation.errors import DataError
from okl.foundation.locations import Place, RemoteCopy, verify_file, whole_copy_of
from okl.foundation.telemetry import READ, Span
from okl.foundation.types import FloatArray, Precision, Split

if TYPE_CHECKING:
    from okl.compiled.columns import Pages, Scaling


# Row groups whose columns lie on disk as they lie in memory: read whole, by one call, instead of column by column.
#
# An uncompressed part file as okl writes it holds one plain page of values a column and row group, without gaps:
# behind a header of some 25 bytes lie the values themselves. That a row group is so is never assumed. The file's
# metadata must say that each column is uncompressed, required and of the expected type, where it begins, and that its
# length leaves room for the values and the header; and each time it is read, the header must be, byte for byte, the
# one of a single plain page of so many values. Whatever is otherwise is left to Arrow.

Bytes = NDArray[np.uint8]
VALUE_BYTES = {"FLOAT": 4, "DOUBLE": 8}
_LEAST_BYTES = 4 * 2**20  # from here on NumPy asks for huge pages
_MOST_FREE_BYTES = 32 * 2**20


@dataclass(frozen=True)
class FlatGroup:
    """Where the values of the wanted columns of a row group begin in their file: starts (columns,); rows each."""

    rows: int
    starts: NDArray[np.int64]


def flat_group(metadata: Any, group: int, columns: Sequence[tuple[int, str]]) -> FlatGroup | None:
    """Lay out some columns of a row group, None unless the metadata of the file says that they are flat.

    Parameters
    ----------
    metadata : pyarrow.parquet.FileMetaData
    columns : index in the file and physical type of each
    """
    row_group = metadata.row_group(group)
    rows = row_group.num_rows
    starts = []
    for index, kind in columns:
        chunk = row_group.column(index)
        header_size = len(page_header(rows, kind))
        start, size = chunk.data_page_offset, chunk.total_compressed_size
        if size != header_size + VALUE_BYTES[kind] * rows or chunk.compression != "UNCOMPRESSED" or rows == 0:
            return None
        starts.append(start + header_size)
    return FlatGroup(rows, np.array(starts, dtype=np.int64))


def flat_columns(
    metadata: Any, schema: Any, names: Sequence[str], kinds: Sequence[str]
) -> tuple[tuple[int, str], ...] | None:
    """Index and physical type of columns by name, None unless each is there once, required and of its type.

    The schema is Arrow's: Parquet's own and the metadata hold each other, so that they would stay in memory until
    Python looks for cycles, which in a long pass it hardly ever does.

    metadata : pyarrow.parquet.FileMetaData; schema : pyarrow.Schema of the same file
    """
    if metadata.num_row_groups == 0:
        return None
    row_group = metadata.row_group(0)
    paths = [row_group.column(index).path_in_schema for index in range(metadata.num_columns)]
    if len(set(paths)) < len(paths):
        return None
    places = {path: index for index, path in enumerate(paths)}
    found = []
    for name, kind in zip(names, kinds, strict=True):
        at = schema.get_field_index(name)  # -1 for a column within another one, too
        if at < 0 or name not in places or schema.field(at).nullable:
            return None
        if row_group.column(places[name]).physical_type != kind:
            return None
        found.append((places[name], kind))
    return tuple(found)


@lru_cache(maxsize=256)
def page_header(rows: int, kind: str) -> Bytes:
    """The header of an uncompressed data page that holds all `rows` values of a required column, plain.

    Source: Apache Parquet, parquet.thrift, PageHeader and DataPageHeader (version 1), in Thrift's compact protocol:
    a field is its distance to the one before and its type in one byte, and a whole number as a zigzag varint.
    """
    i32, struct, stop = 0x15, 0x0C, b"\x00"
    size = _whole(VALUE_BYTES[kind] * rows)
    data_page, plain, rle = _whole(0), _whole(0), _whole(3)
    page = bytes([i32]) + data_page + bytes([i32]) + size + bytes([i32]) + size
    values = b"".join(bytes([i32]) + field for field in (_whole(rows), plain, rle, rle))
    statistics = bytes([0x10 | struct]) + stop  # none of them is set
    return np.frombuffer(page + bytes([0x20 | struct]) + values + statistics + stop + stop, dtype=np.uint8)


def _whole(number: int) -> bytes:
    """A whole number >= 0 as a zigzag varint: seven bits a byte, the lowest first."""
    rest, coded = 2 * number, bytearray()
    while rest > 0x7F:
        coded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*coded, rest])


class _Memory:
    """Stretches of memory that are lent and come back: fresh pages would cost more than the reading."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._free: list[Bytes] = []

    def take(self, size: int) -> Bytes:
        with self._lock:
            for index, memory in enumerate(self._free):
                if len(memory) >= size:
                    return self._free.pop(index)
        return np.empty(max(size, _LEAST_BYTES), dtype=np.uint8)

    def give(self, memory: Bytes) -> None:
        with self._lock:
            self._free.append(memory)
            self._free.sort(key=len)
            while sum(map(len, self._free)) > _MOST_FREE_BYTES:
                del self._free[0]


_memory = _Memory()


@contextmanager
def borrowed_memory(size: int) -> Iterator[Bytes]:
    """Lend memory, (size,) bytes of any content."""
    memory = _memory.take(size)
    try:
        yield memory[:size]
    finally:
        _memory.give(memory)


# Part files that this process holds open for reading stretches of them, and what their metadata say of each.

OPEN_FILES = 32


class PartFile:
    """A part file, for any number of threads at once; closed once nobody holds it.

    Parameters
    ----------
    path : of the file, or of a remote one's copy, which is then held

    Raises
    ------
    OSError or ArrowException : it is missing, or no Parquet file
    """

    def __init__(self, path: Path, copy: RemoteCopy | None = None) -> None:
        self.path, self._copy = path, copy
        # Parquet's own schema must not be asked for here; see flat_columns
        with pq.ParquetFile(path, memory_map=False, pre_buffer=False) as file:
            self.metadata, self._schema = file.metadata, file.schema_arrow
        # no memory map: the pages of a whole data set would count as this process's memory, and a file that is cut off
        # while it is mapped ends the process
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._columns: dict[tuple[tuple[str, ...], str], tuple[tuple[int, str], ...] | None] = {}
        self._groups: dict[tuple[int, tuple[tuple[int, str], ...]], FlatGroup | None] = {}

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)

    def flat_group(self, group: int, features: tuple[str, ...], target: str) -> FlatGroup | None:
        """Return how features (float32) and target (float64) of a row group are laid out, None if they are not flat."""
        wanted = (features, target)
        if wanted not in self._columns:
            kinds = ["FLOAT"] * len(features) + ["DOUBLE"]
            self._columns[wanted] = flat_columns(self.metadata, self._schema, [*features, target], kinds)
        columns = self._columns[wanted]
        if columns is None:
            return None
        if (group, columns) not in self._groups:
            self._groups[group, columns] = flat_group(self.metadata, group, columns)
        return self._groups[group, columns]

    def expect(self, first: int, last: int) -> None:
        """Have the system bring row groups first to last into memory, without waiting, unless the last one is there."""
        opening = self.metadata.row_group(first).column(0)
        closing = self.metadata.row_group(last).column(self.metadata.num_columns - 1)
        start, stop = opening.data_page_offset, closing.data_page_offset + closing.total_compressed_size
        if sys.platform == "linux" and not self._in_memory(stop - 1):
            os.posix_fadvise(self.descriptor, start, stop - start, os.POSIX_FADV_WILLNEED)

    def _in_memory(self, place: int) -> bool:
        """Return whether a byte can be had at once: asking costs a microsecond, bringing in what is there a hundred."""
        try:
            return os.preadv(self.descriptor, [bytearray(1)], place, os.RWF_NOWAIT) == 1
        except OSError:  # it cannot, or the file system cannot tell
            return False


class _OpenParts:
    """The part files of the process, the least recently used ones let go of."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._parts: OrderedDict[tuple[Place, str, str], PartFile] = OrderedDict()

    def open(self, folder: Place, shard: Shard) -> PartFile:
        key = (folder, shard.path, shard.sha256)
        with self._lock:
            part = self._parts.get(key)
        if part is None:
            part = _opened(folder / shard.path, shard)  # by two threads, perhaps, that ask at once
        with self._lock:
            self._parts[key] = part
            self._parts.move_to_end(key)
            if len(self._parts) > OPEN_FILES:
                self._parts.popitem(last=False)
        return part


def _opened(place: Place, shard: Shard) -> PartFile:
    if isinstance(place, Path):
        verify_file(place, shard.sha256)
        return PartFile(place)
    copy = whole_copy_of(place, shard.size_bytes, shard.sha256)
    return PartFile(Path(f"/dev/fd/{copy.descriptor}"), copy)


_open_parts = _OpenParts()


def open_part(data: Dataset, shard: Shard) -> PartFile:
    """The part file of a shard, opened unless it is held; the sha256 tells it from an earlier one of the same path.

    The first time in a process its bytes are verified, and those of a remote shard are brought here.

    Raises
    ------
    DataError : its bytes are not those that were ingested, or a remote one cannot be read
    OSError or ArrowException : it is missing, or no Parquet file
    """
    return _open_parts.open(data.folder, shard)


# Row groups read by Arrow, column by column: what compressed part files take, and whatever is not laid out flat.

Positions = NDArray[np.int64]
Targets = NDArray[np.float64]


class _ArrowFiles(local):
    """Part files that a thread keeps open for Arrow, the least recently used ones closed."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[Place, str], pq.ParquetFile] = OrderedDict()

    def open(self, data: Dataset, shard: Shard) -> pq.ParquetFile:
        key = (data.path(shard), shard.sha256)
        file = self._files.pop(key, None)
        if file is None:
            # no memory map: the pages of a whole data set would count as this process's memory
            part = open_part(data, shard)
            file = pq.ParquetFile(part.path, metadata=part.metadata, memory_map=False, pre_buffer=False)
        self._files[key] = file
        if len(self._files) > OPEN_FILES:
            self._files.popitem(last=False)[1].close()
        return file


_arrow_files = _ArrowFiles()


def read_group(
    data: Dataset, shard: Shard, group: int, into: Positions | range, inputs_out: FloatArray, targets_out: Targets
) -> None:
    """Read one row group by Arrow; its row r goes to row into[r] of inputs_out (., n_features) and targets_out (.,)."""
    from okl.compiled.columns import scatter_columns  # numba: not needed to describe a data set

    positions = np.arange(into.start, into.stop) if isinstance(into, range) else into
    schema = data.schema
    table = read_columns(data, shard, group, [*schema.features, schema.target])
    if len(table) != len(positions):
        raise DataError(
            f"{data.path(shard)}: row group {group} has {len(table)} rows, expected {len(positions)} as manifest.json "
            "says. Ingest the source again."
        )
    *inputs, targets = [_one_chunk(column) for column in table.columns]  # held: the addresses are theirs
    addresses = np.array([_address(chunk) for chunk in inputs], dtype=np.int64)
    scatter_columns(inputs_out, addresses, positions, *schema.shift_and_factor)
    targets_out[positions] = targets_of(schema, targets.to_numpy(zero_copy_only=True))


def read_columns(data: Dataset, shard: Shard, group: int, columns: Sequence[str]) -> pa.Table:
    """Some columns of a row group, as stored and in the order asked for, or DataError."""
    path = data.path(shard)
    try:
        # select: a column named a also matches a.b
        file = _arrow_files.open(data, shard)
        return file.read_row_group(group, columns=list(columns), use_threads=False).select(columns)
    except (pa.ArrowException, OSError, IndexError, KeyError) as error:
        why = (str(error).splitlines() or [""])[0].rstrip(". ")
        raise DataError(f"{path} is missing or damaged at row group {group}: {why}. Ingest the source again.") from None


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """The values of a column as one array, without a copy where it came in one chunk."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _address(chunk: pa.Array) -> int:
    """Return where the values of a column without gaps begin; by way of numpy it takes five times as long."""
    address: int = chunk.buffers()[1].address + chunk.offset * chunk.type.byte_width
    return address


def targets_of(schema: Schema, stored: Targets) -> Targets:
    """Targets to learn from stored values (rows,): -1 or +1, the class index, or the scaled target."""
    if schema.task == "regression":
        shift, factor = schema.target_shift_and_factor
        return (stored - shift) * factor
    if schema.task == "binary":
        return np.where(stored == schema.stored_labels[1], 1.0, -1.0)
    if schema.stored_labels == tuple(map(float, range(len(schema.labels)))):
        return stored
    return stored_index(stored, schema.stored_labels).astype(np.float64)


# Flat row groups of a window read by compiled code, by as many threads as come; what fails is left to Arrow.

MOST_JOBS = 4  # threads that may read a window
CHUNK_BYTES = 2 * 2**20  # of a thread's memory: small enough to stay in cache, large enough for a system call a column
LEAST_CHUNK_ROWS = 4096
Job = Callable[[], None]


@dataclass(frozen=True)
class FlatPiece:
    """A flat row group of a window: its file, its layout, its first row in the window, and how else to read it."""

    part: PartFile
    group: FlatGroup
    first: int
    otherwise: Job


def flat_jobs(
    schema: Schema,
    pieces: Sequence[FlatPiece],
    positions: NDArray[np.int64] | None,
    inputs_out: FloatArray,
    targets_out: Targets,
    targets_of: Callable[[Schema, Targets], Targets],
) -> list[Job]:
    """Calls that together read flat row groups; in any order or in parallel, each takes what the others leave.

    Parameters
    ----------
    positions : (rows of the window,), where row r of the window goes; None: to row r
    inputs_out, targets_out : see `okl.data.reading.read_window`
    targets_of : what is learnt of stored targets, where they are more than two labels
    """
    from okl.compiled.columns import (
        PADDING,
        read_pages,  # numba: not needed to describe a data set
    )

    pages = _pages(pieces)
    chunk_rows = _chunk_rows(int(pages.rows.max()), schema.n_features)
    scaling, finished = page_scaling(schema)
    failed, counter, ended = np.zeros(len(pieces), dtype=np.uint8), np.zeros(8, dtype=np.int64), count(1)
    places = np.empty(0, dtype=np.int64) if positions is None else positions

    def read() -> None:
        with borrowed_memory((schema.n_features + 2) * (4 * chunk_rows + PADDING)) as memory:
            read_pages(
                inputs_out, targets_out, failed, counter, memory, places, pages, scaling, memory.ctypes.data, chunk_rows
            )
        if next(ended) == MOST_JOBS:  # the last one: nobody writes any more
            settle()

    def settle() -> None:
        for index, piece in enumerate(pieces):
            if failed[index]:
                piece.otherwise()
            elif not finished:
                part = slice(piece.first, piece.first + piece.group.rows)
                rows = part if positions is None else positions[part]
                targets_out[rows] = targets_of(schema, targets_out[rows])

    return [read] * MOST_JOBS


def _chunk_rows(rows: int, n_features: int) -> int:
    """Rows of a chunk: a row group is cut into equal parts that fit a thread's memory."""
    most = max(LEAST_CHUNK_ROWS, CHUNK_BYTES // (4 * max(1, n_features)))
    return -(-rows // -(-rows // most))


def _pages(pieces: Sequence[FlatPiece]) -> Pages:
    from okl.compiled.columns import MOST_HEADER_BYTES, Pages

    headers = np.zeros((len(pieces), 2, MOST_HEADER_BYTES), dtype=np.uint8)
    lengths = np.zeros((len(pieces), 2), dtype=np.int64)
    for index, piece in enumerate(pieces):
        for which, kind in enumerate(("FLOAT", "DOUBLE")):
            header = page_header(piece.group.rows, kind)
            headers[index, which, : len(header)] = header
            lengths[index, which] = len(header)
    return Pages(
        np.array([piece.part.descriptor for piece in pieces], dtype=np.int64),
        np.array([piece.group.rows for piece in pieces], dtype=np.int64),
        np.array([piece.first for piece in pieces], dtype=np.int64),
        np.stack([piece.group.starts for piece in pieces]),
        headers,
        lengths,
    )


def page_scaling(schema: Schema) -> tuple[Scaling, bool]:
    """Return the scaling by compiled code, and whether it is all: labels of several classes may need a table."""
    from okl.compiled.columns import Scaling

    shift, factor = schema.target_shift_and_factor if schema.task == "regression" else (0.0, 1.0)
    two_classes = schema.task == "binary"
    positive = float(schema.stored_labels[1]) if two_classes else 0.0
    return Scaling(*schema.shift_and_factor, shift, factor, positive, two_classes), schema.task != "multiclass"


# Runs of consecutive rows read from part files: of flat row groups nothing but these rows' bytes is read.

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
    """Return whether every row group of a shard can be read run by run; a file that cannot be opened is not flat."""
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
    from okl.compiled.columns import (
        MOST_HEADER_BYTES,
        PADDING,
        Pages,
        read_pages,  # numba: not needed to describe data
    )

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


# From part files to inputs and targets: row groups are read, scaled, transposed and put in order in one go.

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
    """Return where the rows of `sample_rows` are: shards, their row groups and positions in these, in order."""
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
