"""Steps along a direction over shards: from losses and their slopes at some steps, asked for in rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.sharded.messages import Command
from okl.accelerated.sharded.rounds import Rounds
from okl.subgradient.sharded.commands import Again, Try
from okl.types import FloatArray

N_STEPS = 24
_NARROW = 0.02  # of its upper end: a bracket that need not be looked into
_EVEN = np.arange(1, N_STEPS + 1) / N_STEPS


@dataclass(frozen=True)
class Quadratic:
    """The objective along a direction less the losses: slope t + curvature t^2 / 2, and the mean losses at 0."""

    losses: float
    slope: float
    curvature: float
    n_rows: int


@dataclass(frozen=True)
class Search:
    """The step of least objective in [0, longest], by the secant of the slopes between two trials where they turn.

    Trials are denser towards 0, with the cube of their number. looks : how often the two trials that the least one is
    between are looked in between: a round each, without a vector
    """

    longest: float
    looks: int

    def step(self, direction: FloatArray, around: Quadratic, rounds: Rounds) -> float:
        """The step; shards hold the direction then."""
        steps = self.longest * _EVEN**3
        low, high, best = _turning(steps, _asked(rounds, Try(direction, tuple(steps.tolist())), around), around)
        for _ in range(self.looks):
            if high - low <= _NARROW * high:
                break
            steps = low + (high - low) * (_EVEN if low > 0.0 else _EVEN**3)
            low, high, best = _turning(steps, _asked(rounds, Again(tuple(steps.tolist())), around), around, low)
        return best


def _asked(rounds: Rounds, command: Command, around: Quadratic) -> NDArray[np.float64]:
    """Mean losses and slopes at the steps of a command, (steps, 2)."""
    parts: list[NDArray[np.float64]] = rounds.ask(command)
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    total /= around.n_rows
    return total


def _turning(
    steps: NDArray[np.float64], line: NDArray[np.float64], around: Quadratic, begun: float = 0.0
) -> tuple[float, float, float]:
    """Two steps that the least objective is between, and the step to take; begun : below the first step."""
    values = line[:, 0] + around.slope * steps + 0.5 * around.curvature * steps**2
    slopes = line[:, 1] + around.slope + around.curvature * steps
    least = int(np.argmin(values))
    fallback = float(steps[least]) if begun > 0.0 or values[least] < around.losses else 0.0
    turned = np.flatnonzero(slopes >= 0.0)
    if not len(turned):
        return float(steps[-1]), float(steps[-1]), fallback
    upper = int(turned[0])
    if upper == 0:  # the slope below the first step is not known
        return begun, float(steps[0]), fallback
    low, high = float(steps[upper - 1]), float(steps[upper])
    fall, rise = float(-slopes[upper - 1]), float(slopes[upper])
    return low, high, low + (high - low) * fall / (fall + rise)
