"""Two workers against one, on `mix` and on FAPG's `sum`: ratios of seconds in one run, in turn.

    python -m tests.benchmarks.workers [MIX_ROWS] [SUM_ROWS] [REPEATS]

One cluster of two workers of one thread; the same work through both, and through one of them. Rows are made up
(1,500,000 and 400,000 unless said otherwise), in four shards, and stay in the workers. `mix` is FOGD with 200 random
frequencies in 8 rounds a pass; `sum` is FAPG on a C-SVM with 100, 10 iterations. Bits are compared; medians of REPEATS
(5) each.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("OKL_RESIDENT_BYTES", str(2**30))

from okl.execution.dask import DaskExecution
from okl.execution.protocol import Execution
from okl.losses import make_loss
from okl.online.linear import LinearRecipe
from okl.online.maps import FourierChoice
from okl.online.solver import OnlineSolver
from okl.solvers import Solver
from okl.store.dataset import Dataset
from tests import solver_cases
from tests.accelerated import sharded_cases
from tests.benchmarks.sharded import made_up

REPEATS, ROUNDS, ITERATIONS = 5, 8, 10
WANTED = {"mix": 1.8, "sum": 1.6}


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


def main(mix_rows: str = "1_500_000", sum_rows: str = "400_000", repeats: str = str(REPEATS)) -> None:
    """A line a verb."""
    with tempfile.TemporaryDirectory() as folder, DaskExecution(2, n_threads=1) as both:
        sets = {}
        for verb, rows in (("mix", mix_rows), ("sum", sum_rows)):
            (Path(folder) / verb).mkdir()
            sets[verb] = made_up(Path(folder) / verb, int(rows))
        with DaskExecution(address=both.address, n_threads=1, most_workers=1) as one:
            assert (both.n_workers, one.n_workers) == (2, 1)
            for verb, solver in solvers().items():
                data = sets[verb]
                expected = {id(there): learnt(solver, data, there)[0] for there in (both, one)}
                assert expected[id(both)] == expected[id(one)], "the same bits"
                taken: dict[int, list[float]] = {id(both): [], id(one): []}
                for _ in range(int(repeats)):
                    for there in (both, one):
                        taken[id(there)].append(learnt(solver, data, there)[1])
                slow, fast = np.median(taken[id(one)]), np.median(taken[id(both)])
                ratios = np.array(taken[id(one)]) / np.array(taken[id(both)])
                print(
                    f"{verb}: one worker {slow:.2f} s, two {fast:.2f} s: {np.median(ratios):.2f} times as fast "
                    f"({ratios.min():.2f} to {ratios.max():.2f}; at least {WANTED[verb]} wanted)",
                    flush=True,
                )


if __name__ == "__main__":
    main(*sys.argv[1:])
