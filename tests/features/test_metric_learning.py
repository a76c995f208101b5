"""Learnt metrics: gradients of kernel expansions, and weights of the inputs from their squares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from okl.data.dataset import ColumnStatistics, Encoding, Schema
from okl.features.metric_learning import (
    BLOCK,
    LEAST_WEIGHT,
    gradient_sums,
    input_groups,
    interacting_inputs,
    learnt_metric,
    metric_shares,
    raised_metric,
)
from okl.foundation.errors import ConfigError
from okl.foundation.types import Doubles, FloatArray
from okl.kernels import Gaussian, Laplacian, Matern32, Matern52, NamedKernel, Polynomial

KERNELS = (Gaussian(1.5), Laplacian(3.0), Matern32(2.0), Matern52(2.0))
N_INPUTS, STEP = 4, 1e-6


def drawn(rows: int, columns: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((rows, columns))


def naive_squares(kernel: NamedKernel, landmarks: FloatArray, weights: FloatArray, inputs: FloatArray) -> FloatArray:
    """Return sums of squared central differences of every output at every row."""
    squares = np.zeros(N_INPUTS)
    for x in inputs:
        for d in range(N_INPUTS):
            moved = np.stack([x, x])
            moved[:, d] += [STEP, -STEP]
            above, below = kernel.matrix(moved, landmarks) @ weights.T
            squares[d] += (((above - below) / (2.0 * STEP)) ** 2).sum()
    return squares


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_gradients_match_finite_differences(kernel: NamedKernel) -> None:
    landmarks, weights, inputs = drawn(12, N_INPUTS, 0), drawn(2, 12, 1), drawn(7, N_INPUTS, 2)
    found = gradient_sums(kernel, landmarks, weights, inputs)
    assert found.count == 7
    np.testing.assert_allclose(found.squares, naive_squares(kernel, landmarks, weights, inputs), rtol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS[:2], ids=lambda kernel: kernel.name)
def test_sums_of_parts_equal_the_sums_of_all_for_any_threads(kernel: NamedKernel) -> None:
    landmarks, weights, inputs = drawn(30, N_INPUTS, 0), drawn(1, 30, 1), drawn(3 * BLOCK, N_INPUTS, 2)
    whole = gradient_sums(kernel, landmarks, weights, inputs, n_threads=2)
    parts = [
        gradient_sums(kernel, landmarks, weights, inputs[start : start + BLOCK]) for start in (0, BLOCK, 2 * BLOCK)
    ]
    assert sum(part.count for part in parts) == whole.count == len(inputs)
    np.testing.assert_array_equal(sum(part.squares for part in parts), whole.squares)


def test_a_kernel_without_a_gradient_is_refused() -> None:
    with pytest.raises(ConfigError, match="gradient of the kernel 'polynomial' is not known"):
        gradient_sums(Polynomial(), drawn(3, 2, 0), drawn(1, 3, 1), drawn(5, 2, 2))


def test_steps_measure_derivatives_by_the_inputs_before_the_metric() -> None:
    """The gradient of f(x sqrt(M)) by x does not depend on the form of its expansion, nor does the next metric."""
    kernel, groups, metric = Gaussian(1.5), np.arange(N_INPUTS), np.array([4.0, 1.0, 0.25, 0.01])
    landmarks, weights, inputs = drawn(12, N_INPUTS, 0), drawn(1, 12, 1), drawn(7, N_INPUTS, 2)
    stretched = gradient_sums(kernel, landmarks * metric**0.5, weights, inputs * metric**0.5)

    class Anisotropic(Gaussian):
        def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray:
            return super().matrix(left * metric**0.5, right * metric**0.5)

    direct = naive_squares(Anisotropic(1.5), landmarks, weights, inputs)
    np.testing.assert_allclose(learnt_metric(stretched, metric, groups), direct / direct.mean(), rtol=1e-6)


SCHEMA = Schema(
    ("size", "colour=blue", "colour=red", "colour=missing", "day.month", "day.year"),
    "y",
    "binary",
    (0, 1),
    encodings=(
        Encoding("colour", "category", ("colour=blue", "colour=red", "colour=missing"), ("blue", "red"), missing=True),
        Encoding("day", "date", ("day.month", "day.year")),
    ),
    feature_statistics=(ColumnStatistics(9, 0.0, 2.0, -3.0, 3.0),) * 5 + (ColumnStatistics(9, 1.0, 0.0, 1.0, 1.0),),
    scale="standard",
)


def test_categories_of_a_column_share_a_weight_and_no_weight_is_0() -> None:
    assert input_groups(SCHEMA).tolist() == [0, 1, 1, 1, 2, 3]
    sums = replace(gradient_sums(Gaussian(1.0), drawn(3, 6, 0), drawn(1, 3, 1), drawn(5, 6, 2)), squares=np.array(
        [8.0, 3.0, 6.0, 0.0, 0.0, 2.0]
    ))  # fmt: skip
    metric = np.array(learnt_metric(sums, np.ones(6), input_groups(SCHEMA)))
    np.testing.assert_allclose(metric / metric[0], [1.0, 3 / 8, 3 / 8, 3 / 8, LEAST_WEIGHT, 2 / 8])
    assert metric.mean() == pytest.approx(1.0)


def test_a_solution_without_gradient_leaves_the_metric() -> None:
    sums = gradient_sums(Gaussian(1.0), drawn(3, 6, 0), np.zeros((1, 3)), drawn(5, 6, 2))
    assert learnt_metric(sums, np.full(6, 2.0), input_groups(SCHEMA)) == (2.0,) * 6


def test_shares_are_of_squared_distances_by_source_column() -> None:
    assert metric_shares(SCHEMA) == {}
    shares = metric_shares(replace(SCHEMA, metric=(1.0, 2.0, 2.0, 2.0, 3.0, 50.0)))  # the last input never changes
    assert list(shares) == ["colour", "day", "size"]
    assert shares == pytest.approx({"colour": 0.6, "day": 0.3, "size": 0.1})


def test_products_of_inputs_that_residuals_depend_on_are_found() -> None:
    inputs, noise = drawn(600, 30, 0), drawn(600, 2, 1)
    groups = np.arange(30)
    for seed in range(20):  # of 900 products by chance in one of a thousand data sets
        assert not interacting_inputs(inputs, drawn(600, 2, seed + 2).astype(np.float64), groups).any()
    product = inputs[:, 4] * inputs[:, 7]
    residuals: Doubles = (noise + np.stack([0.5 * product, np.zeros(600)], axis=1)).astype(np.float64)
    assert np.flatnonzero(interacting_inputs(inputs, residuals, groups)).tolist() == [4, 7]
    shifted = 1e4 + inputs * 10.0 ** np.arange(-3, 3).repeat(5)
    assert np.flatnonzero(interacting_inputs(shifted, residuals, groups)).tolist() == [4, 7]
    groups[7] = 4  # inputs of one column
    assert not interacting_inputs(inputs, residuals, groups).any()
    weaker: Doubles = (residuals[:, :1] + 0.15 * inputs[:, [1]] * inputs[:, [2]]).astype(np.float64)
    assert np.flatnonzero(interacting_inputs(inputs, weaker, np.arange(30))).tolist() == [4, 7]  # one at a time


def test_heavy_tails_make_no_products() -> None:
    random = np.random.default_rng(3)
    for _ in range(20):
        inputs, residuals = random.standard_cauchy((500, 20)), random.standard_t(1.5, (500, 1))
        assert not interacting_inputs(inputs, residuals, np.arange(20)).any()
    constant = np.ones((500, 3))
    assert not interacting_inputs(constant, residuals, np.arange(3)).any()


def test_raised_inputs_have_as_much_weight_as_all_had() -> None:
    groups = np.array([0, 1, 2, 2, 3])
    raised = np.array([True, False, True, False, False])
    weights = np.array(raised_metric(np.array([0.1, 4.0, 0.0, 0.0, 0.9]), raised, groups))
    np.testing.assert_allclose(weights / weights[1] * 4.0, [2.5, 4.0, 2.5, 2.5, 0.9])
    assert weights.mean() == pytest.approx(1.0)
    once_more = np.array(raised_metric(weights, np.array([False, True, False, False, False]), groups))
    assert once_more[1] / once_more[0] == pytest.approx(weights.sum() / weights[0])
