"""Losses and constraint violations of a whole run of online convex optimisation."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled, compiled_row

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


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


@compiled
def violations(out: Vector, points: Matrix, matrix: Matrix, bounds: Vector) -> None:
    """Write the norm ||[matrix x_t - bounds]_+|| of every round into out (T,)."""
    for t in range(points.shape[0]):
        squared = 0.0
        for i in range(bounds.shape[0]):
            excess = -bounds[i]
            for j in range(points.shape[1]):
                excess += matrix[i, j] * points[t, j]
            if excess > 0.0:
                squared += excess * excess
        out[t] = math.sqrt(squared)
