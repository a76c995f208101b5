"""Two workers against one, on `mix` and on FAPG's `sum`, beside what this machine allows: ratios in one run, in turn.

    python -m tests.benchmarks.workers [CASE[,CASE ...]|all] [REPEATS] [SHARE]

Each worker is a process of one thread, as `okl train --workers` starts them, so one worker is one core at work. One
cluster of two and one of one; the same learning goes through both. Rows are made up, in four shards; CASE is one of
`CASES` of workers_cases, with a SHARE (1 unless said otherwise) of its rows. Bits are compared; medians of REPEATS (5).

The limit: the very same calls, recorded, are made anew by two plain processes and by one, in turn with the rest, with
no engine, no rounds to wait for and no caller. Cores that share memory, cache or a host give less than twice of one.
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


def learnt(solver: Solver[Any], data: Dataset, execution: Execution) -> tuple[dict[str, bytes], float]:
    """What a run learns, to the bit, and the seconds after its start."""
    state = solver.start(data, execution)
    start = time.perf_counter()
    while solver.finished(state) is None:
        state = solver.advance(state, data, execution)
    seconds = time.perf_counter() - start
    bits: Callable[..., Any] = solver_cases.bits
    return bits(solver, state)[0], seconds


class Recorder(LocalExecution):
    """Notes the calls of rounds as bytes: before the first step, and after."""

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
        """Those of a run in this process."""
        with closing(Recorder()) as recorder:
            state = solver.start(data, recorder)
            n_before = len(recorder.calls)
            while solver.finished(state) is None:
                state = solver.advance(state, data, recorder)
        return cls(recorder.calls[:n_before], recorder.calls[n_before:])


def answer_plainly(pipe: Connection, calls: Calls, held_bytes: int) -> None:
    """In a process of its own: make all calls for the shards that come, say when the first step is near, and go on."""
    process_cache().limit(held_bytes)
    while (shards := pipe.recv()) is not None:
        with one_blas_thread():
            for some in (calls.before, calls.after):
                for work, value in map(pickle.loads, some):
                    for shard in shards:
                        work(shard, value)
                pipe.send(None)
                if some is calls.before:
                    pipe.recv()


class Plain:
    """Two plain processes. held_bytes : of rows that each may hold between rounds"""

    def __init__(self, calls: Calls, data: Dataset, held_bytes: int) -> None:
        self._shards = data.split("train")
        context = multiprocessing.get_context("spawn")
        self._pipes = []
        for _ in range(2):
            here, there = context.Pipe()
            process = context.Process(target=answer_plainly, args=(there, calls, held_bytes), daemon=True)
            process.start()
            self._pipes.append((here, process))

    def seconds(self, n_processes: int) -> float:
        """Of all calls after the first step, shared out as the engine does."""
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
        """End them."""
        for pipe, process in self._pipes:
            pipe.send(None)
            process.join()


def compare(name: str, case: Case, data: Dataset, both: DaskExecution, one: DaskExecution, repeats: int) -> None:
    """Print the ratios of a case."""
    solver, held = case.solver(), process_cache().limit_bytes if case.held_bytes is None else case.held_bytes
    for there in (both, one):
        there.hold(held)
    plain = Plain(Calls.of(solver, data), data, held)
    expected = [learnt(solver, data, there)[0] for there in (both, one)]
    assert expected[0] == expected[1], "the same bits"
    runs: dict[str, Learn] = {
        "one": lambda: learnt(solver, data, one)[1],
        "two": lambda: learnt(solver, data, both)[1],
        "plain one": lambda: plain.seconds(1),
        "plain two": lambda: plain.seconds(2),
    }
    plain.seconds(1), plain.seconds(2)
    taken: dict[str, list[float]] = {kind: [] for kind in runs}
    for _ in range(repeats):
        for kind, run in runs.items():
            taken[kind].append(run())
    plain.close()
    at = {kind: float(np.median(seconds)) for kind, seconds in taken.items()}
    for kind, before in (("workers", ""), ("plain processes, the limit", "plain ")):
        ratios = np.array(taken[f"{before}one"]) / np.array(taken[f"{before}two"])
        wanted = "" if before or case.wanted is None else f"; at least {case.wanted} wanted"
        print(
            f"{name}, {kind}: one {at[before + 'one']:.2f} s, two {at[before + 'two']:.2f} s: "
            f"{np.median(ratios):.2f} times as fast ({ratios.min():.2f} to {ratios.max():.2f}{wanted})",
            flush=True,
        )


def main(which: str = "all", repeats: str = "5", share: str = "1") -> None:
    """Two lines a case."""
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
