"""Slow, obvious twins of the rounds of the earlier methods with long-term constraints, as their papers write them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

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
