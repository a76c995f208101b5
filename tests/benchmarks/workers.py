"""Two workers against one, on `mix` and on FAPG's `sum`, and this machine's limit: ratios in one run, interleaved.

    python -m tests.benchmarks.workers [CASE[,CASE ...]|all] [REPEATS] [SHARE]

Each worker is a process of one thread, as `okl train --workers` starts them, so one worker is one core at work. The
same learning runs on a cluster of two and on one of one. Rows are generated, in four shards; CASE is one of `CASES` of
workers_cases, with a SHARE (1 by default) of its rows. Bits are compared; medians of REPEATS (5).

The limit: the same recorded calls are repeated by two plain processes and by one, interleaved with the rest, without
engine, rounds and caller. Two cores that share memory, cache or a host are less than twice as fast as one.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from okl.compiled.jit import one_blas_thread
from okl.data.dataset import Dataset, Shard
from okl.data.execution import Execution
from okl.distributed.cache import assign_shards, process_cache
from okl.distributed.dask import DaskExecution
from okl.distributed.in_process import LocalExecution
from okl.distributed.rpc import pack
from okl.solvers.base import Solver
from tests import solver_cases
from tests.benchmarks.sharded import made_up
from tests.benchmarks.workers_cases import CASES, Case

os.environ.setdefault("OKL_RESIDENT_BYTES", str(2**31))


Learn = Callable[[], float]


def learn(solver: Solver[Any], data: Dataset, execution: Execution) -> tuple[dict[str, bytes], float]:
    """Return the bits that a run learns, and the seconds after its start."""
    state = solver.start(data, execution)
    start = time.perf_counter()
    while solver.finished(state) is None:
        state = solver.advance(state, data, execution)
    seconds = time.perf_counter() - start
    bits: Callable[..., Any] = solver_cases.bits
    return bits(solver, state)[0], seconds


class Recorder(LocalExecution):
    """Records the calls of rounds as bytes: before the first step, and after."""

    def __init__(self) -> None:
        super().__init__(2)
        self.calls: list[bytes] = []
        self.n_before = 0

    def sum(self, work: Any, shards: Sequence[Shard], value: Any, merge: Any) -> Any:
        self.calls.append(pack((work, value)).content)  # type: ignore[arg-type]
        return super().sum(work, shards, value, merge)

    mix = sum


@dataclass(frozen=True)
class Calls:
    """The calls of a run. before, after : its first step, each a pickled (work, value)"""

    before: list[bytes]
    after: list[bytes]

    @classmethod
    def of(cls, solver: Solver[Any], data: Dataset) -> Calls:
        """Record the calls of a run in this process."""
        with closing(Recorder()) as recorder:
            state = solver.start(data, recorder)
            n_before = len(recorder.calls)
            while solver.finished(state) is None:
                state = solver.advance(state, data, recorder)
        return cls(recorder.calls[:n_before], recorder.calls[n_before:])


def repeat_calls(pipe: Connection, calls: Calls, held_bytes: int) -> None:
    """Make all calls for the received shards in this process; signal before the first step, and continue."""
    process_cache().limit(held_bytes)
    while (shards := pipe.recv()) is not None:
        with one_blas_thread():
            for calls_of_part in (calls.before, calls.after):
                for work, value in map(pickle.loads, calls_of_part):
                    for shard in shards:
                        work(shard, value)
                pipe.send(None)
                if calls_of_part is calls.before:
                    pipe.recv()


class Plain:
    """Two plain processes. held_bytes : of rows that each may hold between rounds"""

    def __init__(self, calls: Calls, data: Dataset, held_bytes: int) -> None:
        self._shards = data.split("train")
        context = multiprocessing.get_context("spawn")
        self._pipes = []
        for _ in range(2):
            near_end, far_end = context.Pipe()
            process = context.Process(target=repeat_calls, args=(far_end, calls, held_bytes), daemon=True)
            process.start()
            self._pipes.append((near_end, process))

    def seconds(self, n_processes: int) -> float:
        """Return the seconds of all calls after the first step, assigned to processes as by the engine."""
        rows = [shard.rows for shard in self._shards]
        batches = assign_shards(rows, [None] * len(rows), tuple(map(str, range(n_processes))))
        pipes = [pipe for pipe, _ in self._pipes[:n_processes]]
        for pipe, batch in zip(pipes, batches, strict=True):
            pipe.send([self._shards[position] for position in batch.positions])
        for pipe in pipes:
            pipe.recv()
        start = time.perf_counter()
        for pipe in pipes:
            pipe.send(None)
        for pipe in pipes:
            pipe.recv()
        return time.perf_counter() - start

    def close(self) -> None:
        """End the processes."""
        for pipe, process in self._pipes:
            pipe.send(None)
            process.join()


def compare(name: str, case: Case, data: Dataset, both: DaskExecution, one: DaskExecution, repeats: int) -> None:
    """Print the ratios of a case."""
    solver, held_bytes = case.solver(), process_cache().limit_bytes if case.held_bytes is None else case.held_bytes
    for cluster in (both, one):
        cluster.hold(held_bytes)
    plain = Plain(Calls.of(solver, data), data, held_bytes)
    expected = [learn(solver, data, cluster)[0] for cluster in (both, one)]
    assert expected[0] == expected[1], "the same bits"
    runs: dict[str, Learn] = {
        "one": lambda: learn(solver, data, one)[1],
        "two": lambda: learn(solver, data, both)[1],
        "plain one": lambda: plain.seconds(1),
        "plain two": lambda: plain.seconds(2),
    }
    plain.seconds(1), plain.seconds(2)
    seconds_by_kind: dict[str, list[float]] = {kind: [] for kind in runs}
    for _ in range(repeats):
        for kind, run in runs.items():
            seconds_by_kind[kind].append(run())
    plain.close()
    medians = {kind: float(np.median(seconds)) for kind, seconds in seconds_by_kind.items()}
    for kind, before in (("workers", ""), ("plain processes, the limit", "plain ")):
        ratios = np.array(seconds_by_kind[f"{before}one"]) / np.array(seconds_by_kind[f"{before}two"])
        wanted = "" if before or case.wanted is None else f"; at least {case.wanted} wanted"
        print(
            f"{name}, {kind}: one {medians[before + 'one']:.2f} s, two {medians[before + 'two']:.2f} s: "
            f"{np.median(ratios):.2f} times as fast ({ratios.min():.2f} to {ratios.max():.2f}{wanted})",
            flush=True,
        )


def main(which: str = "all", repeats: str = "5", share: str = "1") -> None:
    """Print two lines per case."""
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(CASES if which == "all" else which.split(",")):
            case = CASES[name]
            place = Path(folder) / str(number)
            place.mkdir()
            data = made_up(place, int(float(share) * case.rows))
            with DaskExecution(2, n_threads=1) as both, DaskExecution(1, n_threads=1) as one:
                assert (both.n_workers, one.n_workers) == (2, 1)
                compare(name, case, data, both, one, int(repeats))


if __name__ == "__main__":
    main(*sys.argv[1:])
