"""Random piecewise quadratics along a line, and their minima by other methods."""

from __future__ import annotations

import clarabel
import numpy as np
from scipy import sparse

from okl.losses import EpsilonInsensitive, Hinge, MulticlassHinge, PiecewiseLinear, Ray

LOSSES: tuple[PiecewiseLinear, ...] = (Hinge(), EpsilonInsensitive(0.0), EpsilonInsensitive(0.4), MulticlassHinge())


def random_ray(rng: np.random.Generator, loss: PiecewiseLinear) -> Ray:
    """Draw up to thirty rows, some on kinks, some constant, some tied, and any scale of the parabola."""
    n_rows = int(rng.integers(1, 30))
    shape = (n_rows, 3) if loss.task == "multiclass" else (n_rows,)
    scores, along = rng.standard_normal(shape), rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 2)
    if rng.random() < 0.5:  # ties, kinks at 0 and shared ones
        scores, along = np.round(scores * 2) / 2, np.round(along * 2) / 2
    targets = rng.choice([-1.0, 1.0], n_rows)
    if loss.task == "multiclass":
        targets = rng.integers(0, 3, n_rows) * 1.0
    curvature = float(rng.random() * 10.0 ** rng.integers(-3, 2))
    slope = float(rng.standard_normal() * 10.0 ** rng.integers(-2, 1)) - curvature * rng.random()
    return Ray(scores, along, targets, slope, curvature)


def value_at(ray: Ray, loss: PiecewiseLinear, step: float) -> tuple[float, float]:
    """Return value and right-hand derivative at a step, minus the value of the parabola at 0."""
    total, derivative = loss.line(ray.scores, ray.along, ray.targets, step)
    n_rows, slope = len(ray.scores), ray.slope + step * ray.curvature
    return total / n_rows + step * (ray.slope + 0.5 * step * ray.curvature), derivative / n_rows + slope


def least_on_grid(ray: Ray, loss: PiecewiseLinear, longest: float, points: int = 400) -> float:
    """Return the least value on a grid of steps."""
    steps = np.linspace(0.0, longest, points)
    trials = ray.scores + np.multiply.outer(steps, ray.along)
    n_rows = len(ray.targets)
    flat = trials.reshape(points * n_rows, *ray.scores.shape[1:])
    losses = loss.value(flat, np.tile(ray.targets, points)).reshape(points, n_rows).mean(axis=1)
    return float((losses + steps * (ray.slope + 0.5 * steps * ray.curvature)).min())


def least_by_programme(ray: Ray, loss: PiecewiseLinear, longest: float) -> float:
    """Return the least value by an interior-point solver over t and an upper bound of each row's lines."""
    lines = [line for row in range(len(ray.targets)) for line in _lines(ray, loss, row)]
    n_rows = len(ray.targets)
    matrix = np.zeros((len(lines) + 2, n_rows + 1))
    right = np.zeros(len(lines) + 2)
    for k, (row, speed, height) in enumerate(lines):  # height + speed t <= bound of the row
        matrix[k, 0], matrix[k, row + 1], right[k] = speed, -1.0, -height
    matrix[-2, 0], matrix[-1, 0], right[-1] = -1.0, 1.0, longest
    quadratic = sparse.csc_matrix(([ray.curvature], ([0], [0])), shape=(n_rows + 1, n_rows + 1))
    linear = np.append(ray.slope, np.full(n_rows, 1.0 / n_rows))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    cones = [clarabel.NonnegativeConeT(len(right))]
    solution = clarabel.DefaultSolver(quadratic, linear, sparse.csc_matrix(matrix), right, cones, settings).solve()
    return float(solution.obj_val)


def _lines(ray: Ray, loss: PiecewiseLinear, row: int) -> list[tuple[int, float, float]]:
    score, along, target = ray.scores[row], ray.along[row], ray.targets[row]
    if isinstance(loss, Hinge):
        return [(row, 0.0, 0.0), (row, -target * along, 1.0 - target * score)]
    if isinstance(loss, EpsilonInsensitive):
        rest = [(row, side * along, side * (score - target) - loss.epsilon) for side in (1.0, -1.0)]
        return [(row, 0.0, 0.0), *rest] if loss.epsilon > 0.0 else rest
    true = int(target)
    return [(row, along[c] - along[true], float(c != true) + score[c] - score[true]) for c in range(len(score))]
