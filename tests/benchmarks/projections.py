"""Projections against other searches and a solver of quadratic programs: `python -m tests.benchmarks.projections`.

First a million entries, each way in turn, the least and the median time: okl's search, bisection by vectorised numpy,
the paper's Algorithms 2 and 5 and Kiwiel's breakpoints, compiled by the same door. The rivals are spared what okl does
within its time: the change of variable, and the split into classes. Then random cases, with ties, empty sets and boxes
that are points among them: each by the conditions of Karush, Kuhn and Tucker, and against an interior-point solver.

Source of the uniform points and nu = 1/2: Ito, Takeda & Toh, JMLR 18(16), 2017, section 5.1 and Table 2.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.projections import (
    RIVALS,
    Rival,
    project_box_hyperplane,
    project_box_hyperplane_by,
    project_truncated_simplex_pair,
)
from okl.errors import ConfigError
from okl.types import FloatArray, Precision
from tests.accelerated.projection_cases import assert_optimal, random_case, solve_program

LEAST_FACTOR, MOST_PASSES = 25.0, 6.0  # over numpy; of okl


@dataclass
class Problem:
    """A projection, and the same for searches on (18): vectors, each with its own total."""

    name: str
    point: FloatArray
    signs: NDArray[np.int8]
    upper: float
    parts: list[tuple[FloatArray, float]]
    pair: bool

    def okl(self) -> tuple[FloatArray, float]:
        """The projection, and its passes over the data."""
        out = np.empty_like(self.point)
        if self.pair:
            return out, project_truncated_simplex_pair(out, self.point, self.signs, 0.0, self.upper).passes
        return out, project_box_hyperplane(out, self.point, self.signs, 0.0, self.upper).passes

    def rival(self, name: Rival) -> tuple[list[FloatArray], float]:
        """The projections of the parts, and the larger number of iterations."""
        outs = [np.empty_like(part) for part, _ in self.parts]
        ones = [np.ones(len(out), dtype=np.int8) for out in outs]
        found = [
            project_box_hyperplane_by(name, out, part, one, 0.0, self.upper, total)
            for out, one, (part, total) in zip(outs, ones, self.parts, strict=True)
        ]
        return outs, max(result.passes for result in found)

    def numpy(self) -> tuple[list[FloatArray], float]:
        """The same by bisection."""
        found = [bisect(part, self.upper, total) for part, total in self.parts]
        return [out for out, _ in found], max(steps for _, steps in found)

    def joined(self, outs: list[FloatArray]) -> FloatArray:
        """Projections of the parts as that of the point."""
        if not self.pair:
            return np.where(self.signs > 0, outs[0], self.upper - outs[0])
        out = np.empty_like(self.point)
        out[self.signs > 0], out[self.signs < 0] = outs
        return out


def bisect(point: FloatArray, upper: float, total: float) -> tuple[FloatArray, int]:
    """Bisection with two buffers and no other allocation, until no number lies between the ends."""
    start, stop = float(point.min()) - total / len(point), float(point.max()) - total / len(point)
    out, steps = np.empty_like(point), 0
    while start < (middle := 0.5 * (start + stop)) < stop and stop - start > 1e-16:
        steps += 1
        np.clip(np.subtract(point, middle, out=out), 0.0, upper, out=out)
        start, stop = (middle, stop) if out.sum(dtype=np.float64) > total else (start, middle)
    return out, steps


def problems(size: int, precision: Precision) -> list[Problem]:
    """nu-SVM's and C-SVM's sets at points as the paper draws them, and at normal ones."""
    rng = np.random.default_rng(0)
    signs = np.where(rng.random(size) < 0.3, 1, -1).astype(np.int8)
    found = []
    for width in (10, 1000):
        point = (width * rng.random(size)).astype(precision)
        parts = [(point[signs > 0], 0.5), (point[signs < 0], 0.5)]
        found.append(Problem(f"nu-SVM [0, {width}]", point, signs, 2.0 / size, parts, True))
    for name, point in (
        ("C-SVM normal", rng.standard_normal(size)),
        ("C-SVM ties", np.round(rng.standard_normal(size), 1)),
    ):
        point = point.astype(precision)
        moved = np.where(signs > 0, point, 1 - point)
        found.append(Problem(name, point, signs, 1.0, [(moved, float(np.sum(signs < 0)))], False))
    return found


def race(problem: Problem, turns: int) -> None:
    """Time all ways in turn, and print a line each."""
    ways: dict[str, Callable[[], tuple[FloatArray | list[FloatArray], float]]] = {"okl": problem.okl}
    ways |= {rival: lambda rival=rival: problem.rival(rival) for rival in RIVALS}  # type: ignore[misc]
    ways["numpy bisection"] = problem.numpy
    times: dict[str, list[float]] = {way: [] for way in ways}
    passes, outs = {}, {}
    for way, work in ways.items():  # compiled, and every page touched
        found, passes[way] = work()
        outs[way] = problem.joined(found) if isinstance(found, list) else found
    for _ in range(turns):
        for way, work in ways.items():
            begun = time.perf_counter()
            work()
            times[way].append(1e3 * (time.perf_counter() - begun))
    base = min(times["okl"])
    for way, taken in times.items():
        apart = float(np.abs(outs[way] - outs["okl"]).max())
        line = f"{problem.name:<17}{problem.point.dtype!s:<9}{way:<20}{min(taken):>9.2f}{median(taken):>9.2f}"
        line += f"{min(taken) / base:>8.1f}{passes[way]:>8.2f}{apart:>10.1e}"
        print(line, flush=True)
    behind = [way for way in times if way != "okl" and min(times[way]) <= base]
    factor = min(times["numpy bisection"]) / base
    held = factor >= LEAST_FACTOR and not behind and passes["okl"] <= MOST_PASSES
    verdict = f"{factor:.0f}x numpy, {passes['okl']:.2f} passes, slower than {behind or 'none'}"
    print(f"  {'holds' if held else 'FAILS'}: {verdict}")


def check(n_cases: int) -> None:
    """Random cases against the conditions of optimality and the solver."""
    farthest, empty, begun = 0.0, 0, time.perf_counter()
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
    seconds = time.perf_counter() - begun
    print(
        f"{n_cases} random cases, {empty} of them empty: all optimal; {farthest:.1e} from the solver ({seconds:.0f} s)"
    )


def main() -> None:
    """Print a line a way, then the random cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--cases", type=int, default=10_000)
    options = parser.parse_args()
    if options.turns > 0:
        head = f"{'problem':<17}{'entries':<9}{'way':<20}{'ms least':>9}{'median':>9}"
        print(head + f"{'x okl':>8}{'passes':>8}{'apart':>10}")
        for precision in ("float64", "float32"):
            for problem in problems(options.size, precision):
                race(problem, options.turns)
    check(options.cases)


if __name__ == "__main__":
    main()
