"""The exact line search compared with a dense grid and an interior point solver, on 10,000 random piecewise quadratics.

python -m tests.benchmarks.scs_linesearch
"""

from __future__ import annotations

import numpy as np

from okl.solvers.subgradient.scs import ExactLineSearch
from tests.solvers.subgradient.searches import LOSSES, least_by_programme, least_on_grid, random_ray, value_at

RAYS, POINTS = 10_000, 1000


def main() -> None:
    """Print the largest excess of the search over each, and how often it ended on a kink."""
    rng, search = np.random.default_rng(0), ExactLineSearch()
    above_grid, from_programme, inside, kinks = 0.0, 0.0, 0, 0
    for index in range(RAYS):
        loss = LOSSES[index % len(LOSSES)]
        ray, longest = random_ray(rng, loss), float(rng.choice([0.1, 1.0, 10.0]))
        step = search.step(ray, loss, longest)
        value, right_slope = value_at(ray, loss, step)
        above_grid = max(above_grid, value - least_on_grid(ray, loss, longest, POINTS))
        exact = least_by_programme(ray, loss, longest)
        from_programme = max(from_programme, abs(value - exact) / (1.0 + abs(exact)))
        if 0.0 < step < longest:
            inside += 1
            kinks += right_slope > 1e-9
    print(f"{RAYS:,} rays, {inside:,} minima inside, {kinks:,} of them on kinks")
    print(f"above the least of {POINTS:,} steps by at most {above_grid:.1e}")
    print(f"from the interior point solver's value by at most {from_programme:.1e}, relative")


if __name__ == "__main__":
    main()
