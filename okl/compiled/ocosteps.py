"""One step of online convex optimisation with long-term constraints, and one round of its method.

    x_t = argmin over x in X of  alpha <grad, x> + alpha gamma <q, [A x - b]_+> + ||x - x_{t-1}||^2

is, with c = x_{t-1} - alpha grad / 2 and limits alpha gamma q / 2, the problem of `ocodual`.
"""

from __future__ import annotations

import math

from okl.compiled.door import compiled_row, compiled_row_sum
from okl.compiled.ocodual import maximise_dual
from okl.compiled.ocoplane import ENOUGH, MOST_ROWS, step_in_plane
from okl.compiled.ocorows import SQUARED, Matrix, Rows, Vector, Work, excesses
from okl.compiled.regions import BALL, BOX, Region


@compiled_row_sum
def _enter_ball(work: Work, point: Vector, matrix: Matrix, centre: Vector) -> None:
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


@compiled_row_sum
def _leave_ball(point: Vector, work: Work, matrix: Matrix, region: Region) -> None:
    """Replace the point by centre + scale (point - matrix' multipliers), never outside the ball."""
    for i in range(matrix.shape[0]):
        factor = work.multipliers[i]
        if factor != 0.0:
            for j in range(point.shape[0]):
                point[j] -= factor * matrix[i, j]
    squared = 0.0
    for j in range(point.shape[0]):
        squared += point[j] * point[j]
    scale = 1.0
    if squared > region.size * region.size:  # measured on the point itself: the dual's own figure has its rounding
        scale = region.size / math.sqrt(squared)
    for j in range(point.shape[0]):
        point[j] = region.low[j] + scale * point[j]


@compiled_row
def step(point: Vector, work: Work, rows: Rows, region: Region, limits: Vector) -> float:
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


@compiled_row
def learn_round(
    point: Vector,
    queue: Vector,
    limits: Vector,
    work: Work,
    subgradient: Vector,
    rows: Rows,
    region: Region,
    step_size: float,
    penalty: float,
    next_penalty: float,
) -> float:
    """Learn a round in place: queue q_{t-1} (m,) and point x_{t-1} (p,) become q_t and x_t; limits (m,) are scratch.

    Returns the duality gap of the step.

        q_t = q_{t-1} + gamma_t [g(x)]_+,   q-hat = q_t + gamma_t [g(x)]_+,   then the step with gamma_{t+1} and q-hat

    Source: Yi et al., ICML 2021, Algorithm 1, equations (10)-(12).
    """
    excesses(work.excess, point, rows.matrix, rows.bounds)
    for i in range(queue.shape[0]):
        clipped = penalty * max(work.excess[i], 0.0)
        queue[i] += clipped
        limits[i] = 0.5 * step_size * next_penalty * (queue[i] + clipped)
    for j in range(point.shape[0]):
        point[j] -= 0.5 * step_size * subgradient[j]
    return step(point, work, rows, region, limits)
