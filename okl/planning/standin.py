"""Small data sets that stand in for large ones: a few shards of rows like theirs, for a rehearsal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okl.configuration import IngestSettings
from okl.execution.protocol import Rows
from okl.ridge.gram import BLOCK, MOST_STRETCHES
from okl.store.dataset import Dataset
from okl.store.ingest import ingest
from okl.store.reading import sample_rows
from okl.types import Task

N_SHARDS = 3


@dataclass(frozen=True)
class Scene:
    """What is known of the rows, on disk or on paper.

    task, n_classes : 0 classes of a regression; features, target : names of columns
    rows, shard_rows, group_rows : training rows in all, in a shard and in a row group; shards : of these rows
    shard_bytes : of a shard on disk, on average
    """

    task: Task
    n_classes: int
    features: tuple[str, ...]
    target: str
    rows: int
    shards: int
    shard_rows: int
    group_rows: int
    shard_bytes: int = 0

    @property
    def n_outputs(self) -> int:
        """Scores a row."""
        return self.n_classes if self.task == "multiclass" else 1


def scene_of(data: Dataset) -> Scene:
    """Of a data set."""
    shards = data.split("train")
    groups = [rows for shard in shards for rows in shard.row_groups]
    return Scene(
        data.schema.task,
        len(data.schema.labels),
        data.schema.features,
        data.schema.target,
        data.rows("train"),
        len(shards),
        max((shard.rows for shard in shards), default=0),
        max(groups, default=0),
        sum(shard.size_bytes for shard in shards) // max(1, len(shards)),
    )


def in_stretches(scene: Scene) -> Scene:
    """As kernel least squares goes over it: what answers is a stretch of rows, whatever the shards."""
    shards = max(1, min(MOST_STRETCHES, -(-scene.rows // BLOCK)))
    return replace(scene, shards=shards, shard_rows=-(-scene.rows // shards))


def scene_on_paper(
    rows: int, columns: int, task: Task, n_classes: int, settings: IngestSettings | None = None
) -> Scene:
    """Of rows that nobody has, ingested as usual."""
    ingest_settings = settings or IngestSettings()
    names = tuple(f"x{index}" for index in range(columns))
    shard_rows = min(rows, ingest_settings.rows_per_shard)
    classes = {"binary": 2, "multiclass": n_classes, "regression": 0}[task]
    group_rows, shard_bytes = min(shard_rows, ingest_settings.rows_per_group), 4 * shard_rows * (columns + 1)
    return Scene(task, classes, names, "y", rows, -(-rows // shard_rows), shard_rows, group_rows, shard_bytes)


def rows_like(scene: Scene, data: Dataset | None, n_rows: int) -> Rows:
    """Rows of the data set, again if it has fewer; normal ones with a curved target where there is none.

    Every class is there: inputs (n_rows, n_features) float64, targets (n_rows,) as `Rows` says.
    """
    random = np.random.default_rng(0x57A4D)
    if data is None:
        inputs = random.normal(size=(n_rows, len(scene.features)))
        curve = np.sin(inputs[:, 0]) + 0.5 * inputs[:, -1] ** 2 + 0.5 * random.normal(size=n_rows)
        index = np.searchsorted(np.quantile(curve, np.arange(1, scene.n_classes) / max(1, scene.n_classes)), curve)
        targets = {"binary": 2.0 * index - 1.0, "multiclass": index.astype(float), "regression": curve}[scene.task]
    else:
        some = sample_rows(data, "train", n_rows, 0, "float64")
        order = random.permutation(len(some.targets))  # they come as they are stored, perhaps sorted by class
        inputs, targets = (
            np.resize(some.inputs[order], (n_rows, len(scene.features))),
            np.resize(some.targets[order], n_rows),
        )
    if scene.task == "binary":
        targets[:2] = (1.0, -1.0)
    elif scene.task == "multiclass":
        targets[: scene.n_classes] = np.arange(scene.n_classes)
    return Rows(inputs, targets)


def write_standin(folder: Path, scene: Scene, rows: Rows, shard_rows: int) -> Dataset:
    """A data set of three shards in a folder, of the first of some rows; scaled already."""
    n_rows = min(len(rows.targets), N_SHARDS * shard_rows)
    targets = rows.targets[:n_rows]
    stored = targets if scene.task == "regression" else (targets > 0 if scene.task == "binary" else targets)
    table: dict[str, Any] = {name: rows.inputs[:n_rows, index] for index, name in enumerate(scene.features)}
    table[scene.target] = stored if scene.task == "regression" else stored.astype(np.int64)
    source = folder / f"rows-{shard_rows}.parquet"
    pq.write_table(pa.table(table), source)
    options = IngestSettings(
        target=scene.target, task=scene.task, rows_per_shard=shard_rows, rows_per_group=max(shard_rows, 4096)
    )
    return ingest(source, folder / f"standin-{shard_rows}", options).dataset
