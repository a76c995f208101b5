"""The part of a dual objective that depends on the data: a function of ||A a||.

Its conjugate is what the primal problem does to ||w||: a penalty 1/2 ||w||^2, or the constraint ||w|| <= 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol


class Outer(Protocol):
    """Function of v = A a, known by ||v||^2; w = slope v is the primal solution.

    value, slope : the function, and its gradient over v
    excess : value(a) - value(b) - <gradient at b, v_a - v_b>, of ||v_a||^2, ||v_b||^2 and ||v_a - v_b||^2
    regulariser : of the primal objective at w = slope v
    exact : the function without any smoothing, which the gap goes by; floor : what smoothing adds to the gap
    """

    def value(self, squared_norm: float) -> float: ...

    def slope(self, squared_norm: float) -> float: ...

    def excess(self, squared_norm: float, at_squared_norm: float, squared_gap: float) -> float: ...

    def regulariser(self, squared_norm: float) -> float: ...

    def exact(self, squared_norm: float) -> float: ...

    def floor(self, squared_norm: float) -> float: ...


@dataclass(frozen=True)
class HalfSquare:
    """1/2 ||v||^2, from 1/2 ||w||^2 in the primal problem. Source: Ito et al., 2017, (7) and (9), times C."""

    def value(self, squared_norm: float) -> float:
        """1/2 ||v||^2."""
        return 0.5 * squared_norm

    def slope(self, squared_norm: float) -> float:
        """1: the gradient is v."""
        return 1.0

    def excess(self, squared_norm: float, at_squared_norm: float, squared_gap: float) -> float:
        """1/2 ||v_a - v_b||^2."""
        return 0.5 * squared_gap

    def regulariser(self, squared_norm: float) -> float:
        """1/2 ||w||^2."""
        return 0.5 * squared_norm

    def exact(self, squared_norm: float) -> float:
        """1/2 ||v||^2."""
        return 0.5 * squared_norm

    def floor(self, squared_norm: float) -> float:
        """0."""
        return 0.0


@dataclass(frozen=True)
class EuclideanNorm:
    """||v||, from ||w|| <= 1 in the primal problem, smoothed where it is not longer than `width`.

    There it is ||v||^2 / (2 width), and width / 2 less beyond: the primal problem has width / 2 ||w||^2 on top. Where
    the optimal v is longer, its place is that of the norm itself.

    Parameters
    ----------
    width : > 0, in units of v

    Source: Ito et al., 2017, (8), (10) and (25) with p = 2, lambda = 1, whose norm has no derivative at 0; smoothing as
    in Nesterov, Mathematical Programming 103, 2005, section 2.
    """

    width: float

    def value(self, squared_norm: float) -> float:
        """||v|| - width / 2, or ||v||^2 / (2 width)."""
        norm = math.sqrt(squared_norm)
        return norm - 0.5 * self.width if norm >= self.width else 0.5 * squared_norm / self.width

    def slope(self, squared_norm: float) -> float:
        """1 / max(||v||, width): the gradient is no longer than 1."""
        return 1.0 / max(math.sqrt(squared_norm), self.width)

    def excess(self, squared_norm: float, at_squared_norm: float, squared_gap: float) -> float:
        """Of the norm (||v_a - v_b||^2 - (||v_a|| - ||v_b||)^2) / (2 ||v_b||), and what smoothing adds."""
        norm, at_norm = math.sqrt(squared_norm), math.sqrt(at_squared_norm)
        slope = self.slope(at_squared_norm)
        sideways = max(0.0, squared_gap - (norm - at_norm) ** 2)
        return 0.5 * slope * sideways + self._excess_of_lengths(norm, at_norm)

    def _excess_of_lengths(self, norm: float, at_norm: float) -> float:
        """The same of two vectors of one direction, as a function of their lengths."""
        short, at_short = min(norm, self.width), min(at_norm, self.width)
        return 0.5 * (short - at_short) ** 2 / self.width + (norm - short) * (1.0 - at_short / self.width)

    def regulariser(self, squared_norm: float) -> float:
        """0: w is of length 1, or shorter."""
        return 0.0

    def exact(self, squared_norm: float) -> float:
        """||v||."""
        return math.sqrt(squared_norm)

    def floor(self, squared_norm: float) -> float:
        """What smoothing adds to the gap: ||v|| - ||v||^2 / width where ||v|| <= width, at most width / 4."""
        norm = math.sqrt(squared_norm)
        return max(0.0, norm - squared_norm / self.width)
