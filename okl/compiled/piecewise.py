"""Losses that are piecewise linear in the scores: sums and subgradients of rows, in one read.

A subgradient is chosen row by row: at a kink the one on the side that `along` leads to, so that a step that lands on a
kink does not stall. Whatever is chosen, loss(v) >= <slope, v> + intercept for every v: the intercepts are those of the
linear pieces, not of the point, so that no rounding of the scores is in them.

Legend: scores (n,) or (n, K), along like the scores, targets (n,): -1 or +1, numbers, or class indices 0 .. K - 1;
e half the width of the tube; t a step along.
"""

from __future__ import annotations

from okl.compiled.door import compiled, compiled_row
from okl.types import FloatArray

ON_KINK = 1e-12  # of a score of size one


@compiled
def hinge_slopes(slopes: FloatArray, scores: FloatArray, along: FloatArray, targets: FloatArray) -> tuple[float, float]:
    """Overwrite slopes (n,) by those of max(0, 1 - y s); returns the sums of losses and of intercepts."""
    losses, intercepts = 0.0, 0.0
    for i in range(scores.shape[0]):
        y = targets[i]
        room = 1.0 - y * scores[i]
        losses += max(0.0, room)
        # no branch: which rows are active is as good as random to a processor
        active = (room > ON_KINK) | ((room >= -ON_KINK) & (y * along[i] < 0.0))
        slopes[i] = -y if active else 0.0
        intercepts += 1.0 if active else 0.0
    return losses, intercepts


@compiled
def hinge_line(scores: FloatArray, along: FloatArray, targets: FloatArray, t: float) -> tuple[float, float]:
    """Sum of max(0, 1 - y (s + t d)), and its right-hand derivative by t."""
    losses, derivative = 0.0, 0.0
    for i in range(scores.shape[0]):
        speed = targets[i] * along[i]
        room = 1.0 - targets[i] * scores[i] - t * speed
        losses += max(0.0, room)
        active = (room > ON_KINK) | ((room >= -ON_KINK) & (speed < 0.0))
        derivative -= speed if active else 0.0
    return losses, derivative


@compiled
def tube_slopes(
    slopes: FloatArray, scores: FloatArray, along: FloatArray, targets: FloatArray, half_width: float
) -> tuple[float, float]:
    """Overwrite slopes (n,) by those of max(0, |s - y| - e); returns the sums of losses and of intercepts."""
    losses, intercepts = 0.0, 0.0
    for i in range(scores.shape[0]):
        residual = scores[i] - targets[i]
        losses += max(0.0, abs(residual) - half_width)
        slope = _tube_slope(residual, along[i], half_width)
        slopes[i] = slope
        intercepts -= slope * targets[i] + half_width * abs(slope)
    return losses, intercepts


@compiled
def tube_line(
    scores: FloatArray, along: FloatArray, targets: FloatArray, half_width: float, t: float
) -> tuple[float, float]:
    """Sum of max(0, |s + t d - y| - e), and its right-hand derivative by t."""
    losses, derivative = 0.0, 0.0
    for i in range(scores.shape[0]):
        residual = scores[i] + t * along[i] - targets[i]
        losses += max(0.0, abs(residual) - half_width)
        derivative += _tube_slope(residual, along[i], half_width) * along[i]
    return losses, derivative


@compiled_row
def _tube_slope(residual: float, speed: float, half_width: float) -> float:
    beyond = abs(residual) - half_width
    if half_width <= ON_KINK and abs(residual) <= ON_KINK:
        return 1.0 if speed > 0.0 else (-1.0 if speed < 0.0 else 0.0)
    outward = residual * speed > 0.0
    if beyond > ON_KINK or (beyond >= -ON_KINK and outward):
        return 1.0 if residual > 0.0 else -1.0
    return 0.0


@compiled
def classes_slopes(
    slopes: FloatArray, scores: FloatArray, along: FloatArray, targets: FloatArray
) -> tuple[float, float]:
    """Overwrite slopes (n, K) by those of max_c ([c != y] + s_c - s_y); returns the sums of losses and intercepts."""
    losses, intercepts = 0.0, 0.0
    for i in range(scores.shape[0]):
        true = int(targets[i])
        worst = worst_class(scores[i], along[i], true, 0.0)
        slopes[i] = 0.0
        if worst != true:
            slopes[i, worst] = 1.0
            slopes[i, true] = -1.0
            intercepts += 1.0
            losses += max(0.0, 1.0 + scores[i, worst] - scores[i, true])
    return losses, intercepts


@compiled
def classes_line(scores: FloatArray, along: FloatArray, targets: FloatArray, t: float) -> tuple[float, float]:
    """Sum of max_c ([c != y] + s_c - s_y) at s + t d, and its right-hand derivative by t."""
    losses, derivative = 0.0, 0.0
    for i in range(scores.shape[0]):
        true = int(targets[i])
        worst = worst_class(scores[i], along[i], true, t)
        if worst != true:
            speed = along[i, worst] - along[i, true]
            losses += max(0.0, 1.0 + scores[i, worst] - scores[i, true] + t * speed)
            derivative += speed
    return losses, derivative


@compiled_row
def worst_class(scores: FloatArray, along: FloatArray, true: int, t: float) -> int:
    """The class of the largest line; of lines as large as each other, the one that grows fastest."""
    worst, most, fastest = true, 0.0, 0.0
    for c in range(scores.shape[0]):
        if c != true:
            speed = along[c] - along[true]
            value = 1.0 + scores[c] - scores[true] + t * speed
            if value > most + ON_KINK or (value >= most - ON_KINK and speed > fastest):
                worst, most, fastest = c, max(value, most), speed
    return worst
