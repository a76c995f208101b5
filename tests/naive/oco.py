"""Slow, obvious twins of the rounds of the earlier methods with long-term constraints, as their papers write them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from okl.compiled.oco import BALL, BOX, CompiledSet
from okl.papers import yi2021_printed as printed
from okl.solvers.oco.problem import LinearConstraints, Matrix, QuadraticLosses
from okl.solvers.oco.sets import Box, Vector

# Rounds of the earlier methods.

Doubles = NDArray[np.float64]
Project = Callable[[Doubles], Doubles]


def yu_neely(
    point: Doubles, queue: Doubles, slope: Doubles, matrix: Doubles, bounds: Doubles, project: Project,
    alpha: float, gamma: float,
) -> tuple[Doubles, Doubles]:  # fmt: skip
    scaled = gamma * (matrix @ point - bounds)
    queue = np.maximum(-scaled, queue + scaled)
    return project(point - (slope + gamma * matrix.T @ (queue + scaled)) / (2.0 * alpha)), queue


def yuan_lamperski(
    point: Doubles, slope: Doubles, matrix: Doubles, bounds: Doubles, project: Project, eta: float, theta: float
) -> Doubles:
    multipliers = np.maximum(matrix @ point - bounds, 0.0) / theta
    return project(point - eta * (slope + matrix.T @ multipliers))


def ascent(
    point: Doubles, multipliers: Doubles, slope: Doubles, matrix: Doubles, bounds: Doubles, project: Project,
    eta: float, theta: float, mu: float,
) -> tuple[Doubles, Doubles]:  # fmt: skip
    excess = matrix @ point - bounds
    moved = project(point - eta * (slope + matrix.T @ multipliers))
    return moved, np.maximum(multipliers + mu * (excess - theta * multipliers), 0.0)


def sinha_vaze(
    point: Doubles, queue: float, squares: float, slope: Doubles, matrix: Doubles, bounds: Doubles, project: Project,
    steepest: float, diameter: float, horizon: int,
) -> tuple[Doubles, float, float]:  # fmt: skip
    beta, rate = 1.0 / (2.0 * steepest * diameter), 1.0 / (2.0 * math.sqrt(horizon))
    excess = matrix @ point - bounds
    worst = int(excess.argmax())
    surrogate = beta * slope
    if excess[worst] > 0.0:
        queue += beta * excess[worst]
        surrogate = surrogate + rate * math.exp(rate * queue) * beta * matrix[worst]
    squares += float(surrogate @ surrogate)
    step = math.sqrt(2.0) * diameter / (2.0 * math.sqrt(squares))
    return project(point - step * surrogate), queue, squares


def sinha_vaze_strongly(
    point: Doubles, queue: float, slope: Doubles, matrix: Doubles, bounds: Doubles, project: Project,
    steepest: float, mu: float, t: int, horizon: int,
) -> tuple[Doubles, float]:  # fmt: skip
    alpha = 2.0 * mu  # f(y) >= f(x) + <df(x), y - x> + alpha / 2 ||y - x||^2
    price = 8.0 * steepest**2 * math.log(math.e * horizon) / alpha
    excess = matrix @ point - bounds
    worst = int(excess.argmax())
    surrogate = price * slope
    if excess[worst] > 0.0:
        queue += float(excess[worst])
        surrogate = surrogate + 2.0 * queue * matrix[worst]
    return project(point - surrogate / (price * alpha * t)), queue


def yu_neely_wei(
    point: Doubles, queue: Doubles, slope: Doubles, matrix: Doubles, bounds: Doubles, project: Project,
    weight: float, alpha: float,
) -> tuple[Doubles, Doubles]:  # fmt: skip
    moved = project(point - (weight * slope + queue @ matrix) / (2.0 * alpha))
    linearised = matrix @ point - bounds + matrix @ (moved - point)
    return moved, np.maximum(queue + linearised, 0.0)


def polyak(
    point: Doubles, slope: Doubles, matrix: Doubles, bounds: Doubles, project: Project, eta: float, rho: float
) -> Doubles:
    excess, moved = matrix @ point - bounds, point - eta * slope
    normal = matrix[excess.argmax()]
    over = max(excess.max() + normal @ (moved - point) + rho, 0.0)
    return project(moved - over / (normal @ normal) * normal)


def project_dykstra(point: Doubles, matrix: Doubles, bounds: Doubles, project: Project, sweeps: int = 1000) -> Doubles:
    """Project onto half-spaces and a set in turn, each with its own correction: Boyle & Dykstra, 1986."""
    corrections, at = np.zeros((bounds.size + 1, point.size)), point
    for _ in range(sweeps):
        for i in range(bounds.size + 1):
            moved = at + corrections[i]
            if i == bounds.size:
                at = project(moved)
            else:
                over = max(float(matrix[i] @ moved - bounds[i]), 0.0)
                at = moved - over / (matrix[i] @ matrix[i]) * matrix[i]
            corrections[i] = moved - at
    return at


# Steps in a box of the plane, by enumeration.


def project(point: Vector, region: CompiledSet) -> None:
    if region.kind == BOX:
        point[:] = np.clip(point, region.low, region.high)
    elif region.kind == BALL:
        length = float(np.linalg.norm(point - region.low))
        point[:] = region.low + (point - region.low) * min(1.0, region.size / length)
    else:
        descending = np.sort(point)[::-1]
        thresholds = (np.cumsum(descending) - region.size) / np.arange(1, point.size + 1)
        point[:] = np.maximum(point - thresholds[descending > thresholds][-1], 0.0)


def proximal_step(centre: Vector, rows: LinearConstraints, box: Box, limits: Vector) -> Vector:
    return printed.proximal_step(
        centre, limits, printed.Game(0.0, np.empty((0, 2)), rows.matrix, rows.bounds, box.low, box.high, centre)
    )


def learn_round(
    point: Vector,
    queue: Vector,
    subgradient: Vector,
    rows: LinearConstraints,
    box: Box,
    sizes: tuple[float, float, float],
    clip: bool = True,
    q_hat: bool = True,
) -> tuple[Vector, Vector]:
    """Return x_t and q_t from x_{t-1}, q_{t-1} and alpha, gamma, next gamma; clip and q-hat may be left out."""
    step_size, penalty, following = sizes
    excess = rows.matrix @ point - rows.bounds
    if clip:
        excess = np.maximum(excess, 0.0)
    queue = queue + penalty * excess
    counted = queue + penalty * excess if q_hat else queue
    limits = 0.5 * step_size * following * counted
    return proximal_step(point - 0.5 * step_size * subgradient, rows, box, np.maximum(limits, 0.0)), queue


def algorithm1(
    losses: QuadraticLosses,
    rows: LinearConstraints,
    box: Box,
    first: Vector,
    sizes: Matrix,
    clip: bool = True,
    q_hat: bool = True,
) -> Matrix:
    """Return points (T, p); sizes (2, T + 1) are alpha and gamma."""
    points, queue = [first], np.zeros(rows.n_constraints)
    for t in range(losses.n_rounds - 1):
        gradient = 2.0 * losses.curvature * points[-1] + losses.linear[t]
        used = (sizes[0, t], sizes[1, t], sizes[1, t + 1])
        point, queue = learn_round(points[-1], queue, gradient, rows, box, used, clip, q_hat)
        points.append(point)
    return np.array(points)


def algorithm2(
    losses: QuadraticLosses, rows: LinearConstraints, box: Box, first: Vector, sizes: Matrix, rate: float
) -> Matrix:
    """Return points (T, p); sizes (2, N, T + 1) are alpha and gamma of N experts."""
    number = sizes.shape[1]
    at = np.arange(1, number + 1)
    weights, experts = (number + 1) / (at * (at + 1) * number), [first] * number
    queues = [np.zeros(rows.n_constraints)] * number
    points = [weights @ np.array(experts)]
    for t in range(losses.n_rounds - 1):
        gradient = 2.0 * losses.curvature * points[-1] + losses.linear[t]
        weights = weights * np.exp(-rate * ((np.array(experts) - points[-1]) @ gradient))
        weights /= weights.sum()
        for i in range(number):
            used = (sizes[0, i, t], sizes[1, i, t], sizes[1, i, t + 1])
            experts[i], queues[i] = learn_round(experts[i], queues[i], gradient, rows, box, used)
        points.append(weights @ np.array(experts))
    return np.array(points)


# A rectified queue, and projecting experts, in a box of the plane.


def run_rectified(
    first: Vector, losses: QuadraticLosses, rows: LinearConstraints, box: Box, scale: float, excess: float
) -> Matrix:
    points, queue = [first], np.zeros(rows.n_constraints)
    for at in range(losses.n_rounds - 1):
        t, point = at + 1.0, points[-1]
        gamma, alpha = t ** (0.5 + excess), math.sqrt(t) / scale
        queue = np.maximum(queue + gamma * np.maximum(rows.values(point), 0.0), math.sqrt(t))
        limits = gamma * queue / (2.0 * alpha)
        points.append(proximal_step(point - losses.subgradient(at, point) / (2.0 * alpha), rows, box, limits))
    return np.array(points)


def run_projected(first: Vector, losses: QuadraticLosses, rows: LinearConstraints, box: Box, steepest: float) -> Matrix:
    horizon, diameter = losses.n_rounds, box.diameter
    number = math.ceil(0.5 * math.log2(1.0 + 4.0 * horizon / 7.0)) + 1
    order = np.arange(1, number + 1)
    weights = (1.0 + 1.0 / number) / (order * (order + 1.0))
    sizes = 2.0 ** (order - 1.0) * diameter / steepest * math.sqrt(7.0 / (2.0 * horizon))
    rate = math.sqrt(2.0 / (horizon * steepest**2 * diameter**2))
    experts = np.tile(proximal_step(first, rows, box, np.full(rows.n_constraints, 1e6)), (number, 1))
    points = [weights @ experts]
    for at in range(horizon - 1):
        slope = losses.subgradient(at, points[-1])
        weights = weights * np.exp(-rate * (experts - points[-1]) @ slope)
        weights /= weights.sum()
        moved = experts - sizes[:, None] * slope
        experts = np.array([proximal_step(point, rows, box, np.full(rows.n_constraints, 1e6)) for point in moved])
        points.append(weights @ experts)
    return np.array(points)
