"""Slow, obvious twins of okl/compiled/steps.py."""

from __future__ import annotations

from okl.types import FloatArray


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
