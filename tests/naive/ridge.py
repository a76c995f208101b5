"""Kernel least squares by the normal equations, and explicit leave-one-out errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def ridge(
    columns: Array,
    values: Array,
    weights: Array,
    scale: float,
    metric: Array,
    fit_intercept: bool = True,
) -> tuple[Array, Array]:
    """Minimise scale w'metric w + sum v (y - z'w - b)^2; return weights (n_columns, n_outputs) and offsets.

    columns z (rows, n_columns); values y (rows, n_outputs); weights v (rows,); metric (n_columns, n_columns)
    """
    ones = np.ones((len(columns), 1)) if fit_intercept else np.zeros((len(columns), 0))
    design = np.hstack([columns, ones])
    normal = design.T @ (weights[:, np.newaxis] * design)
    n = columns.shape[1]
    normal[:n, :n] += scale * metric
    found = np.linalg.solve(normal, design.T @ (weights[:, np.newaxis] * values))
    offsets = found[n] if fit_intercept else np.zeros(values.shape[1])
    return np.asarray(found[:n], dtype=float), np.asarray(offsets, dtype=float)


def objective(
    columns: Array, values: Array, weights: Array, scale: float, metric: Array, found: Array, offsets: Array
) -> float:
    """Return half of the objective of `ridge`."""
    residuals = values - columns @ found - offsets
    return 0.5 * float(scale * np.sum(found * (metric @ found)) + weights @ (residuals**2).sum(axis=1))


def left_out(
    columns: Array, values: Array, weights: Array, scale: float, metric: Array, fit_intercept: bool = True
) -> Array:
    """Return leave-one-out scores (rows, n_outputs): each row by the solution of all others."""
    scores = np.empty_like(values)
    for row in range(len(columns)):
        others = np.arange(len(columns)) != row
        found, offsets = ridge(columns[others], values[others], weights[others], scale, metric, fit_intercept)
        scores[row] = columns[row] @ found + offsets
    return scores
