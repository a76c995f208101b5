"""Projectron and Projectron++: when the budget is full, the projection of a row onto the span of the supports is added.

A row closer to the span than `dependence` of its own square norm is projected before the budget is full, too: as a
support it would add nothing but a singular kernel matrix.
"""

from __future__ import annotations

import math

from okl.compiled.budget import (
    COUNT,
    SCALE,
    BudgetRule,
    Doubles,
    Integers,
    Kept,
    Seen,
    count_row,
    mistake_step,
    score_row,
    used_width,
)
from okl.compiled.counting import UPDATES
from okl.compiled.door import compiled_row
from okl.compiled.inverse import grow_inverse, project_row
from okl.compiled.kernelrows import kernel_row, kernel_self
from okl.compiled.steplosses import THRESHOLDED_HALF_SQUARED
from okl.compiled.supports import copy_support, put_support
from okl.types import FloatArray

STEP_SIZE, MARGIN = 0, 1  # places in parameters


@compiled_row
def add_projection(coefficients: FloatArray, place: Doubles, seen: Seen, factor: float) -> None:
    """Add factor * place (width,) to the coefficients of the row's output, and take it from the best wrong class."""
    right = coefficients[seen.output]
    for i in range(place.shape[0]):
        right[i] += factor * place[i]
    if seen.wrong >= 0:
        wrong = coefficients[seen.wrong]
        for i in range(place.shape[0]):
            wrong[i] -= factor * place[i]


@compiled_row
def learn_projectron(kept: Kept, inputs: FloatArray, targets: Doubles, rule: BudgetRule, dependence: float) -> None:
    """Learn rows in order; kept changes in place.

    parameters : step_size; above 0 for Projectron++, which learns rows of a margin below 1
    memory : (1 + capacity, capacity), a buffer for a projection and the inverse of the kernel matrix

    Source: Orabona, Keshet & Caputo, JMLR 10, 2009, sections 3 (Projectron) and 4 (Projectron++).
    """
    supports, coefficients, marks, memory, integers, floats, counts, sums, class_counts, row, _, _, scores = kept
    kernel, code, epsilon, budget, parameters = rule
    buffer, inverse = memory[0], memory[1:]
    step_size, comparator = parameters[STEP_SIZE], norm_within_reach(budget)
    aggressive = parameters[MARGIN] > 0.0 and code != THRESHOLDED_HALF_SQUARED
    for index in range(inputs.shape[0]):
        x, count = inputs[index], integers[COUNT]
        score_row(scores, row, supports, coefficients, x, kernel, count, floats[SCALE])
        seen = count_row(scores, counts, sums, class_counts, targets[index], code)
        step = mistake_step(code, epsilon, step_size, seen)
        if step == 0.0 and not (aggressive and seen.margin < 1.0 and count > 0):
            continue
        place = buffer[: used_width(count)]
        length, own = project_row(place, inverse, row, count), kernel_self(x, kernel)
        left = max(0.0, own - length)
        if step == 0.0:
            step = margin_step(seen, length, left, comparator)
            if step == 0.0:
                continue
            add_projection(coefficients, place, seen, step)
        elif count == budget or left <= dependence * own:
            add_projection(coefficients, place, seen, step)
        else:
            grow_inverse(inverse, place, left, count)
            put_support(supports, coefficients, marks, integers, x, count, seen, step)
        counts[UPDATES] += 1


@compiled_row
def norm_within_reach(budget: int) -> float:
    """U: the largest norm of a function that a budget competes with."""
    return 0.25 * math.sqrt((budget + 1) / math.log(budget + 1))


@compiled_row
def margin_step(seen: Seen, length: float, left: float, comparator: float) -> float:
    """Coefficient of the projection of a row that was right with too small a margin, 0 for none; signed as y.

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
def project_excess(kept: Kept, rule: BudgetRule, dependence: float) -> None:
    """Keep the first supports up to the budget, and the projections of the others; kept changes in place.

    memory is made anew; memory as in `learn_projectron`.
    """
    supports, coefficients, marks, memory, integers, _, _, _, _, row, _, column, _ = kept
    kernel, _, _, budget, _ = rule
    buffer, inverse = memory[0], memory[1:]
    inverse[:, :] = 0.0
    kept_so_far = 0
    for slot in range(integers[COUNT]):
        copy_support(column, supports, slot)
        width = used_width(kept_so_far)
        kernel_row(row[:width], supports, column, kernel)
        length, own = project_row(buffer[:width], inverse, row, kept_so_far), kernel_self(column, kernel)
        left = max(0.0, own - length)
        if kept_so_far == budget or left <= dependence * own:
            spread(coefficients, buffer, slot, kept_so_far)
        else:
            grow_inverse(inverse, buffer, left, kept_so_far)
            move_support(supports, coefficients, marks, column, slot, kept_so_far)
            kept_so_far += 1
    for slot in range(kept_so_far, integers[COUNT]):
        supports[:, slot] = 0
        coefficients[:, slot] = 0
        marks[:, slot] = 0
    integers[COUNT] = kept_so_far


@compiled_row
def spread(coefficients: FloatArray, place: Doubles, slot: int, count: int) -> None:
    """Add the projection of the support at a slot >= count to the first `count` ones; its own coefficients become 0."""
    for c in range(coefficients.shape[0]):
        value = float(coefficients[c, slot])
        for i in range(count):
            coefficients[c, i] += value * place[i]
        coefficients[c, slot] = 0


@compiled_row
def move_support(
    supports: FloatArray, coefficients: FloatArray, marks: Integers, column: FloatArray, slot: int, to: int
) -> None:
    """Write the support at a slot, whose inputs stand in column, to another one."""
    for j in range(column.shape[0]):
        supports[j, to] = column[j]
    for c in range(coefficients.shape[0]):
        coefficients[c, to] = coefficients[c, slot]
    for k in range(marks.shape[0]):
        marks[k, to] = marks[k, slot]
