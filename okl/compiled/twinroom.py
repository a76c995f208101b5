"""Room among twin vectors: the one that matters least goes, or two become one.

A twin of one class that lies outside of the margin, on its own side, has a_i = 0: without it f is the minimum still.
Where there is none, the pair goes together that moves least: the squared distance in feature space of two rows, summed
over the pairs of rows that two twins stand for and divided by their number, as k-means joins clusters, rows of unlike
classes counting several times:

  |k(x_i, .) - k(x_j, .)|^2 (s+_i s+_j + s-_i s-_j + unlike (s+_i s-_j + s-_i s+_j)) / (s_i + s_j),   s = s+ + s-

Legend as in okl.compiled.budgettwin; n twins, the last one the newest.
"""

from __future__ import annotations

import math

import numpy as np

from okl.compiled.budget import ADDED, COUNT, LABEL, NUMBER, Doubles, Integers, used_width
from okl.compiled.door import compiled_row
from okl.compiled.kernelrows import kernel_row
from okl.compiled.kernelrule import KernelRule
from okl.compiled.merging import CLEARLY
from okl.compiled.supports import copy_support, drop_support
from okl.types import FloatArray

POSITIVE, NEGATIVE, SOLUTION, SCORES, COSTS, KERNEL = 0, 1, 2, 3, 4, 5  # rows of memory
PENALTY, TOLERANCE, SWEEPS, UNLIKE = 0, 1, 2, 3  # places in parameters
IDLE = 1e-9  # share of C below which a coefficient is none: a duplicate of a support may have one of rounding alone
ALIKE = 1e-12  # squared distances that are closer, as a share of k(x_i, x_i), differ by rounding


@compiled_row
def make_room(
    supports: FloatArray,
    coefficients: FloatArray,
    marks: Integers,
    memory: Doubles,
    integers: Integers,
    row: FloatArray,
    column: FloatArray,
    kernel: KernelRule,
    parameters: Doubles,
) -> None:
    """Leave a twin less, the last one in the place of the one that goes; F is left as it was, all else changes.

    supports, coefficients, marks, integers, row, column : as in Kept
    """
    count = integers[COUNT]
    slot = farthest_idle(memory, parameters, count)
    if slot >= 0:
        drop_twin(memory, slot, count)
        drop_support(supports, coefficients, marks, integers, slot)
        return
    first, second = nearest_pair(memory, parameters[UNLIKE], count)
    merge_twins(supports, marks, memory, integers, first, second)
    drop_twin(memory, second, count)
    drop_support(supports, coefficients, marks, integers, second)
    copy_support(column, supports, first)
    write_kernel_values(memory, supports, row, column, kernel, first, count - 1)


@compiled_row
def write_kernel_values(
    memory: Doubles,
    supports: FloatArray,
    row: FloatArray,
    x: FloatArray,
    kernel: KernelRule,
    slot: int,
    count: int,
) -> None:
    """Write the kernel values of the support at a slot, x, with the first `count`; row and memory change."""
    kernel_row(row[: used_width(count)], supports, x, kernel)
    for i in range(count):
        value = np.float64(row[i])
        memory[KERNEL + slot, i] = value
        memory[KERNEL + i, slot] = value


@compiled_row
def farthest_idle(memory: Doubles, parameters: Doubles, count: int) -> int:
    """The twin of one class farthest beyond the margin on its own side, the first of equals; -1 if there is none.

    A row that has just come is inside of the margin.
    """
    slot, farthest = -1, 1.0 + parameters[TOLERANCE]
    for i in range(count):
        if abs(memory[SOLUTION, i]) > IDLE * parameters[PENALTY]:
            continue
        if memory[POSITIVE, i] > 0.0 and memory[NEGATIVE, i] > 0.0:
            continue
        lead = memory[SCORES, i] if memory[POSITIVE, i] > 0.0 else -memory[SCORES, i]
        if lead > farthest * CLEARLY:
            slot, farthest = i, lead
    return slot


@compiled_row
def nearest_pair(memory: Doubles, unlike: float, count: int) -> tuple[int, int]:
    """The pair that is cheapest to merge: the first in order of its second twin that none after clearly undercuts."""
    costs, positive, negative = memory[COSTS], memory[POSITIVE], memory[NEGATIVE]
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


@compiled_row
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


@compiled_row
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
