"""Rows that a kernel model fits well and a linear model does not, for tests of whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okl.foundation.locations import Place
from okl.foundation.settings import IngestSettings, settings_from
from okl.foundation.telemetry import NullObserver, Observer
from okl.foundation.types import Task
from okl.report.comparison import ComparisonResult
from okl.report.results import RunResult
from okl.runs.compare import ComparisonRun
from okl.runs.compare_settings import CompareSettings
from okl.runs.train import TrainingRun
from okl.solvers.settings import TrainSettings

CHANGING, CHANGE = 4096, 2400  # rows of a stream, and the row of its change


def curved(n_rows: int = 1200, task: Task = "binary", seed: int = 3, **more: Any) -> pa.Table:
    """Return columns a, b, c, a nonlinear target y, and a split column with a quarter of test rows."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n_rows, 3)).astype(np.float32)
    curve = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] ** 2 + 0.05 * draw.normal(size=n_rows)
    y = {
        "binary": (curve > 0.4).astype(np.int64),
        "multiclass": np.digitize(curve, [0.0, 0.8]) + 5,
        "regression": 40.0 + 15.0 * curve,
    }[task]
    split = np.where(draw.random(n_rows) < 0.25, "test", "train")
    assert 0.15 < (split == "test").mean() < 0.35
    assert task == "regression" or np.bincount(y).max() < 0.7 * n_rows
    return pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": y, "split": split, **more})


def changing(task: Task = "binary", times: int = 1) -> pa.Table:
    """Return columns a, b and a target y whose dependence on them is inverted at row CHANGE of CHANGING, repeated."""
    draw, rows = np.random.default_rng(8), times * CHANGING
    x = draw.standard_normal((rows, 2)).astype(np.float32)
    signal = (x[:, 0] + 0.5 * x[:, 1] ** 2 - 0.5) * np.where(np.arange(rows) < times * CHANGE, 1.0, -1.0)
    y = (signal > 0).astype(np.int64) if task == "binary" else signal + 0.1 * draw.standard_normal(rows)
    return pa.table({"a": x[:, 0], "b": x[:, 1], "y": y})


def write(folder: Path, content: pa.Table, name: str = "rows.parquet", **options: Any) -> Path:
    pq.write_table(content, folder / name, **options)
    return folder / name


class Breaker(NullObserver):
    """An observer that interrupts a run in a stage like Ctrl-C: at its start or after some steps."""

    def __init__(self, stage: str, steps: int = 0) -> None:
        self.where, self.left = stage, steps
        self.now = ""

    def stage(self, name: str) -> None:
        self.now = name
        self.step()

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        self.step()

    def step(self) -> None:
        if self.now == self.where:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt


def train_settings(data: Place, out: Place, ingest: dict[str, Any] | None = None, **values: Any) -> TrainSettings:
    """Return settings of a small run with an output folder."""
    small = {"data": str(data), "out": str(out), "frequencies": 40} | values
    if ingest is not None:
        small["ingest"] = settings_from(IngestSettings, ingest, "test")
    return settings_from(TrainSettings, small, "test")


def train(settings: TrainSettings, observer: Observer | None = None, resume: Path | None = None) -> RunResult:
    """Train in this process; resume : unfinished folder of a run with the same settings."""
    return RunResult(TrainingRun(settings, observer or NullObserver(), resume).perform())


def compare(settings: CompareSettings, observer: Observer | None = None) -> ComparisonResult:
    return ComparisonResult(ComparisonRun(settings, observer or NullObserver()).perform())


def scores_of(folder: Path) -> pa.Table:
    """Return the rows that a scoring run wrote, in order."""
    return pq.read_table(folder)


def inputs_of(content: pa.Table, names: str = "abc") -> np.ndarray[Any, Any]:
    return np.column_stack([content.column(name).to_numpy() for name in names])
