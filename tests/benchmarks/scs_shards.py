"""Shared code of the benchmarks of sampled shards: data sets in uncompressed shards, and all of their rows in a map."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okl.compiled.jit import as_compiled
from okl.data.dataset import Dataset, Schema
from okl.data.execution import Execution
from okl.data.ingest.run import ingest
from okl.data.reading import read_rows
from okl.features.base import FeatureMap, transform_rows
from okl.foundation.settings import IngestSettings
from okl.foundation.types import FloatArray, Precision
from okl.losses import Hinge
from okl.solvers.subgradient.sharded import SubgradientState
from okl.solvers.subgradient.solver import SubgradientSolver

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class GivenMap:
    """A given map: all seeds of a solver learn in the same one."""

    feature_map: FeatureMap

    def draw(
        self, schema: Schema, sample: FloatArray, seed: int, precision: Precision
    ) -> tuple[FeatureMap, dict[str, Any]]:
        """Return the given map."""
        return self.feature_map, {}


def made_up(rows: int, columns: int, seed: int) -> pa.Table:
    """Return two overlapping classes that no line separates."""
    random = np.random.default_rng(seed)
    inputs = random.standard_normal((columns, rows), dtype=np.float32)
    score = np.sin(2.0 * inputs[0]) + inputs[1] * inputs[2] + 0.5 * random.standard_normal(rows, dtype=np.float32)
    named = {f"x{j}": column for j, column in enumerate(inputs)}
    return pa.table(named | {"y": (score > 0.0).astype(np.int8)})


def in_shards(source: Path, folder: Path, rows_per_shard: int, scale: Any = "none") -> Dataset:
    """Ingest a data set whose ranges of rows can be read separately."""
    settings = IngestSettings(compression="none", rows_per_shard=rows_per_shard, scale=scale)
    return ingest(source, folder, settings).dataset


def write_made_up(folder: Path, rows: int, columns: int, part: int = 500_000) -> Path:
    """Write a source of so many rows, in parts."""
    path = folder / "source.parquet"
    with pq.ParquetWriter(path, made_up(1, columns, 0).schema, compression="none") as writer:
        for index, first in enumerate(range(0, rows, part)):
            writer.write_table(made_up(min(part, rows - first), columns, index))
    return path


def states(learning: SubgradientSolver, data: Dataset, execution: Execution) -> Iterator[SubgradientState]:
    """Yield the state after each step, until the end."""
    state = learning.start(data, execution)
    yield state
    while learning.finished(state) is None:
        state = learning.advance(state, data, execution)
        yield state


def mapped_parts(data: Dataset, feature_map: FeatureMap) -> Iterator[tuple[FloatArray, Doubles]]:
    """Yield all training rows in the map, with their targets, group by group."""
    for shard in data.split("train"):
        for group in range(len(shard.row_groups)):
            rows = read_rows(data, shard, (group,), feature_map.precision)
            yield transform_rows(feature_map, rows.inputs, 2), rows.targets


def all_mapped(data: Dataset, feature_map: FeatureMap) -> tuple[FloatArray, Doubles]:
    """Return all training rows in the map as one matrix, with their targets."""
    n = data.rows("train")
    rows, targets, first = np.empty((n, feature_map.n_columns), dtype=feature_map.precision), np.empty(n), 0
    for part, part_targets in mapped_parts(data, feature_map):
        rows[first : first + len(part_targets)], targets[first : first + len(part_targets)] = part, part_targets
        first += len(part_targets)
    return as_compiled(rows, rows.dtype), targets


def objectives(data: Dataset, feature_map: FeatureMap, points: list[FloatArray], lam: float) -> Doubles:
    """Return lam/2 ||w||^2 + mean hinge over ALL rows of each point, in one pass."""
    stacked = np.stack(points).T
    losses: Doubles = np.zeros(len(points))
    for rows, targets in mapped_parts(data, feature_map):
        losses += Hinge().value(rows.astype(np.float64) @ stacked, targets[:, np.newaxis]).sum(axis=0)
    values: Doubles = losses / data.rows("train") + 0.5 * lam * (stacked**2).sum(axis=0)
    return values
