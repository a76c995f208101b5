"""All rounds of Algorithms 1 and 2 on quadratic losses, and one round of Algorithm 2's experts."""

from __future__ import annotations

import math

from okl.compiled.door import compiled_row
from okl.compiled.ocolosses import quadratic_subgradient
from okl.compiled.ocorows import Matrix, Rows, Vector, Work
from okl.compiled.ocosteps import learn_round
from okl.compiled.regions import Region


@compiled_row
def mix_experts(point: Vector, experts: Matrix, weights: Vector) -> None:
    """Write the weighted sum of the experts' points (N, p) into point (p,): equation (34)."""
    for j in range(point.shape[0]):
        point[j] = weights[0] * experts[0, j]
        for i in range(1, weights.shape[0]):
            point[j] += weights[i] * experts[i, j]


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
def run_experts(
    points: Matrix,
    experts: Matrix,
    queues: Matrix,
    weights: Vector,
    regrets: Vector,
    limits: Vector,
    subgradient: Vector,
    work: Work,
    linear: Matrix,
    rows: Rows,
    region: Region,
    step_sizes: Matrix,
    penalties: Matrix,
    curvature: float,
    rate: float,
) -> float:
    """Write the points of all rounds into points (T, p); experts (N, p), queues (N, m), weights (N,) change in place.

    regrets (N,), limits (m,) and subgradient (p,) are scratch; step_sizes (N, T), penalties (N, T + 1). Returns the
    largest duality gap of a step. One expert, whose weight stays exactly 1, is Algorithm 1.

    Source: Yi et al., ICML 2021, Algorithms 1 and 2.
    """
    largest = 0.0
    mix_experts(points[0], experts, weights)
    for t in range(points.shape[0] - 1):
        quadratic_subgradient(subgradient, points[t], linear[t], curvature)
        weigh_experts(weights, regrets, experts, points[t], subgradient, rate)
        for i in range(experts.shape[0]):
            alpha, gamma, following = step_sizes[i, t], penalties[i, t], penalties[i, t + 1]
            gap = learn_round(experts[i], queues[i], limits, work, subgradient, rows, region, alpha, gamma, following)
            largest = max(largest, gap)
        mix_experts(points[t + 1], experts, weights)
    return largest
