"""Conjugates with infinite slopes at the border of their box, taken whole by the prox instead of by their gradient.

The paper keeps away from the border by a small margin xi and takes gradients, which grow as 1 / xi: the gap cannot
close, or iterations grow. Their prox costs a few exponentials or roots an entry, knows no margin, and leaves the
Lipschitz constant to the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from okl.compiled.proximal import entropy_prox, entropy_sum, roots_prox, roots_sum
from okl.types import FloatArray

Sums = Callable[[float], tuple[float, float, float]]

_MOST_ROUNDS = 200
_LEAST_ERROR, _ROUNDING = 1e-16, 1e-13  # of a sum, in its size


@dataclass(frozen=True, eq=False)
class EntropyBarrier:
    """sum_i a_i log(a_i / u_i) + (u_i - a_i) log((u_i - a_i) / u_i) over 0 <= a_i <= u_i, with sum_i s_i a_i = total.

    signs : s (m,); upper : u (m,) >= 0; hyperplane : whether the sum is bound; total : 0 but for a part of the rows
    """

    signs: FloatArray
    upper: FloatArray
    hyperplane: bool
    total: float = 0.0

    def value(self, point: FloatArray) -> float:
        """The sum, of a feasible point."""
        return float(entropy_sum(point, self.upper))

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """Overwrite out; the point is read once a round of the search for the multiplier."""
        afresh = True

        def sums(multiplier: float) -> tuple[float, float, float]:
            nonlocal afresh
            args = (self.signs, self.upper, lipschitz, multiplier, afresh)
            afresh = False
            return _less(entropy_prox(out, self._logits, point, *args), self.total)

        find_multiplier(sums, self.hyperplane)

    @cached_property
    def _logits(self) -> FloatArray:
        return np.empty(len(self.signs))


@dataclass(frozen=True, eq=False)
class RootsBarrier:
    """sum_i -2 sqrt(c_i a_i) over 0 <= a_i <= u_i, with sum_i s_i a_i = total.

    signs : s (m,); scales, upper : c, u (m,) >= 0; hyperplane, total : as of EntropyBarrier
    """

    signs: FloatArray
    scales: FloatArray
    upper: FloatArray
    hyperplane: bool
    total: float = 0.0

    def value(self, point: FloatArray) -> float:
        """The sum, of a feasible point."""
        return float(roots_sum(point, self.scales))

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """Overwrite out; the point is read once a round of the search for the multiplier."""

        def sums(multiplier: float) -> tuple[float, float, float]:
            found = roots_prox(out, point, self.signs, self.scales, self.upper, lipschitz, multiplier)
            return _less(found, self.total)

        find_multiplier(sums, self.hyperplane)


def _less(sums: tuple[float, float, float], total: float) -> tuple[float, float, float]:
    return sums[0] - total, sums[1], sums[2]


def find_multiplier(sums: Sums, hyperplane: bool) -> float:
    """Root of a falling function by Newton's method, guarded by a bracket; the last call is there.

    Where data lie in shards, `sums` adds up theirs: one number goes out and three come back, a round.

    Parameters
    ----------
    sums : multiplier -> value, how fast it falls there (>= 0), and the size of its terms, which rounding goes by
    hyperplane : False: the multiplier is 0, and `sums` is called once
    """
    low, high, multiplier, reach = -np.inf, np.inf, 0.0, 1e-3
    value, fall, size = sums(multiplier)
    for _ in range(_MOST_ROUNDS if hyperplane else 0):
        if abs(value) <= _LEAST_ERROR * size:
            break
        low, high = (multiplier, high) if value > 0.0 else (low, multiplier)
        following = multiplier + value / fall if fall > 0.0 else np.inf
        if not low < following < high or abs(following - multiplier) > 1e3 * reach:
            # flat where all entries stand at a border: further and further, until the root is passed
            inside = np.isfinite(low) and np.isfinite(high)
            following = 0.5 * (low + high) if inside else multiplier + np.copysign(reach, value)
            reach *= 8.0
        if following == multiplier:
            break
        before, multiplier = abs(value), following
        value, fall, size = sums(multiplier)
        if before <= _ROUNDING * size and abs(value) > 0.5 * before:  # what is left is rounding
            break
    return float(multiplier)
