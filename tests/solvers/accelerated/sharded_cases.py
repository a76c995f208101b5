"""A data set in four shards, solvers on it, and executions in which vectors get lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okl.data.dataset import Dataset, Shard
from okl.data.execution import Execution
from okl.data.ingest.run import ingest
from okl.foundation.settings import IngestSettings
from okl.solvers.accelerated.fapg import Fapg
from okl.solvers.accelerated.fitting import ModelTask
from okl.solvers.accelerated.models import parameter_of
from okl.solvers.accelerated.solver import AcceleratedSolver, AcceleratedState, Bias
from okl.solvers.online.maps import FourierChoice, InputsChoice
from okl.solvers.worker_rounds import WorkerState, held_vectors
from tests.distributed.works import KilledOnce

ROWS, SHARD_ROWS, GROUP_ROWS, N_COLUMNS = 1500, 400, 150, 40
PARAMETERS = {"C": 0.1, "nu": 0.5, "kappa": 0.1}


def sharded(folder: Path, classes: int = 2) -> Dataset:
    """Return overlapping classes of unequal size in four shards of unequal length."""
    random = np.random.default_rng(7)
    inputs = random.normal(size=(ROWS, 5)).astype(np.float32)
    scores = inputs @ random.normal(size=5) + 0.4 * np.sin(3.0 * inputs[:, 0]) + random.normal(size=ROWS)
    labels = np.digitize(scores, [0.7] if classes == 2 else [-0.6, 1.2])
    columns = {f"x{j}": inputs[:, j] for j in range(5)} | {"y": labels}
    pq.write_table(pa.table(columns), folder / "source.parquet")
    settings = IngestSettings(rows_per_shard=SHARD_ROWS, rows_per_group=GROUP_ROWS)
    data = ingest(folder / "source.parquet", folder / "data", settings).dataset
    assert len(data.split("train")) == 4
    assert len({shard.rows for shard in data.split("train")}) > 1
    assert len(np.unique(labels)) == classes
    return data


def solver(
    name: str, tolerance: float, kernel: bool = True, bias: Bias = "own", iterations: int = 20_000, **task: Any
) -> AcceleratedSolver:
    task = {"value": PARAMETERS[parameter_of(name)]} | task
    method = Fapg(tolerance=tolerance, max_iterations=iterations)
    maps = FourierChoice(n_frequencies=N_COLUMNS // 2) if kernel else InputsChoice()
    return AcceleratedSolver(ModelTask(name, **task), maps, bias=bias, method=method, seed=3)


def bits(solver: AcceleratedSolver, state: AcceleratedState) -> tuple[Any, ...]:
    """Return all values that were learnt, and the history, as bytes."""
    arrays = solver.predictor(state).arrays()
    return {name: array.tobytes() for name, array in arrays.items()}, solver.certificate(state), solver.progress(state)


class Watched:
    """An execution that calls a function before some of its rounds."""

    def __init__(self, execution: Execution, rounds: Collection[int], before: Callable[[Any, int], Any]) -> None:
        self._execution = execution
        self._rounds = rounds
        self._before = before
        self.done = 0

    def sum(self, work: Any, shards: Sequence[Shard], value: Any, merge: Any) -> Any:
        self.done += 1
        if self.done in self._rounds:
            work = self._before(work, self.done)
        return self._execution.sum(work, shards, value, merge)

    def mix(self, work: Any, shards: Sequence[Shard], value: Any, merge: Any) -> Any:
        return self._execution.mix(work, shards, value, merge)


def vectors_lost(work: Any, _: int) -> Any:
    """Simulate that another process holds the shards now."""
    if isinstance(work, WorkerState):
        held_vectors.forget()
    return work


def worker_killed(folder: Path) -> Callable[[Any, int], Any]:
    """Kill the worker of the third shard once in that round."""

    def before(work: Any, number: int) -> Any:
        marked = folder / str(number)
        marked.mkdir()
        return KilledOnce(work, 2, marked, os.getpid())

    return before
