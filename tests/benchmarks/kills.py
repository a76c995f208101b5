"""One worker killed (SIGKILL) at a random moment: bits, runs that hang, seconds that it costs.

    python -m tests.benchmarks.kills [MOMENTS] [mix|sum|map|stop|all]

Two workers. `mix` is FOGD in rounds; `sum` is FAPG on a C-SVM, whose vectors are stored with the shards and are lost
with the worker; `map` scores pieces of rows. Each is run until MOMENTS kills (20 by default) have hit it: the moment is
drawn uniformly over the seconds that undisturbed learning takes, counted from its first step. A kill after the end of
the run is reported as too late, and another moment is drawn in its place. Seconds added are those beyond the median of
undisturbed runs, which alternate with the others. Dask's nanny replaces killed processes, and the next run waits for
that. `stop` is different: a worker is stopped (SIGSTOP) before the first batch of `sum` is sent, when the duration of
such work is still unknown, and continues when the run is over.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from okl.data.dataset import Dataset, Shard
from okl.data.execution import Execution
from okl.distributed.dask import DaskExecution
from okl.losses import make_loss
from okl.solvers.base import Solver
from okl.solvers.online.linear import LinearFactory
from okl.solvers.online.maps import FourierChoice
from okl.solvers.online.solver import OnlineSolver
from tests import solver_cases
from tests.benchmarks.sharded import made_up
from tests.distributed.processes import soon
from tests.distributed.works import SampledSum, Vector, own_process
from tests.solvers.accelerated import sharded_cases

N_ROWS, MOMENTS, MOST_SECONDS, WORKERS, PLAIN_EVERY = 200_000, 20, 120.0, 2, 4

OnStart = Callable[[], None]
Run = Callable[[Execution, OnStart], bytes]
"""Its second argument is called when training starts."""


def mix_run(data: Dataset) -> Run:
    """Return a run of FOGD in 240 rounds, which returns its bits."""
    factory = LinearFactory(FourierChoice(n_frequencies=200, bandwidth=3.0), make_loss("hinge"), step_size=0.1)
    solver = OnlineSolver(factory, mode="mix", rounds=60, passes=4, seed=3)

    def run(execution: Execution, on_start: OnStart) -> bytes:
        return repr(solver_cases.bits(solver, last_state(solver, data, execution, on_start))).encode()

    return run


def sum_run(data: Dataset, folder: Path) -> Run:
    """Return a run of 30 iterations of FAPG, which returns its bits."""
    solver = sharded_cases.solver("c-svm", 1e-14, iterations=30)
    runs = iter(range(10_000))

    def run(execution: Execution, on_start: OnStart) -> bytes:
        scratch = folder / f"scratch-{next(runs)}"
        scratch.mkdir()
        learning = replace(solver, maps=FourierChoice(n_frequencies=100), scratch=scratch)
        return repr(sharded_cases.bits(learning, last_state(learning, data, execution, on_start))[0]).encode()

    return run


def last_state(solver: Solver[Any], data: Dataset, execution: Execution, on_start: OnStart) -> Any:
    """Train to the end."""
    state = solver.start(data, execution)
    on_start()
    while solver.finished(state) is None:
        state = solver.advance(state, data, execution)
    return state


def map_run(data: Dataset) -> Run:
    """Return a run of sums over 3,000 pieces, which returns their bits."""
    shards = [data.shards[i % len(data.shards)] for i in range(3000)]
    work = Piece(SampledSum(data, 5))

    def run(execution: Execution, on_start: OnStart) -> bytes:
        on_start()
        return b"".join(part.tobytes() for part in execution.map(work, shards))

    return run


class Piece:
    """Work on one shard at a fixed point."""

    def __init__(self, work: SampledSum) -> None:
        self.work = work

    def __call__(self, shard: Shard) -> Vector:
        return self.work(shard, (0, np.full(20, 0.1)))


def worker_processes(execution: Execution) -> list[int]:
    """Return the process ids of the workers."""
    return sorted(set(execution.map(own_process, range(40))))


class Trial(NamedTuple):
    """Outcome of a run. digest : of its bits; seconds : from its first step; total_seconds : from its start"""

    digest: str
    seconds: float
    total_seconds: float


class Watched:
    """One run in its own thread."""

    def __init__(self, run: Run, execution: Execution) -> None:
        self.is_training, self.trials = threading.Event(), list[Trial]()
        self._run, self._execution, self._start, self._started = run, execution, 0.0, time.perf_counter()
        self.thread = threading.Thread(target=self._run_all, daemon=True)
        self.thread.start()

    def _on_start(self) -> None:
        self._start = time.perf_counter()
        self.is_training.set()

    def _run_all(self) -> None:
        bits = self._run(self._execution, self._on_start)
        ended = time.perf_counter()
        self.trials.append(Trial(hashlib.sha256(bits).hexdigest(), ended - self._start, ended - self._started))


def undisturbed_run(run: Run, execution: Execution) -> Trial:
    """Return the trial of an undisturbed run."""
    watched = Watched(run, execution)
    watched.thread.join()
    return watched.trials[0]


def killed_run(run: Run, execution: Execution, moment: float, victim: int) -> tuple[Trial | None, bool]:
    """Return the trial of a run during which a process is killed (None if it hangs), and whether it was in time."""
    watched = Watched(run, execution)
    assert watched.is_training.wait(MOST_SECONDS)
    time.sleep(moment)
    os.kill(victim, signal.SIGKILL)
    in_time = not watched.trials
    watched.thread.join(MOST_SECONDS)
    return (watched.trials[0] if watched.trials else None), in_time


def trial(name: str, run: Run, execution: Execution, moments: int, random: np.random.Generator) -> None:
    """Kill workers at random moments and print the outcome."""
    undisturbed_run(run, execution)  # so that workers compile
    plain = [undisturbed_run(run, execution) for _ in range(3)]
    same = hung = late = 0
    seconds: list[float] = []
    while len(seconds) + hung < moments:
        assert soon(lambda: len(worker_processes(execution)) == WORKERS, 60.0)
        if len(seconds) % PLAIN_EVERY == PLAIN_EVERY - 1:
            plain.append(undisturbed_run(run, execution))
        typical = float(np.median([one.seconds for one in plain]))
        victims = worker_processes(execution)
        outcome, in_time = killed_run(run, execution, random.uniform(0.0, typical), victims[random.integers(WORKERS)])
        hung += outcome is None
        late += not in_time
        if outcome is not None and in_time:
            same += outcome.digest == plain[0].digest
            seconds.append(outcome.seconds)
    assert {one.digest for one in plain} == {plain[0].digest}
    summary = (
        f"{name:4} {moments} killed within the run ({late} more came too late): identical bits {same}, hung {hung}"
    )
    print_added(summary, seconds, [one.seconds for one in plain])


def print_added(summary: str, seconds: list[float], plain: list[float]) -> None:
    """Print a line that ends with the seconds that disturbed runs take more than the median of plain ones."""
    typical = float(np.median(plain))
    spread = " ".join(f"{second:.2f}" for second in np.percentile(np.array(seconds) - typical, [0, 50, 100]))
    print(f"{summary}; undisturbed {typical:.2f} s, added seconds (least, median, most) {spread}", flush=True)


def stopped_first(run: Run, execution: Execution, moments: int) -> None:
    """Stop a worker before each run starts and print the outcome."""
    plain = [undisturbed_run(run, execution) for _ in range(3)]
    same = hung = 0
    seconds: list[float] = []
    for number in range(moments):
        assert soon(lambda: len(worker_processes(execution)) == WORKERS, 60.0)
        victim = worker_processes(execution)[number % WORKERS]
        os.kill(victim, signal.SIGSTOP)
        start = time.perf_counter()
        try:
            watched = Watched(run, execution)
            watched.thread.join(MOST_SECONDS)
        finally:
            os.kill(victim, signal.SIGCONT)
        hung += not watched.trials
        same += bool(watched.trials) and watched.trials[0].digest == plain[0].digest
        seconds.append(time.perf_counter() - start)
    summary = f"stop {moments} stopped before their first batch: identical bits {same}, hung {hung}"
    print_added(summary, seconds, [one.total_seconds for one in plain])


def main(moments: str = str(MOMENTS), which: str = "all") -> None:
    """Print one line per verb."""
    with tempfile.TemporaryDirectory() as name, DaskExecution(WORKERS, n_threads=1) as execution:
        folder = Path(name)
        data = made_up(folder, N_ROWS)
        runs = {"mix": mix_run(data), "sum": sum_run(data, folder), "map": map_run(data)}
        if which in ("stop", "all"):
            stopped_first(runs["sum"], execution, int(moments))
        for verb in runs if which == "all" else (which,) if which in runs else ():
            trial(verb, runs[verb], execution, int(moments), np.random.default_rng(sum(map(ord, verb))))


if __name__ == "__main__":
    main(*sys.argv[1:])
