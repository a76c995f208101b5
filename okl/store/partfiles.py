"""Part files that a thread keeps open: opening parses metadata."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from threading import local

import pyarrow as pa
import pyarrow.parquet as pq

from okl.store.flatpages import Bytes, FlatGroup, flat_columns, flat_group

OPEN_FILES = 32


class PartFile:
    """A part file, open for Arrow and for reading stretches of it.

    Raises OSError or ArrowException if it is missing or no Parquet file.
    """

    def __init__(self, path: Path) -> None:
        # no memory map: the pages of a whole data set would count as this process's memory, and a file that is cut off
        # while it is mapped ends the process
        self._file = pa.OSFile(str(path))
        self.parquet = pq.ParquetFile(self._file, pre_buffer=False)
        self._wanted: tuple[tuple[str, ...], str] = ((), "")
        self._columns: tuple[tuple[int, str], ...] | None = None
        self._groups: dict[int, FlatGroup | None] = {}

    def flat_group(self, group: int, features: tuple[str, ...], target: str) -> FlatGroup | None:
        """How features (float32) and target (float64) of a row group are laid out, None if they are not flat."""
        if (features, target) != self._wanted:
            kinds = ["FLOAT"] * len(features) + ["DOUBLE"]
            self._columns = flat_columns(self.parquet.schema, [*features, target], kinds)
            self._wanted, self._groups = (features, target), {}
        if self._columns is None:
            return None
        if group not in self._groups:
            self._groups[group] = flat_group(self.parquet.metadata, group, self._columns)
        return self._groups[group]

    def read_flat(self, group: FlatGroup, memory: Bytes) -> bool:
        """Fill memory (group.size_bytes,); False if it is not what the metadata says, such as cut off."""
        self._file.seek(group.offset)
        return self._file.readinto(memory) == group.size_bytes and group.holds(memory)

    def close(self) -> None:
        """Let go of the file."""
        self.parquet.close()
        self._file.close()


class _OpenParts(local):
    """The part files of one thread, the least recently used ones closed."""

    def __init__(self) -> None:
        self._parts: OrderedDict[tuple[str, str], PartFile] = OrderedDict()

    def open(self, path: Path, sha256: str) -> PartFile:
        key = (str(path), sha256)
        part = self._parts.pop(key, None)
        if part is None:
            part = PartFile(path)
        self._parts[key] = part
        if len(self._parts) > OPEN_FILES:
            self._parts.popitem(last=False)[1].close()
        return part


_open_parts = _OpenParts()


def open_part(path: Path, sha256: str) -> PartFile:
    """The part file at a path, opened unless this thread still holds it; sha256 tells it from an earlier one there."""
    return _open_parts.open(path, sha256)
