"""Slow, obvious twins of okl.compiled.bundle."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from okl.foundation.types import FloatArray

# Line searches by kinks.


def kinks_of(
    positions: FloatArray, jumps: FloatArray, lines: list[list[Line]], scores: FloatArray, along: FloatArray,
    weights: FloatArray, slope: float, curvature: float, longest: float, scale: float,
) -> tuple[int, float]:  # fmt: skip
    """Return every kink of a row, where its two largest lines cross, with the change of the derivative."""
    total = slope + scale * line_of(scores, along, lines, 0.0)[1]
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
                weight = weights[i] if len(weights) else 1.0
                positions[count], jumps[count] = t, scale * weight * (tied.max() - tied.min())
                count += 1
    return count, total


def hinge_kinks(
    positions: FloatArray, jumps: FloatArray, scores: FloatArray, along: FloatArray, targets: FloatArray,
    weights: FloatArray, slope: float, curvature: float, longest: float, scale: float,
) -> tuple[int, float]:  # fmt: skip
    lines = [hinge_lines(y, 1) for y in targets]
    return kinks_of(positions, jumps, lines, scores, along, weights, slope, curvature, longest, scale)


def tube_kinks(
    positions: FloatArray, jumps: FloatArray, scores: FloatArray, along: FloatArray, targets: FloatArray,
    weights: FloatArray, half_width: float, slope: float, curvature: float, longest: float, scale: float,
) -> tuple[int, float]:  # fmt: skip
    lines = [tube_lines(y, half_width) for y in targets]
    return kinks_of(positions, jumps, lines, scores, along, weights, slope, curvature, longest, scale)


def classes_kinks(
    positions: FloatArray, jumps: FloatArray, scores: FloatArray, along: FloatArray, targets: FloatArray,
    weights: FloatArray, slope: float, curvature: float, longest: float, scale: float,
) -> tuple[int, float]:  # fmt: skip
    lines = [classes_lines(y, scores.shape[1]) for y in targets]
    return kinks_of(positions, jumps, lines, scores, along, weights, slope, curvature, longest, scale)


def least_step(
    positions: FloatArray, jumps: FloatArray, count: int, slope: float, curvature: float, longest: float
) -> float:
    """Return the least step by sorting the kinks and passing them in order."""
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


# Passes over rows.


def score_rows(scores: FloatArray, rows: FloatArray, weights: FloatArray) -> None:
    for i, row in enumerate(rows):
        scores[i] = sum(float(z) * w for z, w in zip(row, weights, strict=True))


def score_rows_of_classes(scores: FloatArray, rows: FloatArray, weights: FloatArray) -> None:
    for k, of_class in enumerate(weights):
        score_rows(scores[:, k], rows, of_class)


def add_sloped_rows(sums: FloatArray, rows: FloatArray, slopes: FloatArray) -> None:
    for row, slope in zip(rows, slopes, strict=True):
        for j in range(len(sums)):
            sums[j] += slope * float(row[j])


def add_sloped_rows_of_classes(sums: FloatArray, rows: FloatArray, slopes: FloatArray) -> None:
    for k in range(len(sums)):
        add_sloped_rows(sums[k], rows, slopes[:, k])


# The master problem: every support is tried.


def bound_of(gamma: FloatArray, products: FloatArray, intercepts: FloatArray, lam: float) -> float:
    n = len(gamma)
    quadratic = sum(gamma[k] * gamma[m] * products[k, m] for k in range(n) for m in range(n))
    return float(sum(gamma[k] * intercepts[k] for k in range(n)) - 0.5 * quadratic / lam)


def solve_master(products: FloatArray, intercepts: FloatArray, lam: float) -> float:
    """Return the best lower bound."""
    n, best = len(intercepts), -np.inf
    for size in range(1, n + 1):
        for chosen in combinations(range(n), size):
            some = np.array(chosen)
            system = np.ones((size + 1, size + 1))
            system[:size, :size], system[size, size] = products[np.ix_(some, some)], 0.0
            found = np.linalg.lstsq(system, np.append(lam * intercepts[some], 1.0), rcond=None)[0][:size]
            if (found >= -1e-12).all() and abs(found.sum() - 1.0) < 1e-9:
                trial = np.zeros(n)
                trial[some] = found
                best = max(best, bound_of(trial, products, intercepts, lam))
    return best


# Losses: each is the largest of a few lines in the scores.

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
    """Return the steepest of the lines that are largest at the scores."""
    values = [float(slope @ scores) + intercept for slope, intercept in lines]
    tied = [line for line, value in zip(lines, values, strict=True) if value >= max(values) - ON_KINK]
    return max(tied, key=lambda line: float(line[0] @ along))


def slopes_of(
    slopes: FloatArray, scores: FloatArray, along: FloatArray, lines: list[list[Line]]
) -> tuple[float, float]:
    """Overwrite slopes; return the sums of losses and of intercepts."""
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
