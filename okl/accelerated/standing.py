"""How firmly rows stand at the bounds of a dual problem, and which of them may rest until the next check."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from okl.accelerated.dual import DualProblem
from okl.accelerated.operators import DenseRows
from okl.accelerated.protocol import Problem
from okl.accelerated.regions import Box, BoxHyperplane, SimplexPair
from okl.types import FloatArray, IntArray

_CHANGES = 2.0  # of a row's own gradient, and of a typical row's: less slack than both together and it stays awake
_MOST_AWAKE = 0.75  # of the rows: gathering them pays below


class Standing(NamedTuple):
    """What a check knows of every row.

    slopes : (m,), gradients less the multiplier of the row's class
    firm : (m,), at least the slack of a row at a bound, and not above 0 for any other
    """

    slopes: FloatArray
    firm: FloatArray


def standing_of(
    problem: Problem, here: FloatArray, target: FloatArray, stepped: FloatArray, lipschitz: float
) -> Standing | None:
    """How firmly rows stand at a point, or None where they cannot rest.

    here, target, stepped : a point (m,), the step from it down the gradient, and the projection of that
    """
    if not (isinstance(problem, DualProblem) and type(problem.rows) is DenseRows):
        return None
    region = problem.region
    if not isinstance(region, Box | BoxHyperplane | SimplexPair):
        return None
    lower = region.lower
    free = (stepped > lower) & (stepped < region.upper)
    shifted = target.copy()
    for sign in (-1.0, 1.0):
        members = problem.rows.signs == sign
        found = np.flatnonzero(free & members)
        if not len(found):  # the multiplier may be anywhere in an interval
            return None
        shifted[members] -= target[found[0]] - stepped[found[0]]
    slopes = lipschitz * (here - shifted)
    firm = np.where((here == lower) & (stepped == lower), slopes, 0.0)
    at_upper = (here == region.upper) & (stepped == region.upper)
    firm[at_upper] = np.maximum(firm, -slopes)[at_upper]
    return Standing(slopes, firm)


def rows_awake(standing: Standing | None, before: Standing | None) -> IntArray | None:
    """The rows that may move before the next check, or None for all."""
    if standing is None or before is None:
        return None
    change = np.abs(standing.slopes - before.slopes)
    typical = float(np.sqrt(np.mean(np.square(change))))
    awake = np.flatnonzero(standing.firm <= _CHANGES * (change + typical))
    return awake if 2 <= len(awake) <= _MOST_AWAKE * len(change) else None
