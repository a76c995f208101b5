"""The self-tuned Forgetron: all supports shrink just so far that the oldest may be forgotten.

Legend: a coefficient and y sign of the oldest support x_r, mu = y f(x_r) after the step; phi the factor of shrinking.
"""

from __future__ import annotations

import math

from okl.compiled.budget import (
    COUNT,
    FIRST_FLOAT,
    LABEL,
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
    weighted,
)
from okl.compiled.counting import UPDATES
from okl.compiled.door import compiled_row
from okl.compiled.kernelrows import kernel_row
from okl.compiled.kernelrule import KernelRule
from okl.compiled.steplosses import HINGE, MULTICLASS_HINGE
from okl.compiled.supports import copy_support, drop_support, oldest_support, put_support, rescale
from okl.types import FloatArray

COST, MISTAKES = FIRST_FLOAT, FIRST_FLOAT + 1  # places in floats
_SHARE = 15.0 / 32.0


@compiled_row
def shrinking_factor(a: float, mu: float, cost: float, mistakes: float) -> float:
    """Largest phi of (0, 1] for which forgetting a support may cost (a phi)^2 + 2 a phi (1 - phi mu).

    cost + that <= 15/32 mistakes; a > 0 is the coefficient's size, cost < 15/32 mistakes.

    Source: Dekel, Shalev-Shwartz & Singer, SIAM J. Comput. 37, 2008, section 5 (the self-tuned Forgetron).
    """
    square, twice, rest = a * a - 2.0 * a * mu, 2.0 * a, cost - _SHARE * mistakes
    if square + twice + rest <= 0.0:
        return 1.0
    # the smaller root, by the form that also holds where square is 0
    return -2.0 * rest / (twice + math.sqrt(max(0.0, twice * twice - 4.0 * square * rest)))


@compiled_row
def shrink_for_oldest(
    supports: FloatArray,
    coefficients: FloatArray,
    marks: Integers,
    floats: Doubles,
    spare: FloatArray,
    column: FloatArray,
    kernel: KernelRule,
    slot: int,
    count: int,
    is_multiclass: bool,
    step_there: float,
) -> float:
    """Shrink f so that the support at slot may go, and add to the cost; coefficients and floats change in place.

    step_there : what the step that is not in the coefficients yet adds to the support's own output at the support;
    spare, column : buffers. Returns phi, by which that step must shrink as well.
    """
    output = marks[LABEL, slot] if is_multiclass else 0
    copy_support(column, supports, slot)
    width = used_width(count)
    kernel_row(spare[:width], supports, column, kernel)
    f = floats[SCALE] * weighted(coefficients[output, :width], spare[:width]) + step_there
    a = floats[SCALE] * coefficients[output, slot]
    mu, size = (f, a) if a > 0.0 else (-f, -a)
    if size == 0.0:
        return 1.0
    phi = shrinking_factor(size, mu, floats[COST], floats[MISTAKES])
    floats[COST] += (size * phi) ** 2 + 2.0 * size * phi * (1.0 - phi * mu)
    rescale(coefficients, floats, phi)
    return phi


@compiled_row
def _step_there(seen: Seen, step: float, output: int, value: float) -> float:
    """What a step adds to an output at a support whose kernel value with the row is value."""
    if output == seen.output:
        return step * value
    return -step * value if output == seen.wrong else 0.0


@compiled_row
def learn_forgetron(kept: Kept, inputs: FloatArray, targets: Doubles, rule: BudgetRule) -> None:
    """Learn rows in order; kept changes in place. parameters : step_size, whether f shrinks.

    Source: Dekel, Shalev-Shwartz & Singer, SIAM J. Comput. 37, 2008, section 5.
    """
    supports, coefficients, marks, _, integers, floats, counts, sums, class_counts, row, spare, column, scores = kept
    kernel, code, epsilon, budget, parameters = rule
    step_size, shrinks, many = parameters[0], parameters[1] > 0.0, code == MULTICLASS_HINGE
    for index in range(inputs.shape[0]):
        x = inputs[index]
        score_row(scores, row, supports, coefficients, x, kernel, integers[COUNT], floats[SCALE])
        seen = count_row(scores, counts, sums, class_counts, targets[index], code)
        step = mistake_step(code, epsilon, step_size, seen)
        if code == HINGE and seen.f == 0.0:  # y f <= 0 is a mistake here, whatever the sign of 0
            step = step_size * seen.y
        if step == 0.0:
            continue
        floats[MISTAKES] += 1.0
        slot = integers[COUNT]
        if slot == budget:
            slot = oldest_support(marks, budget)
            if shrinks:
                there = _step_there(seen, step, marks[LABEL, slot] if many else 0, row[slot])
                step *= shrink_for_oldest(
                    supports, coefficients, marks, floats, spare, column, kernel, slot, budget, many, there
                )
        put_support(supports, coefficients, marks, integers, x, slot, seen, step / floats[SCALE])
        counts[UPDATES] += 1


@compiled_row
def forget_oldest(kept: Kept, rule: BudgetRule) -> None:
    """Shrink and forget the oldest supports until the budget is met; kept changes in place."""
    supports, coefficients, marks, _, integers, floats, _, _, _, _, spare, column, _ = kept
    many = rule.code == MULTICLASS_HINGE
    while integers[COUNT] > rule.budget:
        count = integers[COUNT]
        slot = oldest_support(marks, count)
        if rule.parameters[1] > 0.0:
            shrink_for_oldest(supports, coefficients, marks, floats, spare, column, rule.kernel, slot, count, many, 0.0)
        drop_support(supports, coefficients, marks, integers, slot)
