"""Two workers against one, on `mix` and on FAPG's `sum`, beside what this machine allows: ratios in one run, in turn.

    python -m tests.benchmarks.workers [mix|sum|all] [MIX_ROWS] [SUM_ROWS] [REPEATS]

Each worker is a process of one thread, as `okl train --workers` starts them, so one worker is one core at work. One
cluster of two and one of one; the same learning goes through both. Rows are made up (6,000,000 and 1,000,000
unless said otherwise), in four shards, and stay in the workers. `mix` is FOGD with 200 random frequencies in 8 rounds
a pass; `sum` is FAPG on a C-SVM with 100, 10 iterations. Bits are compared; medians of REPEATS (5) each.

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
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("OKL_RESIDENT_BYTES", str(2**31))

from okl.compiled.door import one_blas_thread
from okl.execution.batches import pack
from okl.execution.dask import DaskExecution
from okl.execution.local import LocalExecution
from okl.execution.placement import place
from okl.execution.protocol import Execution
from okl.losses import make_loss
from okl.online.linear import LinearRecipe
from okl.online.maps import FourierChoice
from okl.online.solver import OnlineSolver
from okl.solvers import Solver
from okl.store.dataset import Dataset, Shard
from tests import solver_cases
from tests.accelerated import sharded_cases
from tests.benchmarks.sharded import made_up

ROUNDS, ITERATIONS = 8, 10
WANTED = {"mix": 1.8, "sum": 1.6}
Learn = Callable[[], float]


def solvers() -> dict[str, Solver[Any]]:
    """One for each verb."""
    recipe = LinearRecipe(FourierChoice(n_frequencies=200, bandwidth=3.0), make_loss("hinge"), step_size=0.1)
    mixed = OnlineSolver(recipe, mode="mix", rounds=ROUNDS, seed=3)
    summed = sharded_cases.solver("c-svm", 1e-14, iterations=ITERATIONS)
    return {"mix": mixed, "sum": replace(summed, maps=FourierChoice(n_frequencies=100))}


def learnt(solver: Solver[Any], data: Dataset, execution: Execution) -> tuple[dict[str, bytes], float]:
    """What a run learns, to the bit, and the seconds after its start."""
    state = solver.start(data, execution)
    begun = time.perf_counter()
    while solver.finished(state) is None:
        state = solver.advance(state, data, execution)
    seconds = time.perf_counter() - begun
    bits: Callable[..., Any] = solver_cases.bits
    return bits(solver, state)[0], seconds


class Recorder(LocalExecution):
    """Notes the calls of rounds as bytes: before the first step, and after."""

    def __init__(self) -> None:
        super().__init__(2)
        self.calls: list[bytes] = []
        self.n_before = 0

    def _round(self, work: Any, shards: Sequence[Shard], value: Any, merge: Any) -> Any:
        self.calls.append(pack((work, value)).content)  # type: ignore[arg-type]
        return super()._round(work, shards, value, merge)


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


def answer_plainly(pipe: Connection, calls: Calls) -> None:
    """In a process of its own: make all calls for the shards that come, say when the first step is near, and go on."""
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
    """Two plain processes."""

    def __init__(self, calls: Calls, data: Dataset) -> None:
        self._shards = data.split("train")
        context = multiprocessing.get_context("spawn")
        self._pipes = []
        for _ in range(2):
            here, there = context.Pipe()
            process = context.Process(target=answer_plainly, args=(there, calls), daemon=True)
            process.start()
            self._pipes.append((here, process))

    def seconds(self, n_processes: int) -> float:
        """Of all calls after the first step, shared out as the engine does."""
        rows = [shard.rows for shard in self._shards]
        batches = place(rows, [None] * len(rows), tuple(map(str, range(n_processes))))
        pipes = [pipe for pipe, _ in self._pipes[:n_processes]]
        for pipe, batch in zip(pipes, batches, strict=True):
            pipe.send([self._shards[position] for position in batch.positions])
        for pipe in pipes:
            pipe.recv()
        begun = time.perf_counter()
        for pipe in pipes:
            pipe.send(None)
        for pipe in pipes:
            pipe.recv()
        return time.perf_counter() - begun

    def close(self) -> None:
        """End them."""
        for pipe, process in self._pipes:
            pipe.send(None)
            process.join()


def compare(verb: str, data: Dataset, both: DaskExecution, one: DaskExecution, repeats: int) -> None:
    """Print the ratios of a verb."""
    solver = solvers()[verb]
    plain = Plain(Calls.of(solver, data), data)
    expected = [learnt(solver, data, there)[0] for there in (both, one)]
    assert expected[0] == expected[1], "the same bits"
    runs: dict[str, Learn] = {
        "one": lambda: learnt(solver, data, one)[1],
        "two": lambda: learnt(solver, data, both)[1],
        "plain one": lambda: plain.seconds(1),
        "plain two": lambda: plain.seconds(2),
    }
    plain.seconds(1), plain.seconds(2)
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            taken[name].append(run())
    plain.close()
    at = {name: float(np.median(seconds)) for name, seconds in taken.items()}
    for kind, before in (("workers", ""), ("plain processes, the limit", "plain ")):
        ratios = np.array(taken[f"{before}one"]) / np.array(taken[f"{before}two"])
        wanted = f"; at least {WANTED[verb]} wanted" if not before else ""
        print(
            f"{verb}, {kind}: one {at[before + 'one']:.2f} s, two {at[before + 'two']:.2f} s: "
            f"{np.median(ratios):.2f} times as fast ({ratios.min():.2f} to {ratios.max():.2f}{wanted})",
            flush=True,
        )


def main(which: str = "all", mix_rows: str = "6_000_000", sum_rows: str = "1_000_000", repeats: str = "5") -> None:
    """Two lines a verb."""
    with (
        tempfile.TemporaryDirectory() as folder,
        DaskExecution(2, n_threads=1) as both,
        DaskExecution(1, n_threads=1) as one,
    ):
        assert (both.n_workers, one.n_workers) == (2, 1)
        for verb, rows in (("mix", mix_rows), ("sum", sum_rows)):
            if which in (verb, "all"):
                (Path(folder) / verb).mkdir()
                compare(verb, made_up(Path(folder) / verb, int(rows)), both, one, int(repeats))


if __name__ == "__main__":
    main(*sys.argv[1:])
