"""Raw CSV files with a header line: types come from the first block and are then held on to."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.csv as pacsv

from okl.errors import DataError
from okl.store.opening import readable
from okl.store.parquetfiles import first_line
from okl.store.places import Place, size_of

BLOCK_BYTES = 2 * 2**20
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


def read(
    file: Place, schema: pa.Schema, columns: list[str], batch_rows: int, exact: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Rows in order as batches of the columns in the given order; whole numbers become float64 unless exact."""
    types = {
        field.name: pa.float64() if pa.types.is_integer(field.type) and field.name not in exact else field.type
        for field in schema
    }
    options = pacsv.ConvertOptions(column_types=types, include_columns=columns)
    try:
        with readable(file) as stream, pacsv.open_csv(stream, read_options=READING, convert_options=options) as reader:
            for block in reader:
                for start in range(0, block.num_rows, batch_rows):
                    yield block.slice(start, batch_rows)
    except (pa.ArrowException, OSError) as error:
        raise DataError(_explained(file, schema, first_line(error), types, columns)) from None


def _explained(file: Place, schema: pa.Schema, message: str, types: dict[str, pa.DataType], columns: list[str]) -> str:
    found = re.search(r"In CSV column #(\d+): (?:Row #(\d+): )?.*invalid value '(.*)'", message)
    if not found:
        return f"{file} cannot be read as CSV: {message}."
    name = schema.names[int(found[1])]
    row = f", row {int(found[2]) - 2} (counted from 0)" if found[2] else ""
    return (
        f"{file}: column {name!r}{row} holds {found[3]!r}, but the rows before it are of type {types[name]}. "
        "Mend the value, or leave the column out."
    )
