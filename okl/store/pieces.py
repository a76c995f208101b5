"""What there is to score, in pieces to read in parallel: raw rows, or the rows of a data set with their labels."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from okl.errors import DataError
from okl.store.csvfiles import first_word
from okl.store.dataset import Dataset, Schema
from okl.store.encoder import unfit
from okl.store.listing import Kind
from okl.store.looking import looked_through
from okl.store.manifest import is_dataset, open_dataset
from okl.store.matching import check_encodings
from okl.store.parquetfiles import inspect
from okl.store.piecereading import Piece, SourceBatch, read_piece
from okl.store.places import Place, place_of
from okl.store.rawrows import check_columns
from okl.store.reference import open_by, told_types
from okl.store.sources import open_source
from okl.store.targets import stored_index
from okl.store.values import is_text

PIECE_ROWS = 131072


@dataclass(frozen=True)
class TablePiece:
    """Consecutive rows that can be read by themselves; small and picklable.

    index : its place among the pieces; piece : where the rows are; schema : the columns that `read_table` gives
    labels, stored_labels : of a data set with text labels, whose target column is given as text again; else empty
    encoded : whether it is of a data set, whose columns are inputs already
    """

    index: int
    piece: Piece
    schema: pa.Schema
    target: str = ""
    labels: tuple[str, ...] = ()
    stored_labels: tuple[float, ...] = ()
    encoded: bool = False

    def seen_by(self, schema: Schema) -> Schema:
        """The schema of a model for the columns that are here: inputs of a data set are not made again."""
        return replace(schema, encodings=()) if self.encoded else schema

    @property
    def rows(self) -> int | None:
        """Rows of the piece; None if only reading tells."""
        return self.piece.rows

    @property
    def kind(self) -> Kind:
        """Kind of file."""
        return self.piece.kind


def table_pieces(
    source: str | Place | Dataset, model: Schema | None = None, look: bool = True, exact: Collection[str] = ()
) -> tuple[TablePiece, ...]:
    """Lay out a source, or a data set in the order of its shards, as pieces of about 131072 rows.

    A long CSV file is cut at line ends every 32 MiB; a svmlight file is one piece, and so is a Parquet row group,
    however large it is.

    Parameters
    ----------
    source : anything `open_source` takes, a data set, or the folder of one
    model : schema of the model that the rows are for, which tells what text files leave open
    look : go through long CSV files first, to find types that fit all their values; without, their first rows decide
    exact : columns of CSV files that are to come back as they are written; see `looked_through`

    Raises
    ------
    DataError : what `open_source` or `open_dataset` raise; a data set whose inputs were made in another way
    """
    if not isinstance(source, Dataset) and is_dataset(source):
        source = open_dataset(source)
    if not isinstance(source, Dataset):
        opened, types = (open_source(source), {}) if model is None else (open_by(model, source), told_types(model))
        parts = _joined((looked_through(opened, None, types, exact) if look else opened).pieces())
        return tuple(TablePiece(index, piece, piece.schema) for index, piece in enumerate(parts))
    if model is not None:
        check_encodings(source, model)
    schema, labels = source.schema, source.schema.labels
    columns, parts = _dataset_pieces(source)
    named = tuple(label for label in labels if isinstance(label, str))
    if not named:
        return tuple(TablePiece(index, piece, columns, encoded=True) for index, piece in enumerate(parts))
    shown = columns.set(columns.get_field_index(schema.target), pa.field(schema.target, pa.string()))
    return tuple(
        TablePiece(index, piece, shown, schema.target, named, schema.stored_labels, encoded=True)
        for index, piece in enumerate(parts)
    )


def check_pieces(schema: Schema, pieces: Sequence[TablePiece], where: str, with_targets: bool = False) -> None:
    """As `check_columns`, of pieces; the error names the first word among the numbers of a CSV file.

    Raises
    ------
    DataError : columns that the model needs are missing, or are of another kind
    """
    seen, columns = pieces[0].seen_by(schema), pieces[0].schema
    if pieces[0].kind == "csv" and set(seen.source_columns) <= set(columns.names):
        files = {place_of(one.piece.path): one.piece.dialect for one in pieces}
        kinds = {name: columns.field(name).type for name in seen.source_columns}
        worded = (name for name, kind in kinds.items() if is_text(kind) and unfit(seen, name, kind) == "a number")
        for name in worded:
            if word := first_word(files, columns, name):
                raise DataError(
                    f"{word}, but the model takes a number there. Write numbers plainly, such as 1234.5, and leave "
                    "missing ones empty."
                )
    check_columns(seen, columns, where, with_targets)


def _dataset_pieces(data: Dataset) -> tuple[pa.Schema, list[Piece]]:
    any_shard = data.shards[0]
    columns, _ = inspect(data.path(any_shard), any_shard.size_bytes, any_shard.sha256)
    pieces = []
    for shard in data.shards:
        first = 0
        for group, rows in enumerate(shard.row_groups):
            path, size, digest = str(data.path(shard)), shard.size_bytes, shard.sha256
            pieces.append(Piece(path, "parquet", columns, first, rows, (group,), size_bytes=size, sha256=digest))
            first += rows
    return columns, _joined(pieces)


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Neighbouring row groups of one file as one piece, up to PIECE_ROWS rows."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if (
            last is None
            or last.path != piece.path
            or not piece.row_groups
            or ((last.rows or 0) + (piece.rows or 0) > PIECE_ROWS)
        ):
            joined.append(piece)
        else:
            rows = (last.rows or 0) + (piece.rows or 0)
            joined[-1] = replace(last, rows=rows, row_groups=last.row_groups + piece.row_groups)
    return joined


def read_table(
    piece: TablePiece,
    columns: Sequence[str] | None = None,
    batch_rows: int | None = None,
    exact: Collection[str] = (),
) -> Iterator[SourceBatch]:
    """Read one piece in order, as batches of bounded size; see `okl.store.piecereading.read_piece`."""
    for rows in read_piece(piece.piece, columns, batch_rows, exact):
        place = rows.batch.schema.get_field_index(piece.target) if piece.labels else -1
        yield rows if place < 0 else rows._replace(batch=_with_words(piece, rows.batch, place))


def _with_words(piece: TablePiece, batch: pa.RecordBatch, place: int) -> pa.RecordBatch:
    index = stored_index(batch.column(place).to_numpy(), piece.stored_labels)
    words = pa.array(np.array(piece.labels, dtype=object)[index], pa.string())
    return batch.set_column(place, pa.field(piece.target, pa.string()), words)
