from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tests.naive.newton as naive
from okl.compiled.newton import box_duals, entropy_duals, square_root_duals
from okl.foundation.types import FloatArray

N, STEP = 200, 1e-6
RNG = np.random.default_rng(5)
MARGINS, SIGNS = 2.0 * RNG.standard_normal(N), RNG.choice([-1.0, 1.0], N)
SCALES, UPPER, LOWER = RNG.uniform(0.2, 2.0, N), RNG.uniform(0.5, 2.0, N), RNG.uniform(-0.4, 0.0, N)
PLUS, MINUS = 0.3, -0.8
THRESHOLDS = np.where(SIGNS > 0.0, PLUS, MINUS)
ANCHORS, STEPS, TARGETS = RNG.uniform(0.0, 0.5, N), RNG.uniform(0.1, 1.0, N), RNG.standard_normal(N)

Case = tuple[Callable[..., None], tuple[FloatArray, ...], Callable[..., float]]
CASES: dict[str, Case] = {
    "box": (box_duals, (ANCHORS, STEPS, TARGETS, LOWER, UPPER), naive.box_dual),
    "entropy": (entropy_duals, (UPPER,), naive.entropy_dual),
    "roots": (square_root_duals, (SCALES, UPPER), naive.square_root_dual),
}


@pytest.mark.parametrize("name", CASES)
def test_duals_match_naive_and_slopes_finite_differences(name: str) -> None:
    compiled, numbers, twin = CASES[name]
    found, slopes, unused = np.empty((3, N))
    compiled(found, slopes, MARGINS, SIGNS, *numbers, PLUS, MINUS)
    values = [
        [twin(z, *row) for z, *row in zip(MARGINS - THRESHOLDS + h, *numbers, strict=True)] for h in (-STEP, 0, STEP)
    ]
    np.testing.assert_allclose(found, values[1], rtol=1e-12)
    difference = (np.array(values[0]) - np.array(values[2])) / (2.0 * STEP)
    assert (slopes == 0.0).any() == (name != "entropy")
    assert (slopes > 0.0).sum() > 20
    np.testing.assert_allclose(slopes, difference, rtol=1e-5, atol=1e-8)
    # far from the margin it neither overflows nor becomes negative
    compiled(found, unused, 1e8 * MARGINS, SIGNS, *numbers, PLUS, MINUS)
    assert np.isfinite(found).all()
    assert np.isfinite(unused).all()
    assert (unused >= 0.0).all()
