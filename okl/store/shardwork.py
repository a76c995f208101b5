"""What a worker does of an ingest: look at a piece of the source, or write whole shards.

Each writes to a folder of its own, in one that the caller has made and takes shards out of: a worker that dies, or
comes too late, leaves nothing that counts.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from okl.configuration import IngestSettings
from okl.errors import ExecutionError
from okl.store.columns import Roles
from okl.store.dataset import Shard
from okl.store.piecereading import Piece
from okl.store.rowcopying import Passed, RowCopier, RowReader
from okl.store.shards import shard_writers
from okl.store.statistics import Moments
from okl.store.targets import TargetReader

WRITING = "writing"


@dataclass(frozen=True)
class Seat:
    """A piece of the source, and how many rows come before it."""

    piece: Piece
    at: Passed


@dataclass(frozen=True)
class Task:
    """Whole shards for one worker to write.

    seats : pieces with rows of these shards; train, test : numbers of rows among those of their split
    """

    seats: tuple[Seat, ...]
    train: range
    test: range


@dataclass(frozen=True)
class Look:
    """Work on a piece: how many rows stay, by split, and the labels that are text, in the order of their appearance."""

    roles: Roles
    settings: IngestSettings
    reader: TargetReader

    def __call__(self, seat: Seat) -> tuple[Passed, list[str]]:
        """What the piece holds."""
        targets = self.reader.fresh()
        roles = replace(self.roles, keys=())
        train = test = rows = 0
        with_inputs = self.settings.missing == "drop"
        for read in RowReader(roles, self.settings, targets, with_inputs).batches(seat.piece, seat.at.rows):
            n_test = read.n_test
            rows, train, test = rows + read.read, train + len(read.targets) - n_test, test + n_test
        return Passed(rows, train, test), list(targets.codes)


class Part(NamedTuple):
    """What became of a task: shards by split, moments of each row group of train rows, and the labels found."""

    shards: tuple[list[Shard], list[Shard]]
    groups: list[tuple[Moments, Moments]]
    targets: TargetReader


@dataclass(frozen=True)
class Write:
    """Work on a task: write its shards to a folder of its own, in one that the caller has made."""

    roles: Roles
    settings: IngestSettings
    reader: TargetReader
    folder: Path

    def __call__(self, task: Task) -> Part:
        """The shards, by their paths from the caller's folder."""
        own = self.folder / WRITING / secrets.token_hex(8)
        try:
            own.mkdir()
        except FileNotFoundError as error:
            raise ExecutionError(f"{self.folder} is not there, where shards wait for each other.") from error
        targets = self.reader.fresh()
        writers = shard_writers(own, task.seats[0].piece.schema, self.roles, self.settings)
        writers[0].groups = []
        reader = RowReader(self.roles, self.settings, targets)
        copier = RowCopier(reader, writers, (task.train, task.test))
        try:
            for seat in task.seats:
                copier.at = seat.at
                for _ in copier.copy(seat.piece):
                    pass
            for writer in writers:
                writer.close()
        finally:
            for writer in writers:
                writer.abandon()
        train, test = (
            [replace(shard, path=f"{WRITING}/{own.name}/{shard.path}") for shard in writer.shards] for writer in writers
        )
        return Part((train, test), writers[0].groups, targets)
