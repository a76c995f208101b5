"""Part files as they are written: plain-encoded float32 columns, one row group at a time, counted and hashed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okl.configuration import IngestSettings
from okl.store.columns import Roles
from okl.store.dataset import Shard
from okl.store.order import WINDOW_BYTES
from okl.store.statistics import Moments, empty_moments, merge_moments, moments_of
from okl.store.values import value_type
from okl.store.verified import file_sha256 as file_sha256
from okl.store.verified import written
from okl.types import FloatArray, Split

PAGE_BYTES = 8 * 2**20  # a column of a row group is one page


def part_schema(features: tuple[str, ...], target: str, keys: dict[str, pa.DataType]) -> pa.Schema:
    """Columns of a part file: inputs, target, keys (in their own types, dictionaries decoded)."""
    fields = [pa.field(name, pa.float32(), nullable=False) for name in features]
    fields.append(pa.field(target, pa.float64(), nullable=False))
    fields += [pa.field(name, value_type(kind)) for name, kind in keys.items()]
    return pa.schema(fields)


def group_rows(asked: int, n_features: int) -> int:
    """Rows of a row group: as asked, or fewer so that its inputs fit the memory for one window of rows."""
    return max(1, min(asked, WINDOW_BYTES // (4 * max(1, n_features))))


@dataclass(frozen=True)
class Written:
    """What was written of a split: its shards, in order, and the moments of inputs and target over them."""

    shards: list[Shard]
    moments: Moments
    target_moments: Moments

    @property
    def rows(self) -> int:
        """Rows of all shards."""
        return sum(shard.rows for shard in self.shards)


@dataclass
class ShardWriter:
    """Writes rows of one split to part files named after it; buffers one row group.

    moments, target_moments : of the inputs and of the target over what is written, where statistics are wanted
    groups : the same of each row group by itself, collected instead where this is a list
    """

    folder: Path
    split: Split
    schema: pa.Schema
    n_features: int
    rows_per_shard: int
    rows_per_group: int
    compression: str
    compression_level: int
    with_moments: bool
    shards: list[Shard] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.groups: list[tuple[Moments, Moments]] | None = None
        self.moments: Moments = empty_moments(self.n_features)
        self.target_moments: Moments = empty_moments(1)
        self._inputs = np.empty((self.n_features, min(self.rows_per_group, self.rows_per_shard)), dtype=np.float32)
        self._targets = np.empty(self._inputs.shape[1])
        self._keys: list[list[pa.Array]] = [[] for _ in self.schema.names[self.n_features + 1 :]]
        self._filled = 0
        self._groups: list[int] = []
        self._file: pq.ParquetWriter | None = None

    @property
    def rows(self) -> int:
        """Rows written to finished shards."""
        return sum(shard.rows for shard in self.shards)

    def append(self, inputs: FloatArray, targets: NDArray[np.float64], keys: list[pa.Array]) -> None:
        """Take rows: inputs (n_features, rows), targets (rows,), key columns."""
        start, rows = 0, len(targets)
        while start < rows:
            room = min(self._inputs.shape[1], self.rows_per_shard - sum(self._groups)) - self._filled
            stop = min(rows, start + room)
            into = slice(self._filled, self._filled + stop - start)
            self._inputs[:, into] = inputs[:, start:stop]
            self._targets[into] = targets[start:stop]
            for parts, column in zip(self._keys, keys, strict=True):
                parts.append(column.slice(start, stop - start))
            self._filled, start = into.stop, stop
            if self._filled == self._inputs.shape[1] or sum(self._groups) + self._filled == self.rows_per_shard:
                self._write_group()

    def close(self) -> None:
        """Write what is left and finish the last part file."""
        if self._filled:
            self._write_group()
        if self._file is not None:
            self._finish_file()

    def abandon(self) -> None:
        """Let go of an unfinished part file; the folder is about to be removed."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _path(self) -> Path:
        return self.folder / f"{self.split}-{len(self.shards):05d}.parquet"

    def _write_group(self) -> None:
        rows = self._filled
        inputs, targets = self._inputs[:, :rows], self._targets[:rows]
        columns = [pa.array(column) for column in (*inputs, targets)]
        for parts, kind in zip(self._keys, self.schema.types[self.n_features + 1 :], strict=True):
            columns.append(pa.concat_arrays([part.cast(kind) for part in parts]))
            parts.clear()
        if self._file is None:
            self._file = pq.ParquetWriter(
                self._path(), self.schema, use_dictionary=False, write_statistics=False, data_page_size=PAGE_BYTES,
                max_rows_per_page=self._inputs.shape[1],
                compression=self.compression,
                compression_level=self.compression_level if self.compression == "zstd" else None,
            )  # fmt: skip
        self._file.write_table(pa.Table.from_arrays(columns, schema=self.schema), row_group_size=rows)
        if self.with_moments:
            self._add_moments(moments_of(inputs), moments_of(targets[np.newaxis]))
        self._groups.append(rows)
        self._filled = 0
        if sum(self._groups) == self.rows_per_shard:
            self._finish_file()

    def _add_moments(self, inputs: Moments, targets: Moments) -> None:
        if self.groups is not None:
            self.groups.append((inputs, targets))
            return
        self.moments = merge_moments(self.moments, inputs)
        self.target_moments = merge_moments(self.target_moments, targets)

    def _finish_file(self) -> None:
        assert self._file is not None
        self._file.close()
        self._file = None
        path = self._path()
        self.shards.append(
            Shard(len(self.shards), path.name, self.split, tuple(self._groups), path.stat().st_size, written(path))
        )
        self._groups = []


def shard_writers(
    folder: Path, columns: pa.Schema, roles: Roles, settings: IngestSettings
) -> tuple[ShardWriter, ShardWriter]:
    """Writers of train and test rows into a folder; columns : of the source."""
    types = {name: columns.field(name).type for name in roles.keys}
    schema, n_features = part_schema(roles.features, roles.target, types), len(roles.features)
    rows_per_group = group_rows(min(settings.rows_per_group, settings.rows_per_shard), n_features)
    train, test = (
        ShardWriter(
            folder,
            split,
            schema,
            n_features,
            settings.rows_per_shard,
            rows_per_group,
            settings.compression,
            settings.compression_level,
            with_moments=split == "train",
        )
        for split in ("train", "test")
    )
    return train, test
