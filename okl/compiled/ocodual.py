"""The dual of a step of online convex optimisation, solved by Newton's method on its active rows.

    step:  min over x in X of  1/2 ||x - c||^2 + sum_i limit_i [a_i x - b_i]_+
    dual:  max over 0 <= lambda <= limit of  min over x in X of  1/2 ||x - c||^2 + lambda' (A x - b)

The dual is concave and its gradient is the excess r. A step to lambda + d cannot lower it if d' r is not negative where
it ends: no values are ever compared, so nothing cancels. First all rows move at once, clipped to their bounds; where
that does not rise, or does not end, the faces of the bounds are walked one by one, as a finite active-set method does.
"""

from __future__ import annotations

from typing import Final

from okl.compiled.door import compiled_row
from okl.compiled.oconewton import solve_newton
from okl.compiled.ocoplane import ENOUGH
from okl.compiled.ocorows import Rows, Vector, Work, evaluate, gap_of, term
from okl.compiled.regions import Region

_PLAIN_STEPS: Final = 4  # for every row, before faces are walked one by one

ALL: Final = 0  # ways to take a Newton step: in all rows that may move,
LEAVE: Final = 1  # in those inside their bounds and one more,
STAY: Final = 2  # or in those inside alone


@compiled_row
def _slope(work: Work) -> float:
    """Return excess' direction."""
    slope = 0.0
    for i in range(work.excess.shape[0]):
        slope += work.excess[i] * work.direction[i]
    return slope


@compiled_row
def _rise(work: Work, shifted: Vector, rows: Rows, region: Region) -> bool:
    """Go to work.trial, or to the highest point on the way; False, and nowhere, if the way does not rise.

    The slope falls along the way: where it is negative at the end, its root is found by the Illinois rule, to a
    hundredth of the first slope.
    """
    for i in range(work.trial.shape[0]):
        work.direction[i] = work.trial[i] - work.multipliers[i]
    first = _slope(work)
    if not first > 0.0:
        return False
    low, high, slope_low, slope_high, at = 0.0, 1.0, first, -first, 1.0
    for turn in range(60):
        if turn > 0:
            at = (low * slope_high - high * slope_low) / (slope_high - slope_low)
            for i in range(work.trial.shape[0]):
                work.trial[i] = work.multipliers[i] + at * work.direction[i]
        evaluate(work, work.trial, shifted, rows, region)
        slope = _slope(work)
        if (turn == 0 and slope >= -1e-9 * first) or abs(slope) <= 0.01 * first or high - low < 1e-12:
            break
        if turn == 0:
            slope_high = slope
        elif slope > 0.0:
            low, slope_low, slope_high = at, slope, 0.5 * slope_high
        else:
            high, slope_high, slope_low = at, slope, 0.5 * slope_low
    for i in range(work.trial.shape[0]):
        work.multipliers[i] = work.trial[i]
    return True


@compiled_row
def _open(work: Work, limit: float, i: int) -> bool:
    """Whether row i's multiplier may move: inside its bounds, or on one that its excess points away from."""
    multiplier, excess = work.multipliers[i], work.excess[i]
    return limit > 0.0 and (multiplier > 0.0 or excess > 0.0) and (multiplier < limit or excess < 0.0)


@compiled_row
def _choose(work: Work, rows: Rows, limits: Vector, way: int) -> int:
    """Choose the rows to move, with the trial where the multipliers are; return how many.

    ALL that may move; or those inside their bounds and, to LEAVE their face, the one on a bound with the largest gap.
    """
    count, best, worst = 0, -1, 0.0
    for i in range(limits.shape[0]):
        work.trial[i] = work.multipliers[i]
        if (way == ALL and _open(work, limits[i], i)) or (way != ALL and 0.0 < work.multipliers[i] < limits[i]):
            work.chosen[count] = i
            count += 1
        elif term(work, rows, limits[i], i) > worst:
            best, worst = i, term(work, rows, limits[i], i)
    if way == LEAVE and best >= 0:
        work.chosen[count] = best
        count += 1
    return count


@compiled_row
def _move_trial(work: Work, limits: Vector, way: int, count: int) -> None:
    """Move the trial by the direction of the chosen rows: clipped row by row (ALL), or up to the first bound met."""
    share, met = 1.0, -1
    if way != ALL:
        for a in range(count):
            i = work.chosen[a]
            room = limits[i] - work.multipliers[i] if work.direction[a] > 0.0 else work.multipliers[i]
            if share * abs(work.direction[a]) > room:
                share, met = room / abs(work.direction[a]), a
    for a in range(count):
        i = work.chosen[a]
        work.trial[i] = min(max(work.multipliers[i] + share * work.direction[a], 0.0), limits[i])
        if a == met:
            work.trial[i] = limits[i] if work.direction[a] > 0.0 else 0.0


@compiled_row
def _newton_step(work: Work, shifted: Vector, rows: Rows, region: Region, limits: Vector, way: int) -> bool:
    """Take a Newton step one way; False, and nowhere, if the dual does not rise."""
    count = _choose(work, rows, limits, way)
    if count == 0:
        return False
    solve_newton(work, rows, region, count)
    _move_trial(work, limits, way, count)
    return _rise(work, shifted, rows, region)


@compiled_row
def maximise_dual(work: Work, shifted: Vector, rows: Rows, region: Region, limits: Vector) -> float:
    """Write the best multipliers into work.multipliers (m,), and x(multipliers) into work.point; return the gap.

    For a ball, work.products and work.numbers[SQUARED] take the place of shifted, and work.point stays as it is. Rows
    whose excess is below the rounding of its sum count as met.
    """
    n_rows = limits.shape[0]
    for i in range(n_rows):
        work.multipliers[i] = 0.0
    evaluate(work, work.multipliers, shifted, rows, region)
    plain = _PLAIN_STEPS * (n_rows + 1)
    gap = gap_of(work, rows, limits)
    for turn in range(10 * plain):
        if gap <= ENOUGH:
            break
        way = ALL if turn < plain else LEAVE
        while way <= STAY and not _newton_step(work, shifted, rows, region, limits, way):
            way += 1
        if way > STAY:
            break
        gap = gap_of(work, rows, limits)
    return gap
