"""Rounds of online convex optimisation with long-term constraints: steps, duals and compared methods."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.extension import call_oracle
from okl.compiled.jit import (
    compiled,
    compiled_part,
    compiled_row,
    compiled_row_sum,
    nested_row,
    nested_row_sum,
    nested_step,
)
from okl.foundation.types import Doubles, Integers

# Projections onto the feasible sets, and their Jacobians.
#
# The Jacobian of every projection is scale (D - s s'), with a diagonal D of zeros and ones and one vector s: that is
# all a Newton step in the dual of a step needs.

BOX: Final = 0
BALL: Final = 1
SIMPLEX: Final = 2

Vector = NDArray[np.float64]


class CompiledSet(NamedTuple):
    """A set: low <= x <= high, or the ball about low, or x >= 0 that adds up to size.

    kind : BOX, BALL or SIMPLEX
    low, high : (p,) float64, the bounds of a box; both the centre of a ball; zeros for a simplex
    size : radius of a ball, total of a simplex
    """

    kind: int
    low: Vector
    high: Vector
    size: float


@nested_row
def project_box(point: Vector, low: Vector, high: Vector) -> None:
    """Clip a point in place."""
    for j in range(point.shape[0]):
        point[j] = min(max(point[j], low[j]), high[j])


@nested_row
def project_ball(point: Vector, centre: Vector, radius: float) -> None:
    """Pull a point to the sphere in place, if it lies outside."""
    squared = 0.0
    for j in range(point.shape[0]):
        squared += (point[j] - centre[j]) ** 2
    if squared > radius * radius:
        factor = radius / math.sqrt(squared)
        for j in range(point.shape[0]):
            point[j] = centre[j] + factor * (point[j] - centre[j])


@compiled_part
def _threshold(point: Vector, total: float) -> float:
    """Return tau with sum_j [point_j - tau]_+ = total: Newton's method from below, at most p steps and mostly five."""
    size = point.shape[0]
    tau = -total
    for j in range(size):
        tau += point[j]
    tau /= size
    active = size
    while True:
        above, n_above = -total, 0
        for j in range(size):
            if point[j] > tau:
                above += point[j]
                n_above += 1
        # rounding may leave none above when one coordinate holds all of the total, and more than before about zeros
        if n_above == 0 or n_above >= active:
            return float(tau)
        tau = above / n_above
        active = n_above


@nested_row
def project_simplex(point: Vector, total: float) -> None:
    """Shift a point down to the simplex, in place."""
    tau = _threshold(point, total)
    for j in range(point.shape[0]):
        point[j] = max(point[j] - tau, 0.0)


@compiled_row
def project(point: Vector, region: CompiledSet) -> None:
    """Replace a point (p,) by the nearest one of the set, in place.

    Source of the simplex: Michelot, J. Optim. Theory Appl. 50, 1986: the threshold of the coordinates still above it.
    """
    if region.kind == BOX:
        project_box(point, region.low, region.high)
    elif region.kind == BALL:
        project_ball(point, region.low, region.size)
    else:
        project_simplex(point, region.size)


# Multipliers of linear constraints over a set: the point, its excess and the gap.
#
#     x(lambda) = P(c - A' lambda),   excess r = A x(lambda) - b,   0 <= lambda <= limit
#
# The gap of a step is a sum of terms that are at least 0: (limit - lambda) r where r > 0 and -lambda r elsewhere.

Matrix = NDArray[np.float64]

_ROUNDING: Final = 4.0 * 2.0**-52  # of a sum, relative to its terms

SQUARED: Final = 0  # where Work.numbers keeps ||c||^2 from the centre of the ball,
SCALE: Final = 1  # the factor that projects onto it,
LENGTH: Final = 2  # and the length of x


class ConstraintRows(NamedTuple):
    """Linear constraints matrix x <= bounds, and quantities of them that every step uses.

    matrix : (m, p);  bounds : (m,)
    centred : (m,) bounds less the products with the centre of the ball; the bounds for other sets
    gram : (m, m) matrix @ matrix';  lengths : (m,) of the rows
    """

    matrix: Matrix
    bounds: Vector
    centred: Vector
    gram: Matrix
    lengths: Vector


class StepBuffers(NamedTuple):
    """Buffers of a step, allocated once for all steps.

    multipliers, trial, excess, direction, products, limits : (m,);  hessian, packed : (m, m), (m, p)
    point, subgradient : (p,);  chosen : (m,) int64;  numbers : (3,);  regrets : (N,) of experts;  observed : (m,), or
        (1,) without constraints
    """

    multipliers: Vector
    trial: Vector
    excess: Vector
    direction: Vector
    products: Vector
    hessian: Matrix
    packed: Matrix
    point: Vector
    chosen: Integers
    numbers: Vector
    limits: Vector
    subgradient: Vector
    regrets: Vector
    observed: Vector


def make_rows(matrix: Matrix, bounds: Vector, region: CompiledSet) -> ConstraintRows:
    """Return the rows of linear constraints over a set, copies that rounds may overwrite."""
    matrix, bounds = np.array(matrix, dtype=np.float64, order="C"), np.array(bounds, dtype=np.float64)
    centred = bounds - matrix @ region.low if region.kind == BALL else bounds.copy()
    return ConstraintRows(matrix, bounds, centred, matrix @ matrix.T, np.linalg.norm(matrix, axis=1))


def make_work(n_rows: int, dimension: int, n_experts: int = 1) -> StepBuffers:
    """Return buffers for steps with n_rows constraints in `dimension` coordinates, by n_experts experts."""
    return StepBuffers(
        multipliers=np.zeros(n_rows),
        trial=np.zeros(n_rows),
        excess=np.zeros(n_rows),
        direction=np.zeros(n_rows),
        products=np.zeros(n_rows),
        hessian=np.zeros((n_rows, n_rows)),
        packed=np.zeros((n_rows, dimension)),
        point=np.zeros(dimension),
        chosen=np.zeros(n_rows, dtype=np.int64),
        numbers=np.zeros(3),
        limits=np.zeros(n_rows),
        subgradient=np.zeros(dimension),
        regrets=np.zeros(n_experts),
        observed=np.zeros(max(n_rows, 1)),
    )


@compiled_part
def _add_rows(out: Vector, start: Vector, matrix: Matrix, weights: Vector, sign: float) -> None:
    """Write start + sign matrix' weights into out (p,)."""
    for j in range(out.shape[0]):
        out[j] = start[j]
    for i in range(weights.shape[0]):
        weight = sign * weights[i]
        if weight != 0.0:
            for j in range(out.shape[0]):
                out[j] += weight * matrix[i, j]


@compiled_row_sum
def excesses(out: Vector, point: Vector, matrix: Matrix, bounds: Vector) -> None:
    """Write matrix @ point - bounds into out (m,)."""
    for i in range(out.shape[0]):
        product = 0.0
        for j in range(point.shape[0]):
            product += matrix[i, j] * point[j]
        out[i] = product - bounds[i]


@nested_row_sum
def _length(point: Vector) -> float:
    squared = 0.0
    for j in range(point.shape[0]):
        squared += point[j] * point[j]
    return math.sqrt(squared)


@compiled_part
def _evaluate_ball(work: StepBuffers, multipliers: Vector, rows: ConstraintRows, radius: float) -> None:
    """Write the excess, with work.products = A (c - centre) and ||c - centre||^2 alone: O(m) for each that is not 0."""
    excess, products, squared = work.excess, work.products, work.numbers[SQUARED]
    for i in range(multipliers.shape[0]):
        excess[i] = 0.0
    for k in range(multipliers.shape[0]):
        factor = multipliers[k]
        if factor != 0.0:
            for i in range(multipliers.shape[0]):
                excess[i] += rows.gram[k, i] * factor
    for i in range(multipliers.shape[0]):
        if multipliers[i] != 0.0:
            squared += multipliers[i] * (excess[i] - 2.0 * products[i])
    scale = 1.0
    if squared > radius * radius:
        scale = radius / math.sqrt(squared)
    work.numbers[SCALE] = scale
    work.numbers[LENGTH] = radius
    for i in range(multipliers.shape[0]):
        excess[i] = scale * (products[i] - excess[i]) - rows.centred[i]


@nested_row
def evaluate(
    work: StepBuffers, multipliers: Vector, shifted: Vector, rows: ConstraintRows, region: CompiledSet
) -> None:
    """Write x(multipliers) into work.point (not for a ball) and its excess into work.excess."""
    if region.kind == BALL:
        _evaluate_ball(work, multipliers, rows, region.size)
    else:
        _add_rows(work.point, shifted, rows.matrix, multipliers, -1.0)
        if region.kind == BOX:
            project_box(work.point, region.low, region.high)
        else:
            project_simplex(work.point, region.size)
        excesses(work.excess, work.point, rows.matrix, rows.bounds)
        work.numbers[LENGTH] = _length(work.point)


@nested_step
def gap_term(excess: float, size: float, multiplier: float, limit: float) -> float:
    """Return a row's part of the gap, 0 if its excess is no more than the rounding of a sum of terms of this size."""
    if (multiplier == 0.0 and excess <= 0.0) or abs(excess) <= _ROUNDING * size:
        return 0.0
    return float(max((limit - multiplier) * excess, -multiplier * excess))


@nested_step
def gap_of(work: StepBuffers, rows: ConstraintRows, limits: Vector) -> float:
    """Return the duality gap."""
    excess, multipliers, lengths, centred = work.excess, work.multipliers, rows.lengths, rows.centred
    gap, length = 0.0, work.numbers[LENGTH]
    for i in range(limits.shape[0]):
        gap += gap_term(excess[i], lengths[i] * length + abs(centred[i]), multipliers[i], limits[i])
    return gap


@compiled_row
def quadratic_subgradient(out: Vector, point: Vector, linear: Vector, curvature: float) -> None:
    """Write 2 curvature x + linear, the gradient of curvature ||x||^2 + <linear, x>, into out (p,)."""
    for j in range(out.shape[0]):
        out[j] = 2.0 * curvature * point[j] + linear[j]


@compiled
def quadratic_values(out: Vector, points: Matrix, linear: Matrix, constant: Vector, curvature: float) -> None:
    """Write curvature ||x_t||^2 + <linear_t, x_t> + constant_t of every round into out (T,)."""
    for t in range(points.shape[0]):
        squared, product = 0.0, 0.0
        for j in range(points.shape[1]):
            squared += points[t, j] * points[t, j]
            product += linear[t, j] * points[t, j]
        out[t] = curvature * squared + product + constant[t]


# Newton's direction in the dual of a step.
#
# Where the projection's Jacobian is scale (D - s s'), the second derivative is -scale (A D A' - (A s)(A s)'). Rows
# may be parallel, or nearly: the system is regularised by 1e-13 of its largest row.

_REGULARISER: Final = 1e-13


@nested_row
def _is_free(point: Vector, region: CompiledSet, j: int) -> bool:
    if region.kind == BOX:
        return bool(region.low[j] < point[j] < region.high[j])
    return bool(point[j] > 0.0)


@nested_row_sum
def _pack(work: StepBuffers, rows: ConstraintRows, region: CompiledSet, count: int) -> tuple[int, bool]:
    """Gather the chosen rows' columns that are free, or those that are not if they are fewer.

    A column is free where the projection moves with what is projected. Returns how many, and whether they are the free.
    """
    point, packed, chosen = work.point, work.packed, work.chosen
    n_free = 0
    for j in range(point.shape[0]):
        n_free += _is_free(point, region, j)
    free = 2 * n_free <= point.shape[0] or region.kind != BOX
    n_packed = 0
    for j in range(point.shape[0]):
        if _is_free(point, region, j) == free:
            for a in range(count):
                packed[a, n_packed] = rows.matrix[chosen[a], j]
            n_packed += 1
    return n_packed, free


@nested_row_sum
def _fill_packed(work: StepBuffers, rows: ConstraintRows, n_packed: int, free: bool, box: bool, count: int) -> None:
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


@compiled_part
def _fill_hessian(work: StepBuffers, rows: ConstraintRows, region: CompiledSet, count: int) -> None:
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


@compiled_part
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


@compiled_part
def solve_newton(work: StepBuffers, rows: ConstraintRows, region: CompiledSet, count: int) -> None:
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


# A step in a box of the plane with up to three constraints, by enumeration.
#
# Every multiplier is 0, at its limit, or such that its row is met; at most two rows need be met at once, as the plane
# has two dimensions. What the multipliers lead to is a clipped point, the lowest point of a line or a vertex. Which
# of them is the solution shows in its duality gap, not in values that cancel.

Indices = NDArray[np.int64]

MOST_ROWS: Final = 3
ENOUGH: Final = 1e-18  # gap; ||x - x*|| is then at most 1.5e-9

_MET: Final = 1  # what a row's multiplier may be, beside 0
_FULL: Final = 2


@nested_row
def _gap_in_plane(
    point: Vector,
    multipliers: Vector,
    shifted: Vector,
    matrix: Matrix,
    bounds: Vector,
    region: CompiledSet,
    limits: Vector,
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


@compiled_part
def _meet_one(first: float, second: float, matrix: Matrix, bound: float, region: CompiledSet, k: int) -> float:
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


@compiled_part
def _meet_two(multipliers: Vector, first: float, second: float, matrix: Matrix, bounds: Vector, k: int, n: int) -> None:
    """Write the multipliers that meet rows k and n from a point: no numbers if they are parallel."""
    a, b, c, d = matrix[k, 0], matrix[k, 1], matrix[n, 0], matrix[n, 1]
    determinant = a * d - b * c
    first -= (bounds[k] * d - b * bounds[n]) / determinant
    second -= (a * bounds[n] - bounds[k] * c) / determinant
    multipliers[k] = (d * first - c * second) / determinant
    multipliers[n] = (a * second - b * first) / determinant


@compiled_part
def _advance(choice: Indices, limits: Vector) -> bool:
    """Go to the next choice (m,) of 0, met or full, as a counter counts; False after the last one."""
    for i in range(limits.shape[0]):
        if choice[i] < _FULL and limits[i] > 0.0:
            choice[i] += 1
            return True
        choice[i] = 0
    return False


@compiled_part
def _choose_in_plane(
    multipliers: Vector,
    choice: Indices,
    shifted: Vector,
    matrix: Matrix,
    bounds: Vector,
    region: CompiledSet,
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


@compiled_part
def step_in_plane(
    work: StepBuffers, shifted: Vector, rows: ConstraintRows, region: CompiledSet, limits: Vector
) -> float:
    """Write a step's multipliers (m,) and its point into work, as `maximise_dual` does; return the gap.

    For boxes of the plane and up to MOST_ROWS rows. A gap above ENOUGH: rows are so nearly parallel that none of the
    choices could be computed well enough.
    """
    point, multipliers, choice, matrix, bounds = work.point, work.multipliers, work.chosen, rows.matrix, rows.bounds
    for i in range(limits.shape[0]):
        multipliers[i], choice[i] = 0.0, 0
    gap = _gap_in_plane(point, multipliers, shifted, matrix, bounds, region, limits)
    while gap > ENOUGH and _advance(choice, limits):
        if _choose_in_plane(multipliers, choice, shifted, matrix, bounds, region, limits):
            gap = _gap_in_plane(point, multipliers, shifted, matrix, bounds, region, limits)
    return gap


# The dual of a step, solved by Newton's method on its active constraints.
#
#     step:  min over x in X of  1/2 ||x - c||^2 + sum_i limit_i [a_i x - b_i]_+
#     dual:  max over 0 <= lambda <= limit of  min over x in X of  1/2 ||x - c||^2 + lambda' (A x - b)
#
# The dual is concave and its gradient is the excess r. A step to lambda + d cannot lower it if d' r is not negative
# where it ends: no values are ever compared, so nothing cancels. First all rows move at once, clipped to their
# bounds; where that does not rise, or does not end, the faces of the bounds are walked one by one, as a finite
# active-set method does.

_PLAIN_STEPS: Final = 4  # for every row, before faces are walked one by one

ALL: Final = 0  # ways to take a Newton step: in all rows that may move,
LEAVE: Final = 1  # in those inside their bounds and one more,
STAY: Final = 2  # or in those inside alone


@nested_step
def _slope(work: StepBuffers) -> float:
    """Return excess' direction."""
    slope = 0.0
    for i in range(work.excess.shape[0]):
        if work.direction[i] != 0.0:
            slope += work.excess[i] * work.direction[i]
    return slope


@compiled_part
def _rise(work: StepBuffers, shifted: Vector, rows: ConstraintRows, region: CompiledSet) -> bool:
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


@compiled_part
def _open(work: StepBuffers, limit: float, i: int) -> bool:
    """Return whether row i's multiplier may move: inside its bounds, or on one that its excess points away from."""
    multiplier, excess = work.multipliers[i], work.excess[i]
    return limit > 0.0 and (multiplier > 0.0 or excess > 0.0) and (multiplier < limit or excess < 0.0)


@nested_step
def _choose(work: StepBuffers, rows: ConstraintRows, limits: Vector, way: int) -> int:
    """Choose the rows to move, with the trial where the multipliers are; return how many.

    ALL that may move; or those inside their bounds and, to LEAVE their face, the one on a bound with the largest gap.
    """
    count, best, worst = 0, -1, 0.0
    for i in range(limits.shape[0]):
        work.trial[i] = work.multipliers[i]
    for i in range(limits.shape[0]):
        if (way == ALL and _open(work, limits[i], i)) or (way != ALL and 0.0 < work.multipliers[i] < limits[i]):
            work.chosen[count] = i
            count += 1
        elif way == LEAVE:
            size = rows.lengths[i] * work.numbers[LENGTH] + abs(rows.centred[i])
            own = gap_term(work.excess[i], size, work.multipliers[i], limits[i])
            if own > worst:
                best, worst = i, own
    if best >= 0:
        work.chosen[count] = best
        count += 1
    return count


@compiled_part
def _move_trial(work: StepBuffers, limits: Vector, way: int, count: int) -> None:
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


@nested_step
def _newton_step(
    work: StepBuffers, shifted: Vector, rows: ConstraintRows, region: CompiledSet, limits: Vector, way: int
) -> bool:
    """Take a Newton step one way; False, and nowhere, if the dual does not rise."""
    count = _choose(work, rows, limits, way)
    if count == 0:
        return False
    solve_newton(work, rows, region, count)
    _move_trial(work, limits, way, count)
    return _rise(work, shifted, rows, region)


@compiled_row
def maximise_dual(
    work: StepBuffers, shifted: Vector, rows: ConstraintRows, region: CompiledSet, limits: Vector
) -> float:
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


# One step of the proximal methods.
#
#     x_t = argmin over x in X of  alpha <grad, x> + alpha gamma <q, [A x - b]_+> + ||x - x_{t-1}||^2
#
# is, with c = x_{t-1} - alpha grad / 2 and limits alpha gamma q / 2, the problem above.


@nested_row_sum
def _enter_ball(work: StepBuffers, point: Vector, matrix: Matrix, centre: Vector) -> None:
    """Take the centre off point in place, and note its products with the rows and its squared length."""
    squared = 0.0
    for j in range(point.shape[0]):
        point[j] -= centre[j]
        squared += point[j] * point[j]
    work.numbers[SQUARED] = squared
    for i in range(matrix.shape[0]):
        product = 0.0
        for j in range(point.shape[0]):
            product += matrix[i, j] * point[j]
        work.products[i] = product


@nested_row_sum
def _leave_ball(point: Vector, work: StepBuffers, matrix: Matrix, region: CompiledSet) -> None:
    """Replace the point by centre + scale (point - matrix' multipliers), never outside the ball."""
    _add_rows(point, point, matrix, work.multipliers, -1.0)
    squared = 0.0
    for j in range(point.shape[0]):
        squared += point[j] * point[j]
    scale = 1.0
    if squared > region.size * region.size:  # measured on the point itself: the dual's own figure has its rounding
        scale = region.size / math.sqrt(squared)
    for j in range(point.shape[0]):
        point[j] = region.low[j] + scale * point[j]


@compiled_row
def proximal_step(point: Vector, work: StepBuffers, rows: ConstraintRows, region: CompiledSet, limits: Vector) -> float:
    """Replace c (p,) by argmin over x in X of 1/2 ||x - c||^2 + limits' [A x - b]_+, in place.

    limits : (m,) >= 0. Returns the duality gap: the squared distance to the solution is at most twice as much.
    """
    if region.kind == BALL:
        _enter_ball(work, point, rows.matrix, region.low)
    gap = math.inf
    if region.kind == BOX and point.shape[0] == 2 and limits.shape[0] <= MOST_ROWS:
        gap = step_in_plane(work, point, rows, region, limits)
    if gap > ENOUGH:
        gap = maximise_dual(work, point, rows, region, limits)
    if region.kind == BALL:
        _leave_ball(point, work, rows.matrix, region)
    else:
        for j in range(point.shape[0]):
            point[j] = work.point[j]
    return gap


# Prices of the constraints in a round, by the rule of each method.
#
# A rule moves the dual of a point (a queue, multipliers, or sums) by the excess of the constraints there. Proximal
# rules price the violation of the next point; the others weigh the constraints in a gradient step.

CLIPPED: Final = 0  # proximal: Algorithm 1 of Yi et al.,
RECTIFIED: Final = 1  # RECOO,
PROJECTED: Final = 2  # and experts that project onto the constraints
QUEUE: Final = 3  # gradient steps: Yu & Neely,
PENALTY: Final = 4  # Yuan & Lamperski,
ASCENT: Final = 5  # Mahdavi et al., Jenatton et al.,
SURROGATE: Final = 6  # Sinha & Vaze, whose dual is the queue and the sum of the squares,
SQUARED_SURROGATE: Final = 7  # or the queue alone, for strongly convex losses,
DRIFT: Final = 8  # Yu, Neely & Wei,
FEASIBILITY: Final = 9  # and Polyak feasibility steps

PROJECTION_PRICE: Final = 1e6  # far more than a projection needs unless rows are nearly parallel


@nested_step
def lengthen_queue(queue: Vector, limits: Vector, excess: Vector, penalty: float, price: float) -> None:
    """Add clipped violations to the queue (m,) in place, and write the limits (m,) of the step.

    q_t = q_{t-1} + gamma_t [g(x)]_+,   q-hat = q_t + gamma_t [g(x)]_+,   limits = price q-hat

    Source: Yi et al., ICML 2021, Algorithm 1, equations (10) and (11).
    """
    for i in range(excess.shape[0]):
        clipped = penalty * max(excess[i], 0.0)
        queue[i] += clipped
        limits[i] = price * (queue[i] + clipped)


@nested_step
def rectify_queue(queue: Vector, limits: Vector, excess: Vector, penalty: float, floor: float, step: float) -> None:
    """Add clipped violations to the queue (m,) in place, at least to the floor, and write the limits (m,) of the step.

    Q_t = max(Q_{t-1} + gamma_t [g(x)]_+, eta_t),   limits = step gamma_t Q_t

    Source: Guo, Liu, Wei & Ying, NeurIPS 2022, Algorithm 1 (RECOO).
    """
    for i in range(excess.shape[0]):
        queue[i] = max(queue[i] + penalty * max(excess[i], 0.0), floor)
        limits[i] = step * penalty * queue[i]


@compiled_row
def price_constraints(
    limits: Vector, dual: Vector, excess: Vector, rule: int, step: float, second: float, third: float
) -> None:
    """Write limits of the step, or weights of the constraints (m,), and move the dual in place; g is the excess.

    CLIPPED: see `lengthen_queue`; gamma_t, gamma_{t+1} are second and third
    RECTIFIED: see `rectify_queue`; gamma_t, eta_t are second and third
    QUEUE: q <- max(-d g, q + d g) unless second = 0, weight d (q + d g), d = third
    PENALTY: weight [g]_+ / second, kept as the multiplier
    ASCENT: weight q, then q <- [q + third (g - second q)]_+
    SURROGATE: q <- q + step [max g]_+, weight second exp(second q) of the most violated constraint
    SQUARED_SURROGATE: q <- q + [max g]_+, weight second q of the most violated constraint
    DRIFT: weight q / second; the queue moves after the step
    """
    if rule == CLIPPED:
        lengthen_queue(dual, limits, excess, second, 0.5 * step * third)
        return
    if rule == RECTIFIED:
        rectify_queue(dual, limits, excess, second, third, 0.5 * step)
        return
    worst = 0
    for i in range(excess.shape[0]):
        if excess[i] > excess[worst]:
            worst = i
        if rule == PROJECTED:
            limits[i] = PROJECTION_PRICE
        elif rule == QUEUE:
            scaled = third * excess[i]
            if second > 0.0:
                dual[i] = max(-scaled, dual[i] + scaled)
            limits[i] = third * (dual[i] + scaled)
        elif rule == PENALTY:
            dual[i] = max(0.0, excess[i]) / second
            limits[i] = dual[i]
        elif rule == ASCENT:
            limits[i] = dual[i]
            dual[i] = max(0.0, dual[i] + third * (excess[i] - second * dual[i]))
        elif rule == DRIFT:
            limits[i] = dual[i] / second
        else:
            limits[i] = 0.0
    if rule == SURROGATE and excess[worst] > 0.0:
        dual[0] += step * excess[worst]
        limits[worst] = second * math.exp(second * dual[0])
    elif rule == SQUARED_SURROGATE and excess[worst] > 0.0:
        dual[0] += excess[worst]
        limits[worst] = second * dual[0]


@compiled_part
def adaptive_step(dual: Vector, slope: Vector, scale: float, reach: float) -> float:
    """Add the squared length of scale slope to dual[1] in place; return reach scale over the root of the sum.

    It is 0 where the sum is 0.
    """
    for j in range(slope.shape[0]):
        along = scale * slope[j]
        dual[1] += along * along
    return reach * scale / math.sqrt(dual[1]) if dual[1] > 0.0 else 0.0


@compiled_part
def feasibility_step(point: Vector, excess: Vector, rows: ConstraintRows, tightening: float) -> None:
    """Move a point in place onto the half-space of the constraint with the largest excess (m,), tightened.

    x <- x - [<s, x> - b + rho]_+ / ||s||^2 s

    Source: Hutchinson & Alizadeh, ICML 2025, Algorithm 1.
    """
    worst = 0
    for i in range(excess.shape[0]):
        if excess[i] > excess[worst]:
            worst = i
    product, squared = 0.0, 0.0
    for j in range(point.shape[0]):
        product += rows.matrix[worst, j] * point[j]
        squared += rows.matrix[worst, j] * rows.matrix[worst, j]
    over = product - rows.bounds[worst] + tightening
    if over > 0.0 and squared > 0.0:
        for j in range(point.shape[0]):
            point[j] -= over / squared * rows.matrix[worst, j]


@compiled_part
def play_round(
    point: Vector,
    dual: Vector,
    work: StepBuffers,
    subgradient: Vector,
    rows: ConstraintRows,
    region: CompiledSet,
    rule: int,
    numbers: Vector,
) -> float:
    """Learn a round in place: point (p,) and dual; numbers (3,) of the rule. Returns the duality gap of the step."""
    excesses(work.excess, point, rows.matrix, rows.bounds)
    size, limits = numbers[0], work.limits
    price_constraints(limits, dual, work.excess, rule, size, numbers[1], numbers[2])
    if rule <= PROJECTED:
        half = size if rule == PROJECTED else 0.5 * size
        for j in range(point.shape[0]):
            point[j] -= half * subgradient[j]
        return proximal_step(point, work, rows, region, limits)
    slope = work.point
    _add_rows(slope, subgradient, rows.matrix, limits, 1.0)
    if rule == SURROGATE:
        size = adaptive_step(dual, slope, size, numbers[2])
    for j in range(point.shape[0]):
        point[j] -= size * slope[j]
    if rule == FEASIBILITY:
        feasibility_step(point, work.excess, rows, numbers[1])
    project(point, region)
    if rule == DRIFT:
        excesses(work.excess, point, rows.matrix, rows.bounds)
        for i in range(dual.shape[0]):
            dual[i] = max(dual[i] + work.excess[i], 0.0)
    return 0.0


# Losses and constraints of the rounds, as arrays or as functions.


class RoundArrays(NamedTuple):
    """Losses and constraints of n rounds: arrays, or addresses of functions in this process.

    linear, curvature : (n, p) of quadratic losses
    matrices, bounds : (n, m, p) and (n, m) of linear constraints that change; (0, m, p) and (0, m) where they do not
    loss, constraint : for `call_oracle`, 0 for none
    """

    linear: Matrix
    curvature: float
    matrices: Doubles
    bounds: Matrix
    loss: int
    constraint: int


@compiled_part
def load_rows(rows: ConstraintRows, matrix: Matrix, bounds: Vector, region: CompiledSet) -> None:
    """Overwrite rows by linear constraints (m, p) and (m,)."""
    for i in range(bounds.shape[0]):
        rows.bounds[i] = bounds[i]
        rows.centred[i] = bounds[i]
        for j in range(matrix.shape[1]):
            rows.matrix[i, j] = matrix[i, j]
            if region.kind == BALL:
                rows.centred[i] -= matrix[i, j] * region.low[j]
        for k in range(i + 1):
            product = 0.0
            for j in range(matrix.shape[1]):
                product += matrix[i, j] * matrix[k, j]
            rows.gram[i, k] = product
            rows.gram[k, i] = product
        rows.lengths[i] = math.sqrt(rows.gram[i, i])


@compiled_part
def observe_loss(out: Vector, point: Vector, work: StepBuffers, rounds: RoundArrays, t: int) -> bool:
    """Write the subgradient of a round's loss at a point (p,) into out; return whether all numbers are finite."""
    if rounds.loss == 0:
        quadratic_subgradient(out, point, rounds.linear[t], rounds.curvature)
        return True
    call_oracle(rounds.loss, t, point, work.observed[:1], out)
    total = work.observed[0]
    for j in range(out.shape[0]):
        total += out[j]
    return math.isfinite(total)


@compiled_part
def observe_constraints(rows: ConstraintRows, point: Vector, work: StepBuffers, address: int, t: int) -> bool:
    """Overwrite matrix and bounds of rows by the constraints linearised at a point; return whether all is finite.

    Gram matrix, lengths and centred bounds are not written: gradient steps do not read them.
    """
    call_oracle(address, t, point, work.observed, rows.matrix)
    excesses(rows.bounds, point, rows.matrix, work.observed)  # <s, x> - g(x)
    total = 0.0
    for i in range(rows.bounds.shape[0]):
        total += rows.bounds[i]
    return math.isfinite(total)


@compiled_row
def mix_experts(point: Vector, experts: Matrix, weights: Vector) -> None:
    """Write the weighted sum of the experts' points (N, p) into point (p,): equation (34)."""
    for j in range(point.shape[0]):
        point[j] = weights[0] * experts[0, j]
        for i in range(1, weights.shape[0]):
            point[j] += weights[i] * experts[i, j]


def first_weights(n_experts: int) -> Vector:
    """Return w_{i,1} = (N + 1) / (i (i + 1) N), (N,), which add up to 1."""
    at = np.arange(1.0, n_experts + 1.0)
    return (n_experts + 1.0) / (at * (at + 1.0) * n_experts)


@compiled_row
def weigh_experts(
    weights: Vector, regrets: Vector, experts: Matrix, point: Vector, subgradient: Vector, rate: float
) -> None:
    """Multiply every weight (N,) by exp(-rate l) and scale to sum 1, in place; l is <subgradient, x_i - x>, (32)-(33).

    regrets (N,) is scratch. The least l is taken off first: the best expert's weight cannot underflow.
    """
    least = math.inf
    for i in range(weights.shape[0]):
        regrets[i] = 0.0
        for j in range(point.shape[0]):
            regrets[i] += subgradient[j] * (experts[i, j] - point[j])
        least = min(least, regrets[i])
    total = 0.0
    for i in range(weights.shape[0]):
        weights[i] *= math.exp(-rate * (regrets[i] - least))
        total += weights[i]
    for i in range(weights.shape[0]):
        weights[i] /= total


@compiled_row
def play_rounds(
    points: Matrix,
    experts: Matrix,
    duals: Matrix,
    weights: Vector,
    work: StepBuffers,
    rounds: RoundArrays,
    rows: ConstraintRows,
    region: CompiledSet,
    rule: int,
    schedule: Doubles,
    rate: float,
) -> float:
    """Write the points of all rounds (T, p); experts (N, p), duals (N, k) and weights (N,) change in place.

    rows : of the constraints, overwritten where they change;  schedule : (N, T, 3), the numbers of the rule, by expert
    and round;  rate : of the experts' weights
    Returns the largest duality gap of a step, or -1 - t if a function returns no finite numbers in round t. One expert,
    whose weight stays exactly 1, is the method itself.

    Source: Yi et al., ICML 2021, Algorithm 2; with one expert Algorithm 1.
    """
    largest, subgradient = 0.0, work.subgradient
    mix_experts(points[0], experts, weights)
    for t in range(points.shape[0] - 1):
        if not observe_loss(subgradient, points[t], work, rounds, t):
            return -1.0 - t
        if rounds.bounds.shape[0] > 0:
            load_rows(rows, rounds.matrices[t], rounds.bounds[t], region)
        if weights.shape[0] > 1:
            weigh_experts(weights, work.regrets, experts, points[t], subgradient, rate)
        for i in range(weights.shape[0]):
            if rounds.constraint != 0 and not observe_constraints(rows, experts[i], work, rounds.constraint, t):
                return -1.0 - t
            gap = play_round(experts[i], duals[i], work, subgradient, rows, region, rule, schedule[i, t])
            largest = max(largest, gap)
        mix_experts(points[t + 1], experts, weights)
    return largest
