"""Limits of linear quantities of weights: whether a ball has weights within them, and the nearest such weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from okl.compiled.constrained import Limits
from okl.compiled.constrainedsteps import Small, room_for, settle_multipliers
from okl.errors import ConfigError
from okl.online.constraints.quantities import Constraint
from okl.types import FloatArray, Precision

Vector = NDArray[np.float64]
_ENOUGH = 1e-9
_SINGLE = 1e-5  # of a row's length times the radius: what scores in float32 may be off by


@dataclass(frozen=True, eq=False)
class LinearLimits:
    """low <= C w <= high for weights of a ball.

    Parameters
    ----------
    rows : C (m, n_columns) float64, in the units of the constraints
    low, high : (m,), may be infinite; names : (m,), of the constraints, as they are written
    radius : of the ball ||w|| <= radius
    margin : >= 0, in the units of the constraints: so much inside its limits each quantity is kept, as far as limits
        of two sides leave room, to which rounding is added

    Raises
    ------
    ConfigError : no weights of the ball are within all limits: names the fewest that are in conflict
    """

    rows: NDArray[np.float64]
    low: Vector
    high: Vector
    names: tuple[str, ...]
    radius: float
    margin: float = 0.0

    def __post_init__(self) -> None:
        if conflict := self._conflict():
            told = " and ".join(repr(self.names[index]) for index in conflict)
            least = ", with the margin of each," if self.margin else ""
            raise ConfigError(
                f"No weights of norm {self.radius:g} at most keep to {told}{least} on the training rows. Widen "
                f"{'a limit' if len(conflict) > 1 else 'the limit'}, or raise the radius."
            )

    @cached_property
    def lengths(self) -> Vector:
        """||C_i||, (m,); 1 for a row of zeros, which any weights keep to or none do."""
        lengths = np.linalg.norm(self.rows, axis=1)
        return np.where(lengths > 0.0, lengths, 1.0)

    @cached_property
    def margins(self) -> Vector:
        """(m,): the margin and what rounding takes, at most half of the way between two limits."""
        wanted = self.margin + _SINGLE * self.lengths * self.radius
        return np.minimum(wanted, 0.5 * np.maximum(self.high - self.low, 0.0))

    @property
    def inner(self) -> tuple[Vector, Vector]:
        """Limits less margins, over the lengths of the rows, (m,) each."""
        return (self.low + self.margins) / self.lengths, (self.high - self.margins) / self.lengths

    @cached_property
    def steepness(self) -> float:
        """Largest singular value of the rows at length 1: what the length of a row of subgradients may be."""
        return float(np.linalg.norm(self.rows / self.lengths[:, None], 2))

    def compiled(self, precision: Precision, gain: float) -> Limits:
        """As compiled code takes them, with the rows at length 1."""
        scaled, (low, high) = self.rows / self.lengths[:, None], self.inner
        return Limits(scaled.astype(precision), scaled @ scaled.T, low, high, self.lengths, gain)

    def values(self, weights: FloatArray) -> Vector:
        """C w (m,), of weights (n_columns,)."""
        values: Vector = self.rows @ weights.astype(np.float64)
        return values

    def excess(self, weights: FloatArray) -> Vector:
        """How far each quantity is outside its own limits, (m,) >= 0, in its unit."""
        values = self.values(weights)
        return np.maximum(0.0, np.maximum(self.low - values, values - self.high))

    def nearest(self, weights: FloatArray) -> Vector:
        """The weights of the ball within all limits that are nearest to some (n_columns,), float64."""
        point = weights.astype(np.float64)
        scaled, (low, high) = self.rows / self.lengths[:, None], self.inner
        found, free = room_for(len(low)), np.full(len(low), np.inf)
        small = Small(scaled @ scaled.T, low, high, self.radius, scaled @ point, free, free)
        grown = settle_multipliers(found, small, float(point @ point))
        nearest: Vector = (point - 0.5 * found.multipliers @ scaled) / grown
        return nearest

    def _conflict(self) -> list[int]:
        """The fewest limits, by leaving one out after the other, that the ball has no weights for; none if it has."""
        kept = list(range(len(self.low)))
        if self._shortest(kept) <= self.radius * (1.0 + _ENOUGH):
            return []
        for index in range(len(self.low)):
            fewer = [other for other in kept if other != index]
            if fewer and self._shortest(fewer) > self.radius * (1.0 + _ENOUGH):
                kept = fewer
        return kept

    def _shortest(self, kept: list[int]) -> float:
        """Length of the shortest weights within some limits, infinite where there are none.

        Source: Lawson & Hanson, Solving Least Squares Problems, 1974, chapter 23, section 4 (LDP).
        """
        low, high = (limit[kept] for limit in self.inner)
        scaled = (self.rows / self.lengths[:, None])[kept]
        basis = np.linalg.qr(scaled.T)[0]
        inside = scaled @ basis
        sides = np.concatenate([-inside[np.isfinite(high)], inside[np.isfinite(low)]])
        least = np.concatenate([-high[np.isfinite(high)], low[np.isfinite(low)]])
        unit = max(1.0, float(np.abs(least).max(initial=0.0)))
        system = np.vstack([sides.T, least[None, :] / unit])
        target = np.zeros(len(system))
        target[-1] = 1.0
        found, _ = nnls(system, target)
        residual = system @ found - target
        if abs(residual[-1]) < _ENOUGH:
            return float("inf")
        return float(np.linalg.norm(residual[:-1] / residual[-1])) * unit


def limits_of(
    constraints: tuple[Constraint, ...], rows: NDArray[np.float64], radius: float, margin: float = 0.0
) -> LinearLimits:
    """The limits that constraints mean, whose rows (m, n_columns) have been added up, in a ball."""
    low, high = (np.array([getattr(one, side) for one in constraints]) for side in ("low", "high"))
    return LinearLimits(rows, low, high, tuple(str(one) for one in constraints), radius, margin)
