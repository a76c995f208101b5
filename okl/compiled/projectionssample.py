"""A sample of the entries of a projection, in their one form, and how far its terms are spread.

Legend: as of `okl.compiled.projections`; terms are clip(v - t, low, high).
"""

from __future__ import annotations

import math

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
