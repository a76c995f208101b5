"""What shards answer about a multiplier, read as lines: the sum of all terms between the candidates."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.projections.checked import check_total
from okl.compiled.projectionsbends import COLUMNS

Doubles = NDArray[np.float64]


class ShardSums(NamedTuple):
    """A shard's answer, 12 K + 9 numbers.

    bins : (2 K + 1, 5), how the sum of terms changes from cell to cell, see `okl.compiled.projectionsbends`
    extremes : (K + 1, 2), the least and the largest bend inside each interval
    magnitude : the largest number among entries and finite bounds
    """

    bins: Doubles
    extremes: Doubles
    magnitude: float


class Lines:
    """The merged sum of terms less the total, g, cell by cell: a line where nothing bends inside."""

    def __init__(self, sums: ShardSums, candidates: Doubles, total: float) -> None:
        self._pieces = np.cumsum(sums.bins[:, :4], axis=0)  # exact, as the sums are
        self._bends, self._candidates, self._total = sums.bins[:, COLUMNS - 1], candidates, total

    def excess(self, cell: int) -> tuple[float, int]:
        """Constant less total, rounded once, and how many terms fall."""
        high, middle, low, falling = self._pieces[cell].tolist()
        return math.fsum((high, middle, low, -self._total)), int(falling)

    def at(self, j: int) -> float:
        """The value of g at candidate j."""
        excess, falling = self.excess(2 * j + 1)
        return (excess / falling - float(self._candidates[j])) * falling if falling else excess

    def check_reach(self, sign: int) -> None:
        """Raise ConfigError if g has one sign up to both infinities, but for rounding."""
        (most, rises), (least, falls) = self.excess(0), self.excess(len(self._pieces) - 1)
        # where something still bends, the outer line is not that at infinity
        most = math.inf if rises or self._bends[0] else most + self._total
        least = -math.inf if falls or self._bends[-1] else least + self._total
        # sums of shards are exact, even where those of the signs all but cancel: only the total's rounding is forgiven
        whose = "the sum of signs times entries is" if sign == 0 else "entries sum to"
        check_total(self._total, least, most, whose, "total")

    def root_cell(self) -> int:
        """The cell where g changes from above 0 to 0 or below; the candidate's own where it is 0 there."""
        first, last = 0, len(self._candidates)
        while first < last:
            middle = (first + last) // 2
            value = self.at(middle)
            if value == 0.0:
                return 2 * middle + 1
            first, last = (middle + 1, last) if value > 0.0 else (first, middle)
        return 2 * first

    def ends(self, cell: int) -> tuple[float, float]:
        """Where a cell begins and ends."""
        j = cell // 2
        if cell % 2:
            return float(self._candidates[j]), float(self._candidates[j])
        start = float(self._candidates[j - 1]) if j > 0 else -math.inf
        return start, float(self._candidates[j]) if j < len(self._candidates) else math.inf

    def root(self, cell: int) -> float | None:
        """Where g is 0 in a cell; None if something bends there."""
        start, stop = self.ends(cell)
        if cell % 2 == 0 and self._bends[cell]:
            return None
        excess, falling = self.excess(cell)
        if falling:
            return min(max(excess / falling, start), stop)
        # level: 0 throughout, or missing the total by rounding; then the end that g comes from is nearest
        if math.isinf(start):
            return stop if math.isfinite(stop) else 0.0
        return start if math.isinf(stop) else 0.5 * (start + stop)

    def secant(self, cell: int, guess: float) -> float:
        """About where in a cell the root is; the guess where one end is infinite."""
        start, stop = self.ends(cell)
        if math.isinf(start) or math.isinf(stop):
            return guess
        above, below = self.at(cell // 2 - 1), self.at(cell // 2)
        return start + (stop - start) * above / (above - below)
