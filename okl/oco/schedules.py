"""Step sizes alpha_t and penalties gamma_t = gamma_0 / sqrt(alpha_t), as each theorem chooses them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from okl.checks import check_at_least, check_positive
from okl.errors import ConfigError
from okl.oco.problem import Problem
from okl.oco.sets import Vector


class Schedule(Protocol):
    """How far to step in every round, and how much a violation counts."""

    @property
    def claim(self) -> str: ...

    @property
    def penalty_scale(self) -> float: ...

    @property
    def needs_horizon(self) -> bool: ...

    @property
    def needs_bounded_set(self) -> bool: ...

    def step_sizes(self, rounds: Vector, horizon: int | None) -> Vector: ...


def covered(schedule: Schedule, subgradient_bound: float) -> bool:
    """Whether gamma_0 is in (0, 1/(sqrt(2) G)], as every bound of the paper asks.

    Any gamma_0 may be used; beyond this range no bound is claimed.

    Parameters
    ----------
    schedule : gives gamma_0 as penalty_scale
    subgradient_bound : G of assumption 3, of losses and constraints over the set
    """
    return schedule.penalty_scale * math.sqrt(2.0) * subgradient_bound <= 1.0 + 1e-12


def check_schedule(schedule: Schedule, problem: Problem, horizon: int | None) -> None:
    """Raise ConfigError if a schedule lacks the horizon or the bounded set that its theorem takes."""
    if schedule.needs_horizon:
        if horizon is None:
            raise ConfigError(f"{schedule.claim} takes the number of rounds: give a horizon, or take Anytime(...).")
        check_at_least("horizon", horizon, 1)
    if schedule.needs_bounded_set and not problem.region.bounded:
        raise ConfigError(
            f"{schedule.claim} takes a bounded set, but coordinates of the box are unbounded: "
            "give them finite bounds, or take KnownHorizon(...)."
        )


@dataclass(frozen=True)
class _Power:
    """alpha_0, gamma_0 and c of steps that shrink as a power.

    Parameters
    ----------
    step_scale : alpha_0 > 0
    penalty_scale : gamma_0 > 0
    exponent : c in (0, 1)
    """

    step_scale: float = 1.0
    penalty_scale: float = 1.0
    exponent: float = 0.5

    def __post_init__(self) -> None:
        check_positive("step_scale", self.step_scale)
        check_positive("penalty_scale", self.penalty_scale)
        if not 0.0 < self.exponent < 1.0:
            raise ConfigError(f"exponent = {self.exponent!r}, but it takes a number above 0 and below 1.")


@dataclass(frozen=True)
class KnownHorizon(_Power):
    """alpha_t = alpha_0 / T^c, the same in all T rounds: equation (16).

    Parameters
    ----------
    step_scale : alpha_0 > 0
    penalty_scale : gamma_0 > 0
    exponent : c in (0, 1); regret grows as T^max(c, 1 - c), violation as T^((1 - c) / 2)

    Source: Yi et al., ICML 2021, Theorem 1.
    """

    claim = "Theorem 1"
    needs_horizon = True
    needs_bounded_set = False

    def step_sizes(self, rounds: Vector, horizon: int | None) -> Vector:
        """Return alpha_t for rounds t = 1, 2, ..."""
        assert horizon is not None  # check_schedule saw to it
        return np.full(len(rounds), self.step_scale / float(horizon) ** self.exponent)


@dataclass(frozen=True)
class Anytime(_Power):
    """alpha_t = alpha_0 / t^c, for any number of rounds: equation (24).

    Parameters
    ----------
    step_scale : alpha_0 > 0
    penalty_scale : gamma_0 > 0
    exponent : c in (0, 1); regret grows as T^(1 - c) + T^c (1 + P_T)

    Source: Yi et al., ICML 2021, Theorem 2.
    """

    claim = "Theorem 2"
    needs_horizon = False
    needs_bounded_set = True

    def step_sizes(self, rounds: Vector, horizon: int | None) -> Vector:
        """Return alpha_t for rounds t = 1, 2, ..."""
        sizes: Vector = self.step_scale / np.asarray(rounds, dtype=np.float64) ** self.exponent
        return sizes


@dataclass(frozen=True)
class KnownPathLength:
    """alpha_t = ((1 + P_T) / t)^c for comparators whose path length P_T is known.

    Parameters
    ----------
    path_length : P_T >= 0
    penalty_scale : gamma_0 > 0
    exponent : c in (0, 1)

    Source: Yi et al., ICML 2021, Corollary 2.
    """

    path_length: float
    penalty_scale: float = 1.0
    exponent: float = 0.5

    claim = "Corollary 2"
    needs_horizon = False
    needs_bounded_set = True

    def __post_init__(self) -> None:
        if not 0.0 <= self.path_length < math.inf:
            raise ConfigError(f"path_length = {self.path_length!r}, but it takes a finite number from 0 on.")
        _ = self._steps  # refuses what Anytime does

    @property
    def step_scale(self) -> float:
        """alpha_0 = (1 + P_T)^c."""
        return float((1.0 + self.path_length) ** self.exponent)

    @property
    def _steps(self) -> Anytime:
        return Anytime(self.step_scale, self.penalty_scale, self.exponent)

    def step_sizes(self, rounds: Vector, horizon: int | None) -> Vector:
        """Return alpha_t for rounds t = 1, 2, ..."""
        return self._steps.step_sizes(rounds, horizon)


@dataclass(frozen=True)
class StronglyConvex:
    """alpha_t = 1 / (mu t) for losses with f(x) >= f(y) + <x - y, df(y)> + mu ||x - y||^2.

    Parameters
    ----------
    strong_convexity : mu > 0, as equation (19) defines it, without 1/2: lam/2 ||w||^2 has mu = lam/2
    penalty_scale : gamma_0 > 0

    Source: Yi et al., ICML 2021, Corollary 1, equation (20).
    """

    strong_convexity: float
    penalty_scale: float = 1.0

    claim = "Corollary 1"
    needs_horizon = False
    needs_bounded_set = False

    def __post_init__(self) -> None:
        check_positive("strong_convexity", self.strong_convexity)
        check_positive("penalty_scale", self.penalty_scale)

    def step_sizes(self, rounds: Vector, horizon: int | None) -> Vector:
        """Return alpha_t for rounds t = 1, 2, ..."""
        sizes: Vector = 1.0 / (np.asarray(rounds, dtype=np.float64) * self.strong_convexity)
        return sizes
