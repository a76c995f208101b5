"""What every learner with support vectors does with a row: kernel row, scores, mistakes, a place for a new support.

The function is f = scale * sum_s a_s k(s, x), one vector of coefficients a_s a support, one entry an output. The scale
is kept apart: shrinking all coefficients costs one product. Columns that hold no support are zero in both arrays, so
that kernel rows run over whole vectors.

A driver takes Kept and BudgetRule apart before its loop and hands on single arrays: a tuple of arrays handed on for
every row costs twice as much as its kernel row.

Legend: x a row (n_inputs,); f a score; B the budget.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.counting import ROWS, count_binary, count_class, count_squares
from okl.compiled.door import compiled_row, compiled_row_sum
from okl.compiled.kernelrows import LANES, kernel_row
from okl.compiled.kernelrule import KernelRule
from okl.compiled.steplosses import HINGE, MULTICLASS_HINGE, best_wrong, slope
from okl.types import FloatArray

Integers = NDArray[np.int64]
Doubles = NDArray[np.float64]

COUNT, ADDED, RANDOM = 0, 1, 2  # places in integers; from FIRST_INTEGER on they are the strategy's own
SCALE = 0  # place in floats; from FIRST_FLOAT on they are the strategy's own
LABEL, NUMBER = 0, 1  # rows of marks
FIRST_INTEGER, FIRST_FLOAT, N_INTEGERS, N_FLOATS = 4, 1, 8, 8


class Kept(NamedTuple):
    """All that learning changes in place.

    supports : (n_inputs, capacity), one column a support, of the learner's precision; unused columns are 0
    coefficients : (n_outputs, capacity) of that precision, before the scale; 0 in unused columns
    marks : (2, capacity) int64; at LABEL the class index, 0 and 1 of two classes, 0 for regression; at NUMBER how many
        supports were added before: less is older
    memory : (rows, columns) float64, a matrix of the strategy's own, such as inverse kernel values; may be empty
    integers : (N_INTEGERS,) int64: supports at COUNT, supports ever added at ADDED, numbers drawn so far at RANDOM
    floats : (N_FLOATS,) float64: the scale at SCALE
    counts, sums, class_counts : as in okl.compiled.counting
    row, spare : (capacity,) buffers for kernel rows; column : (n_inputs,) buffer for a support; scores : (n_outputs,)
    """

    supports: FloatArray
    coefficients: FloatArray
    marks: Integers
    memory: Doubles
    integers: Integers
    floats: Doubles
    counts: Integers
    sums: Doubles
    class_counts: Integers
    row: FloatArray
    spare: FloatArray
    column: FloatArray
    scores: FloatArray


class BudgetRule(NamedTuple):
    """Settings that every strategy shares.

    kernel : k; code, epsilon : the loss of okl.losses, HINGE, MULTICLASS_HINGE or THRESHOLDED_HALF_SQUARED
    budget : most supports, at most the capacity; parameters : (n,) float64, the strategy's own
    """

    kernel: KernelRule
    code: int
    epsilon: float
    budget: int
    parameters: Doubles


class Seen(NamedTuple):
    """A row that was scored and counted, before it is learnt.

    output : the row's entry in coefficients: its class, or 0; wrong : the best wrong class, -1 with one output
    label : as in Kept; y : the target; f : score of output
    margin : y f, the lead of the true class over the best wrong one, or the residual y - f
    """

    output: int
    wrong: int
    label: int
    y: float
    f: float
    margin: float


@compiled_row
def used_width(count: int) -> int:
    """Columns that a kernel row of `count` supports runs over: a multiple of LANES."""
    return (count + LANES - 1) // LANES * LANES


@compiled_row_sum
def weighted(coefficients: FloatArray, row: FloatArray) -> float:
    """Sum of the products of two vectors (width,) of one precision, in that precision."""
    total = row.dtype.type(0)
    for i in range(row.shape[0]):
        total += coefficients[i] * row[i]
    return np.float64(total)


@compiled_row
def score_row(
    scores: FloatArray,
    row: FloatArray,
    supports: FloatArray,
    coefficients: FloatArray,
    x: FloatArray,
    kernel: KernelRule,
    count: int,
    scale: float,
) -> None:
    """Overwrite scores (n_outputs,) by f(x), and row (capacity,) by the kernel values of the first `count` supports."""
    width = used_width(count)
    kernel_row(row[:width], supports, x, kernel)
    for k in range(scores.shape[0]):
        scores[k] = scale * weighted(coefficients[k, :width], row[:width])


@compiled_row
def count_row(
    scores: FloatArray,
    counts: Integers,
    sums: Doubles,
    class_counts: Integers,
    y: float,
    code: int,
) -> Seen:
    """Count a row with these scores (n_outputs,); counts, sums and class_counts change in place."""
    counts[ROWS] += 1
    if code == MULTICLASS_HINGE:
        true = int(y)
        count_class(counts, class_counts, scores, true)
        wrong = best_wrong(scores, true)
        f = np.float64(scores[true])
        return Seen(true, wrong, true, y, f, f - np.float64(scores[wrong]))
    f = np.float64(scores[0])
    if code == HINGE:
        return Seen(0, -1, count_binary(counts, class_counts, f, y), y, f, y * f)
    return Seen(0, -1, count_squares(sums, class_counts, f, y), y, f, y - f)


@compiled_row
def mistake_step(code: int, epsilon: float, step_size: float, seen: Seen) -> float:
    """Coefficient of a Perceptron for a row, 0 for none: +-step_size after a mistake, with the residual's sign.

    A mistake is what is counted as one, a score of 0 being +1 and ties the first class, or |y - f| > epsilon.
    """
    if code == HINGE:
        return step_size * seen.y if (seen.f >= 0.0) != (seen.y > 0.0) else 0.0
    if code == MULTICLASS_HINGE:
        tie = seen.margin == 0.0 and seen.wrong < seen.output
        return step_size if seen.margin < 0.0 or tie else 0.0
    if abs(seen.margin) <= epsilon:
        return 0.0
    return step_size if seen.margin > 0.0 else -step_size


@compiled_row
def gradient_step(code: int, epsilon: float, step_size: float, seen: Seen) -> float:
    """Coefficient of gradient descent on the loss for a row, 0 for none: -step_size times the derivative."""
    if code == MULTICLASS_HINGE:
        return step_size if seen.margin < 1.0 else 0.0
    return -step_size * slope(code, epsilon, seen.f, seen.y)


@compiled_row
def draw_uniform(integers: Integers) -> float:
    """A number from [0, 1), 53 random bits; the state at RANDOM moves on by one.

    Source: Steele, Lea & Flood, OOPSLA 2014, SplitMix64 (Figure 17, with the mixing of variant 13).
    """
    integers[RANDOM] += 1
    bits = np.uint64(integers[RANDOM]) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return np.float64(bits >> np.uint64(11)) * 2.0**-53
