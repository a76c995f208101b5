"""The search for the multipliers of a step over shards: which candidates go out, how their sums are put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from okl.accelerated.barriers import EntropyBarrier, RootsBarrier
from okl.accelerated.dual import DualProblem
from okl.accelerated.sharded.rounds import added
from okl.accelerated.sharded.searches import RootSearch, find_roots
from okl.types import FloatArray

_CANDIDATES, _BARRIER_CANDIDATES = 16, 3


def found_multipliers(
    searches: list[RootSearch], totals: FloatArray, answers: list[FloatArray], seek: Callable[[FloatArray], Any]
) -> FloatArray:
    """Multipliers at which the shards' sums meet the totals; the first answers came along with another command."""
    first: list[FloatArray] | None = answers

    def ask(candidates: FloatArray) -> FloatArray:
        nonlocal first
        parts, first = first, None
        sums = added(parts if parts is not None else seek(candidates))
        sums[:, :, 0] -= totals[:, np.newaxis]
        sums[:, :, 2] += np.abs(totals)[:, np.newaxis]
        return sums

    return find_roots(searches, ask) if searches else np.empty(0)


def candidates_a_round(prototype: DualProblem) -> int:
    """How many of each multiplier."""
    # a barrier's prox takes exponentials or roots an entry and candidate, a set's next to nothing
    return _BARRIER_CANDIDATES if isinstance(prototype.region, EntropyBarrier | RootsBarrier) else _CANDIDATES


def candidates_of(searches: list[RootSearch]) -> FloatArray:
    """The candidates of all searches, (n_multipliers, K)."""
    return np.array([search.candidates for search in searches]) if searches else np.empty((0, 0))
