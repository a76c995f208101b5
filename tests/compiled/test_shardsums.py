from __future__ import annotations

import numpy as np
import pytest

from okl.compiled import shardsums
from tests.naive import shardsums as naive


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_sums_and_clips_match_naive(precision: str) -> None:
    random = np.random.default_rng(0)
    points = random.normal(size=101).astype(precision)
    points[:4] = 0.5, 0.0, 1.0, 0.25  # ends of boxes, too
    signs = np.where(random.random(101) < 0.4, 1.0, -1.0).astype(precision)
    upper = random.choice([0.5, 1.0, np.inf], size=101).astype(precision)
    thresholds = np.array([[-1.0, 0.0, 0.25, 0.5], [2.0, 0.1, -0.3, 0.0]], dtype=precision)
    found, expected = np.ones((2, 4, 2), precision), np.ones((2, 4, 2), precision)
    shardsums.clipped_sums(found, points, signs, upper, thresholds)
    naive.clipped_sums(expected, points, signs, upper, thresholds)
    np.testing.assert_allclose(found, expected, rtol=1e-5 if precision == "float32" else 1e-13)
    out, clipped = np.empty_like(points), np.empty_like(points)
    shardsums.clip_by_sign(out, points, signs, upper, 0.3, -0.2)
    naive.clip_by_sign(clipped, points, signs, upper, 0.3, -0.2)
    np.testing.assert_allclose(out, clipped, rtol=1e-6 if precision == "float32" else 1e-15, atol=1e-7)
    assert 0 < np.count_nonzero(out) < 101
