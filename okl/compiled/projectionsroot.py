"""The root of a falling, piecewise linear function: a safeguarded Newton that forgets what no longer bends.

g(t) = constant - falling t + sum_i clip(v_i - t, low_i, high_i) - total; term i bends at v_i - high_i and at
v_i - low_i. Each step looks at one t inside the bracket, narrows the bracket, and moves every term that does not bend
inside it any more into `constant` and `falling`. When none is left the rest is one division, so the root is exact.

Newton's step is taken where it falls into the bracket. A step that does not get rid of half of the terms is followed
by two at a bend in the middle of three: where boxes are narrow, as in nu-SVM's, g is a staircase, and Newton's steps
lead nowhere. Each bend looked at is out of the way, so the search ends.

Source of the breakpoints: Kiwiel, Mathematical Programming 112, 2008, section 3; Ito, Takeda & Toh, JMLR 18(16), 2017,
Lemma 2 and equation (19).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled, compiled_sum
from okl.compiled.projections import Doubles

BELOW, FOUND, ABOVE = -1, 0, 1
_PIVOTS_AFTER_NEWTON = 2
_STRETCH = 1024
_ROUNDING = 1e-13  # of sums of a million terms


@compiled_sum
def _sum_at(v: Doubles, low: Doubles, high: Doubles, size: int, t: float) -> tuple[float, int]:
    """Sum of the terms at t, and how many of them fall there."""
    total, active = 0.0, 0
    for i in range(size):
        term = v[i] - t
        active += (term > low[i]) & (term < high[i])
        term = low[i] if term < low[i] else term
        total += high[i] if term > high[i] else term
    return total, active


@compiled_sum
def _sum_settled(
    flags: NDArray[np.uint8], v: Doubles, low: Doubles, high: Doubles, start: float, stop: float
) -> tuple[float, float]:
    """Flag the terms that bend between start and stop; returns constants of the others, and how many of them fall."""
    constant, falling = 0.0, 0.0
    for i in range(v.shape[0]):
        leaves, arrives = v[i] - high[i], v[i] - low[i]
        bends = ((leaves > start) & (leaves < stop)) | ((arrives > start) & (arrives < stop))
        still = (leaves >= stop) | (arrives <= start)
        term = low[i] if arrives <= start else v[i]
        term = high[i] if leaves >= stop else term
        constant += 0.0 if bends else term
        falling += 0.0 if (bends | still) else 1.0
        flags[i] = bends
    return constant, falling


@compiled
def _settle(
    v: Doubles, low: Doubles, high: Doubles, flags: NDArray[np.uint8], size: int, start: float, stop: float
) -> tuple[int, float, int]:
    """Move the terms that bend between start and stop to the front; returns their number and the sums of the rest."""
    kept, constant, falling, words = 0, 0.0, 0, flags.view(np.uint64)
    for first in range(0, size, flags.shape[0]):
        last = min(first + flags.shape[0], size)
        flags[last - first :] = 0
        more, fallen = _sum_settled(flags, v[first:last], low[first:last], high[first:last], start, stop)
        constant, falling = constant + more, falling + int(fallen)
        for word in range((last - first + 7) // 8):
            if words[word] != 0:
                for j in range(8 * word, min(8 * word + 8, last - first)):
                    # always moved, kept by the count: a branch that nobody can predict costs more
                    v[kept], low[kept], high[kept] = v[first + j], low[first + j], high[first + j]
                    kept += flags[j]
    return kept, constant, falling


@compiled
def _bend(v: float, low: float, high: float, start: float, stop: float, late: bool) -> float:
    """A bend of one term between start and stop, the later one if there are two and `late`."""
    leaves, arrives = v - high, v - low
    if leaves <= start or (late and arrives < stop):
        return arrives
    return leaves


@compiled
def _pivot(v: Doubles, low: Doubles, high: Doubles, size: int, start: float, stop: float, late: bool) -> float:
    """The bend in the middle of three terms'."""
    i, j, k = size // 6, size // 2, size - 1 - size // 6
    a = _bend(v[i], low[i], high[i], start, stop, late)
    b = _bend(v[j], low[j], high[j], start, stop, late)
    c = _bend(v[k], low[k], high[k], start, stop, late)
    return max(min(a, b), min(max(a, b), c))


@compiled
def _step(
    t: float, excess: float, slope: int, size: int, start: float, stop: float, at_start: float, at_stop: float
) -> float:
    """Newton's next t, or the secant's where g is known at both ends; a little beyond the root, to close in on it."""
    if at_start < np.inf and at_stop > -np.inf:
        share = at_start / (at_start - at_stop)
        near = min(share, 1.0 - share)
        near += near / 16 + math.sqrt(near / size)
        return start + (near if share < 0.5 else 1.0 - near) * (stop - start)
    return t + 1.0625 * excess / slope if slope > 0 else np.inf


@compiled
def _line_root(constant: float, falling: int, total: float, start: float, stop: float) -> float:
    """Where the line without bends is 0; if it is level, beyond the end to which g has to go on, or where it is 0.

    Towards infinity g does not go on: what is missing there is rounding, and the last bend comes nearest.
    """
    excess = constant - total
    if falling > 0:
        return excess / falling
    if abs(excess) > _ROUNDING * (abs(constant) + abs(total)):
        if excess > 0.0 and stop < np.inf:
            return np.inf
        if excess < 0.0 and start > -np.inf:
            return -np.inf
    if start == -np.inf:
        return stop if stop < np.inf else 0.0
    return start if stop == np.inf else 0.5 * (start + stop)


@compiled
def find_root(
    v: Doubles,
    low: Doubles,
    high: Doubles,
    size: int,
    constant: float,
    falling: int,
    total: float,
    start: float,
    stop: float,
    guess: float,
) -> tuple[float, int, float, int]:
    """Find t in [start, stop] with g(t) = 0; the first `size` of v, low and high, which bend inside, are overwritten.

    Returns
    -------
    t : the root; where g is 0 on an interval, a point of it; start or stop where the root is not between them
    where : BELOW, FOUND or ABOVE
    excess : g(t), 0 but for rounding where the root was found
    visits : how many terms were read, each time counted
    """
    first, last, at_start, at_stop = start, stop, np.inf, -np.inf
    t, pivots, visits = guess, 0, 0
    flags = np.empty(_STRETCH, dtype=np.uint8)
    while size > 0:
        if pivots > 0 or not start < t < stop:
            t = _pivot(v, low, high, size, start, stop, pivots % 2 == 0)
        terms, active = _sum_at(v, low, high, size, t)
        excess = constant - falling * t + terms - total
        slope = falling + active
        if excess == 0.0:
            return t, FOUND, 0.0, visits + size
        if excess > 0.0:
            start, at_start = t, excess
        else:
            stop, at_stop = t, excess
        before = size
        size, more, fallen = _settle(v, low, high, flags, size, start, stop)
        constant, falling = constant + more, falling + fallen
        visits += 2 * before
        if pivots > 0:
            pivots -= 1
        elif 2 * size > before:
            pivots = _PIVOTS_AFTER_NEWTON
        t = _step(t, excess, slope, size, start, stop, at_start, at_stop)
    t = _line_root(constant, falling, total, start, stop)
    where = FOUND
    # an end that was moved has been looked at: the root beyond it is there by rounding
    if t < start:
        t, where = start, BELOW if start == first and start > -np.inf else FOUND
    elif t > stop:
        t, where = stop, ABOVE if stop == last and stop < np.inf else FOUND
    return t, where, constant - (falling * t if falling > 0 else 0.0) - total, visits
