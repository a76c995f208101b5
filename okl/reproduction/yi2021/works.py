"""Pieces of work of section 4: all algorithms on a block of experiments with one first point and horizon."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from okl.oco import run_many
from okl.oco.methods.face import Method
from okl.oco.metrics import losses_at
from okl.oco.optima import static_optimum
from okl.reproduction.folder import Folder
from okl.reproduction.items import Outcome
from okl.reproduction.yi2021.algorithms import LINEAR, QUADRATIC
from okl.reproduction.yi2021.problems import STARTS, Doubles, draw_problem

POINTS = 101  # of a curve
_warm = Lock()


def marks(n_rounds: int) -> list[int]:
    """Rounds at which curves are kept, from 1 to the last."""
    return sorted({int(at) for at in np.linspace(1, n_rounds, POINTS).round()})


@dataclass(frozen=True)
class BlockItem:
    """Experiments first .. first + count - 1.

    quadratic : whether the losses are those of section 4.2
    start : name of the first point; n_rounds : the horizon
    """

    quadratic: bool
    start: str
    n_rounds: int
    first: int
    count: int

    @property
    def name(self) -> str:
        """Readable and unique."""
        kind = "oqp" if self.quadratic else "olp"
        return f"{kind}--{self.start}--T{self.n_rounds}--{self.first}+{self.count}"

    @property
    def dataset(self) -> str:
        """None: it draws what it reads."""
        return ""

    @property
    def rows(self) -> int:
        """Rounds, of all experiments."""
        return self.count * self.n_rounds

    @property
    def cost(self) -> float:
        """Rounds."""
        return float(self.rows)

    def describe(self) -> dict[str, Any]:
        """All fields: the name says them."""
        return {"item": self.name}

    def run(self, folder: Folder, check: Callable[[], None]) -> Outcome:
        """For each algorithm final losses, violations and regrets, the seconds of all, and sums for the curves."""
        drawn = [draw_problem(at, self.n_rounds, self.quadratic) for at in range(self.first, self.first + self.count)]
        problems, losses = [problem for problem, _ in drawn], [loss for _, loss in drawn]
        best = np.array([losses_at(loss, static_optimum(problem, loss)[None, :]).sum() for problem, loss in drawn])
        with _warm:
            self._warm_up(check)
        found: Outcome = {}
        for name, method in self._methods.items():
            check()
            begun = time.perf_counter()
            traces = run_many(method, problems, losses, np.array(STARTS[self.start]))
            seconds = time.perf_counter() - begun
            found[name] = {"seconds": seconds / self.count}
            found[name] |= _kept(traces.cumulative_losses, traces.cumulative_violations, best)
        return {"algorithms": found}

    @property
    def _methods(self) -> Mapping[str, Method[Any]]:
        return QUADRATIC if self.quadratic else LINEAR

    def _warm_up(self, check: Callable[[], None]) -> None:
        """Compile, so that no clock runs meanwhile."""
        problem, few = draw_problem(0, 3, self.quadratic)
        for method in self._methods.values():
            check()
            method.run(problem, few)


def _kept(losses: Doubles, violations: Doubles, best: Doubles) -> dict[str, Any]:
    """Finals of every experiment, and sums and sums of squares over the experiments at the marks."""
    at = np.array(marks(losses.shape[1])) - 1
    return {
        "cumulative_loss": losses[:, -1].tolist(),
        "cumulative_violation": violations[:, -1].tolist(),
        "regret": (losses[:, -1] - best).tolist(),
        "loss_sums": losses[:, at].sum(axis=0).tolist(),
        "loss_squares": (losses[:, at] ** 2).sum(axis=0).tolist(),
        "violation_sums": violations[:, at].sum(axis=0).tolist(),
        "violation_squares": (violations[:, at] ** 2).sum(axis=0).tolist(),
    }
