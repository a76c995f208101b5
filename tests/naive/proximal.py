"""Slow, obvious twins of okl/compiled/proximal.py: each entry by halving an interval around the root of its slope."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from okl.types import FloatArray


def _rising_root(slope: Callable[[float], float], low: float, high: float) -> float:
    """Root of a rising function on (low, high), by 200 halvings in the logarithm of the distance to low."""
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


def roots_prox(
    out: FloatArray,
    points: FloatArray,
    signs: FloatArray,
    scales: FloatArray,
    upper: FloatArray,
    lipschitz: float,
    multiplier: float,
) -> float:
    """Overwrite out; returns the sum of y x."""
    for i, (p, y, s, u) in enumerate(zip(points, signs, scales, upper, strict=True)):
        out[i] = roots_point(p - multiplier * y, s, u, lipschitz) if s > 0.0 else 0.0
    return float(np.sum(signs * out))


def entropy_sum(points: FloatArray, upper: FloatArray) -> float:
    parts = [(x, u) for x, u in zip(points, upper, strict=True) if 0.0 < x < u]
    return float(sum(x * math.log(x / u) + (u - x) * math.log((u - x) / u) for x, u in parts))


def roots_sum(points: FloatArray, scales: FloatArray) -> float:
    return sum(-2.0 * math.sqrt(s * x) for x, s in zip(points, scales, strict=True))
