"""Raw CSV files with a header line: types come from the first block and are then held on to."""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from okl.errors import DataError
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
    fields = [field.with_type(pa.float64()) if pa.types.is_null(field.type) else field for field in schema]
    return pa.schema(fields)


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
        yield pa.BufferReader(whole(stream, span[1] - span[0]))


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
