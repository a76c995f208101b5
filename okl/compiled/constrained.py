"""Learning row after row in a ball under linear constraints: Algorithm 1 of Yi et al., with the loss of a score.

Legend: w weights, z features, f = w'z, g derivative of the loss by f, C rows of constraints, each of length 1, and C w
their values; q queues, of lower and upper limits; step the paper's alpha / 2, gain its gamma_0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import Block
from okl.compiled.constrainedsteps import Found, Small, Vector, settle_multipliers
from okl.compiled.counting import (
    ROWS,
    SAMPLED,
    SQUARED_GRADIENTS,
    STEPPED_GRADIENTS,
    SURROGATE,
    UPDATES,
    count_binary,
)
from okl.compiled.door import compiled, compiled_sum
from okl.compiled.fourier import dot
from okl.compiled.steplosses import loss_value, slope
from okl.compiled.updates import Learnt, Rule, add_scaled
from okl.types import FloatArray


class Limits(NamedTuple):
    """low <= C w <= high.

    rows : C (m, n_columns), in the precision of the weights, each of length 1; gram : C C' (m, m) float64
    low, high : (m,) float64, may be infinite; units : (m,), a value of 1 in the unit of its constraint
    gain : gamma_0, of the queues
    """

    rows: FloatArray
    gram: Vector
    low: Vector
    high: Vector
    units: Vector
    gain: float


class Watched(NamedTuple):
    """What learning under limits changes in place, beside Learnt.

    queues : (2, m) float64, of the lower and the upper limits; values : (m,), C w
    exceeded : (m + 1,), sums over rows of what each value was outside its limits, in its unit, before the row was
        learnt; at the end the sum of the lengths of these
    """

    queues: NDArray[np.float64]
    values: Vector
    exceeded: Vector


@compiled_sum
def _values(values: Vector, rows: FloatArray, w_left: FloatArray, w_right: FloatArray) -> None:
    width = w_left.shape[0]
    for i in range(values.shape[0]):
        values[i] = np.float64(dot(rows[i, :width], w_left) + dot(rows[i, width:], w_right))


@compiled
def _watch(watched: Watched, limits: Limits, found_caps: NDArray[np.float64], now: float, penalty: float) -> bool:
    """Count what is outside its limits, lengthen the queues by that, and write the slopes of the penalties.

    now : gamma of this row; penalty : alpha of this row times gamma of the next. Whether anything is outside.
    """
    outside = 0.0
    queues, values = watched.queues, watched.values
    for i in range(values.shape[0]):
        below, above = max(limits.low[i] - values[i], 0.0), max(values[i] - limits.high[i], 0.0)
        queues[0, i] += now * below
        queues[1, i] += now * above
        found_caps[0, i] = penalty * (queues[0, i] + now * below)
        found_caps[1, i] = penalty * (queues[1, i] + now * above)
        excess = limits.units[i] * (below + above)
        watched.exceeded[i] += excess
        outside += excess * excess
    watched.exceeded[values.shape[0]] += math.sqrt(outside)
    return outside > 0.0


@compiled
def _within(small: Small, squared: float) -> bool:
    """Whether the point u needs no correction: it is in the ball, and inside the limits that have a price."""
    if squared > small.radius * small.radius:
        return False
    for i in range(small.reach.shape[0]):
        if small.above[i] > 0.0 and small.reach[i] > small.high[i]:
            return False
        if small.below[i] > 0.0 and small.reach[i] < small.low[i]:
            return False
    return True


@compiled
def _correct(
    w_left: FloatArray,
    w_right: FloatArray,
    watched: Watched,
    limits: Limits,
    found: Found,
    small: Small,
    squared: float,
) -> float:
    """Take weights that hold u to the argmin of the step, and the values with them; returns the new ||w||^2."""
    width = w_left.shape[0]
    grown = settle_multipliers(found, small, squared)
    total = squared
    for i in range(watched.values.shape[0]):
        if found.multipliers[i] != 0.0:
            factor = w_left.dtype.type(-0.5 * found.multipliers[i])
            add_scaled(w_left, limits.rows[i, :width], factor)
            add_scaled(w_right, limits.rows[i, width:], factor)
        total -= 0.5 * found.multipliers[i] * (small.reach[i] + found.values[i])
    if grown > 1.0:
        shrinking = w_left.dtype.type(1.0 / grown)
        for j in range(width):
            w_left[j] *= shrinking
        for j in range(w_right.shape[0]):
            w_right[j] *= shrinking
    for i in range(watched.values.shape[0]):
        watched.values[i] = found.values[i] / grown
    return max(total, 0.0) / (grown * grown)


@compiled
def _step_of(rule: Rule, row: float) -> float:
    return rule.step_size / math.sqrt(row) if rule.decaying else rule.step_size


@compiled_sum
def _copy(target: Vector, source: Vector) -> None:
    for i in range(target.shape[0]):  # not a slice: see fourier.fourier_transform
        target[i] = source[i]


@compiled_sum
def _reach(reach: Vector, values: Vector, rows: FloatArray, left: FloatArray, right: FloatArray, factor: float) -> None:
    """Overwrite reach by C (w + factor z); values : C w."""
    width = left.shape[0]
    for i in range(reach.shape[0]):
        along = np.float64(dot(rows[i, :width], left) + dot(rows[i, width:], right))
        reach[i] = values[i] + factor * along


@compiled
def _sample(total: NDArray[np.float64], counts: NDArray[np.int64], weights: FloatArray, number: int) -> None:
    times = np.float64(number)
    for j in range(total.shape[1]):
        total[0, j] += times * weights[0, j]
    counts[SAMPLED] += number


@compiled_sum
def learn_constrained_block(
    learnt: Learnt,
    watched: Watched,
    found: Found,
    block: Block,
    targets: NDArray[np.float64],
    rule: Rule,
    limits: Limits,
) -> None:
    """Learn the rows of a block one after the other; learnt and watched change in place, found is scratch.

    Row t is scored with the weights w_t; then, with alpha_t = 2 step_t and gamma_t = gain / sqrt(alpha_t),

    q_t = q_(t-1) + gamma_t [g(w_t)]_+,   q-hat = q_t + gamma_t [g(w_t)]_+
    w_(t+1) = argmin over the ball of alpha_t <grad, w> + alpha_t gamma_(t+1) <q-hat, [g(w)]_+> + ||w - w_t||^2

    Values C w and ||w||^2 are followed, and measured afresh in every block. A row costs its score, unless its loss has
    a slope or something is outside its limits: then a product with every row of C, and an addition for every
    multiplier that is not 0. Averages, steps and counts are as in okl.compiled.updates.learn_block.

    targets : (rows,) float64, -1 or +1

    Source: Yi et al., ICML 2021, Algorithm 1, with (16) or (24).
    """
    weights, total, counts, sums, class_counts = learnt
    code, epsilon, _, class_weights, sample_every, radius, _, _ = rule
    lefts, rights = block
    width = lefts.shape[1]
    w_left, w_right = weights[0, :width], weights[0, width:]
    caps, reach = np.zeros((2, limits.low.shape[0])), np.zeros(limits.low.shape[0])
    small = Small(limits.gram, limits.low, limits.high, radius, reach, caps[0], caps[1])
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
        outside = _watch(watched, limits, caps, gamma, 2.0 * step * following)
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
            if _within(small, squared):
                _copy(watched.values, reach)
            else:
                squared = _correct(w_left, w_right, watched, limits, found, small, squared)
        if sample_every > 0 and counts[ROWS] % sample_every == 0:
            _sample(total, counts, weights, counts[ROWS] // sample_every)
