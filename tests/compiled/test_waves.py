from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.waves import sines_and_cosines
from okl.types import Precision
from tests.naive import waves as naive

LARGEST_ERROR = {"float32": 1e-6, "float64": 1e-12}


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0, 1e5, 1e7, 1e20])
def test_sines_and_cosines_match_naive_over_a_wide_range(precision: Precision, scale: float) -> None:
    angles = (np.random.default_rng(0).standard_normal((40, 131)) * scale).astype(precision)
    amplitude = angles.dtype.type(1.0)
    sines, expected_sines = angles.copy(), angles.copy()
    cosines, expected_cosines = np.empty_like(angles), np.empty_like(angles)
    sines_and_cosines(sines, cosines, amplitude)
    naive.sines_and_cosines(expected_sines, expected_cosines, 1.0)
    assert np.abs(sines - expected_sines).max() < LARGEST_ERROR[precision]
    assert np.abs(cosines - expected_cosines).max() < LARGEST_ERROR[precision]
    assert not 1.0 <= scale <= 1e5 or np.ptp(expected_cosines) > 1.0


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_quarter_turns_and_amplitude_are_exact_to_rounding(precision: Precision) -> None:
    angles = np.array([[0.0, 0.5, 1.0, 1.5, 2.0, -0.5, -1.0, 0.25]], dtype=precision)
    sines, cosines = angles.copy(), np.empty_like(angles)
    sines_and_cosines(sines, cosines, angles.dtype.type(0.25))
    half = np.sqrt(0.5)
    expected_sines = 0.25 * np.array([[0, 1, 0, -1, 0, -1, 0, half]])
    expected_cosines = 0.25 * np.array([[1, 0, -1, 0, 1, 0, -1, half]])
    np.testing.assert_allclose(sines, expected_sines, atol=LARGEST_ERROR[precision])
    np.testing.assert_allclose(cosines, expected_cosines, atol=LARGEST_ERROR[precision])


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_waves_of_what_is_not_finite_are_not_finite(precision: Precision) -> None:
    sines = np.full((1, 20), np.inf, dtype=precision)
    cosines = np.empty_like(sines)
    sines_and_cosines(sines, cosines, sines.dtype.type(1.0))
    assert np.isnan(sines).all()
    assert np.isnan(cosines).all()
