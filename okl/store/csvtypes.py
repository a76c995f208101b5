"""Types of the columns of CSV files: a first block suggests them, a look through the file settles them."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pacsv

from okl.errors import DataError
from okl.store import csvblocks
from okl.store.csvblocks import bytes_of, headless, whole
from okl.store.dateparts import is_date, zone_of
from okl.store.dialects import BESIDE_DECIMAL_COMMAS, Dialect, has_decimal_commas, separator_of
from okl.store.listing import check_unique
from okl.store.packing import open_text
from okl.store.parquetfiles import first_line
from okl.store.places import Place, size_of

_ABSENT = ("?", "None", "none", "<NA>", *pacsv.ConvertOptions().null_values)
MISSING_WORDS = [*_ABSENT, *(f" {word}" for word in _ABSENT)]
"""Words that stand for no value among numbers and dates, such as NA; among text they are values like any other."""


class Inspected(NamedTuple):
    """Names and types of columns as the first 2 MiB suggest them, null where there is no value; how text is values."""

    schema: pa.Schema
    dialect: Dialect


def inspect(file: Place) -> Inspected:
    """Look at the header line and the first 2 MiB of a file.

    Raises
    ------
    DataError : the file is empty, has no rows, or is not CSV; two columns share a name, or one has none in UTF-8
    """
    if size_of(file) == 0:
        raise DataError(f"{file} is empty; expected a CSV file with a header line.")
    try:
        with open_text(file) as stream:
            dialect = Dialect(separator_of(whole(stream, csvblocks.BLOCK_BYTES)))
        schema = _first_types(file, dialect)
        if dialect.separator in BESIDE_DECIMAL_COMMAS:
            commas = dialect._replace(decimal=",")
            if has_decimal_commas(schema, found := _first_types(file, commas)):
                return Inspected(found, commas)
        return Inspected(schema, dialect)
    except StopIteration:
        raise DataError(f"{file} holds no rows; expected at least one.") from None
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file} is not a CSV file with a header line: {first_line(error)}.") from None


def _first_types(file: Place, dialect: Dialect) -> pa.Schema:
    """Names and types by the first block."""
    with bytes_of(file, None) as stream, pacsv.open_csv(stream, csvblocks.READING, **_typing(dialect)) as reader:
        if reader.read_next_batch().num_rows == 0:
            raise DataError(f"{file} holds no rows; expected at least one.")
        check_unique(reader.schema, file)
        return reader.schema


def _typing(dialect: Dialect) -> dict[str, Any]:
    """How Arrow finds types itself."""
    return {"parse_options": dialect.parsing, "convert_options": dialect.converting(null_values=MISSING_WORDS)}


def settled(schema: pa.Schema) -> pa.Schema:
    """Types to read by: a column without any value counts as numbers."""
    return pa.schema([field.with_type(pa.float64()) if pa.types.is_null(field.type) else field for field in schema])


class Looked(NamedTuple):
    """What a stretch holds: the types that fit all its values, by column, and its rows."""

    schema: pa.Schema
    rows: int


def look_through(file: Place, names: list[str], span: tuple[int, int], dialect: Dialect) -> Looked | None:
    """Read a stretch block by block to learn its types and rows; None where it cannot be read, as reading it tells."""
    schema, rows, rest = pa.schema([(name, pa.null()) for name in names]), 0, b""
    begun = span[0] > 0
    with bytes_of(file, span) as stream:
        while block := whole(stream, csvblocks.BLOCK_BYTES):
            lines, newline, rest = (rest + block).rpartition(b"\n")
            found = _types_of(lines + newline, names, begun, dialect) if newline else None
            if newline and found is None:
                return None
            if found is not None:
                schema, rows, begun = merged_types(schema, found.schema), rows + found.rows, True
    if rest.strip(b"\r\n"):
        found = _types_of(rest, names, begun, dialect)
        if found is None:
            return None
        schema, rows = merged_types(schema, found.schema), rows + found.rows
    return Looked(schema, rows)


def _types_of(lines: bytes, names: list[str], without_header: bool, dialect: Dialect) -> Looked | None:
    if not lines.strip(b"\r\n"):
        return Looked(pa.schema([(name, pa.null()) for name in names]), 0)
    reading = headless(names) if without_header else csvblocks.READING  # a name in quotes may hold a line end
    try:
        table = pacsv.read_csv(pa.BufferReader(lines), reading, **_typing(dialect))
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
