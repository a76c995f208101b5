"""Part files that this process holds open for reading stretches of them, and what their metadata say of each."""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from pathlib import Path
from threading import Lock

import pyarrow.parquet as pq

from okl.store.copies import RemoteCopy, whole_copy_of
from okl.store.dataset import Dataset, Shard
from okl.store.flatpages import FlatGroup, flat_columns, flat_group
from okl.store.places import Place
from okl.store.verified import verify_file

OPEN_FILES = 32


class PartFile:
    """A part file, for any number of threads at once; closed once nobody holds it.

    Parameters
    ----------
    path : of the file, or of a remote one's copy, which is then held

    Raises
    ------
    OSError or ArrowException : it is missing, or no Parquet file
    """

    def __init__(self, path: Path, copy: RemoteCopy | None = None) -> None:
        self.path, self._copy = path, copy
        # Parquet's own schema must not be asked for here; see flat_columns
        with pq.ParquetFile(path, memory_map=False, pre_buffer=False) as file:
            self.metadata, self._schema = file.metadata, file.schema_arrow
        # no memory map: the pages of a whole data set would count as this process's memory, and a file that is cut off
        # while it is mapped ends the process
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._columns: dict[tuple[tuple[str, ...], str], tuple[tuple[int, str], ...] | None] = {}
        self._groups: dict[tuple[int, tuple[tuple[int, str], ...]], FlatGroup | None] = {}

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)

    def flat_group(self, group: int, features: tuple[str, ...], target: str) -> FlatGroup | None:
        """How features (float32) and target (float64) of a row group are laid out, None if they are not flat."""
        wanted = (features, target)
        if wanted not in self._columns:
            kinds = ["FLOAT"] * len(features) + ["DOUBLE"]
            self._columns[wanted] = flat_columns(self.metadata, self._schema, [*features, target], kinds)
        columns = self._columns[wanted]
        if columns is None:
            return None
        if (group, columns) not in self._groups:
            self._groups[group, columns] = flat_group(self.metadata, group, columns)
        return self._groups[group, columns]

    def expect(self, first: int, last: int) -> None:
        """Have the system bring row groups first to last into memory, without waiting, unless the last one is there."""
        opening = self.metadata.row_group(first).column(0)
        closing = self.metadata.row_group(last).column(self.metadata.num_columns - 1)
        start, stop = opening.data_page_offset, closing.data_page_offset + closing.total_compressed_size
        if sys.platform == "linux" and not self._in_memory(stop - 1):
            os.posix_fadvise(self.descriptor, start, stop - start, os.POSIX_FADV_WILLNEED)

    def _in_memory(self, place: int) -> bool:
        """Whether a byte can be had at once: asking costs a microsecond, bringing in what is there a hundred."""
        try:
            return os.preadv(self.descriptor, [bytearray(1)], place, os.RWF_NOWAIT) == 1
        except OSError:  # it cannot, or the file system cannot tell
            return False


class _OpenParts:
    """The part files of the process, the least recently used ones let go of."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._parts: OrderedDict[tuple[Place, str, str], PartFile] = OrderedDict()

    def open(self, folder: Place, shard: Shard) -> PartFile:
        key = (folder, shard.path, shard.sha256)
        with self._lock:
            part = self._parts.get(key)
        if part is None:
            part = _opened(folder / shard.path, shard)  # by two threads, perhaps, that ask at once
        with self._lock:
            self._parts[key] = part
            self._parts.move_to_end(key)
            if len(self._parts) > OPEN_FILES:
                self._parts.popitem(last=False)
        return part


def _opened(place: Place, shard: Shard) -> PartFile:
    if isinstance(place, Path):
        verify_file(place, shard.sha256)
        return PartFile(place)
    copy = whole_copy_of(place, shard.size_bytes, shard.sha256)
    return PartFile(Path(f"/dev/fd/{copy.descriptor}"), copy)


_open_parts = _OpenParts()


def open_part(data: Dataset, shard: Shard) -> PartFile:
    """The part file of a shard, opened unless it is held; the sha256 tells it from an earlier one of the same path.

    The first time in a process its bytes are verified, and those of a remote shard are brought here.

    Raises
    ------
    DataError : its bytes are not those that were ingested, or a remote one cannot be read
    OSError or ArrowException : it is missing, or no Parquet file
    """
    return _open_parts.open(data.folder, shard)
