"""Row groups whose columns lie on disk as they lie in memory: read whole, by one call, instead of column by column.

An uncompressed part file as okl writes it holds one plain page of values a column and row group, without gaps: behind a
header of some 25 bytes lie the values themselves. That a row group is so is never assumed. The file's metadata must say
that each column is uncompressed, required and of the expected type, where it begins, and that its length leaves room
for the values and the header; and each time it is read, the header must be, byte for byte, the one of a single plain
page of so many values. Whatever is otherwise is left to Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
VALUE_BYTES = {"FLOAT": 4, "DOUBLE": 8}
_LEAST_BYTES = 4 * 2**20  # from here on NumPy asks for huge pages
_MOST_FREE_BYTES = 32 * 2**20


@dataclass(frozen=True)
class FlatGroup:
    """Where the values of the wanted columns of a row group begin in their file: starts (columns,); rows each."""

    rows: int
    starts: NDArray[np.int64]


def flat_group(metadata: Any, group: int, columns: Sequence[tuple[int, str]]) -> FlatGroup | None:
    """Lay out some columns of a row group, None unless the metadata of the file says that they are flat.

    Parameters
    ----------
    metadata : pyarrow.parquet.FileMetaData
    columns : index in the file and physical type of each
    """
    row_group = metadata.row_group(group)
    rows = row_group.num_rows
    starts = []
    for index, kind in columns:
        chunk = row_group.column(index)
        header_size = len(page_header(rows, kind))
        start, size = chunk.data_page_offset, chunk.total_compressed_size
        if size != header_size + VALUE_BYTES[kind] * rows or chunk.compression != "UNCOMPRESSED" or rows == 0:
            return None
        starts.append(start + header_size)
    return FlatGroup(rows, np.array(starts, dtype=np.int64))


def flat_columns(
    metadata: Any, schema: Any, names: Sequence[str], kinds: Sequence[str]
) -> tuple[tuple[int, str], ...] | None:
    """Index and physical type of columns by name, None unless each is there once, required and of its type.

    The schema is Arrow's: Parquet's own and the metadata hold each other, so that they would stay in memory until
    Python looks for cycles, which in a long pass it hardly ever does.

    metadata : pyarrow.parquet.FileMetaData; schema : pyarrow.Schema of the same file
    """
    if metadata.num_row_groups == 0:
        return None
    row_group = metadata.row_group(0)
    paths = [row_group.column(index).path_in_schema for index in range(metadata.num_columns)]
    if len(set(paths)) < len(paths):
        return None
    places = {path: index for index, path in enumerate(paths)}
    found = []
    for name, kind in zip(names, kinds, strict=True):
        at = schema.get_field_index(name)  # -1 for a column within another one, too
        if at < 0 or name not in places or schema.field(at).nullable:
            return None
        if row_group.column(places[name]).physical_type != kind:
            return None
        found.append((places[name], kind))
    return tuple(found)


@lru_cache(maxsize=256)
def page_header(rows: int, kind: str) -> Bytes:
    """The header of an uncompressed data page that holds all `rows` values of a required column, plain.

    Source: Apache Parquet, parquet.thrift, PageHeader and DataPageHeader (version 1), in Thrift's compact protocol:
    a field is its distance to the one before and its type in one byte, and a whole number as a zigzag varint.
    """
    i32, struct, stop = 0x15, 0x0C, b"\x00"
    size = _whole(VALUE_BYTES[kind] * rows)
    data_page, plain, rle = _whole(0), _whole(0), _whole(3)
    page = bytes([i32]) + data_page + bytes([i32]) + size + bytes([i32]) + size
    values = b"".join(bytes([i32]) + field for field in (_whole(rows), plain, rle, rle))
    statistics = bytes([0x10 | struct]) + stop  # none of them is set
    return np.frombuffer(page + bytes([0x20 | struct]) + values + statistics + stop + stop, dtype=np.uint8)


def _whole(number: int) -> bytes:
    """A whole number >= 0 as a zigzag varint: seven bits a byte, the lowest first."""
    rest, coded = 2 * number, bytearray()
    while rest > 0x7F:
        coded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*coded, rest])


class _Memory:
    """Stretches of memory that are lent and come back: fresh pages would cost more than the reading."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._free: list[Bytes] = []

    def take(self, size: int) -> Bytes:
        with self._lock:
            for index, memory in enumerate(self._free):
                if len(memory) >= size:
                    return self._free.pop(index)
        return np.empty(max(size, _LEAST_BYTES), dtype=np.uint8)

    def give(self, memory: Bytes) -> None:
        with self._lock:
            self._free.append(memory)
            self._free.sort(key=len)
            while sum(map(len, self._free)) > _MOST_FREE_BYTES:
                del self._free[0]


_memory = _Memory()


@contextmanager
def borrowed_memory(size: int) -> Iterator[Bytes]:
    """Lend memory, (size,) bytes of any content."""
    memory = _memory.take(size)
    try:
        yield memory[:size]
    finally:
        _memory.give(memory)
