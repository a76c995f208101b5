"""SCS against a compiled Pegasos at equal time: `python -m tests.benchmarks.scs_rivals DATA_FOLDER [SET ...]`.

lam / 2 |w|^2 + mean hinge on ALL rows, lam = 1e-3, less its optimum (Newton's method to a certified relative gap
of 1e-7), after .01 s to 3 s on one thread. Rows are 256 Fourier features, float32, in memory in a random order
before the clock begins. A second block includes the features: the time of each method also includes mapping every row
that it has used so far, once (both keep mapped rows), into allocated memory. Both are tuned on the grids below: a line
shows the least objective of any setting at each time. "as it is" is SCS with its default settings on every set. The
last lines count the sets on which SCS is lower.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from okl.compiled.jit import one_blas_thread
from okl.foundation.types import FloatArray
from okl.solvers.subgradient.fitting import GeometricGrowth
from okl.solvers.subgradient.pegasos import Pegasos
from okl.solvers.subgradient.scs import Scs
from okl.solvers.subgradient.spaces import ColumnSource
from tests.benchmarks.scs_data import SETS, SMALL, Doubles, Mapped, mapped, objective
from tests.solvers.subgradient.exact import HingeOptimum, hinge_optimum

LAM = 1e-3
TIMES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
PEGASOS: list[dict[str, Any]] = [
    {"batch": batch, "project": project, "in_turn": in_turn, "average": "later"}
    for batch, project, in_turn in ((1, False, False), (1, False, True), (1, True, True), (16, False, True))
] + [{"average": "uniform"}]
SCS: list[dict[str, Any]] = [{}, {"first_sample": 300}, {"first_sample": 4000}]
ENOUGH = 1e-4


class Moment(NamedTuple):
    """A point of a run: seconds so far, rows used so far, weights."""

    seconds: float
    met: float
    weights: Doubles


class Over(Exception):  # noqa: N818  (not an error)
    """The time is over."""


class Clock:
    """Moments of a run; the clock is paused while one is stored."""

    def __init__(self, last: float) -> None:
        self.last, self.spent, self.moments = last, 0.0, list[Moment]()
        self.since = time.perf_counter()

    def note(self, weights: FloatArray, met: float) -> None:
        """Store a moment, and raise Over after the last one."""
        self.spent += time.perf_counter() - self.since
        self.moments.append(Moment(self.spent, met, np.array(weights, dtype=np.float64)))
        if self.spent >= self.last:
            raise Over
        self.since = time.perf_counter()


class InMemory(ColumnSource):
    """Rows in the order of drawing, without a copy."""

    def __post_init__(self) -> None:
        self._rows, self._known = self.inputs, len(self.inputs)


def pegasos(data: Mapped, clock: Clock, **setting: Any) -> None:
    """Run Pegasos without a stop."""
    method, m = Pegasos(LAM, **setting), len(data.targets)
    for state in method.run_rows(data.rows, data.targets):
        drawn = state.progress.rows
        met = min(drawn, m) if method.in_turn else m * -np.expm1(-drawn / m)
        clock.note(method.weights(state)[0], met)


def scs(data: Mapped, clock: Clock, n_threads: int = 1, **setting: Any) -> None:
    """Run SCS on samples that grow to all rows, to the precision of float64."""
    GeometricGrowth(confidence=None, **setting).fit(
        InMemory(data.rows, np.arange(len(data.rows)), n_threads=n_threads),
        data.targets,
        Scs(LAM, gap=1e-9),
        lambda run: clock.note(run.point.vector.coefficients, run.n_rows),
    )


def run(method: Callable[..., None], data: Mapped, last: float, setting: dict[str, Any]) -> list[Moment]:
    """Return the moments until the time is over, or the method ends."""
    clock = Clock(last)
    with suppress(Over):
        method(data, clock, **setting)
    return clock.moments


def curve(data: Mapped, moments: list[Moment], times: tuple[float, ...], a_row: float) -> list[float]:
    """Return the objective on all rows at these times; a_row : seconds for each row used."""
    ready = np.array([moment.seconds + a_row * moment.met for moment in moments])
    values: dict[int, float] = {-1: 1.0}
    for place in set(np.searchsorted(ready, times, side="right") - 1) - {-1}:
        values[place] = objective(data, moments[place].weights, LAM)
    return [values[place] for place in np.searchsorted(ready, times, side="right") - 1]


def line(label: str, excess: list[float]) -> None:
    """Print a curve."""
    print(f"  {label:26}", " ".join(f"{value:9.1e}" for value in excess), flush=True)


def runs_of(data: Mapped, last: float) -> dict[str, list[list[Moment]]]:
    """Return the moments of each setting of each grid, and of SCS on two threads."""
    moments_by_method = {"pegasos": [run(pegasos, data, last, setting) for setting in PEGASOS]}
    moments_by_method["scs"] = [run(scs, data, last, setting) for setting in SCS]
    moments_by_method["scs, 2 threads"] = [run(scs, data, last, {"n_threads": 2})]
    return moments_by_method


def compare(
    data: Mapped, times: tuple[float, ...], runs: dict[str, list[list[Moment]]], solved: HingeOptimum, a_row: float
) -> dict[str, list[float]]:
    """Print the curves of a set; return the least excess of each method at each time."""
    best, least = solved.objective, {}
    for label, moments in runs.items():
        excess = np.maximum(
            np.array([curve(data, curve_moments, times, a_row) for curve_moments in moments]) - best, 0.0
        )
        least[label] = [float(value) for value in excess.min(axis=0)]
        line(f"{label}, best of {len(moments)}" if len(moments) > 1 else label, least[label])
        if label == "scs":
            least["scs, as it is"] = [float(value) for value in excess[0]]
            line("scs, as it is", least["scs, as it is"])
    return least


def main(folder: str, *names: str) -> None:
    """Print the curves of the sets, and on how many SCS is lower."""
    lower: dict[str, list[bool]] = {}
    for name in names or SETS:
        data = mapped(folder, name)
        times = tuple(t for t in TIMES if t <= (0.3 if name in SMALL else 3.0))
        for method, seconds in ((pegasos, 0.1), (scs, 60.0)):
            run(method, data._replace(rows=data.rows[:500], targets=data.targets[:500]), seconds, {})  # compiles
        solved = hinge_optimum(LAM, data.rows, data.targets, gap=1e-7)
        mapping = data.seconds_a_row * len(data.rows)
        print(f"{name}: {len(data.rows):,} rows, optimum {solved.objective:.8f} within {solved.gap:.0e}")
        print(f"  {'excess after seconds':26}", " ".join(f"{t:9g}" for t in times))
        runs = runs_of(data, times[-1])
        excess = compare(data, times, runs, solved, 0.0)
        count(lower, "", excess)
        print(f"  with the features of rows met, {mapping:.2f} s for all")
        count(lower, ", features counted", compare(data, times, runs, solved, data.seconds_a_row))
    for label, outcomes in lower.items():
        print(f"scs is lower {label}: {sum(outcomes)} of {len(outcomes)}")


def count(lower: dict[str, list[bool]], reading: str, excess: dict[str, list[float]]) -> None:
    """Count whether SCS is lower at the last two times, and within 1e-4 at the second last."""
    for label, method in (("", "scs"), (" as it is", "scs, as it is")):
        theirs, ours = excess["pegasos"], excess[method]
        lower.setdefault(f"at the last time{reading}{label}", []).append(ours[-1] < theirs[-1])
        near = ours[-2] < theirs[-2] and ours[-2] <= ENOUGH
        lower.setdefault(f"at the one before, within 1e-4{reading}{label}", []).append(near)


if __name__ == "__main__":
    with one_blas_thread():
        main(*sys.argv[1:])
