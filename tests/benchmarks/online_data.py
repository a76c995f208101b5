"""Rows for the benchmark of online learners: forest cover types of this repository, and rows made to size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from okl.data.execution import Rows
from okl.foundation.types import Task

COVTYPE = Path(__file__).parents[2] / "data" / "covtype"
COMMONEST_CLASS = 1  # lodgepole pine against all others: the two classes that LIBSVM's covtype.binary has
NOISE = 0.1


def read_covtype(n_rows: int) -> Rows:
    """Return training rows in the order of seed 0, standardised, float64, with two classes."""
    table = pq.read_table(sorted(COVTYPE.glob("part-*.parquet")))
    order = np.random.default_rng(0).permutation(table.num_rows)[:n_rows]
    names = [name for name in table.column_names if name != "y"]
    inputs = np.stack([table[name].to_numpy()[order].astype(np.float64) for name in names], axis=1)
    deviation = inputs.std(axis=0)
    inputs = (inputs - inputs.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return Rows(np.ascontiguousarray(inputs), np.where(table["y"].to_numpy()[order] == COMMONEST_CLASS, 1.0, -1.0))


def random_rows(n_rows: int, n_inputs: int, seed: int = 0) -> Rows:
    """Return normal inputs in float32 and random labels, so that the share of updates is the same for any budget."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((n_rows, n_inputs), dtype=np.float32)
    return Rows(inputs, np.where(rng.random(n_rows) < 0.5, 1.0, -1.0))


def learnable_rows(n_rows: int, n_inputs: int, n_classes: int) -> tuple[Rows, Task]:
    """Return normal inputs in float32 and equally frequent classes of a nonlinear function, a tenth of them wrong."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((n_rows, n_inputs), dtype=np.float32)
    curved = inputs[:, 0] * inputs[:, 1] + inputs[:, 2]
    classes = np.searchsorted(np.quantile(curved, np.arange(1, n_classes) / n_classes), curved)
    classes = np.where(rng.random(n_rows) < NOISE, rng.integers(0, n_classes, n_rows), classes)
    targets = classes.astype(np.float64)
    return (Rows(inputs, 2.0 * targets - 1.0), "binary") if n_classes == 2 else (Rows(inputs, targets), "multiclass")
