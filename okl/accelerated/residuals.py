"""The parts of regressions: sums over targets, boxes with a price on leaving 0, losses of residuals.

A dual point a (m,) is the slope of the loss at every residual r_i = t_i - <w, z_i> + b, and w = sum_i a_i z_i.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.barriers import find_multiplier
from okl.accelerated.operators.targets import TargetRows
from okl.errors import DataError
from okl.types import FloatArray


@dataclass(frozen=True, eq=False)
class TargetQuadratic:
    """sum_i curvature_i a_i^2 / 2 - t_i a_i; curvatures (m,) >= 0, targets t (m,)."""

    targets: FloatArray
    curvatures: FloatArray

    def value(self, point: FloatArray) -> float:
        """The sum."""
        return float((0.5 * self.curvatures * point - self.targets) @ point)

    def add_slopes(self, gradient: FloatArray, point: FloatArray) -> None:
        """Add curvature_i a_i - t_i."""
        gradient += self.curvatures * point - self.targets

    def excess(self, point: FloatArray, at: FloatArray) -> float:
        """sum_i curvature_i (a_i - b_i)^2 / 2."""
        return 0.5 * float(self.curvatures @ np.square(point - at))


@dataclass(frozen=True, eq=False)
class PricedBox:
    """price sum_i |a_i| over |a_i| <= bound_i, and sum_i a_i = 0 with a hyperplane.

    bound : (m,) >= 0, may be infinite; price : >= 0
    """

    bound: FloatArray
    price: float
    hyperplane: bool

    def value(self, point: FloatArray) -> float:
        """The price of a feasible point."""
        return self.price * float(np.abs(point).sum()) if self.price else 0.0

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """Subtract one number from every entry, bring it price / lipschitz nearer to 0, and clip."""
        threshold = self.price / lipschitz
        size = float(np.abs(point).mean()) + threshold

        def sums(multiplier: float) -> tuple[float, float, float]:
            moved = point - multiplier * size
            shrunk = moved - np.clip(moved, -threshold, threshold)
            np.clip(shrunk, -self.bound, self.bound, out=out)
            free = np.count_nonzero((shrunk != 0.0) & (np.abs(shrunk) < self.bound))
            return float(out.sum()), size * free, float(np.abs(out).sum()) + size

        find_multiplier(sums, self.hyperplane and size > 0.0)


@dataclass(frozen=True, eq=False)
class SquaredResiduals:
    """sum_i weight_i r_i^2."""

    targets: FloatArray
    weights: FloatArray

    def value(self, margins: FloatArray, bias: float) -> float:
        """The sum, of margins <w, z_i>."""
        return float(self.weights @ np.square(self.targets - margins + bias))

    def best_bias(self, margins: FloatArray) -> float:
        """The mean of <w, z_i> - t_i."""
        return float(self.weights @ (margins - self.targets)) / float(self.weights.sum())


@dataclass(frozen=True, eq=False)
class InsensitiveResiduals:
    """sum_i weight_i max(0, |r_i| - width)."""

    targets: FloatArray
    weights: FloatArray
    width: float

    def value(self, margins: FloatArray, bias: float) -> float:
        """The sum, of margins <w, z_i>."""
        return float(self.weights @ np.maximum(0.0, np.abs(self.targets - margins + bias) - self.width))

    def best_bias(self, margins: FloatArray) -> float:
        """A median: the sum bends upwards by weight_i at <w, z_i> - t_i - width, and again at ... + width."""
        apart = margins - self.targets
        bends = np.concatenate([apart - self.width, apart + self.width])
        order = np.argsort(bends, kind="stable")
        risen = np.cumsum(np.concatenate([self.weights, self.weights])[order])
        place = int(np.searchsorted(risen, 0.5 * risen[-1] * (1.0 - 1e-12)))
        return float(bends[order[min(place, len(order) - 1)]])


def residual_weights(rows: TargetRows, sample_weight: FloatArray | None) -> NDArray[np.float64]:
    """Weights (m,) float64, ones if None, or DataError unless finite, >= 0 and above 0 for some row."""
    if sample_weight is None:
        return np.ones(rows.n_points)
    weights: NDArray[np.float64] = np.array(sample_weight, dtype=np.float64)
    if weights.shape != (rows.n_points,) or not np.isfinite(weights).all() or weights.min() < 0 or weights.sum() == 0:
        raise DataError(
            f"sample_weight of shape {weights.shape} came for {rows.n_points} rows: "
            "give one finite number of at least 0 a row, and one above 0."
        )
    return weights
