"""BOGD++: bounded gradient descent that removes supports of small weight more often, and stays unbiased.

Legend: w_i = ||a_i|| k(x_i, x_i)^(1/2) the weight of a support, a_i its coefficients; B the budget.
"""

from __future__ import annotations

import math

import numpy as np

from okl.compiled.budget import (
    COUNT,
    SCALE,
    BudgetRule,
    Doubles,
    Integers,
    Kept,
    count_row,
    draw_uniform,
    gradient_step,
    score_row,
)
from okl.compiled.budgetgradient import clip
from okl.compiled.counting import UPDATES
from okl.compiled.door import compiled_row
from okl.compiled.kernelrows import kernel_self
from okl.compiled.supports import copy_support, drop_support, put_support, rescale
from okl.types import FloatArray

NORM, CHANCE = 0, 1  # rows of memory: k(x_i, x_i)^(1/2) of each support, and a buffer


@compiled_row
def removal_chances(memory: Doubles, coefficients: FloatArray, count: int) -> float:
    """Overwrite memory[CHANCE] by max(0, 1 - (count - 1) w_i / sum_j w_j) of all supports; returns their sum, > 0.

    Source: Zhao, Wang, Wu, Jin & Hoi, ICML 2012, BOGD++: 1 - s |a_i| k(x_i, x_i)^(1/2), s such that the sum is 1.
    A weight beyond s^-1 would make it negative: 0 is taken, and all are divided by their sum.
    """
    total = 0.0
    for i in range(count):
        squares = 0.0
        for k in range(coefficients.shape[0]):
            squares += np.float64(coefficients[k, i]) ** 2
        memory[CHANCE, i] = math.sqrt(squares) * memory[NORM, i]
        total += memory[CHANCE, i]
    left = 0.0
    for i in range(count):
        memory[CHANCE, i] = max(0.0, 1.0 - (count - 1) * memory[CHANCE, i] / total) if total > 0.0 else 1.0
        left += memory[CHANCE, i]
    return left


@compiled_row
def choose_removal(memory: Doubles, coefficients: FloatArray, integers: Integers) -> int:
    """Draw a support to remove; the others' coefficients are divided by their chance to stay: f stays right on average.

    memory[CHANCE], coefficients and the random state change in place.
    """
    count = int(integers[COUNT])
    left = removal_chances(memory, coefficients, count)
    target, slot = draw_uniform(integers) * left, count - 1
    for i in range(count):
        target -= memory[CHANCE, i]
        if target < 0.0:
            slot = i
            break
    for i in range(count):
        if i != slot:
            factor = coefficients.dtype.type(1.0 / (1.0 - memory[CHANCE, i] / left))
            for k in range(coefficients.shape[0]):
                coefficients[k, i] *= factor
    return slot


@compiled_row
def learn_sampled_gradient(kept: Kept, inputs: FloatArray, targets: Doubles, rule: BudgetRule) -> None:
    """Learn rows in order; kept changes in place. parameters : step_size, decay, -, largest coefficient.

    Source: Zhao, Wang, Wu, Jin & Hoi, ICML 2012, BOGD++ by non-uniform sampling.
    """
    supports, coefficients, marks, memory, integers, floats, counts, sums, class_counts, row, _, _, scores = kept
    kernel, code, epsilon, budget, parameters = rule
    step_size, decay, largest = parameters[0], parameters[1], parameters[3]
    for index in range(inputs.shape[0]):
        x = inputs[index]
        score_row(scores, row, supports, coefficients, x, kernel, integers[COUNT], floats[SCALE])
        seen = count_row(scores, counts, sums, class_counts, targets[index], code)
        step = gradient_step(code, epsilon, step_size, seen)
        rescale(coefficients, floats, decay)
        if step == 0.0:
            continue
        slot = integers[COUNT]
        if slot == budget:
            slot = choose_removal(memory, coefficients, integers)
        put_support(supports, coefficients, marks, integers, x, slot, seen, step / floats[SCALE])
        memory[NORM, slot] = math.sqrt(kernel_self(x, kernel))
        if largest < 1e300:
            clip(coefficients, largest / floats[SCALE])
        counts[UPDATES] += 1


@compiled_row
def remember_norms(kept: Kept, rule: BudgetRule) -> None:
    """Compute memory[NORM] of all supports; kept changes in place."""
    for i in range(kept.integers[COUNT]):
        copy_support(kept.column, kept.supports, i)
        kept.memory[NORM, i] = math.sqrt(kernel_self(kept.column, rule.kernel))


@compiled_row
def drop_sampled(kept: Kept, rule: BudgetRule) -> None:
    """Take supports out as BOGD++ does until the budget is met; kept changes in place."""
    supports, coefficients, marks, memory, integers, floats, _, _, _, _, _, _, _ = kept
    while integers[COUNT] > rule.budget:
        slot = choose_removal(memory, coefficients, integers)
        memory[NORM, slot] = memory[NORM, integers[COUNT] - 1]
        drop_support(supports, coefficients, marks, integers, slot)
    if rule.parameters[3] < 1e300:
        clip(coefficients, rule.parameters[3] / floats[SCALE])
