from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.budget_maintenance import best_place, merging_losses
from okl.foundation.types import FloatArray

POSITIONS = np.linspace(0.0, 1.0, 4001)


def lengths(log: float, a: FloatArray, b: FloatArray) -> FloatArray:
    """Return |p a + q b|^2 at every position, with one entry of a and b for each class."""
    p, q = np.exp(log * (1.0 - POSITIONS) ** 2), np.exp(log * POSITIONS**2)
    total: FloatArray = np.square(p[:, None] * a + q[:, None] * b).sum(axis=1)
    return total


def dot(a: FloatArray, b: FloatArray) -> float:
    """Return the inner product with bits that do not depend on memory addresses, which BLAS does not guarantee."""
    return float((a * b).sum())


def some_pairs(n_classes: int) -> list[tuple[float, FloatArray, FloatArray]]:
    """Return near, far and very far pairs with equal, opposite and orthogonal coefficients, the first never larger."""
    rng = np.random.default_rng(n_classes)
    pairs = []
    for log in (0.0, -1e-6, -0.01, -0.7, -1.9, -2.1, -4.0, -30.0, -900.0):
        for _ in range(30):
            a, b = rng.standard_normal((2, n_classes))
            a, b = sorted((a, b), key=lambda v: dot(v, v))
            pairs.append((log, a, b))
        pairs.append((log, a, a.copy()))
        pairs.append((log, a, -a))
    return pairs


@pytest.mark.parametrize("n_classes", [1, 3])
def test_the_best_merge_position_is_the_maximum(n_classes: int) -> None:
    for log, a, b in some_pairs(n_classes):
        h = best_place(log, dot(a, a), dot(a, b), dot(b, b))
        values = lengths(log, a, b)
        p, q = np.exp(log * (1.0 - h) ** 2), np.exp(log * h**2)
        assert 0.0 <= h <= 0.5
        assert np.sum((p * a + q * b) ** 2) >= values.max() * (1 - 1e-12)


@pytest.mark.parametrize("n_classes", [1, 3])
def test_losses_are_those_of_the_best_merge_positions(n_classes: int) -> None:
    a = np.random.default_rng(5).standard_normal(n_classes)
    others = [(log, b * np.sqrt(a @ a / min(a @ a, b @ b))) for log, _, b in some_pairs(n_classes)]
    logs = np.array([log for log, _ in others])
    both, squares = np.array([a @ b for _, b in others]), np.array([b @ b for _, b in others])
    lost, places = np.empty(len(others)), np.empty(len(others))
    merging_losses(lost, places, logs, float(a @ a), both, squares)
    exact = [a @ a + b @ b + 2 * np.exp(log) * (a @ b) - lengths(log, a, b).max() for log, b in others]
    flat = (logs < -1.5) & (logs > -5.0)
    assert 0 < flat.sum() < len(logs) / 2
    error = np.abs(lost - np.array(exact)) / float(a @ a)
    assert error[~flat].max() < 1e-5
    assert error[flat].max() < 3e-4


def test_equal_points_are_merged_without_loss() -> None:
    lost, places = np.empty(2), np.empty(2)
    merging_losses(lost, places, np.zeros(2), 1.0, np.array([2.0, -1.0]), np.array([4.0, 1.0]))
    np.testing.assert_allclose(lost, 0.0, atol=1e-12)
