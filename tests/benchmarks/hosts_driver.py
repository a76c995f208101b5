"""The process on the driver's host: runs solvers on the cluster, one request per line, and answers in JSON.

python -m tests.benchmarks.hosts_driver SCHEDULER FOLDER
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.ingest.run import ingest
from okl.data.manifest import open_dataset
from okl.distributed.dask import DaskExecution
from okl.distributed.in_process import LocalExecution
from okl.foundation.settings import IngestSettings, settings_from
from okl.foundation.types import Task
from okl.solvers.factory import make_solver, training_columns
from okl.solvers.settings import TrainSettings
from tests.distributed.every_solver import make_datasets, solver_of
from tests.solver_cases import bits, last_state

BANDWIDTH = {"bandwidth": 3.0}
CUT: dict[str, dict[str, Any]] = {
    "fogd mix D=400": {"solver": "fogd", "mode": "mix", "frequencies": 400, "step_size": 0.1} | BANDWIDTH,
    "c-svm D=400": {"solver": "c-svm", "frequencies": 400, "tol": 1e-12} | BANDWIDTH,
}
ROWS, COLUMNS, SHARD_ROWS = 48_000, 20, 4_000


def larger(folder: Path) -> Dataset:
    """Return a larger data set of two classes in several shards."""
    random = np.random.default_rng(5)
    inputs = random.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    curve = np.sin(2.0 * inputs[:, 0]) + inputs[:, 1] * inputs[:, 2] + 0.4 * random.normal(size=ROWS)
    table = {f"x{j}": inputs[:, j] for j in range(COLUMNS)} | {"y": (curve > 0.2).astype(int)}
    source = folder / "larger.parquet"
    pq.write_table(pa.table(table), source)
    options = IngestSettings(rows_per_shard=SHARD_ROWS, rows_per_group=SHARD_ROWS, scale="standard")
    return ingest(source, folder / "larger", options).dataset


def run(solver: Any, data: Dataset, execution: Execution) -> dict[str, Any]:
    """Train; return the digest of the bits, and the seconds."""
    start = time.perf_counter()
    state = last_state(solver, data, execution)
    seconds = time.perf_counter() - start
    return {"bits": hashlib.sha256(repr(bits(solver, state)).encode()).hexdigest()[:12], "seconds": seconds}


def settings_of(values: dict[str, Any], data: Dataset) -> TrainSettings:
    """Return the settings of a run on data."""
    return settings_from(TrainSettings, {"data": str(data.folder)} | values, "hosts")


class Driver:
    """Answers requests. remote, local : executions of runs; small, big : data"""

    def __init__(self, remote: Execution, local: Execution, folder: Path) -> None:
        self._remote, self._local = remote, local
        self._small: dict[Task, Dataset] = make_datasets(folder)
        self._big = open_dataset(folder / "larger")

    def case(self, name: str) -> dict[str, Any]:
        """Run a case of the contract of all solvers on workers and in this process."""
        solver, columns = solver_of(name, self._small)
        outcome = run(solver, columns, self._remote)
        solver, columns = solver_of(name, self._small)
        return outcome | {"expected": run(solver, columns, self._local)["bits"]}

    def learn(self, values: dict[str, Any], workers: int) -> dict[str, Any]:
        """Run on the larger data; workers 0: in this process."""
        settings = settings_of(values, self._big)
        columns = training_columns(settings, self._big)
        execution = self._remote if workers else self._local
        return run(make_solver(settings, columns), columns, execution)


def main(scheduler: str, folder: str) -> None:
    """Answer lines [name, arguments] until there are no more."""
    with (
        DaskExecution(address=scheduler, n_threads=1, patience_seconds=60.0) as remote,
        LocalExecution(1) as local,
    ):
        driver = Driver(remote, local, Path(folder))
        print(json.dumps({"workers": remote.n_workers}), flush=True)
        for line in sys.stdin:
            name, arguments = json.loads(line)
            try:
                answer = getattr(driver, name)(*arguments)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
