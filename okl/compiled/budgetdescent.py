"""Budgeted stochastic gradient descent (BSGD): Pegasos in a kernel expansion, with removal or merging of supports.

Before row t = 1, 2, .. the function is f = v / (lambda (t - 1)), and 0 at first. The row changes it to (1 - 1 / t) f +
direction / (lambda t) k(x, .) where its hinge loss is positive, direction being +-1, or +1 and -1 for the true and the
best wrong class of several: v + direction k(x, .), whose coefficients are whole numbers until supports are merged. They
are what coefficients holds; the scale is 1 / (lambda t).

Source: Wang, Crammer & Vucetic, JMLR 13, 2012, Algorithms 1 and 2; steps of Pegasos without its projection onto a ball.
"""

from __future__ import annotations

from okl.compiled.budget import COUNT, SCALE, BudgetRule, Doubles, Integers, Kept, count_row, score_row, used_width
from okl.compiled.budgetpassive import least_norm
from okl.compiled.counting import ROWS, UPDATES
from okl.compiled.door import compiled_row
from okl.compiled.kernelrows import kernel_self
from okl.compiled.kernelrule import KernelRule
from okl.compiled.merging import CLEARLY, best_place, kernel_power, merging_losses
from okl.compiled.supports import drop_support, put_support
from okl.types import FloatArray

REGULARISATION = 0  # place in parameters
SELVES, NORMS, LOGS, BOTH, LOST, PLACES = 0, 1, 2, 3, 4, 5  # rows of memory; all but the first are buffers


@compiled_row
def learn_bsgd_removal(kept: Kept, inputs: FloatArray, targets: Doubles, rule: BudgetRule) -> None:
    """Learn rows in order, kept changes in place. parameters : regularisation lambda.

    The support of least |a|^2 k(s, s) goes, the oldest of equals: with k(s, s) = 1 they all are.

    memory : (2, capacity), k(s, s) of the supports and a buffer for norms; capacity > budget
    """
    supports, coefficients, marks, memory, integers, floats, counts, sums, class_counts, row, _, _, scores = kept
    kernel, code, _, budget, parameters = rule
    for index in range(inputs.shape[0]):
        x, count = inputs[index], integers[COUNT]
        score_row(scores, row, supports, coefficients, x, kernel, count, floats[SCALE])
        seen = count_row(scores, counts, sums, class_counts, targets[index], code)
        floats[SCALE] = 1.0 / (parameters[REGULARISATION] * counts[ROWS])
        if seen.margin >= 1.0:
            continue
        put_support(supports, coefficients, marks, integers, x, count, seen, 1.0 if seen.wrong >= 0 else seen.y)
        memory[SELVES, count] = kernel_self(x, kernel)
        if count == budget:
            slot = least_norm(memory[NORMS], memory[SELVES], coefficients, marks, count + 1, False)
            memory[SELVES, slot] = memory[SELVES, count]
            drop_support(supports, coefficients, marks, integers, slot)
        counts[UPDATES] += 1


@compiled_row
def learn_bsgd_merging(kept: Kept, inputs: FloatArray, targets: Doubles, rule: BudgetRule) -> None:
    """Learn rows in order, kept changes in place. parameters : regularisation lambda.

    The support of least |a|, the newest of equals, is merged with the one where that changes f least, the first of
    equals. A kernel value of the Gaussian kernel only.

    memory : (6, capacity), buffers; capacity > budget
    """
    supports, coefficients, marks, memory, integers, floats, counts, sums, class_counts, row, _, _, scores = kept
    kernel, code, _, budget, parameters = rule
    memory[SELVES, :] = 1.0
    for index in range(inputs.shape[0]):
        x, count = inputs[index], integers[COUNT]
        score_row(scores, row, supports, coefficients, x, kernel, count, floats[SCALE])
        seen = count_row(scores, counts, sums, class_counts, targets[index], code)
        floats[SCALE] = 1.0 / (parameters[REGULARISATION] * counts[ROWS])
        if seen.margin >= 1.0:
            continue
        put_support(supports, coefficients, marks, integers, x, count, seen, 1.0 if seen.wrong >= 0 else seen.y)
        if count == budget:
            slot = least_norm(memory[NORMS], memory[SELVES], coefficients, marks, count + 1, True)
            merge_support(supports, coefficients, marks, integers, memory, row, kernel, slot)
        counts[UPDATES] += 1


@compiled_row
def merge_support(
    supports: FloatArray,
    coefficients: FloatArray,
    marks: Integers,
    integers: Integers,
    memory: Doubles,
    row: FloatArray,
    kernel: KernelRule,
    slot: int,
) -> None:
    """Merge the support at a slot, whose |a| is the least, with the one where it costs least; norms stand in memory."""
    count = integers[COUNT]
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
    drop_support(supports, coefficients, marks, integers, slot)


@compiled_row
def distances_of_support(row: FloatArray, supports: FloatArray, slot: int) -> None:
    """Overwrite row (width,) by the squared distances of all supports to the one at a slot."""
    row[:] = 0
    for j in range(supports.shape[0]):
        s, v = supports[j], supports[j, slot]
        for i in range(row.shape[0]):
            row[i] += (s[i] - v) * (s[i] - v)


@compiled_row
def best_partner(lost: Doubles, square: float, slot: int, count: int) -> int:
    """The first support, other than the one at slot, whose loss none after it undercuts by more than rounding."""
    partner = 1 if slot == 0 else 0
    for i in range(partner + 1, count):
        if i != slot and lost[i] < lost[partner] - square * (CLEARLY - 1.0):
            partner = i
    return partner


@compiled_row
def join_supports(
    supports: FloatArray, coefficients: FloatArray, slot: int, partner: int, place: float, log: float
) -> None:
    """Overwrite the partner by the support that stands for both: z = h x_m + (1 - h) x_j, a_z = p a_m + q a_j."""
    for j in range(supports.shape[0]):
        supports[j, partner] += place * (supports[j, slot] - supports[j, partner])
    p, q = kernel_power(log, 1.0 - place), kernel_power(log, place)
    for c in range(coefficients.shape[0]):
        coefficients[c, partner] = p * coefficients[c, slot] + q * coefficients[c, partner]


@compiled_row
def merge_excess(kept: Kept, rule: BudgetRule) -> None:
    """Merge the least support with its best partner until the budget is met; kept changes in place."""
    supports, coefficients, marks, memory, integers, _, _, _, _, row, _, _, _ = kept
    memory[SELVES, :] = 1.0
    while integers[COUNT] > rule.budget:
        slot = least_norm(memory[NORMS], memory[SELVES], coefficients, marks, integers[COUNT], True)
        merge_support(supports, coefficients, marks, integers, memory, row, rule.kernel, slot)
