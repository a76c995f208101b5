from __future__ import annotations

import numpy as np
import pytest

from okl.features.base import transform_rows
from okl.features.fourier import FourierFeatures, draw_fourier_map
from okl.features.predictors import KernelExpansion, predictor_from_stored, score_rows
from okl.foundation.catalogue import KERNELS
from okl.foundation.errors import ConfigError, DataError, ModelError
from okl.foundation.types import FloatArray, Precision
from okl.kernels import CustomKernel, Gaussian, Linear, make_kernel
from tests.features.cells import assert_same_bits_in_any_block

ROWS = 1300
SIZES = [1, 2, 3, 7, 64, 255, 256, 600]


def make_case(n_inputs: int, precision: Precision) -> tuple[FourierFeatures, FloatArray, FloatArray]:
    rng = np.random.default_rng(n_inputs)
    fourier = draw_fourier_map(Gaussian(1.4 * n_inputs**0.5), n_inputs, 90, 0, precision)
    inputs = rng.standard_normal((ROWS, n_inputs)).astype(precision)
    return fourier, rng.standard_normal((3, fourier.n_columns)).astype(precision), inputs


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("n_inputs", [1, 5, 54, 300])
def test_a_row_has_the_same_bits_with_any_other_rows(n_inputs: int, precision: Precision) -> None:
    fourier, weights, inputs = make_case(n_inputs, precision)
    features, scores = transform_rows(fourier, inputs), score_rows(fourier, weights, inputs)
    assert scores.dtype == features.dtype == precision
    assert len(np.unique(scores)) > 0.99 * scores.size
    order = np.random.default_rng(1).permutation(ROWS)
    np.testing.assert_array_equal(score_rows(fourier, weights, inputs[order]), scores[order])
    np.testing.assert_array_equal(transform_rows(fourier, inputs[order]), features[order])
    for size in SIZES:
        parts = range(0, min(700, 40 * size), size)
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


def test_invalid_arguments_are_named() -> None:
    fourier, weights, inputs = make_case(5, "float32")
    with pytest.raises(DataError, match=r"\(rows, 5\), but got \(1300, 4\)"):
        score_rows(fourier, weights, inputs[:, :4])
    with pytest.raises(DataError, match=r"\(rows, 5\), but got \(1300, 4\)"):
        transform_rows(fourier, inputs[:, :4])
    with pytest.raises(ConfigError, match="do not fit a feature map of 180 columns"):
        score_rows(fourier, weights[:, :-1], inputs)


N_INPUTS = 6


def make_expansion(n_supports: int = 1100, n_outputs: int = 3, precision: Precision = "float32") -> KernelExpansion:
    rng = np.random.default_rng(n_supports)
    supports = rng.standard_normal((n_supports, N_INPUTS)).astype(precision)
    return KernelExpansion(Gaussian(2.0), supports, rng.standard_normal((n_outputs, n_supports)).astype(precision))


def some_inputs(rows: int) -> FloatArray:
    return np.random.default_rng(rows).standard_normal((rows, N_INPUTS)).astype(np.float32)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_scores_are_sums_of_kernel_values(name: str) -> None:
    kernel = make_kernel(name, {} if name in ("linear", "polynomial") else {"bandwidth": 2.0})
    expansion = make_expansion(700, 2, "float64")
    expansion = KernelExpansion(kernel, expansion.supports, expansion.coefficients)
    inputs = some_inputs(40)
    expected = kernel.matrix(inputs, expansion.supports) @ expansion.coefficients.T
    assert np.ptp(expected) > 1.0
    np.testing.assert_allclose(expansion.scores(inputs), expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_a_row_has_the_same_bits_in_any_block_and_for_any_number_of_threads(n_outputs: int) -> None:
    expansion, inputs = make_expansion(n_outputs=n_outputs), some_inputs(900)
    assert_same_bits_in_any_block(expansion, inputs, n_outputs)


def test_without_supports_all_scores_are_0() -> None:
    for n_outputs in (1, 3):
        assert not make_expansion(0, n_outputs).scores(some_inputs(300)).any()


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Linear()], ids=lambda kernel: kernel.name)
def test_stored_predictors_score_the_same(kernel: Gaussian | Linear) -> None:
    expansion = make_expansion(20)
    expansion = KernelExpansion(kernel, expansion.supports, expansion.coefficients)
    again = predictor_from_stored(expansion.describe(), expansion.arrays(), "here")
    assert (again.n_inputs, again.n_outputs) == (N_INPUTS, 3)
    np.testing.assert_array_equal(again.scores(some_inputs(9)), expansion.scores(some_inputs(9)))


def test_expansion_of_wrong_shape_is_named() -> None:
    expansion = make_expansion(20)
    with pytest.raises(DataError, match=r"\(rows, 6\)"):
        expansion.scores(some_inputs(3)[:, :4])
    with pytest.raises(ConfigError, match="one column for each support"):
        KernelExpansion(Gaussian(1.0), expansion.supports, expansion.coefficients[:, 1:])
    with pytest.raises(ConfigError, match="both float32 or float64"):
        KernelExpansion(Gaussian(1.0), expansion.supports, expansion.coefficients.astype(float))
    own = CustomKernel("mine", lambda left, right: left @ right.T)
    with pytest.raises(ConfigError, match="'mine' has no compiled implementation"):
        KernelExpansion(own, expansion.supports, expansion.coefficients)
    arrays = expansion.arrays()
    with pytest.raises(ModelError, match="here: the kernel expansion is damaged"):
        predictor_from_stored(expansion.describe(), {"supports": arrays["supports"]}, "here")
    with pytest.raises(ModelError, match="damaged"):
        predictor_from_stored({"kind": "expansion", "kernel": {"name": "sinc"}}, arrays, "here")
