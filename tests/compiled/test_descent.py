from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import tests.naive.descent as naive
from okl.compiled.descent import descend_groups, descend_pairs, descend_rows, descend_weights


def test_descent_over_weights_matches_naive() -> None:
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((9, 6))
    products, linear, weights = factor.T @ factor, 3.0 * rng.standard_normal(6), rng.standard_normal(6)
    expected = naive.descend_weights(weights, linear, products, 4)
    found, slopes = weights.copy(), linear + products @ weights
    assert descend_weights(found, slopes, products, 4)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(slopes, linear + products @ found, atol=1e-12)
    descend_weights(found, slopes, products, 10_000)
    assert 0 < np.count_nonzero(found) < 6
    assert np.abs(slopes).max() <= 1.0 + 1e-9
    np.testing.assert_allclose(slopes[found != 0.0], -np.sign(found[found != 0.0]), atol=1e-9)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_descent_over_groups_matches_naive(n_outputs: int) -> None:
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((9, 6))
    products, linear = factor.T @ factor, 3.0 * rng.standard_normal((6, n_outputs))
    weights = rng.standard_normal((6, n_outputs))
    penalty = 2.0 * n_outputs
    expected = naive.descend_groups(weights, linear, products, penalty, 4)
    found, slopes = weights.copy(), linear + products @ weights
    descend_groups(found, slopes, products, penalty, 4)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(slopes, linear + products @ found, atol=1e-12)
    descend_groups(found, slopes, products, penalty, 10_000)
    lengths, used = np.linalg.norm(found, axis=1, keepdims=True), found.any(axis=1)
    assert 0 < np.count_nonzero(used) < 6
    assert np.linalg.norm(slopes, axis=1).max() <= penalty + 1e-9
    np.testing.assert_allclose(slopes[used], -penalty * found[used] / lengths[used], atol=1e-9)


@pytest.mark.parametrize("starts", [[0, 14], [0, 6, 14]])
def test_steps_along_pairs_match_naive(starts: list[int]) -> None:
    rng = np.random.default_rng(1)
    n = 14
    factor = rng.standard_normal((n, 5))
    products, linear = factor @ factor.T, -np.ones(n)
    groups = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    lower, upper = -rng.uniform(0.0, 0.3, n), rng.uniform(0.2, 1.0, n)
    point = 0.3 * upper
    for n_steps in (1, 5):
        expected = naive.descend_pairs(point, linear, products, groups, (lower, upper), n_steps)
        found, slopes = point.copy(), products @ point + linear
        assert descend_pairs(found, slopes, products, np.array(starts), lower, upper, 1e-9, n_steps) == n_steps
        np.testing.assert_allclose(found, expected, atol=1e-12)
        np.testing.assert_allclose(slopes, products @ found + linear, atol=1e-12)
    for group in range(len(starts) - 1):  # the sums are those of the first point
        assert found[groups == group].sum() == pytest.approx(point[groups == group].sum())


def test_entries_without_a_fixed_sum_meet_the_optimality_conditions() -> None:
    rng = np.random.default_rng(2)
    factor = rng.standard_normal((20, 8))
    products = factor @ factor.T + 0.1 * np.eye(20)
    lower, upper = np.zeros(20), np.full(20, 0.4)
    point, slopes = np.zeros(20), -np.ones(20)
    assert descend_pairs(point, slopes, products, np.array([0]), lower, upper, 1e-8, 100_000) < 100_000
    np.testing.assert_allclose(slopes, products @ point - 1.0, atol=1e-10)
    assert np.any(point == 0.4)
    assert np.abs(slopes[(point > 0.0) & (point < 0.4)]).max() <= 1e-8
    assert slopes[point == 0.0].min(initial=0.0) >= -1e-8
    assert slopes[point == 0.4].max() <= 1e-8


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("border", [0.0, 0.7])
@pytest.mark.parametrize("is_dense", [False, True], ids=["sparse", "dense"])
def test_passes_over_rows_match_naive(is_dense: bool, border: float, dtype: str) -> None:
    rng = np.random.default_rng(3)
    m, n = 200, 6
    values = (rng.standard_normal((m, n)) * (rng.random((m, n)) < 0.5)).astype(dtype)
    values[:3] = 0.0  # rows without a value
    matrix, signs, upper = sparse.csr_array(values), rng.choice([-1.0, 1.0], m), rng.uniform(0.1, 0.6, m)
    rows = np.column_stack([values.astype(np.float64), np.full(m, border)])
    bias, point, weights = (0.2 if border else 0.0), np.zeros(m), np.zeros(n + 1)
    active, limits, n_left = np.arange(m), np.array([-np.inf, np.inf]), []
    held = (values.reshape(-1), np.empty(0, np.int32), n * np.arange(m + 1))
    held = held if is_dense else (matrix.data, matrix.indices, matrix.indptr)
    arrays = (*held, signs, np.sum(rows**2, axis=1), upper)
    signed, costs = signs[:, None] * rows, 1.0 + bias * signs
    for _ in range(6):
        shifts, before = rng.random(8), tuple(limits)
        run = max(1, min(8, len(active) // 64))
        size = -(-len(active) // (8 * run)) * run
        begins = [
            (step + int(shift * size) // run * run) % size + k * size
            for step in range(0, size, run)
            for k, shift in enumerate(shifts)
        ]
        order = active[
            [position for begin in begins for position in range(begin, begin + run) if position < len(active)]
        ]
        assert np.array_equal(np.sort(order), active)
        expected, left, movable = naive.descend_rows(point, signed, costs, upper, order, before)
        count = descend_rows(point, weights, active, limits, shifts, *arrays, bias, border)
        np.testing.assert_allclose(point, expected, atol=1e-12)
        np.testing.assert_allclose(weights, (signs * point) @ rows, atol=1e-12)
        np.testing.assert_allclose(limits, movable, atol=1e-12)
        assert active[:count].tolist() == left
        active = active[:count].copy()
        n_left.append(count)
    assert n_left[0] == m
    assert 0 < n_left[-1] < m
    assert np.any(point == 0.0)
    assert np.any(point == upper)
    assert np.any((point > 0.0) & (point < upper))
