"""The Budget Perceptron: the support that the others classify best without it makes room.

Legend: F = f(x_i) of every support and output, kept up to date in memory (n_outputs + 1, capacity), whose last row is
k(x_i, x_i); lead: what the true class of a support is ahead by.
"""

from __future__ import annotations

import numpy as np

from okl.compiled.budget import (
    COUNT,
    LABEL,
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
from okl.compiled.kernelrows import kernel_row, kernel_self
from okl.compiled.kernelrule import KernelRule
from okl.compiled.steplosses import HINGE
from okl.compiled.supports import copy_support, drop_support, put_support
from okl.types import FloatArray


@compiled_row
def lead_without(memory: Doubles, coefficients: FloatArray, marks: Integers, slot: int) -> float:
    """y f(x) of the support at slot without its own share, or the lead of its class over the best wrong one."""
    n_outputs = coefficients.shape[0]
    own = memory[n_outputs, slot]
    if n_outputs == 1:
        f: float = memory[0, slot] - own * np.float64(coefficients[0, slot])
        return f if marks[LABEL, slot] == 1 else -f
    true, best = int(marks[LABEL, slot]), -np.inf
    for k in range(n_outputs):
        if k != true:
            best = max(best, memory[k, slot] - own * np.float64(coefficients[k, slot]))
    lead: float = memory[true, slot] - own * np.float64(coefficients[true, slot]) - best
    return lead


@compiled_row
def most_redundant(memory: Doubles, coefficients: FloatArray, marks: Integers, count: int) -> int:
    """Slot of the support with the largest lead without itself, the first on a tie."""
    best, slot = -np.inf, 0
    for i in range(count):
        lead = lead_without(memory, coefficients, marks, i)
        if lead > best:
            best, slot = lead, i
    return slot


@compiled_row
def subtract_support(kept: Kept, kernel: KernelRule, slot: int) -> None:
    """Take the share of the support at slot out of F; kept.memory changes, column and spare are buffers."""
    copy_support(kept.column, kept.supports, slot)
    width = used_width(kept.integers[COUNT])
    kernel_row(kept.spare[:width], kept.supports, kept.column, kernel)
    for k in range(kept.coefficients.shape[0]):
        a = np.float64(kept.coefficients[k, slot])
        if a != 0.0:
            for i in range(width):
                kept.memory[k, i] -= a * np.float64(kept.spare[i])


@compiled_row
def add_step(memory: Doubles, row: FloatArray, width: int, seen: Seen, step: float) -> None:
    """Add a new support's share to F of those before; row (capacity,) holds their kernel values with it."""
    for i in range(width):
        memory[seen.output, i] += step * np.float64(row[i])
        if seen.wrong >= 0:
            memory[seen.wrong, i] -= step * np.float64(row[i])


@compiled_row
def learn_budget_perceptron(kept: Kept, inputs: FloatArray, targets: Doubles, rule: BudgetRule) -> None:
    """Learn rows in order; kept changes in place. parameters : step_size, margin at or below which a row is learnt.

    F is kept by one kernel row for what comes and one for what goes, where the paper's O(B^2) computes it anew.

    Source: Crammer, Kandola & Singer, NIPS 2003, Figure 1, with the budget of Figure 2.
    """
    supports, coefficients, marks, memory, integers, _, counts, sums, class_counts, row, _, _, scores = kept
    kernel, code, _, budget, parameters = rule
    for index in range(inputs.shape[0]):
        x = inputs[index]
        score_row(scores, row, supports, coefficients, x, kernel, integers[COUNT], 1.0)
        seen = count_row(scores, counts, sums, class_counts, targets[index], code)
        if seen.margin > parameters[1]:
            continue
        step = parameters[0] * seen.y if code == HINGE else parameters[0]
        slot = integers[COUNT]
        if slot == budget:
            slot = most_redundant(memory, coefficients, marks, budget)
            subtract_support(kept, kernel, slot)
            for k in range(scores.shape[0]):
                scores[k] -= coefficients[k, slot] * row[slot]
        add_step(memory, row, used_width(integers[COUNT]), seen, step)
        put_support(supports, coefficients, marks, integers, x, slot, seen, step)
        own = kernel_self(x, kernel)
        for k in range(scores.shape[0]):
            memory[k, slot] = np.float64(scores[k])
        memory[seen.output, slot] += step * own
        if seen.wrong >= 0:
            memory[seen.wrong, slot] -= step * own
        memory[scores.shape[0], slot] = own
        counts[UPDATES] += 1


@compiled_row
def remember_scores(kept: Kept, rule: BudgetRule) -> None:
    """Compute F of all supports; kept.memory changes, the buffers as well."""
    for i in range(kept.integers[COUNT]):
        copy_support(kept.column, kept.supports, i)
        score_row(
            kept.scores,
            kept.spare,
            kept.supports,
            kept.coefficients,
            kept.column,
            rule.kernel,
            kept.integers[COUNT],
            1.0,
        )
        for k in range(kept.scores.shape[0]):
            kept.memory[k, i] = np.float64(kept.scores[k])
        kept.memory[kept.scores.shape[0], i] = kernel_self(kept.column, rule.kernel)


@compiled_row
def drop_redundant(kept: Kept, rule: BudgetRule) -> None:
    """Take the most redundant supports out until the budget is met; kept changes in place."""
    while kept.integers[COUNT] > rule.budget:
        last = kept.integers[COUNT] - 1
        slot = most_redundant(kept.memory, kept.coefficients, kept.marks, last + 1)
        subtract_support(kept, rule.kernel, slot)
        for k in range(kept.memory.shape[0]):
            kept.memory[k, slot] = kept.memory[k, last]
        drop_support(kept.supports, kept.coefficients, kept.marks, kept.integers, slot)
