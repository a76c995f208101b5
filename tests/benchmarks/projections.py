"""Projections against other searches and a solver of quadratic programs: `python -m tests.benchmarks.projections`.

First a million entries, each method in turn, the least and the median time, and ratios of the medians: okl's search on
one thread and on two (the same bits), the paper's Algorithms 2 and 5 and Kiwiel's breakpoints, compiled by the same
function and with reused buffers, like okl's; one thread, as each of their steps depends on the previous one. Then
straightforward bisection in vectorised numpy on the same problem, and again with preallocated buffers. The compiled
rivals and the last one are timed without two steps that okl's time includes: the change of variable, and the split into
classes. All write into preallocated arrays.

"work" is single passes over the data for okl, iterations over the remaining entries for the others.

Then random cases, including ties, empty sets and boxes that are points: each is checked by the conditions of Karush,
Kuhn and Tucker, and against an interior-point solver, clarabel.

Source of the uniform points and nu = 1/2: Ito, Takeda & Toh, JMLR 18(16), 2017, section 5.1 and Table 2.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray, Precision
from okl.solvers.accelerated.projections import (
    RIVALS,
    Rival,
    project_box_hyperplane_by,
    project_capped_simplex_pair,
)
from tests.solvers.accelerated.projection_cases import (
    assert_optimal,
    project_box_hyperplane,
    random_case,
    solve_program,
)

LEAST_FACTOR, MOST_PASSES = 25.0, 6.0  # over numpy; of okl
TOLERANCE = 1e-16


@dataclass
class Problem:
    """A projection, and the same for searches on (18): vectors, each with its own total."""

    name: str
    point: FloatArray
    signs: NDArray[np.int8]
    upper: float
    parts: list[tuple[FloatArray, float]]
    pair: bool

    def __post_init__(self) -> None:
        self.out = np.empty_like(self.point)
        self.outs = [np.empty_like(part) for part, _ in self.parts]
        self.ones = [np.ones(len(part), dtype=np.int8) for part, _ in self.parts]

    def okl(self, n_threads: int) -> float:
        """Project, and return the passes over the data."""
        arguments = (self.out, self.point, self.signs, 0.0, self.upper)
        if self.pair:
            return project_capped_simplex_pair(*arguments, n_threads=n_threads).passes
        return project_box_hyperplane(*arguments, n_threads=n_threads).passes

    def rival(self, name: Rival) -> float:
        """Project the parts, and return the larger number of iterations."""
        return max(
            project_box_hyperplane_by(name, out, part, one, 0.0, self.upper, total).passes
            for out, one, (part, total) in zip(self.outs, self.ones, self.parts, strict=True)
        )

    def plain(self) -> float:
        """Project by straightforward bisection in numpy; return its steps."""
        if not self.pair:
            self.out[:], steps = bisect_plainly(self.point, self.signs, self.upper, 0.0)
            return steps
        most = 0
        for sign in (1, -1):
            members = self.signs == sign
            point = self.point[members]
            self.out[members], steps = bisect_plainly(point, np.ones_like(point), self.upper, 0.5)
            most = max(most, steps)
        return most

    def buffered(self) -> float:
        """Project the parts by bisection without an allocation; return its steps."""
        parts = zip(self.outs, self.parts, strict=True)
        return max(bisect_buffered(out, part, self.upper, total) for out, (part, total) in parts)

    def joined(self) -> FloatArray:
        """Return the projections of the parts joined into that of the point."""
        if not self.pair:
            return np.where(self.signs > 0, self.outs[0], self.upper - self.outs[0])
        out = np.empty_like(self.point)
        out[self.signs > 0], out[self.signs < 0] = self.outs
        return out


def bisect_plainly(point: FloatArray, signs: NDArray[Any], upper: float, total: float) -> tuple[FloatArray, int]:
    """Bisect until no number lies between the ends, or they are as close as Algorithm 2's; return point and steps."""
    reach = float(np.abs(point).max()) + upper
    start, stop, steps = -reach, reach, 0
    while start < (middle := 0.5 * (start + stop)) < stop and stop - start > TOLERANCE:
        steps += 1
        excess = float(np.sum(signs * np.clip(point - middle * signs, 0.0, upper), dtype=np.float64)) - total
        start, stop = (middle, stop) if excess > 0 else (start, middle)
    return np.clip(point - middle * signs, 0.0, upper), steps


def bisect_buffered(out: FloatArray, point: FloatArray, upper: float, total: float) -> int:
    """Bisect in place, and return the steps."""
    start, stop = float(point.min()) - total / len(point), float(point.max()) - total / len(point)
    steps = 0
    while start < (middle := 0.5 * (start + stop)) < stop and stop - start > TOLERANCE:
        steps += 1
        np.clip(np.subtract(point, middle, out=out), 0.0, upper, out=out)
        start, stop = (middle, stop) if out.sum(dtype=np.float64) > total else (start, middle)
    return steps


def problems(size: int, precision: Precision) -> list[Problem]:
    """Return projections on the sets of nu-SVM and C-SVM: of points drawn as in the paper, and of normal ones."""
    rng = np.random.default_rng(0)
    signs = np.where(rng.random(size) < 0.3, 1, -1).astype(np.int8)
    result = []
    for width in (10, 1000):
        point = (width * rng.random(size)).astype(precision)
        parts = [(point[signs > 0], 0.5), (point[signs < 0], 0.5)]
        result.append(Problem(f"nu-SVM [0, {width}]", point, signs, 2.0 / size, parts, True))
    for name, point in (
        ("C-SVM normal", rng.standard_normal(size)),
        ("C-SVM ties", np.round(rng.standard_normal(size), 1)),
    ):
        point = point.astype(precision)
        moved = np.where(signs > 0, point, 1 - point)
        result.append(Problem(name, point, signs, 1.0, [(moved, float(np.sum(signs < 0)))], False))
    return result


def race(problem: Problem, turns: int) -> None:
    """Time all methods in turn, and print a line for each."""
    ways: dict[str, Callable[[], float]] = {"okl": lambda: problem.okl(1), "okl, two threads": lambda: problem.okl(2)}
    ways |= {rival: lambda rival=rival: problem.rival(rival) for rival in RIVALS}  # type: ignore[misc]
    ways |= {"numpy": problem.plain, "numpy in place": problem.buffered}
    times: dict[str, list[float]] = {way: [] for way in ways}
    passes_of, outs = {}, {}
    for way, work in ways.items():  # compiled, and every page touched
        passes_of[way] = work()
        outs[way] = problem.joined() if way in (*RIVALS, "numpy in place") else problem.out.copy()
    for _ in range(turns):
        for way, work in ways.items():
            start = time.perf_counter()
            work()
            times[way].append(1e3 * (time.perf_counter() - start))
    least, medians = ({way: statistic(values) for way, values in times.items()} for statistic in (min, median))
    for way in ways:
        distance = float(np.abs(outs[way] - outs["okl"]).max())
        line = f"{problem.name:<17}{problem.point.dtype!s:<9}{way:<20}{least[way]:>9.2f}{medians[way]:>9.2f}"
        print(f"{line}{medians[way] / medians['okl']:>8.1f}{passes_of[way]:>8.2f}{distance:>10.1e}", flush=True)
    slower = [way for way in (*RIVALS, "numpy", "numpy in place") if medians[way] <= medians["okl"]]
    factor, passes = medians["numpy"] / medians["okl"], passes_of["okl"]
    met = factor >= LEAST_FACTOR and not slower and passes <= MOST_PASSES
    same = outs["okl"].tobytes() == outs["okl, two threads"].tobytes()
    verdict = f"{factor:.1f}x numpy (of the least {least['numpy'] / least['okl']:.1f}x)"
    verdict += f", {medians['numpy in place'] / medians['okl']:.0f}x numpy in place, {passes:.2f} passes"
    print(f"  {'holds' if met and same else 'FAILS'}: {verdict}, not faster than {slower or 'none'}, same bits: {same}")


def check(n_cases: int) -> None:
    """Check random cases against the conditions of optimality and the solver."""
    farthest, empty, start = 0.0, 0, time.perf_counter()
    for seed in range(n_cases):
        case = random_case(seed)
        out = np.empty_like(case.point)
        solution = solve_program(case)
        try:
            project_box_hyperplane(out, case.point, case.signs, case.lower, case.upper, case.total)
        except ConfigError:
            assert solution is None, seed
            empty += 1
            continue
        assert solution is not None, seed
        assert_optimal(out, case, np.ones(len(out), dtype=bool), case.signs, case.total)
        scale = 1 + float(np.abs(case.point).max())
        farthest = max(farthest, float(np.abs(out - solution).max()) / scale)
        excess = float(np.sum((out - case.point) ** 2) - np.sum((solution - case.point) ** 2)) / scale**2
        assert excess < 1e-6, seed
    seconds = time.perf_counter() - start
    print(
        f"{n_cases} random cases, {empty} of them empty: all optimal; {farthest:.1e} from the solver ({seconds:.0f} s)"
    )


def main() -> None:
    """Print a line per method, then the random cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--cases", type=int, default=10_000)
    options = parser.parse_args()
    if options.turns > 0:
        head = f"{'problem':<17}{'entries':<9}{'way':<20}{'ms least':>9}{'median':>9}"
        print(head + f"{'x okl':>8}{'work':>8}{'apart':>10}")
        for precision in ("float64", "float32"):
            for problem in problems(options.size, precision):
                race(problem, options.turns)
    check(options.cases)


if __name__ == "__main__":
    main()
