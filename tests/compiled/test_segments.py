from __future__ import annotations

from threading import Thread

import numpy as np
import pytest

from okl.compiled.segments import add_segments, multiply_segments, new_claims
from tests.naive import rowpasses


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_segments_match_naive(precision: str) -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((23, 4)).astype(precision)
    signs, weights, vector = rng.choice([-1.0, 1.0], 23), rng.random(23), rng.standard_normal(4)
    products, expected, sums, parts = np.empty(23), np.empty(23), np.zeros(4), np.full((5, 4), np.nan)
    multiply_segments(products, new_claims(), rows, signs, vector, 5)
    add_segments(parts, new_claims(), rows, signs, weights, 5)
    rowpasses.multiply_rows(expected, rows, signs, vector)
    rowpasses.add_rows(sums, rows, signs, weights)
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
    assert claims[0] == 20_000 + 3  # each thread asked once too often
