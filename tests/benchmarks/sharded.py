"""Certified models on Dask with four shards: bits, bytes per round and shard, rounds per iteration, a killed worker.

    python -m tests.benchmarks.sharded [ROWS]
    python -m tests.benchmarks.sharded covtype [ROWS] [C]

Generated rows (100,000 by default) through 100 random frequencies; two workers of one thread each, compared with one
process. The execution counts the pickled bytes sent and received. The second form measures
Newton's method and FAPG to a gap of 1e-3, on rows of covtype (50,000) in eight shards through 500 frequencies (1,000
columns) with C = 0.1; on one, two and four workers, and two of which one is killed.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.ingest.run import ingest
from okl.distributed import open_execution
from okl.foundation.settings import IngestSettings
from okl.solvers.accelerated.choice import MethodChoice, MethodName
from okl.solvers.accelerated.fitting import ModelTask
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.online.maps import FourierChoice
from tests.solver_cases import last_state
from tests.solvers.accelerated.sharded_cases import Watched, bits, solver, worker_killed

FREQUENCIES, WORKERS, ITERATIONS, N_SHARDS = 100, 2, 30, 4
SHARE = 0.8  # of the rows, to train with
MODELS = ("c-svm", "nu-svm", "logistic", "l1-logistic")
METHODS: tuple[MethodName, ...] = ("newton", "fapg")


def made_up(folder: Path, n_rows: int) -> Dataset:
    """Return two overlapping classes in four shards."""
    random = np.random.default_rng(7)
    inputs = random.normal(size=(n_rows, 20)).astype(np.float32)
    labels = (inputs @ random.normal(size=20) + 2.0 * random.normal(size=n_rows) > 1.0).astype(np.int64)
    pq.write_table(pa.table({f"x{j}": inputs[:, j] for j in range(20)} | {"y": labels}), folder / "source.parquet")
    per_shard = round(
        1.03 * SHARE * n_rows / N_SHARDS
    )  # a little more than a quarter: four shards, the last one shorter
    settings = IngestSettings(rows_per_shard=per_shard, rows_per_group=min(per_shard, 16_384), holdout=1.0 - SHARE)
    return ingest(folder / "source.parquet", folder / "data", settings).dataset


def of(name: str) -> AcceleratedSolver:
    """Return a solver that stops after ITERATIONS, at any gap."""
    learning = solver(name, 1e-12, iterations=ITERATIONS)
    return replace(learning, maps=FourierChoice(n_frequencies=FREQUENCIES))


def measured(learning: AcceleratedSolver, data: Dataset, execution: Execution) -> tuple[tuple[object, ...], str]:
    """Return the bits of a run, and a line about it."""
    before, start = execution.traffic, time.perf_counter()
    state = last_state(learning, data, execution)
    seconds, after = time.perf_counter() - start, execution.traffic
    rounds = after.rounds - before.rounds
    shards = len(data.split("train"))
    received = (after.bytes_received - before.bytes_received) / rounds / shards
    sent = (after.bytes_sent - before.bytes_sent) / rounds / max(1, execution.n_workers)
    line = (
        f"{rounds:5} rounds {rounds / state.iterations:6.1f} rounds/iteration {sent:8.0f} B sent a worker and round "
        f"{received:8.0f} B received a shard and round {1e3 * seconds / rounds:7.1f} ms/round {seconds:6.2f} s"
    )
    return bits(learning, state), line


def covtype(n_rows: int, C: float) -> None:
    """Print a line per model, method and number of workers."""
    cases = {
        (name, method): AcceleratedSolver(
            ModelTask(name, C), FourierChoice(n_frequencies=500), method=MethodChoice(method, 1e-3), seed=3
        )
        for name in ("logistic", "c-svm")
        for method in METHODS
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = pq.read_table(Path(os.environ["OKL_DATA"]) / "covtype_binary.parquet")
        chosen = np.sort(np.random.default_rng(0).permutation(len(table))[:n_rows])
        pq.write_table(table.take(chosen), folder / "source.parquet")
        settings = IngestSettings(rows_per_shard=round(SHARE * n_rows / 8) + 1, holdout=1.0 - SHARE)
        data = ingest(folder / "source.parquet", folder / "data", settings).dataset
        print(f"{[shard.rows for shard in data.split('train')]} rows a shard", flush=True)
        with open_execution(0, threads=1) as local:
            expected = {case: measured(learning, data, local) for case, learning in cases.items()}
        for case, (_, line) in expected.items():
            print(f"{' '.join(case):18} one process  {line}", flush=True)
        for n_workers in (1, 2, 4):
            with open_execution(n_workers, threads=1) as cluster:
                for case, learning in cases.items():
                    result_bits, line = measured(learning, data, cluster)
                    same = result_bits == expected[case][0]
                    print(f"{' '.join(case):18} {n_workers} workers    {line}  same bits: {same}", flush=True)
        for case, learning in cases.items():
            marks_folder = folder / "_".join(case)
            marks_folder.mkdir()
            with open_execution(WORKERS, threads=1) as cluster:
                observed = Watched(cluster, {10}, worker_killed(marks_folder))
                same = bits(learning, last_state(learning, data, observed)) == expected[case][0]
            print(
                f"{' '.join(case):18} a worker killed: {(marks_folder / '10' / 'killed').exists()}  same bits: {same}"
            )


def main() -> None:
    """Print a line per model and execution."""
    if sys.argv[1:2] == ["covtype"]:
        covtype(int(sys.argv[2]) if len(sys.argv) > 2 else 50_000, float(sys.argv[3]) if len(sys.argv) > 3 else 0.1)
        return
    n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = made_up(folder, n_rows)
        rows = [shard.rows for shard in data.split("train")]
        print(f"{rows} rows a shard: a vector of them {8 * rows[0]} B, one of the map's columns {16 * FREQUENCIES} B")
        with open_execution(0, threads=2) as local:
            expected = {model: measured(of(model), data, local) for model in MODELS}
        with open_execution(WORKERS, threads=1) as cluster:
            measured(of("c-svm"), data, cluster)  # workers load and compile
            for model in MODELS:
                result_bits, line = measured(of(model), data, cluster)
                print(f"{model:18} one process  {expected[model][1]}")
                print(f"{model:18} {WORKERS} workers    {line}  same bits: {result_bits == expected[model][0]}")
            for model in MODELS[:3]:
                (folder / model).mkdir()
                learning = replace(of(model), scratch=folder / model)
                (folder / model / "marks").mkdir()
                observed = Watched(cluster, {60}, worker_killed(folder / model / "marks"))
                start = time.perf_counter()
                same = bits(learning, last_state(learning, data, observed)) == expected[model][0]
                killed = (folder / model / "marks" / "60" / "killed").exists()
                print(f"{model:18} a worker killed: {killed}  same bits: {same}  {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
