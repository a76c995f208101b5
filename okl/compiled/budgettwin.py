"""Twin vector machine (TVM): a support vector machine on twin vectors, solved again after every change of them.

A twin vector is a place x_i and how many positive and negative rows, s+_i and s-_i, it stands for. f = sum_i a_i
k(x_i, .) is to minimise

  1/2 |f|^2 + C sum_i (s+_i max(0, 1 - f(x_i)) + s-_i max(0, 1 + f(x_i))).

The dual has two coefficients a twin, in [0, C s+_i] and [0, C s-_i], of which f sees the difference a_i only. For a
given a_i the two are best as large as can be, so that one number a twin is left: f is the minimum where for every i

  a_i = C s+_i            if f(x_i) < -1,
        C (s+_i - s-_i)   if -1 < f(x_i) < 1,
        -C s-_i           if f(x_i) > 1,   and anything between two of these at f(x_i) = -1 and at 1.

Descent in the dual takes twins in turn and puts a_i where this holds for it, the other coefficients as they are.

Legend: K kernel matrix of the n twins; a their coefficients; F = K a their scores. memory : (5 + capacity, capacity)
float64 with s+, s-, a, F and a buffer in its first rows, then K; zero beyond the twins but for F and the buffer.

Source: Wang & Vucetic, SDM 2009; what is theirs is said in okl.online.budget.tvm.
"""

from __future__ import annotations

import numpy as np

from okl.compiled.budget import COUNT, SCALE, BudgetRule, Doubles, Kept, count_row, score_row, used_width
from okl.compiled.counting import UPDATES
from okl.compiled.door import compiled_row
from okl.compiled.inverse import project_row
from okl.compiled.kernelrows import kernel_self
from okl.compiled.supports import copy_support, put_support
from okl.compiled.twinroom import (
    KERNEL,
    NEGATIVE,
    PENALTY,
    POSITIVE,
    SCORES,
    SOLUTION,
    SWEEPS,
    TOLERANCE,
    make_room,
    write_kernel_values,
)
from okl.types import FloatArray


@compiled_row
def learn_twins(kept: Kept, inputs: FloatArray, targets: Doubles, rule: BudgetRule) -> None:
    """Learn rows of two classes in order; kept changes in place. capacity > budget.

    parameters : C, tolerance and most sweeps of `solve_twins`, and the weight of pairs of unlike rows in a merge
    """
    supports, coefficients, marks, memory, integers, floats, counts, sums, class_counts, row, _, column, scores = kept
    kernel, code, _, budget, parameters = rule
    for index in range(inputs.shape[0]):
        x, count = inputs[index], integers[COUNT]
        score_row(scores, row, supports, coefficients, x, kernel, count, floats[SCALE])
        seen = count_row(scores, counts, sums, class_counts, targets[index], code)
        if seen.margin >= 1.0 - parameters[TOLERANCE] or kernel_self(x, kernel) <= 0.0:
            continue
        put_support(supports, coefficients, marks, integers, x, count, seen, 0.0)
        memory[POSITIVE, count] = 1.0 if seen.y > 0.0 else 0.0
        memory[NEGATIVE, count] = 1.0 - memory[POSITIVE, count]
        memory[SOLUTION, count] = 0.0
        write_kernel_values(memory, supports, row, x, kernel, count, count + 1)
        write_scores(memory, count + 1)
        if count == budget:
            make_room(supports, coefficients, marks, memory, integers, row, column, kernel, parameters)
            write_scores(memory, count)
        solve_twins(memory, parameters, integers[COUNT])
        write_coefficients(coefficients, memory, integers[COUNT])
        counts[UPDATES] += 1


@compiled_row
def write_scores(memory: Doubles, count: int) -> None:
    """Overwrite F by K a."""
    project_row(memory[SCORES, : used_width(count)], memory[KERNEL:], memory[SOLUTION], count)


@compiled_row
def write_coefficients(coefficients: FloatArray, memory: Doubles, count: int) -> None:
    """Overwrite coefficients (1, capacity) by a, which has more digits in single precision."""
    for i in range(used_width(count)):
        coefficients[0, i] = memory[SOLUTION, i]


@compiled_row
def solve_twins(memory: Doubles, parameters: Doubles, count: int) -> None:
    """Descend until no step changed the score of its twin by more than the tolerance, or for so many sweeps.

    a and F change in place.
    """
    solution, scores, width = memory[SOLUTION], memory[SCORES], used_width(count)
    for _ in range(int(parameters[SWEEPS])):
        largest = 0.0
        for i in range(count):
            values = memory[KERNEL + i]
            own, before = values[i], solution[i]
            high, low = parameters[PENALTY] * memory[POSITIVE, i], -parameters[PENALTY] * memory[NEGATIVE, i]
            after = best_coefficient(scores[i] - own * before, own, low, high)
            step = after - before
            if step == 0.0:
                continue
            solution[i] = after
            for j in range(width):
                scores[j] += step * values[j]
            largest = max(largest, abs(step) * own)
        if largest <= parameters[TOLERANCE]:
            break


@compiled_row
def best_coefficient(others: float, own: float, low: float, high: float) -> float:
    """a_i from [low, high] = [-C s-_i, C s+_i] for the score of a twin without its own part, and own = k(x_i, x_i).

    low + high is C (s+_i - s-_i): below it the score would be 1, above it -1, else it is between.
    """
    middle = low + high
    if own <= 0.0:
        return middle
    return min(max(low, (1.0 - others) / own), max(middle, min(high, (-1.0 - others) / own)))


@compiled_row
def remember_twins(kept: Kept, rule: BudgetRule) -> None:
    """Compute memory but for its counts from supports, and coefficients within what counts allow; kept changes."""
    supports, coefficients, _, memory, integers, _, _, _, _, row, _, column, _ = kept
    penalty, count = rule.parameters[PENALTY], integers[COUNT]
    for slot in range(count):
        copy_support(column, supports, slot)
        write_kernel_values(memory, supports, row, column, rule.kernel, slot, slot + 1)
        high, low = penalty * memory[POSITIVE, slot], -penalty * memory[NEGATIVE, slot]
        memory[SOLUTION, slot] = min(high, max(low, np.float64(coefficients[0, slot])))


@compiled_row
def reduce_twins(kept: Kept, rule: BudgetRule) -> None:
    """Solve, and make room until the budget is met, solving again each time; kept changes in place."""
    supports, coefficients, marks, memory, integers, _, _, _, _, row, _, column, _ = kept
    write_scores(memory, integers[COUNT])
    solve_twins(memory, rule.parameters, integers[COUNT])
    while integers[COUNT] > rule.budget:
        make_room(supports, coefficients, marks, memory, integers, row, column, rule.kernel, rule.parameters)
        write_scores(memory, integers[COUNT])
        solve_twins(memory, rule.parameters, integers[COUNT])
    write_coefficients(coefficients, memory, integers[COUNT])
