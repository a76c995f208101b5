"""Runs of the practical method as in the paper: its constants, its stopping rule, a limit of time, and a stopwatch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, cast

from okl.accelerated.fapg import Fapg
from okl.accelerated.fapgstate import FapgState
from okl.accelerated.protocol import Problem
from okl.reproduction.items import Outcome
from okl.types import FloatArray

RESIDUAL = 1e-6
MOST_SECONDS = 600.0
# the gap is not to stop it: the paper asks for the residual alone; steps are looked at every ten iterations
METHOD = Fapg(tolerance=1e-14, residual_tolerance=RESIDUAL, check_every=10)


@dataclass(frozen=True)
class Run:
    """A run and what it took."""

    state: FapgState
    seconds: float
    in_time: bool

    def outcome(self) -> Outcome:
        """Seconds, iterations, the Lipschitz estimates, the certified gap, or why there is no answer."""
        records = self.state.history
        found: Outcome = {"seconds": self.seconds, "iterations": None}
        if not self.in_time:
            return found | {"note": f"not done within {MOST_SECONDS:g} seconds, {records[-1].iteration} iterations"}
        estimates = [record.lipschitz for record in records]
        return found | {
            "iterations": records[-1].iteration,
            "mean_estimate": fmean(estimates),
            "largest_estimate": max(estimates),
            "residual": records[-1].residual,
            "relative_gap": records[-1].certificate.relative_gap,
            "objective": records[-1].certificate.primal,
        }


def run(problem: Problem, check: Callable[[], None], method: Fapg = METHOD) -> Run:
    """Solve a problem, but for no longer than the limit; check raises if nobody waits any more."""
    begun = time.perf_counter()
    state = method.start(problem)
    while method.finished(state) is None:
        check()
        if time.perf_counter() - begun > MOST_SECONDS:
            return Run(state, time.perf_counter() - begun, in_time=False)
        state = method.advance(state, problem)
    return Run(state, time.perf_counter() - begun, in_time=True)


def compile_parts(problem: Problem) -> None:
    """Ten iterations that nobody times: the first ones compile."""
    METHOD.advance(METHOD.start(problem), problem)


@dataclass(eq=False)
class Stopwatch:
    """A problem that counts and times what it is asked for: gradients, function values, projections.

    An image is part of a function value, a pull part of a gradient, as in the paper's breakdown.
    """

    problem: Problem
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("gradient", "function", "projection"), 0.0)
    )
    evaluations: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("gradient", "function", "projection"), 0)
    )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.problem, name)

    def pull(self, out: FloatArray, image: FloatArray) -> None:
        """Part of a gradient."""
        with self._timed("gradient", 0):
            self.problem.pull(out, image)

    def gradient(self, out: FloatArray, point: FloatArray, image: FloatArray, pulled: FloatArray) -> None:
        """The rest of a gradient."""
        with self._timed("gradient"):
            self.problem.gradient(out, point, image, pulled)

    def image(self, out: FloatArray, point: FloatArray) -> None:
        """Part of a function value."""
        with self._timed("function", 0):
            self.problem.image(out, point)

    def smooth(self, point: FloatArray, image: FloatArray) -> float:
        """The rest of a function value."""
        with self._timed("function"):
            return self.problem.smooth(point, image)

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """A projection."""
        with self._timed("projection"):
            self.problem.prox(out, point, lipschitz)

    def sweep(self, *_: object) -> None:
        """None: a step in one read cannot be told apart into its parts."""

    def at_level(self, level: int) -> Problem:
        """Itself: nothing is smoothed in what is timed."""
        return cast(Problem, self)

    @contextmanager
    def _timed(self, part: str, count: int = 1) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - begun
        self.evaluations[part] += count
