"""Slow, obvious twins of okl.compiled.newton: the dual entry of one margin, by its definition."""

from __future__ import annotations

import math


def box_dual(z: float, anchor: float, step: float, target: float, lower: float, upper: float) -> float:
    """Return the maximiser a of (target - z) a - (a - anchor)^2 / (2 step) within [lower, upper]."""
    return min(max(anchor + step * (target - z), lower), upper)


def entropy_dual(z: float, upper: float) -> float:
    """Return minus the slope of upper log(1 + exp(-z))."""
    return upper / (1.0 + math.exp(z))


def square_root_dual(z: float, scale: float, upper: float) -> float:
    """Return minus the slope of scale / z, or of its tangent of slope -upper further left."""
    return scale / z**2 if z > math.sqrt(scale / upper) else upper
