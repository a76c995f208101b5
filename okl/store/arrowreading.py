"""Row groups read by Arrow, column by column: what compressed part files take, and whatever is not laid out flat."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import local

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okl.errors import DataError
from okl.store.dataset import Dataset, Schema, Shard
from okl.store.partfiles import open_part
from okl.store.places import Place
from okl.store.targets import stored_index
from okl.types import FloatArray

OPEN_FILES = 32
Positions = NDArray[np.int64]
Targets = NDArray[np.float64]


class _ArrowFiles(local):
    """Part files that a thread keeps open for Arrow, the least recently used ones closed."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[Place, str], pq.ParquetFile] = OrderedDict()

    def open(self, data: Dataset, shard: Shard) -> pq.ParquetFile:
        key = (data.path(shard), shard.sha256)
        file = self._files.pop(key, None)
        if file is None:
            # no memory map: the pages of a whole data set would count as this process's memory
            part = open_part(data, shard)
            file = pq.ParquetFile(part.path, metadata=part.metadata, memory_map=False, pre_buffer=False)
        self._files[key] = file
        if len(self._files) > OPEN_FILES:
            self._files.popitem(last=False)[1].close()
        return file


_arrow_files = _ArrowFiles()


def read_group(
    data: Dataset, shard: Shard, group: int, into: Positions | range, inputs_out: FloatArray, targets_out: Targets
) -> None:
    """Read one row group by Arrow; its row r goes to row into[r] of inputs_out (., n_features) and targets_out (.,)."""
    from okl.compiled.transpose import scatter_columns  # numba: not needed to describe a data set

    positions = np.arange(into.start, into.stop) if isinstance(into, range) else into
    schema = data.schema
    table = read_columns(data, shard, group, [*schema.features, schema.target])
    if len(table) != len(positions):
        raise DataError(
            f"{data.path(shard)}: row group {group} has {len(table)} rows, expected {len(positions)} as manifest.json "
            "says. Ingest the source again."
        )
    *inputs, targets = [_one_chunk(column) for column in table.columns]  # held: the addresses are theirs
    addresses = np.array([_address(chunk) for chunk in inputs], dtype=np.int64)
    scatter_columns(inputs_out, addresses, positions, *schema.shift_and_factor)
    targets_out[positions] = targets_of(schema, targets.to_numpy(zero_copy_only=True))


def read_columns(data: Dataset, shard: Shard, group: int, columns: Sequence[str]) -> pa.Table:
    """Some columns of a row group, as stored and in the order asked for, or DataError."""
    path = data.path(shard)
    try:
        # select: a column named a also matches a.b
        file = _arrow_files.open(data, shard)
        return file.read_row_group(group, columns=list(columns), use_threads=False).select(columns)
    except (pa.ArrowException, OSError, IndexError, KeyError) as error:
        why = (str(error).splitlines() or [""])[0].rstrip(". ")
        raise DataError(f"{path} is missing or damaged at row group {group}: {why}. Ingest the source again.") from None


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """The values of a column as one array, without a copy where it came in one chunk."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _address(chunk: pa.Array) -> int:
    """Where the values of a column without gaps begin; by way of numpy it takes five times as long."""
    address: int = chunk.buffers()[1].address + chunk.offset * chunk.type.byte_width
    return address


def targets_of(schema: Schema, stored: Targets) -> Targets:
    """Targets to learn from stored values (rows,): -1 or +1, the class index, or the scaled target."""
    if schema.task == "regression":
        shift, factor = schema.target_shift_and_factor
        return (stored - shift) * factor
    if schema.task == "binary":
        return np.where(stored == schema.stored_labels[1], 1.0, -1.0)
    if schema.stored_labels == tuple(map(float, range(len(schema.labels)))):
        return stored
    return stored_index(stored, schema.stored_labels).astype(np.float64)
