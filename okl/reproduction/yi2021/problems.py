"""What section 4 plays against: random constraints in the plane, and losses whose direction drifts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.oco import Box, LinearConstraints, Problem, QuadraticLosses

Doubles = NDArray[np.float64]

ROUNDS = 5000
STARTS = {"x1=0": (0.0, 0.0), "x1=1": (1.0, 1.0)}
SEED = 2021
_DOWN = ((1, 1500), (2000, 3500), (4000, 5000))  # rounds of 5000 in which theta_2 is negative


def draw_coefficients(rng: np.random.Generator, n_rounds: int) -> Doubles:
    """Draw theta_t = theta_{1,t} + theta_{2,t} + theta_{3,t} of all rounds, (n_rounds, 2).

    Rounds in which theta_2 changes its sign are moved in proportion where there are not 5000.

    Source: section 4.1.
    """
    rounds = np.arange(1, n_rounds + 1)
    wide = rng.uniform(-1.0, 1.0, (n_rounds, 2)) * (rounds**0.1)[:, None]
    scaled = rounds * (ROUNDS / n_rounds)
    down = np.any([(first <= scaled) & (scaled <= last) for first, last in _DOWN], axis=0)
    biased = rng.uniform(0.0, 1.0, (n_rounds, 2)) - down[:, None]
    signs = np.where(rng.permutation(rounds) % 2 == 0, 1.0, -1.0)
    drawn: Doubles = wide + biased + signs[:, None]
    return drawn


def draw_problem(repetition: int, n_rounds: int, quadratic: bool) -> tuple[Problem, QuadraticLosses]:
    """Draw one experiment: constraints A x <= b in the box [-1, 1]^2, and losses.

    f_t(x) = <theta_t, x>, or ||x - theta_t||^2 + 20 <theta_t, x>

    Parameters
    ----------
    repetition : number of the experiment, which decides all that is random together with n_rounds

    Source: sections 4.1 and 4.2.
    """
    rng = np.random.default_rng([SEED, n_rounds, repetition])
    rows: dict[str, Any] = {"matrix": rng.uniform(0.0, 2.0, (3, 2)), "bounds": rng.uniform(0.0, 5.0, 3)}
    theta = draw_coefficients(rng, n_rounds)
    problem = Problem(Box(-np.ones(2), np.ones(2)), LinearConstraints(**rows))
    if quadratic:
        return problem, QuadraticLosses(1.0, 18.0 * theta, (theta**2).sum(axis=1))
    return problem, QuadraticLosses(0.0, theta)
