"""Kernel learners with a budget of support vectors: the loop over rows, inverse matrices and simple strategies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from okl.compiled.jit import (
    STEP_OPTIONS,
    compiled_part,
    compiled_row,
    compiled_row_sum,
    compiled_step,
    nested_row,
    nested_row_sum,
    nested_step,
)
from okl.compiled.kernels import LANES, KernelRule, kernel_row, kernel_self
from okl.compiled.sgd import (
    HINGE,
    MULTICLASS_HINGE,
    ROWS,
    THRESHOLDED_HALF_SQUARED,
    UPDATES,
    best_wrong,
    count_binary,
    count_class,
    count_squares,
    loss_slope,
)
from okl.foundation.types import Doubles, FloatArray, Integers

# Kernel row, scores and mistakes of a row, and the slot of a new support vector.
#
# The function is f = scale * sum_s a_s k(s, x), one vector of coefficients a_s a support, one entry an output. The
# scale is kept apart: shrinking all coefficients costs one product. Columns that hold no support are zero in both
# arrays, so that kernel rows run over whole vectors.
#
# Legend: x a row (n_inputs,); f a score; B the budget.


COUNT, ADDED, RANDOM = 0, 1, 2  # places in integers; from FIRST_INTEGER on they are the strategy's own
SCALE = 0  # place in floats; from FIRST_FLOAT on they are the strategy's own
LABEL, NUMBER = 0, 1  # rows of marks
FIRST_INTEGER, FIRST_FLOAT, N_INTEGERS, N_FLOATS = 4, 1, 8, 8


class SupportArrays(NamedTuple):
    """All that learning changes in place.

    supports : (n_inputs, capacity), one column a support, of the learner's precision; unused columns are 0
    coefficients : (n_outputs, capacity) of that precision, before the scale; 0 in unused columns
    marks : (2, capacity) int64; at LABEL the class index, 0 and 1 of two classes, 0 for regression; at NUMBER how many
        supports were added before: less is older
    memory : (rows, columns) float64, a matrix of the strategy's own, such as inverse kernel values; may be empty
    integers : (N_INTEGERS,) int64: supports at COUNT, supports ever added at ADDED, numbers drawn so far at RANDOM
    floats : (N_FLOATS,) float64: the scale at SCALE
    counts, sums, class_counts : as in okl.compiled.sgd
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
    budget : most supports, at most the capacity
    """

    kernel: KernelRule
    code: int
    epsilon: float
    budget: int


class RowResult(NamedTuple):
    """A row that was scored and counted, before it is learned.

    output : the row's entry in coefficients: its class, or 0; wrong : the best wrong class, -1 with one output
    label : as in SupportArrays; y : the target; f : score of output
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
    """Return columns that a kernel row of `count` supports runs over: a multiple of LANES."""
    return (count + LANES - 1) // LANES * LANES


@compiled_row_sum
def weighted(coefficients: FloatArray, row: FloatArray) -> float:
    """Return the sum of the products of two vectors (width,) of one precision, in that precision."""
    total = row.dtype.type(0)
    for i in range(row.shape[0]):
        total += coefficients[i] * row[i]
    return np.float64(total)


@nested_step
def score_row(state: SupportArrays, row: FloatArray, x: FloatArray, kernel: KernelRule, scale: float) -> None:
    """Overwrite state.scores by f(x), and row (capacity,) by the kernel values of the supports."""
    width = used_width(state.integers[COUNT])
    kernel_row(row[:width], state.supports, x, kernel)
    for k in range(state.scores.shape[0]):
        state.scores[k] = scale * weighted(state.coefficients[k, :width], row[:width])


@compiled_step
def count_row(state: SupportArrays | GrowingArrays, y: float, code: int) -> RowResult:
    """Count a row with state.scores; counts, sums and class_counts change in place."""
    scores, counts, class_counts = state.scores, state.counts, state.class_counts
    counts[ROWS] += 1
    if code == MULTICLASS_HINGE:
        true = int(y)
        count_class(counts, class_counts, scores, true)
        wrong = best_wrong(scores, true)
        f = np.float64(scores[true])
        return RowResult(true, wrong, true, y, f, f - np.float64(scores[wrong]))
    f = np.float64(scores[0])
    if code == HINGE:
        return RowResult(0, -1, count_binary(counts, class_counts, f, y), y, f, y * f)
    return RowResult(0, -1, count_squares(state.sums, class_counts, f, y), y, f, y - f)


@compiled_row
def mistake_step(code: int, epsilon: float, step_size: float, seen: RowResult) -> float:
    """Return the coefficient of a Perceptron for a row, 0 for none: +-step_size after a mistake, as the residual.

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
def gradient_step(code: int, epsilon: float, step_size: float, seen: RowResult) -> float:
    """Return the coefficient of gradient descent on the loss for a row, 0 for none: -step_size times the derivative."""
    if code == MULTICLASS_HINGE:
        return step_size if seen.margin < 1.0 else 0.0
    return -step_size * loss_slope(code, epsilon, seen.f, seen.y)


@compiled_row
def draw_uniform(integers: Integers) -> float:
    """Return a number from [0, 1), 53 random bits; the state at RANDOM moves on by one.

    Source: Steele, Lea & Flood, OOPSLA 2014, SplitMix64 (Figure 17, with the mixing of variant 13).
    """
    integers[RANDOM] += 1
    bits = np.uint64(integers[RANDOM]) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return np.float64(bits >> np.uint64(11)) * 2.0**-53


# The loop over rows, one for all strategies.
#
# A strategy is a named tuple of its numbers and a step for them, chosen by the type of the tuple when the loop is
# compiled, and compiled into the loop: a tuple of arrays handed on for every row costs twice as much as its kernel row.

_STEPS: dict[type, Any] = {}


def learns_by(settings: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function of (state, rule, settings, x, seen) the step of all strategies whose numbers are of a type."""

    def register(step: Callable[..., None]) -> Callable[..., None]:
        learnt = _STEPS[settings] = compiled_part(step)
        return learnt

    return register


def learn_row(state, rule, settings, x, seen):  # type: ignore[no-untyped-def]
    """Learn a row x that was scored and counted; state changes in place. In compiled code: the strategy's step."""
    _STEPS[type(settings)](state, rule, settings, x, seen)


@overload(learn_row, jit_options=STEP_OPTIONS)
def _choose_step(state, rule, settings, x, seen):  # type: ignore[no-untyped-def]
    # the step is copied into this function, and this one is inlined: returned itself, it would be inlined less, and
    # learners took half as long again
    step = _STEPS[settings.instance_class]
    return lambda state, rule, settings, x, seen: step(state, rule, settings, x, seen)


@compiled_row
def learn_rows(state: SupportArrays, inputs: FloatArray, targets: Doubles, rule: BudgetRule, settings: Any) -> None:
    """Score, count and learn rows in order; state changes in place."""
    for index in range(inputs.shape[0]):
        x = inputs[index]
        score_row(state, state.row, x, rule.kernel, state.floats[SCALE])
        seen = count_row(state, targets[index], rule.code)
        learn_row(state, rule, settings, x, seen)  # type: ignore[no-untyped-call]


# Insertion, removal and decay of support vectors.

LEAST_SCALE = 1e-6  # below it, or above its inverse, coefficients take the scale in: single precision ends at 1e-38


@compiled_step
def put_support(
    state: SupportArrays, x: FloatArray, slot: int, seen: RowResult, value: float, share: float = 0.0
) -> None:
    """Make a row the support at a slot, the one at COUNT being new; state changes in place.

    Its coefficients are a share of those that were there, plus value, before the scale, for its output and -value for
    the best wrong class.
    """
    coefficients, marks, integers = state.coefficients, state.marks, state.integers
    for j in range(x.shape[0]):
        state.supports[j, slot] = x[j]
    for k in range(coefficients.shape[0]):
        coefficients[k, slot] *= share
    coefficients[seen.output, slot] += value
    if seen.wrong >= 0:
        coefficients[seen.wrong, slot] -= value
    marks[LABEL, slot] = seen.label
    marks[NUMBER, slot] = integers[ADDED]
    integers[ADDED] += 1
    if slot == integers[COUNT]:
        integers[COUNT] += 1


@compiled_step
def drop_support(state: SupportArrays, slot: int) -> None:
    """Take a support out: the last one moves to its slot, and the last column becomes 0; state changes in place."""
    supports, coefficients, marks, last = state.supports, state.coefficients, state.marks, state.integers[COUNT] - 1
    for j in range(supports.shape[0]):
        supports[j, slot] = supports[j, last]
        supports[j, last] = 0
    for k in range(coefficients.shape[0]):
        coefficients[k, slot] = coefficients[k, last]
        coefficients[k, last] = 0
    for k in range(marks.shape[0]):
        marks[k, slot] = marks[k, last]
        marks[k, last] = 0
    state.integers[COUNT] = last


@compiled_step
def rescale(state: SupportArrays, factor: float) -> None:
    """Multiply f by a factor > 0: the scale and, once in a while, the coefficients change in place."""
    coefficients, floats = state.coefficients, state.floats
    floats[SCALE] *= factor
    if floats[SCALE] < LEAST_SCALE or floats[SCALE] > 1.0 / LEAST_SCALE:
        scale = coefficients.dtype.type(floats[SCALE])
        for k in range(coefficients.shape[0]):
            for i in range(coefficients.shape[1]):
                coefficients[k, i] *= scale
        floats[SCALE] = 1.0


@compiled_step
def copy_support(state: SupportArrays, slot: int) -> None:
    """Overwrite state.column (n_inputs,) by a support: kernel rows take contiguous inputs."""
    for j in range(state.column.shape[0]):
        state.column[j] = state.supports[j, slot]


@compiled_row
def oldest_support(marks: Integers, count: int) -> int:
    """Return the slot of the support that came first; count >= 1."""
    oldest = 0
    for i in range(1, count):
        if marks[NUMBER, i] < marks[NUMBER, oldest]:
            oldest = i
    return oldest


# Inverse root of a growing kernel matrix, and the projection of a row onto the span of the support vectors.
#
# The inverse of the kernel matrix is kept as R'R, R being the inverse of its Cholesky factor until a support goes and a
# reflection of its rows thereafter. Rows are near the span of the supports: an explicit inverse loses twice the digits.
# Everything is float64 and zero beyond the supports, so that loops run over whole vectors.
#
# Legend: R root of the n supports, the leading n x n of (capacity, capacity); k kernel row; d = R'R k, the coefficients
# of the row's projection; own = k(x, x); left = own - |R k|^2, its squared distance to the span.


@nested_row
def multiply_matrix(out: Doubles, matrix: Doubles, values: Doubles, n: int) -> None:
    """Overwrite out (width,) by the product of the leading n rows, symmetric, with values (n,)."""
    out[:] = 0.0
    for j in range(n):
        m, v = matrix[j], values[j]
        for i in range(out.shape[0]):
            out[i] += m[i] * v


@nested_row_sum
def _leading_product(left: Doubles, right: FloatArray, n: int) -> float:
    """Return the product of the first n entries."""
    total = 0.0
    for i in range(n):
        total += left[i] * np.float64(right[i])
    return total


@compiled_row
def project_row_onto_supports(place: Doubles, root: Doubles, row: FloatArray, n: int, removes: bool) -> float:
    """Overwrite place (width,) by d; returns |R k|^2, the squared length of the projection.

    place : width >= n; row : (width,) kernel values, of any precision; removes : whether R need not be triangular
    """
    place[:] = 0.0
    length = 0.0
    for j in range(n):
        width, r = n if removes else j + 1, root[j]
        product = _leading_product(r, row, width)
        length += product * product
        for i in range(width):
            place[i] += product * r[i]
    return length


@compiled_row
def grow_root(root: Doubles, place: Doubles, left: float, n: int) -> None:
    """Make the row of d and left > 0 support n: the root changes in place.

    R <- [[R, 0], [-d' / left^(1/2), 1 / left^(1/2)]], so that R'R is the inverse of the grown matrix.

    Source: Golub & Van Loan, Matrix Computations, section 4.2: a further row of a Cholesky factor, here of its inverse.
    """
    scale = 1.0 / math.sqrt(left)
    for i in range(n):
        root[n, i] = -place[i] * scale
    root[n, n] = scale


@compiled_row
def replace_in_root(root: Doubles, column: Doubles, place: Doubles, left: float, slot: int, n: int) -> None:
    """Put the row of d and left > 0 in the place of the support at a slot; root and column (width,) change.

    A reflection of the rows of the root grown as by `grow_root` puts all of column r into the last row b, which goes.
    column becomes the coefficients of the projection of r onto the others, -b / b_r, that of the new row at the slot.
    """
    scale = 1.0 / math.sqrt(left)
    last = -place[slot] * scale
    square = last * last
    for j in range(n):
        square += root[j, slot] * root[j, slot]
    pivot = math.sqrt(square) if last < 0.0 else -math.sqrt(square)
    last -= pivot
    factor = -1.0 / (pivot * last)
    for i in range(n):
        column[i] = -place[i] * scale * last
    for j in range(n):
        r, v = root[j], root[j, slot]
        for i in range(n):
            column[i] += v * r[i]
    added = factor * scale * last
    for j in range(n):
        r, v = root[j], root[j, slot]
        share = factor * v
        for i in range(n):
            r[i] -= share * column[i]
        r[slot] = -v * added
    for i in range(n):
        column[i] = (place[i] * scale + factor * last * column[i]) / pivot
    column[slot] = -(scale - last * added) / pivot


@compiled_row
def shrink_root(root: Doubles, column: Doubles, slot: int, n: int) -> None:
    """Take the support at a slot out, the last of n moving there; root and column (width,) change in place.

    A reflection of the rows puts all of column r into the last row b, which goes with the column. column becomes the
    coefficients of the projection of r onto the others, -b / b_r, each at the slot where its support stood; 0 at r.
    """
    end = n - 1
    square = 0.0
    for j in range(n):
        square += root[j, slot] * root[j, slot]
    last = root[end, slot]
    pivot = math.sqrt(square) if last < 0.0 else -math.sqrt(square)
    last -= pivot
    factor = -1.0 / (pivot * last)
    column[:n] = 0.0
    for j in range(n):
        r, v = root[j], last if j == end else root[j, slot]
        for i in range(n):
            column[i] += v * r[i]
    for j in range(end):
        r, share = root[j], factor * root[j, slot]
        for i in range(n):
            r[i] -= share * column[i]
    for i in range(n):
        column[i] = -(root[end, i] - factor * last * column[i]) / pivot
    column[slot] = 0.0
    for j in range(end):
        root[j, slot] = root[j, end]
        root[j, end] = 0.0
    root[end, :n] = 0.0


@nested_row
def inverse_diagonal(out: Doubles, root: Doubles, n: int) -> None:
    """Overwrite out (width,) by the diagonal of the inverse, the squared lengths of the root's columns."""
    out[:] = 0.0
    for j in range(n):
        r = root[j]
        for i in range(out.shape[0]):
            out[i] += r[i] * r[i]


# Self-tuned Forgetron: all coefficients shrink just enough that the oldest support vector may be removed.
#
# Legend: a coefficient and y sign of the oldest support x_r, mu = y f(x_r) after the step; phi the factor of
# shrinking.

COST, MISTAKES = FIRST_FLOAT, FIRST_FLOAT + 1  # places in floats
_SHARE = 15.0 / 32.0


@compiled_row
def shrinking_factor(a: float, mu: float, cost: float, mistakes: float, larger_root: bool = False) -> float:
    """Return the largest phi of (0, 1] for which forgetting a support may cost (a phi)^2 + 2 a phi (1 - phi mu).

    cost + that <= 15/32 mistakes; a > 0 is the coefficient's size, cost < 15/32 mistakes.

    larger_root : where the cost falls for large phi, return its root beyond 1, as the runs of Lu et al. did: f grows

    Source: Dekel, Shalev-Shwartz & Singer, SIAM J. Comput. 37, 2008, section 5 (the self-tuned Forgetron).
    """
    square, twice, rest = a * a - 2.0 * a * mu, 2.0 * a, cost - _SHARE * mistakes
    discriminant = twice * twice - 4.0 * square * rest
    if larger_root and square < 0.0 and discriminant > 0.0:
        root = -(twice + math.sqrt(discriminant)) / (2.0 * square)
        if root > 1.0:
            return root
    if square + twice + rest <= 0.0:
        return 1.0
    # the smaller root, by the form that also holds where square is 0
    return -2.0 * rest / (twice + math.sqrt(max(0.0, discriminant)))


@nested_step
def shrink_for_oldest(
    state: SupportArrays, kernel: KernelRule, slot: int, is_multiclass: bool, step_there: float, larger_root: bool
) -> float:
    """Shrink f so that the support at slot may go, and add to the cost; state changes in place.

    step_there : what the step that is not in the coefficients yet adds to the support's own output at the support.
    Returns phi, by which that step must shrink as well.
    """
    floats, output = state.floats, state.marks[LABEL, slot] if is_multiclass else 0
    width = used_width(state.integers[COUNT])
    copy_support(state, slot)
    kernel_row(state.spare[:width], state.supports, state.column, kernel)
    f = floats[SCALE] * weighted(state.coefficients[output, :width], state.spare[:width]) + step_there
    a = floats[SCALE] * state.coefficients[output, slot]
    mu, size = (f, a) if a > 0.0 else (-f, -a)
    if size == 0.0:
        return 1.0
    phi = shrinking_factor(size, mu, floats[COST], floats[MISTAKES], larger_root)
    floats[COST] += (size * phi) ** 2 + 2.0 * size * phi * (1.0 - phi * mu)
    rescale(state, phi)
    return phi


@nested_row
def _step_there(seen: RowResult, step: float, output: int, value: float) -> float:
    """Return what a step adds to an output at a support whose kernel value with the row is value."""
    if output == seen.output:
        return step * value
    return -step * value if output == seen.wrong else 0.0


class Forgetting(NamedTuple):
    """Numbers of the Forgetron; shrinks : 1 where f shrinks, 2 by the larger root, as in the runs of Lu et al."""

    step_size: float
    shrinks: float


@learns_by(Forgetting)
def learn_forgetron(
    state: SupportArrays, rule: BudgetRule, settings: Forgetting, x: FloatArray, seen: RowResult
) -> None:
    """Learn a row by the self-tuned Forgetron; state changes in place.

    Source: Dekel, Shalev-Shwartz & Singer, SIAM J. Comput. 37, 2008, section 5.
    """
    marks, floats = state.marks, state.floats
    kernel, code, epsilon, budget = rule
    step = mistake_step(code, epsilon, settings.step_size, seen)
    if code == HINGE and seen.f == 0.0:  # y f <= 0 is a mistake here, whatever the sign of 0
        step = settings.step_size * seen.y
    if step == 0.0:
        return
    floats[MISTAKES] += 1.0
    slot = state.integers[COUNT]
    if slot == budget:
        slot, many = oldest_support(marks, budget), code == MULTICLASS_HINGE
        if settings.shrinks > 0.0:
            there = _step_there(seen, step, marks[LABEL, slot] if many else 0, state.row[slot])
            step *= shrink_for_oldest(state, kernel, slot, many, there, settings.shrinks > 1.0)
    put_support(state, x, slot, seen, step / floats[SCALE])
    state.counts[UPDATES] += 1


@compiled_row
def forget_oldest(state: SupportArrays, rule: BudgetRule, settings: Forgetting) -> None:
    """Shrink and forget the oldest supports until the budget is met; state changes in place."""
    while state.integers[COUNT] > rule.budget:
        slot = oldest_support(state.marks, state.integers[COUNT])
        if settings.shrinks > 0.0:
            shrink_for_oldest(state, rule.kernel, slot, rule.code == MULTICLASS_HINGE, 0.0, settings.shrinks > 1.0)
        drop_support(state, slot)


# Budget Perceptron: removes the support vector that the others classify best without it.
#
# Legend: F = f(x_i) of every support and output, kept up to date in memory (n_outputs + 1, capacity), whose last row
# is k(x_i, x_i); lead: what the true class of a support is ahead by.


@nested_row
def margin_without(memory: Doubles, coefficients: FloatArray, marks: Integers, slot: int) -> float:
    """Return y f(x) of a support without its own term, or the lead of its class over the best wrong class."""
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


@nested_row
def most_redundant(memory: Doubles, coefficients: FloatArray, marks: Integers, count: int) -> int:
    """Return the slot of the support with the largest lead without itself, the first on a tie."""
    best, slot = -np.inf, 0
    for i in range(count):
        lead = margin_without(memory, coefficients, marks, i)
        if lead > best:
            best, slot = lead, i
    return slot


@nested_step
def subtract_support(state: SupportArrays, kernel: KernelRule, slot: int) -> None:
    """Take the share of the support at slot out of F; state.memory changes, column and spare are buffers."""
    width = used_width(state.integers[COUNT])
    copy_support(state, slot)
    kernel_row(state.spare[:width], state.supports, state.column, kernel)
    for k in range(state.coefficients.shape[0]):
        a = np.float64(state.coefficients[k, slot])
        if a != 0.0:
            for i in range(width):
                state.memory[k, i] -= a * np.float64(state.spare[i])


@nested_row
def add_step(memory: Doubles, row: FloatArray, width: int, seen: RowResult, step: float) -> None:
    """Add a new support's share to F of those before; row (capacity,) holds their kernel values with it."""
    for i in range(width):
        memory[seen.output, i] += step * np.float64(row[i])
        if seen.wrong >= 0:
            memory[seen.wrong, i] -= step * np.float64(row[i])


class Redundancy(NamedTuple):
    """Numbers of the Budget Perceptron; margin : rows at or below which are learned."""

    step_size: float
    margin: float


@learns_by(Redundancy)
def learn_budget_perceptron(
    state: SupportArrays, rule: BudgetRule, settings: Redundancy, x: FloatArray, seen: RowResult
) -> None:
    """Learn a row; state changes in place.

    F is kept by one kernel row for what comes and one for what goes, where the paper's O(B^2) computes it anew.

    Source: Crammer, Kandola & Singer, NIPS 2003, Figure 1, with the budget of Figure 2.
    """
    memory, row, scores = state.memory, state.row, state.scores
    if seen.margin > settings.margin:
        return
    step = settings.step_size * seen.y if rule.code == HINGE else settings.step_size
    slot = state.integers[COUNT]
    if slot == rule.budget:
        slot = most_redundant(memory, state.coefficients, state.marks, rule.budget)
        subtract_support(state, rule.kernel, slot)
        for k in range(scores.shape[0]):
            scores[k] -= state.coefficients[k, slot] * row[slot]
    add_step(memory, row, used_width(state.integers[COUNT]), seen, step)
    put_support(state, x, slot, seen, step)
    own = kernel_self(x, rule.kernel)
    for k in range(scores.shape[0]):
        memory[k, slot] = np.float64(scores[k])
    memory[seen.output, slot] += step * own
    if seen.wrong >= 0:
        memory[seen.wrong, slot] -= step * own
    memory[scores.shape[0], slot] = own
    state.counts[UPDATES] += 1


@compiled_row
def remember_scores(state: SupportArrays, rule: BudgetRule, settings: Redundancy) -> None:
    """Compute F of all supports; state.memory changes, the buffers as well."""
    for i in range(state.integers[COUNT]):
        copy_support(state, i)
        score_row(state, state.spare, state.column, rule.kernel, 1.0)
        for k in range(state.scores.shape[0]):
            state.memory[k, i] = np.float64(state.scores[k])
        state.memory[state.scores.shape[0], i] = kernel_self(state.column, rule.kernel)


@compiled_row
def drop_redundant(state: SupportArrays, rule: BudgetRule, settings: Redundancy) -> None:
    """Take the most redundant supports out until the budget is met; state changes in place."""
    while state.integers[COUNT] > rule.budget:
        last = state.integers[COUNT] - 1
        slot = most_redundant(state.memory, state.coefficients, state.marks, last + 1)
        subtract_support(state, rule.kernel, slot)
        for k in range(state.memory.shape[0]):
            state.memory[k, slot] = state.memory[k, last]
        drop_support(state, slot)


# Randomized Budget Perceptron, BOGD, BOGD++ and NORMA: a support is removed at random, by its weight or by its age.
#
# BOGD and NORMA let all coefficients decay. BOGD++ removes supports of small weight more often, and stays unbiased.
#
# Legend: w_i = ||a_i|| k(x_i, x_i)^(1/2) the weight of a support, a_i its coefficients; B the budget.

MARGIN = FIRST_FLOAT  # place in floats: NORMA's margin, or the threshold of a regression
NORM, CHANCE = 0, 1  # rows of memory of BOGD++: k(x_i, x_i)^(1/2) of each support, and a buffer
PERCEPTRON, GRADIENT, NORMA = 0, 1, 2  # kinds of steps
BY_CHANCE, OLDEST, BY_WEIGHT = 0, 1, 2  # supports that are removed


class Replacement(NamedTuple):
    """Numbers of these strategies.

    kind : of the step: PERCEPTRON, GRADIENT or NORMA; removal : BY_CHANCE, OLDEST or BY_WEIGHT
    decay : factor of f a row, 1 for none; share : NORMA's nu, negative for a margin that stays
    grows : above 0 where all others grow when a support goes; largest : coefficient, infinity for none
    scales : above 0 where all coefficients shrink to the largest one together, with a full budget; else each is clipped
    """

    kind: float
    removal: float
    step_size: float
    decay: float = 1.0
    share: float = -1.0
    grows: float = 0.0
    largest: float = math.inf
    scales: float = 0.0


@nested_row
def row_step(
    kind: float, code: int, epsilon: float, step_size: float, share: float, floats: Doubles, seen: RowResult
) -> float:
    """Return the coefficient of a row, 0 for none; NORMA's margin in floats moves."""
    if kind == PERCEPTRON:
        return mistake_step(code, epsilon, step_size, seen)
    if kind == GRADIENT:
        return gradient_step(code, epsilon, step_size, seen)
    return norma_step(code, step_size, share, floats, seen)


@nested_row
def norma_step(code: int, step_size: float, share: float, floats: Doubles, seen: RowResult) -> float:
    """Return the coefficient of NORMA for a row, 0 for none; the margin in floats moves, unless share < 0.

    share : nu, the share of rows that shall be beyond the margin

    Source: Kivinen, Smola & Williamson, IEEE Trans. Signal Processing 52(8), 2004, section III (nu trick).
    """
    margin = floats[MARGIN]
    if code == THRESHOLDED_HALF_SQUARED:
        beyond, towards = abs(seen.margin) > margin, step_size
        size = step_size if seen.margin > 0.0 else -step_size
    else:
        beyond, towards = seen.margin < margin, -step_size
        size = step_size if code == MULTICLASS_HINGE else step_size * seen.y
    if share >= 0.0:
        floats[MARGIN] += towards * (1.0 - share if beyond else -share)
    return size if beyond else 0.0


@compiled_row
def clip(coefficients: FloatArray, largest: float) -> None:
    """Bring coefficients (n_outputs, capacity) into [-largest, largest]."""
    limit = coefficients.dtype.type(largest)
    for k in range(coefficients.shape[0]):
        for i in range(coefficients.shape[1]):
            coefficients[k, i] = min(max(coefficients[k, i], -limit), limit)


@nested_step
def bound_coefficients(state: SupportArrays, settings: Replacement, full: bool) -> None:
    """Clip all coefficients, or shrink them together, to the largest allowed one; state changes in place."""
    if not settings.largest < 1e300:
        return
    limit = settings.largest / state.floats[SCALE]
    if settings.scales <= 0.0:
        clip(state.coefficients, limit)
    elif full:
        size = 0.0
        for k in range(state.coefficients.shape[0]):
            for i in range(state.coefficients.shape[1]):
                size = max(size, abs(np.float64(state.coefficients[k, i])))
        if size > limit:
            rescale(state, limit / size)


@nested_row
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


@nested_row
def choose_removal(memory: Doubles, coefficients: FloatArray, integers: Integers) -> int:
    """Draw a support to remove; the others' coefficients are divided by their chance to stay: f is the same on average.

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


@nested_step
def leaving_support(state: SupportArrays, settings: Replacement) -> int:
    """Choose the support to remove, and change the others' coefficients as the choice requires."""
    count = state.integers[COUNT]
    if settings.removal == BY_WEIGHT:
        return choose_removal(state.memory, state.coefficients, state.integers)
    if settings.removal == OLDEST:
        return oldest_support(state.marks, count)
    return int(draw_uniform(state.integers) * count)


@learns_by(Replacement)
def learn_replacing(
    state: SupportArrays, rule: BudgetRule, settings: Replacement, x: FloatArray, seen: RowResult
) -> None:
    """Let f decay and take a step, in the place of another support when the budget is full; state changes in place.

    Source: Cavallanti, Cesa-Bianchi & Gentile, Machine Learning 69, 2007, Figure 3 (RBP); Zhao, Wang, Wu, Jin & Hoi,
    ICML 2012 (BOGD by uniform and BOGD++ by non-uniform sampling); Kivinen, Smola & Williamson, IEEE Trans. Signal
    Processing 52(8), 2004, Figure 1, with truncation (NORMA).
    """
    floats = state.floats
    step = row_step(settings.kind, rule.code, rule.epsilon, settings.step_size, settings.share, floats, seen)
    rescale(state, settings.decay)
    if step == 0.0:
        return
    slot = state.integers[COUNT]
    full = slot == rule.budget
    if full:
        slot = leaving_support(state, settings)
        if settings.grows > 0.0 and rule.budget > 1:
            rescale(state, rule.budget / (rule.budget - 1.0))
    put_support(state, x, slot, seen, step / floats[SCALE])
    if settings.removal == BY_WEIGHT:
        state.memory[NORM, slot] = math.sqrt(kernel_self(x, rule.kernel))
    bound_coefficients(state, settings, full)
    state.counts[UPDATES] += 1


@compiled_row
def remember_norms(state: SupportArrays, rule: BudgetRule, settings: Replacement) -> None:
    """Compute memory[NORM] of all supports; state changes in place."""
    for i in range(state.integers[COUNT]):
        copy_support(state, i)
        state.memory[NORM, i] = math.sqrt(kernel_self(state.column, rule.kernel))


@compiled_row
def drop_replaced_supports(state: SupportArrays, rule: BudgetRule, settings: Replacement) -> None:
    """Take supports out as `learn_replacing` does until the budget is met; state changes in place."""
    memory = state.memory
    while state.integers[COUNT] > rule.budget:
        count = state.integers[COUNT]
        slot = leaving_support(state, settings)
        if settings.removal == BY_WEIGHT:
            memory[NORM, slot] = memory[NORM, count - 1]
        drop_support(state, slot)
        if settings.grows > 0.0 and count > 1:
            rescale(state, count / (count - 1.0))
    bound_coefficients(state, settings, full=True)


# Kernel learners without a budget: kernel values are computed ahead, in tiles.
#
# Legend: f = scale * (known + sum_j c_j k(x_j, x)), over the rows j of the block that became supports.


class GrowingArrays(NamedTuple):
    """All that learning a block changes in place.

    coefficients : (n_outputs, rows) float64, of each row of the block; 0 where it did not become a support
    floats : (2,) float64, the scale and NORMA's margin
    counts, sums, class_counts : as in okl.compiled.sgd; scores : (n_outputs,) float64, a buffer
    """

    coefficients: Doubles
    floats: Doubles
    counts: Integers
    sums: Doubles
    class_counts: Integers
    scores: Doubles


@compiled_row
def learn_growing(
    grown: GrowingArrays,
    known: Doubles,
    among: FloatArray,
    targets: Doubles,
    code: int,
    epsilon: float,
    settings: Replacement,
) -> None:
    """Learn the rows of a block one after the other; grown changes in place.

    known : (rows, n_outputs), scores by the supports before the block; among : (rows, rows), kernel values of its rows
    settings : kind, step_size, decay and share of these; no support is removed

    Source: Lu et al., JMLR 17(47), 2016, sections 7.2.1 and 7.4.1; Kivinen, Smola & Williamson, 2004, Figure 1.
    """
    coefficients, floats, counts, _, _, scores = grown
    for row in range(targets.shape[0]):
        for k in range(scores.shape[0]):
            scores[k] = floats[0] * (known[row, k] + _leading_product(coefficients[k], among[row], row))
        seen = count_row(grown, targets[row], code)
        step = row_step(settings.kind, code, epsilon, settings.step_size, settings.share, floats, seen)
        floats[0] *= settings.decay
        if step != 0.0:
            coefficients[seen.output, row] = step / floats[0]
            if code == MULTICLASS_HINGE:
                coefficients[seen.wrong, row] = -step / floats[0]
            counts[UPDATES] += 1
