"""Dual entries and their slopes as functions of margins: what a Newton step needs of every row.

A row has a margin z, from which the threshold of its sign is taken, and a dual entry a(z) that never rises. Slopes are
generalised derivatives -a'(z), the row's weight in the Hessian.

Legend: a duals (m,), d slopes (m,), z margins (m,), s signs (m,), -1 or +1.
"""

from __future__ import annotations

import math

from okl.compiled.jit import compiled, nested
from okl.foundation.types import FloatArray, IntArray


@compiled
def box_duals(
    duals: FloatArray,
    slopes: FloatArray,
    margins: FloatArray,
    signs: FloatArray,
    anchors: FloatArray,
    steps: FloatArray,
    targets: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    plus: float,
    minus: float,
) -> None:
    """Overwrite duals by anchor + step (target - z + threshold) in [lower, upper], and slopes by the step inside."""
    for i in range(margins.shape[0]):
        threshold = plus if signs[i] > 0.0 else minus
        entry = anchors[i] + steps[i] * (targets[i] - margins[i] + threshold)
        entry = min(max(entry, lower[i]), upper[i])
        duals[i] = entry
        slopes[i] = steps[i] if lower[i] < entry < upper[i] else 0.0


@compiled
def entropy_duals(
    duals: FloatArray,
    slopes: FloatArray,
    margins: FloatArray,
    signs: FloatArray,
    upper: FloatArray,
    plus: float,
    minus: float,
) -> None:
    """Overwrite duals by upper / (1 + exp(z - threshold)), and slopes."""
    for i in range(margins.shape[0]):
        z = margins[i] - (plus if signs[i] > 0.0 else minus)
        small = math.exp(-abs(z))
        share = (small if z > 0.0 else 1.0) / (1.0 + small)
        duals[i] = upper[i] * share
        slopes[i] = upper[i] * (small / (1.0 + small)) / (1.0 + small)


@compiled
def square_root_duals(
    duals: FloatArray,
    slopes: FloatArray,
    margins: FloatArray,
    signs: FloatArray,
    scales: FloatArray,
    upper: FloatArray,
    plus: float,
    minus: float,
) -> None:
    """Overwrite duals by min(upper, scale / (z - threshold)^2), upper for z <= threshold, and slopes."""
    for i in range(margins.shape[0]):
        z = margins[i] - (plus if signs[i] > 0.0 else minus)
        if z <= 0.0 or scales[i] >= upper[i] * z * z:
            duals[i], slopes[i] = upper[i], 0.0
        else:
            duals[i] = scales[i] / (z * z)
            slopes[i] = 2.0 * duals[i] / z


# Coordinate descent on small quadratic problems: single weights under an l1 penalty, and pairs of dual entries.


@compiled
def descend_weights(weights: FloatArray, slopes: FloatArray, products: FloatArray, n_sweeps: int) -> bool:
    """Minimise g'w + 1/2 w'Hw + ||w||_1 over one weight after the other; weights and slopes change in place.

    weights : w (n,); slopes : of the quadratic at w, (n,); products : H (n, n), symmetric
    n_sweeps : over all weights; it ends where none moves
    Returns whether the last sweep moved a weight.
    """
    moved = False
    for _ in range(n_sweeps):
        moved = False
        for j in range(weights.shape[0]):
            bend, before = products[j, j], weights[j]
            if bend <= 0.0:
                continue
            target = bend * before - slopes[j]
            after = math.copysign(max(abs(target) - 1.0, 0.0), target) / bend
            if after == before:
                continue
            moved = True
            weights[j], change, line = after, after - before, products[j]
            for k in range(weights.shape[0]):
                slopes[k] += change * line[k]
        if not moved:
            break
    return moved


@compiled
def descend_pairs(
    point: FloatArray,
    slopes: FloatArray,
    products: FloatArray,
    starts: IntArray,
    lower: FloatArray,
    upper: FloatArray,
    tolerance: float,
    max_steps: int,
) -> int:
    """Minimise 1/2 a'Qa + c'a over lower <= a <= upper with the sum of every group fixed; return the steps.

    A step moves the pair of a group that violates the optimality conditions: the entry that gains most by a rise, and
    the one with which the quadratic falls most. Without groups it moves one entry. Point and slopes change in place.

    point : a (n,); slopes : Q a + c (n,); products : Q (n, n), symmetric
    starts : (n_groups + 1,), entries from starts[g] to starts[g + 1] are group g; (1,) where no sum is fixed
    tolerance : of the violation, a difference of slopes; max_steps : int >= 1

    Source: Fan, Chen & Lin, JMLR 6, 2005, WSS 2.
    """
    n_groups = starts.shape[0] - 1
    for step in range(max_steps):
        if n_groups == 0:
            first = _steepest(point, slopes, products, lower, upper, tolerance)
            if first < 0:
                return step
            entry = point[first] - slopes[first] / max(products[first, first], 1e-300)
            after = min(max(entry, lower[first]), upper[first])
            change, line = after - point[first], products[first]
            point[first] = after
            for k in range(point.shape[0]):
                slopes[k] += change * line[k]
            continue
        first, begin, end, most = -1, 0, 0, tolerance
        for group in range(n_groups):
            top, least, greatest = -1, math.inf, -math.inf
            for i in range(starts[group], starts[group + 1]):
                slope = slopes[i]
                if slope < least and point[i] < upper[i]:
                    top, least = i, slope
                if slope > greatest and point[i] > lower[i]:
                    greatest = slope
            if greatest - least > most:
                first, begin, end, most = top, starts[group], starts[group + 1], greatest - least
        if first < 0:
            return step
        line, bend_of_first, least = products[first], products[first, first], slopes[first]
        second, best, fall, bend = -1, -1.0, 0.0, 1.0
        for j in range(begin, end):
            difference = slopes[j] - least
            if difference <= 0.0 or point[j] <= lower[j]:
                continue
            sum_of_bends = bend_of_first + products[j, j]
            along = max(sum_of_bends - 2.0 * line[j], 1e-12 * sum_of_bends + 1e-300)
            if difference * difference > best * along:
                second, best, fall, bend = j, difference * difference / along, difference, along
        room, other = upper[first] - point[first], point[second] - lower[second]
        length = min(fall / bend, room, other)
        point[first] = upper[first] if length == room else point[first] + length
        point[second] = lower[second] if length == other else point[second] - length
        line_of_second = products[second]
        for k in range(point.shape[0]):
            slopes[k] += length * (line[k] - line_of_second[k])
    return max_steps


@nested
def _steepest(
    point: FloatArray, slopes: FloatArray, products: FloatArray, lower: FloatArray, upper: FloatArray, tolerance: float
) -> int:
    """Return the entry whose step lowers the quadratic most, or -1 where no slope is above the tolerance."""
    best, most = -1, 0.0
    for i in range(point.shape[0]):
        free = point[i] > lower[i] if slopes[i] > 0.0 else point[i] < upper[i]
        if not free or abs(slopes[i]) <= tolerance:
            continue
        bend = max(products[i, i], 1e-300)
        change = min(max(point[i] - slopes[i] / bend, lower[i]), upper[i]) - point[i]
        fall = -change * (slopes[i] + 0.5 * bend * change)
        if fall > most:
            best, most = i, fall
    return best
