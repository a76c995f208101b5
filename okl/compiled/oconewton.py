"""Newton's direction in the dual of a step: the second derivative over some rows, and its Cholesky factor.

Where the projection's Jacobian is scale (D - s s'), the second derivative is -scale (A D A' - (A s)(A s)'). Rows may be
parallel, or nearly: the system is regularised by 1e-13 of its largest row.
"""

from __future__ import annotations

import math
from typing import Final

from okl.compiled.door import compiled_row, compiled_row_sum
from okl.compiled.ocorows import SCALE, Matrix, Rows, Vector, Work
from okl.compiled.regions import BALL, BOX, Region

_REGULARISER: Final = 1e-13


@compiled_row
def _is_free(point: Vector, region: Region, j: int) -> bool:
    if region.kind == BOX:
        return bool(region.low[j] < point[j] < region.high[j])
    return bool(point[j] > 0.0)


@compiled_row_sum
def _pack(work: Work, rows: Rows, region: Region, count: int) -> tuple[int, bool]:
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


@compiled_row_sum
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


@compiled_row
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


@compiled_row
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


@compiled_row
def solve_newton(work: Work, rows: Rows, region: Region, count: int) -> None:
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
