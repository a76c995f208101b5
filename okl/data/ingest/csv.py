"""Text files: compression; CSV dialects, blocks of lines, column types and reading."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path, PurePath
from shlex import quote
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pacsv

from okl.data.values import MISSING_WORDS, is_date, is_number, zone_of
from okl.foundation.errors import DataError, first_line
from okl.foundation.locations import Place, open_binary, size_of

# Compressed text files.

PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
BEGINNINGS = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\x28\xb5\x2f\xfd": ".zst"}


def packing_of(name: str) -> str | None:
    """Return the compression of a file of this name; None for an uncompressed one."""
    return PACKED.get(PurePath(name).suffix.lower())


def unpacked_ending(name: str) -> str:
    """Return the suffix of a file name in lower case, without that of its compression.

    >>> [unpacked_ending(name) for name in ("rows.csv", "2026.01.CSV.GZ", "rows.gz")]
    ['.csv', '.csv', '']
    """
    return PurePath(PurePath(name.lower()).stem if packing_of(name) else name.lower()).suffix


def packed_ending(beginning: bytes) -> str:
    """Return the suffix of the compression of bytes with this beginning; "" for uncompressed bytes."""
    return next((ending for magic, ending in BEGINNINGS.items() if beginning.startswith(magic)), "")


@contextmanager
def open_text(file: Place, span: tuple[int, int] | None = None) -> Iterator[pa.NativeFile]:
    """Open a file as a stream of uncompressed bytes; one that is not compressed can also be sought in.

    span : first byte and the one after the last, of a file that is not compressed; None: the whole file

    Raises
    ------
    DataError : what is compressed cannot be unpacked, or its end is missing
    """
    codec = packing_of(file.name)
    with pa.OSFile(str(file)) if isinstance(file, Path) else pa.PythonFile(open_binary(file), "r") as stream:
        if codec is None:
            yield stream if span is None else stream.get_stream(span[0], span[1] - span[0])
            return
        try:
            with pa.CompressedInputStream(stream, codec) as unpacked:
                yield unpacked
        except OSError as error:
            raise DataError(
                f"{file} cannot be unpacked as {codec}: {error}. It may be truncated: write or fetch it again."
            ) from None


def check_unique(schema: pa.Schema, file: Place) -> None:
    """Raise DataError if two columns share a name, or one has a name that is no text."""
    try:
        counts = Counter(schema.names)
    except UnicodeDecodeError:
        raise DataError(f"{file}: the name of a column is not UTF-8 text. Write the file again as UTF-8.") from None
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        raise DataError(f"{file}: more than one column is named {', '.join(map(repr, twice))}; rename all but one.")


# CSV dialects: separators and decimal marks.

MARKS = ";\t|"  # that separate values where commas do not
BESIDE_DECIMAL_COMMAS = ";"  # spreadsheets that write it also write 1,5; with tabs 1,234 may be a thousand
# from a quote where a value begins, whatever separates values, to the one where it ends, or to the end of the line
_QUOTED = re.compile(r'(?:^|(?<=[,;\t|]))"[^"]*(?:""[^"]*)*(?:"(?=[,;\t|]|$)|$)')


class Dialect(NamedTuple):
    """Dialect of a CSV file: the separator of values and the decimal mark of numbers."""

    separator: str = ","
    decimal: str = "."

    def converting(self, **options: Any) -> pacsv.ConvertOptions:
        """Return Arrow's options for the conversion of text to values, with further options."""
        return pacsv.ConvertOptions(decimal_point=self.decimal, **options)

    @property
    def parsing(self) -> pacsv.ParseOptions:
        """Return Arrow's options for the division of lines into values."""
        return pacsv.ParseOptions(delimiter=self.separator)


COMMAS = Dialect()


def separator_of(text: bytes) -> str:
    r"""Return the separator of the first line: a comma, unless there is none and another mark is there instead.

    Marks between quotes separate nothing.

    >>> [separator_of(text) for text in (b"a,b;c", b"a;b;c|d\n1,2,3", b'"a, b"|"c;d"|e', b'a;"b, c"', b"a", b"")]
    [',', ';', '|', ';', ',', ',']
    """
    line = (text.splitlines()[:1] or [b""])[0].decode("utf-8-sig", "replace")
    unquoted = _QUOTED.sub("", line)
    counts = {mark: unquoted.count(mark) for mark in MARKS} if COMMAS.separator not in unquoted else {}
    return max(counts, key=lambda mark: counts[mark]) if any(counts.values()) else COMMAS.separator


def has_decimal_commas(with_points: pa.Schema, with_commas: pa.Schema) -> bool:
    """Return whether numbers have decimal commas, from the types that values have if decimals are written in either
    way.

    One column must be numbers only with commas, and none only with points: of lists such as 1,2 beside numbers such
    as 1.5 nothing is made.
    """
    pairs = [
        (is_number(point), is_number(comma)) for point, comma in zip(with_points.types, with_commas.types, strict=True)
    ]
    return (False, True) in pairs and (True, False) not in pairs


# Blocks of complete lines, and Arrow's reading options.

BLOCK_BYTES = 2 * 2**20
RANGE_BYTES = 16 * BLOCK_BYTES  # memory of a reader of a range
READING = pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES)  # one thread: errors then name their row


def of_one_block(file: Place) -> bool:
    """Return whether the first block is the complete file; unknown for compressed files."""
    return packing_of(file.name) is None and size_of(file) <= BLOCK_BYTES


def line_ranges(file: Place) -> list[tuple[int, int]]:
    """Return byte ranges of a file, start and stop, that contain whole lines.

    Cut where Arrow itself cuts, at the last line's end of a block: what lies in between is read as it always is. What
    is compressed is one range: it can only be read from its beginning.
    """
    size, cuts = size_of(file), [0]
    if packing_of(file.name) is not None:
        return [(0, size)]
    with open_text(file) as stream:
        for stop in range(RANGE_BYTES, size, RANGE_BYTES):
            end = stream.read_at(BLOCK_BYTES, stop - BLOCK_BYTES).rfind(b"\n")
            if end >= 0:
                cuts.append(stop - BLOCK_BYTES + end + 1)
    return list(pairwise([*cuts, size]))


def headless(names: list[str]) -> pacsv.ReadOptions:
    """Return the reading options of a block of lines without the header line."""
    return pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=names)


# Column types: suggested by the first block, confirmed by a scan.


class Inspected(NamedTuple):
    """Names and types of columns as the first 2 MiB suggest them, null where there is no value; how text is values."""

    schema: pa.Schema
    dialect: Dialect


def inspect(file: Place) -> Inspected:
    """Read the header line and the first 2 MiB of a file.

    Raises
    ------
    DataError : the file is empty, has no rows, or is not CSV; two columns share a name, or one has none in UTF-8
    """
    if size_of(file) == 0:
        raise DataError(f"{file} is empty; expected a CSV file with a header line.")
    try:
        with open_text(file) as stream:
            dialect = Dialect(separator_of(stream.read(BLOCK_BYTES)))
        schema = _first_types(file, dialect)
        if dialect.separator in BESIDE_DECIMAL_COMMAS:
            commas = dialect._replace(decimal=",")
            if has_decimal_commas(schema, types := _first_types(file, commas)):
                return Inspected(types, commas)
        return Inspected(schema, dialect)
    except StopIteration:
        raise DataError(f"{file} holds no rows; expected at least one.") from None
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file} is not a CSV file with a header line: {first_line(error)}.") from None


def _first_types(file: Place, dialect: Dialect) -> pa.Schema:
    """Return names and types by the first block."""
    with open_text(file) as stream, pacsv.open_csv(stream, READING, **_typing(dialect)) as reader:
        if reader.read_next_batch().num_rows == 0:
            raise DataError(f"{file} holds no rows; expected at least one.")
        check_unique(reader.schema, file)
        return reader.schema


def _typing(dialect: Dialect) -> dict[str, Any]:
    """Return Arrow's own type inference options."""
    return {"parse_options": dialect.parsing, "convert_options": dialect.converting(null_values=MISSING_WORDS)}


def numeric_nulls(schema: pa.Schema) -> pa.Schema:
    """Return the schema to read with: a column without any value counts as numbers."""
    return pa.schema([field.with_type(pa.float64()) if pa.types.is_null(field.type) else field for field in schema])


class ScanResult(NamedTuple):
    """Result of a scan of a block of lines: the types that fit all values, by column, and the number of rows."""

    schema: pa.Schema
    rows: int


def scan_lines(file: Place, names: list[str], span: tuple[int, int], dialect: Dialect) -> ScanResult | None:
    """Read a range block by block to learn its types and rows; None if it cannot be read."""
    schema, rows, rest = pa.schema([(name, pa.null()) for name in names]), 0, b""
    partial = span[0] > 0
    with open_text(file, span) as stream:
        while block := stream.read(BLOCK_BYTES):
            lines, newline, rest = (rest + block).rpartition(b"\n")
            types = _types_of(lines + newline, names, partial, dialect) if newline else None
            if newline and types is None:
                return None
            if types is not None:
                schema, rows, partial = merged_types(schema, types.schema), rows + types.rows, True
    if rest.strip(b"\r\n"):
        types = _types_of(rest, names, partial, dialect)
        if types is None:
            return None
        schema, rows = merged_types(schema, types.schema), rows + types.rows
    return ScanResult(schema, rows)


def _types_of(lines: bytes, names: list[str], without_header: bool, dialect: Dialect) -> ScanResult | None:
    if not lines.strip(b"\r\n"):
        return ScanResult(pa.schema([(name, pa.null()) for name in names]), 0)
    reading = headless(names) if without_header else READING  # a name in quotes may hold a line end
    try:
        table = pacsv.read_csv(pa.BufferReader(lines), reading, **_typing(dialect))
    except pa.ArrowException:
        return None
    return ScanResult(table.schema, len(table))


def merged_types(first: pa.Schema, second: pa.Schema) -> pa.Schema:
    """Return for each column the narrowest type for the values of both."""
    pairs = zip(first, second.types, strict=True)
    return pa.schema([field.with_type(_merged(field.type, kind)) for field, kind in pairs])


def _merged(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    if first == second or pa.types.is_null(second):
        return first
    if pa.types.is_null(first):
        return second
    kinds = (first, second)
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
        return pa.float64()
    if all(is_date(kind) for kind in kinds) and zone_of(first) == zone_of(second):
        return pa.timestamp("ns" if any("[ns" in str(kind) for kind in kinds) else "s", zone_of(first) or None)
    return pa.string()


# Reading of CSV files in order and in bounded memory.

FAULT, VALUE = r"In CSV column #(\d+): (?:Row #(\d+): )?(.*)", r"invalid value '(.*)'"  # as Arrow reports them
HEADED = 2  # rows that Arrow counts before the first of a file with a header line


def read(
    file: Place, schema: pa.Schema, columns: list[str], batch_rows: int, exact: Collection[str],
    span: tuple[int, int] | None = None, first_row: int = 0, dialect: Dialect = COMMAS,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Yield rows in order as batches of the columns in the given order; whole numbers become float64 unless exact.

    span : bytes to read, as `line_ranges` cuts them, None for all; first_row : number of the first row there
    dialect : how its text is values
    """
    types = {
        field.name: pa.float64() if pa.types.is_integer(field.type) and field.name not in exact else field.type
        for field in schema
    }
    options = dialect.converting(column_types=types, include_columns=columns, null_values=MISSING_WORDS)
    without_header = span is not None and span[0] > 0
    reading = headless(schema.names) if without_header else READING
    try:
        with open_text(file, span) as stream, pacsv.open_csv(stream, reading, dialect.parsing, options) as reader:
            for block in reader:
                for start in range(0, block.num_rows, batch_rows):
                    yield block.slice(start, batch_rows)
    except (pa.ArrowException, OSError) as error:
        before = 1 - first_row if without_header else HEADED
        raise DataError(_explained(file, schema, first_line(error), types, before)) from None


def count_rows(file: Place, schema: pa.Schema, span: tuple[int, int] | None, dialect: Dialect) -> int:
    """Return the number of rows of a file, or of a range of it."""
    first = schema.names[0]
    uncast = pa.schema([field.with_type(pa.binary()) if field.name == first else field for field in schema])
    return sum(batch.num_rows for batch in read(file, uncast, [first], BLOCK_BYTES, (), span, 0, dialect))


def first_word(files: Mapping[Place, Dialect], schema: pa.Schema, name: str) -> str:
    """Return the first value of a column that is no number, and its position; "" if none, or rows do not parse."""
    kinds = {name: pa.float64()}
    for file, dialect in files.items():
        options = dialect.converting(column_types=kinds, include_columns=[name], null_values=MISSING_WORDS)
        try:
            with (
                open_text(file) as stream,
                pacsv.open_csv(stream, READING, dialect.parsing, options) as reader,
            ):
                for _ in reader:
                    pass
        except (pa.ArrowException, OSError) as error:
            match = re.search(FAULT, first_line(error))
            value = re.search(VALUE, match[3]) if match else None
            return f"{file}: column {name!r}{_row(match, HEADED)} holds {value[1]!r}" if match and value else ""
    return ""


def explain_texts(files: Mapping[Place, Dialect], schema: pa.Schema, name: str) -> None:
    """Raise DataError that names the first value of a column that is no number; return if there is none."""
    numbers = schema.set(schema.get_field_index(name), pa.field(name, pa.float64()))
    try:
        for file, dialect in files.items():
            for _ in read(file, numbers, [name], BLOCK_BYTES, (), dialect=dialect):
                pass
    except DataError as error:
        raise DataError(f"{error} If these are names rather than numbers, use --category {quote(name)}.") from None


def _explained(file: Place, schema: pa.Schema, message: str, types: dict[str, pa.DataType], before: int) -> str:
    match = re.search(FAULT, message)
    if not match:
        message = message if before == HEADED else re.sub(r"Row #\d+: ", "", message)  # a number within the range
        return f"{file} cannot be read as CSV: {message}."
    name = schema.names[int(match[1])]
    value = re.search(VALUE, match[3])
    why = (
        f"holds {value[1]!r}, but is read as {types[name]}, as other values or the model have it"
        if value
        else f"fails: {match[3]}"
    )
    remedy = "Correct the value"
    if is_date(types[name]):
        remedy = "Write dates as 2026-12-31"
    elif value and re.search(r"\d,\d|[%$€£]", value[1]):
        remedy = "Write numbers such as 1234.5"
    return f"{file}: column {name!r}{_row(match, before)} {why}. {remedy}, or leave the column out."


def _row(match: re.Match[str], before: int) -> str:
    return f", row {int(match[2]) - before} (counted from 0)" if match[2] else ""
