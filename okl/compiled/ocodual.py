"""The dual of a step of online convex optimisation, solved by Newton's method on its active rows.

    step:  min over x in X of  1/2 ||x - c||^2 + sum_i limit_i [a_i x - b_i]_+
    dual:  max over 0 <= lambda <= limit of  min over x in X of  1/2 ||x - c||^2 + lambda' (A x - b)

The dual is concave; its gradient is the excess r = A x(lambda) - b at x(lambda) = P(c - A' lambda). A step towards
lambda + d cannot lower it if d' r is not negative where it ends: no value is ever compared, so nothing cancels. The gap
is a sum of terms that are at least 0, (limit - lambda) r where r > 0 and -lambda r elsewhere; ||x - x*||^2 is at most
twice the gap. Rows may be parallel, or nearly: the system is regularised, and every second fallback moves on one face.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled, compiled_sum
from okl.compiled.regions import BALL, BOX, Region, project

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

ENOUGH: Final = 1e-18  # gap; ||x - x*|| is then at most 1.5e-9
_ROUNDING: Final = 4.0 * 2.0**-52
_REGULARISER: Final = 1e-13
_PLAIN_STEPS: Final = 4  # for every row, before faces are walked one by one

SQUARED: Final = 0  # where Work.numbers keeps ||c||^2 from the centre of the ball,
SCALE: Final = 1  # the factor that projects onto it,
LENGTH: Final = 2  # and the length of x


class Rows(NamedTuple):
    """Linear constraints matrix x <= bounds, and what of them is used again and again.

    matrix : (m, p);  bounds : (m,)
    centred : (m,) bounds less the products with the centre of the ball; the bounds for other sets
    gram : (m, m) matrix @ matrix';  lengths : (m,) of the rows
    """

    matrix: Matrix
    bounds: Vector
    centred: Vector
    gram: Matrix
    lengths: Vector


class Work(NamedTuple):
    """Room to work in, made once for all steps.

    multipliers, trial, before, excess, direction, products : (m,);  hessian, packed : (m, m), (m, p)
    point : (p,);  chosen : (m,) int64;  numbers : (3,)
    """

    multipliers: Vector
    trial: Vector
    before: Vector
    excess: Vector
    direction: Vector
    products: Vector
    hessian: Matrix
    packed: Matrix
    point: Vector
    chosen: NDArray[np.int64]
    numbers: Vector


def make_rows(matrix: Matrix, bounds: Vector, region: Region) -> Rows:
    """Return the rows of linear constraints over a set."""
    matrix = np.ascontiguousarray(matrix, dtype=np.float64)
    centred = bounds - matrix @ region.low if region.kind == BALL else bounds
    return Rows(matrix, bounds, centred, matrix @ matrix.T, np.linalg.norm(matrix, axis=1))


def make_work(n_rows: int, dimension: int) -> Work:
    """Return room for steps with so many rows in so many dimensions."""
    vectors = np.zeros((6, n_rows))
    return Work(
        *vectors,
        hessian=np.zeros((n_rows, n_rows)),
        packed=np.zeros((n_rows, dimension)),
        point=np.zeros(dimension),
        chosen=np.zeros(n_rows, dtype=np.int64),
        numbers=np.zeros(3),
    )


@compiled_sum
def _pull(point: Vector, shifted: Vector, multipliers: Vector, matrix: Matrix) -> None:
    """Write shifted - matrix' multipliers into point (p,)."""
    for j in range(point.shape[0]):
        point[j] = shifted[j]
    for i in range(multipliers.shape[0]):
        factor = multipliers[i]
        if factor != 0.0:
            for j in range(point.shape[0]):
                point[j] -= factor * matrix[i, j]


@compiled_sum
def excesses(out: Vector, point: Vector, matrix: Matrix, bounds: Vector) -> None:
    """Write matrix @ point - bounds into out (m,)."""
    for i in range(out.shape[0]):
        product = 0.0
        for j in range(point.shape[0]):
            product += matrix[i, j] * point[j]
        out[i] = product - bounds[i]


@compiled_sum
def _length(point: Vector) -> float:
    squared = 0.0
    for j in range(point.shape[0]):
        squared += point[j] * point[j]
    return math.sqrt(squared)


@compiled
def _evaluate_ball(work: Work, multipliers: Vector, rows: Rows, radius: float) -> None:
    """Write the excess, with work.products = A (c - centre) and ||c - centre||^2 alone: O(m^2)."""
    squared = work.numbers[SQUARED]
    for i in range(multipliers.shape[0]):
        pulled = 0.0
        for k in range(multipliers.shape[0]):
            pulled += rows.gram[i, k] * multipliers[k]
        squared += multipliers[i] * (pulled - 2.0 * work.products[i])
        work.excess[i] = work.products[i] - pulled
    scale = 1.0
    if squared > radius * radius:
        scale = radius / math.sqrt(squared)
    work.numbers[SCALE] = scale
    work.numbers[LENGTH] = radius
    for i in range(multipliers.shape[0]):
        work.excess[i] = scale * work.excess[i] - rows.centred[i]


@compiled
def _evaluate(work: Work, multipliers: Vector, shifted: Vector, rows: Rows, region: Region) -> None:
    """Write x(multipliers) into work.point (not for a ball) and its excess into work.excess."""
    if region.kind == BALL:
        _evaluate_ball(work, multipliers, rows, region.size)
    else:
        _pull(work.point, shifted, multipliers, rows.matrix)
        project(work.point, region)
        excesses(work.excess, work.point, rows.matrix, rows.bounds)
        work.numbers[LENGTH] = _length(work.point)


@compiled
def _term(work: Work, rows: Rows, limit: float, i: int) -> float:
    """Return row i's part of the gap, 0 if its excess is no more than rounding."""
    excess = work.excess[i]
    if abs(excess) <= _ROUNDING * (rows.lengths[i] * work.numbers[LENGTH] + abs(rows.centred[i])):
        return 0.0
    return max((limit - work.multipliers[i]) * excess, -work.multipliers[i] * excess)


@compiled
def _gap(work: Work, rows: Rows, limits: Vector) -> float:
    gap = 0.0
    for i in range(limits.shape[0]):
        gap += _term(work, rows, limits[i], i)
    return gap


@compiled_sum
def _pack(work: Work, rows: Rows, region: Region, count: int) -> tuple[int, bool]:
    """Gather the chosen rows' columns that are free, or those that are not if they are fewer.

    A column is free where the projection moves with what is projected. Returns how many, and whether they are the free.
    """
    point, packed, chosen = work.point, work.packed, work.chosen
    box = region.kind == BOX
    n_free = 0
    for j in range(point.shape[0]):
        if (box and region.low[j] < point[j] < region.high[j]) or (not box and point[j] > 0.0):
            n_free += 1
    free = 2 * n_free <= point.shape[0] or not box
    n_packed = 0
    for j in range(point.shape[0]):
        if ((box and region.low[j] < point[j] < region.high[j]) or (not box and point[j] > 0.0)) == free:
            for a in range(count):
                packed[a, n_packed] = rows.matrix[chosen[a], j]
            n_packed += 1
    return n_packed, free


@compiled_sum
def _fill_packed(work: Work, rows: Rows, n_packed: int, free: bool, box: bool, count: int) -> None:
    """Write the Hessian over the chosen rows, from packed columns; a simplex's columns are centred first."""
    packed, hessian, chosen = work.packed, work.hessian, work.chosen
    if not box:
        for a in range(count):
            mean = 0.0
            for j in range(n_packed):
                mean += packed[a, j]
            mean /= max(n_packed, 1)
            for j in range(n_packed):
                packed[a, j] -= mean
    for a in range(count):
        for b in range(a + 1):
            product = 0.0
            for j in range(n_packed):
                product += packed[a, j] * packed[b, j]
            hessian[a, b] = product if free else rows.gram[chosen[a], chosen[b]] - product


@compiled
def _fill_hessian(work: Work, rows: Rows, region: Region, count: int) -> None:
    """Write -(second derivative) of the dual over the chosen rows into the lower half of work.hessian."""
    if region.kind != BALL:
        n_packed, free = _pack(work, rows, region, count)
        _fill_packed(work, rows, n_packed, free, region.kind == BOX, count)
        return
    scale = work.numbers[SCALE]
    inverse = 1.0 / region.size if scale < 1.0 else 0.0
    for a in range(count):
        i = work.chosen[a]
        for b in range(a + 1):
            k = work.chosen[b]
            along = (work.excess[i] + rows.centred[i]) * (work.excess[k] + rows.centred[k]) * inverse * inverse
            work.hessian[a, b] = scale * (rows.gram[i, k] - along)


@compiled
def _factorise(hessian: Matrix, regulariser: float, count: int) -> None:
    """Replace the lower half of hessian + regulariser I by its Cholesky factor."""
    for a in range(count):
        for b in range(a + 1):
            value = hessian[a, b]
            for k in range(b):
                value -= hessian[a, k] * hessian[b, k]
            if a == b:
                hessian[a, a] = math.sqrt(max(value + regulariser, regulariser))
            else:
                hessian[a, b] = value / hessian[b, b]


@compiled
def _solve_newton(work: Work, rows: Rows, region: Region, count: int) -> None:
    """Write the Newton direction of the chosen rows into work.direction (count,)."""
    _fill_hessian(work, rows, region, count)
    largest = 1e-300
    for a in range(count):
        largest = max(largest, rows.gram[work.chosen[a], work.chosen[a]])
    hessian, direction = work.hessian, work.direction
    _factorise(hessian, _REGULARISER * largest, count)
    for a in range(count):
        value = work.excess[work.chosen[a]]
        for k in range(a):
            value -= hessian[a, k] * direction[k]
        direction[a] = value / hessian[a, a]
    for a in range(count - 1, -1, -1):
        value = direction[a]
        for k in range(a + 1, count):
            value -= hessian[k, a] * direction[k]
        direction[a] = value / hessian[a, a]


@compiled
def _slope(work: Work, excess: Vector) -> float:
    """Return excess' (trial - multipliers)."""
    slope = 0.0
    for i in range(excess.shape[0]):
        slope += excess[i] * (work.trial[i] - work.multipliers[i])
    return slope


@compiled
def _search(work: Work, shifted: Vector, rows: Rows, region: Region, first: float, last: float) -> None:
    """Move the trial back to where the dual is highest between the multipliers and it; slopes are first and last.

    The slope falls along the way: its root by the Illinois rule, to a hundredth of the first slope.
    """
    low, high, slope_low, slope_high = 0.0, 1.0, first, last
    for i in range(work.trial.shape[0]):
        work.direction[i] = work.trial[i] - work.multipliers[i]
    for _ in range(60):
        at = (low * slope_high - high * slope_low) / (slope_high - slope_low)
        slope = 0.0
        for i in range(work.trial.shape[0]):
            work.trial[i] = work.multipliers[i] + at * work.direction[i]
        _evaluate(work, work.trial, shifted, rows, region)
        for i in range(work.trial.shape[0]):
            slope += work.excess[i] * work.direction[i]
        if abs(slope) <= 0.01 * first or high - low < 1e-12:
            return
        if slope > 0.0:
            low, slope_low, slope_high = at, slope, 0.5 * slope_high
        else:
            high, slope_high, slope_low = at, slope, 0.5 * slope_low


@compiled
def _accept(work: Work, shifted: Vector, rows: Rows, region: Region) -> bool:
    """Go to work.trial, or to the highest point before it; False, and nowhere, if the way there does not rise."""
    for i in range(work.trial.shape[0]):
        work.before[i] = work.excess[i]
    first = _slope(work, work.before)
    if not first > 0.0:
        return False
    _evaluate(work, work.trial, shifted, rows, region)
    last = _slope(work, work.excess)
    if last < -1e-9 * first:
        _search(work, shifted, rows, region, first, last)
    for i in range(work.trial.shape[0]):
        work.multipliers[i] = work.trial[i]
    return True


@compiled
def _open(work: Work, limit: float, i: int) -> bool:
    """Whether row i's multiplier may move: inside its bounds, or on one that its excess points away from."""
    multiplier, excess = work.multipliers[i], work.excess[i]
    return limit > 0.0 and (multiplier > 0.0 or excess > 0.0) and (multiplier < limit or excess < 0.0)


@compiled
def _plain_step(work: Work, shifted: Vector, rows: Rows, region: Region, limits: Vector) -> bool:
    """Take a Newton step in all multipliers that may move, clipped to their bounds."""
    count = 0
    for i in range(limits.shape[0]):
        work.trial[i] = work.multipliers[i]
        if _open(work, limits[i], i):
            work.chosen[count] = i
            count += 1
    _solve_newton(work, rows, region, count)
    for a in range(count):
        i = work.chosen[a]
        work.trial[i] = min(max(work.multipliers[i] + work.direction[a], 0.0), limits[i])
    return _accept(work, shifted, rows, region)


@compiled
def _choose_face(work: Work, rows: Rows, limits: Vector, leaving: bool) -> int:
    """Choose the rows inside their bounds and, to leave the face, the one on a bound with the largest gap."""
    count, best, worst = 0, -1, 0.0
    for i in range(limits.shape[0]):
        work.trial[i] = work.multipliers[i]
        if 0.0 < work.multipliers[i] < limits[i]:
            work.chosen[count] = i
            count += 1
        elif _term(work, rows, limits[i], i) > worst:
            best, worst = i, _term(work, rows, limits[i], i)
    if leaving and best >= 0:
        work.chosen[count] = best
        count += 1
    return count


@compiled
def _face_step(work: Work, shifted: Vector, rows: Rows, region: Region, limits: Vector, leaving: bool) -> bool:
    """Take a Newton step on one face, up to the first bound that is met: the finite way, row by row."""
    count = _choose_face(work, rows, limits, leaving)
    if count == 0:
        return False
    _solve_newton(work, rows, region, count)
    step, met = 1.0, -1
    for a in range(count):
        i = work.chosen[a]
        room = limits[i] - work.multipliers[i] if work.direction[a] > 0.0 else work.multipliers[i]
        if step * abs(work.direction[a]) > room:
            step, met = room / abs(work.direction[a]), a
    for a in range(count):
        i = work.chosen[a]
        work.trial[i] = min(max(work.multipliers[i] + step * work.direction[a], 0.0), limits[i])
        if a == met:
            work.trial[i] = limits[i] if work.direction[a] > 0.0 else 0.0
    return _accept(work, shifted, rows, region)


@compiled
def maximise_dual(work: Work, shifted: Vector, rows: Rows, region: Region, limits: Vector) -> float:
    """Write the best multipliers into work.multipliers (m,), and x(multipliers) into work.point; return the gap.

    For a ball, work.products and work.numbers[SQUARED] take the place of shifted, and work.point stays as it is. Rows
    whose excess is below the rounding of its sum count as met.
    """
    n_rows = limits.shape[0]
    for i in range(n_rows):
        work.multipliers[i] = 0.0
    _evaluate(work, work.multipliers, shifted, rows, region)
    plain = _PLAIN_STEPS * (n_rows + 1)
    gap = _gap(work, rows, limits)
    for turn in range(40 * (n_rows + 2)):
        if gap <= ENOUGH:
            break
        moved = turn < plain and _plain_step(work, shifted, rows, region, limits)
        if not moved:
            moved = _face_step(work, shifted, rows, region, limits, True)
        if not moved:
            moved = _face_step(work, shifted, rows, region, limits, False)
        if not moved:
            break
        gap = _gap(work, rows, limits)
    return gap
