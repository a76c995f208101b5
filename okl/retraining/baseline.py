"""What shards are compared with: all that was accepted so far, or the reference's own statistics before that."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from okl.retraining.profile import Range
from okl.retraining.record import ShardRecord, Time
from okl.retraining.tally import Vector, merged_statistics
from okl.store.dataset import ColumnStatistics, Schema


@dataclass(frozen=True)
class Baseline:
    """Figures of the rows so far.

    schema : the reference; columns : of each input; target : of regression; class_counts : by the reference's labels
    rows : by the digest of their values, which shard holds them; watermark : latest time that was learnt
    n_rows : that were counted, 0 before the first shard
    """

    schema: Schema
    columns: tuple[ColumnStatistics, ...]
    class_counts: tuple[int, ...]
    target: ColumnStatistics | None
    rows: dict[str, str]
    watermark: Time | None = None
    n_rows: int = 0

    def limits(self, widening: float) -> Range:
        """The ranges so far, widened by so many times their own width to either side.

        A column that never changed is held to nothing: scaling makes it 0.
        """
        lowest, highest = _widened(self.columns, widening)
        if self.target is None or self.schema.task != "regression":
            return Range(lowest, highest)
        (low,), (high,) = _widened((self.target,), widening)
        return Range(lowest, highest, float(low), float(high))


def baseline_of(schema: Schema, accepted: Collection[ShardRecord], watermark: Time | None = None) -> Baseline:
    """Of the shards that were accepted, if there are any."""
    measured = [record for record in accepted if record.columns]
    rows = {record.rows_sha256: record.sha256 for record in accepted if record.rows_sha256}
    if not measured:
        return Baseline(
            schema, schema.feature_statistics, schema.class_counts, schema.target_statistics, rows, watermark
        )
    counts = np.array([record.class_counts for record in measured], dtype=np.int64).sum(axis=0)
    targets = [(record.target,) for record in measured if record.target is not None]
    return Baseline(
        schema,
        merged_statistics([record.columns for record in measured]),
        tuple(counts.tolist()) if schema.labels else (),
        merged_statistics(targets)[0] if targets else schema.target_statistics,
        rows,
        watermark,
        sum(record.rows for record in measured),
    )


def _widened(columns: tuple[ColumnStatistics, ...], widening: float) -> tuple[Vector, Vector]:
    lowest = np.array([column.minimum for column in columns])
    highest = np.array([column.maximum for column in columns])
    room = np.where(lowest == highest, np.inf, widening * (highest - lowest))
    return lowest - room, highest + room
