"""A sample of the entries of a projection, in their one form: where its terms sum to a total, how far they are spread.

Legend: as of `okl.compiled.projections`; terms are clip(v - t, low, high).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled, compiled_sum
from okl.compiled.projections import Doubles, Entries, bound_at


@compiled
def draw_terms(v: Doubles, low: Doubles, high: Doubles, entries: Entries, indices: NDArray[np.int32], sign: int) -> int:
    """Overwrite the first of v, low and high by the entries at some indices, of one sign or of both (0).

    Returns
    -------
    How many there are
    """
    found = 0
    for k in range(indices.shape[0]):
        i = indices[k]
        positive, a = entries.signs[i] > 0, np.float64(entries.point[i])
        lower, upper = bound_at(entries.lower, i), bound_at(entries.upper, i)  # type: ignore[no-untyped-call]
        v[found] = a if positive else -a
        low[found] = lower if positive else -upper
        high[found] = upper if positive else -lower
        # always written, kept by the count
        found += (sign == 0) | (entries.signs[i] == sign)
    return found


@compiled_sum
def _sum_terms(v: Doubles, low: Doubles, high: Doubles, t: float) -> float:
    total = 0.0
    for i in range(v.shape[0]):
        term = v[i] - t
        term = low[i] if term < low[i] else term
        total += high[i] if term > high[i] else term
    return total


@compiled_sum
def deviation_of_terms(v: Doubles, low: Doubles, high: Doubles, t: float) -> float:
    """Standard deviation of the terms (n,) at t."""
    mean, squares = _sum_terms(v, low, high, t) / v.shape[0], 0.0
    for i in range(v.shape[0]):
        term = v[i] - t
        term = low[i] if term < low[i] else term
        apart = (high[i] if term > high[i] else term) - mean
        squares += apart * apart
    return math.sqrt(squares / v.shape[0])


class Bends(NamedTuple):
    """Of n terms with finite bounds, sorted apart: where they leave the upper one, and where they arrive at the lower.

    leaves, arrives : (n,); left, arrived : (n + 1,), sums of the first so many of them; highs : of all upper bounds
    """

    leaves: Doubles
    arrives: Doubles
    left: Doubles
    arrived: Doubles
    highs: float


@compiled
def accumulate(sums: Doubles, values: Doubles) -> None:
    """Overwrite sums (n + 1,) by those of the first values (n,): of none, of one, ..., of all."""
    total = 0.0
    for i in range(values.shape[0]):
        sums[i], total = total, total + values[i]
    sums[values.shape[0]] = total


@compiled
def sum_at_bends(bends: Bends, t: float) -> tuple[float, int]:
    """Sum of the terms at t, and how many of them fall from there on."""
    left = int(np.searchsorted(bends.leaves, t, side="right"))
    arrived = int(np.searchsorted(bends.arrives, t, side="right"))
    fallen = left * t - bends.left[left] - (arrived * t - bends.arrived[arrived])
    return bends.highs - fallen, left - arrived


@compiled
def root_of_bends(bends: Bends, total: float) -> float:
    """Where the terms sum to a total, as far as rounding lets one tell; the last such place if there are several."""
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
