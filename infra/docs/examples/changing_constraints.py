"""Online convex optimisation with constraints that change each round, passed to `method.learn`."""

import numpy as np

from okl import oco


def main() -> None:
    """Play 5,000 rounds of a synthetic linear programme; print regret and violation."""
    rng = np.random.default_rng(0)
    costs = rng.uniform(-1, 1, (5000, 2)) + np.array([-0.5, -0.3])  # cost of one unit of each coordinate, per round
    matrix = np.array([[1.0, 2.0]])
    budgets = 1.0 + 0.5 * np.sin(np.arange(5000) / 100)
    tightest = oco.LinearConstraints(matrix, np.array([budgets.min()]))  # what it satisfies satisfies every round's
    problem = oco.Problem(oco.Box(np.zeros(2), np.ones(2)), tightest)

    method = oco.Algorithm1()
    state = method.start(problem, horizon=5000)
    loss = violation = 0.0
    for cost, budget in zip(costs, budgets, strict=True):
        point = method.play(state)  # chosen before cost and budget of the round are known
        constraints = oco.LinearConstraints(matrix, np.array([budget]))
        loss += float(cost @ point)
        violation += float(np.maximum(constraints.values(point), 0.0).sum())
        state = method.learn(state, cost, constraints)

    best = oco.static_optimum(problem, oco.QuadraticLosses(0.0, costs))  # the best fixed point within all budgets
    regret = loss - float((costs @ best).sum())
    print(f"best fixed point {best.round(3)}")
    print(f"a round: regret {regret / 5000:+.4f}, violation {violation / 5000:.5f}")


if __name__ == "__main__":
    main()
