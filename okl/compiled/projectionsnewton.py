"""Newton's method for the multipliers of a box and hyperplanes from a guess that is near, over all entries at once.

A pass sums the clipped entries at the multipliers and counts those that are free, strictly between their bounds: the
sums are lines in the multipliers as long as the same entries are free, so that the step is exact from the same piece.

Legend: a point (m,); y signs (m,), int8; l, u lower and upper, a float or float64 (m,); a becomes clip(a - t, l, u).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from okl.compiled.door import compiled, compiled_sum
from okl.compiled.projections import Entries, bound_at

_MOST_ROUNDS = 8
_ROUNDING, _SETTLED = 1e-15, 1e-13  # of a sum, in the size of its terms: nothing left; left by rounding


class ClassSums(NamedTuple):
    """Of the entries of one sign at a multiplier: their sum, how many are free, and the sum of their sizes."""

    total: float
    free: float
    size: float


@compiled_sum
def sum_classes(entries: Entries, plus: float, minus: float) -> tuple[ClassSums, ClassSums]:
    """Sums of the entries of sign +1 at the multiplier plus, and of those of sign -1 at minus."""
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


@compiled
def _step(excess: float, free: float, size: float, free_before: float) -> tuple[float, bool]:
    """Newton's step, and whether it is the last one; NaN where nothing is free and something is missing."""
    if excess == 0.0:
        return 0.0, True
    if free == 0.0:
        return np.nan, False
    missing = abs(excess)
    return excess / free, missing <= _ROUNDING * size or (free == free_before and missing <= _SETTLED * size)


@compiled
def improve_multiplier(entries: Entries, total: float, guess: float) -> tuple[float, int, bool]:
    """The theta with sum_i y_i clip(a_i - theta y_i, l_i, u_i) = total; passes; whether it was found."""
    theta, free_before = guess, -1.0
    for done in range(_MOST_ROUNDS):
        plus, minus = sum_classes(entries, theta, -theta)
        free, size = plus.free + minus.free, plus.size + minus.size
        step, last = _step(plus.total - minus.total - total, free, size, free_before)
        theta, free_before = theta + step, free
        if last:
            return theta, done + 1, np.isfinite(theta)
    return theta, _MOST_ROUNDS, False


@compiled
def improve_multipliers(
    entries: Entries, plus_total: float, minus_total: float, plus: float, minus: float
) -> tuple[float, float, int, bool]:
    """The multipliers at which the entries of each sign have a total of their own; passes; whether they were found."""
    plus_free, minus_free = -1.0, -1.0
    for done in range(_MOST_ROUNDS):
        positive, negative = sum_classes(entries, plus, minus)
        step, last = _step(positive.total - plus_total, positive.free, positive.size, plus_free)
        other_step, other_last = _step(negative.total - minus_total, negative.free, negative.size, minus_free)
        plus, minus, plus_free, minus_free = plus + step, minus + other_step, positive.free, negative.free
        if last and other_last:
            return plus, minus, done + 1, np.isfinite(plus) and np.isfinite(minus)
    return plus, minus, _MOST_ROUNDS, False
