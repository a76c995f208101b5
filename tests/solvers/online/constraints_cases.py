"""A small data set of several shards with columns to constrain: one an input, one a key of text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from okl.data.dataset import Dataset
from okl.data.ingest.run import ingest
from okl.foundation.settings import IngestSettings
from okl.foundation.types import Task
from tests.rows import curved, write


def sensitive_table(n_rows: int = 1600, task: Task = "binary") -> pa.Table:
    """Return a table whose column c depends on the sign of s, so that scores from c alone differ between the groups."""
    content = curved(n_rows, task)
    draw = np.random.default_rng(8)
    sensitive = (content.column("b").to_numpy() ** 2 + draw.normal(size=n_rows) > 0.8).astype(np.float32)
    words = np.where(sensitive > 0, "often", np.where(draw.random(n_rows) < 0.5, "never", "seldom"))
    assert 0.2 < sensitive.mean() < 0.8
    return content.append_column("s", pa.array(sensitive)).append_column("how", pa.array(words.tolist()))


def sensitive_data(folder: Path, task: Task = "binary") -> Dataset:
    """Ingest the table in about five shards of two row groups each; the target of a regression is scaled."""
    source, scaled = write(folder, sensitive_table(task=task)), task == "regression"
    scale: dict[str, Any] = {"scale": "standard", "scale_target": True} if scaled else {}
    settings = IngestSettings(keys=("how",), rows_per_shard=256, rows_per_group=128, **scale)
    return ingest(source, folder / "data", settings).dataset
