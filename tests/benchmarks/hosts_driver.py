"""The process on the driver's host: runs solvers on the cluster, as it is told line by line, and answers in JSON.

python -m tests.benchmarks.hosts_driver SCHEDULER FOLDER
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client

from okl.data.dataset import Dataset
from okl.data.executor import Execution
from okl.data.ingest.run import ingest
from okl.data.manifest import open_dataset
from okl.distributed.cache import process_cache
from okl.distributed.dask import DaskExecution
from okl.distributed.local import LocalExecution
from okl.foundation.settings import IngestSettings, TrainSettings, settings_from
from okl.foundation.types import Task
from okl.runs.plan import learnt_columns, make_solver, measured_on
from okl.solvers.accelerated import shards
from tests.distributed.every_solver import made, solver_of
from tests.solver_cases import bits, states

ITERATIONS = 60
ACCELERATED = {"tol": 1e-12, "max_iterations": ITERATIONS, "bandwidth": 3.0}
MAPPED = {"bandwidth": 3.0, "step_size": 0.1}
PLANNED: dict[str, dict[str, Any]] = {
    "fogd mix D=100": {"solver": "fogd", "mode": "mix", "rounds": 100, "frequencies": 100} | MAPPED,
    "fogd mix D=400": {"solver": "fogd", "mode": "mix", "rounds": 100, "frequencies": 400} | MAPPED,
    "fogd sum D=400": {"solver": "fogd", "mode": "sum", "rounds": 100, "frequencies": 400} | MAPPED,
    "fogd sum D=2000": {"solver": "fogd", "mode": "sum", "rounds": 50, "frequencies": 2000} | MAPPED,
    "bogd": {"solver": "bogd", "mode": "mix", "rounds": 50, "bandwidth": 3.0, "step_size": 0.1},
    "c-svm D=100": {"solver": "c-svm", "frequencies": 100} | ACCELERATED,
    "c-svm D=400": {"solver": "c-svm", "frequencies": 400} | ACCELERATED,
    "wolfe D=400": {"solver": "wolfe", "frequencies": 400, "gap": 1e-9, "max_iterations": 30, "bandwidth": 3.0},
}
SETS = {"larger": (48_000, 20, 4_000), "fresh": (90_000, 35, 10_000)}
"""Rows, columns, rows of a shard."""


def larger(folder: Path, name: str = "larger") -> Dataset:
    """Rows that take some work, one of SETS: two classes, several shards."""
    rows, columns, shard_rows = SETS[name]
    random = np.random.default_rng(5)
    inputs = random.normal(size=(rows, columns)).astype(np.float32)
    curve = np.sin(2.0 * inputs[:, 0]) + inputs[:, 1] * inputs[:, 2] + 0.4 * random.normal(size=rows)
    table = {f"x{j}": inputs[:, j] for j in range(columns)} | {"y": (curve > 0.2).astype(int)}
    source = folder / f"{name}.parquet"
    pq.write_table(pa.table(table), source)
    options = IngestSettings(rows_per_shard=shard_rows, rows_per_group=shard_rows, scale="standard")
    return ingest(source, folder / name, options).dataset


def forget() -> None:
    """Let go of all that a process holds of runs, and of the memory: as if it had not seen any."""
    process_cache().clear()
    shards.forget_all()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def run(solver: Any, data: Dataset, execution: Execution) -> dict[str, Any]:
    """Learn; digest of the bits, seconds, rounds and bytes."""
    before, begun = execution.traffic, time.perf_counter()
    steps = states(solver, data, execution)
    state = next(steps)
    start = time.perf_counter() - begun
    for state in steps:  # noqa: B007  the last one
        pass
    seconds, after = time.perf_counter() - begun, execution.traffic
    return {
        "bits": hashlib.sha256(repr(bits(solver, state)).encode()).hexdigest()[:12],
        "seconds": seconds,
        "start": start,
        "rounds": after.rounds - before.rounds,
        "sent": after.bytes_sent - before.bytes_sent,
        "received": after.bytes_received - before.bytes_received,
    }


def settings_of(values: dict[str, Any], data: Dataset) -> TrainSettings:
    """Of a run on data."""
    return settings_from(TrainSettings, {"data": str(data.folder)} | values, "hosts")


class Driver:
    """Answers commands. there, here : where runs go; small, big : data"""

    def __init__(self, client: Client, there: dict[int, Execution], here: Execution, folder: Path) -> None:
        self._client, self._there, self._here = client, there, here
        self._small: dict[Task, Dataset] = made(folder)
        self._big = {name: open_dataset(folder / name) for name in SETS}

    def case(self, name: str, workers: int) -> dict[str, Any]:
        """A case of the contract of all solvers, on workers and here."""
        solver, columns = solver_of(name, self._small)
        found = run(solver, columns, self._there[workers])
        solver, columns = solver_of(name, self._small)
        return found | {"expected": run(solver, columns, self._here)["bits"]}

    def calibrate(self, scheduler: str, latency_ms: float) -> dict[str, Any]:
        """What rounds take here, beside waiting."""
        return asdict(measured_on(scheduler, latency_ms))

    def forget(self) -> dict[str, Any]:
        """Workers and this process let go of what they hold."""
        self._client.run(forget)
        forget()
        return {}

    def learn(self, values: dict[str, Any], workers: int, name: str = "larger") -> dict[str, Any]:
        """A run on one of SETS; workers 0: in this process."""
        settings = settings_of(values, self._big[name])
        columns = learnt_columns(settings, self._big[name])
        execution = self._there[workers] if workers else self._here
        return run(make_solver(settings, columns), columns, execution)


def main(scheduler: str, folder: str) -> None:
    """Answer lines [name, arguments] until there are no more."""
    with (
        Client(scheduler, timeout=60.0, set_as_default=False) as client,
        DaskExecution(address=scheduler, n_threads=1, patience_seconds=60.0) as two,
        DaskExecution(address=scheduler, n_threads=1, most_workers=1) as one,
        LocalExecution(1) as here,
    ):
        driver = Driver(client, {1: one, 2: two}, here, Path(folder))
        print(json.dumps({"workers": two.n_workers}), flush=True)
        for line in sys.stdin:
            name, arguments = json.loads(line)
            try:
                answer = getattr(driver, name)(*arguments)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
