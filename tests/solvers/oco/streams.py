"""Streams that tell good bounds from loose ones."""

from __future__ import annotations

import numpy as np

from okl.solvers.oco.problem import LinearConstraints, Problem, QuadraticLosses
from okl.solvers.oco.sets import Box


def cornered(n_rounds: int, seed: int, bias: float = 0.0, curvature: float = 0.0) -> tuple[Problem, QuadraticLosses]:
    """Random signs in the box [-1, 1]^2 with x_1 + x_2 <= 1/2 and 2 x_1 - x_2 <= 1: no learner beats sqrt(T) on them.

    bias : added to every sign, taken off where losses should pull a point out of the constraints
    """
    rng = np.random.default_rng([seed, n_rounds])
    signs = rng.choice([-1.0, 1.0], (n_rounds, 2)) + bias
    rows = LinearConstraints(np.array([[1.0, 1.0], [2.0, -1.0]]), np.array([0.5, 1.0]))
    return Problem(Box(-np.ones(2), np.ones(2)), rows), QuadraticLosses(curvature, signs)


def flipping(
    n_rounds: int, n_segments: int, seed: int, bias: float = 0.7
) -> tuple[Problem, QuadraticLosses, np.ndarray]:
    """Random signs with a bias along (1, -1) that turns round from segment to segment, and the best of every segment.

    The bias is below 1: at a corner, too, signs of the other kind pull a point away, the more the longer its steps.

    Returns problem, losses and comparators (n_rounds, 2), whose path length grows with the number of segments.
    """
    problem, signs = cornered(n_rounds, seed)
    turn = np.where(np.arange(n_rounds) * n_segments // n_rounds % 2 == 0, 1.0, -1.0)
    direction = np.array([1.0, -1.0])
    losses = QuadraticLosses(0.0, signs.linear + bias * turn[:, None] * direction)
    low, high = np.array([-1.0, 1.0]), np.array([0.0, -1.0])  # least and largest x_1 - x_2 that is feasible
    return problem, losses, np.where(turn[:, None] > 0.0, low, high)
