"""Row-by-row gradient steps: losses, counters, linear updates, NOGD and Pegasos."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from okl.compiled.extension import SLOPE, call_extension
from okl.compiled.fourier import dot
from okl.compiled.jit import compiled, compiled_row, nested, nested_row, nested_step, nested_sum
from okl.compiled.products import SparseBlock
from okl.compiled.threads import Block
from okl.foundation.types import Doubles, FloatArray, Integers

# Losses by number: value and derivative at the scores of one row.
#
# Legend: f score, y target.

HINGE, LOGISTIC, MULTICLASS_HINGE, THRESHOLDED_HALF_SQUARED = 0, 1, 2, 3
OWN_BINARY, OWN_REGRESSION = 4, 5  # not of this table: what the loss is stands at an address


@compiled
def loss_slope(code: int, epsilon: float, f: float, y: float) -> float:
    """Return the derivative by the score of a loss with one output."""
    if code == HINGE:
        return -y if y * f < 1.0 else 0.0
    if code == LOGISTIC:
        return -y * 0.5 * (1.0 - math.tanh(0.5 * y * f))
    residual = f - y
    return residual if abs(residual) > epsilon else 0.0


@compiled
def loss_value(code: int, epsilon: float, f: float, y: float) -> float:
    """Return the value of a loss with one output."""
    if code == HINGE:
        return max(0.0, 1.0 - y * f)
    if code == LOGISTIC:
        return max(0.0, -y * f) + math.log1p(math.exp(-abs(y * f)))
    residual = f - y
    return 0.5 * residual * residual if abs(residual) > epsilon else 0.0


@nested
def is_regression(code: int) -> bool:
    """Return whether squared errors are counted with a loss, not mistakes."""
    return code in (THRESHOLDED_HALF_SQUARED, OWN_REGRESSION)


@nested
def slope_of(code: int, epsilon: float, address: int, f: float, y: float) -> float:
    """Return the derivative by the score of a loss with one output, of the table or at an address."""
    return loss_slope(code, epsilon, f, y) if address == 0 else call_extension(address, SLOPE, f, y)


@compiled
def best_wrong(scores: FloatArray, true: int) -> int:
    """Return the index of the largest score (n_classes,) but the true class's; the first on a tie."""
    best = 0 if true != 0 else 1
    for k in range(best + 1, scores.shape[0]):
        if k != true and scores[k] > scores[best]:
            best = k
    return best


# Error counters of a learner and of a predictor without inputs.
#
# counts : (5,) int64, at ROWS, MISTAKES, BASELINE_MISTAKES, UPDATES, SAMPLED
# sums : (5,) float64, at SQUARED_ERROR, BASELINE_SQUARED_ERROR, TARGET; and, of learners in a ball, at SURROGATE and
#     STEPPED_GRADIENTS
# class_counts : (n_classes,) int64, rows of each class so far, the negative one of two first; (1,) for regression

ROWS, MISTAKES, BASELINE_MISTAKES, UPDATES, SAMPLED = 0, 1, 2, 3, 4
SQUARED_ERROR, BASELINE_SQUARED_ERROR, TARGET = 0, 1, 2
SURROGATE, STEPPED_GRADIENTS = 3, 4


@nested
def count_binary(counts: Integers, class_counts: Integers, f: float, y: float) -> int:
    """Count mistakes of the score's sign and of the majority so far, both +1 at 0; returns the row's class."""
    label = 1 if y > 0.0 else 0
    counts[MISTAKES] += (f >= 0.0) != (label == 1)
    counts[BASELINE_MISTAKES] += (class_counts[1] >= class_counts[0]) != (label == 1)
    class_counts[label] += 1
    return label


@nested
def count_class(counts: Integers, class_counts: Integers, scores: FloatArray, true: int) -> None:
    """Count mistakes of the largest score (n_classes,) and of the majority so far, the first of either on a tie."""
    counts[MISTAKES] += np.argmax(scores) != true
    counts[BASELINE_MISTAKES] += np.argmax(class_counts) != true
    class_counts[true] += 1


@nested
def count_squares(sums: Doubles, class_counts: Integers, f: float, y: float) -> int:
    """Add up squared errors of the score and of the mean target so far, 0 at first; returns 0, the only class."""
    rows = class_counts[0]
    mean = sums[TARGET] / rows if rows > 0 else 0.0
    sums[SQUARED_ERROR] += (f - y) * (f - y)
    sums[BASELINE_SQUARED_ERROR] += (mean - y) * (mean - y)
    sums[TARGET] += y
    class_counts[0] += 1
    return 0


@nested_step
def count_output(counts: Integers, sums: Doubles, class_counts: Integers, code: int, f: float, y: float) -> int:
    """Count the errors that go with a loss of one output; returns the row's class."""
    if is_regression(code):
        return count_squares(sums, class_counts, f, y)
    return count_binary(counts, class_counts, f, y)


# Sequential updates: score a row, count the mistake, step.
#
# Legend: w weights, z features, y target, f = w'z score, g derivative of the loss by f.


class UpdateRule(NamedTuple):
    """Update rule of a linear learner.

    code, epsilon : the loss of okl.losses; step_size : on the map's scale
    class_weights : (n_classes,) float64, factor of the step of each class; (1,) for regression
    sample_every : rows between two samples of the weights for their average; 0 for none
    radius : of the ball that weights stay in, 0 for none; decaying : whether step t is step_size / sqrt(t), in a ball
    address : of the loss, see okl.compiled.extension; 0 for a loss of the table
    """

    code: int
    epsilon: float
    step_size: float
    class_weights: Doubles
    sample_every: int
    radius: float = 0.0
    decaying: bool = False
    address: int = 0


class LearnerArrays(NamedTuple):
    """All that learning changes in place.

    weights : (n_outputs, n_columns); total : the same in float64, the sum of the sampled weights
    counts, sums, class_counts : as in okl.compiled.sgd
    """

    weights: FloatArray
    total: Doubles
    counts: Integers
    sums: Doubles
    class_counts: Integers


@compiled
def add_scaled(w: FloatArray, z: FloatArray, factor: np.floating[Any]) -> None:
    """Add factor * z to w in place."""
    for j in range(w.shape[0]):
        w[j] += factor * z[j]


@nested
def _shrink(weights: FloatArray, factor: np.floating[Any]) -> None:
    """Multiply the weights of all outputs by a factor, in place."""
    for k in range(weights.shape[0]):
        for j in range(weights.shape[1]):
            weights[k, j] *= factor


@nested_step
def _to_ball(weights: FloatArray, squared: float, radius: float) -> float:
    """Project weights of this squared length onto the ball, in place; returns their squared length."""
    if squared > radius * radius:
        _shrink(weights, weights.dtype.type(radius / math.sqrt(squared)))
        return radius * radius
    return squared


@nested
def _add_to_proof(sums: Doubles, loss: float, squared_gradient: float, step: float) -> None:
    """Add a row's loss, and the step times the squared length of its subgradient."""
    sums[SURROGATE] += loss
    sums[STEPPED_GRADIENTS] += step * squared_gradient


@nested
def step_at(step_size: float, decaying: bool, row: int) -> float:
    """Return the step at a row, from 1."""
    return step_size / math.sqrt(np.float64(row)) if decaying else step_size


@nested_step
def add_sample(total: Doubles, counts: Integers, weights: FloatArray, every: int) -> None:
    """Add the weights to total after every so many rows, the t-th time t times; never for 0."""
    if every > 0 and counts[ROWS] % every == 0:
        number = counts[ROWS] // every
        times = np.float64(number)
        for k in range(total.shape[0]):
            for j in range(total.shape[1]):
                total[k, j] += times * weights[k, j]
        counts[SAMPLED] += number


@nested_sum
def _learn_one_output(learnt: LearnerArrays, block: Block, targets: Doubles, rule: UpdateRule) -> None:
    # tuples are taken apart before the loop: handing them on in it costs as much as a dot product
    weights, total, counts, sums, class_counts = learnt
    code, epsilon, step_size, class_weights, sample_every, _, _, address = rule
    lefts, rights = block
    width = lefts.shape[1]
    w_left, w_right = weights[0, :width], weights[0, width:]
    for row in range(targets.shape[0]):
        left, right = lefts[row], rights[row]
        y = targets[row]
        f = np.float64(dot(left, w_left) + dot(right, w_right))
        label = count_output(counts, sums, class_counts, code, f, y)
        g = slope_of(code, epsilon, address, f, y)
        if g != 0.0:
            factor = weights.dtype.type(-step_size * class_weights[label] * g)
            add_scaled(w_left, left, factor)
            add_scaled(w_right, right, factor)
            counts[UPDATES] += 1
        counts[ROWS] += 1
        add_sample(total, counts, weights, sample_every)


@nested_sum
def _learn_in_ball(learnt: LearnerArrays, block: Block, targets: Doubles, rule: UpdateRule) -> None:
    weights, total, counts, sums, class_counts = learnt
    code, epsilon, step_size, class_weights, sample_every, radius, decaying, _ = rule
    lefts, rights = block
    width = lefts.shape[1]
    w_left, w_right = weights[0, :width], weights[0, width:]
    # measured afresh in every block: the error of following it never adds up, and blocks are the same however cut
    squared = float(dot(w_left, w_left) + dot(w_right, w_right))
    for row in range(targets.shape[0]):
        left, right = lefts[row], rights[row]
        y = targets[row]
        f = np.float64(dot(left, w_left) + dot(right, w_right))
        label = count_output(counts, sums, class_counts, code, f, y)
        weight = class_weights[label]
        counts[ROWS] += 1
        sums[SURROGATE] += weight * loss_value(code, epsilon, f, y)
        g = weight * loss_slope(code, epsilon, f, y)
        if g != 0.0:
            step = step_at(step_size, decaying, counts[ROWS])
            length = np.float64(dot(left, left) + dot(right, right))
            sums[STEPPED_GRADIENTS] += step * g * g * length
            factor = weights.dtype.type(-step * g)
            add_scaled(w_left, left, factor)
            add_scaled(w_right, right, factor)
            squared = _to_ball(weights, squared + factor * (2.0 * f + factor * length), radius)
            counts[UPDATES] += 1
        add_sample(total, counts, weights, sample_every)


@nested
def move_two_classes(
    weights: FloatArray, true: int, wrong: int, left: FloatArray, right: FloatArray, factor: np.floating[Any]
) -> None:
    """Add factor times the row (left, right) to the weights of the true class, and subtract it from the wrong one's."""
    width = left.shape[0]
    add_scaled(weights[true, :width], left, factor)
    add_scaled(weights[true, width:], right, factor)
    add_scaled(weights[wrong, :width], left, -factor)
    add_scaled(weights[wrong, width:], right, -factor)


@nested_sum
def _learn_classes(learnt: LearnerArrays, block: Block, targets: Doubles, rule: UpdateRule) -> None:
    weights, total, counts, sums, class_counts = learnt
    _, _, step_size, class_weights, sample_every, radius, decaying, _ = rule
    lefts, rights = block
    width = lefts.shape[1]
    scores = np.empty(weights.shape[0], weights.dtype)
    squared = 0.0
    if radius > 0.0:
        for k in range(weights.shape[0]):
            squared += np.float64(dot(weights[k], weights[k]))
    for row in range(targets.shape[0]):
        left, right = lefts[row], rights[row]
        true = int(targets[row])
        for k in range(weights.shape[0]):
            scores[k] = dot(left, weights[k, :width]) + dot(right, weights[k, width:])
        count_class(counts, class_counts, scores, true)
        counts[ROWS] += 1
        wrong = best_wrong(scores, true)
        margin = np.float64(scores[true]) - np.float64(scores[wrong])
        if margin < 1.0:
            weight, step = class_weights[true], step_at(step_size, decaying, counts[ROWS])
            factor = weights.dtype.type(step * weight)
            move_two_classes(weights, true, wrong, left, right, factor)
            if radius > 0.0:
                length = np.float64(dot(left, left) + dot(right, right))
                # the subgradient is -z for the true class and z for the best wrong one
                _add_to_proof(sums, weight * (1.0 - margin), 2.0 * weight * weight * length, step)
                squared = _to_ball(weights, squared + 2.0 * factor * (margin + factor * length), radius)
            counts[UPDATES] += 1
        add_sample(total, counts, weights, sample_every)


@compiled
def learn_block(learnt: LearnerArrays, block: Block, targets: Doubles, rule: UpdateRule) -> None:
    """Learn the rows of a block one after the other; everything in learnt changes in place.

    Every row is scored with the weights that the rows before it left: f = w'z. Then w <- w - step_size * class_weight *
    g * z. The weights after every sample_every-th row since learning began are added to total, wherever the blocks lie:
    the t-th sample t times, as Lacoste-Julien, Schmidt & Bach, arXiv 1212.2002, 2012, equation (5), average.

    With a radius every step ends at the nearest point of the ball, Zinkevich, ICML 2003, section 2, of the weights of
    all classes together, and what a proof of its regret takes is summed on the way: losses, squared gradients and step
    times these.

    targets : (rows,) float64: -1 or +1, the class index, or the real target

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 1, 3 and 5.
    """
    if rule.code == MULTICLASS_HINGE:
        _learn_classes(learnt, block, targets, rule)
    elif rule.radius > 0.0:
        _learn_in_ball(learnt, block, targets, rule)
    else:
        _learn_one_output(learnt, block, targets, rule)


# Mini-batch sums at fixed weights: subgradient and mistakes.


class SummedGradients(NamedTuple):
    """Sums over rows, in float64, changed in place.

    gradient : (n_outputs, n_columns), sum of class_weight * g * z; counts : int64, at ROWS, MISTAKES, UPDATES
    sums : (1,) float64, at SQUARED_ERROR
    """

    gradient: Doubles
    counts: Integers
    sums: Doubles


@nested
def _add_scaled(sums: Doubles, left: FloatArray, right: FloatArray, factor: float) -> None:
    width = left.shape[0]
    first, second = sums[:width], sums[width:]
    for j in range(width):
        first[j] += factor * left[j]
    for j in range(right.shape[0]):
        second[j] += factor * right[j]


@nested
def _slope_of_row(summed: SummedGradients, f: float, y: float, rule: UpdateRule) -> float:
    """Count a row of one output, and return class_weight * g."""
    label = 0
    if is_regression(rule.code):
        summed.sums[SQUARED_ERROR] += (f - y) * (f - y)
    else:
        label = 1 if y > 0.0 else 0
        summed.counts[MISTAKES] += (f >= 0.0) != (label == 1)
    g: float = rule.class_weights[label] * slope_of(rule.code, rule.epsilon, rule.address, f, y)
    summed.counts[UPDATES] += g != 0.0
    return g


@nested
def _weight_of_row(summed: SummedGradients, scores: FloatArray, true: int, wrong: int, rule: UpdateRule) -> float:
    """Count a row of several classes, and return its weight; 0 beyond the margin. scores : (n_outputs,)"""
    summed.counts[MISTAKES] += np.argmax(scores) != true
    margin = np.float64(scores[true]) - np.float64(scores[wrong])
    if not margin < 1.0:  # NaN included
        return 0.0
    summed.counts[UPDATES] += 1
    weight: float = rule.class_weights[true]
    return weight


@compiled
def sum_block(summed: SummedGradients, block: Block, scores: FloatArray, targets: Doubles, rule: UpdateRule) -> None:
    """Add the rows of a block, whose scores (rows, n_outputs) are given, to summed in place.

    The step size and sampling of the rule are not used.

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 1, 3 and 5, with the step left to the caller.
    """
    for row in range(targets.shape[0]):
        left, right, y = block.left[row], block.right[row], targets[row]
        if rule.code == MULTICLASS_HINGE:
            true, wrong = int(y), best_wrong(scores[row], int(y))
            weight = _weight_of_row(summed, scores[row], true, wrong, rule)
            if weight != 0.0:
                _add_scaled(summed.gradient[true], left, right, -weight)
                _add_scaled(summed.gradient[wrong], left, right, weight)
        else:
            g = _slope_of_row(summed, np.float64(scores[row, 0]), y, rule)
            if g != 0.0:
                _add_scaled(summed.gradient[0], left, right, g)
    summed.counts[ROWS] += targets.shape[0]


# Sparse rows: the same steps and sums at the cost of the values of a row.


@nested
def _score_sparse(scores: Doubles, weights: FloatArray, rows: SparseBlock, row: int) -> None:
    """Write w'z of each output (n_outputs,), summed in float64."""
    for k in range(weights.shape[0]):
        total = 0.0
        for place in range(rows.starts[row], rows.starts[row + 1]):
            total += np.float64(weights[k, rows.columns[place]]) * np.float64(rows.data[place])
        scores[k] = total


@nested
def _step_sparse(
    w: FloatArray, rest: Doubles, sampled: float, rows: SparseBlock, row: int, factor: np.floating[Any]
) -> None:
    """Add factor * z to w; the sum of the sampled weights, sampled * w + rest, stays as it is."""
    for place in range(rows.starts[row], rows.starts[row + 1]):
        j = rows.columns[place]
        before = np.float64(w[j])
        w[j] += factor * rows.data[place]
        rest[j] -= sampled * (np.float64(w[j]) - before)


@nested
def _no_overshoot(step: float, rows: SparseBlock, row: int) -> float:
    """Return the step, or the shorter one that leaves a row without error: sparse rows may be of any length.

    Source: Nagumo & Noda, IEEE Transactions on Automatic Control 12, 1967, the step of normalised least mean squares.
    """
    square = 0.0
    for place in range(rows.starts[row], rows.starts[row + 1]):
        square += np.float64(rows.data[place]) * np.float64(rows.data[place])
    return step if step * square <= 1.0 else 1.0 / square


@compiled
def learn_sparse(learnt: LearnerArrays, rows: SparseBlock, targets: Doubles, rule: UpdateRule) -> None:
    """Learn sparse rows one after the other, as `learn_block` does without a ball; learnt changes in place.

    The sum of the sampled weights is counts[SAMPLED] * weights + total: a sample changes the first factor only, so that
    no step takes in columns in which a row has no value.

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 1, 3 and 5.
    """
    weights, rest, counts, sums, class_counts = learnt
    scores, dtype = np.empty(weights.shape[0]), weights.dtype
    for row in range(targets.shape[0]):
        _score_sparse(scores, weights, rows, row)
        sampled, y = np.float64(counts[SAMPLED]), targets[row]
        if rule.code == MULTICLASS_HINGE:
            true, wrong = int(y), best_wrong(scores, int(y))
            count_class(counts, class_counts, scores, true)
            if scores[true] - scores[wrong] < 1.0:
                factor = dtype.type(rule.step_size * rule.class_weights[true])
                _step_sparse(weights[true], rest[true], sampled, rows, row, factor)
                _step_sparse(weights[wrong], rest[wrong], sampled, rows, row, -factor)
                counts[UPDATES] += 1
        else:
            f = scores[0]
            label = count_output(counts, sums, class_counts, rule.code, f, y)
            g = slope_of(rule.code, rule.epsilon, rule.address, f, y)
            if g != 0.0:
                step = rule.step_size * rule.class_weights[label]
                if rule.code == THRESHOLDED_HALF_SQUARED:
                    step = _no_overshoot(step, rows, row)
                _step_sparse(weights[0], rest[0], sampled, rows, row, dtype.type(-step * g))
                counts[UPDATES] += 1
        counts[ROWS] += 1
        if rule.sample_every > 0 and counts[ROWS] % rule.sample_every == 0:
            counts[SAMPLED] += counts[ROWS] // rule.sample_every


@nested
def _add_sparse(sums: Doubles, rows: SparseBlock, row: int, factor: float) -> None:
    for place in range(rows.starts[row], rows.starts[row + 1]):
        sums[rows.columns[place]] += factor * rows.data[place]


@compiled
def sum_sparse(
    summed: SummedGradients, weights: FloatArray, rows: SparseBlock, targets: Doubles, rule: UpdateRule
) -> None:
    """Add sparse rows at fixed weights (n_outputs, n_columns) to summed in place, as `sum_block` does."""
    scores = np.empty(weights.shape[0])
    for row in range(targets.shape[0]):
        _score_sparse(scores, weights, rows, row)
        y = targets[row]
        if rule.code == MULTICLASS_HINGE:
            true, wrong = int(y), best_wrong(scores, int(y))
            weight = _weight_of_row(summed, scores, true, wrong, rule)
            if weight != 0.0:
                _add_sparse(summed.gradient[true], rows, row, -weight)
                _add_sparse(summed.gradient[wrong], rows, row, weight)
        else:
            g = _slope_of_row(summed, scores[0], y, rule)
            if g != 0.0:
                _add_sparse(summed.gradient[0], rows, row, g)
    summed.counts[ROWS] += targets.shape[0]


# NOGD's first phase: kernel gradient descent until the budget is full.
#
# Legend: c coefficients of the supports, k kernel values, y target, f score, g derivative of the loss by f.


class FillingSupports(NamedTuple):
    """All that filling a budget changes in place.

    coefficients : (n_outputs, budget), of the supports in the order they came; 0 where there is none yet
    size : (1,) int64, supports so far; squared_norm : (1,) float64, ||f||^2, in a ball only
    added : (budget,) int64, from where each support came: the row of the block, for those of this block
    counts, sums, class_counts : as in okl.compiled.sgd
    """

    coefficients: FloatArray
    size: Integers
    added: Integers
    counts: Integers
    sums: Doubles
    class_counts: Integers
    squared_norm: Doubles


@compiled
def fill_budget(
    filling: FillingSupports, known: FloatArray, among: FloatArray, targets: Doubles, rule: UpdateRule
) -> int:
    """Learn a block's rows by kernel gradient descent until one more support would not fit; filling changes in place.

    A row is scored by f = sum_i c_i k(x_i, x). Where the loss has a derivative g, the row becomes a support with
    coefficient -step_size * class_weight * g: with several classes, its negative for the best wrong class. With a
    radius every step ends at the nearest f with ||f|| <= radius in the space of the kernel, and the sums of a proof are
    added up as in `learn_block`, where the subgradient of a row is g k(x, .).

    known : (rows, supports before the block), kernel values; among : (rows, rows), of the block's rows themselves
    targets : (rows,) float64: -1 or +1, the class index, or the real target
    Returns rows learned. Where they are fewer than came, the next one finds the budget full: it is neither counted nor
        learned.

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 2, 4 and 6, the loop before the kernel matrix is built.
    """
    if rule.code == MULTICLASS_HINGE:
        return _fill_classes(filling, known, among, targets, rule)
    return _fill_one_output(filling, known, among, targets, rule)


@nested
def _fill_one_output(
    filling: FillingSupports, known: FloatArray, among: FloatArray, targets: Doubles, rule: UpdateRule
) -> int:
    coefficients, size, added, counts, sums, class_counts, squared = filling
    budget, before = coefficients.shape[1], known.shape[1]
    for row in range(targets.shape[0]):
        y = targets[row]
        f = np.float64(_score(coefficients[0], known[row], among[row], added[before : size[0]]))
        g = slope_of(rule.code, rule.epsilon, rule.address, f, y)
        if g != 0.0 and size[0] == budget:
            return row
        label = count_output(counts, sums, class_counts, rule.code, f, y)
        counts[ROWS] += 1
        weight, step = rule.class_weights[label], step_at(rule.step_size, rule.decaying, counts[ROWS])
        if g != 0.0:
            coefficients[0, size[0]] = -step * weight * g
            _add(size, added, counts, row)
        if rule.radius > 0.0:
            length, factor = np.float64(among[row, row]), -step * weight * g
            loss = weight * loss_value(rule.code, rule.epsilon, f, y)
            _add_to_proof(sums, loss, weight * weight * g * g * length, step)
            squared[0] = _to_ball(coefficients, squared[0] + factor * (2.0 * f + factor * length), rule.radius)
    return len(targets)


@nested
def _fill_classes(
    filling: FillingSupports, known: FloatArray, among: FloatArray, targets: Doubles, rule: UpdateRule
) -> int:
    coefficients, size, added, counts, sums, class_counts, squared = filling
    budget, before = coefficients.shape[1], known.shape[1]
    scores = np.empty(coefficients.shape[0], coefficients.dtype)
    for row in range(targets.shape[0]):
        true = int(targets[row])
        for k in range(scores.shape[0]):
            scores[k] = _score(coefficients[k], known[row], among[row], added[before : size[0]])
        wrong = best_wrong(scores, true)
        margin = np.float64(scores[true]) - np.float64(scores[wrong])
        learns = margin < 1.0
        if learns and size[0] == budget:
            return row
        count_class(counts, class_counts, scores, true)
        counts[ROWS] += 1
        weight, step = rule.class_weights[true], step_at(rule.step_size, rule.decaying, counts[ROWS])
        if learns:
            coefficients[true, size[0]] = step * weight
            coefficients[wrong, size[0]] = -step * weight
            _add(size, added, counts, row)
        if learns and rule.radius > 0.0:
            length, factor = np.float64(among[row, row]), step * weight
            _add_to_proof(sums, weight * (1.0 - margin), 2.0 * weight * weight * length, step)
            squared[0] = _to_ball(coefficients, squared[0] + 2.0 * factor * (margin + factor * length), rule.radius)
    return len(targets)


@nested
def _add(size: Integers, added: Integers, counts: Integers, row: int) -> None:
    """Record that a row of the block is the next support."""
    added[size[0]] = row
    size[0] += 1
    counts[UPDATES] += 1


@nested_sum
def _score(c: FloatArray, known: FloatArray, among: FloatArray, added: Integers) -> np.floating[Any]:
    """Return the sum of c times the kernel values with the supports before the block and the rows added from it."""
    before = known.shape[0]
    total = dot(known, c[:before])
    for number in range(added.shape[0]):
        total += c[before + number] * among[added[number]]
    return total


# Pegasos: steps of 1 / (lam t), with the weights stored as a multiple of a sum of rows.
#
# After step t the weights are w = c x / (lam t): the shrinking of all weights by 1 - 1 / t, which every step begins
# with, is in that factor, and a row that violates its margin adds y z / (k c) to x, for k rows a step. The projection
# onto the ball of radius lam^(-1/2) changes c alone. A weighted sum of all weights so far is W x - u: W sums the
# factors of x, and whatever is added to x adds W as it was before to u; so an average costs nothing where nothing is
# violated.
#
# Legend: x points (n_outputs, n), u behind (n_outputs, n) float64, c SCALE, t STEPS, W FACTORS, Z rows (m, n).
#
# Source: Shalev-Shwartz, Singer, Srebro & Cotter, Mathematical Programming 127, 2011, Figures 1 to 3; several
# classes: Crammer & Singer, JMLR 2, 2001; averages: Lacoste-Julien, Schmidt & Bach, arXiv 1212.2002, 2012.


STEPS, SCALE, FACTORS, TOTAL, SQUARE = 0, 1, 2, 3, 4
"""Indices in numbers (5,): t, c, W, the sum of what the weights counted, and ||x||^2 where a kernel carries it."""
NO_AVERAGE, UNIFORM, LATER_MORE = 0, 1, 2
_LEAST_SCALE = 0.5


class PegasosSteps(NamedTuple):
    """Parameters of a step.

    lam : > 0; batch : rows a step, >= 1; project : whether steps end in the ball; average : NO_AVERAGE, UNIFORM, or
    LATER_MORE: step t counts t times
    """

    lam: float
    batch: int
    project: bool
    average: int


class CarriedWeights(NamedTuple):
    """All that learning changes in place.

    points : (n_outputs, n), in the rows' precision; behind : the same in float64; numbers : (5,) float64
    counts, class_counts : as in okl.compiled.sgd
    """

    points: FloatArray
    behind: Doubles
    numbers: Doubles
    counts: Integers
    class_counts: Integers


@compiled_row
def step_rows(
    carried: CarriedWeights,
    scores: FloatArray,
    changes: Doubles,
    wrongs: Integers,
    rows: FloatArray,
    targets: Doubles,
    picks: Integers,
    steps: PegasosSteps,
) -> None:
    """Learn rows picks (n_picks,), batch by batch; what is carried changes in place.

    scores : (n_outputs,), changes, wrongs : (batch,), buffers; targets : (m,), -1 and +1, or classes from 0 on
    """
    points, behind, numbers = carried.points, carried.behind, carried.numbers
    for first in range(0, picks.shape[0], steps.batch):
        last = min(first + steps.batch, picks.shape[0])
        factor = _weights_factor(numbers, steps.lam)
        for place in range(first, last):
            i = picks[place]
            for output in range(points.shape[0]):
                scores[output] = factor * dot(points[output], rows[i])
            changes[place - first] = _violation(carried, wrongs, scores, targets[i], place - first)
        hits = 0
        for place in range(first, last):
            if changes[place - first] != 0.0:
                added = changes[place - first] / ((last - first) * numbers[SCALE])
                output = int(targets[picks[place]]) if points.shape[0] > 1 else 0
                row, wrong = rows[picks[place]], wrongs[place - first]
                _add_row(points[output], behind[output], row, added, numbers[FACTORS], steps.average)
                if wrong >= 0:
                    _add_row(points[wrong], behind[wrong], row, -added, numbers[FACTORS], steps.average)
                hits += 1
        carried.counts[UPDATES] += hits
        if steps.project and hits > 0:
            numbers[SQUARE] = 0.0
            for output in range(points.shape[0]):
                numbers[SQUARE] += dot(points[output], points[output])
        _end_step(numbers, steps, hits > 0)
        if numbers[SCALE] < _LEAST_SCALE:
            _settle(points, behind, numbers)


@nested_row
def _violation(carried: CarriedWeights, wrongs: Integers, scores: FloatArray, y: float, place: int) -> float:
    """Count a row with these scores; +1 or -1 for its class where its hinge is positive, else 0; sets wrongs."""
    carried.counts[ROWS] += 1
    wrongs[place] = -1
    if scores.shape[0] == 1:
        f = np.float64(scores[0])
        count_binary(carried.counts, carried.class_counts, f, y)
        return y if y * f < 1.0 else 0.0
    true = int(y)
    count_class(carried.counts, carried.class_counts, scores, true)
    wrongs[place] = best_wrong(scores, true)
    return 1.0 if np.float64(scores[true]) - np.float64(scores[wrongs[place]]) < 1.0 else 0.0


@nested_row
def _weights_factor(numbers: Doubles, lam: float) -> float:
    """Return what x is to be multiplied by for the weights, 0 before the first step."""
    return numbers[SCALE] / (lam * numbers[STEPS]) if numbers[STEPS] > 0.0 else 0.0


@nested_row
def _add_row(point: FloatArray, behind: Doubles, row: FloatArray, added: float, factors: float, average: int) -> None:
    """Add a row times added to x, and times W as well to u where there is an average."""
    factor = point.dtype.type(added)
    for j in range(point.shape[0]):
        point[j] += factor * row[j]
    if average != NO_AVERAGE:
        late = added * factors
        for j in range(point.shape[0]):
            behind[j] += late * row[j]


@nested_row
def _end_step(numbers: Doubles, steps: PegasosSteps, moved: bool) -> None:
    """Count the step, project if the settings say so, and add the weights to the average; numbers change in place."""
    numbers[STEPS] += 1.0
    if steps.project and moved:
        most = math.sqrt(steps.lam) * numbers[STEPS]  # ||c x|| at the border of the ball
        length = numbers[SCALE] * math.sqrt(max(numbers[SQUARE], 0.0))
        if length > most:
            numbers[SCALE] *= most / length
    if steps.average != NO_AVERAGE:
        share = numbers[STEPS] if steps.average == LATER_MORE else 1.0
        numbers[FACTORS] += share * _weights_factor(numbers, steps.lam)
        numbers[TOTAL] += share


@nested_row
def _settle(points: FloatArray, behind: Doubles, numbers: Doubles) -> None:
    """Put c into x, and W x into u, in place: sums of what was added before projections would cancel digits."""
    scale = points.dtype.type(numbers[SCALE])
    for output in range(points.shape[0]):
        for j in range(points.shape[1]):
            behind[output, j] -= numbers[FACTORS] * points[output, j]
            points[output, j] *= scale
    numbers[SQUARE] *= numbers[SCALE] * numbers[SCALE]
    numbers[SCALE], numbers[FACTORS] = 1.0, 0.0


@compiled_row
def step_kernel(
    carried: CarriedWeights,
    scores: Doubles,
    changes: Doubles,
    matrix: FloatArray,
    targets: Doubles,
    picks: Integers,
    steps: PegasosSteps,
) -> None:
    """Step in a kernel expansion of two classes: points and behind (1, m) are coefficients of the rows.

    scores : (m,), K x of all rows, carried; changes : (batch,), a buffer; matrix : (m, m), K
    """
    points, behind, numbers = carried.points[0], carried.behind[0], carried.numbers
    for first in range(0, picks.shape[0], steps.batch):
        last = min(first + steps.batch, picks.shape[0])
        factor, hits = _weights_factor(numbers, steps.lam), 0
        for place in range(first, last):
            y, f = targets[picks[place]], factor * scores[picks[place]]
            count_binary(carried.counts, carried.class_counts, f, y)
            carried.counts[ROWS] += 1
            changes[place - first] = y if y * f < 1.0 else 0.0
        for place in range(first, last):
            if changes[place - first] != 0.0:
                i, added = picks[place], changes[place - first] / ((last - first) * numbers[SCALE])
                numbers[SQUARE] += added * (2.0 * scores[i] + added * matrix[i, i])
                points[i] += points.dtype.type(added)
                behind[i] += added * numbers[FACTORS]
                add_scaled(scores, matrix[i], added)
                hits += 1
        carried.counts[UPDATES] += hits
        _end_step(numbers, steps, hits > 0)
        if numbers[SCALE] < _LEAST_SCALE:
            for j in range(scores.shape[0]):
                scores[j] *= numbers[SCALE]
            _settle(carried.points, carried.behind, numbers)
