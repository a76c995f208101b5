"""Small shards for tests of retraining: files of a stream with structure, and a store for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okl.data.dataset import Schema
from okl.data.ingest.run import ingest
from okl.foundation.locations import place_of
from okl.foundation.settings import IngestSettings
from okl.lifecycle.contract import baseline_of
from okl.lifecycle.intake import validate_file
from okl.lifecycle.settings import ContractSettings
from okl.lifecycle.shard_store import Arrival, ShardRecord, ShardStore, arrivals, content_sha256

ROWS = 600
SETTINGS = IngestSettings(scale="standard", holdout=0.2, missing="error")
TEXT_LABELS = np.array(["no", "yes"])


def content(seed: int, rows: int = ROWS, flipped: bool = False, text: bool = False) -> pa.Table:
    """Return four inputs, one mostly 0, two classes with a curved border, and the hour of each row."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((4, rows)) * [[1.0], [10.0], [0.1], [1.0]] + [[0.0], [50.0], [0.0], [0.0]]
    x[3] = random.random(rows) < 0.02
    signal = np.sin(2 * x[0]) + ((x[1] - 50) / 10) ** 2 - 1 + 0.3 * random.standard_normal(rows)
    label = (signal > 0) ^ flipped
    assert rows < 50 or 0.2 < label.mean() < 0.8
    columns: dict[str, Any] = {f"x{i}": column.astype(np.float32) for i, column in enumerate(x)}
    hour = 24.0 * seed + np.sort(random.random(rows)) * 24
    return pa.table(columns | {"hour": hour, "y": TEXT_LABELS[label.astype(int)] if text else np.where(label, 1, -1)})


def land(folder: Path, name: str, table: pa.Table, **options: Any) -> Path:
    """Write a shard to the inbox."""
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / name, **options)
    return folder / name


def first_schema(folder: Path, text: bool = False) -> Schema:
    """Return the schema of a shard of day 0, which determines the scaling; hours are keys."""
    source = land(folder, "first.parquet", content(0, text=text))
    settings = SETTINGS.model_copy(update={"holdout": None, "keys": ("hour",)})
    return ingest(source, folder / "first", settings).dataset.schema


def arrival(path: Path) -> Arrival:
    (found,), *_ = arrivals(str(path))
    return found


LIMITS = ContractSettings()


def validated(
    store: ShardStore, path: Path, schema: Schema, contract: ContractSettings = LIMITS, **more: Any
) -> ShardRecord:
    """Return the record of a file after validation against a contract; more : arguments of `validate_file`."""
    more["ingesting"] = SETTINGS.model_copy(update=more.get("ingesting", {}))
    more.setdefault("baseline", baseline_of(schema, store.accepted()))
    record = validate_file(store, arrival(path), content_sha256(place_of(path)), contract=contract, **more)
    assert record is not None, "nobody changed the file"
    return record
