"""Cases of tests.benchmarks.workers: narrow and wide maps, rows held in memory or mapped in every round."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from okl.losses import make_loss
from okl.solvers.base import Solver
from okl.solvers.online.linear import LinearFactory
from okl.solvers.online.maps import FourierChoice
from okl.solvers.online.solver import OnlineSolver
from tests.solvers.accelerated import sharded_cases

ROUNDS, ITERATIONS = 8, 10


@dataclass(frozen=True)
class Case:
    """One comparison.

    verb : "mix", FOGD in 8 rounds a pass; or "sum", FAPG on a C-SVM, 10 iterations
    frequencies : of the map, which has twice as many columns; rows : made up
    wanted : least speed-up over one worker; None for no limit
    held_bytes : of rows that a process may hold between rounds; None: all of them
    """

    verb: str
    frequencies: int
    rows: int
    wanted: float | None = None
    held_bytes: int | None = None

    def solver(self) -> Solver[Any]:
        """Return the solver of the case."""
        if self.verb == "mix":
            maps = FourierChoice(n_frequencies=self.frequencies, bandwidth=3.0)
            factory = LinearFactory(maps, make_loss("hinge"), step_size=0.1)
            return OnlineSolver(factory, mode="mix", rounds=ROUNDS, seed=3)
        summed = sharded_cases.solver("c-svm", 1e-14, iterations=ITERATIONS)
        return replace(summed, maps=FourierChoice(n_frequencies=self.frequencies))


CASES = {
    "mix": Case("mix", 200, 6_000_000, 1.8),
    "sum": Case("sum", 100, 1_000_000, 1.6),
    "mix wide": Case("mix", 500, 1_500_000, 1.8),
    "sum wide": Case("sum", 500, 160_000, 1.6),
    "sum anew": Case("sum", 100, 600_000, 1.6, 0),
}
"""`sum anew`: rows that do not fit into memory are read and mapped in every round, the typical use of clusters."""
