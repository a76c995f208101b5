"""Scoring of a source piece by piece."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from okl.data.dataset import Dataset, Schema
from okl.data.encoder import unfit
from okl.data.execution import Rows
from okl.data.ingest.csv import first_word
from okl.data.ingest.reference import csv_types, open_by
from okl.data.ingest.sources import Kind, Piece, SourceBatch, inspect_parquet, open_source, read_piece, scan_source
from okl.data.ingest.targets import stored_index
from okl.data.ingest.value_formats import convert_table
from okl.data.manifest import is_dataset, open_dataset
from okl.data.sparse import n_rows as count_inputs
from okl.data.sparse import stacked
from okl.data.values import is_text
from okl.foundation.errors import ConfigError, DataError, ModelError
from okl.foundation.locations import Place, place_of
from okl.foundation.types import FloatArray, Precision
from okl.models.inputs import (
    RawRows,
    RawValues,
    Replaced,
    batch_of,
    check_columns,
    check_encodings,
    checked_array,
    is_array,
    prepare_rows,
    table_of,
    warn_of_replaced,
)

# Pieces of a source to be scored in parallel.

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

    def schema_for(self, schema: Schema) -> Schema:
        """Return a model's schema for the columns of the piece: those of a data set are inputs already."""
        if not self.encoded:
            return schema
        sparse = schema.sparse and replace(schema.sparse, texts=())
        return replace(schema, encodings=(), sparse=sparse)

    @property
    def rows(self) -> int | None:
        return self.piece.rows

    @property
    def kind(self) -> Kind:
        return self.piece.kind


def table_pieces(
    source: str | Place | Dataset, model: Schema | None = None, look: bool = True, exact: Collection[str] = ()
) -> tuple[TablePiece, ...]:
    """Lay out a source, or a data set in the order of its shards, as pieces of about 131072 rows.

    A long CSV file is cut at line ends every 32 MiB; a svmlight file is one piece, and so is a Parquet row group,
    however large it is.

    source : anything `open_source` takes, a data set, or the folder of one
    model : schema of the model that the rows are for, which resolves what text files leave open
    look : go through long CSV files first, to find types that fit all their values; without, their first rows decide
    exact : columns of CSV files that are to come back as they are written; see `scan_source`
    Raises DataError : what `open_source` or `open_dataset` raise; a data set whose inputs were made in another way
    """
    if not isinstance(source, Dataset) and is_dataset(source):
        source = open_dataset(source)
    if not isinstance(source, Dataset):
        opened, types = (open_source(source), {}) if model is None else (open_by(model, source), csv_types(model))
        parts = _joined((scan_source(opened, None, types, exact) if look else opened).pieces)
        return tuple(TablePiece(index, piece, piece.schema) for index, piece in enumerate(parts))
    if model is not None:
        check_encodings(source, model)
    schema, labels = source.schema, source.schema.labels
    columns, parts = _dataset_pieces(source)
    if named := tuple(label for label in labels if isinstance(label, str)):
        columns = columns.set(columns.get_field_index(schema.target), pa.field(schema.target, pa.string()))
    return tuple(
        TablePiece(index, piece, columns, schema.target, named, schema.stored_labels, encoded=True)
        for index, piece in enumerate(parts)
    )


def check_pieces(schema: Schema, pieces: Sequence[TablePiece], where: str, with_targets: bool = False) -> None:
    """Check the columns of pieces, or raise DataError, which names the first text in a numeric column of CSV."""
    seen, columns = pieces[0].schema_for(schema), pieces[0].schema
    if pieces[0].kind == "csv" and set(seen.source_columns) <= set(columns.names):
        files = {place_of(piece.piece.path): piece.piece.dialect for piece in pieces}
        texts = {text.column for text in seen.sparse.texts} if seen.sparse is not None else set()
        kinds = {name: columns.field(name).type for name in seen.source_columns if name not in texts}
        text_columns = (name for name, kind in kinds.items() if is_text(kind) and unfit(seen, name, kind) == "a number")
        for name in text_columns:
            if word := first_word(files, columns, name):
                raise DataError(
                    f"{word}, but the model requires a number. Write numbers such as 1234.5, and leave "
                    "missing ones empty."
                )
    check_columns(seen, columns, where, with_targets)


def _dataset_pieces(data: Dataset) -> tuple[pa.Schema, list[Piece]]:
    any_shard = data.shards[0]
    columns, _ = inspect_parquet(data.path(any_shard), any_shard.size_bytes, any_shard.sha256)
    pieces = []
    for shard in data.shards:
        first = 0
        for group, rows in enumerate(shard.row_groups):
            path, size, digest = str(data.path(shard)), shard.size_bytes, shard.sha256
            pieces.append(Piece(path, "parquet", columns, first, rows, (group,), size_bytes=size, sha256=digest))
            first += rows
    return columns, _joined(pieces)


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Join neighbouring row groups of one file into pieces of up to PIECE_ROWS rows."""
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
    piece: TablePiece, columns: Sequence[str] | None = None, batch_rows: int | None = None, exact: Collection[str] = ()
) -> Iterator[SourceBatch]:
    """Read one piece in order, as batches of bounded size; see `okl.data.ingest.sources.read_piece`."""
    for rows in read_piece(piece.piece, columns, batch_rows, exact):
        at = rows.batch.schema.get_field_index(piece.target) if piece.labels else -1
        if at >= 0:
            index = stored_index(rows.batch.column(at).to_numpy(), piece.stored_labels)
            labels = pa.array(np.array(piece.labels, dtype=object)[index], pa.string())
            rows = rows._replace(batch=rows.batch.set_column(at, pa.field(piece.target, pa.string()), labels))
        yield rows


def raw_rows(schema: Schema, piece: TablePiece, precision: Precision, with_targets: bool = False) -> Iterator[RawRows]:
    """Yield the rows of a piece, prepared for a model's schema (`TablePiece.schema_for`), batch by batch."""
    for batch in read_table(piece, [*schema.source_columns, *([schema.target] if with_targets else [])]):
        yield prepare_rows(schema, batch, precision, with_targets)


def located_inputs(schema: Schema, precision: Precision, location: str) -> FloatArray:
    """Return scaled inputs (rows, n_features) of all rows of files or of a data set; see `Model.prepare`."""
    parts, n_rows, replaced = list[FloatArray](), 0, Replaced()
    for rows in _rows_at(schema, precision, location, with_targets=False):
        if rows.complete is not None and not rows.complete.all():
            raise ModelError(
                f"{location}: row {n_rows + int(rows.complete.argmin())} (counted from 0) has a missing "
                "value, but the model requires complete rows. Drop such rows, or use okl.predict."
            )
        parts.append(rows.inputs)
        n_rows += count_inputs(rows.inputs)
        replaced.update(rows.replaced)
    warn_of_replaced(replaced, schema)
    inputs: FloatArray = stacked(parts)
    return inputs


def labelled_rows(schema: Schema, precision: Precision, values: RawValues, targets: Any = None) -> Rows:
    """Return complete rows with targets, test rows of a data set if any, see `Model.evaluate`; or raise DataError."""
    if not isinstance(values, str | os.PathLike):
        parts = [_rows_of(schema, precision, values, targets)]
    elif targets is None:
        parts = list(_rows_at(schema, precision, os.fspath(values), with_targets=True))
    else:
        raise ConfigError("targets are for rows in memory. Give files with the target column, and no targets.")
    inputs = stacked([rows.inputs[rows.kept] for rows in parts])
    if not count_inputs(inputs):
        raise DataError("There is no row without missing values. Give complete rows.")
    return Rows(inputs, np.concatenate([rows.targets[rows.kept] for rows in parts if rows.targets is not None]))


def _rows_at(schema: Schema, precision: Precision, location: str, with_targets: bool) -> Iterator[RawRows]:
    """Yield the rows of files, or of a data set: of that with targets, its test rows if there are any."""
    source: str | Dataset = location
    if is_dataset(location):
        source = open_dataset(location)
        test = source.split("test") if with_targets else ()
        source = replace(source, shards=test) if test else source
    pieces = table_pieces(source, schema)
    check_pieces(schema, pieces, location, with_targets)
    for piece in pieces:
        yield from raw_rows(piece.schema_for(schema), piece, precision, with_targets)


def _rows_of(schema: Schema, precision: Precision, values: RawValues, targets: Any) -> RawRows:
    """Return rows of a table, or of an array of inputs, with their targets."""
    if is_array(values):
        schema = replace(schema, encodings=())
        values = pa.table(dict(zip(schema.features, np.asarray(checked_array(schema, values)).T, strict=True)))
    table = table_of(values)
    if targets is not None:
        if schema.target in table.column_names:
            table = table.drop_columns([schema.target])
        column = pa.array(targets) if isinstance(targets, list | tuple) else pa.array(np.asarray(targets))
        if len(column) != table.num_rows:
            raise DataError(f"There are {len(column):,} targets, but {table.num_rows:,} rows. Give one for each row.")
        table = table.append_column(schema.target, column)
    table = convert_table(table, schema)
    check_columns(schema, table.schema, "table", with_targets=True)
    return prepare_rows(schema, batch_of(table, [*schema.source_columns, schema.target]), precision, True)
