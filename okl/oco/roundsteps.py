"""Step sizes and penalties of rounds, for one run or for experts side by side, from a schedule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from okl.oco.constraints import Matrix
from okl.oco.schedules import Schedule
from okl.oco.sets import Vector


def round_numbers(first: int, last: int) -> Vector:
    """Return the rounds t = first .. last as numbers, (last - first + 1,)."""
    return np.arange(first, last + 1, dtype=np.float64)


def penalties(schedule: Schedule, step_sizes: Vector) -> Vector:
    """Return gamma_t = gamma_0 / sqrt(alpha_t) for step sizes alpha_t, of any shape."""
    return schedule.penalty_scale / np.sqrt(step_sizes)


def schedule_rounds(schedule: Schedule, rounds: Vector, horizon: int | None) -> tuple[Vector, Vector]:
    """Return alpha_t and gamma_t of these rounds, (n,) each."""
    sizes = schedule.step_sizes(rounds, horizon)
    return sizes, penalties(schedule, sizes)


def tables(
    schedule: Schedule, rounds: Vector, horizon: int | None, scales: Sequence[float], shared_penalties: bool = False
) -> tuple[Matrix, Matrix]:
    """Return alpha_{i,t} and gamma_{i,t} of these rounds for experts that scale the step sizes.

    Parameters
    ----------
    schedule : of an expert of scale 1
    rounds : (n,) numbers t
    horizon : T, where the schedule takes it
    scales : (N,) factor of every expert's step sizes
    shared_penalties : whether all experts have the penalties of scale 1, not those of their own step sizes

    Returns
    -------
    (N, n) each
    """
    factors = np.asarray(scales)[:, None]
    own = schedule.step_sizes(rounds, horizon)[None, :]
    sizes = factors * own
    return sizes, penalties(schedule, np.broadcast_to(own, sizes.shape).copy() if shared_penalties else sizes)
