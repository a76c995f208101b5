"""What a round costs beside its work: Dask tasks and handlers, interleaved, at D = 1000 on two processes.

    python -m tests.benchmarks.rounds [ROUNDS] [ITERATIONS]

Two workers with eight shards. The first part asks for a vector of 1,000 float64 at a vector of 1,000, of work that
takes no time: all that is measured is the engine; one process beside it. The second part runs ITERATIONS of FAPG by
`sum` (500 unless said otherwise): seconds in all, and those that remain without what the slowest worker takes.
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
    """Work that takes no time, and returns as much as it is given."""
    return value


class Watch:
    """Adds up what the slowest worker of each round took, as workers say."""

    def __init__(self) -> None:
        self.worked: list[float] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While rounds are asked for."""
        before = telemetry.record_wait

        def seen(started_at: float, worked_seconds: float) -> None:
            self.worked.append(worked_seconds)
            before(started_at, worked_seconds)

        telemetry.record_wait = seen
        yield
        telemetry.record_wait = before


def overhead(rounds: int, there: DaskExecution, here: Execution) -> None:
    """Seconds of rounds without work, in turn by task, by handler and in one process."""
    shards = tuple(Shard(i, f"{i}.parquet", "train", (1000,), 0, str(i)) for i in range(N_SHARDS))
    point, found = np.linspace(-1.0, 1.0, D), {name: list[float]() for name in (*CARRIERS, "one process")}
    expected = add_up([point] * N_SHARDS)
    for name in list(found) * (rounds // IN_A_ROW):
        execution: Execution = here
        if name != "one process":
            execution, there._transport.carrier = there, CARRIERS[name]
        for _ in range(IN_A_ROW):
            start = time.perf_counter()
            total = execution.sum(echo, shards, point, add_up)
            found[name].append(time.perf_counter() - start)
            assert total.tobytes() == expected.tobytes()
    print(f"{rounds} rounds each, {D} float64 to each of 2 workers, and back from each of {N_SHARDS} shards")
    for name, taken in found.items():
        at = np.percentile(1e3 * np.array(taken[IN_A_ROW:]), [5, 50, 95])
        print(f"{name:12} {at[1]:7.2f} ms median, 90% between {at[0]:.2f} and {at[2]:.2f}", flush=True)


def learning(iterations: int) -> AcceleratedSolver:
    """A C-SVM of so many iterations, whatever the gap is then."""
    from dataclasses import replace

    return replace(solver("c-svm", 1e-14, iterations=iterations), maps=FourierChoice(n_frequencies=D // 2))


def accelerated(iterations: int, there: DaskExecution, folder: Path) -> None:
    """Seconds of FAPG, and those that the engine takes."""
    data = made_up(folder, 20_000)
    there._transport.carrier = "auto"
    last_state(learning(3), data, there)  # workers compile
    for name, carrier in CARRIERS.items():
        there._transport.carrier, watch = carrier, Watch()
        before, start = there.traffic.rounds, time.perf_counter()
        with watch.watching():
            state = last_state(learning(iterations), data, there)
        seconds, rounds = time.perf_counter() - start, there.traffic.rounds - before
        lost = seconds - sum(watch.worked)
        each = 1e3 * lost / rounds
        print(
            f"FAPG by {name:8} {state.iterations} iterations, {rounds} rounds: {seconds:.2f} s, of which workers "
            f"work {sum(watch.worked):.2f} s; lost to engine and caller {lost:.2f} s, {each:.2f} ms a round",
            flush=True,
        )


def main(rounds: str = "300", iterations: str = "500") -> None:
    """Print both parts."""
    with DaskExecution(2, n_threads=1) as there, LocalExecution(2) as here, tempfile.TemporaryDirectory() as folder:
        overhead(int(rounds), there, here)
        accelerated(int(iterations), there, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
