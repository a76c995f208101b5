"""Streams that distinguish tight bounds from loose ones."""

from __future__ import annotations

import numpy as np

from okl.papers.yi2021 import draw_signs
from okl.solvers.oco.problem import Problem, QuadraticLosses


def flipping(
    n_rounds: int, n_segments: int, seed: int, bias: float = 0.7
) -> tuple[Problem, QuadraticLosses, np.ndarray]:
    """Return random signs with a bias along (1, -1) that is inverted in each segment, and the best point of each.

    The bias is below 1: the other signs move points away from a corner, too, and more with longer steps.

    Returns problem, losses and comparators (n_rounds, 2), whose path length grows with the number of segments.
    """
    problem, signs = draw_signs(n_rounds, seed)
    turn = np.where(np.arange(n_rounds) * n_segments // n_rounds % 2 == 0, 1.0, -1.0)
    direction = np.array([1.0, -1.0])
    losses = QuadraticLosses(0.0, signs.linear + bias * turn[:, None] * direction)
    low, high = np.array([-1.0, 1.0]), np.array([0.0, -1.0])  # least and largest x_1 - x_2 that is feasible
    return problem, losses, np.where(turn[:, None] > 0.0, low, high)
