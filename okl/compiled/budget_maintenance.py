"""Budget maintenance by projection and by merging: BPA, Projectron, BSGD and twin vectors."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from okl.compiled.budget import (
    ADDED,
    COUNT,
    LABEL,
    NUMBER,
    SCALE,
    BudgetRule,
    RowResult,
    SupportArrays,
    copy_support,
    drop_support,
    grow_root,
    inverse_diagonal,
    learns_by,
    mistake_step,
    multiply_matrix,
    project_row_onto_supports,
    put_support,
    replace_in_root,
    shrink_root,
    used_width,
)
from okl.compiled.jit import compiled_row, nested_row, nested_step
from okl.compiled.kernels import KernelRule, kernel_row, kernel_self
from okl.compiled.math import exp_negative
from okl.compiled.sgd import ROWS, THRESHOLDED_HALF_SQUARED, UPDATES
from okl.foundation.types import Doubles, FloatArray, Integers

# Merging of two support vectors of a Gaussian kernel into one point on the line between them.
#
# a_m k(x_m, .) + a_j k(x_j, .) is replaced by a_z k(z, .) with z = h x_m + (1 - h) x_j. The best coefficients for it,
# a_z = p a_m + q a_j with p = k(x_m, z) = k^((1-h)^2), q = k(x_j, z) = k^(h^2), k = k(x_m, x_j), lose
#
#   |a_m|^2 + |a_j|^2 + 2 k <a_m, a_j> - F(h),   F(h) = |a_m|^2 p^2 + 2 <a_m, a_j> p q + |a_j|^2 q^2,
#
# so that three numbers a pair, and the logarithm of k, decide; a has one entry a class. F(h) - F(1 - h) = (|a_j|^2 -
# |a_m|^2) (q^2 - p^2): with |a_m| <= |a_j|, as everywhere here, the best h is in [0, 1/2].
#
# Source: Wang, Crammer & Vucetic, JMLR 13, 2012, the section on merging.

CLEARLY = 1.0 + 1e-12  # what a later candidate must be better by: less is rounding
LEAST_LOG = -700.0  # of k: below it p would underflow
# functions below take h, the logarithm of k, and m, both, j for |a_m|^2, <a_m, a_j>, |a_j|^2; m <= j


@nested_row
def _exp(x: float) -> float:
    # a function of its own: numba warns where exp_negative is written into an expression twice
    value: float = exp_negative(x)  # type: ignore[no-untyped-call]
    return value


@nested_row
def kernel_power(log: float, h: float) -> float:
    """Return k^(h^2), the kernel value of two points at the share h of the distance between x_m and x_j."""
    return _exp(max(log, LEAST_LOG) * h * h)


@nested_row
def _gain(h: float, log: float, m: float, both: float, j: float) -> float:
    """Return F(h)."""
    p, q = _exp(log * (1.0 - h) * (1.0 - h)), _exp(log * h * h)
    return m * p * p + 2.0 * both * p * q + j * q * q


@nested_row
def _slope(h: float, log: float, m: float, both: float, j: float) -> float:
    """Return F'(h) / 2."""
    g = 1.0 - h
    p, q = _exp(log * g * g), _exp(log * h * h)
    dp, dq = -2.0 * log * g * p, 2.0 * log * h * q
    return m * p * dp + both * (dp * q + p * dq) + j * q * dq


@nested_row
def _bend(h: float, log: float, m: float, both: float, j: float) -> float:
    """Return F''(h) / 2."""
    g = 1.0 - h
    p, q = _exp(log * g * g), _exp(log * h * h)
    dp, dq = -2.0 * log * g * p, 2.0 * log * h * q
    ddp, ddq = (4.0 * log * g * g + 2.0) * log * p, (4.0 * log * h * h + 2.0) * log * q
    return m * (dp * dp + p * ddp) + both * (ddp * q + 2.0 * dp * dq + p * ddq) + j * (dq * dq + q * ddq)


@nested_row
def _grid_place(log: float, m: float, both: float, j: float) -> float:
    """Return the best of h = 0, 1/8, .., 1/2, the least on a tie: all k^(i^2 / 64) by products of one exponential."""
    q1 = _exp(log * (1.0 / 64.0))
    square = q1 * q1
    odd3 = square * q1
    odd5, odd7 = odd3 * square, odd3 * square * square
    q2 = q1 * odd3
    q3 = q2 * odd5
    q4 = q3 * odd7
    fourth = square * square
    q5 = q4 * odd7 * square
    q6 = q5 * odd7 * fourth
    q7 = q6 * odd7 * fourth * square
    q8 = q4 * q4 * q4 * q4
    h, best = 0.0, m * q8 * q8 + 2.0 * both * q8 + j
    gain = m * q7 * q7 + 2.0 * both * q7 * q1 + j * q1 * q1
    h = 0.125 if gain > best * CLEARLY else h
    best = max(best, gain)
    gain = m * q6 * q6 + 2.0 * both * q6 * q2 + j * q2 * q2
    h = 0.25 if gain > best * CLEARLY else h
    best = max(best, gain)
    gain = m * q5 * q5 + 2.0 * both * q5 * q3 + j * q3 * q3
    h = 0.375 if gain > best * CLEARLY else h
    best = max(best, gain)
    gain = (m + 2.0 * both + j) * q4 * q4
    return 0.5 if gain > best * CLEARLY else h


@compiled_row
def merging_losses(lost: Doubles, places: Doubles, logs: Doubles, m: float, both: Doubles, squares: Doubles) -> None:
    """Overwrite lost (width,) by what merging a support with each other one loses, places (width,) by its h.

    The best of a grid and two of Newton's steps, one loop each, so that all use vectors: exact to 1e-5 |a_m|^2, but for
    3e-4 where F is flat, at k about e^-2 and coefficients of about one size.

    logs, both, squares : (width,) log k, <a_m, a_j> and |a_j|^2 of each; m : |a_m|^2
    """
    n = lost.shape[0]
    for i in range(n):
        places[i] = _grid_place(max(logs[i], LEAST_LOG), m, both[i], squares[i])
    for _ in range(2):
        for i in range(n):
            h, log = places[i], max(logs[i], LEAST_LOG)
            slope = _slope(h, log, m, both[i], squares[i])
            bend = _bend(h, log, m, both[i], squares[i])
            step = -slope / bend if bend < 0.0 else 0.0
            places[i] = min(0.5, max(0.0, h + min(0.125, max(-0.125, step))))
    for i in range(n):
        log = max(logs[i], LEAST_LOG)
        gain = _gain(places[i], log, m, both[i], squares[i])
        lost[i] = m + squares[i] + 2.0 * _exp(log) * both[i] - gain


@compiled_row
def best_place(log: float, m: float, both: float, j: float) -> float:
    """Return the h of largest F(h) to full precision.

    Newton's steps from the best of the grid, halving where they leave.
    """
    log = max(log, LEAST_LOG)
    h = _grid_place(log, m, both, j)
    low, high = max(0.0, h - 0.125), min(0.5, h + 0.125)
    if _slope(low, log, m, both, j) <= 0.0:
        return low
    if _slope(high, log, m, both, j) >= 0.0:
        return high
    for _ in range(60):
        slope, bend = _slope(h, log, m, both, j), _bend(h, log, m, both, j)
        if slope > 0.0:
            low = h
        else:
            high = h
        after = h - slope / bend if bend < 0.0 else low
        if not low < after < high:
            after = 0.5 * (low + high)
        if math.fabs(after - h) <= 1e-15:
            return after
        h = after
    return h


# Budgeted passive-aggressive learning: the other support vectors compensate for a removed one.
#
# A row with hinge loss l takes the step tau = min(C, l / (k(x, x) |direction|^2)), direction being +-1 for two
# classes, +1 and -1 for the true and the best wrong class of several. When the budget is full, a support r is
# replaced by its projection onto the span of some helpers, the row among them, r being the one that this changes
# least:
#
#   |a_r|^2 |k(x_r, .) - sum_i beta_i k(x_i, .)|^2,    a_i <- a_i + beta_i a_r
#
# The score of the row is the same whichever goes, so that the loss after the step need not be looked at. Helpers are
# the row alone (simple), the row and r's nearest neighbour (nearest), or all others (projection).
#
# Legend: a coefficients, all classes of them; t the row; beta coefficients of a projection.


class SimplePassive(NamedTuple):
    """Numbers of BPA-S; aggressiveness : C, the longest step."""

    aggressiveness: float


class NearestPassive(NamedTuple):
    """Numbers of BPA-NN, as of BPA-S."""

    aggressiveness: float


class ProjectingPassive(NamedTuple):
    """Numbers of BPA-P, as of BPA-S."""

    aggressiveness: float


@nested_row
def passive_step(seen: RowResult, own: float, aggressiveness: float) -> float:
    """Return the coefficient of a row of k(x, x) = own > 0, 0 for none; signed as y.

    Source: Crammer et al., JMLR 7, 2006, equation (PA-I) and section 8 for several classes.
    """
    loss = 1.0 - seen.margin
    if loss <= 0.0 or own <= 0.0:
        return 0.0
    if seen.wrong >= 0:
        return min(aggressiveness, loss / (2.0 * own))
    return seen.y * min(aggressiveness, loss / own)


@nested_row
def square_norms(squares: Doubles, coefficients: FloatArray) -> None:
    """Overwrite squares (width,) by |a|^2 of the first supports."""
    squares[:] = 0.0
    for c in range(coefficients.shape[0]):
        a = coefficients[c]
        for i in range(squares.shape[0]):
            squares[i] += float(a[i]) * float(a[i])


@nested_row
def cheapest(costs: Doubles, marks: Integers, count: int) -> int:
    """Return the support of least cost, the oldest of those that are equal up to rounding."""
    least = costs[0]
    for i in range(1, count):
        least = min(least, costs[i])
    slot = -1
    for i in range(count):
        if costs[i] <= least * CLEARLY and (slot < 0 or marks[NUMBER, i] < marks[NUMBER, slot]):
            slot = i
    return slot


@nested_row
def costs_of_removal(costs: Doubles, selves: Doubles, coefficients: FloatArray, row: FloatArray, own: float) -> None:
    """Overwrite costs (width,) by |a|^2 (k(s, s) - k(s, x)^2 / own), what replacing a support s by the row costs."""
    square_norms(costs, coefficients)
    for i in range(costs.shape[0]):
        k = float(row[i])
        costs[i] *= max(0.0, selves[i] - k * k / own)


@learns_by(SimplePassive)
def learn_bpa_simple(
    state: SupportArrays, rule: BudgetRule, settings: SimplePassive, x: FloatArray, seen: RowResult
) -> None:
    """Learn a row, state changes in place; memory : (2, capacity), k(s, s) of the supports and a buffer for costs.

    Source: Wang & Vucetic, AISTATS 2010, sections 3.1 and 3.2 (BPA-S).
    """
    memory, row = state.memory, state.row
    if seen.margin >= 1.0:
        return
    own = kernel_self(x, rule.kernel)
    step = passive_step(seen, own, settings.aggressiveness)
    if step == 0.0:
        return
    count = state.integers[COUNT]
    slot, share = count, 0.0
    if count == rule.budget:
        width = used_width(count)
        costs_of_removal(memory[1, :width], memory[0, :width], state.coefficients[:, :width], row[:width], own)
        slot = cheapest(memory[1], state.marks, count)
        share = float(row[slot]) / own
    put_support(state, x, slot, seen, step, share)
    memory[0, slot] = own
    state.counts[UPDATES] += 1


@compiled_row
def remember_squared_norms(state: SupportArrays, rule: BudgetRule, settings: Any) -> None:
    """Write k(s, s) of all supports to the first row of memory; state changes in place."""
    for slot in range(state.integers[COUNT]):
        copy_support(state, slot)
        state.memory[0, slot] = kernel_self(state.column, rule.kernel)


@compiled_row
def drop_lightest(state: SupportArrays, rule: BudgetRule, settings: Any) -> None:
    """Drop the supports of least |a|^2 k(s, s) until the budget is met, oldest first; state changes in place."""
    memory = state.memory
    while state.integers[COUNT] > rule.budget:
        count = state.integers[COUNT]
        slot = least_norm(memory[1], memory[0], state.coefficients, state.marks, count, False)
        memory[0, slot] = memory[0, count - 1]
        drop_support(state, slot)


@nested_row
def least_norm(
    norms: Doubles, selves: Doubles, coefficients: FloatArray, marks: Integers, count: int, newest: bool
) -> int:
    """Overwrite norms by |a|^2; the support of least |a|^2 k(s, s), the newest or the oldest of those that tie."""
    width = used_width(count)
    square_norms(norms[:width], coefficients[:, :width])
    slot, least = 0, norms[0] * selves[0]
    for i in range(1, count):
        norm = norms[i] * selves[i]
        tie = norm == least and (marks[NUMBER, i] > marks[NUMBER, slot]) == newest
        if norm < least or tie:
            slot, least = i, norm
    return slot


# BPA-NN: the removed support vector is projected onto the row and its nearest neighbour.
#
# Every support knows its nearest neighbour, the one of least |k(s, .) - k(s', .)|, the oldest on a tie; after a
# change only supports that lost theirs look for another. O(budget) for a row but for those, of which there is about
# one.

NEIGHBOUR_SELVES, NEAREST, DISTANCES, VALUES, NEIGHBOUR_COSTS = 0, 1, 2, 3, 4  # rows of memory
NOBODY = -1.0
ALIKE = 1e-12  # relative determinant of two helpers below which they are one


@learns_by(NearestPassive)
def learn_bpa_nearest(
    state: SupportArrays, rule: BudgetRule, settings: NearestPassive, x: FloatArray, seen: RowResult
) -> None:
    """Learn a row; state changes in place.

    memory : (5, capacity): k(s, s), slot of the nearest neighbour, squared distance to it, k(s, it), a buffer

    Source: Wang & Vucetic, AISTATS 2010, section 3 (BPA-NN).
    """
    coefficients, memory, row = state.coefficients, state.memory, state.row
    own = kernel_self(x, rule.kernel)
    step = passive_step(seen, own, settings.aggressiveness)
    if step == 0.0:
        return
    count = state.integers[COUNT]
    slot, of_row = count, 0.0
    if count == rule.budget:
        slot = cheapest_with_helpers(memory, coefficients, state.marks, row, own, count)
        of_row, of_nearest, _ = shares_of_helpers(memory, row, slot, own)
        nearest = int(memory[NEAREST, slot])
        if nearest >= 0:
            for c in range(coefficients.shape[0]):
                coefficients[c, nearest] += of_nearest * coefficients[c, slot]
    put_support(state, x, slot, seen, step, of_row)
    memory[NEIGHBOUR_SELVES, slot] = own
    update_nearest(memory, row, slot, state.integers[COUNT])
    find_lost_neighbours(state, rule.kernel)
    state.counts[UPDATES] += 1


@nested_row
def shares_of_helpers(memory: Doubles, row: FloatArray, slot: int, own: float) -> tuple[float, float, float]:
    """Return the projection of a support onto row and nearest neighbour: both coefficients, and squared distance."""
    with_row, square = float(row[slot]), memory[NEIGHBOUR_SELVES, slot]
    nearest = int(memory[NEAREST, slot])
    if nearest >= 0:
        with_nearest, between, other = memory[VALUES, slot], float(row[nearest]), memory[NEIGHBOUR_SELVES, nearest]
        determinant = own * other - between * between
        if determinant > ALIKE * own * other:
            of_row = (with_row * other - with_nearest * between) / determinant
            of_nearest = (with_nearest * own - with_row * between) / determinant
            return of_row, of_nearest, max(0.0, square - of_row * with_row - of_nearest * with_nearest)
    return with_row / own, 0.0, max(0.0, square - with_row * with_row / own)


@nested_row
def cheapest_with_helpers(
    memory: Doubles, coefficients: FloatArray, marks: Integers, row: FloatArray, own: float, count: int
) -> int:
    """Return the support whose replacement by row and nearest neighbour costs least, the oldest on a tie."""
    width = used_width(count)
    square_norms(memory[NEIGHBOUR_COSTS, :width], coefficients[:, :width])
    for i in range(count):
        memory[NEIGHBOUR_COSTS, i] *= shares_of_helpers(memory, row, i, own)[2]
    return cheapest(memory[NEIGHBOUR_COSTS], marks, count)


@nested_row
def update_nearest(memory: Doubles, row: FloatArray, slot: int, count: int) -> None:
    """Update nearest neighbours after `row` became the kernel row of the support at a slot."""
    memory[DISTANCES, slot] = math.inf
    memory[NEAREST, slot] = NOBODY
    for i in range(count):
        if i == slot:
            continue
        if memory[NEAREST, i] == slot:
            memory[DISTANCES, i] = math.inf
            memory[NEAREST, i] = NOBODY
            continue
        value = float(row[i])
        distance = memory[NEIGHBOUR_SELVES, i] + memory[NEIGHBOUR_SELVES, slot] - 2.0 * value
        if distance < memory[DISTANCES, i]:
            memory[DISTANCES, i], memory[NEAREST, i], memory[VALUES, i] = distance, slot, value


@nested_step
def find_lost_neighbours(state: SupportArrays, kernel: KernelRule) -> None:
    """Find the nearest neighbour of every support that has none; memory, spare and column change in place."""
    memory, marks, count = state.memory, state.marks, state.integers[COUNT]
    values = state.spare[: used_width(count)]
    for slot in range(count):
        if memory[NEAREST, slot] != NOBODY or count == 1:
            continue
        copy_support(state, slot)
        kernel_row(values, state.supports, state.column, kernel)
        nearest, least = -1, math.inf
        for i in range(count):
            distance = memory[NEIGHBOUR_SELVES, i] + memory[NEIGHBOUR_SELVES, slot] - 2.0 * float(values[i])
            older = distance == least and marks[NUMBER, i] < marks[NUMBER, nearest]
            if i != slot and (distance < least or older):
                nearest, least = i, distance
        memory[NEAREST, slot], memory[DISTANCES, slot] = nearest, least
        memory[VALUES, slot] = float(values[nearest])


@compiled_row
def remember_neighbours(state: SupportArrays, rule: BudgetRule, settings: Any) -> None:
    """Compute memory from the supports; state changes in place."""
    remember_squared_norms(state, rule, settings)
    state.memory[NEAREST, :] = NOBODY
    find_lost_neighbours(state, rule.kernel)


@compiled_row
def remove_to_neighbours(state: SupportArrays, rule: BudgetRule, settings: NearestPassive) -> None:
    """Project the cheapest support onto its nearest neighbour until the budget is met; state changes in place."""
    coefficients, memory = state.coefficients, state.memory
    while state.integers[COUNT] > rule.budget:
        count = state.integers[COUNT]
        width = used_width(count)
        square_norms(memory[NEIGHBOUR_COSTS, :width], coefficients[:, :width])
        for i in range(count):
            other = memory[NEIGHBOUR_SELVES, int(memory[NEAREST, i])]
            share = memory[VALUES, i] / other if other > 0.0 else 0.0
            memory[NEIGHBOUR_COSTS, i] *= max(0.0, memory[NEIGHBOUR_SELVES, i] - share * memory[VALUES, i])
        slot = cheapest(memory[NEIGHBOUR_COSTS], state.marks, count)
        nearest = int(memory[NEAREST, slot])
        other = memory[NEIGHBOUR_SELVES, nearest]
        for c in range(coefficients.shape[0]):
            coefficients[c, nearest] += memory[VALUES, slot] / other * coefficients[c, slot] if other > 0.0 else 0.0
        forget_neighbour(memory, slot, count)
        drop_support(state, slot)
        find_lost_neighbours(state, rule.kernel)


@nested_row
def forget_neighbour(memory: Doubles, slot: int, count: int) -> None:
    """Take a slot out of memory, the last one of `count` moving there; who had it as neighbour has none."""
    last = count - 1
    for k in range(NEIGHBOUR_COSTS):
        memory[k, slot] = memory[k, last]
    for i in range(last):
        if memory[NEAREST, i] == slot:
            memory[NEAREST, i] = NOBODY
        elif memory[NEAREST, i] == last:
            memory[NEAREST, i] = slot


# Projectron and Projectron++: when the budget is full, the projection of a row onto the span of the supports is
# added.
#
# A row closer to the span than `dependence` of its own square norm is projected before the budget is full, too: as a
# support it would add nothing but a singular kernel matrix.


class Projection(NamedTuple):
    """Numbers of Projectron; widens : above 0 for Projectron++, which learns rows of a margin below 1."""

    step_size: float
    widens: float


@nested_row
def dependence_of(supports: FloatArray) -> float:
    """Return the share of k(x, x) up to which the squared distance of a row to the span counts as none."""
    return 1e-5 if supports.itemsize == 4 else 1e-10


@nested_row
def add_projection(coefficients: FloatArray, place: Doubles, seen: RowResult, factor: float) -> None:
    """Add factor * place (width,) to the coefficients of the row's output, and take it from the best wrong class."""
    right = coefficients[seen.output]
    for i in range(place.shape[0]):
        right[i] += factor * place[i]
    if seen.wrong >= 0:
        wrong = coefficients[seen.wrong]
        for i in range(place.shape[0]):
            wrong[i] -= factor * place[i]


@learns_by(Projection)
def learn_projectron(
    state: SupportArrays, rule: BudgetRule, settings: Projection, x: FloatArray, seen: RowResult
) -> None:
    """Learn a row; state changes in place.

    memory : (1 + capacity, capacity), a buffer for a projection and the root of the inverse of the kernel matrix

    Source: Orabona, Keshet & Caputo, JMLR 10, 2009, sections 3 (Projectron) and 4 (Projectron++).
    """
    coefficients, memory = state.coefficients, state.memory
    kernel, code, epsilon, budget = rule
    count, root = state.integers[COUNT], memory[1:]
    step = mistake_step(code, epsilon, settings.step_size, seen)
    if step == 0.0:
        widens = settings.widens > 0.0 and code != THRESHOLDED_HALF_SQUARED
        if not (widens and seen.margin < 1.0 and count > 0):
            return
    place = memory[0, : used_width(count)]
    length, own = project_row_onto_supports(place, root, state.row, count, False), kernel_self(x, kernel)
    left = max(0.0, own - length)
    if step == 0.0:
        step = margin_step(seen, length, left, norm_within_reach(budget))
        if step == 0.0:
            return
        add_projection(coefficients, place, seen, step)
    elif count == budget or left <= dependence_of(state.supports) * own:
        add_projection(coefficients, place, seen, step)
    else:
        grow_root(root, place, left, count)
        put_support(state, x, count, seen, step)
    state.counts[UPDATES] += 1


@nested_row
def norm_within_reach(budget: int) -> float:
    """Return U, the largest norm of the functions that a budget competes with."""
    return 0.25 * math.sqrt((budget + 1) / math.log(budget + 1))


@nested_row
def margin_step(seen: RowResult, length: float, left: float, comparator: float) -> float:
    """Return the coefficient of the projection of a row that is right with too small a margin, 0 for none; signed as y.

    loss = 1 - margin, tau = min(loss / length, 1), taken where 2 loss - tau length - 2 U sqrt(left) >= 0: where the
    bound on the distance to every function of norm U falls.
    """
    loss = 1.0 - seen.margin
    if length <= 0.0:
        return 0.0
    tau = min(loss / length, 1.0)
    if 2.0 * loss - tau * length - 2.0 * comparator * math.sqrt(left) < 0.0:
        return 0.0
    return -tau if seen.wrong < 0 and seen.y < 0.0 else tau


@compiled_row
def project_excess(state: SupportArrays, rule: BudgetRule, settings: Any) -> None:
    """Keep the first supports up to the budget, and the projections of the others; state changes in place.

    memory is made anew; memory as in `learn_projectron`.
    """
    supports, coefficients, marks = state.supports, state.coefficients, state.marks
    memory, integers, row = state.memory, state.integers, state.row
    kernel, _, _, budget = rule
    buffer, root, dependence = memory[0], memory[1:], dependence_of(supports)
    root[:, :] = 0.0
    kept_so_far = 0
    for slot in range(integers[COUNT]):
        copy_support(state, slot)
        column, width = state.column, used_width(kept_so_far)
        kernel_row(row[:width], supports, column, kernel)
        length = project_row_onto_supports(buffer[:width], root, row, kept_so_far, False)
        own = kernel_self(column, kernel)
        left = max(0.0, own - length)
        if kept_so_far == budget or left <= dependence * own:
            spread(coefficients, buffer, slot, kept_so_far)
        else:
            grow_root(root, buffer, left, kept_so_far)
            for j in range(column.shape[0]):
                supports[j, kept_so_far] = column[j]
            for c in range(coefficients.shape[0]):
                coefficients[c, kept_so_far] = coefficients[c, slot]
            for k in range(marks.shape[0]):
                marks[k, kept_so_far] = marks[k, slot]
            kept_so_far += 1
    for slot in range(kept_so_far, integers[COUNT]):
        supports[:, slot] = 0
        coefficients[:, slot] = 0
        marks[:, slot] = 0
    integers[COUNT] = kept_so_far


@nested_row
def spread(coefficients: FloatArray, place: Doubles, slot: int, count: int) -> None:
    """Add the projection of the support at a slot >= count to the first `count` ones; its own coefficients become 0."""
    for c in range(coefficients.shape[0]):
        value = float(coefficients[c, slot])
        for i in range(count):
            coefficients[c, i] += value * place[i]
        coefficients[c, slot] = 0


# BPA-P: the removed support vector is projected onto all others and the row.
#
# What removing support r costs is |a_r|^2 / G_rr, G the inverse of the kernel matrix of supports and row: 1 / G_rr is
# the squared distance of k(x_r, .) to the span of the others. A row closer to the span of the supports than
# `dependence` of its own square norm is never a support: its step is spread over them, which loses nothing.


@learns_by(ProjectingPassive)
def learn_bpa_projection(
    state: SupportArrays, rule: BudgetRule, settings: ProjectingPassive, x: FloatArray, seen: RowResult
) -> None:
    """Learn a row; state changes in place.

    memory : (3 + capacity, capacity), a buffer for a projection, the root of the inverse of the kernel matrix, two more

    Source: Wang & Vucetic, AISTATS 2010, section 3 (BPA-P).
    """
    coefficients, memory, count = state.coefficients, state.memory, state.integers[COUNT]
    root, costs, shares = memory[1:], memory[memory.shape[0] - 2], memory[memory.shape[0] - 1]
    own = kernel_self(x, rule.kernel)
    step = passive_step(seen, own, settings.aggressiveness)
    if step == 0.0:
        return
    place = memory[0, : used_width(count)]
    left = own - project_row_onto_supports(place, root, state.row, count, True)
    if left <= dependence_of(state.supports) * own:
        add_projection(coefficients, place, seen, step)
    elif count < rule.budget:
        grow_root(root, place, left, count)
        put_support(state, x, count, seen, step)
    else:
        costs_in_span(costs[: place.shape[0]], shares[: place.shape[0]], coefficients, root, place, left, count)
        slot = cheapest(costs, state.marks, count)
        replace_in_root(root, shares, place, left, slot, count)
        share_coefficients(coefficients, shares, slot, count)
        put_support(state, x, slot, seen, step, shares[slot])
    state.counts[UPDATES] += 1


@nested_row
def costs_in_span(
    costs: Doubles, diagonal: Doubles, coefficients: FloatArray, root: Doubles, place: Doubles, left: float, count: int
) -> None:
    """Overwrite costs (width,) by |a|^2 / G_rr, G being grown by a row of projection `place` and distance `left`.

    diagonal : (width,) buffer
    """
    square_norms(costs, coefficients[:, : costs.shape[0]])
    inverse_diagonal(diagonal, root, count)
    for i in range(count):
        costs[i] /= diagonal[i] + place[i] * place[i] / left


@nested_row
def share_coefficients(coefficients: FloatArray, shares: Doubles, slot: int, count: int) -> None:
    """Add shares of the coefficients at a slot to all others; its own stay as they are."""
    for c in range(coefficients.shape[0]):
        a, value = coefficients[c], float(coefficients[c, slot])
        for i in range(count):
            if i != slot:
                a[i] += shares[i] * value


@compiled_row
def remove_from_span(state: SupportArrays, rule: BudgetRule, settings: ProjectingPassive) -> None:
    """Compute the root; project the cheapest support onto the others until the budget is met; state changes."""
    coefficients, memory = state.coefficients, state.memory
    project_excess(state, BudgetRule(rule.kernel, rule.code, rule.epsilon, state.integers[COUNT]), settings)
    root, costs, shares = memory[1:], memory[memory.shape[0] - 2], memory[memory.shape[0] - 1]
    while state.integers[COUNT] > rule.budget:
        count = state.integers[COUNT]
        width = used_width(count)
        square_norms(costs[:width], coefficients[:, :width])
        inverse_diagonal(shares[:width], root, count)
        for i in range(count):
            costs[i] /= shares[i]
        slot = cheapest(costs, state.marks, count)
        shrink_root(root, shares, slot, count)
        share_coefficients(coefficients, shares, slot, count)
        drop_support(state, slot)


# Budgeted stochastic gradient descent (BSGD): Pegasos in a kernel expansion, with removal or merging of supports.
#
# Before row t = 1, 2, .. the function is f = v / (lambda (t - 1)), and 0 at first. The row changes it to (1 - 1 / t)
# f + direction / (lambda t) k(x, .) where its hinge loss is positive, direction being +-1, or +1 and -1 for the true
# and the best wrong class of several: v + direction k(x, .), whose coefficients are whole numbers until supports are
# merged. They are what coefficients holds; the scale is 1 / (lambda t).
#
# Source: Wang, Crammer & Vucetic, JMLR 13, 2012, Algorithms 1 and 2; steps of Pegasos without its projection onto a
# ball.

SELVES, NORMS, LOGS, BOTH, LOST, PLACES = 0, 1, 2, 3, 4, 5  # rows of memory; all but the first are buffers


class Removal(NamedTuple):
    """Numbers of BSGD with removal; regularisation : lambda."""

    regularisation: float


class Merging(NamedTuple):
    """Numbers of BSGD with merging; regularisation : lambda."""

    regularisation: float


@nested_step
def add_subgradient(state: SupportArrays, regularisation: float, x: FloatArray, seen: RowResult) -> bool:
    """Take the step of a row, and return whether the row became a support; state changes in place."""
    state.floats[SCALE] = 1.0 / (regularisation * state.counts[ROWS])
    if seen.margin >= 1.0:
        return False
    count, step = state.integers[COUNT], 1.0 if seen.wrong >= 0 else seen.y
    put_support(state, x, count, seen, step)
    state.counts[UPDATES] += 1
    return True


@learns_by(Removal)
def learn_bsgd_removal(
    state: SupportArrays, rule: BudgetRule, settings: Removal, x: FloatArray, seen: RowResult
) -> None:
    """Learn a row, state changes in place; memory : (2, capacity), k(s, s) of the supports and a buffer for norms.

    The support of least |a|^2 k(s, s) goes, the oldest of equals: with k(s, s) = 1 they all are. capacity > budget
    """
    count = state.integers[COUNT]
    if add_subgradient(state, settings.regularisation, x, seen):
        state.memory[SELVES, count] = kernel_self(x, rule.kernel)
        drop_lightest(state, rule, settings)


@learns_by(Merging)
def learn_bsgd_merging(
    state: SupportArrays, rule: BudgetRule, settings: Merging, x: FloatArray, seen: RowResult
) -> None:
    """Learn a row, state changes in place; memory : (6, capacity), buffers; capacity > budget.

    The support of least |a|, the newest of equals, is merged with the one where that changes f least, the first of
    equals. A kernel value of the Gaussian kernel only.
    """
    if add_subgradient(state, settings.regularisation, x, seen):
        merge_excess(state, rule, settings)


@nested_step
def merge_support(state: SupportArrays, kernel: KernelRule, slot: int) -> None:
    """Merge the support at a slot, whose |a| is the least, with the cheapest partner; norms are in memory."""
    supports, coefficients, memory = state.supports, state.coefficients, state.memory
    row, count = state.row, state.integers[COUNT]
    width = used_width(count)
    distances_of_support(row[:width], supports, slot)
    logs, both = memory[LOGS, :width], memory[BOTH, :width]
    both[:] = 0.0
    for i in range(width):
        logs[i] = -kernel.scale * float(row[i])
    for c in range(coefficients.shape[0]):
        a, own = coefficients[c], float(coefficients[c, slot])
        for i in range(width):
            both[i] += own * float(a[i])
    norms = memory[NORMS, :width]
    square = norms[slot]
    merging_losses(memory[LOST, :width], memory[PLACES, :width], logs, square, both, norms)
    partner = best_partner(memory[LOST], square, slot, count)
    place = best_place(logs[partner], square, both[partner], norms[partner])
    join_supports(supports, coefficients, slot, partner, place, logs[partner])
    drop_support(state, slot)


@nested_row
def distances_of_support(row: FloatArray, supports: FloatArray, slot: int) -> None:
    """Overwrite row (width,) by the squared distances of all supports to the one at a slot."""
    row[:] = 0
    for j in range(supports.shape[0]):
        s, v = supports[j], supports[j, slot]
        for i in range(row.shape[0]):
            row[i] += (s[i] - v) * (s[i] - v)


@nested_row
def best_partner(lost: Doubles, square: float, slot: int, count: int) -> int:
    """Return the first support with the smallest loss, without the one at slot; ties within rounding are equal."""
    partner = 1 if slot == 0 else 0
    for i in range(partner + 1, count):
        if i != slot and lost[i] < lost[partner] - square * (CLEARLY - 1.0):
            partner = i
    return partner


@nested_row
def join_supports(
    supports: FloatArray, coefficients: FloatArray, slot: int, partner: int, place: float, log: float
) -> None:
    """Overwrite the partner by the support that replaces both: z = h x_m + (1 - h) x_j, a_z = p a_m + q a_j."""
    for j in range(supports.shape[0]):
        supports[j, partner] += place * (supports[j, slot] - supports[j, partner])
    p, q = kernel_power(log, 1.0 - place), kernel_power(log, place)
    for c in range(coefficients.shape[0]):
        coefficients[c, partner] = p * coefficients[c, slot] + q * coefficients[c, partner]


@compiled_row
def merge_excess(state: SupportArrays, rule: BudgetRule, settings: Merging) -> None:
    """Merge the least support with its best partner until the budget is met; state changes in place."""
    memory, integers = state.memory, state.integers
    memory[SELVES, :] = 1.0
    while integers[COUNT] > rule.budget:
        slot = least_norm(memory[NORMS], memory[SELVES], state.coefficients, state.marks, integers[COUNT], True)
        merge_support(state, rule.kernel, slot)


# Removal and merging of twin vectors.
#
# A twin of one class that lies outside of the margin, on its own side, has a_i = 0: without it f is the minimum
# still. Where there is none, the pair goes together that moves least: the squared distance in feature space of two
# rows, summed over the pairs of rows that two twins stand for and divided by their number, as k-means joins clusters,
# rows of unlike classes counting several times:
#
#   |k(x_i, .) - k(x_j, .)|^2 (s+_i s+_j + s-_i s-_j + unlike (s+_i s-_j + s-_i s+_j)) / (s_i + s_j),   s = s+ + s-
#
# Legend as of the twin vector machine, below; n twins, the last one the newest.

POSITIVE, NEGATIVE, SOLUTION, SCORES, TWIN_COSTS, KERNEL = 0, 1, 2, 3, 4, 5  # rows of memory
IDLE = 1e-9  # share of C below which a coefficient is none: a duplicate of a support may have one of rounding alone


class Twins(NamedTuple):
    """Numbers of the twin vector machine.

    aggressiveness : C; tolerance, sweeps : of `solve_twins`; unlike : weight of pairs of unlike rows in a merge
    """

    aggressiveness: float
    tolerance: float
    sweeps: float
    unlike: float


@nested_step
def drop_excess_twin(state: SupportArrays, kernel: KernelRule, settings: Twins) -> None:
    """Remove a twin, the last one taking its slot; everything but F changes in place."""
    memory, count = state.memory, state.integers[COUNT]
    slot, first = farthest_idle(memory, settings, count), -1
    if slot < 0:
        first, slot = nearest_pair(memory, settings.unlike, count)
        merge_twins(state.supports, state.marks, memory, state.integers, first, slot)
    drop_twin(memory, slot, count)
    drop_support(state, slot)
    if first >= 0:
        copy_support(state, first)
        write_kernel_values(state, state.column, kernel, first, count - 1)


@nested_step
def write_kernel_values(state: SupportArrays, x: FloatArray, kernel: KernelRule, slot: int, count: int) -> None:
    """Write the kernel values of the support at a slot, x, with the first `count`; row and memory change."""
    memory, row = state.memory, state.row
    kernel_row(row[: used_width(count)], state.supports, x, kernel)
    for i in range(count):
        value = np.float64(row[i])
        memory[KERNEL + slot, i] = value
        memory[KERNEL + i, slot] = value


@nested_row
def farthest_idle(memory: Doubles, settings: Twins, count: int) -> int:
    """Return the twin of one class farthest beyond the margin on its own side, the first of equals.

    -1 if there is none.

    A row that has just come is inside of the margin.
    """
    slot, farthest = -1, 1.0 + settings.tolerance
    for i in range(count):
        if abs(memory[SOLUTION, i]) > IDLE * settings.aggressiveness:
            continue
        if memory[POSITIVE, i] > 0.0 and memory[NEGATIVE, i] > 0.0:
            continue
        lead = memory[SCORES, i] if memory[POSITIVE, i] > 0.0 else -memory[SCORES, i]
        if lead > farthest * CLEARLY:
            slot, farthest = i, lead
    return slot


@nested_row
def nearest_pair(memory: Doubles, unlike: float, count: int) -> tuple[int, int]:
    """Return the pair that is cheapest to merge.

    The first in order of its second twin that none after clearly undercuts.
    """
    costs, positive, negative = memory[TWIN_COSTS], memory[POSITIVE], memory[NEGATIVE]
    least, first, second = math.inf, 0, 1
    for i in range(1, count):
        values, own, p, n = memory[KERNEL + i], memory[KERNEL + i, i], positive[i], negative[i]
        clearly = ALIKE * unlike * own * (p + n)
        for j in range(i):
            q, m = positive[j], negative[j]
            weight = (p * q + n * m + unlike * (p * m + n * q)) / (p + n + q + m)
            costs[j] = weight * (own + memory[KERNEL + j, j] - 2.0 * values[j])
        for j in range(i):
            if costs[j] < least - clearly:
                least, first, second = costs[j], j, i
    return first, second


@nested_row
def merge_twins(
    supports: FloatArray, marks: Integers, memory: Doubles, integers: Integers, first: int, second: int
) -> None:
    """Overwrite the first of two twins by their mean, weighted by counts, with summed counts and coefficients.

    What summed counts allow, summed coefficients are within. A new number: none of the two is left.
    """
    p, n, q, m = memory[POSITIVE, first], memory[NEGATIVE, first], memory[POSITIVE, second], memory[NEGATIVE, second]
    share = (q + m) / (p + n + q + m)
    for j in range(supports.shape[0]):
        supports[j, first] += share * (supports[j, second] - supports[j, first])
    memory[POSITIVE, first], memory[NEGATIVE, first] = p + q, n + m
    memory[SOLUTION, first] += memory[SOLUTION, second]
    marks[LABEL, first] = 1 if p + q >= n + m else 0
    marks[NUMBER, first] = integers[ADDED]
    integers[ADDED] += 1


@nested_row
def drop_twin(memory: Doubles, slot: int, count: int) -> None:
    """Take a twin out of counts, a and K: the last one moves to its slot, and its own becomes 0."""
    last = count - 1
    for k in range(SCORES):
        memory[k, slot] = memory[k, last]
        memory[k, last] = 0.0
    for i in range(count):
        memory[KERNEL + slot, i] = memory[KERNEL + last, i]
    for i in range(count):
        memory[KERNEL + i, slot] = memory[KERNEL + i, last]
    for i in range(count):
        memory[KERNEL + last, i] = 0.0
        memory[KERNEL + i, last] = 0.0


# Twin vector machine (TVM): a support vector machine on twin vectors, solved again after every change of them.
#
# A twin vector is a place x_i and how many positive and negative rows, s+_i and s-_i, it stands for. f = sum_i a_i
# k(x_i, .) is to minimise
#
#   1/2 |f|^2 + C sum_i (s+_i max(0, 1 - f(x_i)) + s-_i max(0, 1 + f(x_i))).
#
# The dual has two coefficients a twin, in [0, C s+_i] and [0, C s-_i], of which f sees the difference a_i only. For a
# given a_i the two are best as large as can be, so that one number a twin is left: f is the minimum where for every i
#
#   a_i = C s+_i            if f(x_i) < -1,
#         C (s+_i - s-_i)   if -1 < f(x_i) < 1,
#         -C s-_i           if f(x_i) > 1,   and anything between two of these at f(x_i) = -1 and at 1.
#
# Descent in the dual takes twins in turn and puts a_i where this holds for it, the other coefficients as they are.
#
# Legend: K kernel matrix of the n twins; a their coefficients; F = K a their scores. memory : (5 + capacity,
# capacity) float64 with s+, s-, a, F and a buffer in its first rows, then K; zero beyond the twins but for F and the
# buffer.
#
# Source: Wang & Vucetic, SDM 2009; what is theirs is said in okl.solvers.online.strategies.


@learns_by(Twins)
def learn_twins(state: SupportArrays, rule: BudgetRule, settings: Twins, x: FloatArray, seen: RowResult) -> None:
    """Learn a row of two classes; state changes in place. capacity > budget."""
    memory, kernel, count = state.memory, rule.kernel, state.integers[COUNT]
    if seen.margin >= 1.0 - settings.tolerance or kernel_self(x, kernel) <= 0.0:
        return
    put_support(state, x, count, seen, 0.0)
    memory[POSITIVE, count] = 1.0 if seen.y > 0.0 else 0.0
    memory[NEGATIVE, count] = 1.0 - memory[POSITIVE, count]
    memory[SOLUTION, count] = 0.0
    write_kernel_values(state, x, kernel, count, count + 1)
    write_scores(memory, count + 1)
    if count == rule.budget:
        drop_excess_twin(state, kernel, settings)
        write_scores(memory, count)
    solve_twins(memory, settings, state.integers[COUNT])
    write_coefficients(state.coefficients, memory, state.integers[COUNT])
    state.counts[UPDATES] += 1


@nested_row
def write_scores(memory: Doubles, count: int) -> None:
    """Overwrite F by K a."""
    multiply_matrix(memory[SCORES, : used_width(count)], memory[KERNEL:], memory[SOLUTION], count)


@nested_row
def write_coefficients(coefficients: FloatArray, memory: Doubles, count: int) -> None:
    """Overwrite coefficients (1, capacity) by a, which has more digits in single precision."""
    for i in range(used_width(count)):
        coefficients[0, i] = memory[SOLUTION, i]


@compiled_row
def solve_twins(memory: Doubles, settings: Twins, count: int) -> None:
    """Descend until no step changed the score of its twin by more than the tolerance, or for so many sweeps.

    a and F change in place.
    """
    solution, scores, width = memory[SOLUTION], memory[SCORES], used_width(count)
    for _ in range(int(settings.sweeps)):
        largest = 0.0
        for i in range(count):
            values = memory[KERNEL + i]
            own, before = values[i], solution[i]
            high, low = settings.aggressiveness * memory[POSITIVE, i], -settings.aggressiveness * memory[NEGATIVE, i]
            after = best_coefficient(scores[i] - own * before, own, low, high)
            step = after - before
            if step == 0.0:
                continue
            solution[i] = after
            for j in range(width):
                scores[j] += step * values[j]
            largest = max(largest, abs(step) * own)
        if largest <= settings.tolerance:
            break


@compiled_row
def best_coefficient(others: float, own: float, low: float, high: float) -> float:
    """Return a_i in [-C s-_i, C s+_i] for the score of a twin without its own term; own is k(x_i, x_i).

    low + high is C (s+_i - s-_i): below it the score would be 1, above it -1, else it is between.
    """
    middle = low + high
    if own <= 0.0:
        return middle
    return min(max(low, (1.0 - others) / own), max(middle, min(high, (-1.0 - others) / own)))


@compiled_row
def remember_twins(state: SupportArrays, rule: BudgetRule, settings: Twins) -> None:
    """Compute memory but for its counts from supports, and coefficients within what counts allow; state changes."""
    memory, penalty = state.memory, settings.aggressiveness
    for slot in range(state.integers[COUNT]):
        copy_support(state, slot)
        write_kernel_values(state, state.column, rule.kernel, slot, slot + 1)
        high, low = penalty * memory[POSITIVE, slot], -penalty * memory[NEGATIVE, slot]
        memory[SOLUTION, slot] = min(high, max(low, np.float64(state.coefficients[0, slot])))


@compiled_row
def reduce_twins(state: SupportArrays, rule: BudgetRule, settings: Twins) -> None:
    """Solve, then reduce to the budget and solve again until the budget is met; state changes in place."""
    memory, integers = state.memory, state.integers
    write_scores(memory, integers[COUNT])
    solve_twins(memory, settings, integers[COUNT])
    while integers[COUNT] > rule.budget:
        drop_excess_twin(state, rule.kernel, settings)
        write_scores(memory, integers[COUNT])
        solve_twins(memory, settings, integers[COUNT])
    write_coefficients(state.coefficients, memory, integers[COUNT])
