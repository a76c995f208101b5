"""Writing of shards, column statistics and the distribution of ingest over workers."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okl.data.dataset import VALUES, ColumnStatistics, Shard
from okl.data.encoder import encoder_by
from okl.data.execution import Execution
from okl.data.ingest.columns import Roles
from okl.data.ingest.sources import Piece, Source, read_piece
from okl.data.ingest.target_means import fill_train_rows
from okl.data.ingest.targets import MAX_LABELS, TargetReader, Targets, held_out
from okl.data.order import WINDOW_BYTES
from okl.data.sparse import LISTS, finite_sparse_rows, lists_of
from okl.data.values import Mask, apply_missing_policy, value_type
from okl.foundation.errors import DataError, ExecutionError
from okl.foundation.locations import written
from okl.foundation.settings import IngestSettings
from okl.foundation.types import FloatArray, Integers, Split

# Column statistics: merged exactly, in float64.

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class ColumnMoments:
    """Moments of n columns over some rows: all arrays (n,) float64.

    squares : sum of squared deviations from the mean, so that the population variance is squares / count
    """

    count: int
    mean: Vector
    squares: Vector
    minimum: Vector
    maximum: Vector


def empty_moments(n_columns: int) -> ColumnMoments:
    """Return moments over no rows: the neutral element of `merge_moments`."""
    zeros, infinite = np.zeros(n_columns), np.full(n_columns, np.inf)
    return ColumnMoments(0, zeros, zeros.copy(), infinite, -infinite)


def moments_of(columns: Sequence[FloatArray] | FloatArray) -> ColumnMoments:
    """Return moments of columns, each (rows,) of any precision; values are summed in float64."""
    if not len(columns) or not len(columns[0]):
        return empty_moments(len(columns))
    mean, squares, minimum, maximum = np.empty((4, len(columns)))
    for index, column in enumerate(columns):  # column by column: the float64 copy of one stays in cache
        values = column.astype(np.float64)
        mean[index], minimum[index], maximum[index] = values.mean(), column.min(), column.max()
        values -= mean[index]
        squares[index] = np.square(values, out=values).sum()  # no BLAS: its threads would decide the last bits
    return ColumnMoments(len(columns[0]), mean, squares, minimum, maximum)


def merge_moments(first: ColumnMoments, second: ColumnMoments) -> ColumnMoments:
    """Return the moments over the rows of both.

    With delta = mean_2 - mean_1 and n = n_1 + n_2:
    mean = mean_1 + delta n_2 / n,  squares = squares_1 + squares_2 + delta^2 n_1 n_2 / n.

    Source: Chan, Golub & LeVeque, The American Statistician 37(3), 1983, equations 2.1.
    """
    count = first.count + second.count
    if first.count == 0 or second.count == 0:
        return second if first.count == 0 else first
    delta = second.mean - first.mean
    return ColumnMoments(
        count,
        first.mean + delta * (second.count / count),
        first.squares + second.squares + delta * delta * (first.count * (second.count / count)),
        np.minimum(first.minimum, second.minimum),
        np.maximum(first.maximum, second.maximum),
    )


def column_statistics(moments: ColumnMoments) -> tuple[ColumnStatistics, ...]:
    """Return one record a column; the mean of a constant column is exactly its value."""
    mean = np.where(moments.minimum == moments.maximum, moments.minimum, moments.mean)
    deviation = np.sqrt(moments.squares / max(1, moments.count))
    deviation[moments.minimum == moments.maximum] = 0.0
    return tuple(
        ColumnStatistics(moments.count, *map(float, values))
        for values in zip(mean, deviation, moments.minimum, moments.maximum, strict=True)
    )


# Part files: plain-encoded float32 columns, counted and hashed while written.

MOST_VALUES = WINDOW_BYTES // 8  # of the sparse rows of a row group, which a batch of rows may exceed
PAGE_BYTES = 8 * 2**20  # a column of a row group is one page


@dataclass
class ShardWriter:
    """Writes rows of one split to part files named after it; buffers one row group.

    settings : of the ingest; each_group : whether the moments of row groups stay apart, and are not merged
    moments : of the inputs and the target over the train rows that are written, none before the first row group
    """

    folder: Path
    split: Split
    schema: pa.Schema
    n_features: int
    settings: IngestSettings
    each_group: bool
    shards: list[Shard] = field(default_factory=list)
    moments: list[ColumnMoments] = field(default_factory=list)

    def __post_init__(self) -> None:
        # as requested, or fewer so that the inputs of a row group fit the memory of one window
        fitting = WINDOW_BYTES // (4 * max(1, self.n_features))
        rows = max(1, min(self.settings.rows_per_group, self.settings.rows_per_shard, fitting))
        self._inputs, self._targets = np.empty((self.n_features, rows), dtype=np.float32), np.empty(rows)
        self._keys: list[list[pa.Array]] = [[] for _ in self.schema.names[self.n_features + 1 :]]
        self._filled = self._values = 0
        self._has_lists = VALUES in self.schema.names
        self._groups: list[int] = []
        self._file: pq.ParquetWriter | None = None

    def append(self, rows: RowsToWrite) -> None:
        """Take rows of this split."""
        start, n_rows = 0, len(rows.targets)
        while start < n_rows:
            most = min(len(self._targets), self.settings.rows_per_shard - sum(self._groups))
            stop = min(n_rows, start + most - self._filled)
            into = slice(self._filled, self._filled + stop - start)
            self._inputs[:, into] = rows.inputs[:, start:stop]
            self._targets[into] = rows.targets[start:stop]
            for parts, column in zip(self._keys, rows.keys, strict=True):
                parts.append(column.slice(start, stop - start))
            if self._has_lists:
                self._values += len(self._keys[-1][-1].flatten())
            self._filled, start = into.stop, stop
            if self._values >= MOST_VALUES or self._filled == most:
                self._write_group()

    def close(self) -> None:
        """Write what is left and finish the last part file."""
        if self._filled:
            self._write_group()
        if self._file is not None:
            self._finish_file()

    def abandon(self) -> None:
        """Close an unfinished part file; the folder is about to be removed."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _path(self) -> Path:
        return self.folder / f"{self.split}-{len(self.shards):05d}.parquet"

    def _write_group(self) -> None:
        rows = self._filled
        inputs, targets = self._inputs[:, :rows], self._targets[:rows]
        columns = [pa.array(column) for column in (*inputs, targets)]
        for parts, kind in zip(self._keys, self.schema.types[self.n_features + 1 :], strict=True):
            columns.append(pa.concat_arrays([part.cast(kind) for part in parts]))
            parts.clear()
        if self._file is None:
            codec = self.settings.compression
            self._file = pq.ParquetWriter(
                self._path(), self.schema, use_dictionary=False, write_statistics=False, data_page_size=PAGE_BYTES,
                max_rows_per_page=len(self._targets), compression=codec,
                compression_level=self.settings.compression_level if codec == "zstd" else None,
            )  # fmt: skip
        self._file.write_table(pa.Table.from_arrays(columns, schema=self.schema), row_group_size=rows)
        if self.split == "train":
            self.moments.append(moments_of([*inputs, targets]))
            self.moments = self.moments if self.each_group else [reduce(merge_moments, self.moments)]
        self._groups.append(rows)
        self._filled = self._values = 0
        if sum(self._groups) == self.settings.rows_per_shard:
            self._finish_file()

    def _finish_file(self) -> None:
        assert self._file is not None
        self._file.close()
        self._file = None
        path = self._path()
        self.shards.append(
            Shard(len(self.shards), path.name, self.split, tuple(self._groups), path.stat().st_size, written(path))
        )
        self._groups = []


def shard_writers(
    folder: Path, columns: pa.Schema, roles: Roles, settings: IngestSettings, each_group: bool = False
) -> tuple[ShardWriter, ShardWriter]:
    """Return writers of train and test rows into a folder; columns : of the source, whose keys keep their own types."""
    fields = [pa.field(name, pa.float32(), nullable=False) for name in roles.features]
    fields.append(pa.field(roles.target, pa.float64(), nullable=False))
    fields += [pa.field(name, value_type(columns.field(name).type)) for name in roles.keys]
    schema = pa.schema([*fields, *(LISTS.items() if roles.sparse is not None else ())])
    rest = (schema, len(roles.features), settings, each_group)
    return ShardWriter(folder, "train", *rest), ShardWriter(folder, "test", *rest)


# Copying of rows from a source to the writer of their split.
#
# One process copies all rows of a source; a worker copies those that its shards take, by the same code.


class RowCounts(NamedTuple):
    """Numbers of rows of a source read so far: all of them, and those that are stored, by split."""

    rows: int = 0
    train: int = 0
    test: int = 0

    def plus(self, later: RowCounts) -> RowCounts:
        return RowCounts(*map(sum, zip(self, later, strict=True)))


class RowsToWrite(NamedTuple):
    """Rows of a batch that are stored.

    read : rows of the batch; file, numbers : (rows,) numbers of the rows in their file
    inputs (n_features, rows) float32, valid until the next batch; targets (rows,); keys : columns
    test : which of them are test rows, (rows,); None if the source has none
    """

    read: int
    file: str
    numbers: Integers
    inputs: FloatArray
    targets: Targets
    keys: list[pa.Array]
    test: Mask | None

    @property
    def counts(self) -> RowCounts:
        n_test = 0 if self.test is None else int(self.test.sum())
        return RowCounts(self.read, len(self.targets) - n_test, n_test)

    def some(self, at: Integers) -> RowsToWrite:
        """Return the rows at some positions, in order."""
        test = None if self.test is None else self.test[at]
        keys, inputs = [column.take(pa.array(at)) for column in self.keys], self.inputs.take(at, axis=1)
        return RowsToWrite(self.read, self.file, self.numbers[at], inputs, self.targets[at], keys, test)


@dataclass(eq=False)
class RowReader:
    """Reader of rows that applies the policy for missing values.

    roles : what each column is for; targets : reads the target
    with_inputs : whether inputs are made, or only the rest matters
    """

    roles: Roles
    settings: IngestSettings
    targets: TargetReader
    with_inputs: bool = True

    def __post_init__(self) -> None:
        self._encoder = self.roles.encoder if self.with_inputs else encoder_by((), ())
        self._buffer = np.empty((len(self._encoder.features), 0), dtype=np.float32)

    def batches(self, piece: Piece, first_row: int) -> Iterator[RowsToWrite]:
        """Yield the rows of a piece; first_row : number of its first row in the whole source.

        Raises DataError : a value that cannot stay: names file, column and row
        """
        roles, settings, encoder = self.roles, self.settings, self._encoder
        columns = list(dict.fromkeys([*encoder.columns, *roles.other_columns]))
        for rows in read_piece(piece, columns, exact=roles.exact_columns):
            n = rows.batch.num_rows
            if n > self._buffer.shape[1]:
                self._buffer = np.empty((len(encoder.features), n), dtype=np.float32)
            inputs = self._buffer[:, :n]
            encoder.fill(inputs, rows.batch, settings.missing)
            test = held_out(roles, rows, first_row, settings.seed)
            if self.with_inputs:
                fill_train_rows(roles, inputs, rows.batch, first_row, test, settings.seed)
            complete = apply_missing_policy(inputs, encoder.origins, settings.missing, rows.file, rows.first_row)
            targets = self.targets.values(rows)
            if (absent := np.isnan(targets)).any():
                complete = ~absent if complete is None else complete & ~absent
            keys = [rows.batch.column(name) for name in roles.keys]
            if roles.sparse is not None and self.with_inputs:
                keys += lists_of(finite_sparse_rows(rows.batch, roles.sparse, rows.file, rows.first_row))
            read = RowsToWrite(n, rows.file, np.arange(rows.first_row, rows.first_row + n), inputs, targets, keys, test)
            yield read if complete is None else read.some(np.flatnonzero(complete))
            first_row += n


@contextmanager
def closing(writers: tuple[ShardWriter, ShardWriter]) -> Iterator[None]:
    """Finish the part files of writers at the end; after an error close unfinished ones."""
    try:
        yield
        for writer in writers:
            writer.close()
    finally:
        for writer in writers:
            writer.abandon()


def copy_piece(
    reader: RowReader,
    writers: tuple[ShardWriter, ShardWriter],
    piece: Piece,
    at: RowCounts,
    wanted: tuple[range, range] | None = None,
) -> Iterator[RowCounts]:
    """Hand the rows of a piece to the writers of their splits, train and test, and count their labels.

    Yields the rows that have gone by after each batch.

    at : rows before the piece; wanted : numbers among the train rows, and the test rows, that are copied; None: all
    """
    for rows in reader.batches(piece, at.rows):
        before, at = at, at.plus(rows.counts)
        if wanted is not None:
            rows = _within(rows, wanted, before.train, before.test)
        reader.targets.count(rows.targets, rows.test, rows.file, rows.numbers)
        if rows.test is None:
            writers[0].append(rows)
        else:
            for writer, mask in zip(writers, (~rows.test, rows.test), strict=True):
                writer.append(rows.some(np.flatnonzero(mask)))
        yield at
        if wanted is not None and all(
            not numbers or count >= numbers.stop for numbers, count in zip(wanted, at[1:], strict=True)
        ):
            return


def _within(rows: RowsToWrite, wanted: tuple[range, range], train: int, test: int) -> RowsToWrite:
    """Return the rows of a batch whose numbers in their split are wanted; train, test : numbers of its first ones."""
    of_test = np.zeros(len(rows.targets), dtype=np.bool_) if rows.test is None else rows.test
    number = np.where(of_test, test + np.cumsum(of_test) - 1, train + np.cumsum(~of_test) - 1)
    inside = np.zeros(len(number), dtype=np.bool_)
    for of_split, numbers in zip((~of_test, of_test), wanted, strict=True):
        inside |= of_split & (number >= numbers.start) & (number < numbers.stop)
    return rows if inside.all() else rows.some(np.flatnonzero(inside))


# Work items of an ingest on workers.
#
# Each writes to a folder of its own, in one that the caller has made and takes shards out of: a worker that dies, or
# comes too late, leaves nothing that counts.

WRITING = "writing"


@dataclass(frozen=True)
class ShardPosition:
    """A piece of the source, and how many rows come before it."""

    piece: Piece
    at: RowCounts


def piece_positions(pieces: Iterable[Piece]) -> list[ShardPosition]:
    """Return pieces with known rows, each with the number of rows before it."""
    positions, rows = [], 0
    for piece in pieces:
        positions.append(ShardPosition(piece, RowCounts(rows)))
        rows += piece.rows or 0
    return positions


@dataclass(frozen=True)
class ShardTask:
    """Whole shards for one worker to write.

    positions : pieces with rows of these shards; train, test : numbers of rows among those of their split
    """

    positions: tuple[ShardPosition, ...]
    train: range
    test: range


def _count_piece(
    roles: Roles, settings: IngestSettings, reader: TargetReader, position: ShardPosition
) -> tuple[RowCounts, list[str]]:
    """Return how many rows of a piece stay, by split, and the labels that are text, in order of appearance."""
    targets, counts = reader.fresh(), RowCounts()
    rows = RowReader(replace(roles, keys=()), settings, targets, with_inputs=settings.missing == "drop")
    for read in rows.batches(position.piece, position.at.rows):
        counts = counts.plus(read.counts)
    return counts, list(targets.codes)


def _write_task(
    roles: Roles, settings: IngestSettings, reader: TargetReader, folder: Path, task: ShardTask
) -> tuple[list[Shard], list[ColumnMoments], TargetReader]:
    """Write the shards of a task to a folder of its own, in one that the caller has made.

    Returns shards, the moments of each row group of train rows, and the labels.
    """
    own = folder / WRITING / secrets.token_hex(8)
    try:
        own.mkdir()
    except FileNotFoundError as error:
        raise ExecutionError(f"{folder} is not there, where shards wait for each other.") from error
    writers = shard_writers(own, task.positions[0].piece.schema, roles, settings, each_group=True)
    rows = RowReader(roles, settings, reader.fresh())
    with closing(writers):
        for position in task.positions:
            for _ in copy_piece(rows, writers, position.piece, position.at, (task.train, task.test)):
                pass
    shards = [shard for writer in writers for shard in writer.shards]
    own_paths = [replace(shard, path=f"{WRITING}/{own.name}/{shard.path}") for shard in shards]
    return own_paths, writers[0].moments, rows.targets


# Assignment of rows and shards to workers: the bytes equal those of one process.
#
# Which rows a shard takes follows from how many rows stay before it. So workers first read what decides which rows stay
# (labels that are text, a split, missing values), and then each writes whole shards.

Progress = Callable[[int, int | None], None]

TASKS_PER_WORKER = 4  # a worker that dies costs a quarter of its work at most
SHARDS_PER_TASK = 4  # at least, where there are enough: rows at both ends of a task are read by its neighbours, too


def copy_on_workers(
    source: Source,
    roles: Roles,
    settings: IngestSettings,
    reader: TargetReader,
    folder: Path,
    execution: Execution,
    progress: Progress | None,
) -> tuple[RowCounts, list[Shard], ColumnMoments]:
    """Read a source and write its shards on workers.

    reader : of the target; what workers find is added to it
    folder : of the data set to be, which every worker sees under this very path
    Returns rows read, and those that stay, by split; the shards of train, then of test rows; the moments of train rows.
    Raises DataError : as in one process, where rows do not hold what they must
    Raises ExecutionError : a worker that does not see the folder, or cannot write there
    """
    positions, end = _piece_positions(source, roles, settings, reader, execution)
    shards: dict[str, list[Shard]] = {"train": [], "test": []}
    moments = empty_moments(len(roles.features) + 1)
    with _writing_folder(folder):
        work = partial(_write_task, roles, settings, reader, folder)
        for written, groups, targets in execution.map(
            work, _tasks(positions, end, settings.rows_per_shard, execution.n_workers)
        ):
            for shard in written:
                of_split = shards[shard.split]
                of_split.append(moved(folder, shard, len(of_split), shard.split))
            moments = reduce(merge_moments, groups, moments)
            reader.add(targets)
            if progress is not None:
                progress(sum(shard.rows for of_split in shards.values() for shard in of_split), end.train + end.test)
    return end, [*shards["train"], *shards["test"]], moments


@contextmanager
def _writing_folder(folder: Path) -> Iterator[None]:
    """Make the folder in which workers write; remove it with its content at the end.

    First it gets another name: a worker that comes late finds no place, and what it holds open has no name.
    """
    (folder / WRITING).mkdir()
    try:
        yield
    finally:
        discarded = folder / f"{WRITING}.gone"
        os.rename(folder / WRITING, discarded)
        shutil.rmtree(discarded)


def moved(folder: Path, shard: Shard, index: int, name: str) -> Shard:
    """Rename a shard in a folder, or move it there from that of its worker; name : start of its name, before index."""
    renamed = replace(shard, index=index, path=f"{name}-{index:05d}.parquet")
    os.rename(folder / shard.path, folder / renamed.path)
    return renamed


def _piece_positions(
    source: Source, roles: Roles, settings: IngestSettings, reader: TargetReader, execution: Execution
) -> tuple[list[ShardPosition], RowCounts]:
    """Return all pieces in order, each with the remaining rows before it, and all rows; text labels get their codes.

    Raises DataError : more labels than can be classes
    """
    positions, places = piece_positions(source.pieces), [RowCounts()]
    found = execution.map(partial(_count_piece, roles, settings, reader), positions)
    for position, (counts, texts) in zip(positions, found, strict=True):
        for word in texts:
            reader.codes.setdefault(word, len(reader.codes))
        if len(reader.codes) > MAX_LABELS:
            raise DataError(
                f"{position.piece.path}: target {reader.name!r} is text with more than {MAX_LABELS} different labels "
                f"by row {position.piece.first_row + counts.rows}; expected classes. "
                "If it is a key, name another target."
            )
        places.append(places[-1].plus(counts))
    return [ShardPosition(piece, at) for piece, at in zip(source.pieces, places, strict=False)], places[-1]


def _tasks(positions: Sequence[ShardPosition], end: RowCounts, rows_per_shard: int, n_workers: int) -> list[ShardTask]:
    """Return tasks of whole shards, in order, with about equally many shards of each split."""
    ends = [*(position.at for position in positions[1:]), end]
    shards = -(-end.train // rows_per_shard), -(-end.test // rows_per_shard)
    # a piece is read from its beginning by each task that needs some of it
    pieces = len(positions) * (2 if positions[0].piece.kind == "parquet" else 1)
    rounds = max(1, min(TASKS_PER_WORKER, max(shards) // (SHARDS_PER_TASK * n_workers)))
    n_tasks = max(1, min(max(shards), rounds * n_workers, pieces))
    tasks = []
    for number in range(n_tasks):
        train, test = (
            range(*(min(rows, of_split * at // n_tasks * rows_per_shard) for at in (number, number + 1)))
            for of_split, rows in zip(shards, (end.train, end.test), strict=True)
        )
        needed = [
            position
            for position, after in zip(positions, ends, strict=True)
            if _meet(train, position.at.train, after.train) or _meet(test, position.at.test, after.test)
        ]
        if needed:
            tasks.append(ShardTask(tuple(needed), train, test))
    return tasks


def _meet(wanted: range, start: int, stop: int) -> bool:
    return max(wanted.start, start) < min(wanted.stop, stop)
