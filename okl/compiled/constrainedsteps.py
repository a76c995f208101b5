"""The step of online learning under linear constraints: a few multipliers, whatever the number of columns is.

argmin over ||x|| <= radius of ||x - u||^2 + sum_i above_i [C_i x - high_i]_+ + below_i [low_i - C_i x]_+

Its dual has a signed multiplier l_i in [-below_i, above_i] for each row of C and one for the ball: with y = u - C'l / 2
the point is x = y / (1 + nu), nu = max(0, ||y|| / radius - 1). All that is needed of u and C are inner products.

Legend: l multipliers, c = C y; G = C C', reach = C u, squared = ||u||^2.

Source: Yi et al., ICML 2021, (12), over a ball; the dual by turns as in Hsieh et al., ICML 2008, Algorithm 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled_row

Vector = NDArray[np.float64]
_SWEEPS, _MOST_ROUNDS, _HALVINGS = 2, 60, 30
_TOLERANCE = 1e-11
_RIDGE = 1e-13


class Small(NamedTuple):
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


class Found(NamedTuple):
    """What a step overwrites: multipliers l (m,) and values C y (m,); room (m + 4, m) is scratch."""

    multipliers: Vector
    values: Vector
    room: Vector


def room_for(count: int) -> Found:
    """Arrays for so many rows."""
    return Found(np.zeros(count), np.zeros(count), np.zeros((count + 4, max(count, 1))))


@compiled_row
def squared_length(found: Found, small: Small, squared: float) -> float:
    """||y||^2 of the multipliers, from C y."""
    total = squared
    for i in range(found.multipliers.shape[0]):
        total -= 0.5 * found.multipliers[i] * (small.reach[i] + found.values[i])
    return max(total, 0.0)


@compiled_row
def dual_value(found: Found, small: Small, squared: float) -> float:
    """The dual objective of the multipliers, ||u||^2 apart."""
    total = 0.0
    for i in range(found.multipliers.shape[0]):
        value = found.multipliers[i]
        if value != 0.0:
            limit = small.high[i] if value > 0.0 else small.low[i]
            total += value * (0.5 * (small.reach[i] + found.values[i]) - limit)
    outside = max(0.0, math.sqrt(squared_length(found, small, squared)) - small.radius)
    return total + outside * outside


@compiled_row
def sweep_multipliers(found: Found, small: Small, squared: float) -> float:
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
def _free_rows(found: Found, small: Small) -> int:
    """List the rows whose multiplier may still move, in the first line of room; returns how many there are."""
    free = 0
    for i in range(found.multipliers.shape[0]):
        value = found.multipliers[i]
        if 0.0 < value < small.above[i] or -small.below[i] < value < 0.0:
            found.room[0, free] = i
            free += 1
    return free


@compiled_row
def _newton_system(found: Found, small: Small, squared: float, free: int) -> None:
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
def _furthest(found: Found, small: Small, free: int) -> float:
    """The part of a Newton step, at most all of it, that takes no free multiplier past its ends."""
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
def newton_multipliers(found: Found, small: Small, squared: float) -> float:
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
def settle_multipliers(found: Found, small: Small, squared: float) -> float:
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
