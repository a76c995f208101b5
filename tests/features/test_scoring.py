from __future__ import annotations

import numpy as np
import pytest

from okl.errors import ConfigError, DataError
from okl.features.fourier import FourierFeatures, draw_fourier_map
from okl.features.scoring import score_rows, transform_rows
from okl.kernels import Gaussian
from okl.types import FloatArray, Precision

ROWS = 1300
SIZES = [1, 2, 3, 7, 64, 255, 256, 600]


def make_case(n_inputs: int, precision: Precision) -> tuple[FourierFeatures, FloatArray, FloatArray]:
    rng = np.random.default_rng(n_inputs)
    fourier = draw_fourier_map(Gaussian(1.4 * n_inputs**0.5), n_inputs, 90, 0, precision)
    inputs = rng.standard_normal((ROWS, n_inputs)).astype(precision)
    return fourier, rng.standard_normal((3, fourier.n_columns)).astype(precision), inputs


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("n_inputs", [1, 5, 54, 300])
def test_a_row_has_the_same_bits_whatever_rows_are_beside_it(n_inputs: int, precision: Precision) -> None:
    fourier, weights, inputs = make_case(n_inputs, precision)
    features, scores = transform_rows(fourier, inputs), score_rows(fourier, weights, inputs)
    assert scores.dtype == features.dtype == precision
    assert len(np.unique(scores)) > 0.99 * scores.size
    order = np.random.default_rng(1).permutation(ROWS)
    np.testing.assert_array_equal(score_rows(fourier, weights, inputs[order]), scores[order])
    np.testing.assert_array_equal(transform_rows(fourier, inputs[order]), features[order])
    for size in SIZES:
        parts = range(0, 700, size)
        scored = np.concatenate([score_rows(fourier, weights, inputs[i : i + size]) for i in parts])
        mapped = np.concatenate([transform_rows(fourier, inputs[i : i + size]) for i in parts])
        np.testing.assert_array_equal(scored, scores[: len(scored)])
        np.testing.assert_array_equal(mapped, features[: len(mapped)])


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_rows_have_the_bits_of_the_map_and_scores_are_products(precision: Precision) -> None:
    fourier, weights, inputs = make_case(54, precision)
    np.testing.assert_array_equal(transform_rows(fourier, inputs), fourier.transform(inputs))
    np.testing.assert_allclose(score_rows(fourier, weights, inputs), fourier.transform(inputs) @ weights.T, atol=1e-4)


@pytest.mark.parametrize("n_threads", [2, 3])
def test_any_number_of_threads_gives_the_same_bits(n_threads: int) -> None:
    fourier, weights, inputs = make_case(5, "float32")
    np.testing.assert_array_equal(score_rows(fourier, weights, inputs, n_threads), score_rows(fourier, weights, inputs))
    np.testing.assert_array_equal(transform_rows(fourier, inputs, n_threads), transform_rows(fourier, inputs))


def test_no_rows_have_no_scores() -> None:
    fourier, weights, inputs = make_case(5, "float32")
    assert score_rows(fourier, weights, inputs[:0], 2).shape == (0, 3)
    assert transform_rows(fourier, inputs[:0]).shape == (0, 180)


def test_what_does_not_fit_is_named() -> None:
    fourier, weights, inputs = make_case(5, "float32")
    with pytest.raises(DataError, match=r"\(rows, 5\), but \(1300, 4\) came"):
        score_rows(fourier, weights, inputs[:, :4])
    with pytest.raises(DataError, match=r"\(rows, 5\), but \(1300, 4\) came"):
        transform_rows(fourier, inputs[:, :4])
    with pytest.raises(ConfigError, match="do not fit a feature map of 180 columns"):
        score_rows(fourier, weights[:, :-1], inputs)
