"""Online learning under linear constraints (Algorithm 1 of Yi et al.) and the window loops of the linear learners."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from okl.compiled import oco, sgd
from okl.compiled.fourier import Waves, dot, map_part, score_block
from okl.compiled.jit import compiled, compiled_sum, nested_row, nested_step, nested_sum
from okl.compiled.threads import Block, pass_turn, wait_turn
from okl.foundation.types import Doubles, FloatArray, Integers

Vector = NDArray[np.float64]

# Algorithm 1 of Yi et al. in a ball, row by row, with the loss of a score, or of the margin of several classes.
#
# Legend: w weights, z features, f = w'z, g derivative of the loss by f, C rows of constraints, each of length 1, and
# C w their values; q queues, of the limits; step the paper's alpha / 2, gain its gamma_0. Of w and C, the step needs
# inner products alone. K outputs have the same limits each: there are K m values and K k limits, output by output.
# Algorithm 2 runs N experts with a step size each, whose mean predicts; Algorithm 1 is the case N = 1. RECOO differs
# from Algorithm 1 in the queues and prices alone.

EXCESS_EXPONENT = 0.05  # epsilon of RECOO


class Limits(NamedTuple):
    """Limits of C w in a ball: S w <= h, where each row of S is one of C, or minus one.

    rows : C (m, n_columns), in the precision of the weights, each of length 1
    units : (K m,), a value of 1 in the unit of its constraint
    owners, signs : (K k,) which of the values each limit is of, and +1 of upper and -1 of lower limits
    sides : S (k, n_columns) of one output, h and the Gram matrix of all, in float64; region : the ball about 0
    gain : gamma_0, of the queues; rectified : whether these are RECOO's
    rate : beta, of the experts' shares
    """

    rows: FloatArray
    units: Vector
    owners: Integers
    signs: Vector
    sides: oco.ConstraintRows
    region: oco.CompiledSet
    gain: float
    rate: float
    rectified: bool = False


class LimitCounters(NamedTuple):
    """State that learning under limits changes in place, in addition to LearnerArrays.

    queues : (N K k,) float64, of the limits of each expert; values : (N K m,), C w
    violation : (1,), sum over rows of the length of what values of the mean were outside their limits, in their units,
        before the row was learned, of the output where it is largest
    shares : (N,), of the experts in the mean
    """

    queues: Vector
    values: Vector
    violation: Vector
    shares: Vector


@nested_sum
def _values(values: Vector, rows: FloatArray, weights: FloatArray, width: int) -> None:
    for i in range(values.shape[0]):
        row, w = rows[i % rows.shape[0]], weights[i // rows.shape[0]]
        values[i] = np.float64(dot(row[:width], w[:width]) + dot(row[width:], w[width:]))


@nested_step
def _count_violation(violation: Vector, mean: Vector, limits: Limits, n_outputs: int) -> None:
    """Count what the values of the mean (K m,) are outside their limits."""
    owners, signs, units, bounds = limits.owners, limits.signs, limits.units, limits.sides.bounds
    most, count = 0.0, signs.shape[0] // n_outputs
    for output in range(n_outputs):
        outside = 0.0
        for k in range(output * count, (output + 1) * count):
            i = owners[k]
            excess = signs[k] * mean[i] - bounds[k]
            if excess > 0.0:
                along = units[i] * excess
                outside += along * along
        most = max(most, outside)
    violation[0] += math.sqrt(most)


@nested_step
def _price(
    queue: Vector, values: Vector, work: oco.StepBuffers, limits: Limits, step: float, following: float, row: float
) -> bool:
    """Lengthen an expert's queues by what its values are outside, and write excess and limits of the step (K k,).

    step, following : half of alpha of this row, the number of which is given, and of the next. Whether anything is
    outside.
    """
    excess, owners, signs, bounds, outside = work.excess, limits.owners, limits.signs, limits.sides.bounds, False
    for k in range(signs.shape[0]):
        excess[k] = signs[k] * values[owners[k]] - bounds[k]
        outside |= excess[k] > 0.0
    if limits.rectified:
        root = math.sqrt(row)
        oco.rectify_queue(queue, work.limits, excess, limits.gain * root * row**EXCESS_EXPONENT, root, step)
    else:
        gamma, after = limits.gain / math.sqrt(2.0 * step), limits.gain / math.sqrt(2.0 * following)
        oco.lengthen_queue(queue, work.limits, excess, gamma, step * after)
    return outside


@nested_step
def _within(products: Vector, reach: Vector, caps: Vector, owners: Integers, signs: Vector, bounds: Vector) -> bool:
    """Write the products of the point u with S (K k,); whether u is in the limits with a price.  reach : C u (K m,)."""
    inside = True
    for k in range(signs.shape[0]):
        products[k] = signs[k] * reach[owners[k]]
        inside &= caps[k] == 0.0 or products[k] <= bounds[k]
    return inside


@nested_row
def _correct(
    weights: FloatArray, width: int, values: Vector, limits: Limits, work: oco.StepBuffers, squared: float
) -> float:
    """Take weights that hold u to the argmin of the step, and the values with them; returns the new ||w||^2.

    work : holds S u and the limits of the step; it is changed
    """
    sides, multipliers, bounds, n_rows = limits.sides, work.multipliers, limits.sides.bounds, limits.rows.shape[0]
    work.numbers[oco.SQUARED] = squared
    oco.maximise_dual(work, work.point, sides, limits.region, work.limits)
    scale, total = work.numbers[oco.SCALE], squared
    for k in range(bounds.shape[0]):
        value, owner = work.excess[k] + bounds[k], limits.owners[k]
        if multipliers[k] != 0.0:
            row, w = limits.rows[owner % n_rows], weights[owner // n_rows]
            factor = weights.dtype.type(-multipliers[k] * limits.signs[k])
            sgd.add_scaled(w[:width], row[:width], factor)
            sgd.add_scaled(w[width:], row[width:], factor)
            total -= multipliers[k] * (work.products[k] + value / scale)
        values[owner] = limits.signs[k] * value
    if scale < 1.0:
        shrinking = weights.dtype.type(scale)
        for output in range(weights.shape[0]):
            for j in range(weights.shape[1]):
                weights[output, j] *= shrinking
    return float(max(total, 0.0) * scale * scale)


@nested_sum
def _copy(target: Vector, source: Vector) -> None:
    for i in range(target.shape[0]):  # not a slice: see fourier.fourier_transform
        target[i] = source[i]


@nested_sum
def _reach(reach: Vector, along: Vector, factor: float, true: int, wrong: int) -> None:
    """Add factor C z, along (m,), to the values in reach of the output `true`; subtract it from `wrong`'s, if >= 0."""
    n_rows = along.shape[0]
    for i in range(n_rows):
        reach[true * n_rows + i] += factor * along[i]
        if wrong >= 0:
            reach[wrong * n_rows + i] -= factor * along[i]


@nested_sum
def _mean(out: Any, each: Any, shares: Vector) -> None:
    """Write the mean of the experts' numbers, (K,) of (N K,)."""
    size = out.shape[0]
    for k in range(size):
        total = 0.0
        for e in range(shares.shape[0]):
            total += shares[e] * np.float64(each[e * size + k])
        out[k] = total


@nested_sum
def _shift_shares(shares: Vector, scores: FloatArray, f: float, pull: float, true: int, wrong: int) -> None:
    """Multiply each share by exp(-pull (its score or margin - f)), to a sum of 1."""
    n_experts, n_outputs, total = shares.shape[0], scores.shape[0] // shares.shape[0], 0.0
    for e in range(n_experts):
        own = np.float64(scores[e * n_outputs + true])
        if wrong >= 0:
            own -= np.float64(scores[e * n_outputs + wrong])
        shares[e] *= math.exp(-pull * (own - f))
        total += shares[e]
    for e in range(n_experts):
        shares[e] /= total


@compiled_sum
def learn_constrained_block(
    learnt: sgd.LearnerArrays,
    watched: LimitCounters,
    work: oco.StepBuffers,
    block: Block,
    targets: Doubles,
    rule: sgd.UpdateRule,
    limits: Limits,
) -> None:
    """Learn the rows of a block one after the other; learnt and watched change in place, work is scratch.

    Row t is scored with w_t, the mean of the experts' weights v_t by their shares; then each expert i, with
    alpha_t = 2^i (2 step_t), i = 0, 1, .., and gamma_t = gain / sqrt(alpha_t), takes its step by the slope at w_t

    q_t = q_(t-1) + gamma_t [g(v_t)]_+,   q-hat = q_t + gamma_t [g(v_t)]_+
    v_(t+1) = argmin over the ball of alpha_t <grad, v> + alpha_t gamma_(t+1) <q-hat, [g(v)]_+> + ||v - v_t||^2

    and its share is multiplied by exp(-rate <grad, v_t - w_t>). With one expert this is Algorithm 1. Rectified, gamma_t
    is gain t^(1/2 + epsilon), and the queue Q_t of `rectify_queue`, at least sqrt(t), times gamma_t replaces
    gamma_(t+1) q-hat.

    Values C v and ||v||^2 are followed, and measured afresh in every block. A row costs its scores, unless its loss has
    a slope or something is outside its limits: then a product with every row of C, and an addition for every
    multiplier that is not 0. Averages, which only one expert has, steps and counts are as in
    okl.compiled.sgd.learn_block. Of several classes, w holds the weights of all, and f is the margin of the true class
    over the best wrong one, by the hinge loss of +1.

    learnt : weights (N K, n_columns), expert by expert
    targets : (rows,) float64: -1 or +1, the class index, or the real target

    Source: Yi et al., ICML 2021, Algorithms 1 and 2, with (16) or (24), and (36); Guo, Liu, Wei & Ying, NeurIPS 2022,
    Algorithm 1.
    """
    weights, total, counts, sums, class_counts = learnt
    code, epsilon, step_size, class_weights, sample_every, _, decaying, _ = rule
    queues, values, violation, shares = watched
    lefts, rights = block
    width, n_experts = lefts.shape[1], shares.shape[0]
    n_outputs, n_values, n_limits = weights.shape[0] // n_experts, limits.units.shape[0], limits.signs.shape[0]
    several = code == sgd.MULTICLASS_HINGE
    loss = sgd.HINGE if several else code
    each, scores = np.empty(n_experts * n_outputs, weights.dtype), np.empty(n_outputs, weights.dtype)
    mean, reach = np.empty(n_values), np.zeros(n_values)
    along, squared = np.zeros(limits.rows.shape[0]), np.zeros(n_experts)
    owners, signs, bounds, radius = limits.owners, limits.signs, limits.sides.bounds, limits.region.size
    caps, products = work.limits, work.products
    _values(values, limits.rows, weights, width)
    for k in range(weights.shape[0]):
        squared[k // n_outputs] += float(
            dot(weights[k, :width], weights[k, :width]) + dot(weights[k, width:], weights[k, width:])
        )
    for row in range(targets.shape[0]):
        left, right = lefts[row], rights[row]
        for k in range(weights.shape[0]):
            each[k] = dot(left, weights[k, :width]) + dot(right, weights[k, width:])
        _mean(scores, each, shares)
        true, wrong, y, f = 0, -1, targets[row], np.float64(scores[0])
        if several:
            true = int(y)
            wrong = sgd.best_wrong(scores, true)
            sgd.count_class(counts, class_counts, scores, true)
            label, y, f = true, 1.0, np.float64(scores[true]) - np.float64(scores[wrong])
        else:
            label = sgd.count_output(counts, sums, class_counts, code, f, y)
        weight = class_weights[label]
        counts[sgd.ROWS] += 1
        sums[sgd.SURROGATE] += weight * sgd.loss_value(loss, epsilon, f, y)
        step = sgd.step_at(step_size, decaying, counts[sgd.ROWS])
        following = sgd.step_at(step_size, decaying, counts[sgd.ROWS] + 1)
        _mean(mean, values, shares)
        _count_violation(violation, mean, limits, n_outputs)
        g, length = weight * sgd.loss_slope(loss, epsilon, f, y), 0.0
        if g != 0.0:
            length = np.float64(dot(left, left) + dot(right, right))
            if several:  # the gradient is of the weights of two classes
                length *= 2.0
            sums[sgd.STEPPED_GRADIENTS] += step * g * g * length
            counts[sgd.UPDATES] += 1
            for i in range(along.shape[0]):
                along[i] = np.float64(dot(limits.rows[i, :width], left) + dot(limits.rows[i, width:], right))
        for e in range(n_experts):
            own = weights[e * n_outputs : (e + 1) * n_outputs]
            own_values = values[e * n_values : (e + 1) * n_values]
            queue = queues[e * n_limits : (e + 1) * n_limits]
            outside = _price(queue, own_values, work, limits, step, following, np.float64(counts[sgd.ROWS]))
            if g != 0.0 or outside:
                _copy(reach, own_values)
            if g != 0.0:
                score = np.float64(each[e * n_outputs + true])
                if wrong >= 0:
                    score -= np.float64(each[e * n_outputs + wrong])
                factor = weights.dtype.type(-step * g)
                if several:
                    sgd.move_two_classes(own, true, wrong, left, right, factor)
                else:
                    sgd.add_scaled(own[0, :width], left, factor)
                    sgd.add_scaled(own[0, width:], right, factor)
                squared[e] += factor * (2.0 * score + factor * length)
                _reach(reach, along, np.float64(factor), true, wrong)
            if g != 0.0 or outside:
                if _within(products, reach, caps, owners, signs, bounds) and squared[e] <= radius * radius:
                    _copy(own_values, reach)
                else:
                    squared[e] = _correct(own, width, own_values, limits, work, squared[e])
            step, following = 2.0 * step, 2.0 * following
        if n_experts > 1 and g != 0.0:
            _shift_shares(shares, each, f, limits.rate * g, true, wrong)
        sgd.add_sample(total, counts, weights, sample_every)


# Loop of each thread over a window of rows: features in a private buffer, shared state in ordered sections.
#
# Thread t of n takes the blocks t, t + n, t + 2n, ... It maps a block while others work, waits until all earlier
# blocks are done, works on the shared state, and passes the turn on: exact, and the same bits for any number of
# threads. The loop is one for all tasks; what is done with a block is chosen by the type of the task.


class RowSteps(NamedTuple):
    """Task: learn rows one after the other; learnt changes in place."""

    learnt: sgd.LearnerArrays
    rule: sgd.UpdateRule


class LimitedSteps(NamedTuple):
    """Task: learn rows one after the other under limits; learnt and watched change in place, work is scratch."""

    learnt: sgd.LearnerArrays
    watched: LimitCounters
    work: oco.StepBuffers
    rule: sgd.UpdateRule
    limits: Limits


class GradientSums(NamedTuple):
    """Task: add rows up at fixed weights (n_outputs, n_columns); summed changes in place."""

    summed: sgd.SummedGradients
    weights: FloatArray
    rule: sgd.UpdateRule


BlockTask = RowSteps | LimitedSteps | GradientSums


@compiled
def _score_at_fixed(task: GradientSums, block: Block) -> FloatArray:
    scores = np.empty((block.left.shape[0], task.weights.shape[0]), task.weights.dtype)
    score_block(scores, block, task.weights)
    return scores


@compiled
def _no_scores(task: RowSteps | LimitedSteps, block: Block) -> None:
    return None


@compiled
def _learn_steps(task: RowSteps, block: Block, scores: None, targets: Vector) -> None:
    sgd.learn_block(task.learnt, block, targets, task.rule)


@compiled
def _learn_limited(task: LimitedSteps, block: Block, scores: None, targets: Vector) -> None:
    learn_constrained_block(task.learnt, task.watched, task.work, block, targets, task.rule, task.limits)


@compiled
def _add_gradients(task: GradientSums, block: Block, scores: FloatArray, targets: Vector) -> None:
    sgd.sum_block(task.summed, block, scores, targets, task.rule)


_BEFORE_TURN: dict[type, Any] = {RowSteps: _no_scores, LimitedSteps: _no_scores, GradientSums: _score_at_fixed}
_IN_TURN: dict[type, Any] = {RowSteps: _learn_steps, LimitedSteps: _learn_limited, GradientSums: _add_gradients}
_OPTIONS = {"error_model": "numpy", "fastmath": {"contract", "nsz"}, "nogil": True}


def before_turn(task, block):  # type: ignore[no-untyped-def]
    """Return what a task computes of a block of features before its turn: scores at fixed weights, or None."""
    return _BEFORE_TURN[type(task)](task, block)


def in_turn(task, block, scores, targets):  # type: ignore[no-untyped-def]
    """Do the task with a block of features and its targets (rows,), after all blocks before it."""
    _IN_TURN[type(task)](task, block, scores, targets)


@overload(before_turn, jit_options=_OPTIONS, strict=False)
def _choose_before(task, block):  # type: ignore[no-untyped-def]
    return _BEFORE_TURN[task.instance_class].py_func


@overload(in_turn, jit_options=_OPTIONS, strict=False)
def _choose_in_turn(task, block, scores, targets):  # type: ignore[no-untyped-def]
    return _IN_TURN[task.instance_class].py_func


@compiled
def sweep_fourier(
    task: BlockTask,
    turns: Integers,
    block: Block,
    inputs: FloatArray,
    targets: Vector,
    waves: Waves,
    thread: int,
    n_threads: int,
) -> bool:
    """Do a task with rows in block order, the Fourier map fused in; what it changes, turns and block change in place.

    False if another thread failed.
    """
    size = block.left.shape[0]
    n_blocks = (inputs.shape[0] + size - 1) // size
    for index in range(thread, n_blocks, n_threads):
        part = map_part(block, inputs, waves, index)
        scores = before_turn(task, part)  # type: ignore[no-untyped-call]
        if not wait_turn(turns, index):
            return False
        some = targets[index * size : index * size + part.left.shape[0]]
        in_turn(task, part, scores, some)  # type: ignore[no-untyped-call]
        pass_turn(turns, index + 1)
    return True
