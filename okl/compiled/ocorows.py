"""Multipliers of linear constraints over a set: the point that they lead to, its excess and the gap.

    x(lambda) = P(c - A' lambda),   excess r = A x(lambda) - b,   0 <= lambda <= limit

The gap of a step is a sum of terms that are at least 0: (limit - lambda) r where r > 0 and -lambda r elsewhere.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled_row, compiled_row_sum
from okl.compiled.regions import BALL, BOX, Region, project_box, project_simplex

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_ROUNDING: Final = 4.0 * 2.0**-52  # of a sum, relative to its terms

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

    multipliers, trial, excess, direction, products : (m,);  hessian, packed : (m, m), (m, p)
    point : (p,);  chosen : (m,) int64;  numbers : (3,)
    """

    multipliers: Vector
    trial: Vector
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
    centred = (bounds - matrix @ region.low if region.kind == BALL else bounds).view()
    centred.setflags(write=False)  # as bounds are: compiled code is made once for all sets
    return Rows(matrix, bounds, centred, matrix @ matrix.T, np.linalg.norm(matrix, axis=1))


def make_work(n_rows: int, dimension: int) -> Work:
    """Return room for steps with so many rows in so many dimensions."""
    return Work(
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
    )


@compiled_row_sum
def _pull(point: Vector, shifted: Vector, multipliers: Vector, matrix: Matrix) -> None:
    """Write shifted - matrix' multipliers into point (p,)."""
    for j in range(point.shape[0]):
        point[j] = shifted[j]
    for i in range(multipliers.shape[0]):
        factor = multipliers[i]
        if factor != 0.0:
            for j in range(point.shape[0]):
                point[j] -= factor * matrix[i, j]


@compiled_row_sum
def excesses(out: Vector, point: Vector, matrix: Matrix, bounds: Vector) -> None:
    """Write matrix @ point - bounds into out (m,)."""
    for i in range(out.shape[0]):
        product = 0.0
        for j in range(point.shape[0]):
            product += matrix[i, j] * point[j]
        out[i] = product - bounds[i]


@compiled_row_sum
def _length(point: Vector) -> float:
    squared = 0.0
    for j in range(point.shape[0]):
        squared += point[j] * point[j]
    return math.sqrt(squared)


@compiled_row
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


@compiled_row
def evaluate(work: Work, multipliers: Vector, shifted: Vector, rows: Rows, region: Region) -> None:
    """Write x(multipliers) into work.point (not for a ball) and its excess into work.excess."""
    if region.kind == BALL:
        _evaluate_ball(work, multipliers, rows, region.size)
    else:
        _pull(work.point, shifted, multipliers, rows.matrix)
        if region.kind == BOX:
            project_box(work.point, region.low, region.high)
        else:
            project_simplex(work.point, region.size)
        excesses(work.excess, work.point, rows.matrix, rows.bounds)
        work.numbers[LENGTH] = _length(work.point)


@compiled_row
def gap_term(excess: float, size: float, multiplier: float, limit: float) -> float:
    """Return a row's part of the gap, 0 if its excess is no more than the rounding of a sum of terms of this size."""
    if abs(excess) <= _ROUNDING * size:
        return 0.0
    return float(max((limit - multiplier) * excess, -multiplier * excess))


@compiled_row
def term(work: Work, rows: Rows, limit: float, i: int) -> float:
    """Return row i's part of the gap."""
    size = rows.lengths[i] * work.numbers[LENGTH] + abs(rows.centred[i])
    return float(gap_term(work.excess[i], size, work.multipliers[i], limit))


@compiled_row
def gap_of(work: Work, rows: Rows, limits: Vector) -> float:
    """Return the duality gap."""
    excess, multipliers, lengths, centred = work.excess, work.multipliers, rows.lengths, rows.centred
    gap, length = 0.0, work.numbers[LENGTH]
    for i in range(limits.shape[0]):
        gap += gap_term(excess[i], lengths[i] * length + abs(centred[i]), multipliers[i], limits[i])
    return gap
