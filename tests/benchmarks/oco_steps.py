"""Steps of online convex optimisation compared with a cone solver, and their time.

python -m tests.benchmarks.oco_steps

Whole runs of Algorithm 1 are timed, by (dimension, rows); then 5,000 random steps over boxes and balls, and 2,500 over
simplexes, with parallel and nearly parallel rows, are solved with clarabel as well.
"""

from __future__ import annotations

import time

import numpy as np

from okl.solvers.oco.methods import Algorithm1
from okl.solvers.oco.problem import LinearConstraints, Problem, QuadraticLosses
from okl.solvers.oco.schedules import KnownHorizon
from okl.solvers.oco.sets import Ball, Box
from tests.solvers.oco.cases import random_step, solve_cone, take_step

STEPS = 7500
SIZES = ((2, 3), (200, 5), (1000, 20))
KINDS, ROWS = ("box", "ball", "simplex"), ("independent", "nearly parallel", "parallel")


def compare() -> None:
    """Print the largest distance from clarabel's solutions, where it ends as solved."""
    rng = np.random.default_rng(0)
    distances: dict[tuple[str, str], list[float]] = {}
    unsolved, worst_gap = 0, 0.0
    for index in range(STEPS):
        centre, matrix, bounds, region, limits = random_step(rng, index)
        point, _, gap = take_step(centre, matrix, bounds, region, limits)
        worst_gap = max(worst_gap, gap)
        solution, solved = solve_cone(centre, matrix, bounds, region, limits)
        if solved:
            key = KINDS[index // 3 % 3], ROWS[index % 3]
            distances.setdefault(key, []).append(float(np.abs(point - solution).max()))
        else:
            unsolved += 1
    for (kind, rows), values in sorted(distances.items()):
        print(
            f"{kind:8} {rows:16} {len(values):5} steps: at most {max(values):.1e} apart, median {np.median(values):.1e}"
        )
    print(
        f"{unsolved} of {STEPS:,} that clarabel does not call solved; largest duality gap of all steps {worst_gap:.1e}"
    )


def microseconds(region: Box | Ball, n_rows: int, n_rounds: int) -> tuple[float, float]:
    """Return the least time of a round of Algorithm 1 of three runs, and the share of rounds with an active row."""
    rng, size = np.random.default_rng(0), region.dimension
    matrix = rng.normal(size=(n_rows, size))
    problem = Problem(region, LinearConstraints(matrix, 0.05 * np.sqrt(size) * rng.random(n_rows)))
    drift = -matrix.sum(axis=0) / np.sqrt(n_rows)
    losses = QuadraticLosses(0.0, drift + rng.normal(size=(n_rounds, size)))
    method = Algorithm1(KnownHorizon(step_scale=2.0, penalty_scale=0.2))
    best, points = np.inf, np.empty((0, size))
    for _ in range(3):
        start = time.perf_counter()
        points = method.run(problem, losses)
        best = min(best, (time.perf_counter() - start) / n_rounds * 1e6)
    return best, float(((points @ matrix.T - problem.linear.bounds).max(axis=1) > -1e-9).mean())


def main() -> None:
    """Print distances, then times."""
    for size, n_rows in SIZES:
        for region in (Box(-np.ones(size), np.ones(size)), Ball(np.zeros(size), 0.7 * np.sqrt(size))):
            elapsed, active = microseconds(region, n_rows, 20_000 if size < 1000 else 2000)
            name = type(region).__name__.lower()
            print(f"{name:5} (p, m) = ({size}, {n_rows}): {elapsed:.2f} us a round, {active:.0%} with an active row")
    compare()


if __name__ == "__main__":
    main()
