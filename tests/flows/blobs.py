"""A small source to train on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def write_blobs(path: Path, n_rows: int = 600) -> None:
    """Write two overlapping clouds of points, of both classes and both splits, as a Parquet file."""
    draw = np.random.default_rng(7)
    y = draw.integers(0, 2, n_rows)
    x = draw.normal(size=(n_rows, 3)) + 1.2 * y[:, None]
    split = np.where(np.arange(n_rows) % 4 == 0, "test", "train")
    assert {(label, part) for label, part in zip(y, split, strict=True)} >= {(0, "test"), (1, "train")}
    pq.write_table(pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": y, "split": split}), path)
