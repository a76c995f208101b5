"""One worker killed (SIGKILL) at a random moment: bits, runs that hang, seconds that it costs.

    python -m tests.benchmarks.kills [MOMENTS] [mix|sum|map|all]

Two workers. `mix` is FOGD in rounds; `sum` FAPG on a C-SVM, whose vectors stand beside the shards and go down with the
worker; `map` scores pieces of rows. Each is run MOMENTS times (20 unless said otherwise); while it runs, one of the two
worker processes is killed at a moment drawn evenly over the seconds that an undisturbed run takes. Killed processes are
replaced by Dask's nanny: the next run waits for that.
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

import numpy as np

from okl.execution.dask import DaskExecution
from okl.execution.protocol import Execution
from okl.losses import make_loss
from okl.online.linear import LinearRecipe
from okl.online.maps import FourierChoice
from okl.online.solver import OnlineSolver
from okl.store.dataset import Dataset, Shard
from tests import solver_cases
from tests.accelerated import sharded_cases
from tests.benchmarks.sharded import made_up
from tests.execution.processes import soon
from tests.execution.works import SampledSum, Vector, own_process

N_ROWS, MOMENTS, MOST_SECONDS, WORKERS = 40_000, 20, 120.0, 2

Run = Callable[[Execution], bytes]


def by_mix(data: Dataset) -> Run:
    """FOGD in 60 rounds; its bits."""
    recipe = LinearRecipe(FourierChoice(n_frequencies=200, bandwidth=3.0), make_loss("hinge"), step_size=0.1)
    solver = OnlineSolver(recipe, mode="mix", rounds=60, seed=3)

    def run(execution: Execution) -> bytes:
        return repr(solver_cases.bits(solver, solver_cases.last_state(solver, data, execution))).encode()

    return run


def by_sum(data: Dataset, folder: Path) -> Run:
    """FAPG, 40 iterations; its bits."""
    solver = sharded_cases.solver("c-svm", 1e-14, iterations=40)
    runs = iter(range(10_000))

    def run(execution: Execution) -> bytes:
        scratch = folder / f"scratch-{next(runs)}"
        scratch.mkdir()
        learning = replace(solver, maps=FourierChoice(n_frequencies=100), scratch=scratch)
        state = sharded_cases.last_state(learning, data, execution)
        return repr(sharded_cases.bits(learning, state)[0]).encode()

    return run


def by_map(data: Dataset) -> Run:
    """Sums over 200 pieces; their bits."""
    shards = [data.shards[i % len(data.shards)] for i in range(200)]
    work = Piece(SampledSum(data, 5))

    def run(execution: Execution) -> bytes:
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


def timed(run: Run, execution: Execution) -> tuple[str, float]:
    """A digest of the bits, and seconds."""
    begun = time.perf_counter()
    found = run(execution)
    return hashlib.sha256(found).hexdigest(), time.perf_counter() - begun


def with_a_kill(run: Run, execution: Execution, moment: float, victim: int) -> tuple[str, float] | None:
    """The same while a process is killed; None if it hangs."""
    found: list[tuple[str, float]] = []
    thread = threading.Thread(target=lambda: found.append(timed(run, execution)), daemon=True)
    thread.start()
    time.sleep(moment)
    os.kill(victim, signal.SIGKILL)
    thread.join(MOST_SECONDS)
    return found[0] if found else None


def trial(name: str, run: Run, execution: Execution, moments: int, random: np.random.Generator) -> None:
    """Kill at random moments, and say what came of it."""
    run(execution)  # workers compile
    plain = [timed(run, execution) for _ in range(3)]
    expected, typical = plain[0][0], float(np.median([seconds for _, seconds in plain]))
    assert {digest for digest, _ in plain} == {expected}
    same = hung = 0
    added = []
    for _ in range(moments):
        assert soon(lambda: len(worker_processes(execution)) == WORKERS, 60.0)
        victims = worker_processes(execution)
        found = with_a_kill(run, execution, random.uniform(0.0, typical), victims[random.integers(WORKERS)])
        hung += found is None
        if found is not None:
            same += found[0] == expected
            added.append(found[1] - typical)
    spread = " ".join(f"{second:.2f}" for second in np.percentile(added, [0, 50, 100]))
    print(
        f"{name:4} {moments} killed: identical bits {same}, hung {hung}; undisturbed {typical:.2f} s, "
        f"added seconds (least, median, most) {spread}",
        flush=True,
    )


def main(moments: str = str(MOMENTS), which: str = "all") -> None:
    """A line a verb."""
    with tempfile.TemporaryDirectory() as name, DaskExecution(WORKERS, n_threads=1) as execution:
        folder = Path(name)
        data = made_up(folder, N_ROWS)
        runs = {"mix": by_mix(data), "sum": by_sum(data, folder), "map": by_map(data)}
        for verb in runs if which == "all" else (which,):
            trial(verb, runs[verb], execution, int(moments), np.random.default_rng(sum(map(ord, verb))))


if __name__ == "__main__":
    main(*sys.argv[1:])
