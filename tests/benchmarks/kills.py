"""One worker killed (SIGKILL) at a random moment: bits, runs that hang, seconds that it costs.

    python -m tests.benchmarks.kills [MOMENTS] [mix|sum|map|stop|all]

Two workers. `mix` is FOGD in rounds; `sum` FAPG on a C-SVM, whose vectors stand beside the shards and go down with the
worker; `map` scores pieces of rows. Each is run until MOMENTS kills (20 unless said otherwise) have fallen into it: the
moment is drawn evenly over the seconds that undisturbed learning takes, counted from its first step. A kill that comes
when the run is already over is told as too late, and another moment is drawn in its place. Seconds added are those
beyond the median of undisturbed runs, which are made in turn with the others. Killed processes are replaced by Dask's
nanny: the next run waits for that. `stop` is something else: a worker is stopped (SIGSTOP) before the very first batch
of `sum` is sent, when nothing is known of how long such work takes, and goes on when the run is over.
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

Begun = Callable[[], None]
Run = Callable[[Execution, Begun], bytes]
"""Its second argument is called when learning begins."""


def by_mix(data: Dataset) -> Run:
    """FOGD in 240 rounds; its bits."""
    factory = LinearFactory(FourierChoice(n_frequencies=200, bandwidth=3.0), make_loss("hinge"), step_size=0.1)
    solver = OnlineSolver(factory, mode="mix", rounds=60, passes=4, seed=3)

    def run(execution: Execution, begun: Begun) -> bytes:
        return repr(solver_cases.bits(solver, last_state(solver, data, execution, begun))).encode()

    return run


def by_sum(data: Dataset, folder: Path) -> Run:
    """FAPG, 30 iterations; its bits."""
    solver = sharded_cases.solver("c-svm", 1e-14, iterations=30)
    runs = iter(range(10_000))

    def run(execution: Execution, begun: Begun) -> bytes:
        scratch = folder / f"scratch-{next(runs)}"
        scratch.mkdir()
        learning = replace(solver, maps=FourierChoice(n_frequencies=100), scratch=scratch)
        return repr(sharded_cases.bits(learning, last_state(learning, data, execution, begun))[0]).encode()

    return run


def last_state(solver: Solver[Any], data: Dataset, execution: Execution, begun: Begun) -> Any:
    """Learn to the end."""
    state = solver.start(data, execution)
    begun()
    while solver.finished(state) is None:
        state = solver.advance(state, data, execution)
    return state


def by_map(data: Dataset) -> Run:
    """Sums over 3,000 pieces; their bits."""
    shards = [data.shards[i % len(data.shards)] for i in range(3000)]
    work = Piece(SampledSum(data, 5))

    def run(execution: Execution, begun: Begun) -> bytes:
        begun()
        return b"".join(part.tobytes() for part in execution.map(work, shards))

    return run


class Piece:
    """Work on one shard at a fixed point."""

    def __init__(self, work: SampledSum) -> None:
        self.work = work

    def __call__(self, shard: Shard) -> Vector:
        return self.work(shard, (0, np.full(20, 0.1)))


def worker_processes(execution: Execution) -> list[int]:
    """Their process ids."""
    return sorted(set(execution.map(own_process, range(40))))


class Trial(NamedTuple):
    """How a run went. digest : of its bits; seconds : from its first step on; whole : from its start on"""

    digest: str
    seconds: float
    whole: float


class Watched:
    """One run in a thread of its own."""

    def __init__(self, run: Run, execution: Execution) -> None:
        self.learning, self.found = threading.Event(), list[Trial]()
        self._run, self._execution, self._begun, self._started = run, execution, 0.0, time.perf_counter()
        self.thread = threading.Thread(target=self._go, daemon=True)
        self.thread.start()

    def _begin(self) -> None:
        self._begun = time.perf_counter()
        self.learning.set()

    def _go(self) -> None:
        bits = self._run(self._execution, self._begin)
        ended = time.perf_counter()
        self.found.append(Trial(hashlib.sha256(bits).hexdigest(), ended - self._begun, ended - self._started))


def undisturbed(run: Run, execution: Execution) -> Trial:
    """A run that nobody disturbs."""
    watched = Watched(run, execution)
    watched.thread.join()
    return watched.found[0]


def with_a_kill(run: Run, execution: Execution, moment: float, victim: int) -> tuple[Trial | None, bool]:
    """The same while a process is killed; None if it hangs; and whether the kill fell into the learning."""
    watched = Watched(run, execution)
    assert watched.learning.wait(MOST_SECONDS)
    time.sleep(moment)
    os.kill(victim, signal.SIGKILL)
    within = not watched.found
    watched.thread.join(MOST_SECONDS)
    return (watched.found[0] if watched.found else None), within


def trial(name: str, run: Run, execution: Execution, moments: int, random: np.random.Generator) -> None:
    """Kill at random moments, and say what came of it."""
    undisturbed(run, execution)  # workers compile
    plain = [undisturbed(run, execution) for _ in range(3)]
    same = hung = late = 0
    seconds: list[float] = []
    while len(seconds) + hung < moments:
        assert soon(lambda: len(worker_processes(execution)) == WORKERS, 60.0)
        if len(seconds) % PLAIN_EVERY == PLAIN_EVERY - 1:
            plain.append(undisturbed(run, execution))
        typical = float(np.median([one.seconds for one in plain]))
        victims = worker_processes(execution)
        found, within = with_a_kill(run, execution, random.uniform(0.0, typical), victims[random.integers(WORKERS)])
        hung += found is None
        late += not within
        if found is not None and within:
            same += found.digest == plain[0].digest
            seconds.append(found.seconds)
    assert {one.digest for one in plain} == {plain[0].digest}
    said = f"{name:4} {moments} killed within the run ({late} more came too late): identical bits {same}, hung {hung}"
    print_added(said, seconds, [one.seconds for one in plain])


def print_added(said: str, seconds: list[float], plain: list[float]) -> None:
    """Print a line that ends with the seconds that disturbed runs take more than the median of plain ones."""
    typical = float(np.median(plain))
    spread = " ".join(f"{second:.2f}" for second in np.percentile(np.array(seconds) - typical, [0, 50, 100]))
    print(f"{said}; undisturbed {typical:.2f} s, added seconds (least, median, most) {spread}", flush=True)


def stopped_first(run: Run, execution: Execution, moments: int) -> None:
    """Stop a worker before a run begins, again and again, and say what came of it."""
    plain = [undisturbed(run, execution) for _ in range(3)]
    same = hung = 0
    seconds: list[float] = []
    for number in range(moments):
        assert soon(lambda: len(worker_processes(execution)) == WORKERS, 60.0)
        victim = worker_processes(execution)[number % WORKERS]
        os.kill(victim, signal.SIGSTOP)
        begun = time.perf_counter()
        try:
            watched = Watched(run, execution)
            watched.thread.join(MOST_SECONDS)
        finally:
            os.kill(victim, signal.SIGCONT)
        hung += not watched.found
        same += bool(watched.found) and watched.found[0].digest == plain[0].digest
        seconds.append(time.perf_counter() - begun)
    said = f"stop {moments} stopped before their first batch: identical bits {same}, hung {hung}"
    print_added(said, seconds, [one.whole for one in plain])


def main(moments: str = str(MOMENTS), which: str = "all") -> None:
    """A line a verb."""
    with tempfile.TemporaryDirectory() as name, DaskExecution(WORKERS, n_threads=1) as execution:
        folder = Path(name)
        data = made_up(folder, N_ROWS)
        runs = {"mix": by_mix(data), "sum": by_sum(data, folder), "map": by_map(data)}
        if which in ("stop", "all"):
            stopped_first(runs["sum"], execution, int(moments))
        for verb in runs if which == "all" else (which,) if which in runs else ():
            trial(verb, runs[verb], execution, int(moments), np.random.default_rng(sum(map(ord, verb))))


if __name__ == "__main__":
    main(*sys.argv[1:])
