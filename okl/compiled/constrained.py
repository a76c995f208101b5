"""Online learning under linear constraints (Algorithm 1 of Yi et al.) and the window loops of the linear learners."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from okl.compiled.fourier import Waves, dot, map_part, score_block
from okl.compiled.jit import compiled, compiled_sum, nested, nested_row, nested_step, nested_sum
from okl.compiled.oco import SCALE, SQUARED, CompiledSet, ConstraintRows, StepBuffers, lengthen_queue, maximise_dual
from okl.compiled.sgd import (
    ROWS,
    SQUARED_GRADIENTS,
    STEPPED_GRADIENTS,
    SURROGATE,
    UPDATES,
    LearnerArrays,
    SummedGradients,
    UpdateRule,
    add_sample,
    add_scaled,
    count_binary,
    learn_block,
    loss_value,
    slope,
    sum_block,
)
from okl.compiled.threads import Block, pass_turn, wait_turn
from okl.foundation.types import Doubles, FloatArray, Integers

Vector = NDArray[np.float64]

# Algorithm 1 of Yi et al. in a ball, row by row, with the loss of a score.
#
# Legend: w weights, z features, f = w'z, g derivative of the loss by f, C rows of constraints, each of length 1, and
# C w their values; q queues, of the limits; step the paper's alpha / 2, gain its gamma_0. Of w and C, the step needs
# inner products alone.


class Limits(NamedTuple):
    """Limits of C w in a ball: S w <= h, where each row of S is one of C, or minus one.

    rows : C (m, n_columns), in the precision of the weights, each of length 1
    units : (m,), a value of 1 in the unit of its constraint
    owners, signs : (k,) which row of C each row of S is, and +1 of upper and -1 of lower limits
    sides : S (k, n_columns) and h, in float64; region : the ball about 0
    gain : gamma_0, of the queues
    """

    rows: FloatArray
    units: Vector
    owners: Integers
    signs: Vector
    sides: ConstraintRows
    region: CompiledSet
    gain: float


class LimitCounters(NamedTuple):
    """State that learning under limits changes in place, in addition to LearnerArrays.

    queues : (k,) float64, of the limits; values : (m,), C w
    exceeded : (m + 1,), sums over rows of what each value was outside its limits, in its unit, before the row was
        learnt; at the end the sum of the lengths of these
    """

    queues: Vector
    values: Vector
    exceeded: Vector


@nested_sum
def _values(values: Vector, rows: FloatArray, w_left: FloatArray, w_right: FloatArray) -> None:
    width = w_left.shape[0]
    for i in range(values.shape[0]):
        values[i] = np.float64(dot(rows[i, :width], w_left) + dot(rows[i, width:], w_right))


@nested_step
def _watch(
    watched: LimitCounters,
    excess: Vector,
    caps: Vector,
    owners: Integers,
    signs: Vector,
    units: Vector,
    bounds: Vector,
    gamma: float,
    price: float,
) -> bool:
    """Count what is outside its limits, lengthen the queues by that, and write excess and limits of the step (k,).

    gamma : of this row; price : half of alpha of this row times gamma of the next. Whether anything is outside.
    """
    outside, values, exceeded = 0.0, watched.values, watched.exceeded
    for k in range(signs.shape[0]):
        i = owners[k]
        excess[k] = signs[k] * values[i] - bounds[k]
        if excess[k] > 0.0:
            along = units[i] * excess[k]
            exceeded[i] += along
            outside += along * along
    exceeded[values.shape[0]] += math.sqrt(outside)
    lengthen_queue(watched.queues, caps, excess, gamma, price)
    return outside > 0.0


@nested_step
def _within(products: Vector, reach: Vector, caps: Vector, owners: Integers, signs: Vector, bounds: Vector) -> bool:
    """Write the products of the point u with S (k,); whether u is in the limits that have a price.  reach : C u."""
    inside = True
    for k in range(signs.shape[0]):
        products[k] = signs[k] * reach[owners[k]]
        inside &= caps[k] == 0.0 or products[k] <= bounds[k]
    return inside


@nested_row
def _correct(
    w_left: FloatArray, w_right: FloatArray, watched: LimitCounters, limits: Limits, work: StepBuffers, squared: float
) -> float:
    """Take weights that hold u to the argmin of the step, and the values with them; returns the new ||w||^2.

    work : holds S u and the limits of the step; it is changed
    """
    width, sides, multipliers, bounds = w_left.shape[0], limits.sides, work.multipliers, limits.sides.bounds
    work.numbers[SQUARED] = squared
    maximise_dual(work, work.point, sides, limits.region, work.limits)
    scale, total = work.numbers[SCALE], squared
    for k in range(bounds.shape[0]):
        value = work.excess[k] + bounds[k]
        if multipliers[k] != 0.0:
            row = limits.rows[limits.owners[k]]
            factor = w_left.dtype.type(-multipliers[k] * limits.signs[k])
            add_scaled(w_left, row[:width], factor)
            add_scaled(w_right, row[width:], factor)
            total -= multipliers[k] * (work.products[k] + value / scale)
        watched.values[limits.owners[k]] = limits.signs[k] * value
    if scale < 1.0:
        shrinking = w_left.dtype.type(scale)
        for j in range(width):
            w_left[j] *= shrinking
        for j in range(w_right.shape[0]):
            w_right[j] *= shrinking
    return float(max(total, 0.0) * scale * scale)


@nested
def _step_of(rule: UpdateRule, row: float) -> float:
    return rule.step_size / math.sqrt(row) if rule.decaying else rule.step_size


@nested_sum
def _copy(target: Vector, source: Vector) -> None:
    for i in range(target.shape[0]):  # not a slice: see fourier.fourier_transform
        target[i] = source[i]


@nested_sum
def _reach(reach: Vector, values: Vector, rows: FloatArray, left: FloatArray, right: FloatArray, factor: float) -> None:
    """Overwrite reach by C (w + factor z); values : C w."""
    width = left.shape[0]
    for i in range(reach.shape[0]):
        along = np.float64(dot(rows[i, :width], left) + dot(rows[i, width:], right))
        reach[i] = values[i] + factor * along


@compiled_sum
def learn_constrained_block(
    learnt: LearnerArrays,
    watched: LimitCounters,
    work: StepBuffers,
    block: Block,
    targets: Doubles,
    rule: UpdateRule,
    limits: Limits,
) -> None:
    """Learn the rows of a block one after the other; learnt and watched change in place, work is scratch.

    Row t is scored with the weights w_t; then, with alpha_t = 2 step_t and gamma_t = gain / sqrt(alpha_t),

    q_t = q_(t-1) + gamma_t [g(w_t)]_+,   q-hat = q_t + gamma_t [g(w_t)]_+
    w_(t+1) = argmin over the ball of alpha_t <grad, w> + alpha_t gamma_(t+1) <q-hat, [g(w)]_+> + ||w - w_t||^2

    Values C w and ||w||^2 are followed, and measured afresh in every block. A row costs its score, unless its loss has
    a slope or something is outside its limits: then a product with every row of C, and an addition for every
    multiplier that is not 0. Averages, steps and counts are as in okl.compiled.sgd.learn_block.

    targets : (rows,) float64, -1 or +1

    Source: Yi et al., ICML 2021, Algorithm 1, with (16) or (24).
    """
    weights, total, counts, sums, class_counts = learnt
    code, epsilon, _, class_weights, sample_every, _, _, _ = rule
    lefts, rights = block
    width = lefts.shape[1]
    w_left, w_right, reach = weights[0, :width], weights[0, width:], np.zeros(limits.units.shape[0])
    owners, signs, bounds, radius = limits.owners, limits.signs, limits.sides.bounds, limits.region.size
    excess, caps, products = work.excess, work.limits, work.products
    _values(watched.values, limits.rows, w_left, w_right)
    squared = float(dot(w_left, w_left) + dot(w_right, w_right))
    for row in range(targets.shape[0]):
        left, right = lefts[row], rights[row]
        y = targets[row]
        f = np.float64(dot(left, w_left) + dot(right, w_right))
        weight = class_weights[count_binary(counts, class_counts, f, y)]
        counts[ROWS] += 1
        sums[SURROGATE] += weight * loss_value(code, epsilon, f, y)
        step = _step_of(rule, np.float64(counts[ROWS]))
        gamma = limits.gain / math.sqrt(2.0 * step)
        following = limits.gain / math.sqrt(2.0 * _step_of(rule, counts[ROWS] + 1.0))
        price = step * following
        outside = _watch(watched, excess, caps, owners, signs, limits.units, bounds, gamma, price)
        g = weight * slope(code, epsilon, f, y)
        if g != 0.0:
            length = np.float64(dot(left, left) + dot(right, right))
            sums[SQUARED_GRADIENTS] += g * g * length
            sums[STEPPED_GRADIENTS] += step * g * g * length
            factor = weights.dtype.type(-step * g)
            add_scaled(w_left, left, factor)
            add_scaled(w_right, right, factor)
            squared += factor * (2.0 * f + factor * length)
            _reach(reach, watched.values, limits.rows, left, right, np.float64(factor))
            counts[UPDATES] += 1
        elif outside:
            _copy(reach, watched.values)
        if g != 0.0 or outside:
            if _within(products, reach, caps, owners, signs, bounds) and squared <= radius * radius:
                _copy(watched.values, reach)
            else:
                squared = _correct(w_left, w_right, watched, limits, work, squared)
        if sample_every > 0 and counts[ROWS] % sample_every == 0:
            add_sample(total, counts, weights, counts[ROWS] // sample_every)


# Loop of each thread over a window of rows: features in a private buffer, shared state in ordered sections.
#
# Thread t of n takes the blocks t, t + n, t + 2n, ... It maps a block while others work, waits until all earlier
# blocks are done, works on the shared state, and passes the turn on: exact, and the same bits for any number of
# threads. The loop is one for all tasks; what is done with a block is chosen by the type of the task.


class RowSteps(NamedTuple):
    """Task: learn rows one after the other; learnt changes in place."""

    learnt: LearnerArrays
    rule: UpdateRule


class LimitedSteps(NamedTuple):
    """Task: learn rows one after the other under limits; learnt and watched change in place, work is scratch."""

    learnt: LearnerArrays
    watched: LimitCounters
    work: StepBuffers
    rule: UpdateRule
    limits: Limits


class GradientSums(NamedTuple):
    """Task: add rows up at fixed weights (n_outputs, n_columns); summed changes in place."""

    summed: SummedGradients
    weights: FloatArray
    rule: UpdateRule


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
    learn_block(task.learnt, block, targets, task.rule)


@compiled
def _learn_limited(task: LimitedSteps, block: Block, scores: None, targets: Vector) -> None:
    learn_constrained_block(task.learnt, task.watched, task.work, block, targets, task.rule, task.limits)


@compiled
def _add_gradients(task: GradientSums, block: Block, scores: FloatArray, targets: Vector) -> None:
    sum_block(task.summed, block, scores, targets, task.rule)


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
