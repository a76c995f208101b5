"""Cost of reading: FOGD on Parquet shards, in stored and in shuffled order, compared with rows in memory."""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okl.data.dataset import Dataset
from okl.data.execution import Execution, Rows
from okl.data.ingest.run import ingest
from okl.distributed import open_execution
from okl.foundation.settings import IngestSettings
from okl.losses import Hinge
from okl.solvers.online.linear import LinearFactory
from okl.solvers.online.maps import FourierChoice
from okl.solvers.online.solver import OnlineSolver
from tests.benchmarks.fogd_data import Problem, in_precision, read_problem
from tests.benchmarks.fogd_peers import draw_map, okl_peer
from tests.benchmarks.steadiness import verdict, wait_for_idle_cores

LEAST_ROWS, LEAST_BYTES = 524_288, 128 * 2**20  # of inputs: several windows, so that prefetching is measured
STEP_SIZE = 0.5
Compression = Literal["none", "zstd"]


def from_parquet(problem: Problem, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """One flat row a measurement: rows in memory, then shards in both orders, uncompressed and zstd; float32."""
    longer = replace(problem, n_rows=max(problem.n_rows, LEAST_ROWS, LEAST_BYTES // (4 * problem.n_inputs)))
    rows, bandwidth = read_problem(arguments.data, longer)
    rows = in_precision(rows, "float32")
    runs: dict[str, Callable[[], float]] = {}
    with tempfile.TemporaryDirectory() as folder, open_execution(threads=arguments.threads) as execution:
        peer = okl_peer(draw_map(rows, bandwidth, problem.n_frequencies), arguments.threads)
        runs["memory"] = lambda: peer(rows, STEP_SIZE).seconds
        for compression in ("none", "zstd"):
            data = _write(Path(folder), rows, compression)
            for order in ("stored", "shuffle"):
                choice = FourierChoice("gaussian", bandwidth, problem.n_frequencies)
                solver = OnlineSolver(LinearFactory(choice, Hinge(), STEP_SIZE), order=order)
                runs[f"{compression}, {order}"] = partial(_learn, solver, data, execution)
        for run in runs.values():
            run()  # compiles, and brings files into the page cache
        seconds: dict[str, list[float]] = defaultdict(list)
        busy = 0.0
        for _ in range(arguments.repeats):
            for name, run in runs.items():
                busy = max(busy, wait_for_idle_cores(arguments.patience))
                seconds[name].append(run() / longer.n_rows * 1e9)
    return [
        {
            "part": "parquet",
            "problem": problem.name,
            "rows": longer.n_rows,
            "source": name,
            "ns_per_row": median(values),
            "least_ns_per_row": min(values),
            "busy_percent": busy,
        }
        for name, values in seconds.items()
    ]


def show_parquet(problem: Problem, measurements: list[dict[str, Any]]) -> None:
    """Print the measurements of `from_parquet`, and whether they meet their targets."""
    by_source = {row["source"]: row for row in measurements}
    print(f"\n{problem.name}, {measurements[0]['rows']:,} rows from Parquet, float32")
    for name, row in by_source.items():
        print(f"  {name:14} {row['ns_per_row']:8.0f} ns a row (least {row['least_ns_per_row']:.0f})")
    pairs: list[tuple[str, str, float | None]] = [
        ("none, stored", "memory", 1.3),
        ("none, shuffle", "none, stored", 1.2),
        ("zstd, stored", "memory", None),
        ("zstd, shuffle", "zstd, stored", None),
    ]
    for source, other, target in pairs:
        ratio = by_source[source]["ns_per_row"] / by_source[other]["ns_per_row"]
        spreads = [by_source[name]["ns_per_row"] / by_source[name]["least_ns_per_row"] for name in (source, other)]
        assessment = verdict(ratio, spreads, by_source[source]["busy_percent"], at_most=target)
        least = by_source[source]["least_ns_per_row"] / by_source[other]["least_ns_per_row"]
        print(f"      {source} over {other}: {ratio:.2f} times (of the least {least:.2f}){assessment}")


def _write(folder: Path, rows: Rows, compression: Compression) -> Dataset:
    """Write the rows as a data set."""
    names = [f"f{index}" for index in range(rows.inputs.shape[1])]
    columns = [pa.array(column) for column in np.ascontiguousarray(rows.inputs.T)]
    table = pa.table([*columns, pa.array(rows.targets.astype(np.int8))], names=[*names, "y"])
    source = folder / "source.parquet"
    pq.write_table(table, source, compression="none")
    settings = IngestSettings.model_validate({"compression": compression})
    return ingest(source, folder / compression, settings).dataset


def _learn(solver: OnlineSolver, data: Dataset, execution: Execution) -> float:
    """Return the seconds of the training loop."""
    state = solver.start(data, execution)
    start = perf_counter()
    while solver.finished(state) is None:
        state = solver.advance(state, data, execution)
    return perf_counter() - start
