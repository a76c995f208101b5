"""Text files: compression; CSV dialects, blocks of lines, column types and reading."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from okl.data.values import MISSING_WORDS, is_date, is_number, values_hint, zone_of
from okl.foundation.errors import DataError, first_line
from okl.foundation.locations import Place, open_binary, size_of

# Compressed text files.

PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
UTF8_REMEDY = "Save as CSV UTF-8 in Excel, or convert it: iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW"
ZIP = b"PK\x03\x04"
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
def open_text(
    file: Place, span: tuple[int, int] | None = None, encoding: str = "utf8"
) -> Iterator[pa.NativeFile]:  # fmt: skip
    """Open a file as a stream of uncompressed UTF-8; one that is neither compressed nor UTF-16 can also be sought in.

    span : first byte and the one after the last, of a file that can be sought in; None: the whole file
    Raises DataError : what is compressed cannot be unpacked, or its end is missing
    """
    codec = packing_of(file.name)
    if encoding != "utf8":
        try:
            with open_text(file) as stream:
                yield pa.lib.transcoding_input_stream(stream, encoding, "utf8")
        except UnicodeDecodeError as error:
            raise DataError(f"{file} is not valid UTF-16 text: {error.reason}. Write it again as UTF-8.") from None
        return
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
    """Raise DataError if two columns share a name, or one has a name that is not text."""
    try:
        counts = Counter(schema.names)
    except UnicodeDecodeError:
        raise DataError(f"{file}: the name of a column is not UTF-8 text. {UTF8_REMEDY}.") from None
    hint = values_hint(schema.names)
    twice = sorted(name for name, count in counts.items() if count > 1)
    unnamed = [str(number) for number, name in enumerate(schema.names, 1) if not name]
    if len(unnamed) > 1:
        raise DataError(f"{file}: columns {', '.join(unnamed)} have no name (counted from 1); name all but one.{hint}")
    if twice:
        raise DataError(
            f"{file}: more than one column is named {', '.join(map(repr, twice))}; rename all but one.{hint}"
        )


# CSV dialects: separators and decimal marks.

MARKS = ";\t|"  # that separate values where commas do not
BESIDE_DECIMAL_COMMAS = ";"  # spreadsheets that write it also write 1,5; with tabs 1,234 may be a thousand
# from a quote where a value begins, whatever separates values, to the one where it ends, or to the end of the line
_QUOTED = re.compile(r'(?:^|(?<=[,;\t|]))"[^"]*(?:""[^"]*)*(?:"(?=[,;\t|]|$)|$)')


class Dialect(NamedTuple):
    """Dialect of a CSV file.

    separator : of values; decimal : mark of the decimals of numbers; encoding : utf8 or utf16
    breaks : whether values in quotes may hold line ends; skipped : lines before the header line
    missing_words : that mean a missing value besides the usual ones
    """

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf8"
    breaks: bool = False
    skipped: int = 0
    missing_words: tuple[str, ...] = ()

    @property
    def divisible(self) -> bool:
        """Return whether any line end is the end of a row, at any byte of the file."""
        return self.encoding == "utf8" and not self.breaks

    def reading(self, names: list[str] | None = None) -> pacsv.ReadOptions:
        """Return Arrow's options for blocks; names : of the columns, where lines have no header line before them."""
        # one thread: errors then name their row
        skipped = 0 if names else self.skipped
        return pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=names, skip_rows=skipped)

    def converting(self, **options: Any) -> pacsv.ConvertOptions:
        """Return Arrow's options for the conversion of text to values, with further options."""
        words = [*MISSING_WORDS, *self.missing_words, *(f" {word}" for word in self.missing_words)]
        return pacsv.ConvertOptions(decimal_point=self.decimal, null_values=words, **options)

    @property
    def parsing(self) -> pacsv.ParseOptions:
        """Return Arrow's options for the division of lines into values."""
        return pacsv.ParseOptions(delimiter=self.separator, newlines_in_values=self.breaks)


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
    """Return whether numbers have decimal commas, by the types of values if decimals are written in either way.

    One column must be numbers only with commas. One that is numbers only with points is text then: if these are
    thousands, such as 1.234, it is read by its format, and refused otherwise.
    """
    pairs = zip(with_points.types, with_commas.types, strict=True)
    return any(is_number(comma) and not is_number(point) for point, comma in pairs)


# Blocks of complete lines.

QUOTE, NEWLINE = b'"\n'
BLOCK_BYTES = 2 * 2**20
LONG_LINE = re.compile("straddles two block boundaries|cannot infer number of columns")  # as Arrow has it
RANGE_BYTES = 16 * BLOCK_BYTES  # memory of a reader of a range
MOST_BLOCKS = 16  # that a value in quotes may span


def is_one_block(file: Place, dialect: Dialect) -> bool:
    """Return whether the first block is the complete file; unknown for compressed files."""
    most = BLOCK_BYTES // 2 if dialect.encoding == "utf16" else BLOCK_BYTES
    return packing_of(file.name) is None and size_of(file) <= most


def odd_quotes(text: bytes) -> bool:
    """Return whether a line holds an odd number of quotes, as if a value in quotes continued in the next line."""
    if b'"' not in text:
        return False
    array = np.frombuffer(text, np.uint8)
    quotes, ends = np.flatnonzero(array == QUOTE), np.flatnonzero(array == NEWLINE)
    in_lines = np.diff(np.searchsorted(quotes, ends), prepend=0, append=len(quotes))
    return bool((in_lines % 2).any())


def line_blocks(
    file: Place, span: tuple[int, int] | None = None, dialect: Dialect | None = None, block_bytes: int = 0
) -> Iterator[bytes]:
    """Yield the bytes of a file, or of a range of it, in blocks of whole lines; of whole rows of a dialect with breaks.

    Raises DataError : a quote that is not closed for many blocks
    """
    rest, breaks = b"", dialect is not None and dialect.breaks
    with open_text(file, span, "utf8" if dialect is None else dialect.encoding) as stream:
        while block := stream.read(block_bytes or BLOCK_BYTES):
            rest += block
            end = _last_row_end(rest) if breaks else rest.rfind(b"\n") + 1
            if breaks and not end and len(rest) > MOST_BLOCKS * BLOCK_BYTES:
                raise not_closed(str(file))
            if end:
                yield rest[:end]
                rest = rest[end:]
    if rest.strip(b"\r\n"):
        yield rest


def _last_row_end(text: bytes) -> int:
    """Return the position after the last line end that has an even number of quotes before it; 0 without any."""
    array = np.frombuffer(text, np.uint8)
    quotes, ends = np.flatnonzero(array == QUOTE), np.flatnonzero(array == NEWLINE)
    outside = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return int(outside[-1]) + 1 if len(outside) else 0


def not_closed(where: str) -> DataError:
    """Return the error for a value in quotes that runs to the end of the file, or nearly so."""
    return DataError(
        f"{where}: a quoted value is not closed. Add the quote, or double quotes that are part of a value."
    )


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


# Column types: suggested by the first block, confirmed by a scan.


def inspect(file: Place, decimal: str = "", missing_words: tuple[str, ...] = ()) -> tuple[pa.Schema, Dialect]:
    """Return names and types of columns by the first 2 MiB of a file, null without a value, and how text is values.

    decimal : mark of decimals, "" for as the values show; missing_words : see `Dialect`
    Raises DataError : the file is empty, has no rows, or is not CSV; two columns share a name, or one has none in UTF-8
    """
    if size_of(file) == 0:
        raise DataError(f"{file} is empty; expected a CSV file with a header line.")
    dialect = COMMAS
    try:
        dialect = _dialect(file, decimal)._replace(missing_words=missing_words)
        schema = _first_types(file, dialect)
        if not decimal and dialect.separator in BESIDE_DECIMAL_COMMAS:
            commas = dialect._replace(decimal=",")
            if has_decimal_commas(schema, types := _first_types(file, commas)):
                return types, commas
        return schema, dialect
    except StopIteration:
        raise DataError(f"{file} holds no rows; expected at least one.") from None
    except (pa.ArrowException, OSError) as error:
        raise DataError(explained(file, first_line(error), HEADED + dialect.skipped)) from None


def _dialect(file: Place, decimal: str) -> Dialect:
    """Return the dialect by the first bytes, but for the mark of decimals: as given, or a point.

    Raises DataError : the bytes are no text, or that of a web page
    """
    with open_text(file) as stream:
        text = stream.read(BLOCK_BYTES)
    encoding = "utf16" if text[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf8"
    if encoding != "utf8":
        with open_text(file, None, encoding) as stream:
            text = stream.read(BLOCK_BYTES)
    check_text(file, text)
    if not text.strip():
        raise DataError(f"{file} holds no rows; expected at least one.")
    skipped, separator = 0, separator_of(text)
    if named := re.match(rb"(?:\xef\xbb\xbf)?sep=([,;\t|])\r?\n", text):  # as Excel writes and reads it
        skipped, separator = 1, named[1].decode()
    lines = text if len(text) < BLOCK_BYTES else text[: text.rfind(b"\n") + 1]
    return Dialect(separator, decimal or ".", encoding=encoding, breaks=odd_quotes(lines), skipped=skipped)


def check_text(file: Place, beginning: bytes) -> None:
    """Raise DataError unless a file begins with text of data."""
    if beginning.startswith(ZIP):
        raise DataError(f"{file} is a zip archive or an Excel workbook. Unpack it, or save its sheet as CSV.")
    if (ending := packed_ending(beginning)) and packing_of(file.name) is None:
        raise DataError(f"{file} is compressed as {PACKED[ending]}. Rename it to {file.name}{ending}.")
    if (at := beginning.find(b"\0")) >= 0:
        raise DataError(f"{file} holds a NUL byte at byte {at}, so it is not text. Expected a CSV file in UTF-8.")
    if re.match(rb"\s*<(!doctype|html|\?xml)", beginning, re.IGNORECASE):
        raise DataError(f"{file} is an HTML page or XML. Download the data file itself.")
    if (comments := re.match(rb"(?:\xef\xbb\xbf)?((?:#[^\n]*\n)+)([^#\n][^\n]*)", beginning)) is not None:
        first, header = comments[1].splitlines()[0], comments[2]
        mark = separator_of(header + b"\n").encode()
        if first.count(mark) != header.count(mark):  # otherwise the line with # is the header
            text = first.decode(errors="replace")[:60]
            raise DataError(f"{file} begins with a comment: {text!r}. Remove the lines above the header.")


def _first_types(file: Place, dialect: Dialect) -> pa.Schema:
    """Return names and types by the first block."""
    with (
        open_text(file, None, dialect.encoding) as stream,
        pacsv.open_csv(stream, dialect.reading(), **_typing(dialect)) as reader,
    ):
        rows = reader.read_next_batch()
        if rows.num_rows == 0:
            raise DataError(f"{file} holds no rows; expected at least one.")
        check_unique(reader.schema, file)
        if dialect.breaks and is_one_block(file, dialect):
            _check_closed(file, rows)
        return reader.schema


def _check_closed(file: Place, last: pa.RecordBatch | pa.Table) -> None:
    """Raise DataError if the last value of a file with an odd number of quotes holds the rest of its lines."""
    value = last.column(last.num_columns - 1)[-1].as_py()
    if isinstance(value, str | bytes) and (value[-1:] in ("\n", b"\n") or "\n" in str(value)):
        with open_text(file) as stream:
            odd = sum(block.count(b'"') for block in iter(lambda: stream.read(BLOCK_BYTES), b"")) % 2
        if odd:
            raise not_closed(str(file))


def _typing(dialect: Dialect) -> dict[str, Any]:
    """Return Arrow's own type inference options."""
    return {"parse_options": dialect.parsing, "convert_options": dialect.converting()}


def types_to_read(schema: pa.Schema) -> pa.Schema:
    """Return the schema to read with: numbers for a column without a value, text for times of day."""
    kinds = (
        pa.float64() if pa.types.is_null(kind) else pa.string() if pa.types.is_time(kind) else kind
        for kind in schema.types
    )
    return pa.schema([field.with_type(kind) for field, kind in zip(schema, kinds, strict=True)])


class ScanResult(NamedTuple):
    """Result of a scan of lines: the types that fit all values, the number of rows, and whether a value goes on in a
    next line, so that neither of them counts.
    """

    schema: pa.Schema
    rows: int
    breaks: bool = False


def scan_lines(file: Place, names: list[str], span: tuple[int, int], dialect: Dialect) -> ScanResult | None:
    """Read a range block by block to learn its types and rows; None if it cannot be read."""
    schema, rows, headed = pa.schema([(name, pa.null()) for name in names]), 0, span[0] == 0
    for lines in line_blocks(file, span if dialect.divisible else None, dialect):
        if not dialect.breaks and odd_quotes(lines):
            return ScanResult(schema, rows, breaks=True)
        if headed or lines.strip(b"\r\n"):
            options = dialect.reading(None if headed else names)
            try:
                table = pacsv.read_csv(pa.BufferReader(lines), options, **_typing(dialect))
            except pa.ArrowException:
                return None
            if dialect.breaks and len(table) and lines.count(b'"') % 2:
                _check_closed(file, table)
            schema, rows = merged_types(schema, table.schema), rows + len(table)
        headed = False
    return ScanResult(schema, rows)


def merged_types(first: pa.Schema, second: pa.Schema) -> pa.Schema:
    """Return for each column the narrowest type for the values of both."""
    pairs = zip(first, second.types, strict=True)
    return pa.schema([field.with_type(merged_type(field.type, kind)) for field, kind in pairs])


def merged_type(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """Return the narrowest type for the values of both."""
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
RAGGED = r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+): (.*)"
MOST_REPORTED = 96  # characters of a row in such a report
HEADED = 2  # rows that Arrow counts before the first of a file with a header line


def read(
    file: Place, schema: pa.Schema, columns: list[str], batch_rows: int, exact: Collection[str],
    span: tuple[int, int] | None = None, first_row: int = 0, dialect: Dialect = COMMAS
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Yield rows in order as batches of the columns in the given order; whole numbers become float64 unless exact.

    span : bytes to read, as `line_ranges` cuts them, None for all; first_row : number of the first row there
    dialect : how its text is values
    """
    types = {
        field.name: pa.float64() if pa.types.is_integer(field.type) and field.name not in exact else field.type
        for field in schema
    }
    options = dialect.converting(column_types=types, include_columns=columns)
    names = schema.names if span is not None and span[0] > 0 else None
    try:
        with (
            open_text(file, span if dialect.divisible else None, dialect.encoding) as stream,
            pacsv.open_csv(stream, dialect.reading(names), dialect.parsing, options) as reader,
        ):
            for block in reader:
                for start in range(0, block.num_rows, batch_rows):
                    yield block.slice(start, batch_rows)
    except (pa.ArrowException, OSError) as error:
        before = 1 - first_row if names else HEADED + dialect.skipped
        raise DataError(explained(file, first_line(error), before, types)) from None


def count_rows(file: Place, schema: pa.Schema, span: tuple[int, int] | None, dialect: Dialect) -> int:
    """Return the number of rows of a file, or of a range of it."""
    first = schema.names[0]
    uncast = pa.schema([field.with_type(pa.binary()) if field.name == first else field for field in schema])
    return sum(batch.num_rows for batch in read(file, uncast, [first], BLOCK_BYTES, (), span, 0, dialect))


def first_word(files: Mapping[Place, Dialect], schema: pa.Schema, name: str) -> str:
    """Return the first value of a column that is no number, and its position; "" if none, or rows do not parse."""
    numbers = schema.set(schema.get_field_index(name), pa.field(name, pa.float64()))
    for file, dialect in files.items():
        try:
            for _ in read(file, numbers, [name], BLOCK_BYTES, (), dialect=dialect):
                pass
        except DataError as error:
            match = re.match(r"(.* holds '.*'), but is read as ", str(error))
            return match[1] if match else ""
    return ""


def explained(
    file: Place, message: str, before: int = HEADED, types: Mapping[str, pa.DataType] | None = None
) -> str:  # fmt: skip
    """Return the sentence about an error of Arrow; before : rows that it counts before the first; types : by column."""
    if ragged := re.search(RAGGED, message):
        row, expected, got, values = ragged.groups()
        if values.count('"') % 2:
            return str(not_closed(f"{file}{_row(row, before)}"))
        plural = "" if expected == "1" else "s"
        line, is_last = _line_of(file, values)
        remedy = f"Correct {f'line {line}' if line else 'the row'}; put values that hold the separator in quotes."
        if is_last and int(got) < int(expected):
            remedy = f"It is the last line ({line}), so the file may be truncated: write or fetch it again."
        if not plural:  # a title is above the header line of a table
            remedy = "Remove lines above the one with the names of the columns."
        return f"{file}{_row(row, before)}: expected {expected} value{plural}, got {got}: {values!r}. {remedy}"
    match = re.search(FAULT, message)
    if not match or types is None:
        if LONG_LINE.search(message):
            most = BLOCK_BYTES >> 20
            return f"{file} has a line of more than {most} MiB. Expected rows: check its line ends and quotes."
        message = message if before >= HEADED else re.sub(r"Row #\d+: ", "", message)  # a number within the range
        return f"{file} cannot be read as CSV: {message.removeprefix('CSV parse error: ')}."
    name = [*types][int(match[1])]
    where = f"{file}: column {name!r}{_row(match[2], before)}"
    if "invalid UTF8" in match[3]:
        return f"{where} holds bytes that are not UTF-8 text. {UTF8_REMEDY}, or leave the column out."
    value = re.search(VALUE, match[3])
    why = (
        f"holds {value[1]!r}, but is read as {types[name]}, as other values or the model have it"
        if value
        else f"fails: {match[3]}"
    )
    remedy = "Write dates as 2026-12-31" if is_date(types[name]) else "Correct the value"
    return f"{where} {why}. {remedy}, or leave the column out."


def _line_of(file: Place, row: str) -> tuple[int | None, bool]:
    """Return the number of the line of a row, from 1, blank ones included, if known, and whether no line follows.

    row : its text, of a long one the first 96 characters, as Arrow reports it
    """
    end = rb"" if len(row) >= MOST_REPORTED else rb"[. ]*\r?$"  # which `first_line` removes
    pattern = re.compile(rb"^" + re.escape(row.encode()) + end, re.MULTILINE)
    before, found, last = 0, list[int](), None
    for lines in line_blocks(file):
        found += [before + lines.count(b"\n", 0, match.start()) + 1 for match in pattern.finditer(lines)]
        before += lines.count(b"\n")
        last = pattern.match(lines.rstrip(b"\r\n").rpartition(b"\n")[2])
    return found[-1] if last or len(found) == 1 else None, last is not None


def _row(number: str | None, before: int) -> str:
    return f", row {int(number) - before} (counted from 0)" if number else ""
