"""Coordinate descent on small quadratic problems: single weights under an l1 penalty, and pairs of dual entries.

Both know a matrix of products and keep the slopes at the current point, so that a step costs one row of the matrix.
"""

from __future__ import annotations

import math

from okl.compiled.jit import compiled
from okl.foundation.types import FloatArray, IntArray


@compiled
def descend_weights(weights: FloatArray, slopes: FloatArray, products: FloatArray, n_sweeps: int) -> bool:
    """Minimise g'w + 1/2 w'Hw + ||w||_1 over one weight after the other; weights and slopes change in place.

    Parameters
    ----------
    weights : w (n,); slopes : of the quadratic at w, (n,); products : H (n, n), symmetric
    n_sweeps : over all weights; it ends where none moves

    Returns
    -------
    whether the last sweep moved a weight
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
    normals: FloatArray,
    groups: IntArray,
    lower: FloatArray,
    upper: FloatArray,
    n_groups: int,
    tolerance: float,
    max_steps: int,
) -> int:
    """Minimise 1/2 a'Qa + c'a over lower <= a <= upper with sum_i p_i a_i fixed in every group; return the steps.

    A step moves the pair of a group that violates the optimality conditions: the entry that gains most by the slope,
    and the one with which the quadratic falls most. Without groups it moves one entry. Point and slopes change in
    place.

    Parameters
    ----------
    point : a (n,); slopes : Q a + c (n,); products : Q (n, n), symmetric
    normals : p (n,), -1 or +1; groups : (n,), from 0 to n_groups - 1; n_groups : 0 where no sum is fixed
    tolerance : of the violation, a difference of slopes; max_steps : int >= 1

    Source: Fan, Chen & Lin, JMLR 6, 2005, WSS 2.
    """
    for step in range(max_steps):
        if n_groups == 0:
            first = _steepest(point, slopes, products, lower, upper, tolerance)
            if first < 0:
                return step
            entry = point[first] - slopes[first] / max(products[first, first], 1e-300)
            change = min(max(entry, lower[first]), upper[first]) - point[first]
            point[first] = min(max(entry, lower[first]), upper[first])
            for k in range(point.shape[0]):
                slopes[k] += change * products[first, k]
            continue
        first, most = -1, tolerance
        for group in range(n_groups):
            top, best, least = -1, -math.inf, math.inf
            for i in range(point.shape[0]):
                if groups[i] != group:
                    continue
                gain = -normals[i] * slopes[i]
                if gain > best and (point[i] < upper[i] if normals[i] > 0.0 else point[i] > lower[i]):
                    top, best = i, gain
                if gain < least and (point[i] > lower[i] if normals[i] > 0.0 else point[i] < upper[i]):
                    least = gain
            if best - least > most:
                first, most = top, best - least
        if first < 0:
            return step
        second, fall, bend = _partner(first, point, slopes, products, normals, groups, lower, upper)
        length = fall / bend
        room = upper[first] - point[first] if normals[first] > 0.0 else point[first] - lower[first]
        other = point[second] - lower[second] if normals[second] > 0.0 else upper[second] - point[second]
        length = min(length, room, other)
        up, down = normals[first] * length, -normals[second] * length
        point[first] = min(max(point[first] + up, lower[first]), upper[first])
        point[second] = min(max(point[second] + down, lower[second]), upper[second])
        if length == room:
            point[first] = upper[first] if normals[first] > 0.0 else lower[first]
        if length == other:
            point[second] = lower[second] if normals[second] > 0.0 else upper[second]
        line, line_of_second = products[first], products[second]
        for k in range(point.shape[0]):
            slopes[k] += up * line[k] + down * line_of_second[k]
    return max_steps


@compiled
def _steepest(
    point: FloatArray,
    slopes: FloatArray,
    products: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    tolerance: float,
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


@compiled
def _partner(
    first: int,
    point: FloatArray,
    slopes: FloatArray,
    products: FloatArray,
    normals: FloatArray,
    groups: IntArray,
    lower: FloatArray,
    upper: FloatArray,
) -> tuple[int, float, float]:
    """Return the second entry of a pair, how the quadratic falls along the pair, and its second derivative there."""
    best, most, fall_of_best, bend_of_best = -1, -1.0, 0.0, 1.0
    gain = -normals[first] * slopes[first]
    for j in range(point.shape[0]):
        if groups[j] != groups[first] or not (point[j] > lower[j] if normals[j] > 0.0 else point[j] < upper[j]):
            continue
        fall = gain + normals[j] * slopes[j]
        if fall <= 0.0:
            continue
        bend = products[first, first] + products[j, j] - 2.0 * normals[first] * normals[j] * products[first, j]
        bend = max(bend, 1e-12 * (products[first, first] + products[j, j]) + 1e-300)
        if fall * fall / bend > most:
            best, most, fall_of_best, bend_of_best = j, fall * fall / bend, fall, bend
    return best, fall_of_best, bend_of_best
