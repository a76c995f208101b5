from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

from okl.compiled.jit import compiled_sum
from okl.compiled.kernels import LAPLACIAN, KernelRule, kernel_row
from okl.compiled.math import exp_negative, logarithms, shuffle_from, sines_and_cosines
from okl.foundation.types import FloatArray, Precision
from tests.naive import math as naive_math

RELATIVE_ERROR = {"float32": 1.5e-7, "float64": 4e-16}


def exponentials(values: FloatArray) -> None:
    """Return exponentials through a distance kernel, which avoids compiling a function only for this test."""
    distances = -values[None, :]
    kernel_row(values, distances, np.zeros(1, dtype=values.dtype), KernelRule(LAPLACIAN, 1.0, 0.0, 0))


@compiled_sum
def _reordered(values: FloatArray) -> None:
    for j in range(values.shape[0]):
        values[j] = exp_negative(values[j])  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("sums", [exponentials, _reordered], ids=["in order", "reordered"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_exponentials_match_naive_to_rounding_over_the_whole_range(precision: Precision, sums: object) -> None:
    least = np.log(np.finfo(precision).tiny)
    spread = -np.logspace(-12, np.log10(-least), 40_000)
    values = np.concatenate([spread, np.linspace(0.999 * least, 0.0, 40_001)]).astype(precision)
    values = values[values > 0.9999 * least]
    expected = values.astype(np.float64)
    naive_math.exponentials(expected)
    assert np.ptp(np.log10(expected)) > 30
    assert callable(sums)
    sums(values)
    assert values.dtype == precision
    assert np.abs(values / expected - 1.0).max() < RELATIVE_ERROR[precision]


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_ends_of_the_range_are_exact(precision: Precision) -> None:
    values = np.array([0.0, -0.0, -1e9, -np.inf, np.nan] * 9, dtype=precision)
    exponentials(values)
    np.testing.assert_array_equal(values, np.array([1.0, 1.0, 0.0, 0.0, np.nan] * 9, dtype=precision))


def test_logarithms_match_naive_to_rounding_over_the_whole_range() -> None:
    near = 1.0 + np.concatenate([-np.logspace(-16, -0.3, 4000), np.logspace(-16, 0.3, 4000)])
    values = np.concatenate([np.exp(np.linspace(-708.0, 709.0, 40_001)), near, [1.0, 0.5, 2.0]])
    found, expected = values.copy(), values.copy()
    naive_math.logarithms(expected)
    logarithms(found)
    assert np.abs(expected).min() == 0.0 < 1e-15 < np.abs(expected[expected != 0.0]).max()
    np.testing.assert_allclose(found, expected, rtol=5e-16, atol=0.0)
    assert found[-3] == 0.0


@pytest.mark.parametrize("last", [0, 1, 7, 300])
def test_shuffle_from_matches_naive(last: int) -> None:
    draws = np.random.default_rng(last).random(max(0, last - 2))
    got, expected = np.arange(last + 3), np.arange(last + 3)
    shuffle_from(got, draws, last)
    naive_math.shuffle_from(expected, draws, last)
    np.testing.assert_array_equal(got, expected)
    assert sorted(got) == list(range(last + 3))


def test_every_permutation_is_as_likely_as_another() -> None:
    draws = [[(i + 0.5) / n for i in range(n)] for n in (4, 3, 2)]  # the middles of all outcomes of each draw
    counts: Counter[tuple[int, ...]] = Counter()
    for chosen in product(*draws):
        positions = np.arange(4)
        shuffle_from(positions, np.array(chosen), 3)
        counts[tuple(map(int, positions))] += 1
    assert len(counts) == 24
    assert set(counts.values()) == {1}


LARGEST_ERROR = {"float32": 1e-6, "float64": 1e-12}


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0, 1e5, 1e7, 1e20])
def test_sines_and_cosines_match_naive_over_a_wide_range(precision: Precision, scale: float) -> None:
    angles = (np.random.default_rng(0).standard_normal((40, 131)) * scale).astype(precision)
    amplitude = angles.dtype.type(1.0)
    sines, expected_sines = angles.copy(), angles.copy()
    cosines, expected_cosines = np.empty_like(angles), np.empty_like(angles)
    sines_and_cosines(sines, cosines, amplitude)
    naive_math.sines_and_cosines(expected_sines, expected_cosines, 1.0)
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
def test_waves_of_non_finite_values_are_not_finite(precision: Precision) -> None:
    sines = np.full((1, 20), np.inf, dtype=precision)
    cosines = np.empty_like(sines)
    sines_and_cosines(sines, cosines, sines.dtype.type(1.0))
    assert np.isnan(sines).all()
    assert np.isnan(cosines).all()
