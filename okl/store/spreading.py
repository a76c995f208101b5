"""Ingest on workers: who reads which rows and writes which shards, so that the bytes are those of one process.

Which rows a shard takes follows from how many rows stay before it. So workers first count rows (of CSV files, read in
stretches of whole lines), then look at what decides who stays (labels that are text, a split, missing values) where
that is asked for, and then each writes whole shards.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np

from okl.configuration import IngestSettings
from okl.errors import DataError
from okl.execution.protocol import Execution
from okl.store.columns import Roles
from okl.store.dataset import Shard
from okl.store.digests import combined_digest, file_digest
from okl.store.piecereading import Piece, count_rows
from okl.store.places import Place
from okl.store.rowcopying import Passed
from okl.store.shards import Written
from okl.store.shardwork import WRITING, Look, Seat, Task, Write
from okl.store.sources import Source, in_stretches
from okl.store.splitting import hash_share
from okl.store.statistics import Moments, empty_moments, merge_moments
from okl.store.targets import MAX_LABELS, TargetReader

Progress = Callable[[int, int | None], None]

TASKS_PER_WORKER = 4  # a worker that dies costs a quarter of its work at most
SHARDS_PER_TASK = 4  # at least, where there are enough: rows at both ends of a task are read by its neighbours, too


class Counts(NamedTuple):
    """Rows that were read and rows that were dropped for a missing value."""

    read: int
    dropped: int


def fingerprint_on_workers(source: Source, execution: Execution) -> str:
    """`Source.fingerprint`, a file at a time on the workers."""
    return combined_digest(source.files, execution.map(_digest, source.files))


def _digest(file: Place) -> str:
    return file_digest(file)


def copy_on_workers(
    source: Source,
    roles: Roles,
    settings: IngestSettings,
    reader: TargetReader,
    folder: Path,
    execution: Execution,
    progress: Progress | None,
) -> tuple[Counts, Written, Written]:
    """Have workers read a source and write its shards.

    Parameters
    ----------
    reader : of the target; what workers find is added to it
    folder : of the data set to be, which every worker sees under this very path

    Returns
    -------
    rows read and dropped; what was written of train and of test rows: paths are from the folder

    Raises
    ------
    DataError : as in one process, where rows do not hold what they must
    ExecutionError : a worker that does not see the folder, or cannot write there
    """
    seats, end = _seated(source, roles, settings, reader, execution)
    shards: tuple[list[Shard], list[Shard]] = ([], [])
    moments = empty_moments(len(roles.features)), empty_moments(1)
    with _writing_room(folder):
        work = Write(roles, settings, reader, folder)
        for part in execution.map(work, _tasks(seats, end, settings.rows_per_shard, execution.n_workers)):
            for found, more in zip(shards, part.shards, strict=True):
                found += [_lifted(folder, shard, len(found) + at) for at, shard in enumerate(more)]
            moments = reduce(_merged, part.groups, moments)
            reader.add(part.targets)
            if progress is not None:
                progress(sum(shard.rows for found in shards for shard in found), end.train + end.test)
    train, test = (Written(found, *moments) for found in shards)
    return Counts(end.rows, end.rows - end.train - end.test), train, test


def _merged(one: tuple[Moments, Moments], other: tuple[Moments, Moments]) -> tuple[Moments, Moments]:
    return merge_moments(one[0], other[0]), merge_moments(one[1], other[1])


@contextmanager
def _writing_room(folder: Path) -> Iterator[None]:
    """The folder that workers write in, which goes with all that is left there.

    First it gets another name: a worker that comes late finds no place, and what it holds open has no name.
    """
    (folder / WRITING).mkdir()
    try:
        yield
    finally:
        gone = folder / f"{WRITING}.gone"
        os.rename(folder / WRITING, gone)
        shutil.rmtree(gone)


def _lifted(folder: Path, shard: Shard, index: int) -> Shard:
    """A shard taken out of where it was written."""
    lifted = replace(shard, index=index, path=f"{shard.split}-{index:05d}.parquet")
    os.rename(folder / shard.path, folder / lifted.path)
    return lifted


def _seated(
    source: Source, roles: Roles, settings: IngestSettings, reader: TargetReader, execution: Execution
) -> tuple[list[Seat], Passed]:
    """All pieces in order with what comes before each, and what comes before the end."""
    pieces = in_stretches(source)  # as they are, where the source was looked through
    if any(piece.rows is None for piece in pieces):
        counted = execution.map(count_rows, pieces)
        pieces = [replace(piece, rows=rows) for piece, rows in zip(pieces, counted, strict=True)]
        pieces = list(_numbered(pieces))
    firsts = [Passed(first) for first in accumulate((piece.rows or 0 for piece in pieces), initial=0)]
    seats = [Seat(piece, at) for piece, at in zip(pieces, firsts, strict=False)]
    decided = roles.split or roles.holdout or settings.missing == "drop" or reader.text
    held = list(_looked(seats, roles, settings, reader, execution) if decided else _drawn(seats, roles, settings))
    places = list(accumulate(held, _beyond, initial=Passed()))
    return [Seat(piece, at) for piece, at in zip(pieces, places, strict=False)], places[-1]


def _beyond(at: Passed, held: Passed) -> Passed:
    return Passed(at.rows + held.rows, at.train + held.train, at.test + held.test)


def _numbered(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Pieces that know the number of their first row in their file."""
    first: dict[str, int] = {}
    for piece in pieces:
        yield replace(piece, first_row=first.get(piece.path, 0))
        first[piece.path] = first.get(piece.path, 0) + (piece.rows or 0)


def _looked(
    seats: Sequence[Seat], roles: Roles, settings: IngestSettings, reader: TargetReader, execution: Execution
) -> Iterator[Passed]:
    """What stays of each piece; text labels get their codes, in the order of all rows.

    Raises
    ------
    DataError : more labels than can be classes
    """
    for seat, (held, words) in zip(seats, execution.map(Look(roles, settings, reader), seats), strict=True):
        for word in words:
            reader.codes.setdefault(word, len(reader.codes))
        if len(reader.codes) > MAX_LABELS:
            raise DataError(
                f"{seat.piece.path}: target {reader.name!r} is text with more than {MAX_LABELS} different labels by "
                f"row {seat.piece.first_row + held.rows}; expected classes. If it is a key, name another target."
            )
        yield held


def _drawn(seats: Sequence[Seat], roles: Roles, settings: IngestSettings) -> Iterator[Passed]:
    """How many rows of each piece are train and test rows, where only their numbers decide."""
    for seat in seats:
        rows, test = seat.piece.rows or 0, 0
        for start in range(0, rows if roles.share > 0 else 0, 2**20):
            some = hash_share(seat.at.rows + start, min(2**20, rows - start), settings.seed)
            test += int(np.count_nonzero(some < roles.share))
        yield Passed(rows, rows - test, test)


def _tasks(seats: Sequence[Seat], end: Passed, rows_per_shard: int, n_workers: int) -> list[Task]:
    """Whole shards, in order, about as many of each split for each task."""
    ends = [*(seat.at for seat in seats[1:]), end]
    shards = -(-end.train // rows_per_shard), -(-end.test // rows_per_shard)
    # a piece is read from its beginning by each task that needs some of it
    pieces = len(seats) * (2 if seats[0].piece.kind == "parquet" else 1)
    rounds = max(1, min(TASKS_PER_WORKER, max(shards) // (SHARDS_PER_TASK * n_workers)))
    n_tasks = max(1, min(max(shards), rounds * n_workers, pieces))
    tasks = []
    for number in range(n_tasks):
        train, test = (
            range(*(min(rows, of_split * at // n_tasks * rows_per_shard) for at in (number, number + 1)))
            for of_split, rows in zip(shards, (end.train, end.test), strict=True)
        )
        needed = [
            seat
            for seat, after in zip(seats, ends, strict=True)
            if _meet(train, seat.at.train, after.train) or _meet(test, seat.at.test, after.test)
        ]
        if needed:
            tasks.append(Task(tuple(needed), train, test))
    return tasks


def _meet(wanted: range, start: int, stop: int) -> bool:
    return max(wanted.start, start) < min(wanted.stop, stop)
