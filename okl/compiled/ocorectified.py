"""Rounds of a rectified queue, and of experts that project onto the constraints: both on the compiled step."""

from __future__ import annotations

from okl.compiled.door import compiled
from okl.compiled.ocolosses import quadratic_subgradient
from okl.compiled.ocorounds import mix_experts, weigh_experts
from okl.compiled.ocorows import Matrix, Rows, Vector, Work, excesses
from okl.compiled.ocosteps import step
from okl.compiled.regions import Region


@compiled
def rectified_round(
    point: Vector,
    queue: Vector,
    limits: Vector,
    work: Work,
    subgradient: Vector,
    rows: Rows,
    region: Region,
    step_size: float,
    penalty: float,
    least: float,
) -> float:
    """Learn a round in place: point (p,) and queue (m,); limits (m,) are scratch. Returns the duality gap.

    Q <- max(Q + gamma [g(x)]_+, least), then argmin of <grad, x> + gamma Q'[g(x)]_+ + ||x - x_t||^2 / step_size
    """
    excesses(work.excess, point, rows.matrix, rows.bounds)
    for i in range(queue.shape[0]):
        queue[i] = max(queue[i] + penalty * max(work.excess[i], 0.0), least)
        limits[i] = 0.5 * step_size * penalty * queue[i]
    for j in range(point.shape[0]):
        point[j] -= 0.5 * step_size * subgradient[j]
    return step(point, work, rows, region, limits)


@compiled
def run_rectified(
    points: Matrix,
    queue: Vector,
    limits: Vector,
    subgradient: Vector,
    work: Work,
    linear: Matrix,
    rows: Rows,
    region: Region,
    schedule: Matrix,
    curvature: float,
) -> None:
    """Write the points of all rounds (T, p), the first of which is given; schedule (3, T): step, penalty, least queue.

    queue, limits (m,) and subgradient (p,) are changed in place.
    """
    for t in range(points.shape[0] - 1):
        quadratic_subgradient(subgradient, points[t], linear[t], curvature)
        points[t + 1] = points[t]
        size, penalty, least = schedule[0, t], schedule[1, t], schedule[2, t]
        rectified_round(points[t + 1], queue, limits, work, subgradient, rows, region, size, penalty, least)


@compiled
def project_experts(
    experts: Matrix, work: Work, subgradient: Vector, rows: Rows, region: Region, limits: Vector, step_sizes: Vector
) -> None:
    """Move every expert (N, p) against the subgradient and project it onto set and constraints, in place.

    limits : (m,) prices so high that no constraint is worth violating
    """
    for i in range(experts.shape[0]):
        for j in range(experts.shape[1]):
            experts[i, j] -= step_sizes[i] * subgradient[j]
        step(experts[i], work, rows, region, limits)


@compiled
def run_projected(
    points: Matrix,
    experts: Matrix,
    weights: Vector,
    regrets: Vector,
    subgradient: Vector,
    work: Work,
    linear: Matrix,
    rows: Rows,
    region: Region,
    limits: Vector,
    step_sizes: Vector,
    curvature: float,
    rate: float,
) -> None:
    """Write the points of all rounds (T, p); experts (N, p) and weights (N,) change in place."""
    mix_experts(points[0], experts, weights)
    for t in range(points.shape[0] - 1):
        quadratic_subgradient(subgradient, points[t], linear[t], curvature)
        weigh_experts(weights, regrets, experts, points[t], subgradient, rate)
        project_experts(experts, work, subgradient, rows, region, limits, step_sizes)
        mix_experts(points[t + 1], experts, weights)
