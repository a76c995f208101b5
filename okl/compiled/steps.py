"""The vector work of an accelerated proximal gradient step: each function reads its inputs once, without temporaries.

Legend: a point (n,), b the extrapolated point, c the point before, g the gradient at b.
"""

from __future__ import annotations

from okl.compiled.door import compiled, compiled_sum
from okl.types import FloatArray


@compiled
def extrapolate(out: FloatArray, current: FloatArray, previous: FloatArray, momentum: float) -> None:
    """Overwrite out by current + momentum (current - previous)."""
    for i in range(out.shape[0]):
        out[i] = current[i] + momentum * (current[i] - previous[i])


@compiled
def descend(out: FloatArray, point: FloatArray, gradient: FloatArray, step: float) -> None:
    """Overwrite out by point - step * gradient."""
    for i in range(out.shape[0]):
        out[i] = point[i] - step * gradient[i]


@compiled_sum
def step_sums(
    point: FloatArray, extrapolated: FloatArray, gradient: FloatArray, before: FloatArray
) -> tuple[float, float]:
    """||a - b||^2 and <g, a - c>."""
    squared, turn = 0.0, 0.0
    for i in range(point.shape[0]):
        moved = point[i] - extrapolated[i]
        squared += moved * moved
        turn += gradient[i] * (point[i] - before[i])
    return squared, turn


@compiled_sum
def squared_distance(left: FloatArray, right: FloatArray) -> float:
    """||left - right||^2."""
    total = 0.0
    for i in range(left.shape[0]):
        difference = left[i] - right[i]
        total += difference * difference
    return total


@compiled_sum
def distance_product(left: FloatArray, right: FloatArray, left_image: FloatArray, right_image: FloatArray) -> float:
    """<left - right, left_image - right_image>."""
    total = 0.0
    for i in range(left.shape[0]):
        total += (left[i] - right[i]) * (left_image[i] - right_image[i])
    return total


@compiled_sum
def inner(left: FloatArray, right: FloatArray) -> float:
    """<left, right>."""
    total = 0.0
    for i in range(left.shape[0]):
        total += left[i] * right[i]
    return total
