"""Where to look next for a multiplier: candidates for the search over shards."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_DEVIATIONS = 3.0


def around(guess: float, magnitude: float, n_candidates: int) -> tuple[float, ...]:
    """Candidates on both sides of a guess, each twice as near as the one before, the first beyond all bends.

    magnitude : of the largest number; every bend is within twice of it
    """
    if magnitude == 0.0:
        return (guess,)
    half = n_candidates // 2
    widths = (2.0 * magnitude + abs(guess)) * np.exp2(-np.arange(half))
    return _distinct(np.concatenate([guess - widths, guess + widths]))


class Bracket(NamedTuple):
    """An open interval that holds the root, finite or not, and its least and largest bend, of n_bends."""

    start: float
    stop: float
    least: float
    most: float
    n_bends: int


def between(bracket: Bracket, estimate: float, n_candidates: int) -> tuple[float, ...]:
    """Candidates over the bends of a bracket, dense where the root is to be expected, with both ends.

    Half of them where a line through n bends at random places, drawn to estimate the root, errs; a quarter evenly over
    the whole range, should the bends not be random; the rest in between, ever wider apart.
    """
    start, stop, least, most, n_bends = bracket
    fixed = [end for end in (start, least, most, stop) if math.isfinite(end)]
    width = most - least
    if width == 0.0:
        return _distinct(np.array(fixed))
    estimate = min(max(estimate, least), most)
    error = _DEVIATIONS * width / math.sqrt(n_bends)
    steps = np.geomspace(error, max(width, error), n_candidates // 8)
    places = np.concatenate(
        [
            np.linspace(least, most, n_candidates // 4),
            np.linspace(estimate - error, estimate + error, n_candidates // 2),
            estimate - steps,
            estimate + steps,
        ]
    )
    return _distinct(np.concatenate([places[(places > least) & (places < most)], fixed]))


def _distinct(places: NDArray[np.float64]) -> tuple[float, ...]:
    """Ascending, each once."""
    return tuple(np.unique(places).tolist())
