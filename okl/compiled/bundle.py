"""Cutting-plane methods: the master problem, line searches and cuts."""

from __future__ import annotations

import math

import numpy as np

from okl.compiled.jit import compiled, compiled_row, compiled_sum, nested_row
from okl.foundation.types import FloatArray, IntArray

# Master problem of a bundle: a quadratic programme over the simplex, solved by an active set.
#
#     maximise  gamma'b - gamma'H gamma / (2 lam)   over gamma >= 0, sum gamma = 1
#
# Legend: H (at least k, k) inner products of the k cuts, b (k,) their intercepts, gamma (k,) weights, feasible at
# first (a warm start); factor (k, k), solved (2, k), support (k,) buffers. At most `most` changes of the support.
#
# Source: the scheme is that of Wolfe, "Finding the nearest point in a polytope", Math. Programming 11, 1976, sections
# 3 to 5, with a linear term.

_RIDGE = 1e-13  # of the largest product: cuts may be affinely dependent
_ROUNDING = 1e-14


@compiled
def solve_master(
    gamma: FloatArray,
    factor: FloatArray,
    solved: FloatArray,
    support: IntArray,
    products: FloatArray,
    intercepts: FloatArray,
    lam: float,
    most: int,
) -> float:
    """Change gamma (k,) to the weights of the best lower bound, using the buffers; returns the bound."""
    n_cuts, n_active, scale = gamma.shape[0], 0, 1e-300
    for k in range(n_cuts):
        scale = max(scale, products[k, k])
        if gamma[k] > 0.0:
            support[n_active] = k
            n_active += 1
    for _ in range(most):
        n_active = _settle(gamma, factor, solved, support, products, intercepts, lam, scale, n_active)
        entering = _entering(gamma, products, intercepts, lam, scale)
        if entering < 0 or gamma[entering] > 0.0:
            break
        support[n_active] = entering
        n_active += 1
    return bound_of(gamma, products, intercepts, lam)


@compiled_row
def bound_of(gamma: FloatArray, products: FloatArray, intercepts: FloatArray, lam: float) -> float:
    """Return gamma'b - gamma'H gamma / (2 lam)."""
    linear, quadratic = 0.0, 0.0
    for k in range(gamma.shape[0]):
        if gamma[k] > 0.0:
            linear += gamma[k] * intercepts[k]
            for m in range(gamma.shape[0]):
                quadratic += gamma[k] * gamma[m] * products[k, m]
    return linear - 0.5 * quadratic / lam


@nested_row
def _settle(
    gamma: FloatArray,
    factor: FloatArray,
    solved: FloatArray,
    support: IntArray,
    products: FloatArray,
    intercepts: FloatArray,
    lam: float,
    scale: float,
    n_active: int,
) -> int:
    """Move gamma to the best point of its support, leaving cuts whose weight would be negative; what is left of it."""
    while True:
        _affine_best(factor, solved, support, products, intercepts, lam, scale, n_active)
        step, leaving = 1.0, -1
        for a in range(n_active):
            weight, target = gamma[support[a]], solved[0, a]
            if target <= 0.0 and weight / (weight - target) < step:
                step, leaving = weight / (weight - target), a
            elif target <= 0.0 and weight == 0.0:
                step, leaving = 0.0, a
        for a in range(n_active):
            k = support[a]
            gamma[k] = max(0.0, gamma[k] + step * (solved[0, a] - gamma[k]))
        if leaving < 0:
            return n_active
        gamma[support[leaving]] = 0.0
        n_active -= 1
        support[leaving] = support[n_active]
        if n_active == 0:  # rounding only: the weights add up to one
            support[0] = _largest(gamma)
            gamma[support[0]] = 1.0
            return 1


@nested_row
def _largest(gamma: FloatArray) -> int:
    best = 0
    for k in range(gamma.shape[0]):
        if gamma[k] > gamma[best]:
            best = k
    return best


@nested_row
def _affine_best(
    factor: FloatArray,
    solved: FloatArray,
    support: IntArray,
    products: FloatArray,
    intercepts: FloatArray,
    lam: float,
    scale: float,
    n_active: int,
) -> None:
    """Overwrite solved[0, :n_active] by the weights, of any sign and sum one, of the best bound on the support."""
    # products + scale: the same problem where weights add up to one, and as definite as can be
    for a in range(n_active):
        for c in range(a + 1):
            total = products[support[a], support[c]] + scale + (_RIDGE * scale if a == c else 0.0)
            for m in range(c):
                total -= factor[a, m] * factor[c, m]
            factor[a, c] = math.sqrt(max(total, _RIDGE * scale)) if a == c else total / factor[c, c]
    for a in range(n_active):
        right, one = lam * intercepts[support[a]], 1.0
        for m in range(a):
            right -= factor[a, m] * solved[0, m]
            one -= factor[a, m] * solved[1, m]
        solved[0, a], solved[1, a] = right / factor[a, a], one / factor[a, a]
    sum_right, sum_one = 0.0, 0.0
    for a in range(n_active - 1, -1, -1):
        right, one = solved[0, a], solved[1, a]
        for m in range(a + 1, n_active):
            right -= factor[m, a] * solved[0, m]
            one -= factor[m, a] * solved[1, m]
        solved[0, a], solved[1, a] = right / factor[a, a], one / factor[a, a]
        sum_right += solved[0, a]
        sum_one += solved[1, a]
    level = (1.0 - sum_right) / sum_one
    for a in range(n_active):
        solved[0, a] += level * solved[1, a]


@nested_row
def _entering(gamma: FloatArray, products: FloatArray, intercepts: FloatArray, lam: float, scale: float) -> int:
    """Return the cut that lies highest at the present point, if higher than the mean of those in use; else -1."""
    mean, best, highest, size = 0.0, -1, -math.inf, 0.0
    for k in range(gamma.shape[0]):
        height = lam * intercepts[k]
        for m in range(gamma.shape[0]):
            if gamma[m] > 0.0:
                height -= gamma[m] * products[k, m]
        mean += gamma[k] * height
        size = max(size, lam * abs(intercepts[k]))
        if height > highest:
            best, highest = k, height
    return best if highest > mean + _ROUNDING * (scale + size) else -1


# Sums and subgradients of piecewise linear losses, in one read of the rows.
#
# A subgradient is chosen row by row: at a kink the one on the side that `along` leads to, so that a step that lands
# on a kink does not stall. Whatever is chosen, loss(v) >= <slope, v> + intercept for every v: the intercepts are
# those of the linear pieces, not of the point, so that no rounding of the scores is in them.
#
# Legend: scores (n,) or (n, K), along like the scores, targets (n,): -1 or +1, numbers, or class indices 0 .. K - 1;
# e half the width of the tube; t a step along.

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
    """Return the sum of max(0, 1 - y (s + t d)), and its right-hand derivative by t."""
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
    """Return the sum of max(0, |s + t d - y| - e), and its right-hand derivative by t."""
    losses, derivative = 0.0, 0.0
    for i in range(scores.shape[0]):
        residual = scores[i] + t * along[i] - targets[i]
        losses += max(0.0, abs(residual) - half_width)
        derivative += _tube_slope(residual, along[i], half_width) * along[i]
    return losses, derivative


@nested_row
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
    """Return the sum of max_c ([c != y] + s_c - s_y) at s + t d, and its right-hand derivative by t."""
    losses, derivative = 0.0, 0.0
    for i in range(scores.shape[0]):
        true = int(targets[i])
        worst = worst_class(scores[i], along[i], true, t)
        if worst != true:
            speed = along[i, worst] - along[i, true]
            losses += max(0.0, 1.0 + scores[i, worst] - scores[i, true] + t * speed)
            derivative += speed
    return losses, derivative


@nested_row
def worst_class(scores: FloatArray, along: FloatArray, true: int, t: float) -> int:
    """Return the class of the largest line; of lines as large as each other, the one that grows fastest."""
    worst, most, fastest = true, 0.0, 0.0
    for c in range(scores.shape[0]):
        if c != true:
            speed = along[c] - along[true]
            value = 1.0 + scores[c] - scores[true] + t * speed
            if value > most + ON_KINK or (value >= most - ON_KINK and speed > fastest):
                worst, most, fastest = c, max(value, most), speed
    return worst


# Exact line search: the minimum of a piecewise quadratic.
#
# Along a direction the losses of rows are piecewise linear in the step t, and the regulariser is one parabola. The
# derivative slope + curvature t + (jumps of the kinks passed) never falls, so that the minimum is found by selection,
# as a median is: in time proportional to the kinks, without sorting them.
#
# A row that stands on a kink has passed it already, in the derivative at 0 as here: it must not count twice.
#
# Legend: positions, jumps (at least as long as there are kinks) of the kinks at t > 0; scores, along, targets as in
# `piecewise`; slope the derivative of the parabola at 0, curvature its second one; weights (n,) of the rows' jumps, or
# (0,) for 1, which are not in the derivative.


@compiled
def hinge_kinks(
    positions: FloatArray,
    jumps: FloatArray,
    scores: FloatArray,
    along: FloatArray,
    targets: FloatArray,
    weights: FloatArray,
    slope: float,
    curvature: float,
    longest: float,
    scale: float,
) -> tuple[int, float]:
    """Overwrite positions and jumps by the kinks of scale * sum_i max(0, 1 - y_i (s_i + t d_i)) that may matter.

    Returns their number, and the right-hand derivative of the whole at t = 0.
    """
    total = slope + scale * hinge_line(scores, along, targets, 0.0)[1]
    limit, count = _limit(total, curvature, longest), 0
    for i in range(scores.shape[0]):
        speed = targets[i] * along[i]
        room = 1.0 - targets[i] * scores[i]
        # written whether it matters or not, and then over: a branch here is as good as random
        positions[count] = room / speed
        jumps[count] = (scale * weights[i] if weights.shape[0] else scale) * abs(speed)
        count += int((speed * room > 0.0) & (abs(room) > ON_KINK) & (abs(room) < limit * abs(speed)))
    return count, total


@compiled
def tube_kinks(
    positions: FloatArray,
    jumps: FloatArray,
    scores: FloatArray,
    along: FloatArray,
    targets: FloatArray,
    weights: FloatArray,
    half_width: float,
    slope: float,
    curvature: float,
    longest: float,
    scale: float,
) -> tuple[int, float]:
    """Return the same for scale * sum_i max(0, |s_i + t d_i - y_i| - e): two kinks a row at most."""
    total = slope + scale * tube_line(scores, along, targets, half_width, 0.0)[1]
    limit, count = _limit(total, curvature, longest), 0
    for i in range(scores.shape[0]):
        speed = abs(along[i])
        if speed > 0.0:
            behind = (scores[i] - targets[i]) * (1.0 if along[i] > 0.0 else -1.0)
            for edge in (-half_width, half_width):
                if ON_KINK < edge - behind < limit * speed:
                    positions[count] = (edge - behind) / speed
                    jumps[count] = (scale * weights[i] if weights.shape[0] else scale) * speed
                    count += 1
    return count, total


@compiled
def classes_kinks(
    positions: FloatArray,
    jumps: FloatArray,
    scores: FloatArray,
    along: FloatArray,
    targets: FloatArray,
    weights: FloatArray,
    slope: float,
    curvature: float,
    longest: float,
    scale: float,
) -> tuple[int, float]:
    """Return the same for scale * sum_i max_c ([c != y_i] + s_ic - s_iy) along d: K - 1 kinks a row at most."""
    total = slope + scale * classes_line(scores, along, targets, 0.0)[1]
    limit, count = _limit(total, curvature, longest), 0
    for i in range(scores.shape[0]):
        true, n_classes = int(targets[i]), scores.shape[1]
        at, top = worst_class(scores[i], along[i], true, 0.0), 0.0
        for _ in range(n_classes):
            top, following = _next_line(scores[i], along[i], true, at)
            if following < 0 or top >= limit:
                break
            if top > 0.0:
                positions[count] = top
                jumps[count] = (scale * weights[i] if weights.shape[0] else scale) * (
                    along[i, following] - along[i, at]
                )
                count += 1
            at = following
    return count, total


@nested_row
def _limit(total: float, curvature: float, longest: float) -> float:
    # the losses' derivative never falls: beyond this the whole rises
    return min(longest, -total / curvature) if curvature > 0.0 else longest


@nested_row
def _next_line(scores: FloatArray, along: FloatArray, true: int, at: int) -> tuple[float, int]:
    """Return where a steeper line first overtakes line `at`, and which; class -1 if none does."""
    top, following, steepest = math.inf, -1, along[at]
    value = scores[at] - scores[true] + (0.0 if at == true else 1.0)
    for c in range(scores.shape[0]):
        if along[c] > along[at]:
            lead = value - (scores[c] - scores[true] + (0.0 if c == true else 1.0))
            cross = max(0.0, lead / (along[c] - along[at]))
            if cross < top or (cross == top and along[c] > steepest):
                top, following, steepest = cross, c, along[c]
    return top, following


@compiled
def least_step(
    positions: FloatArray, jumps: FloatArray, count: int, slope: float, curvature: float, longest: float
) -> float:
    """Reorder positions and jumps; the step in [0, longest] where slope + curvature t + jumps passed changes sign."""
    if slope >= 0.0:
        return 0.0
    # what is left of a flat piece's derivative is rounding: the kink behind it is the end of it
    first, last, passed, state = 0, count, slope, 12345
    while first < last:
        # a drawn pivot: no order of kinks is a bad one
        state = (state * 1103515245 + 12345) % 2147483648
        pivot = positions[first + state % (last - first)]
        below, above, left, equal = _part(positions, jumps, first, last, pivot)
        before = passed + left + curvature * pivot
        if before >= 0.0:
            last, longest = below, min(pivot, longest)
        elif before + equal >= 0.0:
            return float(min(pivot, longest))
        else:
            first = above
            passed += left + equal
    return float(min(-passed / curvature, longest)) if curvature > 0.0 else longest


@nested_row
def _part(
    positions: FloatArray, jumps: FloatArray, first: int, last: int, pivot: float
) -> tuple[int, int, float, float]:
    """Move values below the pivot to the front, those above to the end; return both borders, the jumps below and at."""
    below, place, above, left, equal = first, first, last, 0.0, 0.0
    while place < above:
        position = positions[place]
        if position < pivot:
            left += jumps[place]
            _swap(positions, jumps, below, place)
            below += 1
            place += 1
        elif position > pivot:
            above -= 1
            _swap(positions, jumps, above, place)
        else:
            equal += jumps[place]
            place += 1
    return below, above, left, equal


@nested_row
def _swap(positions: FloatArray, jumps: FloatArray, one: int, other: int) -> None:
    positions[one], positions[other] = positions[other], positions[one]
    jumps[one], jumps[other] = jumps[other], jumps[one]


# The two reads of the rows in an iteration of a cutting-plane method, summed in float64.
#
# Legend: Z rows (m, n), float32 or float64; W weights and G sums (n,) of one output or (K, n) of several; scores and
# slopes (m,) or (m, K).


@compiled_sum
def score_rows(scores: FloatArray, rows: FloatArray, weights: FloatArray) -> None:
    """Overwrite scores (m,) by <w, z_i>."""
    for i in range(rows.shape[0]):
        row, total = rows[i], 0.0
        for j in range(row.shape[0]):
            total += row[j] * weights[j]
        scores[i] = total


@compiled_sum
def score_rows_of_classes(scores: FloatArray, rows: FloatArray, weights: FloatArray) -> None:
    """Overwrite scores (m, K) by <w_k, z_i>."""
    for i in range(rows.shape[0]):
        row = rows[i]
        for k in range(weights.shape[0]):
            total = 0.0
            for j in range(row.shape[0]):
                total += row[j] * weights[k, j]
            scores[i, k] = total


@compiled
def add_sloped_rows(sums: FloatArray, rows: FloatArray, slopes: FloatArray) -> None:
    """Add the sum of slope_i z_i to sums (n,), eight rows at once in their order; rows of slope 0 are not read."""
    held, places = 0, np.empty(8, dtype=np.int64)
    for i in range(rows.shape[0]):
        if slopes[i] != 0.0:
            places[held] = i
            held += 1
            if held == 8:
                _add_eight(sums, rows, slopes, places)
                held = 0
    for k in range(held):
        row, slope = rows[places[k]], slopes[places[k]]
        for j in range(sums.shape[0]):
            sums[j] += slope * row[j]


@nested_row
def _add_eight(sums: FloatArray, rows: FloatArray, slopes: FloatArray, places: IntArray) -> None:
    # sums are read and written once for all of them, which otherwise takes longer than the rows
    a, b, c, d = rows[places[0]], rows[places[1]], rows[places[2]], rows[places[3]]
    e, f, g, h = rows[places[4]], rows[places[5]], rows[places[6]], rows[places[7]]
    of_a, of_b, of_c, of_d = slopes[places[0]], slopes[places[1]], slopes[places[2]], slopes[places[3]]
    of_e, of_f, of_g, of_h = slopes[places[4]], slopes[places[5]], slopes[places[6]], slopes[places[7]]
    for j in range(sums.shape[0]):
        first = (of_a * a[j] + of_b * b[j]) + (of_c * c[j] + of_d * d[j])
        second = (of_e * e[j] + of_f * f[j]) + (of_g * g[j] + of_h * h[j])
        sums[j] += first + second


@compiled
def add_sloped_rows_of_classes(sums: FloatArray, rows: FloatArray, slopes: FloatArray) -> None:
    """Add the sums of slope_ik z_i to sums (K, n), in the order of the rows; rows of slopes 0 are not read."""
    for i in range(rows.shape[0]):
        for k in range(slopes.shape[1]):
            slope = slopes[i, k]
            if slope != 0.0:
                row = rows[i]
                for j in range(sums.shape[1]):
                    sums[k, j] += slope * row[j]
