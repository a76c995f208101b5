"""Slow, obvious twins of a rectified queue and of experts that project, in a box of the plane."""

from __future__ import annotations

import math

import numpy as np

from okl.oco.constraints import LinearConstraints, Matrix
from okl.oco.losses import QuadraticLosses
from okl.oco.sets import Box, Vector
from tests.naive.ocosteps import step


def run_rectified(
    first: Vector, losses: QuadraticLosses, rows: LinearConstraints, box: Box, scale: float, excess: float
) -> Matrix:
    points, queue = [first], np.zeros(rows.n_constraints)
    for at in range(losses.n_rounds - 1):
        t, point = at + 1.0, points[-1]
        gamma, alpha = t ** (0.5 + excess), math.sqrt(t) / scale
        queue = np.maximum(queue + gamma * np.maximum(rows.values(point), 0.0), math.sqrt(t))
        limits = gamma * queue / (2.0 * alpha)
        points.append(step(point - losses.subgradient(at, point) / (2.0 * alpha), rows, box, limits))
    return np.array(points)


def run_projected(first: Vector, losses: QuadraticLosses, rows: LinearConstraints, box: Box, steepest: float) -> Matrix:
    horizon, diameter = losses.n_rounds, box.diameter
    number = math.ceil(0.5 * math.log2(1.0 + 4.0 * horizon / 7.0)) + 1
    order = np.arange(1, number + 1)
    weights = (1.0 + 1.0 / number) / (order * (order + 1.0))
    sizes = 2.0 ** (order - 1.0) * diameter / steepest * math.sqrt(7.0 / (2.0 * horizon))
    rate = math.sqrt(2.0 / (horizon * steepest**2 * diameter**2))
    experts = np.tile(step(first, rows, box, np.full(rows.n_constraints, 1e6)), (number, 1))
    points = [weights @ experts]
    for at in range(horizon - 1):
        slope = losses.subgradient(at, points[-1])
        weights = weights * np.exp(-rate * (experts - points[-1]) @ slope)
        weights /= weights.sum()
        moved = experts - sizes[:, None] * slope
        experts = np.array([step(point, rows, box, np.full(rows.n_constraints, 1e6)) for point in moved])
        points.append(weights @ experts)
    return np.array(points)
