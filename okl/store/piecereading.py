"""Pieces of a source, and reading them: consecutive rows in order, in bounded memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from okl.store import csvfiles, parquetfiles, svmlightfiles
from okl.store.dialects import COMMAS, Dialect
from okl.store.encodings import SvmlightColumns
from okl.store.listing import Kind
from okl.store.places import place_of

BATCH_ROWS = 16384
BATCH_BYTES = 16 * 2**20


class SourceBatch(NamedTuple):
    """Consecutive rows of one file: its name, the number of the first row in that file (from 0), and the columns."""

    file: str
    first_row: int
    batch: pa.RecordBatch


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of one file that can be read by themselves; small and picklable.

    path : absolute path, or URL; first_row : number of its first row in the file; rows : None if only reading tells
    row_groups : of a Parquet file; schema : columns and their types; svmlight : how its indices are columns
    size_bytes, sha256 : of a shard of a data set, whose bytes are verified before they are read; else 0 and empty
    span : of a CSV file, the first of its bytes and the first that is another's; None: all of them
    dialect : of a CSV file, how its text is values
    """

    path: str
    kind: Kind
    schema: pa.Schema
    first_row: int
    rows: int | None
    row_groups: tuple[int, ...] = ()
    svmlight: SvmlightColumns | None = None
    size_bytes: int = 0
    sha256: str = ""
    span: tuple[int, int] | None = None
    dialect: Dialect = COMMAS


def read_piece(
    piece: Piece, columns: Sequence[str] | None = None, batch_rows: int | None = None, exact: Collection[str] = ()
) -> Iterator[SourceBatch]:
    """Read one piece in order as batches of bounded size.

    Parameters
    ----------
    columns : names to read, in this order; None: all
    batch_rows : rows a batch at most; None: 16384, fewer where columns are many
    exact : columns whose whole numbers stay whole (keys); the others of a CSV file are read as float64
    """
    names = list(piece.schema.names if columns is None else columns)
    limit = batch_rows or max(1, min(BATCH_ROWS, BATCH_BYTES // (8 * max(1, len(names)))))
    place = place_of(piece.path)
    if piece.kind == "parquet":
        stream = parquetfiles.read(place, piece.row_groups, names, limit, piece.size_bytes, piece.sha256)
    elif piece.kind == "csv":
        stream = csvfiles.read(place, piece.schema, names, limit, exact, piece.span, piece.first_row, piece.dialect)
    else:
        assert piece.svmlight is not None, "as open_source makes such pieces"
        stream = svmlightfiles.read(place, piece.schema, piece.svmlight, names, limit)
    row = piece.first_row
    for batch in stream:
        yield SourceBatch(piece.path, row, batch)
        row += batch.num_rows


def count_rows(piece: Piece) -> int:
    """Rows of a piece."""
    if piece.rows is not None:
        return piece.rows
    return csvfiles.count_rows(place_of(piece.path), piece.schema, piece.span, piece.dialect)
