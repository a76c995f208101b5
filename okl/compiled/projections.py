"""The passes over all entries that a projection onto a box and hyperplanes takes: one to narrow down, one to write.

Every entry i is brought to one form: v = y_i a_i between low and high, which are l_i and u_i for y_i = 1, -u_i and
-l_i for y_i = -1. At a multiplier t its term is clip(v - t, low, high): high up to t = v - high, low from t = v - low
on, falling in between. Over a window of multipliers most terms are one of the three throughout and need only be summed;
the few that bend inside are gathered for `find_root`.

Blocks are fixed, and their sums are added in block order by the caller: any number of threads gives the same bits.

Legend: a point (m,), float32 or float64; y signs (m,), int8; l, u lower and upper, a float or float64 (m,).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from okl.compiled.door import compiled, compiled_sum
from okl.types import FloatArray

Bounds = float | NDArray[np.float64]
Doubles = NDArray[np.float64]

BLOCK = 16384


class Entries(NamedTuple):
    """What a projection reads: point (m,), signs (m,) int8, lower and upper, both floats or both float64 (m,)."""

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


class Gathered(NamedTuple):
    """What a pass leaves, all changed in place: for each block, how much was constant and what bends.

    sums : (n_blocks, 4), constants of the signs +1 and -1, then numbers of entries that fall throughout, of either
    counts : (n_blocks, 2) int64, entries of sign +1 and of sign -1 that bend inside their window
    v, low, high : (n_blocks * BLOCK,), these entries in their one form; of block k those of sign +1 from k * BLOCK on,
        those of sign -1 back from (k + 1) * BLOCK - 1
    """

    sums: Doubles
    counts: NDArray[np.int64]
    v: Doubles
    low: Doubles
    high: Doubles


def bound_at(bounds, i):  # type: ignore[no-untyped-def]
    """bounds[i] of an array, the number itself otherwise: chosen when compiled, so that loops stay vectorised."""
    return bounds[i] if isinstance(bounds, np.ndarray) else bounds


def _entry(bounds, i):  # type: ignore[no-untyped-def]
    return bounds[i]


def _number(bounds, i):  # type: ignore[no-untyped-def]
    return bounds


@overload(bound_at, inline="always")
def _choose_bound(bounds, i):  # type: ignore[no-untyped-def]
    return _entry if isinstance(bounds, types.Array) else _number


def _slice(bounds, first, last):  # type: ignore[no-untyped-def]
    return bounds[first:last]


def _same(bounds, first, last):  # type: ignore[no-untyped-def]
    return bounds


def bounds_of(bounds, first, last):  # type: ignore[no-untyped-def]
    """bounds[first:last] of an array, the number itself otherwise."""
    return bounds[first:last] if isinstance(bounds, np.ndarray) else bounds


@overload(bounds_of, inline="always")
def _choose_bounds(bounds, first, last):  # type: ignore[no-untyped-def]
    return _slice if isinstance(bounds, types.Array) else _same


@compiled
def _part(entries: Entries, first: int, last: int) -> Entries:
    # loops count from 0: an index that might be negative turns every load into a gather
    return Entries(
        entries.point[first:last],
        entries.signs[first:last],
        bounds_of(entries.lower, first, last),  # type: ignore[no-untyped-call]
        bounds_of(entries.upper, first, last),  # type: ignore[no-untyped-call]
    )


@compiled_sum
def _sum_block(sums: Doubles, flags: NDArray[np.uint8], entries: Entries, windows: Windows) -> None:
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


@compiled
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


@compiled
def _write_terms(
    counts: NDArray[np.int64],
    v: Doubles,
    low: Doubles,
    high: Doubles,
    indices: NDArray[np.int32],
    entries: Entries,
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
    gathered: Gathered,
    flags: NDArray[np.uint8],
    indices: NDArray[np.int32],
    entries: Entries,
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
def join(v: Doubles, low: Doubles, high: Doubles, gathered: Gathered, sign: int) -> int:
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
def clip_blocks(out: FloatArray, entries: Entries, plus: float, minus: float, first: int, last: int) -> None:
    """Overwrite blocks first to last - 1 of out (m,) by clip(a - t, l, u), t = plus or minus by the sign."""
    begin, end = first * BLOCK, min(last * BLOCK, out.shape[0])
    results = out[begin:end]
    point, signs, lowers, uppers = _part(entries, begin, end)
    for i in range(results.shape[0]):
        lower, upper = bound_at(lowers, i), bound_at(uppers, i)  # type: ignore[no-untyped-call]
        value = np.float64(point[i]) - (plus if signs[i] > 0 else minus)
        value = lower if value < lower else value
        results[i] = upper if value > upper else value
