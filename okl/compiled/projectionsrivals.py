"""Three published searches for the multiplier t of sum_i clip(a_i - t, lower, upper) = total, as rivals of okl's own.

All of them go over what is still undecided only, in an array of float64 that shrinks in place. Where the text slips,
its definitions hold: the entries of point, not of the projection, are summed; the two partial sets of Algorithm 5 are
those of its definitions, not of its listing; infinite bounds are multiplied only by counts above 0.

Source: Ito, Takeda & Toh, JMLR 18(16), 2017, Algorithms 2 and 5; Kiwiel, Mathematical Programming 112, 2008,
Algorithm 3.1 with random pivots.
"""

from __future__ import annotations

import numpy as np

from okl.compiled.door import compiled, compiled_sum
from okl.compiled.projections import Doubles
from okl.types import FloatArray

_TOLERANCE = 2.220446049250313e-16  # the paper's


@compiled
def _times(count: int, bound: float) -> float:
    return count * bound if count > 0 else 0.0


@compiled_sum
def copy_entries(kept: Doubles, point: FloatArray) -> tuple[float, float]:
    """Overwrite kept by the point; returns its least and its largest entry."""
    least, most = np.inf, -np.inf
    for i in range(point.shape[0]):
        a = np.float64(point[i])
        kept[i] = a
        least = a if a < least else least
        most = a if a > most else most
    return least, most


@compiled_sum
def _split(kept: Doubles, size: int, lower: float, upper: float, t: float) -> tuple[int, int, float]:
    """How many terms are at their upper bound at t, how many at their lower one, and the sum of the other entries."""
    above, below, between = 0, 0, 0.0
    for i in range(size):
        a = kept[i]
        high = a - upper >= t
        low = a - lower <= t
        above += high
        below += low & (not high)
        between += 0.0 if (high | low) else a
    return above, below, between


@compiled
def _keep(
    kept: Doubles, size: int, lower: float, upper: float, start: float, stop: float
) -> tuple[int, float, float, float]:
    """Move what does not stand still between start and stop to the front; returns number, sum, least and largest."""
    count, total, least, most = 0, 0.0, np.inf, -np.inf
    for i in range(size):
        a = kept[i]
        inside = (a - lower > start) & (a - upper < stop)
        kept[count] = a
        count += inside
        total += a if inside else 0.0
        least = a if inside & (a < least) else least
        most = a if inside & (a > most) else most
    return count, total, least, most


@compiled
def bisect(kept: Doubles, least: float, most: float, lower: float, upper: float, total: float) -> tuple[float, int]:
    """Algorithm 2: bisection that leaves out what stands still; returns t and its iterations.

    kept (m,) : the entries, overwritten; least and most : of them
    """
    size = kept.shape[0]
    start, stop = least - total / size, most - total / size
    above, below, iterations = 0, 0, 0
    t = start
    while stop - start > _TOLERANCE:
        iterations += 1
        t = 0.5 * (start + stop)
        high, low, between = _split(kept, size, lower, upper, t)
        value = _times(above + high, upper) + _times(below + low, lower) + between - (size - high - low) * t
        if value == total or t in (start, stop):
            break
        if value < total:
            stop, above = t, above + high
        else:
            start, below = t, below + low
        size, between, least, most = _keep(kept, size, lower, upper, start, stop)
        if size == 0:
            break
        if least - stop >= lower and most - start <= upper:
            return (_times(above, upper) + _times(below, lower) + between - total) / size, iterations
    return t, iterations


@compiled
def _drop(
    kept: Doubles, size: int, lower: float, upper: float, start: float, stop: float
) -> tuple[int, int, int, int, float]:
    """Leave out what does not bend between start and stop; returns the size, and what stands high, low, and falls."""
    count, above, below, falling, fallen = 0, 0, 0, 0, 0.0
    for i in range(size):
        a = kept[i]
        high = a - upper >= stop
        low = (not high) & (a - lower <= start)
        falls = (not high) & (not low) & (a - upper <= start) & (a - lower >= stop)
        kept[count] = a
        count += not (high | low | falls)
        above += high
        below += low
        falling += falls
        fallen += a if falls else 0.0
    return count, above, below, falling, fallen


@compiled
def bisect_finely(
    kept: Doubles, least: float, most: float, lower: float, upper: float, total: float
) -> tuple[float, int]:
    """Algorithm 5: Algorithm 2 that also leaves out what falls throughout. Returns t and its iterations."""
    size = kept.shape[0]
    start, stop = least - total / size, most - total / size
    above, below, falling, fallen, iterations = 0, 0, 0, 0.0, 0
    t = start
    while stop - start > _TOLERANCE:
        iterations += 1
        t = 0.5 * (start + stop)
        high, low, between = _split(kept, size, lower, upper, t)
        value = _times(above + high, upper) + _times(below + low, lower) + fallen + between
        value -= (falling + size - high - low) * t
        if value == total or t in (start, stop):
            break
        if value < total:
            stop = t
        else:
            start = t
        size, n_high, n_low, n_falling, more = _drop(kept, size, lower, upper, start, stop)
        above, below, falling, fallen = above + n_high, below + n_low, falling + n_falling, fallen + more
        if size == 0:
            if falling > 0:
                t = (_times(above, upper) + _times(below, lower) + fallen - total) / falling
            break
    return t, iterations


@compiled
def _list_bends(bends: Doubles, kept: Doubles, size: int, bound: float, count: int) -> int:
    """Append the bends at a bound to the first `count` of bends; returns how many there are."""
    if abs(bound) < np.inf:
        for i in range(size):
            bends[count] = kept[i] - bound
            count += 1
    return count


@compiled
def search_breakpoints(kept: Doubles, bends: Doubles, lower: float, upper: float, total: float) -> tuple[float, int]:
    """Kiwiel's search by random breakpoints; returns t and its iterations.

    kept (m,) : the entries, overwritten; bends (2 m,) : a buffer
    """
    size = kept.shape[0]
    n_bends = _list_bends(bends, kept, size, lower, _list_bends(bends, kept, size, upper, 0))
    start, stop = -np.inf, np.inf
    above, below, falling, fallen, iterations = 0, 0, 0, 0.0, 0
    seed = np.uint64(88172645463325252)
    while n_bends > 0:
        iterations += 1
        seed ^= seed << np.uint64(13)
        seed ^= seed >> np.uint64(7)
        seed ^= seed << np.uint64(17)
        t = bends[np.int64(seed >> np.uint64(11)) % n_bends]
        high, low, between = _split(kept, size, lower, upper, t)
        value = _times(above + high, upper) + _times(below + low, lower) + fallen + between
        value -= (falling + size - high - low) * t
        if value == total:
            return t, iterations
        if value < total:
            stop = t
        else:
            start = t
        size, n_high, n_low, n_falling, more = _drop(kept, size, lower, upper, start, stop)
        above, below, falling, fallen = above + n_high, below + n_low, falling + n_falling, fallen + more
        n_bends = _keep(bends, n_bends, 0.0, 0.0, start, stop)[0]
    if falling + size > 0:
        left = fallen + kept[:size].sum()
        return (_times(above, upper) + _times(below, lower) + left - total) / (falling + size), iterations
    # g stands still from the last bend to the next: any point of that interval will do
    return (start if stop == np.inf else stop), iterations
