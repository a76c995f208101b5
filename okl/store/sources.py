"""Where raw rows come from: Parquet files, a CSV or svmlight text, recognised and laid out in pieces."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from typing import Literal

import pyarrow as pa

from okl.errors import DataError
from okl.store import csvblocks, csvtypes, parquetfiles, svmlightfiles
from okl.store.digests import combined_digest, file_digest
from okl.store.listing import Kind, check_schemas, kind_of, list_files
from okl.store.piecereading import Piece, SourceBatch, read_piece
from okl.store.places import Place, place_of


@dataclass(frozen=True)
class Source:
    """Files of one kind and one schema, in the order of their names.

    location : as it was given; schema : columns and their types; rows : None if only reading tells (CSV)
    """

    location: str
    kind: Kind
    schema: pa.Schema
    files: tuple[Place, ...]
    parts: tuple[Piece, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns in the order of the files."""
        return tuple(self.schema.names)

    @property
    def rows(self) -> int | None:
        """Rows of all files, or None where only reading tells."""
        counts = [piece.rows for piece in self.parts]
        return None if None in counts else sum(count or 0 for count in counts)

    def pieces(self) -> tuple[Piece, ...]:
        """Parts that may be read in parallel: one for each row group of Parquet files, else one for each file."""
        return self.parts

    def batches(
        self, columns: Sequence[str] | None = None, batch_rows: int | None = None, exact: Collection[str] = ()
    ) -> Iterator[SourceBatch]:
        """All rows in order: files by name, rows as stored; see `read_piece`."""
        for piece in self.parts:
            yield from read_piece(piece, columns, batch_rows, exact)

    def fingerprint(self, progress: Callable[[int], None] | None = None) -> str:
        """SHA-256 of the names and contents of the files, hexadecimal; progress is told the bytes read so far."""
        done = 0

        def advance(read: int) -> None:
            nonlocal done
            done += read
            if progress is not None:
                progress(done)

        return combined_digest(self.files, (file_digest(file, advance) for file in self.files))


@dataclass(frozen=True)
class SvmlightReading:
    """How indices of svmlight text are to be read: see `okl.store.svmlightfiles.plan_columns`.

    n_columns : the least number of columns (the text leaves zeros out, so the last ones may not show)
    first_index : of the first column; None: 0 if it occurs in a file, else 1
    hashed : columns to fold all of them into; 0: none are
    """

    n_columns: int = 0
    first_index: Literal[0, 1] | None = None
    hashed: int = 0


AS_THEY_COME = SvmlightReading()


def open_source(
    location: str | Place, svmlight: SvmlightReading = AS_THEY_COME, types: Mapping[str, pa.DataType] | None = None
) -> Source:
    """Recognise a source and read its schema; Parquet and CSV rows are not touched, svmlight text is scanned once.

    Parameters
    ----------
    location : a file, a directory of files of one kind, or a glob; paths or URLs
    svmlight : how the indices of such text are columns
    types : of columns of CSV files, whatever their values look like

    Raises
    ------
    DataError : nothing there; a file that is no Parquet, truncated or empty; differing schemas; duplicate columns
    """
    files = list_files(place_of(location))
    kind = kind_of(files[0])
    for file in files[1:]:
        if kind_of(file) != kind:
            raise DataError(
                f"{location} mixes {kind} ({files[0].name}) and {kind_of(file)} ({file.name}); expected one."
            )
    if kind == "svmlight":
        parts = _svmlight_pieces(files, svmlight)
    else:
        parts = (
            _csv_pieces(files, types or {}) if kind == "csv" else [p for file in files for p in _parquet_pieces(file)]
        )
        check_schemas(files, [next(part.schema for part in parts if part.path == str(file)) for file in files])
    source = Source(str(location), kind, parts[0].schema, tuple(files), tuple(parts))
    if source.rows == 0:
        raise DataError(f"{location} holds no rows; expected at least one.")
    return source


def _parquet_pieces(file: Place) -> list[Piece]:
    schema, groups = parquetfiles.inspect(file)
    firsts = [0, *accumulate(groups)]
    pieces = [Piece(str(file), "parquet", schema, firsts[i], rows, (i,)) for i, rows in enumerate(groups) if rows > 0]
    return pieces or [Piece(str(file), "parquet", schema, 0, 0)]


def _csv_pieces(files: Sequence[Place], types: Mapping[str, pa.DataType]) -> list[Piece]:
    inspected = [csvtypes.inspect(file) for file in files]
    schemas = [one.schema for one in inspected]
    if all(schema.names == schemas[0].names for schema in schemas):  # types that a few rows suggest may differ
        schemas = [reduce(csvtypes.merged_types, schemas)] * len(schemas)
    schemas = [csvtypes.settled(one) for one in schemas]
    schemas = [pa.schema([field.with_type(_told(field, types)) for field in one]) for one in schemas]
    found = zip(files, schemas, inspected, strict=True)
    return [Piece(str(file), "csv", schema, 0, None, dialect=one.dialect) for file, schema, one in found]


def _told(field: pa.Field, types: Mapping[str, pa.DataType]) -> pa.DataType:
    """The type that a column is to have; of times as fine as they are written, which Arrow would refuse otherwise."""
    told = types.get(field.name, field.type)
    fine = pa.types.is_timestamp(told) and pa.types.is_timestamp(field.type) and field.type.unit == "ns"
    return pa.timestamp("ns", told.tz) if fine else told


def _svmlight_pieces(files: list[Place], reading: SvmlightReading) -> list[Piece]:
    scans = [svmlightfiles.scan(file) for file in files]
    columns = svmlightfiles.plan_columns(files, scans, reading.n_columns, reading.first_index, reading.hashed)
    return [
        Piece(str(file), "svmlight", columns.schema, 0, scan.rows, svmlight=columns.indices)
        for file, scan in zip(files, scans, strict=True)
    ]


def in_stretches(source: Source) -> list[Piece]:
    """The pieces of a source, those of CSV files cut into stretches of whole lines, whose rows only reading tells."""
    if source.kind != "csv":
        return list(source.pieces())
    return [
        part
        for piece in source.pieces()
        for part in (
            [piece]
            if piece.span is not None
            else [replace(piece, span=span) for span in csvblocks.stretches(place_of(piece.path))]
        )
    ]
