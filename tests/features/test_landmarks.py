from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from okl.features.landmarks import (
    MOST_ROWS,
    Landmarks,
    cholesky_pivots,
    choose_landmarks,
    cluster_centres,
    draw_in_proportion,
)
from okl.features.nystrom import fit_nystrom_map
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray
from okl.kernels import CustomKernel, Gaussian, Kernel, Laplacian, Linear, Polynomial, kernel_diagonal

METHODS: list[Landmarks] = ["uniform", "kmeans", "rpcholesky"]


def clustered_rows(rows: int = 600, seed: int = 0) -> FloatArray:
    """Return many rows in one cluster and few in nine others, which uniform sampling misses."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((10, 5)) * 6
    belongs = np.where(rng.random(rows) < 0.8, 0, rng.integers(1, 10, rows))
    return (centres[belongs] + 0.5 * rng.standard_normal((rows, 5))).astype(np.float32)


def trace_error(kernel: Kernel, rows: FloatArray, landmarks: FloatArray) -> float:
    features = fit_nystrom_map(kernel, landmarks, len(landmarks), "float64").transform(rows)
    return 1 - float(np.sum(features**2)) / len(rows)


@pytest.mark.parametrize("method", METHODS)
def test_landmarks_depend_on_the_seed_alone(method: Landmarks) -> None:
    rows, kernel = clustered_rows(), Gaussian(3.0)
    first, again, other = (choose_landmarks(kernel, rows, 20, method, seed) for seed in (3, 3, 4))
    assert first.shape == (20, 5)
    assert first.dtype == rows.dtype
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("method", ["uniform", "rpcholesky"])
def test_landmarks_are_different_rows(method: Landmarks) -> None:
    rows = clustered_rows(50)
    for n_landmarks in (1, 20, 50):
        landmarks = choose_landmarks(Gaussian(3.0), rows, n_landmarks, method, 0)
        assert len(np.unique(landmarks, axis=0)) == n_landmarks
        assert {tuple(row) for row in landmarks.tolist()} <= {tuple(row) for row in rows.tolist()}


@pytest.mark.parametrize("method", ["kmeans", "rpcholesky"])
def test_chosen_landmarks_approximate_better_than_uniform_ones(method: Landmarks) -> None:
    rows, kernel = clustered_rows(), Gaussian(4.0)
    errors = {
        name: np.mean([trace_error(kernel, rows, choose_landmarks(kernel, rows, 15, name, seed)) for seed in range(5)])
        for name in ("uniform", method)
    }
    assert errors["uniform"] > 0.05
    assert errors[method] < 0.7 * errors["uniform"]


def test_centres_are_means_of_the_rows_nearest_to_them() -> None:
    rng = np.random.default_rng(0)
    truth = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [50.0, 50.0]])
    rows = np.repeat(truth, 30, axis=0) + 0.1 * rng.standard_normal((120, 2))
    centres = cluster_centres(rows, 4, np.random.default_rng(1))
    expected = rows.reshape(4, 30, 2).mean(axis=1)
    np.testing.assert_allclose(centres[np.lexsort(centres.T)], expected[np.lexsort(expected.T)], atol=1e-12)


def test_more_centres_than_distinct_rows_are_allowed() -> None:
    rows = np.repeat(np.arange(3.0)[:, None], 10, axis=0)
    centres = cluster_centres(rows, 8, np.random.default_rng(0))
    assert set(centres[:, 0].tolist()) == {0.0, 1.0, 2.0}


def test_rows_are_drawn_in_proportion_and_never_those_of_weight_zero() -> None:
    rng = np.random.default_rng(0)
    drawn = np.bincount(
        [draw_in_proportion(np.array([0.0, 1.0, 0.0, 3.0, 0.0]), rng) for _ in range(4000)], minlength=5
    )
    np.testing.assert_array_equal(drawn[[0, 2, 4]], 0)
    assert drawn[3] == pytest.approx(3000, abs=140)
    assert {draw_in_proportion(np.zeros(3), rng) for _ in range(50)} == {0, 1, 2}


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Laplacian(3.0), Polynomial(2), Linear()], ids=lambda k: k.name)
def test_pivots_explain_more_and_more_of_the_kernel(kernel: Kernel) -> None:
    rows = np.random.default_rng(0).standard_normal((200, 5))
    pivots = cholesky_pivots(kernel, rows, 40, np.random.default_rng(1))
    assert len(set(pivots)) == 40
    left = []
    for number in (1, 4, 5, 40):
        among, across = kernel.matrix(rows[pivots[:number]], rows[pivots[:number]]), kernel.matrix(rows, rows[pivots])
        across = across[:, :number]
        left.append(np.sum(kernel_diagonal(kernel, rows)) - np.trace(across @ np.linalg.pinv(among, 1e-10) @ across.T))
    assert all(later <= before * (1 + 1e-9) for before, later in pairwise(left))
    assert left[-1] < 0.6 * left[0]
    assert kernel.name != "linear" or abs(left[-1]) < 1e-6


def test_diagonals_are_those_of_the_kernel_matrix() -> None:
    rows = np.random.default_rng(0).standard_normal((600, 3))
    own = CustomKernel("mine", lambda left, right: (left @ right.T) ** 2)
    for kernel in (Gaussian(2.0), Polynomial(3), Linear(), own):
        np.testing.assert_allclose(kernel_diagonal(kernel, rows), np.diag(kernel.matrix(rows, rows)))


def test_invalid_arguments_are_named() -> None:
    rows = clustered_rows(30)
    with pytest.raises(ConfigError, match="31 landmarks are requested, but rpcholesky chooses them from 30 rows"):
        choose_landmarks(Gaussian(1.0), rows, 31, "rpcholesky", 0)
    with pytest.raises(
        ConfigError, match="10,001 landmarks are requested, but rpcholesky chooses them from 10,000 rows"
    ):
        choose_landmarks(Gaussian(1.0), np.zeros((20_000, 1)), MOST_ROWS["rpcholesky"] + 1, "rpcholesky", 0)
    with pytest.raises(ConfigError, match="landmarks = 'leverage'; expected one of kmeans, rpcholesky, uniform"):
        choose_landmarks(Gaussian(1.0), rows, 3, "leverage", 0)  # type: ignore[arg-type]
