"""Projections onto boxes cut by hyperplanes: multiplier searches, Newton steps and sampled windows."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from okl.compiled.jit import compiled, compiled_sum, nested, nested_sum
from okl.foundation.types import Doubles, FloatArray, Integers

# The passes over all entries that a projection onto a box and hyperplanes takes: one to narrow down, one to write.
#
# Every entry i is brought to one form: v = y_i a_i between low and high, which are l_i and u_i for y_i = 1, -u_i and
# -l_i for y_i = -1. At a multiplier t its term is clip(v - t, low, high): high up to t = v - high, low from t = v -
# low on, falling in between. Over a window of multipliers most terms are one of the three throughout and need only be
# summed; the few that bend inside are gathered for `find_root`.
#
# Blocks are fixed, and their sums are added in block order by the caller: any number of threads gives the same bits.
#
# Legend: a point (m,), float32 or float64; y signs (m,), int8; l, u lower and upper, a float or float64 (m,).

Bounds = float | NDArray[np.float64]

BLOCK = 16384


class ProjectionEntries(NamedTuple):
    """Input of a projection: point (m,), signs (m,) int8, lower and upper, both floats or both float64 (m,)."""

    point: FloatArray
    signs: NDArray[np.int8]
    lower: Bounds
    upper: Bounds


class Windows(NamedTuple):
    """Intervals of multipliers, that of the entries with sign +1 and that of those with -1; may be infinite."""

    plus_start: float
    plus_stop: float
    minus_start: float
    minus_stop: float


class BlockSums(NamedTuple):
    """Result of a pass, changed in place: the constant part of each block, and its terms that bend.

    sums : (n_blocks, 4), constants of the signs +1 and -1, then numbers of entries that fall throughout, of either
    counts : (n_blocks, 2) int64, entries of sign +1 and of sign -1 that bend inside their window
    v, low, high : (n_blocks * BLOCK,), these entries in their one form; of block k those of sign +1 from k * BLOCK on,
        those of sign -1 back from (k + 1) * BLOCK - 1
    """

    sums: Doubles
    counts: Integers
    v: Doubles
    low: Doubles
    high: Doubles


def bound_at(bounds, i):  # type: ignore[no-untyped-def]
    """Return bounds[i] of an array, or the number itself; chosen at compile time, so that loops are vectorised."""
    return bounds[i] if isinstance(bounds, np.ndarray) else bounds


@overload(bound_at, inline="always")
def _choose_bound(bounds, i):  # type: ignore[no-untyped-def]
    return (lambda bounds, i: bounds[i]) if isinstance(bounds, types.Array) else (lambda bounds, i: bounds)


def bounds_of(bounds, first, last):  # type: ignore[no-untyped-def]
    """Return bounds[first:last] of an array, or the number itself."""
    return bounds[first:last] if isinstance(bounds, np.ndarray) else bounds


@overload(bounds_of, inline="always")
def _choose_bounds(bounds, first, last):  # type: ignore[no-untyped-def]
    if isinstance(bounds, types.Array):
        return lambda bounds, first, last: bounds[first:last]
    return lambda bounds, first, last: bounds


@nested
def _part(entries: ProjectionEntries, first: int, last: int) -> ProjectionEntries:
    # loops count from 0: an index that might be negative turns every load into a gather
    return ProjectionEntries(
        entries.point[first:last],
        entries.signs[first:last],
        bounds_of(entries.lower, first, last),  # type: ignore[no-untyped-call]
        bounds_of(entries.upper, first, last),  # type: ignore[no-untyped-call]
    )


@nested_sum
def _sum_block(sums: Doubles, flags: NDArray[np.uint8], entries: ProjectionEntries, windows: Windows) -> None:
    point, signs, lowers, uppers = entries
    plus_start, plus_stop, minus_start, minus_stop = windows
    constant_plus, constant_minus, falling_plus, falling_minus = 0.0, 0.0, 0.0, 0.0
    for i in range(point.shape[0]):
        positive = signs[i] > 0
        a, lower, upper = np.float64(point[i]), bound_at(lowers, i), bound_at(uppers, i)  # type: ignore[no-untyped-call]
        start = plus_start if positive else minus_start
        stop = plus_stop if positive else minus_stop
        v = a if positive else -a
        low = lower if positive else -upper
        high = upper if positive else -lower
        leaves, arrives = v - high, v - low
        bends = ((leaves > start) & (leaves < stop)) | ((arrives > start) & (arrives < stop))
        still = (leaves >= stop) | (arrives <= start)
        # v, not 0, where nothing holds: a NaN spreads to the sum, and is seen there
        term = low if arrives <= start else v
        term = high if leaves >= stop else term
        term = 0.0 if bends else term
        falls = 0.0 if (bends | still) else 1.0
        constant_plus += term if positive else 0.0
        constant_minus += 0.0 if positive else term
        falling_plus += falls if positive else 0.0
        falling_minus += 0.0 if positive else falls
        flags[i] = bends
    sums[0], sums[1], sums[2], sums[3] = constant_plus, constant_minus, falling_plus, falling_minus


@nested
def _flagged(indices: NDArray[np.int32], flags: NDArray[np.uint8]) -> int:
    """Overwrite the first of indices by where flags, a multiple of 8 of them, are set; returns how many."""
    words, found = flags.view(np.uint64), 0
    for word in range(words.shape[0]):
        if words[word] != 0:
            for j in range(8 * word, 8 * word + 8):
                # always written, kept by the count: a branch that nobody can predict costs more
                indices[found] = j
                found += flags[j]
    return found


@nested
def _write_terms(
    counts: Integers, v: Doubles, low: Doubles, high: Doubles, indices: NDArray[np.int32], entries: ProjectionEntries
) -> None:
    """Overwrite a block's counts (2,) and v, low and high: of sign +1 from the front, of sign -1 from the back."""
    n_plus, n_minus, last = 0, 0, BLOCK - 1
    for k in range(indices.shape[0]):
        i = indices[k]
        positive, a = entries.signs[i] > 0, np.float64(entries.point[i])
        lower, upper = bound_at(entries.lower, i), bound_at(entries.upper, i)  # type: ignore[no-untyped-call]
        place = n_plus if positive else last - n_minus
        v[place] = a if positive else -a
        low[place] = lower if positive else -upper
        high[place] = upper if positive else -lower
        n_plus += positive
        n_minus += not positive
    counts[0], counts[1] = n_plus, n_minus


@compiled
def sum_blocks(
    gathered: BlockSums,
    flags: NDArray[np.uint8],
    indices: NDArray[np.int32],
    entries: ProjectionEntries,
    windows: Windows,
    first: int,
    last: int,
) -> None:
    """Overwrite blocks first to last - 1 of gathered; flags (BLOCK,) and indices (BLOCK + 1,) are buffers."""
    for block in range(first, last):
        begin = block * BLOCK
        end = min(begin + BLOCK, entries.point.shape[0])
        flags[end - begin :] = 0
        part, room = _part(entries, begin, end), slice(begin, begin + BLOCK)
        _sum_block(gathered.sums[block], flags, part, windows)
        found = _flagged(indices, flags)
        # while the block is in cache
        v, low, high = gathered.v[room], gathered.low[room], gathered.high[room]
        _write_terms(gathered.counts[block], v, low, high, indices[:found], part)


@compiled
def join(v: Doubles, low: Doubles, high: Doubles, gathered: BlockSums, sign: int) -> int:
    """Overwrite the first of v, low and high by what was gathered of one sign, or of both (0); returns how many."""
    size = 0
    for block in range(gathered.counts.shape[0]):
        n_plus = gathered.counts[block, 0] if sign >= 0 else 0
        n_minus = gathered.counts[block, 1] if sign <= 0 else 0
        begin, end = block * BLOCK, (block + 1) * BLOCK
        for first, n_terms in ((begin, n_plus), (end - n_minus, n_minus)):
            for term in range(first, first + n_terms):  # not slices: see fourier.fourier_transform
                v[size] = gathered.v[term]
                low[size] = gathered.low[term]
                high[size] = gathered.high[term]
                size += 1
    return size


@compiled
def clip_blocks(out: FloatArray, entries: ProjectionEntries, plus: float, minus: float, first: int, last: int) -> None:
    """Overwrite blocks first to last - 1 of out (m,) by clip(a - t, l, u), t = plus or minus by the sign."""
    begin, end = first * BLOCK, min(last * BLOCK, out.shape[0])
    results = out[begin:end]
    point, signs, lowers, uppers = _part(entries, begin, end)
    for i in range(results.shape[0]):
        lower, upper = bound_at(lowers, i), bound_at(uppers, i)  # type: ignore[no-untyped-call]
        value = np.float64(point[i]) - (plus if signs[i] > 0 else minus)
        value = lower if value < lower else value
        results[i] = upper if value > upper else value


# The root of a falling, piecewise linear function: a safeguarded Newton that forgets what no longer bends.
#
# g(t) = constant - falling t + sum_i clip(v_i - t, low_i, high_i) - total; term i bends at v_i - high_i and at v_i -
# low_i. Each step looks at one t inside the bracket, narrows the bracket, and moves every term that does not bend
# inside it any more into `constant` and `falling`. When none is left the rest is one division, so the root is exact.
#
# Newton's step is taken where it falls into the bracket. A step that does not get rid of half of the terms is
# followed by two at a bend in the middle of three: where boxes are narrow, as in nu-SVM's, g is a staircase, and
# Newton's steps lead nowhere. Each bend looked at is out of the way, so the search ends.
#
# Source of the breakpoints: Kiwiel, Mathematical Programming 112, 2008, section 3; Ito, Takeda & Toh, JMLR 18(16),
# 2017, Lemma 2 and equation (19).

BELOW, FOUND, ABOVE = -1, 0, 1
_PIVOTS_AFTER_NEWTON = 2
_STRETCH = 1024
_ROUNDING = 1e-13  # of sums of a million terms


@nested_sum
def _sum_at(v: Doubles, low: Doubles, high: Doubles, size: int, t: float) -> tuple[float, int]:
    """Return the sum of the terms at t, and how many of them fall there."""
    total, active = 0.0, 0
    for i in range(size):
        term = v[i] - t
        active += (term > low[i]) & (term < high[i])
        term = low[i] if term < low[i] else term
        total += high[i] if term > high[i] else term
    return total, active


@nested_sum
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


@nested
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


@nested
def _bend(v: float, low: float, high: float, start: float, stop: float, late: bool) -> float:
    """Return a bend of one term between start and stop, the later one if there are two and `late`."""
    leaves, arrives = v - high, v - low
    if leaves <= start or (late and arrives < stop):
        return arrives
    return leaves


@nested
def _pivot(v: Doubles, low: Doubles, high: Doubles, size: int, start: float, stop: float, late: bool) -> float:
    """Return the bend in the middle of three terms'."""
    i, j, k = size // 6, size // 2, size - 1 - size // 6
    a = _bend(v[i], low[i], high[i], start, stop, late)
    b = _bend(v[j], low[j], high[j], start, stop, late)
    c = _bend(v[k], low[k], high[k], start, stop, late)
    return max(min(a, b), min(max(a, b), c))


@nested
def _step(
    t: float, excess: float, slope: int, size: int, start: float, stop: float, at_start: float, at_stop: float
) -> float:
    """Return Newton's next t, or the secant's if g is known at both ends; a little beyond the root."""
    if at_start < np.inf and at_stop > -np.inf:
        share = at_start / (at_start - at_stop)
        near = min(share, 1.0 - share)
        near += near / 16 + math.sqrt(near / size)
        return start + (near if share < 0.5 else 1.0 - near) * (stop - start)
    return t + 1.0625 * excess / slope if slope > 0 else np.inf


@nested
def _line_root(constant: float, falling: int, total: float, start: float, stop: float) -> float:
    """Return where the line without bends is 0; if it is level, beyond the end to which g has to go on, or where it
    is 0.

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


# Where a sample of the terms clip(v - t, low, high) sums to a total, by their sorted bends.


class Breakpoints(NamedTuple):
    """Breakpoints of n bounded terms, sorted apart: where they leave the upper and arrive at the lower bound.

    leaves, arrives : (n,); left, arrived : (n + 1,), sums of the first so many of them; highs : of all upper bounds
    """

    leaves: Doubles
    arrives: Doubles
    left: Doubles
    arrived: Doubles
    highs: float


@compiled
def sum_at_bends(bends: Breakpoints, t: float) -> tuple[float, int]:
    """Return the sum of the terms at t, and how many of them fall from there on."""
    left = int(np.searchsorted(bends.leaves, t, side="right"))
    arrived = int(np.searchsorted(bends.arrives, t, side="right"))
    fallen = left * t - bends.left[left] - (arrived * t - bends.arrived[arrived])
    return bends.highs - fallen, left - arrived


@compiled
def root_of_breakpoints(bends: Breakpoints, total: float) -> float:
    """Return where the terms sum to a total, up to rounding; the last such place if there are
    several.
    """
    t = -np.inf
    for places in (bends.leaves, bends.arrives):
        first, last = 0, places.shape[0]
        while first < last:
            middle = (first + last) // 2
            if sum_at_bends(bends, places[middle])[0] >= total:
                first = middle + 1
            else:
                last = middle
        if first > 0:
            t = max(t, places[first - 1])
    if t == -np.inf:
        return float(bends.leaves[0])
    terms, falling = sum_at_bends(bends, t)
    return t + (terms - total) / falling if falling > 0 else t


# Newton's method for the multipliers of a box and hyperplanes from a guess that is near, over all entries at once.
#
# A pass sums the clipped entries at the multipliers and counts those that are free, strictly between their bounds:
# the sums are lines in the multipliers as long as the same entries are free, so that the step is exact from the same
# piece.
#
# Legend: a point (m,); y signs (m,), int8; l, u lower and upper, a float or float64 (m,); a becomes clip(a - t, l,
# u).

_MOST_ROUNDS = 8
_NEWTON_ROUNDING, _SETTLED = 1e-15, 1e-13  # of a sum, in the size of its terms: nothing left; left by rounding


class ClassSums(NamedTuple):
    """Sums over the entries of one sign at a multiplier: their sum, the number of free ones, and their sizes."""

    total: float
    free: float
    size: float


@compiled_sum
def sum_classes(entries: ProjectionEntries, plus: float, minus: float) -> tuple[ClassSums, ClassSums]:
    """Return sums of the entries of sign +1 at the multiplier plus, and of those of sign -1 at minus."""
    point, signs, lowers, uppers = entries
    plus_total, plus_free, plus_size, minus_total, minus_free, minus_size = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(point.shape[0]):
        positive = signs[i] > 0
        lower, upper = bound_at(lowers, i), bound_at(uppers, i)  # type: ignore[no-untyped-call]
        moved = np.float64(point[i]) - (plus if positive else minus)
        free = 1.0 if (moved > lower) & (moved < upper) else 0.0
        term = lower if moved < lower else moved
        term = upper if term > upper else term
        plus_total += term if positive else 0.0
        plus_free += free if positive else 0.0
        plus_size += abs(term) if positive else 0.0
        minus_total += 0.0 if positive else term
        minus_free += 0.0 if positive else free
        minus_size += 0.0 if positive else abs(term)
    return ClassSums(plus_total, plus_free, plus_size), ClassSums(minus_total, minus_free, minus_size)


@nested
def _newton_step(excess: float, free: float, size: float, free_before: float) -> tuple[float, bool]:
    """Return Newton's step and whether it is the last; NaN if no coordinate is free but the sum is off."""
    if excess == 0.0:
        return 0.0, True
    if free == 0.0:
        return np.nan, False
    missing = abs(excess)
    return excess / free, missing <= _NEWTON_ROUNDING * size or (free == free_before and missing <= _SETTLED * size)


@compiled
def improve_multiplier(entries: ProjectionEntries, total: float, guess: float) -> tuple[float, int, bool]:
    """Return the theta with sum_i y_i clip(a_i - theta y_i, l_i, u_i) = total; passes; whether it was found."""
    theta, free_before = guess, -1.0
    for done in range(_MOST_ROUNDS):
        plus, minus = sum_classes(entries, theta, -theta)
        free, size = plus.free + minus.free, plus.size + minus.size
        step, last = _newton_step(plus.total - minus.total - total, free, size, free_before)
        theta, free_before = theta + step, free
        if last:
            return theta, done + 1, np.isfinite(theta)
    return theta, _MOST_ROUNDS, False


@compiled
def improve_multipliers(
    entries: ProjectionEntries, plus_total: float, minus_total: float, plus: float, minus: float
) -> tuple[float, float, int, bool]:
    """Return the multipliers at which the entries of each sign have a total of their own.

    Passes; whether they were found.
    """
    plus_free, minus_free = -1.0, -1.0
    for done in range(_MOST_ROUNDS):
        positive, negative = sum_classes(entries, plus, minus)
        step, last = _newton_step(positive.total - plus_total, positive.free, positive.size, plus_free)
        other_step, other_last = _newton_step(negative.total - minus_total, negative.free, negative.size, minus_free)
        plus, minus, plus_free, minus_free = plus + step, minus + other_step, positive.free, negative.free
        if last and other_last:
            return plus, minus, done + 1, np.isfinite(plus) and np.isfinite(minus)
    return plus, minus, _MOST_ROUNDS, False


# Three published searches for the multiplier t of sum_i clip(a_i - t, lower, upper) = total, as rivals of okl's own.
#
# All of them go over what is still undecided only, in an array of float64 that shrinks in place. Where the text
# slips, its definitions hold: the entries of point, not of the projection, are summed; the two partial sets of
# Algorithm 5 are those of its definitions, not of its listing; infinite bounds are multiplied only by counts above 0.
#
# Source: Ito, Takeda & Toh, JMLR 18(16), 2017, Algorithms 2 and 5; Kiwiel, Mathematical Programming 112, 2008,
# Algorithm 3.1 with random pivots.

_TOLERANCE = 2.220446049250313e-16  # the paper's


@nested
def _times(count: int, bound: float) -> float:
    return count * bound if count > 0 else 0.0


@nested_sum
def _split(kept: Doubles, size: int, lower: float, upper: float, t: float) -> tuple[int, int, float]:
    """Return how many terms are at their upper bound at t, how many at their lower one, and the sum of the other
    entries.
    """
    above, below, between = 0, 0, 0.0
    for i in range(size):
        a = kept[i]
        high = a - upper >= t
        low = a - lower <= t
        above += high
        below += low & (not high)
        between += 0.0 if (high | low) else a
    return above, below, between


@nested
def _keep(bends: Doubles, size: int, start: float, stop: float) -> int:
    """Move the bends between start and stop to the front; returns how many there are."""
    count = 0
    for i in range(size):
        a = bends[i]
        bends[count] = a
        count += (a > start) & (a < stop)
    return count


@nested
def _drop(
    kept: Doubles, size: int, lower: float, upper: float, start: float, stop: float, finely: bool
) -> tuple[int, int, int, int, float]:
    """Drop terms that are constant between start and stop, and, if `finely`, those that fall throughout.

    Returns the size, how many stand high, stand low and fall throughout, and the sum of these last entries.
    """
    count, above, below, falling, fallen = 0, 0, 0, 0, 0.0
    for i in range(size):
        a = kept[i]
        high = a - upper >= stop
        low = (not high) & (a - lower <= start)
        falls = (not high) & (not low) & (a - upper <= start) & (a - lower >= stop)
        kept[count] = a
        count += not (high | low | (falls & finely))
        above += high
        below += low
        falling += falls
        fallen += a if falls else 0.0
    return count, above, below, falling, fallen


@compiled
def bisect(
    kept: Doubles, least: float, most: float, lower: float, upper: float, total: float, finely: bool
) -> tuple[float, int]:
    """Run Algorithm 2, bisection that leaves out terms that are constant in the bracket; return t and the iterations.

    kept (m,) : the entries, overwritten; least and most : of them
    finely : Algorithm 5, which also leaves out what falls throughout
    """
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
        size, n_high, n_low, n_falling, more = _drop(kept, size, lower, upper, start, stop, finely)
        above, below = above + n_high, below + n_low
        if finely:
            falling, fallen = falling + n_falling, fallen + more
        elif size > 0 and n_falling == size:  # all that is left falls throughout
            size, falling, fallen = 0, n_falling, more
        if size == 0:
            if falling > 0:
                t = (_times(above, upper) + _times(below, lower) + fallen - total) / falling
            break
    return t, iterations


@nested
def _list_bends(bends: Doubles, kept: Doubles, size: int, bound: float, count: int) -> int:
    """Append the bends at a bound to the first `count` of bends; returns how many there are."""
    if abs(bound) < np.inf:
        for i in range(size):
            bends[count] = kept[i] - bound
            count += 1
    return count


@compiled
def search_breakpoints(kept: Doubles, bends: Doubles, lower: float, upper: float, total: float) -> tuple[float, int]:
    """Run Kiwiel's search by random breakpoints; return t and the number of iterations.

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
        size, n_high, n_low, n_falling, more = _drop(kept, size, lower, upper, start, stop, True)
        above, below, falling, fallen = above + n_high, below + n_low, falling + n_falling, fallen + more
        n_bends = _keep(bends, n_bends, start, stop)
    if falling + size > 0:
        left = fallen + kept[:size].sum()
        return (_times(above, upper) + _times(below, lower) + left - total) / (falling + size), iterations
    # g stands still from the last bend to the next: any point of that interval will do
    return (start if stop == np.inf else stop), iterations


@compiled
def shrink(out: FloatArray, point: FloatArray, thresholds: Bounds) -> None:
    """Overwrite out (n,) by sign(a) max(0, |a| - threshold); thresholds : a float or float64 (n,)."""
    for i in range(out.shape[0]):
        a, threshold = np.float64(point[i]), bound_at(thresholds, i)  # type: ignore[no-untyped-call]
        size = abs(a) - threshold
        size = size if size > 0.0 else 0.0
        out[i] = size if a > 0.0 else -size


# What shards add up while the multiplier of a hyperplane is sought: sums at several candidates in one pass.
#
# Legend: p points, s signs (-1 or +1), u upper bounds, all (m,); t thresholds (2, K), of the signs +1 and -1.


@compiled_sum
def clipped_sums(
    sums: FloatArray, points: FloatArray, signs: FloatArray, upper: FloatArray, thresholds: FloatArray
) -> None:
    """Add to sums (2, K, 2) the sums of x = min(max(p - t, 0), u) over the entries of a sign, and how many are inside.

    Inside is 0 < x < u, where x falls as t grows.
    """
    for i in range(points.shape[0]):
        p, u = points[i], upper[i]
        group = 0 if signs[i] > 0.0 else 1
        into, here = sums[group], thresholds[group]
        for k in range(here.shape[0]):
            x = p - here[k]
            inside = (x > 0.0) & (x < u)
            x = 0.0 if x < 0.0 else x
            into[k, 0] += u if x > u else x
            into[k, 1] += 1.0 if inside else 0.0


@compiled_sum
def clip_by_sign(
    out: FloatArray, points: FloatArray, signs: FloatArray, upper: FloatArray, plus: float, minus: float
) -> None:
    """Overwrite out (m,) by x = min(max(p - t, 0), u), t = plus or minus by the sign."""
    for i in range(points.shape[0]):
        x = points[i] - (plus if signs[i] > 0.0 else minus)
        x = 0.0 if x < 0.0 else x
        out[i] = upper[i] if x > upper[i] else x
