"""The overhead of a round: Dask tasks and handlers, interleaved, at D = 1000 on two processes.

    python -m tests.benchmarks.rounds [ROUNDS] [ITERATIONS]

Two workers with eight shards. The first part sends a vector of 1,000 float64 and receives one, with work that takes
no time, so only the engine is measured; also in one process. The second part runs ITERATIONS of FAPG by `sum` (500 by
default): total seconds, and those that remain without the time of the slowest worker.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from okl.data.dataset import Shard
from okl.data.execution import Execution
from okl.distributed.dask import Carrier, DaskExecution
from okl.distributed.in_process import LocalExecution
from okl.foundation import telemetry
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.online.maps import FourierChoice
from tests.benchmarks.sharded import made_up
from tests.distributed.works import add_up
from tests.solver_cases import last_state
from tests.solvers.accelerated.sharded_cases import solver

D, N_SHARDS, IN_A_ROW = 1000, 8, 10
CARRIERS: dict[str, Carrier] = {"task": "task", "handler": "auto"}

Vector = NDArray[np.float64]


def echo(shard: Shard, value: Vector) -> Vector:
    """Return the value: work that takes no time."""
    return value


class Watch:
    """Collects the seconds of the slowest worker of each round, as workers report them."""

    def __init__(self) -> None:
        self.worked: list[float] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Collect the seconds of rounds inside the context."""
        original = telemetry.record_wait

        def record(started_at: float, worked_seconds: float) -> None:
            self.worked.append(worked_seconds)
            original(started_at, worked_seconds)

        telemetry.record_wait = record
        yield
        telemetry.record_wait = original


def overhead(rounds: int, cluster: DaskExecution, local: Execution) -> None:
    """Print seconds of rounds without work, in turn by task, by handler and in one process."""
    shards = tuple(Shard(i, f"{i}.parquet", "train", (1000,), 0, str(i)) for i in range(N_SHARDS))
    point, seconds_by_carrier = np.linspace(-1.0, 1.0, D), {name: list[float]() for name in (*CARRIERS, "one process")}
    expected = add_up([point] * N_SHARDS)
    for name in list(seconds_by_carrier) * (rounds // IN_A_ROW):
        execution: Execution = local
        if name != "one process":
            execution, cluster._transport.carrier = cluster, CARRIERS[name]
        for _ in range(IN_A_ROW):
            start = time.perf_counter()
            total = execution.sum(echo, shards, point, add_up)
            seconds_by_carrier[name].append(time.perf_counter() - start)
            assert total.tobytes() == expected.tobytes()
    print(f"{rounds} rounds each, {D} float64 to each of 2 workers, and back from each of {N_SHARDS} shards")
    for name, seconds in seconds_by_carrier.items():
        percentiles = np.percentile(1e3 * np.array(seconds[IN_A_ROW:]), [5, 50, 95])
        print(
            f"{name:12} {percentiles[1]:7.2f} ms median, 90% between {percentiles[0]:.2f} and {percentiles[2]:.2f}",
            flush=True,
        )


def learning(iterations: int) -> AcceleratedSolver:
    """Return a C-SVM solver that stops after so many iterations, at any gap."""
    from dataclasses import replace

    return replace(solver("c-svm", 1e-14, iterations=iterations), maps=FourierChoice(n_frequencies=D // 2))


def accelerated(iterations: int, cluster: DaskExecution, folder: Path) -> None:
    """Print the seconds of FAPG, and those of the engine."""
    data = made_up(folder, 20_000)
    cluster._transport.carrier = "auto"
    last_state(learning(3), data, cluster)  # compiles on the workers
    for name, carrier in CARRIERS.items():
        cluster._transport.carrier, watch = carrier, Watch()
        before, start = cluster.traffic.rounds, time.perf_counter()
        with watch.watching():
            state = last_state(learning(iterations), data, cluster)
        seconds, rounds = time.perf_counter() - start, cluster.traffic.rounds - before
        extra = seconds - sum(watch.worked)
        per_round = 1e3 * extra / rounds
        print(
            f"FAPG by {name:8} {state.iterations} iterations, {rounds} rounds: {seconds:.2f} s, of which workers "
            f"work {sum(watch.worked):.2f} s; lost to engine and caller {extra:.2f} s, {per_round:.2f} ms a round",
            flush=True,
        )


def main(rounds: str = "300", iterations: str = "500") -> None:
    """Print both parts."""
    with DaskExecution(2, n_threads=1) as cluster, LocalExecution(2) as local, tempfile.TemporaryDirectory() as folder:
        overhead(int(rounds), cluster, local)
        accelerated(int(iterations), cluster, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
