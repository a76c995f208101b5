from __future__ import annotations

import numpy as np
import pytest

import tests.naive.steps as naive
from okl.compiled import steps


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_vector_work_matches_naive(precision: str) -> None:
    tolerance = 1e-5 if precision == "float32" else 1e-13
    a, b, c, d = np.random.default_rng(0).standard_normal((4, 37)).astype(precision)
    for name in ("extrapolate", "descend"):
        out, expected = np.empty_like(a), np.empty_like(a)
        getattr(steps, name)(out, a, b, 0.7)
        getattr(naive, name)(expected, a, b, 0.7)
        np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)
    for name, vectors in (
        ("step_sums", (a, b, c, d)),
        ("squared_distance", (a, b)),
        ("distance_product", (a, b, c, d)),
        ("inner", (a, b)),
    ):
        np.testing.assert_allclose(getattr(steps, name)(*vectors), getattr(naive, name)(*vectors), rtol=tolerance * 10)
