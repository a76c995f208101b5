"""Budgeted passive-aggressive learning: one support goes, and what it gave is made up for by others as well as can be.

A row with hinge loss l takes the step tau = min(C, l / (k(x, x) |direction|^2)), direction being +-1 for two classes,
+1 and -1 for the true and the best wrong class of several. When the budget is full, a support r is replaced by its
projection onto the span of some helpers, the row among them, r being the one that this changes least:

  |a_r|^2 |k(x_r, .) - sum_i beta_i k(x_i, .)|^2,    a_i <- a_i + beta_i a_r

The score of the row is the same whichever goes, so that the loss after the step need not be looked at. Helpers are the
row alone (simple), the row and r's nearest neighbour (nearest), or all others (projection).

Legend: a coefficients, all classes of them; t the row; beta coefficients of a projection.
"""

from __future__ import annotations

from okl.compiled.budget import (
    ADDED,
    COUNT,
    LABEL,
    NUMBER,
    SCALE,
    BudgetRule,
    Doubles,
    Integers,
    Kept,
    Seen,
    count_row,
    score_row,
    used_width,
)
from okl.compiled.counting import UPDATES
from okl.compiled.door import compiled_row
from okl.compiled.kernelrows import kernel_self
from okl.compiled.merging import CLEARLY
from okl.compiled.supports import copy_support, drop_support, put_support
from okl.types import FloatArray

AGGRESSIVENESS = 0  # place in parameters


@compiled_row
def passive_step(seen: Seen, own: float, aggressiveness: float) -> float:
    """Coefficient of a row of k(x, x) = own > 0, 0 for none; signed as y.

    Source: Crammer et al., JMLR 7, 2006, equation (PA-I) and section 8 for several classes.
    """
    loss = 1.0 - seen.margin
    if loss <= 0.0 or own <= 0.0:
        return 0.0
    if seen.wrong >= 0:
        return min(aggressiveness, loss / (2.0 * own))
    return seen.y * min(aggressiveness, loss / own)


@compiled_row
def square_norms(squares: Doubles, coefficients: FloatArray) -> None:
    """Overwrite squares (width,) by |a|^2 of the first supports."""
    squares[:] = 0.0
    for c in range(coefficients.shape[0]):
        a = coefficients[c]
        for i in range(squares.shape[0]):
            squares[i] += float(a[i]) * float(a[i])


@compiled_row
def cheapest(costs: Doubles, marks: Integers, count: int) -> int:
    """The support of least cost, the oldest of those that rounding alone tells apart."""
    least = costs[0]
    for i in range(1, count):
        least = min(least, costs[i])
    slot = -1
    for i in range(count):
        if costs[i] <= least * CLEARLY and (slot < 0 or marks[NUMBER, i] < marks[NUMBER, slot]):
            slot = i
    return slot


@compiled_row
def take_place(
    supports: FloatArray,
    coefficients: FloatArray,
    marks: Integers,
    integers: Integers,
    x: FloatArray,
    slot: int,
    seen: Seen,
    share: float,
    step: float,
) -> None:
    """Make the row the support at a used slot, with the step and share of the coefficients that were there."""
    for j in range(x.shape[0]):
        supports[j, slot] = x[j]
    for c in range(coefficients.shape[0]):
        coefficients[c, slot] *= share
    coefficients[seen.output, slot] += step
    if seen.wrong >= 0:
        coefficients[seen.wrong, slot] -= step
    marks[LABEL, slot] = seen.label
    marks[NUMBER, slot] = integers[ADDED]
    integers[ADDED] += 1


@compiled_row
def costs_of_removal(costs: Doubles, selves: Doubles, coefficients: FloatArray, row: FloatArray, own: float) -> None:
    """Overwrite costs (width,) by |a|^2 (k(s, s) - k(s, x)^2 / own), what replacing a support s by the row costs."""
    square_norms(costs, coefficients)
    for i in range(costs.shape[0]):
        k = float(row[i])
        costs[i] *= max(0.0, selves[i] - k * k / own)


@compiled_row
def learn_bpa_simple(kept: Kept, inputs: FloatArray, targets: Doubles, rule: BudgetRule) -> None:
    """Learn rows in order, kept changes in place. parameters : aggressiveness C.

    memory : (2, capacity), k(s, s) of the supports and a buffer for costs

    Source: Wang & Vucetic, AISTATS 2010, sections 3.1 and 3.2 (BPA-S).
    """
    supports, coefficients, marks, memory, integers, floats, counts, sums, class_counts, row, _, _, scores = kept
    kernel, code, _, budget, parameters = rule
    for index in range(inputs.shape[0]):
        x, count = inputs[index], integers[COUNT]
        score_row(scores, row, supports, coefficients, x, kernel, count, floats[SCALE])
        seen = count_row(scores, counts, sums, class_counts, targets[index], code)
        if seen.margin >= 1.0:
            continue
        own = kernel_self(x, kernel)
        step = passive_step(seen, own, parameters[AGGRESSIVENESS])
        if step == 0.0:
            continue
        slot = count
        if count < budget:
            put_support(supports, coefficients, marks, integers, x, slot, seen, step)
        else:
            width = used_width(count)
            costs_of_removal(memory[1, :width], memory[0, :width], coefficients[:, :width], row[:width], own)
            slot = cheapest(memory[1], marks, count)
            take_place(supports, coefficients, marks, integers, x, slot, seen, float(row[slot]) / own, step)
        memory[0, slot] = own
        counts[UPDATES] += 1


@compiled_row
def remember_selves(kept: Kept, rule: BudgetRule) -> None:
    """Write k(s, s) of all supports to the first row of memory; kept changes in place."""
    supports, memory, column, kernel = kept.supports, kept.memory, kept.column, rule.kernel
    for slot in range(kept.integers[COUNT]):
        copy_support(column, supports, slot)
        memory[0, slot] = kernel_self(column, kernel)


@compiled_row
def drop_lightest(kept: Kept, rule: BudgetRule) -> None:
    """Drop the supports of least |a|^2 k(s, s) until the budget is met, oldest first; kept changes in place."""
    supports, coefficients, marks, memory, integers = kept[:5]
    while integers[COUNT] > rule.budget:
        count = integers[COUNT]
        slot = least_norm(memory[1], memory[0], coefficients, marks, count, False)
        memory[0, slot] = memory[0, count - 1]
        drop_support(supports, coefficients, marks, integers, slot)


@compiled_row
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
