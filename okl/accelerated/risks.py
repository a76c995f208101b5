"""The losses of primal problems, as functions of margins and bias: what duality gaps and biases are computed from.

Margins are s_i <w, z_i>, (m,); with a bias the loss of row i is that of margin_i - s_i bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import brentq

from okl.types import FloatArray

_Slope = Callable[[float], float]


class Risk(Protocol):
    """The loss part of a primal objective.

    best_bias : the bias of least risk, the model's own
    """

    def value(self, margins: FloatArray, bias: float) -> float: ...

    def best_bias(self, margins: FloatArray) -> float: ...


class MarginLoss(Protocol):
    """A convex, falling function of the margin, entry by entry."""

    def value(self, margins: FloatArray) -> FloatArray: ...

    def derivative(self, margins: FloatArray) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class SumOfLosses:
    """sum_i weight_i loss(margin_i - s_i bias).

    signs : s (m,), -1 or +1; weights : (m,) >= 0
    """

    loss: MarginLoss
    signs: FloatArray
    weights: FloatArray

    def value(self, margins: FloatArray, bias: float) -> float:
        """The sum."""
        return float(self.weights @ self.loss.value(margins - bias * self.signs))

    def slope(self, margins: FloatArray, bias: float) -> float:
        """Derivative of the sum by the bias; it grows with the bias."""
        return -float((self.weights * self.signs) @ self.loss.derivative(margins - bias * self.signs))

    def best_bias(self, margins: FloatArray) -> float:
        """Root of the slope; losses with a kink have theirs where the slope jumps past 0."""
        low, high = _bracket(lambda bias: self.slope(margins, bias), 1.0 + float(np.abs(margins).max()))
        if low == high:
            return low
        root, _ = brentq(
            lambda bias: self.slope(margins, bias), low, high, xtol=1e-15, rtol=9e-16, maxiter=300, full_output=True
        )
        return float(root)


def _bracket(slope: _Slope, reach: float) -> tuple[float, float]:
    """Biases where a growing slope is below 0 and above, both the same where it is 0."""
    for _ in range(60):
        below, above = slope(-reach), slope(reach)
        if below < 0.0 < above:
            return -reach, reach
        if below == 0.0 == above:  # no row weighs anything there
            return 0.0, 0.0
        reach *= 2.0
    return 0.0, 0.0
