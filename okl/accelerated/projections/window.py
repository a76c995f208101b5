"""The window in which a multiplier lies, from a sample of the entries."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.projections.workspace import workspace
from okl.compiled.projections import Doubles, Entries
from okl.compiled.projectionsroot import find_root
from okl.compiled.projectionssample import Bends, accumulate, deviation_of_terms, draw_terms, root_of_bends

_DEVIATIONS = 3.0  # of the sample's sum: the window misses once in some 300 projections, and costs a pass then
_LEAST_SAMPLE = 64


class Group(NamedTuple):
    """Entries that share a multiplier t: sum of clip(y_i a_i - t, low_i, high_i) over them = total.

    low_i and high_i are l_i and u_i for y_i = 1, -u_i and -l_i for y_i = -1.
    """

    sign: int  # of its entries, 0 for both
    size: int
    total: float
    guess: float  # of the multiplier


class Interval(NamedTuple):
    """An interval of multipliers; may reach to infinity."""

    start: float
    stop: float


@lru_cache(maxsize=8)
def _sample_indices(size: int) -> NDArray[np.int32]:
    """One entry of each of size^(2/3) stretches, at a random place of it: no sorted or periodic data can deceive."""
    # the sample costs its size, the window about size over its square root: their sum is least near this power
    n_stretches = int(size ** (2 / 3))
    edges = np.arange(n_stretches + 1) * size // n_stretches
    places = np.random.default_rng(size).random(n_stretches)
    return (edges[:-1] + places * np.diff(edges)).astype(np.int32)


class Beside(NamedTuple):
    """A multiplier beside the root, and the exact sum of the terms there, less the total."""

    t: float
    excess: float


class _Sample:
    """Entries of a group in their one form, n of each, until another sample is drawn."""

    def __init__(self, entries: Entries, indices: NDArray[np.int32], sign: int) -> None:
        v, low, high = (workspace.doubles(f"sampled {name}", len(indices)) for name in ("v", "low", "high"))
        n = draw_terms(v, low, high, entries, indices, sign)
        self.v, self.low, self.high = v[:n], low[:n], high[:n]
        self.lows, self.highs = float(self.low.sum()), float(self.high.sum())
        same_width = not (isinstance(entries.lower, np.ndarray) or isinstance(entries.upper, np.ndarray))
        self._bends = self._sorted(same_width) if n and math.isfinite(self.highs - self.lows) else None

    def _sorted(self, same_width: bool) -> Bends:
        """All bends: with them each root is two binary searches."""
        leaves = np.sort(self.v - self.high)
        arrives = leaves + (self.high[0] - self.low[0]) if same_width else np.sort(self.v - self.low)
        left, arrived = np.empty(len(leaves) + 1), np.empty(len(leaves) + 1)
        accumulate(left, leaves)
        accumulate(arrived, arrives)
        return Bends(leaves, arrives, left, arrived, self.highs)

    def root(self, total: float, guess: float) -> tuple[float, int]:
        """Where the sample sums to the total, and how many terms were read."""
        if self._bends is not None:
            return float(root_of_bends(self._bends, total)), 0
        v, low, high = self.v.copy(), self.low.copy(), self.high.copy()
        t, _, _, visits = find_root(v, low, high, len(v), 0.0, 0, total, -math.inf, math.inf, guess)
        return t, visits

    def terms(self, t: float) -> Doubles:
        """At a multiplier."""
        terms: Doubles = np.clip(self.v - t, self.low, self.high)
        return terms

    def deviation(self, t: float, beside: Beside | None) -> float:
        """Standard deviation of the terms at a multiplier, or of their change from the one beside."""
        if beside:
            return float(np.std(self.terms(t) - self.terms(beside.t)))
        return float(deviation_of_terms(self.v, self.low, self.high, t))

    def narrow(self, total: float, deviation: float, guess: float) -> tuple[Interval, int]:
        """Where the sample's sum is within a deviation of the total, and how many terms were read."""
        start, stop, visits = -math.inf, math.inf, 0
        if total + deviation < self.highs:
            start, read = self.root(total + deviation, guess)
            visits += read
        if total - deviation > self.lows:
            stop, read = self.root(total - deviation, guess)
            visits += read
        return Interval(start, stop), visits


def sampled_interval(entries: Entries, group: Group, beside: Beside | None = None) -> tuple[Interval, float, int]:
    """An interval that most probably holds the group's multiplier, a guess at it, and how many terms were read.

    beside : where the last interval ended without the root. What the sample is wrong by there, as it may miss an entry
        that outweighs all others, is taken off; what remains to be guessed is the change from there to the root
    """
    indices = _sample_indices(entries.point.shape[0])
    sample = _Sample(entries, indices, group.sign)
    n = len(sample.v)
    if n < _LEAST_SAMPLE:
        return Interval(-math.inf, math.inf), group.guess, n
    total = group.total * n / group.size
    if beside and math.isfinite(beside.excess):
        total = float(sample.terms(beside.t).sum()) - beside.excess * n / group.size
    guess, visits = sample.root(total, group.guess)
    deviation = _DEVIATIONS * math.sqrt(n) * sample.deviation(guess, beside)
    many = isinstance(entries.upper, np.ndarray)
    width = float(np.median(sample.high - sample.low)) if many else float(sample.high[0] - sample.low[0])
    if math.isfinite(width):
        # where all terms stand still the deviation says nothing: a few may be anywhere in their box
        deviation += _DEVIATIONS * width
    interval, read = sample.narrow(total, deviation, guess)
    return interval, guess, visits + read + n
