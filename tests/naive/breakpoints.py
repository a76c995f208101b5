"""Slow, obvious twins of okl/compiled/breakpoints.py."""

from __future__ import annotations

import numpy as np

import tests.naive.piecewise as naive
from okl.types import FloatArray


def kinks_of(
    positions: FloatArray,
    jumps: FloatArray,
    lines: list[list[naive.Line]],
    scores: FloatArray,
    along: FloatArray,
    slope: float,
    curvature: float,
    longest: float,
    scale: float,
) -> tuple[int, float]:
    """Every crossing of two lines of a row where both are largest, with the change of the derivative there."""
    total = slope + scale * naive.line_of(scores, along, lines, 0.0)[1]
    limit = min(longest, -total / curvature) if curvature > 0.0 else longest
    count = 0
    for i, of_row in enumerate(lines):
        at, direction = np.atleast_1d(scores[i]), np.atleast_1d(along[i])
        heights = np.array([float(s @ at) + b for s, b in of_row])
        speeds = np.array([float(s @ direction) for s, _ in of_row])
        crossings = {
            (heights[a] - heights[b]) / (speeds[b] - speeds[a])
            for a in range(len(of_row))
            for b in range(a)
            if speeds[a] != speeds[b]
        }
        for t in sorted(crossings):
            top = heights + t * speeds
            tied = speeds[top >= top.max() - 1e-11]
            if 0.0 < t < limit and tied.max() > tied.min():
                positions[count], jumps[count] = t, scale * (tied.max() - tied.min())
                count += 1
    return count, total


def hinge_kinks(
    positions: FloatArray, jumps: FloatArray, scores: FloatArray, along: FloatArray, targets: FloatArray,
    slope: float, curvature: float, longest: float, scale: float,
) -> tuple[int, float]:  # fmt: skip
    lines = [naive.hinge_lines(y, 1) for y in targets]
    return kinks_of(positions, jumps, lines, scores, along, slope, curvature, longest, scale)


def tube_kinks(
    positions: FloatArray, jumps: FloatArray, scores: FloatArray, along: FloatArray, targets: FloatArray,
    half_width: float, slope: float, curvature: float, longest: float, scale: float,
) -> tuple[int, float]:  # fmt: skip
    lines = [naive.tube_lines(y, half_width) for y in targets]
    return kinks_of(positions, jumps, lines, scores, along, slope, curvature, longest, scale)


def classes_kinks(
    positions: FloatArray, jumps: FloatArray, scores: FloatArray, along: FloatArray, targets: FloatArray,
    slope: float, curvature: float, longest: float, scale: float,
) -> tuple[int, float]:  # fmt: skip
    lines = [naive.classes_lines(y, scores.shape[1]) for y in targets]
    return kinks_of(positions, jumps, lines, scores, along, slope, curvature, longest, scale)


def least_step(
    positions: FloatArray, jumps: FloatArray, count: int, slope: float, curvature: float, longest: float
) -> float:
    """By sorting the kinks and walking along them."""
    if slope >= 0.0:
        return 0.0
    order = np.argsort(positions[:count])
    for k in order:
        if slope + curvature * positions[k] >= 0.0:
            break
        slope += jumps[k]
        if slope + curvature * positions[k] >= 0.0:
            return float(min(positions[k], longest))
    return min(-slope / curvature, longest) if curvature > 0.0 else longest
