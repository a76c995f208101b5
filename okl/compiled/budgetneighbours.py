"""BPA-NN: passive-aggressive learning whose removed support is projected onto the row and its own nearest neighbour.

Every support knows its nearest neighbour, the one of least |k(s, .) - k(s', .)|, the oldest on a tie; after a change
only supports that lost theirs look for another. O(budget) for a row but for those, of which there is about one.
"""

from __future__ import annotations

import math

from okl.compiled.budget import (
    COUNT,
    NUMBER,
    SCALE,
    BudgetRule,
    Doubles,
    Integers,
    Kept,
    count_row,
    score_row,
    used_width,
)
from okl.compiled.budgetpassive import (
    AGGRESSIVENESS,
    cheapest,
    passive_step,
    remember_selves,
    square_norms,
    take_place,
)
from okl.compiled.counting import UPDATES
from okl.compiled.door import compiled_row
from okl.compiled.kernelrows import kernel_row, kernel_self
from okl.compiled.kernelrule import KernelRule
from okl.compiled.supports import copy_support, drop_support, put_support
from okl.types import FloatArray

SELVES, NEAREST, DISTANCES, VALUES, COSTS = 0, 1, 2, 3, 4  # rows of memory
NOBODY = -1.0
ALIKE = 1e-12  # relative determinant of two helpers below which they are one


@compiled_row
def learn_bpa_nearest(kept: Kept, inputs: FloatArray, targets: Doubles, rule: BudgetRule) -> None:
    """Learn rows in order; kept changes in place. parameters : aggressiveness C.

    memory : (5, capacity): k(s, s), slot of the nearest neighbour, squared distance to it, k(s, it), a buffer

    Source: Wang & Vucetic, AISTATS 2010, section 3 (BPA-NN).
    """
    supports, coefficients, marks, memory, integers, floats, counts, sums, class_counts, row, spare, column, scores = (
        kept
    )
    kernel, code, _, budget, parameters = rule
    for index in range(inputs.shape[0]):
        x, count = inputs[index], integers[COUNT]
        score_row(scores, row, supports, coefficients, x, kernel, count, floats[SCALE])
        seen = count_row(scores, counts, sums, class_counts, targets[index], code)
        own = kernel_self(x, kernel)
        step = passive_step(seen, own, parameters[AGGRESSIVENESS])
        if step == 0.0:
            continue
        slot = count
        if count < budget:
            put_support(supports, coefficients, marks, integers, x, slot, seen, step)
        else:
            slot = cheapest_with_helpers(memory, coefficients, marks, row, own, count)
            of_row, of_nearest, _ = shares_of_helpers(memory, row, slot, own)
            nearest = int(memory[NEAREST, slot])
            if nearest >= 0:
                for c in range(coefficients.shape[0]):
                    coefficients[c, nearest] += of_nearest * coefficients[c, slot]
            take_place(supports, coefficients, marks, integers, x, slot, seen, of_row, step)
        memory[SELVES, slot] = own
        meet_row(memory, row, slot, integers[COUNT])
        find_lost_neighbours(memory, supports, marks, spare, column, kernel, integers[COUNT])
        counts[UPDATES] += 1


@compiled_row
def shares_of_helpers(memory: Doubles, row: FloatArray, slot: int, own: float) -> tuple[float, float, float]:
    """Coefficients of row and nearest neighbour in the projection of a support onto both, and its squared distance."""
    with_row, square = float(row[slot]), memory[SELVES, slot]
    nearest = int(memory[NEAREST, slot])
    if nearest >= 0:
        with_nearest, between, other = memory[VALUES, slot], float(row[nearest]), memory[SELVES, nearest]
        determinant = own * other - between * between
        if determinant > ALIKE * own * other:
            of_row = (with_row * other - with_nearest * between) / determinant
            of_nearest = (with_nearest * own - with_row * between) / determinant
            return of_row, of_nearest, max(0.0, square - of_row * with_row - of_nearest * with_nearest)
    return with_row / own, 0.0, max(0.0, square - with_row * with_row / own)


@compiled_row
def cheapest_with_helpers(
    memory: Doubles, coefficients: FloatArray, marks: Integers, row: FloatArray, own: float, count: int
) -> int:
    """The support whose replacement by row and nearest neighbour costs least, the oldest on a tie."""
    width = used_width(count)
    square_norms(memory[COSTS, :width], coefficients[:, :width])
    for i in range(count):
        memory[COSTS, i] *= shares_of_helpers(memory, row, i, own)[2]
    return cheapest(memory[COSTS], marks, count)


@compiled_row
def meet_row(memory: Doubles, row: FloatArray, slot: int, count: int) -> None:
    """The row of kernel values `row` has become the support at a slot: compare neighbours; who had it looks anew."""
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
        distance = memory[SELVES, i] + memory[SELVES, slot] - 2.0 * value
        if distance < memory[DISTANCES, i]:
            memory[DISTANCES, i], memory[NEAREST, i], memory[VALUES, i] = distance, slot, value


@compiled_row
def find_lost_neighbours(
    memory: Doubles,
    supports: FloatArray,
    marks: Integers,
    spare: FloatArray,
    column: FloatArray,
    kernel: KernelRule,
    count: int,
) -> None:
    """Find the nearest neighbour of every support that has none; memory, spare and column change in place."""
    values = spare[: used_width(count)]
    for slot in range(count):
        if memory[NEAREST, slot] != NOBODY or count == 1:
            continue
        copy_support(column, supports, slot)
        kernel_row(values, supports, column, kernel)
        nearest, least = -1, math.inf
        for i in range(count):
            distance = memory[SELVES, i] + memory[SELVES, slot] - 2.0 * float(values[i])
            older = distance == least and marks[NUMBER, i] < marks[NUMBER, nearest]
            if i != slot and (distance < least or older):
                nearest, least = i, distance
        memory[NEAREST, slot], memory[DISTANCES, slot] = nearest, least
        memory[VALUES, slot] = float(values[nearest])


@compiled_row
def remember_neighbours(kept: Kept, rule: BudgetRule) -> None:
    """Compute memory from the supports; kept changes in place."""
    remember_selves(kept, rule)
    kept.memory[NEAREST, :] = NOBODY
    find_lost_neighbours(
        kept.memory, kept.supports, kept.marks, kept.spare, kept.column, rule.kernel, kept.integers[COUNT]
    )


@compiled_row
def remove_to_neighbours(kept: Kept, rule: BudgetRule) -> None:
    """Project the cheapest support onto its nearest neighbour until the budget is met; kept changes in place."""
    supports, coefficients, marks, memory, integers, _, _, _, _, _, spare, column, _ = kept
    while integers[COUNT] > rule.budget:
        count = integers[COUNT]
        width = used_width(count)
        square_norms(memory[COSTS, :width], coefficients[:, :width])
        for i in range(count):
            other = memory[SELVES, int(memory[NEAREST, i])]
            share = memory[VALUES, i] / other if other > 0.0 else 0.0
            memory[COSTS, i] *= max(0.0, memory[SELVES, i] - share * memory[VALUES, i])
        slot = cheapest(memory[COSTS], marks, count)
        nearest = int(memory[NEAREST, slot])
        other = memory[SELVES, nearest]
        for c in range(coefficients.shape[0]):
            coefficients[c, nearest] += memory[VALUES, slot] / other * coefficients[c, slot] if other > 0.0 else 0.0
        forget_neighbour(memory, slot, count)
        drop_support(supports, coefficients, marks, integers, slot)
        find_lost_neighbours(memory, supports, marks, spare, column, rule.kernel, count - 1)


@compiled_row
def forget_neighbour(memory: Doubles, slot: int, count: int) -> None:
    """Take a slot out of memory, the last one of `count` moving there; who had it as neighbour has none."""
    last = count - 1
    for k in range(COSTS):
        memory[k, slot] = memory[k, last]
    for i in range(last):
        if memory[NEAREST, i] == slot:
            memory[NEAREST, i] = NOBODY
        elif memory[NEAREST, i] == last:
            memory[NEAREST, i] = slot
