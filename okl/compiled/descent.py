"""Coordinate descent: weights under an l1 penalty, pairs of dual entries, and dual entries of explicit rows.

All but the last know a matrix of products and update the slopes at the current point, so that a step costs one row of
the matrix. The last one updates the weights: a step costs the values of a row.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.compiled.jit import compiled, compiled_row, compiled_row_sum, nested
from okl.foundation.types import FloatArray, IntArray, Integers


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
def descend_groups(
    weights: FloatArray, slopes: FloatArray, products: FloatArray, penalty: float, n_sweeps: int
) -> None:
    """Minimise tr(G'W) + 1/2 tr(W'HW) + penalty sum_j ||W_j||_2 over one row W_j after the other.

    Weights and slopes change in place; it ends early where no row moves by more than rounding.

    weights : W (n, n_outputs); slopes : of the quadratic at W, (n, n_outputs); products : H (n, n), symmetric
    n_sweeps : over all rows

    Source: Yuan & Lin, JRSS B 68, 2006; Friedman, Hastie & Tibshirani, J. Stat. Software 33, 2010.
    """
    n, n_outputs = weights.shape
    change = np.empty(n_outputs)
    for _ in range(n_sweeps):
        moved, largest = 0.0, 0.0
        for j in range(n):
            bend = products[j, j]
            if bend <= 0.0:
                continue
            length = 0.0
            for k in range(n_outputs):
                change[k] = bend * weights[j, k] - slopes[j, k]
                length += change[k] * change[k]
            length = math.sqrt(length)
            shrunk = max(length - penalty, 0.0) / (bend * length) if length > 0.0 else 0.0
            step = 0.0
            for k in range(n_outputs):
                after = shrunk * change[k]
                change[k] = after - weights[j, k]
                weights[j, k] = after
                step = max(step, abs(change[k]))
                largest = max(largest, abs(after))
            if step == 0.0:
                continue
            moved = max(moved, step)
            line = products[j]
            for i in range(n):
                for k in range(n_outputs):
                    slopes[i, k] += change[k] * line[i]
        if moved <= 1e-12 * largest:
            break


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


_RUN = 8  # rows that follow each other, at most: their numbers share a line of the cache


@compiled_row_sum
def _product(row: FloatArray, weights: FloatArray) -> float:
    total = 0.0
    for j in range(row.shape[0]):
        total += row[j] * weights[j]
    return total


@compiled_row
def _add_row(weights: FloatArray, row: FloatArray, factor: float) -> None:
    for j in range(row.shape[0]):
        weights[j] += factor * row[j]


@compiled
def descend_rows(
    point: FloatArray,
    weights: FloatArray,
    active: Integers,
    limits: FloatArray,
    shifts: FloatArray,
    data: FloatArray,
    columns: NDArray[Any],
    starts: NDArray[Any],
    signs: FloatArray,
    lengths: FloatArray,
    upper: FloatArray,
    bias: float,
    border: float,
) -> int:
    """Minimise 1/2 ||sum_i s_i a_i x_i||^2 - sum_i (1 + s_i bias) a_i over 0 <= a_i <= u_i, each active entry once.

    x_i is row z_i and one more value, the border. Active rows come in as many sequences as there are shifts, some of
    each in turn, from its shift on: memory is read ahead, and like rows that follow each other are apart. Entries at a
    bound whose slope is beyond the limits are no longer active. Point, weights, active and limits change in place.

    point : a (m,); weights : sum_i s_i a_i x_i, (n + 1,)
    active : row numbers, of which those that are still active become the first
    limits : least and greatest slope of entries that may move, of the last pass, (2,); shifts : in [0, 1)
    data, columns, starts : z_i, see okl.compiled.products, without columns if dense; lengths : ||x_i||^2 (m,)
    border : 0 without a bias

    Returns how many rows are active

    Source: Hsieh, Chang, Lin, Keerthi & Sundararajan, ICML 2008, Algorithm 3.
    """
    n_active, n_sequences, last = active.shape[0], shifts.shape[0], weights.shape[0] - 1
    is_dense = columns.shape[0] == 0
    run = max(1, min(_RUN, n_active // (_RUN * n_sequences)))
    size = -(-n_active // (n_sequences * run)) * run
    low, high = limits[0], limits[1]
    limits[0], limits[1] = math.inf, -math.inf
    for step in range(0, size, run):
        for sequence in range(n_sequences):
            first = (step + int(shifts[sequence] * size) // run * run) % size + sequence * size
            for place in range(first, min(first + run, n_active)):
                i = active[place]
                score = border * weights[last] - bias
                begin, end = starts[i], starts[i + 1]
                if is_dense:
                    score += _product(data[begin:end], weights)
                else:
                    for at in range(np.uint64(begin), np.uint64(end)):
                        score += data[at] * weights[np.uint64(columns[at])]
                slope, before = signs[i] * score - 1.0, point[i]
                stays = (before == 0.0 and slope >= 0.0) or (before == upper[i] and slope <= 0.0)
                if stays and (slope > high or slope < low):
                    active[place] = -1
                    continue
                movable = 0.0 if stays else slope
                limits[0], limits[1] = min(limits[0], movable), max(limits[1], movable)
                if stays:
                    continue
                entry = before - slope / lengths[i] if lengths[i] > 0.0 else math.copysign(math.inf, -slope)
                point[i] = min(max(entry, 0.0), upper[i])
                change = signs[i] * (point[i] - before)
                if is_dense:
                    _add_row(weights, data[begin:end], change)
                else:
                    for at in range(np.uint64(begin), np.uint64(end)):
                        weights[np.uint64(columns[at])] += change * data[at]
                weights[last] += change * border
    count = 0
    for place in range(n_active):
        active[count] = active[place]
        count += active[place] >= 0
    return count


@compiled
def gather_rows(out: FloatArray, rows: FloatArray, places: IntArray, columns: IntArray) -> None:
    """Overwrite out (n, k) by the values of some rows (m, n_columns) in some columns; rows at -1 stay as they are."""
    for i in range(places.shape[0]):
        if places[i] >= 0:
            row = rows[places[i]]
            for j in range(columns.shape[0]):
                out[i, j] = row[columns[j]]


@compiled
def add_rows(out: FloatArray, rows: FloatArray, places: IntArray, coefficients: FloatArray) -> None:
    """Add some rows (m, n) times coefficients to out (n,), one after the other."""
    for i in range(places.shape[0]):
        row, coefficient = rows[places[i]], coefficients[i]
        for j in range(out.shape[0]):
            out[j] += coefficient * row[j]
