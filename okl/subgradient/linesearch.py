"""Steps along a direction: the exact one over the kinks of the losses, and the paper's bracketing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from okl.compiled.breakpoints import least_step
from okl.errors import ConfigError
from okl.subgradient.losses import PiecewiseLinear
from okl.types import FloatArray

_HALVINGS = 60


@dataclass(frozen=True)
class Ray:
    """The objective along a direction, less its value at 0: mean loss(scores + t along) + slope t + curvature t^2 / 2.

    slope, curvature : of the regulariser; squared_length : ||d||^2
    """

    scores: FloatArray
    along: FloatArray
    targets: FloatArray
    slope: float
    curvature: float
    squared_length: float

    def at(self, step: float, loss: PiecewiseLinear) -> tuple[float, float]:
        """Value and right-hand derivative at a step."""
        total, derivative = loss.line(self.scores, self.along, self.targets, step)
        n = len(self.scores)
        return (
            total / n + step * (self.slope + 0.5 * step * self.curvature),
            derivative / n + self.slope + step * self.curvature,
        )


class LineSearch(Protocol):
    """Chooses a step in [0, longest]; 0 where no step lowers the objective."""

    def step(self, ray: Ray, loss: PiecewiseLinear, longest: float) -> float: ...


@dataclass(eq=False)
class ExactSearch:
    """The minimum itself, by selection over the kinks in time proportional to the rows.

    Source: it is what Zhang & Sen's Algorithm 2 looks for by halving; the objective is piecewise quadratic.
    """

    _positions: FloatArray = field(default_factory=lambda: np.empty(0), init=False, repr=False)
    _jumps: FloatArray = field(default_factory=lambda: np.empty(0), init=False, repr=False)

    def step(self, ray: Ray, loss: PiecewiseLinear, longest: float) -> float:
        """The step of least objective, in [0, longest]."""
        n_outputs = 1 if ray.scores.ndim == 1 else ray.scores.shape[1]
        most = len(ray.scores) * loss.kinks_of_row(n_outputs)
        if len(self._positions) < most:
            self._positions, self._jumps = np.empty(most), np.empty(most)
        parabola, scale = (ray.slope, ray.curvature), 1.0 / len(ray.scores)
        count, slope = loss.kinks_into(
            self._positions, self._jumps, ray.scores, ray.along, ray.targets, parabola, longest, scale
        )
        return float(least_step(self._positions, self._jumps, count, slope, ray.curvature, longest))


@dataclass(frozen=True)
class BracketingSearch:
    """Doubling and halving until a step lowers the objective enough (L) and has left the steep part (R).

        L: f(t) - f(0) <= -decrease t ||d||^2        R: f'(t) >= -flatness ||d||^2

    With decrease < flatness, L and R always meet below the longest step: the printed order of the two, m2 < m1, lets
    them be disjoint, and its 0 > f'(t) throws the minimum itself away. Steps shorter than 1 / parts of the longest one
    are refused: 0, a failure.

    Parameters
    ----------
    decrease, flatness : 0 < decrease < flatness < 1, m1 and m2
    parts : int >= 2, n

    Raises
    ------
    ConfigError : numbers out of range

    Source: Zhang & Sen, Algorithm 2 and (6), repaired; Wolfe, Math. Programming Study 3, 1975.
    """

    decrease: float = 0.25
    flatness: float = 0.4
    parts: int = 1000

    def __post_init__(self) -> None:
        if not (0.0 < self.decrease < self.flatness < 1.0) or self.parts < 2:
            raise ConfigError(
                f"decrease = {self.decrease}, flatness = {self.flatness} and parts = {self.parts}, but they take "
                "0 < decrease < flatness < 1, and a whole number of at least 2."
            )

    def step(self, ray: Ray, loss: PiecewiseLinear, longest: float) -> float:
        """A step of L and R, or the last one of L below the longest; 0 if none is long enough."""
        start, derivative = ray.at(0.0, loss)
        if derivative >= 0.0:
            return 0.0
        # the losses' derivative never falls: the objective rises beyond this
        longest = min(longest, -derivative / ray.curvature) if ray.curvature > 0.0 else longest
        if not math.isfinite(longest):
            return 0.0
        shortest, low, high = longest / self.parts, 0.0, math.inf
        step = math.sqrt(shortest * longest)
        for _ in range(_HALVINGS):
            value, derivative = ray.at(step, loss)
            if value - start > -self.decrease * step * ray.squared_length:
                high = step
            elif derivative < -self.flatness * ray.squared_length:
                low = step
            else:
                return step
            step = 0.5 * (low + high) if math.isfinite(high) else 2.0 * step
            if step > longest:
                return low
            if step < shortest:
                return 0.0
        return low
