from __future__ import annotations

import numpy as np
import pytest

from okl.features.fourier import FourierFeatures, draw_fourier_map
from okl.features.predictors import score_rows
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray, Precision
from okl.kernels import Gaussian

PRECISIONS: list[Precision] = ["float32", "float64"]
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


def some_rows(rows: int = 300, n_inputs: int = 6) -> FloatArray:
    return np.random.default_rng(1).standard_normal((rows, n_inputs))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_features_are_scaled_sines_then_cosines(precision: Precision) -> None:
    drawn = draw_fourier_map(Gaussian(1.5), 6, 37, 0, precision)
    inputs = some_rows().astype(precision)
    angles = inputs.astype(np.float64) @ drawn.frequencies.astype(np.float64)
    expected = np.concatenate([np.sin(angles), np.cos(angles)], axis=1) / np.sqrt(37)
    features = drawn.transform(inputs)
    assert features.dtype == precision
    assert features.flags.c_contiguous
    np.testing.assert_allclose(features, expected, atol=TOLERANCE[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_rows_have_norm_one(precision: Precision) -> None:
    features = draw_fourier_map(Gaussian(0.3), 6, 100, 0, precision).transform(some_rows())
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0, atol=TOLERANCE[precision])


def test_inner_products_approximate_the_kernel() -> None:
    rows, kernel = some_rows(120), Gaussian(2.0)
    exact = kernel.matrix(rows, rows)
    assert exact.min() < 0.3, "the rows are not all alike"
    for n_frequencies in (100, 10_000):
        features = draw_fourier_map(kernel, 6, n_frequencies, 4, "float64").transform(rows)
        # an inner product is a mean of n cosines, so Hoeffding: P(|error| > t) < 2 exp(-n t^2 / 2), over 7140 pairs
        bound = np.sqrt(2 * np.log(2 * 7140 / 1e-3) / n_frequencies)
        assert np.abs(features @ features.T - exact).max() < bound


def test_a_seed_draws_the_same_frequencies_in_both_precisions() -> None:
    first, again = (draw_fourier_map(Gaussian(1.0), 3, 20, 7) for _ in range(2))
    double = draw_fourier_map(Gaussian(1.0), 3, 20, 7, "float64")
    np.testing.assert_array_equal(first.frequencies, again.frequencies)
    np.testing.assert_array_equal(first.frequencies, double.frequencies.astype(np.float32))
    assert (first.frequencies != draw_fourier_map(Gaussian(1.0), 3, 20, 8).frequencies).all()


def test_features_of_a_row_do_not_depend_on_where_blocks_are_cut() -> None:
    drawn, rows = draw_fourier_map(Gaussian(1.0), 6, 50, 0), some_rows(1024)
    whole = drawn.transform(rows)
    parts = np.concatenate([drawn.transform(rows[:256]), drawn.transform(rows[256:])])
    np.testing.assert_array_equal(whole, parts)


@pytest.mark.parametrize("n_outputs", [1, 5])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_scores_have_the_same_bits_for_any_number_of_threads(precision: Precision, n_outputs: int) -> None:
    drawn, rows = draw_fourier_map(Gaussian(1.0), 6, 33, 0, precision), some_rows(1333).astype(precision)
    weights = np.random.default_rng(2).standard_normal((n_outputs, 66)).astype(precision)
    one = score_rows(drawn, weights, rows, 1)
    assert one.shape == (1333, n_outputs)
    np.testing.assert_allclose(one, drawn.transform(rows) @ weights.T, atol=30 * TOLERANCE[precision])
    for n_threads in (2, 3, 64):
        np.testing.assert_array_equal(score_rows(drawn, weights, rows, n_threads), one)


def test_no_rows_give_no_features_and_no_scores() -> None:
    drawn = draw_fourier_map(Gaussian(1.0), 6, 5, 0)
    assert drawn.transform(np.empty((0, 6))).shape == (0, 10)
    assert score_rows(drawn, np.ones((2, 10)), np.empty((0, 6)), 2).shape == (0, 2)


def test_invalid_arguments_are_named() -> None:
    drawn = draw_fourier_map(Gaussian(1.0), 6, 5, 0)
    with pytest.raises(DataError, match=r"\(rows, 6\), but got \(3, 7\)"):
        drawn.transform(np.zeros((3, 7)))
    with pytest.raises(ConfigError, match=r"\(1, 9\) do not fit a feature map of 10 columns"):
        score_rows(drawn, np.zeros((1, 9)), np.zeros((3, 6)))
    with pytest.raises(ConfigError, match="n_frequencies = 0"):
        draw_fourier_map(Gaussian(1.0), 6, 0, 0)
    with pytest.raises(ConfigError, match="int64"):
        FourierFeatures(Gaussian(1.0), np.zeros((2, 2), dtype=np.int64))
