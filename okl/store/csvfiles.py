"""Raw CSV files with a header line: a first block suggests types, a look through the file settles them."""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pacsv

from okl.errors import DataError
from okl.store.dateparts import is_date, zone_of
from okl.store.opening import open_binary, readable
from okl.store.parquetfiles import first_line
from okl.store.places import Place, size_of

BLOCK_BYTES = 2 * 2**20
STRETCH_BYTES = 16 * BLOCK_BYTES  # held by whoever reads a stretch
READING = pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES)  # one thread: errors then name their row


def inspect(file: Place) -> pa.Schema:
    """Column names and the types that the first 2 MiB suggest; an empty column counts as numbers.

    Raises
    ------
    DataError : the file is empty, has no rows, or is not CSV
    """
    if size_of(file) == 0:
        raise DataError(f"{file} is empty; expected a CSV file with a header line.")
    try:
        with readable(file) as stream, pacsv.open_csv(stream, read_options=READING) as reader:
            if reader.read_next_batch().num_rows == 0:
                raise DataError(f"{file} holds no rows; expected at least one.")
            schema = reader.schema
    except StopIteration:
        raise DataError(f"{file} holds no rows; expected at least one.") from None
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file} is not a CSV file with a header line: {first_line(error)}.") from None
    return settled(schema)


def settled(schema: pa.Schema) -> pa.Schema:
    """Types to read by: a column without any value counts as numbers."""
    return pa.schema([field.with_type(pa.float64()) if pa.types.is_null(field.type) else field for field in schema])


def stretches(file: Place) -> list[tuple[int, int]]:
    """A file cut into stretches of whole lines, each the first of its bytes and the first that is the next one's.

    Cut where Arrow itself cuts, at the last line's end of a block: what lies in between is read as it always is.
    """
    size, cuts = size_of(file), [0]
    with open_binary(file) as stream:
        for stop in range(STRETCH_BYTES, size, STRETCH_BYTES):
            stream.seek(stop - BLOCK_BYTES)
            found = whole(stream, BLOCK_BYTES).rfind(b"\n")
            if found >= 0:
                cuts.append(stop - BLOCK_BYTES + found + 1)
    return list(pairwise([*cuts, size]))


def read(
    file: Place, schema: pa.Schema, columns: list[str], batch_rows: int, exact: Collection[str],
    span: tuple[int, int] | None = None, first_row: int = 0,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Rows in order as batches of the columns in the given order; whole numbers become float64 unless exact.

    span : bytes to read, as `stretches` cuts them, None for all; first_row : number of the first row there
    """
    types = {
        field.name: pa.float64() if pa.types.is_integer(field.type) and field.name not in exact else field.type
        for field in schema
    }
    options = pacsv.ConvertOptions(column_types=types, include_columns=columns)
    headless = span is not None and span[0] > 0
    reading = _headless(schema.names) if headless else READING
    try:
        with _bytes_of(file, span) as stream, pacsv.open_csv(stream, reading, convert_options=options) as reader:
            for block in reader:
                for start in range(0, block.num_rows, batch_rows):
                    yield block.slice(start, batch_rows)
    except (pa.ArrowException, OSError) as error:
        before = 1 - first_row if headless else 2  # rows that Arrow counts before the first of the file
        raise DataError(_explained(file, schema, first_line(error), types, columns, before)) from None


def count_rows(file: Place, schema: pa.Schema, span: tuple[int, int] | None = None) -> int:
    """Rows of a file, or of a stretch of it, whatever they hold."""
    first = schema.names[0]
    uncast = pa.schema([field.with_type(pa.binary()) if field.name == first else field for field in schema])
    return sum(batch.num_rows for batch in read(file, uncast, [first], BLOCK_BYTES, (), span))


def _headless(names: list[str]) -> pacsv.ReadOptions:
    """How a stretch without the header line is read."""
    return pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=names)


@contextmanager
def _bytes_of(file: Place, span: tuple[int, int] | None) -> Iterator[Any]:
    """What Arrow reads a file, or a stretch of it, from."""
    if span is None:
        with readable(file) as stream:
            yield stream
        return
    with open_binary(file) as stream:
        stream.seek(span[0])
        yield Stretch(stream, span[1] - span[0])


class Stretch(io.RawIOBase):
    """So many bytes of a stream, from where it stands."""

    def __init__(self, stream: io.RawIOBase, size: int) -> None:
        self._stream, self._left = stream, size

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as the bytes go."""
        room = memoryview(buffer).cast("B")[: self._left]
        read = self._stream.readinto(room) or 0
        self._left -= read
        return read


class Looked(NamedTuple):
    """What a stretch holds: the types that fit all its values, by column, and its rows."""

    schema: pa.Schema
    rows: int


def look_through(file: Place, names: list[str], span: tuple[int, int]) -> Looked | None:
    """Read a stretch block by block to learn its types and rows; None where it cannot be read, as reading it tells."""
    schema, rows, rest = pa.schema([(name, pa.null()) for name in names]), 0, b""
    begun = span[0] > 0
    with _bytes_of(file, span) as stream:
        while block := whole(stream, BLOCK_BYTES):
            lines, newline, rest = (rest + block).rpartition(b"\n")
            found = _types_of(lines + newline, names, begun) if newline else None
            if newline and found is None:
                return None
            if found is not None:
                schema, rows, begun = merged_types(schema, found.schema), rows + found.rows, True
    if rest.strip(b"\r\n"):
        found = _types_of(rest, names, begun)
        if found is None:
            return None
        schema, rows = merged_types(schema, found.schema), rows + found.rows
    return Looked(schema, rows)


def _types_of(lines: bytes, names: list[str], headless: bool) -> Looked | None:
    if not headless:
        lines = lines.partition(b"\n")[2]
    if not lines.strip(b"\r\n"):
        return Looked(pa.schema([(name, pa.null()) for name in names]), 0)
    try:
        table = pacsv.read_csv(pa.BufferReader(lines), _headless(names))
    except pa.ArrowException:
        return None
    return Looked(table.schema, len(table))


def merged_types(one: pa.Schema, other: pa.Schema) -> pa.Schema:
    """For each column the narrowest type that holds the values of both."""
    pairs = zip(one, other.types, strict=True)
    return pa.schema([field.with_type(_merged(field.type, kind)) for field, kind in pairs])


def _merged(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    kinds = (one, other)
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
        return pa.float64()
    if all(is_date(kind) for kind in kinds) and zone_of(one) == zone_of(other):
        return pa.timestamp("ns" if any("[ns" in str(kind) for kind in kinds) else "s", zone_of(one) or None)
    return pa.string()


def explain_words(files: Sequence[Place], schema: pa.Schema, name: str) -> None:
    """Raise DataError that names the first value of a column that is no number; return if there is none."""
    numbers = schema.set(schema.get_field_index(name), pa.field(name, pa.float64()))
    try:
        for file in files:
            for _ in read(file, numbers, [name], BLOCK_BYTES, ()):
                pass
    except DataError as error:
        raise DataError(f"{error} If these are names rather than numbers, use --category {name}.") from None


def whole(stream: io.RawIOBase, size: int) -> bytes:
    """So many bytes, or as many as there are."""
    content = bytearray()
    while len(content) < size and (some := stream.read(size - len(content))):
        content += some
    return bytes(content)


def _explained(
    file: Place, schema: pa.Schema, message: str, types: dict[str, pa.DataType], columns: list[str], before: int
) -> str:
    found = re.search(r"In CSV column #(\d+): (?:Row #(\d+): )?.*invalid value '(.*)'", message)
    if not found:
        message = message if before == 2 else re.sub(r"Row #\d+: ", "", message)  # a number within the stretch
        return f"{file} cannot be read as CSV: {message}."
    name = schema.names[int(found[1])]
    row = f", row {int(found[2]) - before} (counted from 0)" if found[2] else ""
    return (
        f"{file}: column {name!r}{row} holds {found[3]!r}, but the rows before it are of type {types[name]}. "
        "Mend the value, or leave the column out."
    )
