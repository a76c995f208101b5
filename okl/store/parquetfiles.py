"""Raw Parquet files: recognised by their magic bytes, read batch by batch whatever the size of their row groups."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from okl.errors import DataError
from okl.store.opening import open_binary, readable
from okl.store.places import Place, size_of

MAGIC = b"PAR1"
STREAM_BYTES = 65536  # read ahead in each column; without it a whole column chunk comes into memory at once


def inspect(file: Place, size_bytes: int = 0, sha256: str = "") -> tuple[pa.Schema, tuple[int, ...]]:
    """Schema and rows of each row group, from the footer alone; of a shard, once its bytes are verified.

    Raises
    ------
    DataError : the file is empty, no Parquet, or truncated
    """
    if not sha256:
        check_magic(file)
    try:
        with readable(file, size_bytes, sha256) as stream, pq.ParquetFile(stream) as parquet:
            meta = parquet.metadata
            schema = without_views(parquet.schema_arrow.remove_metadata())
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


def read(
    file: Place, row_groups: tuple[int, ...], columns: list[str], batch_rows: int, size_bytes: int = 0, sha256: str = ""
) -> Iterator[pa.RecordBatch]:
    """Rows of some row groups in order, as batches of the columns in the given order; of a shard, verified ones."""
    try:
        with (
            readable(file, size_bytes, sha256) as stream,
            pq.ParquetFile(stream, pre_buffer=False, buffer_size=STREAM_BYTES) as parquet,
        ):
            for batch in parquet.iter_batches(
                batch_rows, row_groups=list(row_groups), columns=columns, use_threads=False
            ):
                # select: a column named a also matches a.b, and the file keeps its own order
                yield _without_views(batch.select(columns))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} is a damaged Parquet file: {first_line(error)}.") from None


def without_views(schema: pa.Schema) -> pa.Schema:
    """Columns of text and bytes in the layout that all of Arrow's functions know: they filter no string_view yet."""
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return pa.schema([field.with_type(plain.get(field.type, field.type)) for field in schema])


def _without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    schema = without_views(batch.schema)
    return batch if schema.equals(batch.schema) else batch.cast(schema)


def first_line(error: BaseException) -> str:
    """First line of a message, without a full stop."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")
