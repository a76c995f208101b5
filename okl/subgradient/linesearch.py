"""Steps along a direction: the exact one over the kinks of the losses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from okl.compiled.breakpoints import least_step
from okl.subgradient.losses import PiecewiseLinear
from okl.types import FloatArray


@dataclass(frozen=True)
class Ray:
    """The objective along a direction: mean loss(scores + t along) + value + slope t + curvature t^2 / 2.

    slope, curvature : of the regulariser; squared_length : ||d||^2
    """

    scores: FloatArray
    along: FloatArray
    targets: FloatArray
    slope: float
    curvature: float
    squared_length: float


class LineSearch(Protocol):
    """Chooses a step in [0, longest]; 0 where no step lowers the objective."""

    def step(self, ray: Ray, loss: PiecewiseLinear, longest: float) -> float: ...


@dataclass(eq=False)
class ExactSearch:
    """The minimum itself, by selection over the kinks in time proportional to the rows."""

    _positions: FloatArray = field(default_factory=lambda: np.empty(0), init=False, repr=False)
    _jumps: FloatArray = field(default_factory=lambda: np.empty(0), init=False, repr=False)

    def step(self, ray: Ray, loss: PiecewiseLinear, longest: float) -> float:
        """The step of least objective, in [0, longest]."""
        n_outputs = 1 if ray.scores.ndim == 1 else ray.scores.shape[1]
        most = len(ray.scores) * loss.kinks_of_row(n_outputs)
        if len(self._positions) < most:
            self._positions, self._jumps = np.empty(most), np.empty(most)
        parabola = (ray.slope, ray.curvature)
        count, slope = loss.kinks_into(
            self._positions,
            self._jumps,
            ray.scores,
            ray.along,
            ray.targets,
            parabola,
            longest,
            1.0 / len(ray.scores),
        )
        return float(least_step(self._positions, self._jumps, count, slope, ray.curvature, longest))
