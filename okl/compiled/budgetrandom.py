"""The Randomized Budget Perceptron: when the budget is full, a random support makes room."""

from __future__ import annotations

from okl.compiled.budget import (
    COUNT,
    SCALE,
    BudgetRule,
    Doubles,
    Kept,
    count_row,
    draw_uniform,
    mistake_step,
    score_row,
)
from okl.compiled.counting import UPDATES
from okl.compiled.door import compiled_row
from okl.compiled.supports import drop_support, put_support
from okl.types import FloatArray


@compiled_row
def learn_random_perceptron(kept: Kept, inputs: FloatArray, targets: Doubles, rule: BudgetRule) -> None:
    """Learn rows in order; kept changes in place. parameters : step_size.

    Source: Cavallanti, Cesa-Bianchi & Gentile, Machine Learning 69, 2007, Figure 3 (RBP).
    """
    supports, coefficients, marks, _, integers, floats, counts, sums, class_counts, row, _, _, scores = kept
    kernel, code, epsilon, budget, parameters = rule
    for index in range(inputs.shape[0]):
        x = inputs[index]
        score_row(scores, row, supports, coefficients, x, kernel, integers[COUNT], floats[SCALE])
        seen = count_row(scores, counts, sums, class_counts, targets[index], code)
        step = mistake_step(code, epsilon, parameters[0], seen)
        if step != 0.0:
            slot = integers[COUNT]
            if slot == budget:
                slot = int(draw_uniform(integers) * budget)
            put_support(supports, coefficients, marks, integers, x, slot, seen, step / floats[SCALE])
            counts[UPDATES] += 1


@compiled_row
def drop_random(kept: Kept, rule: BudgetRule) -> None:
    """Take random supports out until the budget is met; kept changes in place."""
    supports, coefficients, marks, _, integers = kept[:5]
    while integers[COUNT] > rule.budget:
        slot = int(draw_uniform(integers) * integers[COUNT])
        drop_support(supports, coefficients, marks, integers, slot)
