"""Raw CSV files with a header line, read in order in bounded memory by types that are known."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from shlex import quote

import pyarrow as pa
import pyarrow.csv as pacsv

from okl.errors import DataError
from okl.store import csvblocks
from okl.store.csvblocks import bytes_of, headless
from okl.store.csvtypes import MISSING_WORDS
from okl.store.dateparts import is_date
from okl.store.dialects import COMMAS, Dialect
from okl.store.parquetfiles import first_line
from okl.store.places import Place

FAULT, VALUE = r"In CSV column #(\d+): (?:Row #(\d+): )?(.*)", r"invalid value '(.*)'"  # as Arrow tells them
HEADED = 2  # rows that Arrow counts before the first of a file with a header line


def read(
    file: Place, schema: pa.Schema, columns: list[str], batch_rows: int, exact: Collection[str],
    span: tuple[int, int] | None = None, first_row: int = 0, dialect: Dialect = COMMAS,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Rows in order as batches of the columns in the given order; whole numbers become float64 unless exact.

    span : bytes to read, as `stretches` cuts them, None for all; first_row : number of the first row there
    dialect : how its text is values
    """
    types = {
        field.name: pa.float64() if pa.types.is_integer(field.type) and field.name not in exact else field.type
        for field in schema
    }
    options = dialect.converting(column_types=types, include_columns=columns, null_values=MISSING_WORDS)
    without_header = span is not None and span[0] > 0
    reading = headless(schema.names) if without_header else csvblocks.READING
    try:
        with bytes_of(file, span) as stream, pacsv.open_csv(stream, reading, dialect.parsing, options) as reader:
            for block in reader:
                for start in range(0, block.num_rows, batch_rows):
                    yield block.slice(start, batch_rows)
    except (pa.ArrowException, OSError) as error:
        before = 1 - first_row if without_header else HEADED
        raise DataError(_explained(file, schema, first_line(error), types, before)) from None


def count_rows(file: Place, schema: pa.Schema, span: tuple[int, int] | None, dialect: Dialect) -> int:
    """Rows of a file, or of a stretch of it, whatever they hold."""
    first = schema.names[0]
    uncast = pa.schema([field.with_type(pa.binary()) if field.name == first else field for field in schema])
    return sum(batch.num_rows for batch in read(file, uncast, [first], csvblocks.BLOCK_BYTES, (), span, 0, dialect))


def first_word(files: Mapping[Place, Dialect], schema: pa.Schema, name: str) -> str:
    """The first value of a column that is no number, and where it stands; "" if there is none, or rows do not parse."""
    kinds = {name: pa.float64()}
    for file, dialect in files.items():
        options = dialect.converting(column_types=kinds, include_columns=[name], null_values=MISSING_WORDS)
        try:
            with (
                bytes_of(file, None) as stream,
                pacsv.open_csv(stream, csvblocks.READING, dialect.parsing, options) as reader,
            ):
                for _ in reader:
                    pass
        except (pa.ArrowException, OSError) as error:
            found = re.search(FAULT, first_line(error))
            value = re.search(VALUE, found[3]) if found else None
            return f"{file}: column {name!r}{_row(found, HEADED)} holds {value[1]!r}" if found and value else ""
    return ""


def explain_words(files: Mapping[Place, Dialect], schema: pa.Schema, name: str) -> None:
    """Raise DataError that names the first value of a column that is no number; return if there is none."""
    numbers = schema.set(schema.get_field_index(name), pa.field(name, pa.float64()))
    try:
        for file, dialect in files.items():
            for _ in read(file, numbers, [name], csvblocks.BLOCK_BYTES, (), dialect=dialect):
                pass
    except DataError as error:
        raise DataError(f"{error} If these are names rather than numbers, use --category {quote(name)}.") from None


def _explained(file: Place, schema: pa.Schema, message: str, types: dict[str, pa.DataType], before: int) -> str:
    found = re.search(FAULT, message)
    if not found:
        message = message if before == HEADED else re.sub(r"Row #\d+: ", "", message)  # a number within the stretch
        return f"{file} cannot be read as CSV: {message}."
    name = schema.names[int(found[1])]
    value = re.search(VALUE, found[3])
    why = (
        f"holds {value[1]!r}, but is read as {types[name]}, as other values or the model have it"
        if value
        else f"fails: {found[3]}"
    )
    mend = "Mend the value"
    if is_date(types[name]):
        mend = "Write dates as 2026-12-31"
    elif value and re.search(r"\d,\d|[%$€£]", value[1]):
        mend = "Write numbers plainly, such as 1234.5"
    return f"{file}: column {name!r}{_row(found, before)} {why}. {mend}, or leave the column out."


def _row(found: re.Match[str], before: int) -> str:
    return f", row {int(found[2]) - before} (counted from 0)" if found[2] else ""
