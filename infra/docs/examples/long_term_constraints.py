"""Online convex optimisation: choose a point per round, then see its cost, under long-term constraints."""

import numpy as np

from okl import oco


def main() -> None:
    """Play 5,000 rounds of a synthetic linear programme; print regret and violation."""
    rng = np.random.default_rng(0)
    costs = rng.uniform(-1, 1, (5000, 2)) + np.array([-0.5, -0.3])  # cost of one unit of each coordinate, per round
    budget = oco.LinearConstraints(np.array([[1.0, 2.0]]), np.array([1.5]), ["budget"])
    problem = oco.Problem(oco.Box(np.zeros(2), np.ones(2)), budget)
    losses = oco.QuadraticLosses(0.0, costs)

    played = oco.play(oco.default_method(), problem, losses)
    best = oco.static_optimum(problem, losses)  # the best fixed point within the budget
    regret = float(played.losses.sum() - (costs @ best).sum())
    violation = float(played.violations.sum())
    print(f"best fixed point {best.round(3)}")
    print(f"a round: regret {regret / 5000:+.4f}, violation {violation / 5000:.5f}")


if __name__ == "__main__":
    main()
