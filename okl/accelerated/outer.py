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
    """

    def value(self, squared_norm: float) -> float: ...

    def slope(self, squared_norm: float) -> float: ...

    def excess(self, squared_norm: float, at_squared_norm: float, squared_gap: float) -> float: ...

    def regulariser(self, squared_norm: float) -> float: ...


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


@dataclass(frozen=True)
class EuclideanNorm:
    """||v||, from ||w|| <= 1 in the primal problem; at v = 0 its subgradient 0 is taken.

    Source: Ito et al., 2017, (8), (10) and (25) with p = 2, lambda = 1.
    """

    def value(self, squared_norm: float) -> float:
        """||v||."""
        return math.sqrt(squared_norm)

    def slope(self, squared_norm: float) -> float:
        """1 / ||v||: the gradient is the unit vector."""
        return 1.0 / math.sqrt(squared_norm) if squared_norm > 0.0 else 0.0

    def excess(self, squared_norm: float, at_squared_norm: float, squared_gap: float) -> float:
        """(||v_a - v_b||^2 - (||v_a|| - ||v_b||)^2) / (2 ||v_b||)."""
        norm, at_norm = math.sqrt(squared_norm), math.sqrt(at_squared_norm)
        if at_norm == 0.0:
            return norm
        return max(0.0, squared_gap - (norm - at_norm) ** 2) / (2.0 * at_norm)

    def regulariser(self, squared_norm: float) -> float:
        """0: w is of length 1, or 0."""
        return 0.0
