"""Rows on their way from a source to part files: read, settled, counted, and handed to the writer of their split.

One process copies all rows of a source; a worker copies those that its shards take, by the same code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from okl.configuration import IngestSettings
from okl.errors import DataError
from okl.store.columns import Roles
from okl.store.encoder import encoder_by
from okl.store.piecereading import Piece, SourceBatch, read_piece
from okl.store.shards import ShardWriter
from okl.store.splitting import held_out
from okl.store.targets import TargetReader, Targets
from okl.store.values import Mask, missing_target, settle_inputs
from okl.types import FloatArray


class Passed(NamedTuple):
    """Rows of a source that have gone by: all of them, and those that stay, by split."""

    rows: int = 0
    train: int = 0
    test: int = 0


class KeptRows(NamedTuple):
    """Those rows of a batch that stay.

    read : rows of the batch; file, numbers : where they stand, (rows,) numbers in their file
    inputs (n_features, rows) float32, valid until the next batch; targets (rows,); keys : columns
    test : which of them are test rows, (rows,); None if the source has none
    """

    read: int
    file: str
    numbers: NDArray[np.int64]
    inputs: FloatArray
    targets: Targets
    keys: list[pa.Array]
    test: Mask | None

    @property
    def n_test(self) -> int:
        """Test rows."""
        return 0 if self.test is None else int(self.test.sum())

    def some(self, at: NDArray[np.int64]) -> KeptRows:
        """Only those at some positions, in order."""
        test = None if self.test is None else self.test[at]
        keys = [column.take(pa.array(at)) for column in self.keys]
        return KeptRows(self.read, self.file, self.numbers[at], self.inputs[:, at], self.targets[at], keys, test)


@dataclass(eq=False)
class RowReader:
    """Reads rows, settles what is missing, and tells which ones stay.

    Parameters
    ----------
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

    def batches(self, piece: Piece, first_row: int) -> Iterator[KeptRows]:
        """Rows of a piece whose first row has this number in the whole source.

        Raises
        ------
        DataError : a value that cannot stay: names file, column and row
        """
        roles, settings, encoder = self.roles, self.settings, self._encoder
        columns = list(dict.fromkeys([*encoder.columns, *roles.beside]))
        for rows in read_piece(piece, columns, exact=roles.keys):
            n = rows.batch.num_rows
            if n > self._buffer.shape[1]:
                self._buffer = np.empty((len(encoder.features), n), dtype=np.float32)
            inputs = self._buffer[:, :n]
            encoder.fill(inputs, rows.batch, settings.missing)
            complete = settle_inputs(inputs, encoder.origins, settings.missing, rows.file, rows.first_row)
            targets = self.targets.values(rows)
            keep = _kept(targets, complete, self.targets.name, settings, rows)
            test = held_out(roles, rows, first_row, settings.seed)
            keys = [rows.batch.column(name) for name in roles.keys]
            read = KeptRows(n, rows.file, np.arange(rows.first_row, rows.first_row + n), inputs, targets, keys, test)
            yield read if keep is None else read.some(np.flatnonzero(keep))
            first_row += n


@dataclass(eq=False)
class RowCopier:
    """Hands rows to the writers of their splits, train and test, and counts their labels.

    wanted : numbers among the train rows, and among the test rows, that are copied; None: all
    at : where the next piece begins, brought up to date
    """

    reader: RowReader
    writers: tuple[ShardWriter, ShardWriter]
    wanted: tuple[range, range] | None = None
    at: Passed = field(default_factory=Passed)

    def copy(self, piece: Piece) -> Iterator[int]:
        """Copy a piece; the rows read, batch by batch."""
        for rows in self.reader.batches(piece, self.at.rows):
            n_test = rows.n_test
            train, test = self.at.train, self.at.test
            self.at = Passed(self.at.rows + rows.read, train + len(rows.targets) - n_test, test + n_test)
            self._take(rows if self.wanted is None else _within(rows, self.wanted, train, test))
            yield rows.read
            if self._satisfied():
                return

    def _take(self, rows: KeptRows) -> None:
        self.reader.targets.count(rows.targets, rows.test, rows.file, rows.numbers)
        if rows.test is None:
            self.writers[0].append(rows.inputs, rows.targets, rows.keys)
            return
        for writer, mask in zip(self.writers, (~rows.test, rows.test), strict=True):
            at = np.flatnonzero(mask)
            columns = [column.take(pa.array(at)) for column in rows.keys]
            writer.append(rows.inputs.take(at, axis=1), rows.targets[at], columns)

    def _satisfied(self) -> bool:
        """Whether all that is wanted has been copied."""
        if self.wanted is None:
            return False
        train, test = self.wanted
        return (not train or self.at.train >= train.stop) and (not test or self.at.test >= test.stop)


def _within(rows: KeptRows, wanted: tuple[range, range], train: int, test: int) -> KeptRows:
    """Those rows of a batch whose numbers among the rows of their split are wanted; train, test : of its first ones."""
    of_test = np.zeros(len(rows.targets), dtype=np.bool_) if rows.test is None else rows.test
    number = np.where(of_test, test + np.cumsum(of_test) - 1, train + np.cumsum(~of_test) - 1)
    inside = np.zeros(len(number), dtype=np.bool_)
    for of_split, numbers in zip((~of_test, of_test), wanted, strict=True):
        inside |= of_split & (number >= numbers.start) & (number < numbers.stop)
    return rows if inside.all() else rows.some(np.flatnonzero(inside))


def _kept(
    targets: NDArray[np.float64], complete: Mask | None, name: str, settings: IngestSettings, rows: SourceBatch
) -> Mask | None:
    """Which rows stay, or None for all; a target that is missing is an error unless rows may be dropped."""
    absent = np.isnan(targets)
    if not absent.any():
        return complete
    if settings.missing != "drop":
        raise DataError(missing_target(rows.file, name, absent, rows.first_row))
    present: Mask = ~absent
    return present if complete is None else complete & present
