"""Real data from scikit-learn, written to Parquet and ingested: cancer (two classes), wine (three)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_breast_cancer, load_wine

from okl.data.dataset import Dataset
from okl.data.ingest.run import ingest
from okl.foundation.settings import IngestSettings

LOADERS = {"cancer": load_breast_cancer, "wine": load_wine}


def make_set(folder: Path, name: str) -> Dataset:
    """Return a data set with standardised inputs, a fifth of test rows, and several shards."""
    inputs, targets = LOADERS[name](return_X_y=True)
    assert len(np.unique(targets)) == (2 if name == "cancer" else 3)
    assert np.isfinite(inputs).all()
    columns = {f"x{j}": inputs[:, j].astype(np.float32) for j in range(inputs.shape[1])}
    pq.write_table(pa.table(columns | {"y": targets}), folder / f"{name}.parquet")
    settings = IngestSettings(scale="standard", holdout=0.2, rows_per_shard=200, rows_per_group=64)
    return ingest(folder / f"{name}.parquet", folder / name, settings).dataset
