"""Data for the benchmarks of the accelerated method: the paper's generator, and sets in the folder of shared data."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okl.solvers.accelerated.operators import DenseRows

Doubles = NDArray[np.float64]


def paper_rows(n_rows: int, n_columns: int, seed: int = 0) -> tuple[Doubles, Doubles]:
    """Draw the artificial data, scaled to [-1, 1].

    Positives N(0, I), negatives N(10 / sqrt(n) e, S S') with S of standard normal entries, both as likely.

    Source: Ito et al., 2017, section 5.
    """
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n_rows) < 0.5, 1.0, -1.0)
    rows, spread = rng.standard_normal((n_rows, n_columns)), rng.standard_normal((n_columns, n_columns))
    rows[labels < 0] = rows[labels < 0] @ spread.T + 10.0 / np.sqrt(n_columns)
    least, most = rows.min(axis=0), rows.max(axis=0)
    return np.ascontiguousarray(2.0 * (rows - least) / (most - least) - 1.0), labels


def shared_rows(name: str, precision: str = "float64") -> tuple[NDArray[np.floating], Doubles]:
    """Return inputs and labels -1, +1 of a set in the folder OKL_DATA; the largest class against the others."""
    table = pq.read_table(Path(os.environ["OKL_DATA"]) / f"{name}.parquet")
    names = [column for column in table.column_names if column not in ("y", "label", "target", "split")]
    target = next(table[column].to_numpy() for column in ("y", "label", "target") if column in table.column_names)
    classes, counts = np.unique(target, return_counts=True)
    labels = np.where(target == (classes[-1] if len(classes) == 2 else classes[np.argmax(counts)]), 1.0, -1.0)
    columns = [np.asarray(table[column].to_numpy(), dtype=precision) for column in names]
    return np.ascontiguousarray(np.column_stack(columns)), labels


def scaled(inputs: NDArray[np.floating]) -> Doubles:
    """Return columns of mean 0 and standard deviation 1."""
    spread = inputs.std(axis=0)
    values: Doubles = (inputs - inputs.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    return values


def dense(rows: NDArray[np.floating], labels: Doubles, precision: str = "float32", n_threads: int = 2) -> DenseRows:
    """Return rows as the method stores them; sums are float64 for any precision."""
    return DenseRows(np.ascontiguousarray(rows, dtype=precision), labels, n_threads)
