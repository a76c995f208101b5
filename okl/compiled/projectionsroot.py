"""The root of a falling, piecewise linear function: a safeguarded Newton that forgets the bends behind it.

g(t) = constant - falling t - sum_(b < t) (t - b) over leaving + sum_(b < t) (t - b) over arriving - total: the sum of
terms clip(v - t, low, high), each of which leaves its upper bound at v - high and arrives at its lower one at v - low.
Each step looks at one t inside the bracket, narrows the bracket, and moves all bends that are not inside any more into
`constant` and `falling`. When none is left the rest is one division, so the root is exact.

Newton's step is taken where it falls into the bracket. A step that does not get rid of half of the bends is followed
by two at the median of three bends: where boxes are narrow, as in nu-SVM's, g is a staircase, and Newton's steps
lead nowhere. Each bend looked at is out of the way, so the search ends.

Source of the breakpoints: Kiwiel, Mathematical Programming 112, 2008, section 3; Ito, Takeda & Toh, JMLR 18(16), 2017,
Lemma 2 and equation (19).
"""

from __future__ import annotations

import math

import numpy as np

from okl.compiled.door import compiled, compiled_sum
from okl.compiled.projections import Doubles

BELOW, FOUND, ABOVE = -1, 0, 1
_PIVOTS_AFTER_NEWTON = 2
_ROUNDING = 1e-13  # of sums of a million terms


@compiled_sum
def _sum_below(bends: Doubles, size: int, t: float) -> tuple[float, float]:
    """Sum and number of the bends below t."""
    total, count = 0.0, 0.0
    for i in range(size):
        below = bends[i] < t
        total += bends[i] if below else 0.0
        count += 1.0 if below else 0.0
    return total, count


@compiled
def _settle(bends: Doubles, size: int, start: float, stop: float) -> tuple[int, float, float]:
    """Move the bends between start and stop to the front; returns their number, sum and number of those before."""
    kept, total, count = 0, 0.0, 0.0
    for i in range(size):
        bend = bends[i]
        before = bend <= start
        # always moved, kept by the count: a branch that nobody can predict costs more
        bends[kept] = bend
        kept += (not before) & (bend < stop)
        total += bend if before else 0.0
        count += 1.0 if before else 0.0
    return kept, total, count


@compiled
def _either(leaving: Doubles, arriving: Doubles, n_leaving: int, i: int) -> float:
    bend: float = leaving[i] if i < n_leaving else arriving[i - n_leaving]
    return bend


@compiled
def _pivot(leaving: Doubles, arriving: Doubles, n_leaving: int, n_arriving: int) -> float:
    """The median of three bends."""
    size = n_leaving + n_arriving
    a = _either(leaving, arriving, n_leaving, size // 6)
    b = _either(leaving, arriving, n_leaving, size // 2)
    c = _either(leaving, arriving, n_leaving, size - 1 - size // 6)
    return max(min(a, b), min(max(a, b), c))


@compiled
def _step(
    t: float, excess: float, slope: float, size: int, start: float, stop: float, at_start: float, at_stop: float
) -> float:
    """Newton's next t, or the secant's where g is known at both ends; a little beyond the root, to close in on it."""
    if at_start < np.inf and at_stop > -np.inf:
        share = at_start / (at_start - at_stop)
        near = min(share, 1.0 - share)
        near += near / 16 + math.sqrt(near / size)
        return start + (near if share < 0.5 else 1.0 - near) * (stop - start)
    return t + 1.0625 * excess / slope if slope > 0 else np.inf


@compiled
def _line_root(constant: float, falling: float, total: float, start: float, stop: float) -> float:
    """Where the line without bends is 0; if it is level, beyond the end to which g has to go on, or where it is 0.

    Towards infinity g does not go on: what is missing there is rounding, and the last bend comes nearest.
    """
    excess = constant - total
    if falling > 0.0:
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
    leaving: Doubles,
    arriving: Doubles,
    n_leaving: int,
    n_arriving: int,
    constant: float,
    falling: float,
    total: float,
    start: float,
    stop: float,
    guess: float,
) -> tuple[float, int, float, int]:
    """Find t in [start, stop] with g(t) = 0; leaving and arriving are overwritten.

    Parameters
    ----------
    leaving, arriving : the first n_leaving and n_arriving are the bends between start and stop
    constant, falling : the line from start to the first bend

    Returns
    -------
    t : the root; where g is 0 on an interval, a point of it; start or stop where the root is not between them
    where : BELOW, FOUND or ABOVE
    excess : g(t), 0 but for rounding where the root was found
    visits : how many bends were read, each time counted
    """
    first, last, at_start, at_stop = start, stop, np.inf, -np.inf
    t, pivots, visits = guess, 0, 0
    size = n_leaving + n_arriving
    while size > 0:
        if pivots > 0 or not start < t < stop:
            t = _pivot(leaving, arriving, n_leaving, n_arriving)
        left, n_left = _sum_below(leaving, n_leaving, t)
        arrived, n_arrived = _sum_below(arriving, n_arriving, t)
        slope = falling + n_left - n_arrived
        excess = constant + left - arrived - slope * t - total
        if excess == 0.0:
            return t, FOUND, 0.0, visits + size
        if excess > 0.0:
            start, at_start = t, excess
        else:
            stop, at_stop = t, excess
        n_leaving, left, n_left = _settle(leaving, n_leaving, start, stop)
        n_arriving, arrived, n_arrived = _settle(arriving, n_arriving, start, stop)
        constant, falling = constant + left - arrived, falling + n_left - n_arrived
        before, size = size, n_leaving + n_arriving
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
    return t, where, constant - (falling * t if falling > 0.0 else 0.0) - total, visits
