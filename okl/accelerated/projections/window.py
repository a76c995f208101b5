"""The window in which a multiplier lies, from a sample of the entries."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.projections import Doubles, Entries, take
from okl.compiled.projectionsroot import find_root

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


class Bends:
    """Buffers for entries in their one form, as `find_root` takes them."""

    def __init__(self, size: int) -> None:
        self.v, self.low, self.high = np.empty((3, size))
        self.size = 0

    def take(
        self, entries: Entries, indices: NDArray[np.int32], found: NDArray[np.int64], stride: int, sign: int
    ) -> None:
        """Hold those of `entries` at found[k] indices from k * stride on that have the sign; both for 0."""
        self.size = take(self.v, self.low, self.high, entries, indices, found, stride, sign)


@lru_cache(maxsize=8)
def _sample_indices(size: int) -> NDArray[np.int32]:
    """One entry of each of size^(2/3) stretches, at a random place of it: no sorted or periodic data can deceive."""
    # the sample costs its size, the window about size over its square root: their sum is least near this power
    n_stretches = int(size ** (2 / 3))
    edges = np.arange(n_stretches + 1) * size // n_stretches
    places = np.random.default_rng(size).random(n_stretches)
    return (edges[:-1] + places * np.diff(edges)).astype(np.int32)


def _root(v: Doubles, low: Doubles, high: Doubles, total: float, guess: float) -> tuple[float, int]:
    """Root of the sample's sum, and how many terms were read."""
    t, _, visits = find_root(v.copy(), low.copy(), high.copy(), len(v), 0.0, 0, total, -math.inf, math.inf, guess)
    return t, visits


def sampled_interval(entries: Entries, group: Group) -> tuple[Interval, float, int]:
    """An interval that most probably holds the group's multiplier, a guess at it, and how many terms were read."""
    indices = _sample_indices(entries.point.shape[0])
    bends = Bends(len(indices))
    bends.take(entries, indices, np.array([len(indices)]), len(indices), group.sign)
    n = bends.size
    if n < _LEAST_SAMPLE:
        return Interval(-math.inf, math.inf), group.guess, n
    v, low, high = bends.v[:n], bends.low[:n], bends.high[:n]
    total = group.total * n / group.size
    guess, visits = _root(v, low, high, total, group.guess)
    width = float(np.median(high - low)) if isinstance(entries.upper, np.ndarray) else float(high[0] - low[0])
    margin = _DEVIATIONS * math.sqrt(n) * float(np.std(np.clip(v - guess, low, high)))
    if math.isfinite(width):
        # where all terms stand still the deviation says nothing: a few may be anywhere in their box
        margin += _DEVIATIONS * width
    start, stop, read = -math.inf, math.inf, n
    if total + margin < float(high.sum()):
        start, read = _root(v, low, high, total + margin, guess)
        visits += read
    if total - margin > float(low.sum()):
        stop, read = _root(v, low, high, total - margin, guess)
        visits += read
    return Interval(start, stop), guess, visits + n
