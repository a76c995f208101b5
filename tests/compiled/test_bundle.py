from __future__ import annotations

import numpy as np
import pytest

import tests.naive.bundle as naive
from okl.compiled import bundle
from okl.compiled.bundle import CoefficientBounds, descend_computed, descend_rows
from okl.compiled.kernels import LANES
from okl.foundation.types import Doubles
from okl.kernels import Gaussian

ROWS, COLUMNS = 40, 5


def a_box(squares: Doubles) -> CoefficientBounds:
    targets = np.random.default_rng(1).choice([-1.0, 1.0], ROWS)
    return CoefficientBounds(targets, np.minimum(targets, 0), np.maximum(targets, 0), squares, 0.05 * ROWS)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_descent_in_rows_matches_naive(precision: str) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((ROWS, COLUMNS)).astype(precision)
    box = a_box(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    found, expected = ((np.zeros(ROWS), np.zeros(COLUMNS), np.zeros(ROWS)) for _ in range(2))
    for _ in range(3):
        order = rng.permutation(ROWS)[:30]
        descend_rows(*found, order, rows, box)
        naive.descend_rows(*expected, order, rows, box)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)
    inside = (found[0] > box.lower) & (found[0] < box.upper) & (found[0] != 0)
    assert 3 < inside.sum() < 35


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_descent_with_a_kernel_matches_naive_whether_it_is_held_or_not(precision: str) -> None:
    rng = np.random.default_rng(0)
    rows, kernel = rng.standard_normal((ROWS, COLUMNS)).astype(precision), Gaussian(1.5)
    matrix = kernel.matrix(rows, rows).astype(precision)
    box = a_box(np.ones(ROWS))
    capacity = -(-ROWS // LANES) * LANES
    supports = np.zeros((COLUMNS, capacity), dtype=precision)
    supports[:, :ROWS] = rows.T
    order = rng.permutation(ROWS)
    held, computed, expected = ((np.zeros(ROWS), np.zeros(ROWS), np.zeros(ROWS)) for _ in range(3))
    bundle.descend_kernel(*held, order, matrix, box)
    descend_computed(*computed, order, np.zeros(capacity, dtype=precision), supports, kernel.rule, box)
    naive.descend_kernel(*expected, order, matrix, box)
    for arrays in (held, computed):
        for mine, theirs in zip(arrays, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-4 if precision == "float32" else 1e-10)
