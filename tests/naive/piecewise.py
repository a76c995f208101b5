"""Slow, obvious twins of okl/compiled/piecewise.py: each loss is the largest of a few lines in the scores."""

from __future__ import annotations

import numpy as np

from okl.types import FloatArray

ON_KINK = 1e-12
Line = tuple[FloatArray, float]  # slope by the scores of a row, (K,), and intercept


def hinge_lines(target: float, n_outputs: int) -> list[Line]:
    return [(np.zeros(1), 0.0), (np.array([-target]), 1.0)]


def tube_lines(target: float, half_width: float) -> list[Line]:
    flat = [(np.zeros(1), 0.0)] if half_width > 0.0 else []
    return [*flat, (np.ones(1), -target - half_width), (-np.ones(1), target - half_width)]


def classes_lines(target: float, n_outputs: int) -> list[Line]:
    unit = np.eye(n_outputs)
    others = [c for c in range(n_outputs) if c != int(target)]
    return [(np.zeros(n_outputs), 0.0), *((unit[c] - unit[int(target)], 1.0) for c in others)]


def largest(lines: list[Line], scores: FloatArray, along: FloatArray) -> Line:
    """Of the lines that are largest at the scores, the one that grows fastest along."""
    values = [float(slope @ scores) + intercept for slope, intercept in lines]
    tied = [line for line, value in zip(lines, values, strict=True) if value >= max(values) - ON_KINK]
    return max(tied, key=lambda line: float(line[0] @ along))


def slopes_of(
    slopes: FloatArray, scores: FloatArray, along: FloatArray, lines: list[list[Line]]
) -> tuple[float, float]:
    """Overwrite slopes; the sums of losses and of intercepts."""
    losses, intercepts = 0.0, 0.0
    for i, of_row in enumerate(lines):
        slope, intercept = largest(of_row, np.atleast_1d(scores[i]), np.atleast_1d(along[i]))
        losses += max(float(s @ np.atleast_1d(scores[i])) + b for s, b in of_row)
        slopes[i], intercepts = slope if slopes.ndim == 2 else slope[0], intercepts + intercept
    return losses, intercepts


def line_of(scores: FloatArray, along: FloatArray, lines: list[list[Line]], t: float) -> tuple[float, float]:
    losses, derivative = 0.0, 0.0
    for i, of_row in enumerate(lines):
        at, direction = np.atleast_1d(scores[i] + t * along[i]), np.atleast_1d(along[i])
        losses += max(float(s @ at) + b for s, b in of_row)
        derivative += float(largest(of_row, at, direction)[0] @ direction)
    return losses, derivative


def hinge_slopes(slopes: FloatArray, scores: FloatArray, along: FloatArray, targets: FloatArray) -> tuple[float, float]:
    return slopes_of(slopes, scores, along, [hinge_lines(y, 1) for y in targets])


def hinge_line(scores: FloatArray, along: FloatArray, targets: FloatArray, t: float) -> tuple[float, float]:
    return line_of(scores, along, [hinge_lines(y, 1) for y in targets], t)


def tube_slopes(
    slopes: FloatArray, scores: FloatArray, along: FloatArray, targets: FloatArray, half_width: float
) -> tuple[float, float]:
    return slopes_of(slopes, scores, along, [tube_lines(y, half_width) for y in targets])


def tube_line(
    scores: FloatArray, along: FloatArray, targets: FloatArray, half_width: float, t: float
) -> tuple[float, float]:
    return line_of(scores, along, [tube_lines(y, half_width) for y in targets], t)


def classes_slopes(
    slopes: FloatArray, scores: FloatArray, along: FloatArray, targets: FloatArray
) -> tuple[float, float]:
    return slopes_of(slopes, scores, along, [classes_lines(y, scores.shape[1]) for y in targets])


def classes_line(scores: FloatArray, along: FloatArray, targets: FloatArray, t: float) -> tuple[float, float]:
    return line_of(scores, along, [classes_lines(y, scores.shape[1]) for y in targets], t)
