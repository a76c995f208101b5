"""Roots of falling functions of which shards hold the parts: several candidates a round, guarded by a bracket."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from okl.types import FloatArray

Ask = Callable[[FloatArray], FloatArray]
"""Candidates (n_searches, K) -> values, slopes (how fast it falls, 0 if not known) and sizes, (n_searches, K, 3)."""

_MOST_ROUNDS = 100
_LEAST_ERROR, _ROUNDING = 2e-15, 1e-12  # of a sum, in its size; with 4e-16 a tenth of all rounds chased rounding
_LEAST_WIDTH = 2e-15  # of a bracket, in the size of the root
_STRETCH = 8.0


class RootSearch:
    """One root; a bracket narrows around it from round to round.

    Parameters
    ----------
    guess : where to look first; reach : how far from it the root may well be, > 0
    n_candidates : int >= 1, looked at in a round
    width : bracket that is narrow enough, beside one at the limit of rounding

    Attributes
    ----------
    candidates : (n_candidates,), to be looked at next; root : the best so far; done : whether it is found
    """

    def __init__(self, guess: float, reach: float, n_candidates: int, width: float = 1e-290) -> None:
        self.root, self.done = guess, False
        self._error, self._size = np.inf, 0.0
        self._n, self._reach, self._width = n_candidates, reach, width
        self._low, self._high = (-np.inf, 0.0, 0.0), (np.inf, 0.0, 0.0)  # place, value and slope there
        steps = np.arange(n_candidates) - n_candidates // 2
        self.candidates = guess + np.sign(steps) * reach * _STRETCH ** (np.abs(steps) - n_candidates // 4)

    def tell(self, answers: FloatArray) -> None:
        """Take in values, slopes and sizes (n_candidates, 3) at the candidates, and choose the next ones."""
        if self.done:
            return
        before, start = self._error, self.root
        for place, (value, slope, size) in zip(self.candidates, answers, strict=True):
            # of places that are as good, the one that is nearest: where rounding keeps a plateau from 0, the roots of a
            # sequence of searches, each of which begins where the one before ended, would run away along it
            nearer = abs(value) == self._error and abs(place - start) < abs(self.root - start)
            if abs(value) < self._error or nearer:
                self.root, self._error, self._size = float(place), abs(value), size
            if value >= 0.0 and place > self._low[0]:
                self._low = (float(place), float(value), float(slope))
            if value <= 0.0 and place < self._high[0]:
                self._high = (float(place), float(value), float(slope))
        size = max(abs(self._high[0]), abs(self._low[0]))
        narrow = self._high[0] - self._low[0] <= max(_LEAST_WIDTH * size, self._width)
        stuck = before <= _ROUNDING * self._size and self._error > 0.5 * before
        # an error that is not finite is for the caller's objective to show
        found = self._error <= _LEAST_ERROR * self._size or not np.isfinite(self._error)
        if narrow and np.isfinite(size) and not found:  # a jump: its end with the smaller error
            self.root = min(self._low, self._high, key=lambda end: abs(end[1]))[0]
        self.done = bool(found or stuck or (narrow and np.isfinite(size)))
        if not self.done:
            self._reach *= _STRETCH ** max(1, self._n // 4)
            self.candidates = self._next()

    def _next(self) -> NDArray[np.float64]:
        low, high = self._low[0], self._high[0]
        steps = np.arange(1, self._n + 1)
        if np.isinf(low) or np.isinf(high):
            start, way = (high, -1.0) if np.isinf(low) else (low, 1.0)
            found = start + way * self._reach * _STRETCH ** (steps - 1.0)
            newton = self._newton()
            found[: len(newton)] = newton[: self._n]
            return np.sort(found)
        # even steps make the bracket narrow, Newton's hit the root: one of them where there is room for one only
        newton = [place for place in self._newton() if low < place < high][: self._n]
        n_even = self._n - len(newton)
        even = low + (high - low) * steps[:n_even] / (n_even + 1)
        return np.sort(np.concatenate([newton, even]))

    def _newton(self) -> list[float]:
        places = [place + value / slope for place, value, slope in (self._low, self._high) if slope > 0.0]
        return [place for place in dict.fromkeys(places) if np.isfinite(place)]


def find_roots(searches: Sequence[RootSearch], ask: Ask) -> NDArray[np.float64]:
    """Root of each search, (n_searches,), all in the same rounds; no round for no search."""
    for _ in range(_MOST_ROUNDS):
        if all(search.done for search in searches):
            break
        answers = ask(np.array([search.candidates for search in searches]))
        for search, told in zip(searches, answers, strict=True):
            search.tell(told)
    return np.array([search.root for search in searches])
