from __future__ import annotations

import numpy as np
import pytest

from okl.features.nystrom import NystromFeatures, fit_nystrom_map
from okl.features.predictors import score_rows
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray, Precision
from okl.kernels import CustomKernel, Gaussian, Kernel, Laplacian, Linear, Matern32, Matern52, Polynomial

KERNELS: list[Kernel] = [Gaussian(2.0), Laplacian(4.0), Matern32(2.0), Matern52(2.0), Polynomial(2), Linear()]
TOLERANCE = {"float32": 1e-3, "float64": 1e-9}


def some_rows(rows: int, n_inputs: int = 4, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((rows, n_inputs))


def custom_gaussian(left: FloatArray, right: FloatArray) -> FloatArray:
    return Gaussian(2.0).matrix(left, right)


def sigmoid(left: FloatArray, right: FloatArray) -> FloatArray:
    values: FloatArray = np.tanh(left @ right.T - 1.0)
    return values


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_inner_products_of_landmarks_are_their_kernel_at_full_rank(kernel: Kernel, precision: Precision) -> None:
    landmarks = some_rows(30)
    features = fit_nystrom_map(kernel, landmarks, 30, precision).transform(landmarks)
    assert features.dtype == precision
    expected = kernel.matrix(landmarks, landmarks)
    np.testing.assert_allclose(features @ features.T, expected, atol=TOLERANCE[precision] * expected.max())


def test_inner_products_are_those_of_the_best_approximation_of_the_rank() -> None:
    landmarks, kernel = some_rows(40), Gaussian(2.0)
    features = fit_nystrom_map(kernel, landmarks, 7, "float64").transform(landmarks)
    eigenvalues, vectors = np.linalg.eigh(kernel.matrix(landmarks, landmarks))
    assert eigenvalues[-8] > 0.05
    best = (vectors[:, -7:] * eigenvalues[-7:]) @ vectors[:, -7:].T
    np.testing.assert_allclose(features @ features.T, best, atol=1e-10)
    norms = np.sum(features**2, axis=0)
    np.testing.assert_allclose(norms, eigenvalues[:-8:-1], err_msg="columns come by falling eigenvalue")


def test_error_elsewhere_falls_with_the_rank() -> None:
    landmarks, rows, kernel = some_rows(60), some_rows(50, seed=1), Gaussian(3.0)
    errors = []
    for rank in (5, 15, 60):
        features = fit_nystrom_map(kernel, landmarks, rank, "float64").transform(rows)
        errors.append(np.linalg.norm(features @ features.T - kernel.matrix(rows, rows)))
    assert errors[0] > 2 * errors[1] > 4 * errors[2] > 0


def test_a_row_has_the_same_bits_in_any_block() -> None:
    rows, nystrom = some_rows(700), fit_nystrom_map(Gaussian(2.0), some_rows(50, seed=1), 20)
    whole = nystrom.transform(rows)
    for size in (1, 7, 300):
        parts = [nystrom.transform(rows[i : i + size]) for i in range(0, 700, size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_a_custom_kernel_gives_the_same_map_as_its_built_in_twin() -> None:
    landmarks, rows = some_rows(30), some_rows(300, seed=1)
    custom = fit_nystrom_map(CustomKernel("mine", custom_gaussian), landmarks, 12)
    built_in = fit_nystrom_map(Gaussian(2.0), landmarks, 12)
    np.testing.assert_allclose(custom.transform(rows), built_in.transform(rows), atol=1e-4)
    weights = np.ones((1, 12))
    np.testing.assert_array_equal(score_rows(custom, weights, rows, 2), score_rows(custom, weights, rows, 1))
    with pytest.raises(ConfigError, match="which a model file cannot hold"):
        custom.describe()


def test_a_duplicate_landmark_only_reduces_the_rank() -> None:
    landmarks = np.repeat(some_rows(10), 3, axis=0)
    nystrom = fit_nystrom_map(Gaussian(2.0), landmarks, 30)
    assert nystrom.n_columns == 10
    features = nystrom.transform(landmarks)
    np.testing.assert_allclose(features @ features.T, Gaussian(2.0).matrix(landmarks, landmarks), atol=1e-3)


def test_a_linear_kernel_keeps_as_many_columns_as_there_are_inputs() -> None:
    assert fit_nystrom_map(Linear(), some_rows(20), 20).n_columns == 4


def test_a_kernel_that_is_not_positive_definite_keeps_only_the_rank_that_it_can() -> None:
    kernel, landmarks = CustomKernel("sigmoid", sigmoid), some_rows(30)
    eigenvalues = np.linalg.eigvalsh(sigmoid(landmarks.astype(np.float32), landmarks.astype(np.float32)))
    can = int((eigenvalues > -eigenvalues[0]).sum())
    assert eigenvalues[0] < -1
    assert 1 <= can < 10
    with pytest.raises(
        DataError, match=f"'sigmoid' kernel matrix of 30 .* is not positive definite.*allows rank {can},"
    ):
        fit_nystrom_map(kernel, landmarks, 10)
    assert fit_nystrom_map(kernel, landmarks, can).n_columns == can


def test_invalid_arguments_are_named() -> None:
    landmarks = some_rows(5)
    with pytest.raises(ConfigError, match="rank = 6, but 5 landmarks give"):
        fit_nystrom_map(Gaussian(1.0), landmarks, 6)
    with pytest.raises(ConfigError, match="rank = 0"):
        fit_nystrom_map(Gaussian(1.0), landmarks, 0)
    with pytest.raises(DataError, match=r"but got \(0, 4\)"):
        fit_nystrom_map(Gaussian(1.0), landmarks[:0], 1)
    with pytest.raises(DataError, match="allows rank 0"):
        fit_nystrom_map(Linear(), np.zeros((5, 2)), 1)
    with pytest.raises(DataError, match="'lower' is not symmetric"):
        fit_nystrom_map(CustomKernel("lower", lambda left, right: np.tril(left @ right.T)), landmarks, 1)
    with pytest.raises(DataError, match="not finite"):
        fit_nystrom_map(Polynomial(300, 1e10), landmarks, 1)
    with pytest.raises(ConfigError, match=r"Landmarks \(5, 4\) float32 and projection \(4, 2\) float32"):
        NystromFeatures(Gaussian(1.0), np.ones((5, 4), np.float32), np.ones((4, 2), np.float32))
