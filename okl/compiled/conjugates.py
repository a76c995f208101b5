"""Separable parts of dual objectives whose slopes are infinite at the border of the box, and how far apart they are.

entropy: sum_i a_i log(a_i / u_i) + (u_i - a_i) log((u_i - a_i) / u_i) on margin r_i <= a_i <= u_i - r_i, r_i = c u_i;
roots: -2 sum_i sqrt(s_i a_i) on a_i >= r_i. Extrapolated points leave the box: beyond the margin both go on as the
parabola with the value, slope and curvature of the border, so that they are convex and smooth everywhere. quadratic:
sum_i c_i a_i^2 / 2 - a_i, smooth as it is.

Excess is the Bregman distance f(a) - f(b) - f'(b)(a - b), summed without its cancellation: near an optimum it is far
smaller than the rounding of f.

Legend: a point inside the margins, b any point, u upper bounds, s scales, all (n,); c cut, a share of u.
"""

from __future__ import annotations

import math

from okl.compiled.door import compiled, compiled_sum
from okl.types import FloatArray


@compiled
def _relative_entropy(a: float, b: float) -> float:
    # a log(a / b) - (a - b), for a >= 0 and b > 0
    if a <= 0.0:
        return b
    change = (a - b) / b
    if abs(change) < 1e-3:
        return b * change * change * (0.5 - change * (1.0 / 6.0 - change * (1.0 / 12.0 - change / 20.0)))
    return a * math.log(a / b) - (a - b)


@compiled
def _inside(value: float, lower: float, upper: float) -> float:
    return min(max(value, lower), upper)


@compiled
def entropy_value(points: FloatArray, upper: FloatArray, cut: float) -> float:
    """Sum of the entropies, with parabolas beyond the margins."""
    total = 0.0
    for i in range(points.shape[0]):
        u = upper[i]
        if u <= 0.0:
            continue
        a = _inside(points[i], cut * u, u - cut * u)
        if a > 0.0:
            total += a * math.log(a / u)
        if a < u:
            total += (u - a) * math.log((u - a) / u)
        beyond = points[i] - a
        if beyond != 0.0:
            total += beyond * (math.log(a / (u - a)) + 0.5 * beyond * u / (a * (u - a)))
    return total


@compiled
def add_entropy_slopes(gradient: FloatArray, points: FloatArray, upper: FloatArray, cut: float) -> None:
    """Add log(b / (u - b)), or its tangent beyond the margins, to the gradient."""
    for i in range(points.shape[0]):
        u = upper[i]
        if u <= 0.0:
            continue
        b = _inside(points[i], cut * u, u - cut * u)
        gradient[i] += math.log(b / (u - b)) + (points[i] - b) * u / (b * (u - b))


@compiled
def entropy_excess(points: FloatArray, at: FloatArray, upper: FloatArray, cut: float) -> float:
    """Bregman distance of points, inside the margins, from `at`, anywhere."""
    total = 0.0
    for i in range(points.shape[0]):
        u = upper[i]
        if u <= 0.0:
            continue
        a, b = points[i], _inside(at[i], cut * u, u - cut * u)
        total += _relative_entropy(a, b) + _relative_entropy(u - a, u - b)
        beyond = at[i] - b
        if beyond != 0.0:
            total += beyond * u / (b * (u - b)) * (0.5 * beyond - (a - b))
    return total


@compiled
def roots_value(points: FloatArray, scales: FloatArray, lower: FloatArray) -> float:
    """Sum of -2 sqrt(s a), with parabolas below the margins."""
    total = 0.0
    for i in range(points.shape[0]):
        s, a = scales[i], max(points[i], lower[i])
        total -= 2.0 * math.sqrt(s * a)
        beyond = points[i] - a
        if beyond != 0.0:
            slope = -math.sqrt(s / a)
            total += beyond * (slope - 0.25 * beyond * slope / a)
    return total


@compiled
def add_root_slopes(gradient: FloatArray, points: FloatArray, scales: FloatArray, lower: FloatArray) -> None:
    """Add -sqrt(s / b), or its tangent below the margins, to the gradient."""
    for i in range(points.shape[0]):
        if scales[i] > 0.0:
            b = max(points[i], lower[i])
            gradient[i] -= math.sqrt(scales[i] / b) * (1.0 - 0.5 * (points[i] - b) / b)


@compiled
def roots_excess(points: FloatArray, at: FloatArray, scales: FloatArray, lower: FloatArray) -> float:
    """Bregman distance of points, inside the margins, from `at`, anywhere."""
    total = 0.0
    for i in range(points.shape[0]):
        if scales[i] <= 0.0:
            continue
        a, b = points[i], max(at[i], lower[i])
        slope = math.sqrt(scales[i] / b)
        apart = (a - b) / (math.sqrt(a) + math.sqrt(b))
        total += slope * apart * apart
        beyond = at[i] - b
        if beyond != 0.0:
            total += 0.5 * slope * beyond / b * (0.5 * beyond - (a - b))
    return total


@compiled_sum
def quadratic_value(points: FloatArray, curvatures: FloatArray) -> float:
    """Sum of c a^2 / 2 - a."""
    total = 0.0
    for i in range(points.shape[0]):
        total += points[i] * (0.5 * curvatures[i] * points[i] - 1.0)
    return total


@compiled
def add_quadratic_slopes(gradient: FloatArray, points: FloatArray, curvatures: FloatArray) -> None:
    """Add c a - 1 to the gradient."""
    for i in range(points.shape[0]):
        gradient[i] += curvatures[i] * points[i] - 1.0


@compiled_sum
def quadratic_excess(points: FloatArray, at: FloatArray, curvatures: FloatArray) -> float:
    """Sum of c (a - b)^2 / 2."""
    total = 0.0
    for i in range(points.shape[0]):
        apart = points[i] - at[i]
        total += 0.5 * curvatures[i] * apart * apart
    return total
