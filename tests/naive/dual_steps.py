"""Slow, obvious twins of okl.compiled.dual_steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from okl.foundation.types import FloatArray

# Conjugates: one entry at a time, excess by its definition.

Part = Callable[[float], tuple[float, float]]


def _entropy(u: float) -> tuple[Part, Callable[[float], float]]:
    def inside(a: float) -> tuple[float, float]:
        return a * math.log(a / u) + (u - a) * math.log((u - a) / u), math.log(a / (u - a))

    return inside, lambda a: 1.0 / a + 1.0 / (u - a)


def _continued(
    part: Part, curvature: Callable[[float], float], x: float, low: float, high: float
) -> tuple[float, float]:
    """Return value and slope at x, outside the border by the parabola at the border."""
    border = min(max(x, low), high)
    value, slope = part(border)
    offset = x - border
    bend = curvature(border) if offset else 0.0
    return value + slope * offset + 0.5 * bend * offset**2, slope + bend * offset


def entropy_at(x: float, u: float, cut: float) -> tuple[float, float]:
    return _continued(*_entropy(u), x, cut * u, u - cut * u)


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


def quadratic_value(points: FloatArray, curvatures: FloatArray, targets: float | FloatArray) -> float:
    return float(np.sum(0.5 * curvatures * points**2 - targets * points))


def add_quadratic_slopes(
    gradient: FloatArray, points: FloatArray, curvatures: FloatArray, targets: float | FloatArray
) -> None:
    gradient += curvatures * points - targets


def quadratic_excess(points: FloatArray, at: FloatArray, curvatures: FloatArray) -> float:
    return float(sum(0.5 * c * (a - b) ** 2 for a, b, c in zip(points, at, curvatures, strict=True)))


# Proximal points: each entry by halving an interval around the root of its slope.


def _rising_root(slope: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of an increasing function on (low, high) by 200 bisections of log(x - low)."""
    near, far = math.log(1e-300), math.log(high - low)
    for _ in range(200):
        middle = 0.5 * (near + far)
        near, far = (middle, far) if slope(low + math.exp(middle)) < 0.0 else (near, middle)
    return low + math.exp(0.5 * (near + far))


def entropy_point(q: float, u: float, lipschitz: float) -> float:
    if q > 0.5 * u:
        return u - entropy_point(u - q, u, lipschitz)
    return _rising_root(lambda x: math.log(x / (u - x)) + lipschitz * (x - q), 0.0, 0.75 * u)


def roots_point(q: float, s: float, u: float, lipschitz: float) -> float:
    most = max(q, 0.0) + math.sqrt(s) + (math.sqrt(s) / lipschitz) ** (2.0 / 3.0) + 1.0
    return min(u, _rising_root(lambda x: -math.sqrt(s / x) + lipschitz * (x - q), 0.0, most))


def entropy_prox(
    out: FloatArray, points: FloatArray, signs: FloatArray, upper: FloatArray, lipschitz: float, multiplier: float
) -> float:
    """Overwrite out; returns the sum of y x."""
    for i, (p, y, u) in enumerate(zip(points, signs, upper, strict=True)):
        out[i] = entropy_point(p - multiplier * y, u, lipschitz) if u > 0.0 else 0.0
    return float(np.sum(signs * out))


def square_root_prox(
    points: FloatArray, signs: FloatArray, scales: FloatArray, upper: FloatArray, lipschitz: float, multiplier: float
) -> FloatArray:
    entries = zip(points - multiplier * signs, scales, upper, strict=True)
    return np.array([roots_point(q, s, u, lipschitz) if s > 0.0 else 0.0 for q, s, u in entries])


def entropy_sum(points: FloatArray, upper: FloatArray) -> float:
    parts = [(x, u) for x, u in zip(points, upper, strict=True) if 0.0 < x < u]
    return float(sum(x * math.log(x / u) + (u - x) * math.log((u - x) / u) for x, u in parts))


def square_root_sum(points: FloatArray, scales: FloatArray) -> float:
    return sum(-2.0 * math.sqrt(s * x) for x, s in zip(points, scales, strict=True))


# Vector operations.


def extrapolate(out: FloatArray, current: FloatArray, previous: FloatArray, momentum: float) -> None:
    out[:] = current + momentum * (current - previous)


def descend(out: FloatArray, point: FloatArray, gradient: FloatArray, step: float) -> None:
    out[:] = point - step * gradient


def step_sums(
    point: FloatArray, extrapolated: FloatArray, gradient: FloatArray, before: FloatArray
) -> tuple[float, float]:
    return sum((point - extrapolated) ** 2), sum(gradient * (point - before))


def squared_distance(left: FloatArray, right: FloatArray) -> float:
    return sum((left - right) ** 2)


def distance_product(left: FloatArray, right: FloatArray, left_image: FloatArray, right_image: FloatArray) -> float:
    return sum((left - right) * (left_image - right_image))


def inner(left: FloatArray, right: FloatArray) -> float:
    return sum(left * right)
