"""The multiplier of a hyperplane over a box, in two passes over the data: one to narrow down, one to write.

A sample says within which window the multiplier lies, with an error that depends on ranks only, so that no distribution
of the entries is hard. A pass sums what does not bend inside the window and gathers the few per cent that do;
Newton's method finds the root among these, exactly; a pass writes the projection. If the root is outside the
window, which the sums show, they also show by how much the sample was wrong, and the first pass is repeated over a
corrected window; if that misses, too, over all that is left.

Source: the root of Ito, Takeda & Toh, JMLR 18(16), 2017, Lemma 2, for y-weighted sums; narrowing down by a sample as in
Floyd & Rivest, CACM 18(3), 1975.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from okl.accelerated.projections.window import Beside, Group, Interval, sampled_interval
from okl.accelerated.projections.workspace import workspace
from okl.compiled.blocks import run_threads
from okl.compiled.projections import BLOCK, Entries, Gathered, Windows, clip_blocks, join, sum_blocks
from okl.compiled.projectionsroot import ABOVE, FOUND, find_root
from okl.errors import DataError
from okl.types import FloatArray

_LEAST_ENTRIES = 16384  # fewer fit into the first cache levels: Newton's method takes all of them
_ATTEMPTS = 3  # a sampled interval, another that knows by how much the first was wrong, all that is left
_BLOCKS_PER_THREAD = 24  # 400,000 entries: for less, starting a thread takes longer than it saves


class Multipliers(NamedTuple):
    """The multiplier of each group, and entries read and written over the number of entries."""

    values: tuple[float, ...]
    passes: float


class _Search(NamedTuple):
    """Where the multiplier of a group is sought, and what is known of it.

    bracket : holds the multiplier
    interval : the part of it to look at
    guess : at the multiplier; the multiplier once it is found
    beside : the end of the last interval on the side of the multiplier
    """

    group: Group
    bracket: Interval
    interval: Interval
    guess: float
    beside: Beside | None = None
    found: bool = False


def find_multipliers(entries: Entries, groups: tuple[Group, ...], n_threads: int = 1) -> Multipliers:
    """Find the multiplier of each group: of one group of both signs, or of one of sign +1 and one of sign -1.

    Where rounding alone keeps a sum from its total, the multiplier is the one that comes nearest.

    Raises
    ------
    DataError : an entry is NaN, or infinite where its box is
    """
    size, visits = entries.point.shape[0], 0
    line = Interval(-math.inf, math.inf)
    searches = [_Search(group, line, line, group.guess) for group in groups]
    # three times at most: the last intervals reach to infinity
    for attempt in range(_ATTEMPTS):
        for k, search in enumerate(searches):
            if not search.found:
                searches[k], read = _narrowed(search, entries, attempt == _ATTEMPTS - 1)
                visits += read
        plus, minus = searches[0].interval, searches[-1].interval
        gathered = _gather(entries, Windows(plus.start, plus.stop, minus.start, minus.stop), n_threads)
        visits += size
        for k, search in enumerate(searches):
            if not search.found:
                searches[k], read = _sought(search, entries, gathered)
                visits += read
        if all(search.found for search in searches):
            break
    roots = tuple(search.guess for search in searches)
    if not all(math.isfinite(root) for root in roots):
        raise DataError(_what_is_not_finite(entries.point))
    return Multipliers(roots, (visits + size) / size)  # written once


def _narrowed(search: _Search, entries: Entries, last: bool) -> tuple[_Search, int]:
    """The search with the interval to look at next, and how many terms were read."""
    group, bracket = search.group, search.bracket
    if last or entries.point.shape[0] <= _LEAST_ENTRIES:
        return search._replace(interval=bracket), 0
    sampled, guess, read = sampled_interval(entries, group, search.beside)
    start, stop = max(bracket.start, sampled.start), min(bracket.stop, sampled.stop)
    interval = Interval(start, stop) if start < stop else bracket
    return search._replace(interval=interval, guess=guess), read


def write_clipped(out: FloatArray, entries: Entries, plus: float, minus: float, n_threads: int = 1) -> None:
    """Overwrite out (m,), which may be the point, by clip(a_i - t, l_i, u_i), t = plus or minus by the sign."""
    _over_blocks(len(out), n_threads, lambda first, last: clip_blocks(out, entries, plus, minus, first, last))


def _over_blocks(size: int, n_threads: int, work: Callable[[int, int], None]) -> None:
    """Call work on stretches of blocks, one a thread."""
    n_blocks = -(-size // BLOCK)
    n_threads = max(1, min(n_threads, n_blocks // _BLOCKS_PER_THREAD))
    edges = [n_blocks * thread // n_threads for thread in range(n_threads + 1)]
    run_threads(n_threads, lambda thread: work(edges[thread], edges[thread + 1]))


def _gather(entries: Entries, windows: Windows, n_threads: int) -> Gathered:
    """One pass over all entries."""
    size = entries.point.shape[0]
    n_blocks = -(-size // BLOCK)
    v, low, high = (workspace.doubles(f"gathered {name}", n_blocks * BLOCK) for name in ("v", "low", "high"))
    gathered = Gathered(np.empty((n_blocks, 4)), np.empty((n_blocks, 2), dtype=np.int64), v, low, high)

    def work(first: int, last: int) -> None:
        flags, indices = np.empty(BLOCK, dtype=np.uint8), np.empty(BLOCK + 1, dtype=np.int32)
        sum_blocks(gathered, flags, indices, entries, windows, first, last)

    _over_blocks(size, n_threads, work)
    return gathered


def _sought(search: _Search, entries: Entries, gathered: Gathered) -> tuple[_Search, int]:
    """The search after Newton's method among what was gathered, and how many terms were read."""
    group, (start, stop) = search.group, search.interval
    size = int(gathered.counts.sum())
    v, low, high = (workspace.doubles(name, size) for name in ("v", "low", "high"))
    size = join(v, low, high, gathered, group.sign)
    plus, minus, plus_falling, minus_falling = gathered.sums.sum(axis=0).tolist()
    constant = (plus if group.sign >= 0 else 0.0) + (minus if group.sign <= 0 else 0.0)
    falling = (plus_falling if group.sign >= 0 else 0.0) + (minus_falling if group.sign <= 0 else 0.0)
    root, where, excess, visits = find_root(
        v, low, high, size, constant, int(falling), group.total, start, stop, search.guess
    )
    read = visits + size
    if where == FOUND:
        # nothing bends inside this interval: another pass for the other group gathers none of this one
        return search._replace(interval=Interval(root, root), guess=root, found=True), read
    bracket = search.bracket
    bracket = Interval(stop, bracket.stop) if where == ABOVE else Interval(bracket.start, start)
    return search._replace(bracket=bracket, beside=Beside(root, excess)), read


def _what_is_not_finite(point: FloatArray) -> str:
    bad = np.flatnonzero(~np.isfinite(point))
    where = f"entry {bad[0]} is {point[bad[0]]}" if len(bad) else "its entries are so large that their sum overflows"
    return f"A point to project takes finite numbers, but {where}: the step before it has diverged, take a shorter one."
