"""Sources of raw rows: recognition, division into pieces and scans."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from typing import Literal, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from okl.data.dataset import SvmlightColumns
from okl.data.executor import Execution
from okl.data.ingest import csv, files
from okl.data.ingest import files as ingest_files
from okl.data.ingest import svmlight as ingest_svmlight
from okl.data.ingest.csv import COMMAS, Dialect
from okl.data.ingest.files import Kind, check_schemas, kind_of, list_files
from okl.foundation.errors import DataError
from okl.foundation.locations import Place, combined_digest, file_digest, place_of

# Pieces: consecutive rows of a source.

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
        stream = files.read_parquet(place, piece.row_groups, names, limit, piece.size_bytes, piece.sha256)
    elif piece.kind == "csv":
        stream = csv.read(place, piece.schema, names, limit, exact, piece.span, piece.first_row, piece.dialect)
    else:
        assert piece.svmlight is not None, "as open_source makes such pieces"
        stream = ingest_svmlight.read_svmlight(place, piece.schema, piece.svmlight, names, limit)
    row = piece.first_row
    for batch in stream:
        yield SourceBatch(piece.path, row, batch)
        row += batch.num_rows


def count_rows(piece: Piece) -> int:
    """Rows of a piece."""
    if piece.rows is not None:
        return piece.rows
    return csv.count_rows(place_of(piece.path), piece.schema, piece.span, piece.dialect)


# Source recognition.


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
    """Reading of the indices of svmlight text: see `okl.data.ingest.svmlight.plan_columns`.

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
    schema, groups = ingest_files.inspect(file)
    firsts = [0, *accumulate(groups)]
    pieces = [Piece(str(file), "parquet", schema, firsts[i], rows, (i,)) for i, rows in enumerate(groups) if rows > 0]
    return pieces or [Piece(str(file), "parquet", schema, 0, 0)]


def _csv_pieces(files: Sequence[Place], types: Mapping[str, pa.DataType]) -> list[Piece]:
    inspected = [csv.inspect(file) for file in files]
    schemas = [one.schema for one in inspected]
    if all(schema.names == schemas[0].names for schema in schemas):  # types that a few rows suggest may differ
        schemas = [reduce(csv.merged_types, schemas)] * len(schemas)
    schemas = [csv.settled(one) for one in schemas]
    schemas = [pa.schema([field.with_type(_told(field, types)) for field in one]) for one in schemas]
    found = zip(files, schemas, inspected, strict=True)
    return [Piece(str(file), "csv", schema, 0, None, dialect=one.dialect) for file, schema, one in found]


def _told(field: pa.Field, types: Mapping[str, pa.DataType]) -> pa.DataType:
    """The type that a column is to have; of times as fine as they are written, which Arrow would refuse otherwise."""
    told = types.get(field.name, field.type)
    fine = pa.types.is_timestamp(told) and pa.types.is_timestamp(field.type) and field.type.unit == "ns"
    return pa.timestamp("ns", told.tz) if fine else told


def _svmlight_pieces(files: list[Place], reading: SvmlightReading) -> list[Piece]:
    scans = [ingest_svmlight.scan(file) for file in files]
    columns = ingest_svmlight.plan_columns(files, scans, reading.n_columns, reading.first_index, reading.hashed)
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
            else [replace(piece, span=span) for span in csv.stretches(place_of(piece.path))]
        )
    ]


# Scans of CSV files: column types and row counts.

T = TypeVar("T")

MOST_THREADS = 4
LEADING_ZEROS = r"^\s*[-+]?0\d"  # a number does not keep them
MANY_DIGITS = r"^\s*[-+]?\d{16,}\s*$"  # of whole numbers beyond 2^53 float64 keeps the first ones only


def looked_through(
    source: Source, execution: Execution | None, types: Collection[str] = (), exact: Collection[str] = ()
) -> Source:
    """A CSV source with the types that fit all its values, cut into pieces that know their rows; others as they are.

    types : names of columns whose type stands already
    exact : names of columns that are to come back as they are written, such as keys: numbers that would not become text

    A file of a single block has been seen whole, and is left as it is unless there are workers to share it.
    """
    if source.kind != "csv":
        return source
    looked = _settled(source, execution, types)
    changed = rewritten(looked.parts, exact, execution)
    if not changed:
        return looked
    schema = _as_text(looked.schema, changed)
    return replace(looked, schema=schema, parts=tuple(replace(piece, schema=schema) for piece in looked.parts))


def _settled(source: Source, execution: Execution | None, types: Collection[str]) -> Source:
    """The same with types by all values, and pieces; `types` : see `looked_through`."""
    if execution is None and all(csv.of_one_block(file) for file in source.files):
        return source
    pieces = in_stretches(source)
    looks = _in_threads(_look_through, pieces) if execution is None else list(execution.map(_look_through, pieces))
    schema = source.schema
    if all(look is not None for look in looks):
        found = csv.settled(reduce(csv.merged_types, (look.schema for look in looks if look is not None)))
        schema = pa.schema([old if old.name in types else new for old, new in zip(schema, found, strict=True)])
        numbered = zip(pieces, looks, strict=True)
        pieces = [replace(piece, rows=look.rows) for piece, look in numbered if look is not None]
    elif execution is None:  # read as it is: then the error names the row
        return source
    else:  # such as a line end in quotes, just where a block ends
        counted = zip(pieces, execution.map(count_rows, pieces), strict=True)
        pieces = [replace(piece, rows=rows) for piece, rows in counted]
    firsts: dict[str, int] = {}
    parts = []
    for piece in pieces:
        parts.append(replace(piece, schema=schema, first_row=firsts.get(piece.path, 0)))
        firsts[piece.path] = firsts.get(piece.path, 0) + (piece.rows or 0)
    return replace(source, schema=schema, parts=tuple(parts))


def rewritten(pieces: Sequence[Piece], names: Collection[str], execution: Execution | None = None) -> set[str]:
    """Those columns of CSV files that are read as numbers, but hold values that a number would write otherwise.

    Such values are digits with leading zeros, as 00501, and whole numbers of more digits than float64 keeps, where
    int64 does not take them all. Only these columns are read, and none where none of them is of numbers.

    Raises
    ------
    DataError : rows that cannot be read
    """
    kinds = {field.name: field.type for field in pieces[0].schema if field.name in names}
    zeros = [name for name, kind in kinds.items() if pa.types.is_integer(kind) or pa.types.is_floating(kind)]
    if pieces[0].kind != "csv" or not zeros:
        return set()
    work = FindRewritten(tuple(zeros), tuple(name for name in zeros if pa.types.is_floating(kinds[name])))
    found = _in_threads(work, pieces) if execution is None else execution.map(work, pieces)
    return set().union(*found)


@dataclass(frozen=True)
class FindRewritten:
    """Work on a piece: which columns hold leading zeros, or, if they are among `floating`, too many digits."""

    names: tuple[str, ...]
    floating: tuple[str, ...]

    def __call__(self, piece: Piece) -> set[str]:
        """Names of such columns."""
        found, text = set[str](), replace(piece, schema=_as_text(piece.schema, self.names))
        for rows in read_piece(text, self.names, csv.BLOCK_BYTES):
            for name in {*self.names} - found:
                pattern = f"{LEADING_ZEROS}|{MANY_DIGITS}" if name in self.floating else LEADING_ZEROS
                if pc.any(pc.match_substring_regex(rows.batch.column(name), pattern)).as_py():
                    found.add(name)
            if len(found) == len(self.names):
                break
        return found


def _as_text(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    return pa.schema([field.with_type(pa.string()) if field.name in names else field for field in schema])


def _in_threads(work: Callable[[Piece], T], pieces: Sequence[Piece]) -> list[T]:
    """Work on all pieces, in order, several at once: Arrow lets go of Python's lock while it parses."""
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as threads:
        return list(threads.map(work, pieces))


def _look_through(piece: Piece) -> csv.ScanResult | None:
    assert piece.span is not None
    return csv.look_through(place_of(piece.path), piece.schema.names, piece.span, piece.dialect)
