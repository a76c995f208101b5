from __future__ import annotations

from threading import Thread
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import tests.naive.products as naive
from okl.compiled import products as compiled_products
from okl.compiled.products import add_segments, multiply_segments, new_claims
from tests.naive import products as naive_products


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("n_rows", [1, 4, 7, 30])
def test_passes_match_naive(n_rows: int, precision: str) -> None:
    rng = np.random.default_rng(n_rows)
    rows = rng.standard_normal((n_rows, 5)).astype(precision)
    rows[rng.random(rows.shape) < 0.4] = 0.0
    signs, weights, vector = rng.choice([-1.0, 1.0], n_rows), rng.random(n_rows), rng.standard_normal(5)
    matrix = sparse.csr_array(rows)
    triple = (matrix.data, matrix.indices, matrix.indptr)
    products, expected = np.full(n_rows, 9.0), np.full(n_rows, 8.0)
    naive.multiply_rows(expected, rows, signs, vector)
    compiled_products.multiply_rows(products, rows, signs, vector)
    np.testing.assert_allclose(products, expected, rtol=1e-13, atol=1e-13)
    compiled_products.multiply_sparse_rows(products, *triple, signs, vector)
    np.testing.assert_allclose(products, expected, rtol=1e-13, atol=1e-13)
    naive.multiply_sparse_rows(products, matrix, signs, vector)
    np.testing.assert_allclose(products, expected, rtol=1e-13, atol=1e-13)
    before = rng.standard_normal(5)
    totals = [before.copy() for _ in range(4)]
    naive.add_rows(totals[0], rows, signs, weights)
    compiled_products.add_rows(totals[1], rows, signs, weights)
    naive.add_sparse_rows(totals[2], matrix, signs, weights)
    compiled_products.add_sparse_rows(totals[3], *triple, signs, weights)
    for total in totals[1:]:
        np.testing.assert_allclose(total, totals[0], rtol=1e-13, atol=1e-13)
    assert not np.allclose(totals[0], before)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("n_listed", [0, 1, 4, 11])
def test_listed_rows_match_naive(n_listed: int, precision: str) -> None:
    rng = np.random.default_rng(n_listed)
    rows = rng.standard_normal((20, 5)).astype(precision)
    listed = np.sort(rng.choice(20, n_listed, replace=False)).astype(np.int64)
    weights, others = rng.standard_normal((2, n_listed))
    found, expected = np.ones((2, 5)), np.ones((2, 5))
    naive.add_listed_rows_twice(expected[0], expected[1], rows, listed, weights, others)
    compiled_products.add_listed_rows_twice(found[0], found[1], rows, listed, weights, others)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
    alone = np.ones(5)
    compiled_products.add_listed_rows(alone, rows, listed, weights)
    naive.add_listed_rows(alone, rows, listed, -weights)
    np.testing.assert_allclose(alone, 1.0, rtol=1e-13, atol=1e-13)
    if n_listed == 11:
        assert np.abs(expected - 1.0).min() > 1e-3


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_segments_match_naive(precision: str) -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((23, 4)).astype(precision)
    signs, weights, vector = rng.choice([-1.0, 1.0], 23), rng.random(23), rng.standard_normal(4)
    products, expected, sums, parts = np.empty(23), np.empty(23), np.zeros(4), np.full((5, 4), np.nan)
    multiply_segments(products, new_claims(), rows, signs, vector, 5)
    add_segments(parts, new_claims(), rows, signs, weights, 5)
    naive_products.multiply_rows(expected, rows, signs, vector)
    naive_products.add_rows(sums, rows, signs, weights)
    np.testing.assert_allclose(products, expected, rtol=1e-12)
    np.testing.assert_allclose(parts.sum(axis=0), sums, rtol=1e-12)


def test_every_segment_is_claimed_by_one_thread_only() -> None:
    rows, ones, claims = np.arange(1.0, 20_001.0)[:, np.newaxis], np.ones(20_000), new_claims()
    products = np.zeros(20_000)
    threads = [Thread(target=multiply_segments, args=(products, claims, rows, ones, np.ones(1), 1)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(products, rows[:, 0])
    assert claims[0] == 20_000 + 3  # each thread made one request too many


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gathered_columns_are_those_of_the_rows_times_factors(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    rows, factors = rng.normal(size=(9, 6)).astype(dtype), rng.normal(size=4)
    listed, columns, out = np.array([8, 0, 3, 3]), np.array([1, 2, 5]), np.empty((4, 3))
    compiled_products.gather_columns(out, rows, listed, columns, factors)
    np.testing.assert_array_equal(out, rows[np.ix_(listed, columns)].astype(np.float64) * factors[:, np.newaxis])
