"""Online learning under linear constraints (Algorithm 1 of Yi et al.) and the window loops of the linear learners."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.fourier import Waves, dot, map_part, score_block
from okl.compiled.jit import compiled, compiled_row, compiled_sum
from okl.compiled.sgd import (
    ROWS,
    SAMPLED,
    SQUARED_GRADIENTS,
    STEPPED_GRADIENTS,
    SURROGATE,
    UPDATES,
    LearnerArrays,
    SummedGradients,
    UpdateRule,
    add_scaled,
    count_binary,
    learn_block,
    loss_value,
    slope,
    sum_block,
)
from okl.compiled.threads import Block, pass_turn, wait_turn
from okl.foundation.types import FloatArray

# One step of online learning under linear constraints.
#
# argmin over ||x|| <= radius of ||x - u||^2 + sum_i above_i [C_i x - high_i]_+ + below_i [low_i - C_i x]_+
#
# Its dual has a signed multiplier l_i in [-below_i, above_i] for each row of C and one for the ball: with y = u - C'l
# / 2 the point is x = y / (1 + nu), nu = max(0, ||y|| / radius - 1). All that is needed of u and C are inner
# products.
#
# Legend: l multipliers, c = C y; G = C C', reach = C u, squared = ||u||^2.
#
# Source: Yi et al., ICML 2021, (12), over a ball; the dual by turns as in Hsieh et al., ICML 2008, Algorithm 1.

Vector = NDArray[np.float64]
_SWEEPS, _MOST_ROUNDS, _HALVINGS = 2, 60, 30
_TOLERANCE = 1e-11
_RIDGE = 1e-13


class StepProblem(NamedTuple):
    """The small problem: limits fixed once, the rest set before every step.

    gram : (m, m), G; low, high : (m,), low <= high, may be infinite; radius : > 0
    reach : (m,), C u; below, above : (m,) >= 0, the slopes of the penalties
    """

    gram: Vector
    low: Vector
    high: Vector
    radius: float
    reach: Vector
    below: Vector
    above: Vector


class StepWorkspace(NamedTuple):
    """Arrays that a step overwrites: multipliers l (m,) and values C y (m,); room (m + 4, m) is scratch."""

    multipliers: Vector
    values: Vector
    room: Vector


def room_for(count: int) -> StepWorkspace:
    """Return arrays for so many rows."""
    return StepWorkspace(np.zeros(count), np.zeros(count), np.zeros((count + 4, max(count, 1))))


@compiled_row
def squared_length(found: StepWorkspace, small: StepProblem, squared: float) -> float:
    """Return ||y||^2 of the multipliers, from C y."""
    total = squared
    for i in range(found.multipliers.shape[0]):
        total -= 0.5 * found.multipliers[i] * (small.reach[i] + found.values[i])
    return max(total, 0.0)


@compiled_row
def dual_value(found: StepWorkspace, small: StepProblem, squared: float) -> float:
    """Return the dual objective of the multipliers, ||u||^2 apart."""
    total = 0.0
    for i in range(found.multipliers.shape[0]):
        value = found.multipliers[i]
        if value != 0.0:
            limit = small.high[i] if value > 0.0 else small.low[i]
            total += value * (0.5 * (small.reach[i] + found.values[i]) - limit)
    outside = max(0.0, math.sqrt(squared_length(found, small, squared)) - small.radius)
    return total + outside * outside


@compiled_row
def sweep_multipliers(found: StepWorkspace, small: StepProblem, squared: float) -> float:
    """Set each multiplier to its best value in turn, the ball's first; returns the largest change, as a length of y."""
    multipliers, values = found.multipliers, found.values
    grown = max(1.0, math.sqrt(squared_length(found, small, squared)) / small.radius)
    largest = 0.0
    for i in range(multipliers.shape[0]):
        length = small.gram[i, i]
        if length <= 0.0:
            continue
        old = multipliers[i]
        upper = old + 2.0 * (values[i] - small.high[i] * grown) / length
        lower = old + 2.0 * (values[i] - small.low[i] * grown) / length
        new = 0.0
        if upper > 0.0:
            new = min(upper, small.above[i])
        elif lower < 0.0:
            new = max(lower, -small.below[i])
        change = new - old
        if change != 0.0:
            multipliers[i] = new
            for j in range(values.shape[0]):
                values[j] -= 0.5 * small.gram[j, i] * change
            largest = max(largest, abs(change) * math.sqrt(length))
    return largest


@compiled_row
def _free_rows(found: StepWorkspace, small: StepProblem) -> int:
    """List the rows whose multiplier may still move, in the first line of room; returns how many there are."""
    free = 0
    for i in range(found.multipliers.shape[0]):
        value = found.multipliers[i]
        if 0.0 < value < small.above[i] or -small.below[i] < value < 0.0:
            found.room[0, free] = i
            free += 1
    return free


@compiled_row
def _newton_system(found: StepWorkspace, small: StepProblem, squared: float, free: int) -> None:
    """Write the slopes of the dual over the free rows to line 1 of room, minus its curvature to lines 4 on."""
    room = found.room
    norm = math.sqrt(squared_length(found, small, squared))
    grown = max(1.0, norm / small.radius)
    for a in range(free):
        i = int(room[0, a])
        limit = small.high[i] if found.multipliers[i] > 0.0 else small.low[i]
        room[1, a] = found.values[i] / grown - limit
        for b in range(free):
            j = int(room[0, b])
            curve = small.gram[i, j]
            if grown > 1.0:
                curve -= found.values[i] * found.values[j] / (norm * norm)
            room[4 + a, b] = 0.5 * curve / grown
        room[4 + a, a] += _RIDGE * small.gram[i, i]


@compiled_row
def _eliminate(room: Vector, size: int) -> None:
    """Solve the system of lines 4 on for line 1 in place, by elimination with row exchanges."""
    for k in range(size):
        best = k
        for a in range(k + 1, size):
            if abs(room[4 + a, k]) > abs(room[4 + best, k]):
                best = a
        if room[4 + best, k] == 0.0:
            room[1, k] = 0.0
            continue
        if best != k:
            for b in range(size):
                room[4 + k, b], room[4 + best, b] = room[4 + best, b], room[4 + k, b]
            room[1, k], room[1, best] = room[1, best], room[1, k]
        for a in range(k + 1, size):
            factor = room[4 + a, k] / room[4 + k, k]
            for b in range(k, size):
                room[4 + a, b] -= factor * room[4 + k, b]
            room[1, a] -= factor * room[1, k]
    for k in range(size - 1, -1, -1):
        for b in range(k + 1, size):
            room[1, k] -= room[4 + k, b] * room[1, b]
        if room[4 + k, k] != 0.0:
            room[1, k] /= room[4 + k, k]


@compiled_row
def _furthest(found: StepWorkspace, small: StepProblem, free: int) -> float:
    """Return the part of a Newton step, at most all of it, that takes no free multiplier past its ends."""
    part = 1.0
    for a in range(free):
        i, step = int(found.room[0, a]), found.room[1, a]
        value = found.multipliers[i]
        if step > 0.0:
            part = min(part, ((small.above[i] if value > 0.0 else 0.0) - value) / step)
        elif step < 0.0:
            part = min(part, ((0.0 if value > 0.0 else -small.below[i]) - value) / step)
    return part


@compiled_row
def newton_multipliers(found: StepWorkspace, small: StepProblem, squared: float) -> float:
    """Take a Newton step of the free multipliers together, shortened until the dual does not fall; returns its length.

    Where rows are nearly parallel, turns of single ones hardly move.
    """
    free = _free_rows(found, small)
    if free == 0:
        return 0.0
    room, count = found.room, found.multipliers.shape[0]
    before = dual_value(found, small, squared)
    _newton_system(found, small, squared, free)
    _eliminate(room, free)
    part = _furthest(found, small, free)
    for i in range(count):
        room[2, i], room[3, i] = found.multipliers[i], found.values[i]
    for _ in range(_HALVINGS):
        length = 0.0
        for i in range(count):
            found.multipliers[i], found.values[i] = room[2, i], room[3, i]
        for a in range(free):
            i = int(room[0, a])
            change = part * room[1, a]
            found.multipliers[i] += change
            length = max(length, abs(change) * math.sqrt(small.gram[i, i]))
            for j in range(count):
                found.values[j] -= 0.5 * small.gram[j, i] * change
        if dual_value(found, small, squared) >= before:
            return length
        part *= 0.5
    for i in range(count):
        found.multipliers[i], found.values[i] = room[2, i], room[3, i]
    return 0.0


@compiled_row
def settle_multipliers(found: StepWorkspace, small: StepProblem, squared: float) -> float:
    """Overwrite found by the multipliers of the step and C y; returns 1 + nu, so that x = y / (1 + nu).

    Turns of single multipliers first, which one or two rows need no more than; then a Newton step between them.

    squared : ||u||^2
    """
    multipliers, values = found.multipliers, found.values
    for i in range(multipliers.shape[0]):
        multipliers[i], values[i] = 0.0, small.reach[i]
    enough = _TOLERANCE * max(small.radius, math.sqrt(squared))
    for turn in range(_SWEEPS + _MOST_ROUNDS):
        change = sweep_multipliers(found, small, squared)
        if turn >= _SWEEPS:
            change = max(change, newton_multipliers(found, small, squared))
        if change <= enough:
            break
    return max(1.0, math.sqrt(squared_length(found, small, squared)) / small.radius)


# Algorithm 1 of Yi et al. in a ball, row by row, with the loss of a score.
#
# Legend: w weights, z features, f = w'z, g derivative of the loss by f, C rows of constraints, each of length 1, and
# C w their values; q queues, of lower and upper limits; step the paper's alpha / 2, gain its gamma_0.


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


class LimitCounters(NamedTuple):
    """State that learning under limits changes in place, in addition to Learnt.

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
def _watch(watched: LimitCounters, limits: Limits, found_caps: NDArray[np.float64], now: float, penalty: float) -> bool:
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
def _within(small: StepProblem, squared: float) -> bool:
    """Return whether the point u needs no correction: it is in the ball, and inside the limits that have a price."""
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
    watched: LimitCounters,
    limits: Limits,
    found: StepWorkspace,
    small: StepProblem,
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
def _step_of(rule: UpdateRule, row: float) -> float:
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
    learnt: LearnerArrays,
    watched: LimitCounters,
    found: StepWorkspace,
    block: Block,
    targets: NDArray[np.float64],
    rule: UpdateRule,
    limits: Limits,
) -> None:
    """Learn the rows of a block one after the other; learnt and watched change in place, found is scratch.

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
    code, epsilon, _, class_weights, sample_every, radius, _, _ = rule
    lefts, rights = block
    width = lefts.shape[1]
    w_left, w_right = weights[0, :width], weights[0, width:]
    caps, reach = np.zeros((2, limits.low.shape[0])), np.zeros(limits.low.shape[0])
    small = StepProblem(limits.gram, limits.low, limits.high, radius, reach, caps[0], caps[1])
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


# Loop of each thread over a window of rows: features in a private buffer, shared state in ordered sections.
#
# Thread t of n takes the blocks t, t + n, t + 2n, ... It maps a block while others work, waits until all earlier
# blocks are done, works on the shared state, and passes the turn on: exact, and the same bits for any number of
# threads.


@compiled
def learn_fourier(
    learnt: LearnerArrays,
    turns: NDArray[np.int64],
    block: Block,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    waves: Waves,
    rule: UpdateRule,
    thread: int,
    n_threads: int,
) -> bool:
    """Learn rows in order, the Fourier map fused in; changes learnt, turns, block. False if another thread failed."""
    size = block.left.shape[0]
    n_blocks = (inputs.shape[0] + size - 1) // size
    for index in range(thread, n_blocks, n_threads):
        part = map_part(block, inputs, waves, index)
        if not wait_turn(turns, index):
            return False
        learn_block(learnt, part, targets[index * size : index * size + part.left.shape[0]], rule)
        pass_turn(turns, index + 1)
    return True


@compiled
def learn_constrained_fourier(
    learnt: LearnerArrays,
    watched: LimitCounters,
    found: StepWorkspace,
    turns: NDArray[np.int64],
    block: Block,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    waves: Waves,
    rule: UpdateRule,
    limits: Limits,
    thread: int,
    n_threads: int,
) -> bool:
    """Learn rows in order, the Fourier map fused in, under limits; see `learn_fourier`."""
    size = block.left.shape[0]
    n_blocks = (inputs.shape[0] + size - 1) // size
    for index in range(thread, n_blocks, n_threads):
        part = map_part(block, inputs, waves, index)
        if not wait_turn(turns, index):
            return False
        some = targets[index * size : index * size + part.left.shape[0]]
        learn_constrained_block(learnt, watched, found, part, some, rule, limits)
        pass_turn(turns, index + 1)
    return True


@compiled
def sum_fourier(
    summed: SummedGradients,
    turns: NDArray[np.int64],
    block: Block,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    waves: Waves,
    weights: FloatArray,
    rule: UpdateRule,
    thread: int,
    n_threads: int,
) -> bool:
    """Add rows up in block order at fixed weights; changes summed, turns and block. False if another thread failed."""
    size = block.left.shape[0]
    n_blocks = (inputs.shape[0] + size - 1) // size
    scores = np.empty((size, weights.shape[0]), weights.dtype)
    for index in range(thread, n_blocks, n_threads):
        part = map_part(block, inputs, waves, index)
        n_rows = part.left.shape[0]
        score_block(scores[:n_rows], part, weights)
        if not wait_turn(turns, index):
            return False
        sum_block(summed, part, scores[:n_rows], targets[index * size : index * size + n_rows], rule)
        pass_turn(turns, index + 1)
    return True
