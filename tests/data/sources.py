"""Small sources and settings for the tests of data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okl.foundation.settings import IngestSettings, settings_from


def settings(**values: Any) -> IngestSettings:
    return settings_from(IngestSettings, values, "test")


def table(rows: int = 1000, columns: int = 5, seed: int = 0, **more: Any) -> pa.Table:
    """Return columns a, b, c, ... of float32, a target y of -1 and 1 that depends on them, and more columns."""
    random = np.random.default_rng(seed)
    inputs = (random.normal(size=(columns, rows)) * (1 + np.arange(columns))[:, None] + 3).astype(np.float32)
    target = np.where(inputs[0] + random.normal(size=rows) > 3, 1, -1)
    assert rows < 50 or 0.2 < (target == 1).mean() < 0.8
    named = {chr(ord("a") + i): column for i, column in enumerate(inputs)}
    return pa.table({**named, "y": target, **more})


def replaced(original: pa.Table, name: str, values: Any) -> pa.Table:
    """Return the table with other values in one column."""
    return original.set_column(original.schema.names.index(name), name, pa.array(values))


def parquet(folder: Path, content: pa.Table, name: str = "source.parquet", **options: Any) -> Path:
    path = folder / name
    pq.write_table(content, path, **options)
    return path


def inputs_of(content: pa.Table, names: str = "abcde") -> np.ndarray[Any, Any]:
    return np.column_stack([content.column(name).to_numpy() for name in names])
