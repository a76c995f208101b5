"""A step in a box of the plane with up to three rows, by enumeration: exact, and faster than an ascent of the dual.

Every multiplier is 0, at its limit, or such that its row is met; at most two rows need be met at once, as the plane has
two dimensions. What the multipliers lead to is a clipped point, the lowest point of a line or a vertex. Which of them
is the solution shows in its duality gap, not in values that cancel.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled_row
from okl.compiled.ocorows import Matrix, Rows, Vector, Work, gap_term
from okl.compiled.regions import Region

Indices = NDArray[np.int64]

MOST_ROWS: Final = 3
ENOUGH: Final = 1e-18  # gap; ||x - x*|| is then at most 1.5e-9

_MET: Final = 1  # what a row's multiplier may be, beside 0
_FULL: Final = 2


@compiled_row
def _gap_in_plane(
    point: Vector, multipliers: Vector, shifted: Vector, matrix: Matrix, bounds: Vector, region: Region, limits: Vector
) -> float:
    """Write the point that the multipliers (m,) lead to; return the gap."""
    first, second = shifted[0], shifted[1]
    for i in range(limits.shape[0]):
        first -= multipliers[i] * matrix[i, 0]
        second -= multipliers[i] * matrix[i, 1]
    first = min(max(first, region.low[0]), region.high[0])
    second = min(max(second, region.low[1]), region.high[1])
    point[0], point[1] = first, second
    gap = 0.0
    for i in range(limits.shape[0]):
        one, two, bound = matrix[i, 0] * first, matrix[i, 1] * second, bounds[i]
        gap += gap_term(one + two - bound, abs(one) + abs(two) + abs(bound), multipliers[i], limits[i])
    return gap


@compiled_row
def _meet_one(first: float, second: float, matrix: Matrix, bound: float, region: Region, k: int) -> float:
    """Return the multiplier that meets row k from a point: inside the box, or where its line meets a side.

    No number, or an infinite one, where a line along a side is to be met.
    """
    left, right = matrix[k, 0], matrix[k, 1]
    factor = (left * first + right * second - bound) / (left * left + right * right)
    over, up = first - factor * left, second - factor * right
    end, top = min(max(over, region.low[0]), region.high[0]), min(max(up, region.low[1]), region.high[1])
    if over != end:
        along = (bound - left * end) / right
        if up == top or region.low[1] <= along <= region.high[1]:
            return float((second - along) / right)
    if up != top:
        return float((first - (bound - right * top) / left) / left)
    return float(factor)


@compiled_row
def _meet_two(multipliers: Vector, first: float, second: float, matrix: Matrix, bounds: Vector, k: int, n: int) -> None:
    """Write the multipliers that meet rows k and n from a point: no numbers if they are parallel."""
    a, b, c, d = matrix[k, 0], matrix[k, 1], matrix[n, 0], matrix[n, 1]
    determinant = a * d - b * c
    first -= (bounds[k] * d - b * bounds[n]) / determinant
    second -= (a * bounds[n] - bounds[k] * c) / determinant
    multipliers[k] = (d * first - c * second) / determinant
    multipliers[n] = (a * second - b * first) / determinant


@compiled_row
def _advance(choice: Indices, limits: Vector) -> bool:
    """Go to the next choice (m,) of 0, met or full, as a counter counts; False after the last one."""
    for i in range(limits.shape[0]):
        if choice[i] < _FULL and limits[i] > 0.0:
            choice[i] += 1
            return True
        choice[i] = 0
    return False


@compiled_row
def _choose(
    multipliers: Vector,
    choice: Indices,
    shifted: Vector,
    matrix: Matrix,
    bounds: Vector,
    region: Region,
    limits: Vector,
) -> bool:
    """Write the multipliers (m,) of one choice (m,) of 0, met or full for every row.

    False if they are not within their limits.
    """
    n_met, one, two = 0, 0, 0
    first, second = shifted[0], shifted[1]
    for i in range(limits.shape[0]):
        multipliers[i] = 0.0
        if choice[i] == _MET:
            n_met, one, two = n_met + 1, two, i
        elif choice[i] == _FULL:
            multipliers[i] = limits[i]
            first -= limits[i] * matrix[i, 0]
            second -= limits[i] * matrix[i, 1]
    if n_met == 1:
        multipliers[two] = _meet_one(first, second, matrix, bounds[two], region, two)
    elif n_met == 2:
        _meet_two(multipliers, first, second, matrix, bounds, one, two)
    return n_met == 0 or (
        n_met < 3 and 0.0 <= multipliers[one] <= limits[one] and 0.0 <= multipliers[two] <= limits[two]
    )


@compiled_row
def step_in_plane(work: Work, shifted: Vector, rows: Rows, region: Region, limits: Vector) -> float:
    """Write a step's multipliers (m,) and its point into work, as `maximise_dual` does; return the gap.

    For boxes of the plane and up to MOST_ROWS rows. A gap above ENOUGH: rows are so nearly parallel that none of the
    choices could be computed well enough.
    """
    point, multipliers, choice, matrix, bounds = work.point, work.multipliers, work.chosen, rows.matrix, rows.bounds
    for i in range(limits.shape[0]):
        multipliers[i], choice[i] = 0.0, 0
    gap = _gap_in_plane(point, multipliers, shifted, matrix, bounds, region, limits)
    while gap > ENOUGH and _advance(choice, limits):
        if _choose(multipliers, choice, shifted, matrix, bounds, region, limits):
            gap = _gap_in_plane(point, multipliers, shifted, matrix, bounds, region, limits)
    return gap
