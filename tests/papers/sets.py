"""Small synthetic data sets with the names of the paper, in the format that a reproduction reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okl.foundation.types import Task


def write_set(folder: Path, name: str, task: Task = "binary", rows: int = 320, split: bool = False) -> Path:
    """Write NAME.parquet with a nonlinear function of three columns, which neither a constant nor a line fits."""
    draw = np.random.default_rng(7)
    inputs = (4.0 * draw.normal(size=(rows, 3))).astype(np.float32)
    signal = np.sin(inputs[:, 0] / 3) + 0.02 * inputs[:, 1] ** 2
    targets = {
        "binary": np.where(signal > np.median(signal), 1, -1),
        "multiclass": np.digitize(signal, np.quantile(signal, [0.3, 0.7])),
        "regression": 20.0 + 7.0 * signal,
    }[task]
    columns = {f"f{j}": inputs[:, j] for j in range(3)} | {"y": targets}
    if split:
        columns["split"] = np.where(np.arange(rows) % 4 == 0, "test", "train")
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return folder / f"{name}.parquet"


def write_orders(folder: Path, name: str, rows: int, count: int) -> None:
    """Write orders of rows in the authors' format; none equals a seeded order."""
    (folder / "perms").mkdir(parents=True, exist_ok=True)
    orders = {f"run{k}": np.random.default_rng(900 + k).permutation(rows) for k in range(count)}
    pq.write_table(pa.table(orders), folder / "perms" / f"{name}_perms.parquet")
