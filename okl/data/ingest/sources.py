"""Sources of raw rows: recognition, division into pieces and scans."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, reduce
from glob import glob, has_magic
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okl.data.dataset import INDICES, MANIFEST, ColumnFormat, SvmlightColumns
from okl.data.execution import Execution
from okl.data.ingest import csv, jsonlines
from okl.data.ingest.csv import COMMAS, PACKED, Dialect, check_unique, open_text, packing_of, unpacked_ending
from okl.data.ingest.value_formats import TYPES, convert
from okl.data.order import MOST_INPUTS, mix_bits
from okl.data.sparse import LISTS, MOST_COLUMNS, lists_of
from okl.data.values import is_date, is_text, numbers_among, without_numbers
from okl.foundation.errors import DataError, first_line, quoted
from okl.foundation.locations import Place, combined_digest, file_sha256, open_binary, place_of, readable, size_of
from okl.foundation.types import Doubles, Integers

# File listing, formats and agreement of columns.

Kind = Literal["parquet", "csv", "json", "svmlight"]
ENDINGS: dict[str, Kind] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".txt": "svmlight",
}
EXPECTED = f"{', '.join(ENDINGS)}, or text compressed as {', '.join(PACKED)}"


def kind_by_name(name: str) -> Kind | None:
    """Return the kind of a file by its ending; None if the ending does not name a data format."""
    kind = ENDINGS.get(unpacked_ending(name))
    return None if kind == "parquet" and packing_of(name) else kind


def list_files(location: Place) -> list[Place]:
    """Return the files of a source by name: the file itself, the data files of a folder, or those of a glob."""
    if location.is_dir():
        files: list[Place] = (
            [file for file in location.iterdir() if file.is_file()]
            if isinstance(location, Path)
            else [file for file, _ in location.files()]
        )
        if any(file.name == MANIFEST for file in files):
            raise DataError(f"{location} is a data set already; expected raw rows. Use it as it is.")
        files = [file for file in files if kind_by_name(file.name) and file.name[0] not in "._"]
        if not files:
            raise DataError(f"{location} is a folder without data files; expected files that end in {EXPECTED}.")
        return sorted((file.absolute() for file in files), key=lambda file: file.name)
    if location.exists():
        return [location.absolute()]
    if not has_magic(str(location)):
        raise DataError(f"{location} does not exist; expected a file, a folder or a glob.")
    matches = (
        [path.absolute() for path in sorted(map(Path, glob(str(location)))) if path.is_file()]
        if isinstance(location, Path)
        else location.matches()
    )
    if not matches:
        raise DataError(f"no file matches {location}. Check its folder and pattern.")
    return [*matches]


def kind_of(file: Place) -> Kind:
    """Return the kind of a file by its ending; Parquet also by its first bytes, and `.txt` by its first line."""
    kind = kind_by_name(file.name)
    try:
        with open_binary(file) as stream:
            magic = stream.read(4)
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from None
    if magic == MAGIC:
        return "parquet"
    if kind is None and unpacked_ending(file.name) == ".json":  # not in folders: it may be any JSON there
        return "json"
    if kind is None:
        ending = unpacked_ending(file.name) + (Path(file.name.lower()).suffix if packing_of(file.name) else "")
        raise DataError(
            f"{file}: the ending {ending!r} is unknown; expected {EXPECTED}. Unpack an archive; save a sheet as CSV."
        )
    if unpacked_ending(file.name) == ".txt" and not _begins_like_svmlight(file):
        return "csv"
    return kind


def _begins_like_svmlight(file: Place) -> bool:
    """Return whether the first line, comments apart, is a label with INDEX:VALUE pairs, or has no mark of a table."""
    with open_text(file) as stream:
        lines = bytes(stream.read(65536)).splitlines()
    line = next((line for line in lines if line.strip() and not line.startswith(b"#")), b"")
    pairs = re.match(rb"\s*[-+.,\deE]+(\s+(qid|\d+):\S+)+", line)
    return pairs is not None or not re.search(rb"[\t,;|]|^\xff\xfe|^\xfe\xff", line)


def check_schemas(files: Sequence[Place], schemas: Sequence[pa.Schema]) -> None:
    """Raise DataError if a file has two columns of one name, or differs from the first file in columns or types."""
    first = dict(zip(schemas[0].names, schemas[0].types, strict=True))
    for file, schema in zip(files, schemas, strict=True):
        check_unique(schema, file)
        other = dict(zip(schema.names, schema.types, strict=True))
        differences = [f"{name!r} is only in the former" for name in first if name not in other]
        differences += [f"{name!r} is only in the latter" for name in other if name not in first]
        differences += [
            f"{name!r} is {kind} in the former, {other[name]} in the latter"
            for name, kind in first.items()
            if other.get(name, kind) != kind
        ]
        if differences:
            more = f", and {len(differences) - 3} more" if len(differences) > 3 else ""
            raise DataError(
                f"{files[0]} and {file.name} differ in their columns: {'; '.join(differences[:3])}{more}. "
                "All files of a source need the same columns: add what lacks, or give a glob of files that are alike."
            )


# Parquet files.

MAGIC = b"PAR1"
STREAM_BYTES = 65536  # read ahead in each column; without it a whole column chunk comes into memory at once


def inspect_parquet(file: Place, size_bytes: int = 0, sha256: str = "") -> tuple[pa.Schema, tuple[int, ...]]:
    """Return schema and rows of each row group, from the footer alone; verify the bytes of a shard first.

    Raises DataError : the file is empty, no Parquet, or truncated
    """
    if not sha256:
        check_magic(file)
    try:
        with readable(file, size_bytes, sha256) as stream, pq.ParquetFile(stream) as parquet:
            meta = parquet.metadata
            schema = without_view_types(parquet.schema_arrow.remove_metadata())
            return schema, tuple(meta.row_group(group).num_rows for group in range(meta.num_row_groups))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} is a damaged Parquet file: {first_line(error)}.") from None


def check_magic(file: Place) -> None:
    """Raise DataError unless a file begins and ends as Parquet files do."""
    size = size_of(file)
    with open_binary(file) as stream:
        begin = stream.read(4)
        stream.seek(max(0, size - 4))
        end = stream.read(4)
    if size == 0:
        raise DataError(f"{file} is empty; expected a Parquet file.")
    if begin != MAGIC:
        raise DataError(f"{file} is not a Parquet file: it begins with {begin!r} instead of {MAGIC!r}.")
    if end != MAGIC or size < 12:
        raise DataError(f"{file} is a truncated Parquet file: its footer is missing. Write or copy it again.")


def read_parquet(
    file: Place, row_groups: tuple[int, ...], columns: list[str], batch_rows: int, size_bytes: int = 0, sha256: str = ""
) -> Iterator[pa.RecordBatch]:
    """Yield rows of row groups in order, as batches of the columns in the given order; verify the bytes of a shard."""
    try:
        with (
            readable(file, size_bytes, sha256) as stream,
            pq.ParquetFile(stream, pre_buffer=False, buffer_size=STREAM_BYTES) as parquet,
        ):
            for batch in parquet.iter_batches(
                batch_rows, row_groups=list(row_groups), columns=columns, use_threads=False
            ):
                # select: a column named a also matches a.b, and the file keeps its own order
                chosen = batch.select(columns)
                plain = without_view_types(chosen.schema)
                yield chosen if plain.equals(chosen.schema) else chosen.cast(plain)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} is a damaged Parquet file: {first_line(error)}.") from None


def without_view_types(schema: pa.Schema) -> pa.Schema:
    """Return a schema without string_view and binary_view, which Arrow's filters do not support yet."""
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return pa.schema([field.with_type(plain.get(field.type, field.type)) for field in schema])


# svmlight text, as dense rows. More columns than fit are folded into fewer by a signed hash: see `fold`.

CHUNK_BYTES = 2**20
SVMLIGHT_TARGET = "y"


class SvmlightScan(NamedTuple):
    """Rows of a file, its largest index, whether indices begin at 0, the number of values, and whether one is nan."""

    rows: int
    last_index: int
    zero_based: bool
    n_values: int = 0
    has_missing: bool = False


def scan_svmlight(file: Place) -> SvmlightScan:
    """Read a file once to learn its size."""
    rows, last, zero_based, n_values, has_missing = 0, -1, False, 0, False
    for inputs, _ in _parsed_svmlight(file):
        rows += inputs.shape[0]
        n_values += inputs.nnz
        has_missing |= bool(np.isnan(inputs.data).any())
        if inputs.indices.size:
            last = max(last, int(inputs.indices.max()))
            zero_based |= bool(inputs.indices.min() == 0)
    return SvmlightScan(rows, last, zero_based, n_values, has_missing)


Storage = Literal["auto", "sparse", "dense"]
MANY_COLUMNS, FEW_VALUES = 1024, 0.01  # beyond so many columns, at most this share of values: rows are sparse


@dataclass(frozen=True)
class SvmlightReading:
    """Reading of the indices of svmlight text: see `_svmlight_pieces`.

    n_columns : the least number of columns (the text leaves zeros out, so the last ones may not show)
    first_index : of the first column; None: 0 if it occurs in a file or rows are sparse, else 1
    hashed : columns to fold all of them into; 0: none are
    storage : whether rows are sparse; auto: with more than MOST_INPUTS columns, or with many of which few are not 0
    """

    n_columns: int = 0
    first_index: Literal[0, 1] | None = None
    hashed: int = 0
    storage: Storage = "auto"


AS_THEY_COME = SvmlightReading()


def read_svmlight(
    file: Place, schema: pa.Schema, indices: SvmlightColumns, columns: list[str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield rows in order as batches of the columns in the given order."""
    n_columns = len(schema) - 1
    for inputs, targets in _parsed_svmlight(file):
        inputs.indices -= indices.first_index
        for start in range(0, inputs.shape[0], batch_rows):
            part, labels = inputs[start : start + batch_rows], targets[start : start + batch_rows]
            if INDICES in schema.names:
                arrays = dict(zip(LISTS, lists_of(part), strict=True)) | {SVMLIGHT_TARGET: pa.array(labels)}
                yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=columns)
                continue
            dense = np.zeros((n_columns + 1, part.shape[0]))
            row, column = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr)), part.indices
            if indices.hashed:
                column, sign = fold(column, indices.hashed)
                np.add.at(dense, (column, row), sign * part.data)
            else:
                dense[column, row] = part.data
            dense[n_columns] = labels
            chosen = [n_columns if name == SVMLIGHT_TARGET else int(name[1:]) for name in columns]
            yield pa.RecordBatch.from_arrays([pa.array(dense[i]) for i in chosen], names=columns)


def fold(columns: NDArray[Any], n_columns: int) -> tuple[Integers, Doubles]:
    """Return the column below n_columns that each of many columns is folded into, and the sign of its values there.

    Values that meet are added up; for their signs, inner products of rows stay what they were on average.

    Source: Weinberger, Dasgupta, Langford, Smola & Attenberg, ICML 2009, definition 1; the hash is SplitMix64.
    """
    hashed = mix_bits(np.asarray(columns).astype(np.uint64))
    sign = 1.0 - 2.0 * (hashed >> np.uint64(63)).astype(np.float64)
    return (hashed % np.uint64(n_columns)).astype(np.int64), sign


def _parsed_svmlight(file: Place) -> Iterator[tuple[Any, np.ndarray[Any, np.dtype[np.float64]]]]:
    """Yield sparse rows and labels, chunk by chunk; indices as written in the file."""
    from sklearn.datasets import load_svmlight_file  # heavy: only those who read such text pay for it

    first = 0
    for chunk in csv.line_blocks(file, block_bytes=CHUNK_BYTES):
        try:
            inputs, targets = load_svmlight_file(BytesIO(chunk), zero_based=True)
        except (ValueError, OverflowError, IndexError) as error:
            raise _faulty_line(file, chunk, first, error) from None
        yield inputs, targets
        first += chunk.count(b"\n")


def _faulty_line(file: Place, chunk: bytes, first: int, error: Exception) -> DataError:
    """Return the error of the first line that is no svmlight text, found by halving the lines before it."""
    from sklearn.datasets import load_svmlight_file

    lines = chunk.splitlines(keepends=True)
    low, high = 0, len(lines)  # lines before low are right, and one before high is wrong
    while high - low > 1:
        middle = (low + high) // 2
        try:
            load_svmlight_file(BytesIO(b"".join(lines[low:middle])), zero_based=True)
            low = middle
        except (ValueError, OverflowError, IndexError) as fault:
            high, error = middle, fault
    why = _fault(lines[low]) or "an index is negative or beyond 2,147,483,647"
    if "sorted and unique" in str(error):
        why = "its indices are not in ascending order, or one occurs twice"
    return DataError(
        f"{file}, line {first + low + 1}, is not svmlight text: {why}. Expected a line like '1 3:0.5 7:1', "
        f"but got {quoted(lines[low].decode(errors='replace').strip())}."
    )


def _fault(line: bytes) -> str:
    """Return which part of a line is none of svmlight text; "" if each part is."""
    label, *pairs = line.split(b"#")[0].decode(errors="replace").split() or [""]
    if not _reads(float, label):
        return f"its label {label!r} is not a number"
    for pair in pairs:
        index, colon, value = pair.partition(":")
        if not colon:
            return f"{pair!r} has no colon"
        if index != "qid" and not _reads(int, index):
            return f"its index {index!r} is not a whole number"
        if not _reads(float, value):
            return f"its value {value!r} is not a number"
    return ""


def _reads(kind: type[int] | type[float], word: str) -> bool:
    try:
        kind(word)
    except ValueError:
        return False
    return True


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

    path : absolute path, or URL; first_row : number of its first row in the file; rows : None if unknown before reading
    row_groups : of a Parquet file; schema : columns and their types; svmlight, n_sparse : how its indices are
        columns, and the number of these if rows are sparse; has_missing : whether that text holds nan
    size_bytes, sha256 : of a shard of a data set, whose bytes are verified before they are read; else 0 and empty
    span : of a CSV file, the first of its bytes and the first that is another's; None: all of them
    dialect : how the text of a CSV file is values, and which words mean a missing one in any file
    nested : of JSON lines, the types of their keys
    formats : of columns of text that are read as numbers or dates; their types in the schema are those
    """

    path: str
    kind: Kind
    schema: pa.Schema
    first_row: int
    rows: int | None
    row_groups: tuple[int, ...] = ()
    svmlight: SvmlightColumns | None = None
    n_sparse: int = 0
    has_missing: bool = False
    size_bytes: int = 0
    sha256: str = ""
    span: tuple[int, int] | None = None
    dialect: Dialect = COMMAS
    nested: pa.Schema | None = None
    formats: tuple[ColumnFormat, ...] = ()

    def with_formats(self, schema: pa.Schema, formats: Collection[ColumnFormat]) -> Piece:
        """Return the piece for a schema of its file, with the formats of those columns that the schema has as text."""
        kinds = {form.column: form for form in formats if form.column in schema.names}
        used = tuple(form for name, form in kinds.items() if is_text(schema.field(name).type))
        typed = {form.column: TYPES[form.kind] for form in used}
        fields = [field.with_type(typed.get(field.name, field.type)) for field in schema]
        return replace(self, schema=pa.schema(fields), formats=used)

    def as_text(self, names: Collection[str]) -> Piece:
        fields = [field.with_type(pa.string()) if field.name in names else field for field in self.schema]
        rest = tuple(form for form in self.formats if form.column not in names)
        return replace(self, schema=pa.schema(fields), formats=rest)


def read_piece(
    piece: Piece, columns: Sequence[str] | None = None, batch_rows: int | None = None, exact: Collection[str] = ()
) -> Iterator[SourceBatch]:
    """Read one piece in order as batches of bounded size.

    columns : names to read, in this order; None: all
    batch_rows : rows a batch at most; None: 16384, fewer where columns are many
    exact : columns whose whole numbers stay whole (keys); the others of a text file are read as float64
    """
    formats = {form.column: form for form in piece.formats}
    piece = piece.as_text(formats) if formats else piece
    words = piece.dialect.missing_words
    absent = numbers_among(words)
    names = list(piece.schema.names if columns is None else columns)
    limit = batch_rows or max(1, min(BATCH_ROWS, BATCH_BYTES // (8 * max(1, len(names)))))
    location = place_of(piece.path)
    if piece.kind == "parquet":
        stream = read_parquet(location, piece.row_groups, names, limit, piece.size_bytes, piece.sha256)
    elif piece.kind == "csv":
        stream = csv.read(location, piece.schema, names, limit, exact, piece.span, piece.first_row, piece.dialect)
    elif piece.kind == "json":
        assert piece.nested is not None, "as open_source makes such pieces"
        stream = jsonlines.read(location, piece.nested, piece.schema, names, limit, exact, piece.span)
    else:
        assert piece.svmlight is not None, "as open_source makes such pieces"
        stream = read_svmlight(location, piece.schema, piece.svmlight, names, limit)
    row = piece.first_row
    for batch in stream:
        if formats or absent:
            arrays = [
                without_numbers(
                    convert(column, formats[name], piece.path, row, words) if name in formats else column,
                    absent if name not in exact else (),
                )
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
        yield SourceBatch(piece.path, row, batch)
        row += batch.num_rows


@dataclass(frozen=True)
class Source:
    """Files of one kind and one schema, in the order of their names.

    location : as it was given; schema : columns and their types
    pieces : parts that can be read in parallel: one for each row group of Parquet files, or for each file
    """

    location: str
    kind: Kind
    schema: pa.Schema
    files: tuple[Place, ...]
    pieces: tuple[Piece, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns in the order of the files."""
        return tuple(self.schema.names)

    @property
    def rows(self) -> int | None:
        """Return the rows of all files, or None if unknown before reading."""
        counts = [piece.rows for piece in self.pieces]
        return None if None in counts else sum(count or 0 for count in counts)

    def batches(
        self, columns: Sequence[str] | None = None, batch_rows: int | None = None, exact: Collection[str] = ()
    ) -> Iterator[SourceBatch]:
        """Yield all rows in order: files by name, rows as stored; see `read_piece`."""
        for piece in self.pieces:
            yield from read_piece(piece, columns, batch_rows, exact)

    def with_formats(self, formats: Collection[ColumnFormat]) -> Source:
        known = [form.column for form in self.pieces[0].formats]
        raw = [piece.as_text(known) for piece in self.pieces]
        pieces = tuple(piece.with_formats(piece.schema, formats) for piece in raw)
        return replace(self, schema=pieces[0].schema, pieces=pieces)

    def fingerprint(self, execution: Execution | None = None) -> str:
        """Return the SHA-256 of names and contents of the files, read here or by workers."""
        read = map if execution is None else execution.map
        return combined_digest(self.files, read(file_sha256, self.files))


def open_source(
    location: str | Place,
    svmlight: SvmlightReading = AS_THEY_COME,
    types: Mapping[str, pa.DataType] | None = None,
    formats: Collection[ColumnFormat] = (),
    decimal: str = "",
    missing_words: tuple[str, ...] = (),
) -> Source:
    """Recognise a source and read its schema, of text files by their first rows; svmlight text is scanned once.

    Parameters
    ----------
    location : a file, a folder of files of one kind, or a glob; paths or URLs
    svmlight : how the indices of such text are columns
    types : of columns of CSV files, whatever their values scan like
    formats : of columns of text that are read as numbers or dates
    decimal : mark of decimals in CSV files; "": as their values show
    missing_words : that mean a missing number or date besides the usual ones, see `okl.data.values.MISSING_WORDS`

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
    elif kind == "json":
        parts = _json_pieces(files, types or {}, missing_words)
    else:
        given = {form.column: pa.string() for form in formats} | dict(types or {})
        parts = (
            _csv_pieces(files, given, decimal, missing_words)
            if kind == "csv"
            else [p for file in files for p in _parquet_pieces(file, missing_words)]
        )
        check_schemas(files, [next(part.schema for part in parts if part.path == str(file)) for file in files])
    source = Source(str(location), kind, parts[0].schema, tuple(files), tuple(parts))
    if source.rows == 0:
        raise DataError(f"{location} holds no rows; expected at least one.")
    return source.with_formats(formats) if formats else source


def _parquet_pieces(file: Place, missing_words: tuple[str, ...]) -> list[Piece]:
    schema, groups = inspect_parquet(file)
    firsts = [0, *accumulate(groups)]
    whole = Piece(str(file), "parquet", schema, 0, 0, dialect=Dialect(missing_words=missing_words))
    pieces = [
        replace(whole, first_row=firsts[i], rows=rows, row_groups=(i,)) for i, rows in enumerate(groups) if rows > 0
    ]
    return pieces or [whole]


def _json_pieces(
    files: Sequence[Place], types: Mapping[str, pa.DataType], missing_words: tuple[str, ...]
) -> list[Piece]:
    nested = reduce(jsonlines.merged, (jsonlines.inspect(file) for file in files))
    schema = _typed_nulls(jsonlines.flat(nested), types)
    check_unique(schema, files[0])
    dialect = Dialect(missing_words=missing_words)
    return [Piece(str(file), "json", schema, 0, None, nested=nested, dialect=dialect) for file in files]


def _typed_nulls(schema: pa.Schema, types: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return a schema whose columns without a value have a given type, numbers if there is none; dates in text, too."""

    def typed(field: pa.Field) -> pa.Field:
        kind = types.get(field.name)
        takes = kind is not None and (pa.types.is_null(field.type) or (is_text(field.type) and is_date(kind)))
        return field.with_type(kind) if takes else field

    return csv.types_to_read(pa.schema([typed(field) for field in schema]))


def _csv_pieces(
    files: Sequence[Place], types: Mapping[str, pa.DataType], decimal: str, missing_words: tuple[str, ...]
) -> list[Piece]:
    inspected = [csv.inspect(file, decimal, missing_words) for file in files]
    schemas = [schema for schema, _ in inspected]
    if all(schema.names == schemas[0].names for schema in schemas):  # types that a few rows suggest may differ
        schemas = [reduce(csv.merged_types, schemas)] * len(schemas)
    schemas = [csv.types_to_read(schema) for schema in schemas]
    schemas = [pa.schema([field.with_type(_csv_type(field, types)) for field in schema]) for schema in schemas]
    found = zip(files, schemas, inspected, strict=True)
    return [Piece(str(file), "csv", schema, 0, None, dialect=dialect) for file, schema, (_, dialect) in found]


def _csv_type(field: pa.Field, types: Mapping[str, pa.DataType]) -> pa.DataType:
    """Return the type of a column; timestamps keep the resolution of the text, which Arrow would reject otherwise."""
    kind = types.get(field.name, field.type)
    fine = pa.types.is_timestamp(kind) and pa.types.is_timestamp(field.type) and field.type.unit == "ns"
    return pa.timestamp("ns", kind.tz) if fine else kind


def _svmlight_pieces(files: Sequence[Place], reading: SvmlightReading) -> list[Piece]:
    """Plan columns f0, f1, ... (the first index is f0) and y, all float64; or h0, h1, ... that they are folded into.

    Sparse rows are two columns of lists, of indices and of values, and y. Their first index is 0 unless it is given: in
    many columns the index 0 is rare, and a later file may hold it.

    Raises DataError : too many columns, or none; an index 0 where the first is 1
    """
    scans, storage, hashed = [scan_svmlight(file) for file in files], reading.storage, reading.hashed

    def pieces(fields: Iterable[Any], indices: SvmlightColumns, n_sparse: int = 0) -> list[Piece]:
        schema = pa.schema([*fields, (SVMLIGHT_TARGET, pa.float64())])
        made = Piece("", "svmlight", schema, 0, None, svmlight=indices, n_sparse=n_sparse)
        return [
            replace(made, path=str(file), rows=scan.rows, has_missing=scan.has_missing)
            for file, scan in zip(files, scans, strict=True)
        ]

    zero = next((i for i, scan in enumerate(scans) if scan.zero_based), None)
    first: Literal[0, 1] = (1 if zero is None else 0) if reading.first_index is None else reading.first_index
    if zero is not None and first == 1:
        raise DataError(
            f"{files[zero]} holds the index 0, but the first index should be 1. Use --svmlight-index 0, "
            "or a model of such rows."
        )
    widest = max(range(len(scans)), key=lambda i: scans[i].last_index)
    last = scans[widest].last_index
    if last < 0 and (storage != "sparse" or reading.first_index is None):  # rows for a model may all be empty
        raise DataError(f"{files[0]} holds no index:value pair; expected lines like '1 3:0.5 7:1'.")
    n_columns, letter = (hashed, "h") if hashed else (max(last + 1 - first, reading.n_columns), "f")
    if not hashed and storage != "dense":
        if n_columns > MOST_COLUMNS:
            raise DataError(
                f"{files[widest]} has column index {last}, but sparse rows have at most {MOST_COLUMNS:,} columns. "
                "Correct the index, or fold the columns into fewer by a hash: --hash-columns 1024."
            )
        numbers = sum(scan.rows for scan in scans) * n_columns
        few = n_columns > MANY_COLUMNS and sum(scan.n_values for scan in scans) <= FEW_VALUES * numbers
        if storage == "sparse" or few or n_columns > MOST_INPUTS:
            begin = first if reading.first_index is not None else 0
            return pieces(LISTS.items(), SvmlightColumns(begin), n_columns + first - begin)
    if n_columns > MOST_INPUTS:
        reason = f"{hashed} columns were requested" if hashed else f"{files[widest]} has column index {last}"
        raise DataError(
            f"{reason}, but dense rows have at most {MOST_INPUTS} columns. Use --storage sparse, or fold them "
            "into fewer by a hash: --hash-columns 1024."
        )
    return pieces([(f"{letter}{index}", pa.float64()) for index in range(n_columns)], SvmlightColumns(first, hashed))


SCANNED = ("csv", "json")  # kinds of files whose types and rows are known after a scan only


# Scans of text files: column types and row counts.

T = TypeVar("T")

MOST_THREADS = 4
LEADING_ZEROS = r"^\s*[-+]?0\d"  # a number does not keep them
MANY_DIGITS = r"^\s*[-+]?\d{16,}\s*$"  # of whole numbers beyond 2^53 float64 keeps the first ones only


def scan_source(
    source: Source, execution: Execution | None, types: Collection[str] = (), exact: Collection[str] = ()
) -> Source:
    """Return a source of text files with types for all values and pieces with known rows; any other one as it is.

    types : names of columns of CSV files with a given type
    exact : names of columns that are to come back as they are written, such as keys: numbers that would not become text

    A file of a single block has been seen whole, and is left as it is unless there are workers to share it.
    """
    if source.kind not in SCANNED:
        return source
    formats = source.pieces[0].formats
    scanned = _with_types(source.with_formats(()), execution, {*types, *(form.column for form in formats)})
    changed = altered_columns(scanned.pieces, exact, execution)
    pieces = tuple(piece.as_text(changed) for piece in scanned.pieces)
    return replace(scanned, schema=pieces[0].schema, pieces=pieces).with_formats(formats)


def _with_types(source: Source, execution: Execution | None, types: Collection[str]) -> Source:
    """Return the same with pieces and types by all values; `types` : see `scan_source`."""
    if execution is None and all(csv.is_one_block(place_of(piece.path), piece.dialect) for piece in source.pieces):
        return source
    pieces = [
        replace(piece, span=span)
        for piece in source.pieces
        for span in (csv.line_ranges(place_of(piece.path)) if piece.dialect.divisible else [None])
    ]
    scans = list(over_pieces(_scan_lines, pieces, execution))
    broken = {piece.path for piece, scan in zip(pieces, scans, strict=True) if scan is not None and scan.breaks}
    if broken:
        whole = [
            replace(piece, dialect=piece.dialect._replace(breaks=piece.dialect.breaks or piece.path in broken))
            for piece in source.pieces
        ]
        return _with_types(replace(source, pieces=tuple(whole)), execution, types)
    schema, nested = source.schema, None
    if all(scan is not None for scan in scans):
        schemas = [scan.schema for scan in scans if scan is not None]
        given = {field.name: field.type for field in schema if field.name in types}
        if source.kind == "json":
            nested = reduce(jsonlines.merged, schemas)
            schema = _typed_nulls(jsonlines.flat(nested), given)
        else:
            found = csv.types_to_read(reduce(csv.merged_types, schemas))
            schema = pa.schema([field.with_type(given.get(field.name, field.type)) for field in found])
        check_unique(schema, source.files[0])
        scanned = zip(pieces, scans, strict=True)
        pieces = [replace(piece, rows=scan.rows) for piece, scan in scanned if scan is not None]
    elif execution is None:  # read as it is: then the error names the row
        return source
    else:
        counted = zip(pieces, execution.map(_count_rows, pieces), strict=True)
        pieces = [replace(piece, rows=rows) for piece, rows in counted]
    numbered, first_row = list[Piece](), Counter[str]()
    for piece in pieces:
        numbered.append(replace(piece, schema=schema, nested=nested, first_row=first_row[piece.path]))
        first_row[piece.path] += piece.rows or 0
    return replace(source, schema=schema, pieces=tuple(numbered))


def altered_columns(pieces: Sequence[Piece], names: Collection[str], execution: Execution | None = None) -> set[str]:
    """Return the columns of CSV files that are read as numbers, but contain values that a number would change.

    Such values are digits with leading zeros, as 00501, and whole numbers of more digits than float64 keeps, where
    int64 does not take them all. Only these columns are read, and none where none of them is of numbers.

    Raises DataError : rows that cannot be read
    """
    kinds = {field.name: field.type for field in pieces[0].schema if field.name in names}
    zeros = [name for name, kind in kinds.items() if pa.types.is_integer(kind) or pa.types.is_floating(kind)]
    if pieces[0].kind != "csv" or not zeros:
        return set()
    work = partial(_altered_in, zeros, [name for name in zeros if pa.types.is_floating(kinds[name])])
    return set().union(*over_pieces(work, pieces, execution))


def _altered_in(names: Sequence[str], floating: Sequence[str], piece: Piece) -> set[str]:
    """Return the columns of a piece with leading zeros, or, if they are among `floating`, with too many digits."""
    altered, text = set[str](), piece.as_text(names)
    for rows in read_piece(text, names, csv.BLOCK_BYTES):
        for name in {*names} - altered:
            pattern = f"{LEADING_ZEROS}|{MANY_DIGITS}" if name in floating else LEADING_ZEROS
            if pc.any(pc.match_substring_regex(rows.batch.column(name), pattern)).as_py():
                altered.add(name)
        if len(altered) == len(names):
            break
    return altered


def over_pieces(work: Callable[[Piece], T], pieces: Sequence[Piece], execution: Execution | None) -> Iterable[T]:
    """Work on all pieces, in order, on workers or in threads: Arrow parses without the lock of Python."""
    if execution is not None:
        return execution.map(work, pieces)
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as threads:
        return list(threads.map(work, pieces))


def _scan_lines(piece: Piece) -> csv.ScanResult | None:
    file = place_of(piece.path)
    if piece.kind == "json":
        return jsonlines.scan_lines(file, piece.span)
    return csv.scan_lines(file, piece.schema.names, piece.span or (0, 0), piece.dialect)


def _count_rows(piece: Piece) -> int:
    return csv.count_rows(place_of(piece.path), piece.schema, piece.span, piece.dialect)
