"""Sums of clipped terms between many candidates for a multiplier at once, exact, so that shards add up in any cut.

Terms are those of `projections`: clip(v - t, low, high), which bends at v - high and at v - low. K ascending candidates
cut the line into 2 K + 1 cells: cell 2 j is the open interval before candidate j, cell 2 j + 1 the candidate itself. In
a cell without a bend the sum of all terms is one line, constant - falling t, and `sum_bends` leaves what changes of it
from cell to cell.

A sum of numbers that are multiples of one unit is exact while it fits into 53 bits, whatever the order. So each number
is cut into three pieces, multiples of ever smaller units, which are added apart.

Source: the cut of numbers is that of Demmel & Nguyen, ARITH 2013, section 4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled
from okl.compiled.projections import Doubles


class Shard(NamedTuple):
    """What a shard's sums are over: point (m,) float64, signs (m,) int8, lower and upper (m,) or (1,) float64."""

    point: Doubles
    signs: NDArray[np.int8]
    lower: Doubles
    upper: Doubles


COLUMNS = 5  # three pieces of the constant, how many fall, how many bends lie inside
_STRETCH = 1024


@compiled
def _one_form(entries: Shard, i: int) -> tuple[float, float, float]:
    """v, low and high of entry i."""
    step = entries.lower.shape[0] // entries.point.shape[0]  # 0 for one bound for all
    a, lower, upper = entries.point[i], entries.lower[step * i], entries.upper[step * i]
    positive = entries.signs[i] > 0
    return a if positive else -a, lower if positive else -upper, upper if positive else -lower


@compiled
def _cut(number: float, cutter: float) -> float:
    """The number rounded to a multiple of the cutter's last bit."""
    return (number + cutter) - cutter


@compiled
def _sum_straight(
    bins: Doubles,
    extremes: Doubles,
    flags: NDArray[np.uint8],
    entries: Shard,
    begin: int,
    candidates: Doubles,
    cutters: Doubles,
    sign: int,
) -> float:
    """Add terms that do not bend from the first candidate to the last, flag those that do; returns the largest number.

    In the two outer cells such a term may bend: it is noted there, so that nobody takes the line for the sum.
    """
    first, last = candidates[0], candidates[-1]
    before, beyond, falling, largest, finite = 0.0, 0.0, 0.0, 0.0, True
    high_piece, middle_piece, low_piece = 0.0, 0.0, 0.0
    least_before, most_before, least_beyond, most_beyond = np.inf, -np.inf, np.inf, -np.inf
    for j in range(flags.shape[0]):
        v, low, high = _one_form(entries, begin + j)
        counts = (sign == 0) | (entries.signs[begin + j] == sign)
        leaves, arrives = v - high, v - low
        bends = ((leaves >= first) & (leaves <= last)) | ((arrives >= first) & (arrives <= last))
        flags[j] = bends & counts
        finite &= abs(v) < np.inf
        for size in (abs(v), abs(low), abs(high)):
            largest = size if counts & (size > largest) & (size < np.inf) else largest
        falls = (leaves < first) & (arrives > last)
        number = high if leaves > last else (low if arrives < first else v)
        number = 0.0 if bends or not counts else number
        falling += 1.0 if falls & counts else 0.0
        piece = _cut(number, cutters[0])
        high_piece += piece
        number -= piece
        piece = _cut(number, cutters[1])
        middle_piece += piece
        low_piece += _cut(number - piece, cutters[2])
        for bend in (leaves, arrives):
            early, late = counts & (bend < first) & (bend > -np.inf), counts & (bend > last) & (bend < np.inf)
            before += early
            beyond += late
            least_before = bend if early & (bend < least_before) else least_before
            most_before = bend if early & (bend > most_before) else most_before
            least_beyond = bend if late & (bend < least_beyond) else least_beyond
            most_beyond = bend if late & (bend > most_beyond) else most_beyond
    bins[0, 0] += high_piece
    bins[0, 1] += middle_piece
    bins[0, 2] += low_piece
    bins[0, 3] += falling
    bins[0, 4] += before
    bins[-1, 4] += beyond
    extremes[0, 0], extremes[0, 1] = min(extremes[0, 0], least_before), max(extremes[0, 1], most_before)
    extremes[-1, 0], extremes[-1, 1] = min(extremes[-1, 0], least_beyond), max(extremes[-1, 1], most_beyond)
    return largest if finite else np.inf


@compiled
def _cell(candidates: Doubles, bend: float) -> int:
    """The cell of a bend, by halving."""
    first, left = 0, candidates.shape[0]
    while left > 0:
        half = left // 2
        # a branch that nobody can predict costs more than the arithmetic
        beyond = candidates[first + half] < bend
        first += (half + 1) if beyond else 0
        left = (left - half - 1) if beyond else half
    return 2 * first + (1 if first < candidates.shape[0] and candidates[first] == bend else 0)


@compiled
def _move(bins: Doubles, cell: int, before: float, after: float, falls: float, cutters: Doubles) -> None:
    """Replace a number by another from the cell after this one on, in pieces."""
    if cell + 1 < bins.shape[0]:
        row = bins[cell + 1]
        row[3] += falls
        for k in range(3):
            old, new = _cut(before, cutters[k]), _cut(after, cutters[k])
            row[k] += new - old
            before -= old
            after -= new


@compiled
def _note(bins: Doubles, extremes: Doubles, cell: int, bend: float) -> None:
    """Count a bend inside an interval between candidates, and widen the range of bends there."""
    if cell % 2 == 0 and abs(bend) < np.inf and 0 < cell < bins.shape[0] - 1:
        bins[cell, 4] += 1.0
        j = cell // 2
        extremes[j, 0] = min(extremes[j, 0], bend)
        extremes[j, 1] = max(extremes[j, 1], bend)


@compiled
def _add_bent(
    bins: Doubles, extremes: Doubles, candidates: Doubles, cutters: Doubles, v: float, low: float, high: float
) -> None:
    """Add one term: high at first, falling beyond the cell of v - high, low beyond the cell of v - low."""
    leaves, arrives = v - high, v - low
    first, second = _cell(candidates, leaves), _cell(candidates, arrives)
    _note(bins, extremes, first, leaves)
    _note(bins, extremes, second, arrives)
    if high < np.inf:
        _move(bins, -1, 0.0, high, 0.0, cutters)
        _move(bins, first, high, v, 1.0, cutters)
    else:
        _move(bins, -1, 0.0, v, 1.0, cutters)
    if low > -np.inf:
        _move(bins, second, v, low, -1.0, cutters)


@compiled
def sum_bends(
    bins: Doubles, extremes: Doubles, entries: Shard, candidates: Doubles, cutters: Doubles, sign: int
) -> float:
    """Overwrite bins and extremes by sums over the entries of one sign, or of both (0).

    bins : (2 K + 1, 5), row 0 the line of the terms in cell 0, row c its change from cell c - 1 to cell c: three
        pieces of the constant, how many terms fall more; and how many bends lie inside cell c, if an interval. The
        lines of the two outer cells are right if no bend lies inside
    extremes : (K + 1, 2), least and largest bend inside each interval, inf and -inf for none
    candidates : (K,) at least one, ascending, all different
    cutters : (3,), 1.5 times a power of two each; sums are exact if no number is above the one that they are for

    Returns
    -------
    The largest size of an entry and of its finite bounds; inf if an entry is not finite
    """
    bins[:] = 0.0
    extremes[:, 0], extremes[:, 1] = np.inf, -np.inf
    flags = np.empty(_STRETCH, dtype=np.uint8)
    largest, size = 0.0, entries.point.shape[0]
    for begin in range(0, size, _STRETCH):
        some = flags[: min(_STRETCH, size - begin)]
        most = _sum_straight(bins, extremes, some, entries, begin, candidates, cutters, sign)
        largest = max(largest, most)
        for j in range(some.shape[0]):
            if some[j]:
                v, low, high = _one_form(entries, begin + j)
                _add_bent(bins, extremes, candidates, cutters, v, low, high)
    return largest
