"""Slow, obvious twins of okl/compiled/conjugates.py: one entry after the other, excess by its definition."""

from __future__ import annotations

import math
from collections.abc import Callable

from okl.types import FloatArray

Part = Callable[[float], tuple[float, float]]


def _entropy(u: float) -> tuple[Part, Callable[[float], float]]:
    def inside(a: float) -> tuple[float, float]:
        return a * math.log(a / u) + (u - a) * math.log((u - a) / u), math.log(a / (u - a))

    return inside, lambda a: 1.0 / a + 1.0 / (u - a)


def _roots(s: float) -> tuple[Part, Callable[[float], float]]:
    def inside(a: float) -> tuple[float, float]:
        return -2.0 * math.sqrt(s * a), -math.sqrt(s / a)

    return inside, lambda a: 0.5 * math.sqrt(s) * a**-1.5


def _continued(
    part: Part, curvature: Callable[[float], float], x: float, low: float, high: float
) -> tuple[float, float]:
    """Value and slope at x, by the parabola of the border beyond it."""
    border = min(max(x, low), high)
    value, slope = part(border)
    apart = x - border
    bend = curvature(border) if apart else 0.0
    return value + slope * apart + 0.5 * bend * apart**2, slope + bend * apart


def entropy_at(x: float, u: float, cut: float) -> tuple[float, float]:
    return _continued(*_entropy(u), x, cut * u, u - cut * u)


def roots_at(x: float, s: float, lower: float) -> tuple[float, float]:
    return _continued(*_roots(s), x, lower, math.inf)


def entropy_value(points: FloatArray, upper: FloatArray, cut: float) -> float:
    return sum(entropy_at(x, u, cut)[0] for x, u in zip(points, upper, strict=True))


def add_entropy_slopes(gradient: FloatArray, points: FloatArray, upper: FloatArray, cut: float) -> None:
    gradient += [entropy_at(x, u, cut)[1] for x, u in zip(points, upper, strict=True)]


def entropy_excess(points: FloatArray, at: FloatArray, upper: FloatArray, cut: float) -> float:
    total = 0.0
    for a, b, u in zip(points, at, upper, strict=True):
        value, slope = entropy_at(b, u, cut)
        total += entropy_at(a, u, cut)[0] - value - slope * (a - b)
    return total


def roots_value(points: FloatArray, scales: FloatArray, lower: FloatArray) -> float:
    return sum(roots_at(x, s, low)[0] for x, s, low in zip(points, scales, lower, strict=True))


def add_root_slopes(gradient: FloatArray, points: FloatArray, scales: FloatArray, lower: FloatArray) -> None:
    gradient += [roots_at(x, s, low)[1] for x, s, low in zip(points, scales, lower, strict=True)]


def roots_excess(points: FloatArray, at: FloatArray, scales: FloatArray, lower: FloatArray) -> float:
    total = 0.0
    for a, b, s, low in zip(points, at, scales, lower, strict=True):
        value, slope = roots_at(b, s, low)
        total += roots_at(a, s, low)[0] - value - slope * (a - b)
    return total


def quadratic_value(points: FloatArray, curvatures: FloatArray) -> float:
    return float(sum(0.5 * c * a**2 - a for a, c in zip(points, curvatures, strict=True)))


def add_quadratic_slopes(gradient: FloatArray, points: FloatArray, curvatures: FloatArray) -> None:
    gradient += [c * a - 1.0 for a, c in zip(points, curvatures, strict=True)]


def quadratic_excess(points: FloatArray, at: FloatArray, curvatures: FloatArray) -> float:
    return float(sum(0.5 * c * (a - b) ** 2 for a, b, c in zip(points, at, curvatures, strict=True)))
