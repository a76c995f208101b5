from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.kernels import (
    GAUSSIAN,
    LANES,
    LAPLACIAN,
    LINEAR,
    MATERN32,
    MATERN52,
    POLYNOMIAL,
    KernelRule,
    absolute_distances,
    add_kernel_sums,
    as_nystrom,
    inner_products,
    kernel_block,
    kernel_row,
    kernel_self,
    nystrom_transform,
    sign_products,
    squared_distances,
)
from okl.compiled.products import panels_of
from okl.foundation.types import FloatArray, Precision
from tests.compiled.cases import PRECISIONS
from tests.naive import kernels as naive_kernels

RULES = [
    KernelRule(GAUSSIAN, 0.1, 0.0, 0),
    KernelRule(LAPLACIAN, 0.2, 0.0, 0),
    KernelRule(MATERN32, 0.5, 0.0, 0),
    KernelRule(MATERN52, 0.5, 0.0, 0),
    *(KernelRule(POLYNOMIAL, 0.2, 1.0, degree) for degree in (1, 2, 3, 4)),
    KernelRule(LINEAR, 1.0, 0.0, 0),
]
RELATIVE_ERROR = {"float32": 2e-6, "float64": 1e-14}
BLOCK_PRECISIONS: list[Precision] = ["float32", "float64"]


def some_rows(rows: int, precision: Precision, n_inputs: int = 5, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((rows, n_inputs)).astype(precision)


def compute(inputs: FloatArray, landmarks: FloatArray, rule: KernelRule) -> FloatArray:
    values = np.full((len(inputs), len(landmarks)), np.nan, dtype=inputs.dtype)
    kernel_block(values, inputs, panels_of(landmarks.T), rule)
    return values


@pytest.mark.parametrize("precision", BLOCK_PRECISIONS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.code}-{rule.degree}")
def test_kernel_blocks_match_naive(rule: KernelRule, precision: Precision) -> None:
    for n_landmarks in (1, 37, 64):
        inputs, landmarks = some_rows(29, precision), some_rows(n_landmarks, precision, seed=1)
        expected = np.empty((29, n_landmarks))
        naive_kernels.kernel_block(expected, inputs, landmarks, rule)
        assert np.ptp(expected) > 0.3
        largest = np.abs(expected).max()
        np.testing.assert_allclose(
            compute(inputs, landmarks, rule), expected, atol=RELATIVE_ERROR[precision] * largest, rtol=0
        )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.code}-{rule.degree}")
def test_a_row_has_the_same_bits_in_any_block(rule: KernelRule) -> None:
    inputs, landmarks = some_rows(70, "float32"), some_rows(45, "float32", seed=1)
    whole = compute(inputs, landmarks, rule)
    for size in (1, 3, 8, 33):
        parts = [compute(inputs[i : i + size], landmarks, rule) for i in range(0, 70, size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_rows_far_from_the_origin_lose_no_digits() -> None:
    near = some_rows(20, "float32")
    near = np.round(near * 64) / 64
    far = near + np.float32(1000.0)
    np.testing.assert_array_equal(far - 1000, near)
    np.testing.assert_array_equal(compute(far, far, RULES[0]), compute(near, near, RULES[0]))
    assert (np.diag(compute(far, far, RULES[0])) == 1).all()


@pytest.mark.parametrize("rule", RULES[:4], ids=lambda rule: str(rule.code))
def test_rows_beyond_the_format_are_unlike_any_landmark(rule: KernelRule) -> None:
    inputs = np.full((3, 5), 1e30, dtype=np.float32)
    assert (compute(inputs, some_rows(20, "float32"), rule) == 0).all()
    inputs[:] = np.nan
    assert np.isnan(compute(inputs, some_rows(20, "float32"), rule)).all()


@pytest.mark.parametrize("precision", BLOCK_PRECISIONS)
def test_nystrom_features_match_naive_on_any_number_of_threads(precision: Precision) -> None:
    inputs, landmarks = some_rows(75, precision), some_rows(21, precision, seed=1)
    projection = some_rows(21, precision, 18, seed=2)
    expected = np.empty((75, 18))
    naive_kernels.nystrom_transform(expected, inputs, landmarks, RULES[0], projection)
    assert expected.std() > 0.3
    nystrom = as_nystrom(landmarks, RULES[0], projection)
    for n_threads in (1, 3):
        features = np.full((75, 18), np.nan, dtype=precision)
        for thread in range(n_threads):
            nystrom_transform(features, np.empty((16, 21), precision), inputs, nystrom, thread, n_threads)
        np.testing.assert_allclose(features, expected, atol=10 * RELATIVE_ERROR[precision], rtol=0)


TOLERANCE = {"float32": 2e-6, "float64": 1e-13}
DISTANCES = [squared_distances, absolute_distances, inner_products]


def some(n_inputs: int, width: int, precision: Precision) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng([n_inputs, width])
    supports = rng.standard_normal((n_inputs, width)).astype(precision)
    return supports, rng.standard_normal(n_inputs).astype(precision)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("function", DISTANCES, ids=lambda function: function.__name__)
def test_distances_match_naive_for_every_remainder_of_inputs(function, precision: Precision) -> None:  # type: ignore[no-untyped-def]
    for n_inputs in range(1, 10):
        supports, x = some(n_inputs, 3 * LANES, precision)
        row, expected = np.empty(3 * LANES, dtype=precision), np.empty(3 * LANES)
        function(row, supports, x)
        getattr(naive_kernels, function.__name__)(expected, supports, x)
        np.testing.assert_allclose(row, expected, rtol=0, atol=TOLERANCE[precision] * np.abs(expected).max())


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.code))
def test_kernel_rows_match_naive(rule: KernelRule, precision: Precision) -> None:
    for width in (1, LANES, 5 * LANES):
        supports, x = some(7, width, precision)
        row, expected = np.empty(width, dtype=precision), np.empty(width)
        kernel_row(row, supports, x, rule)
        naive_kernels.kernel_row(expected, supports, x, rule)
        assert width == 1 or np.ptp(expected) > 0.1
        np.testing.assert_allclose(row, expected, rtol=0, atol=TOLERANCE[precision] * max(1.0, np.abs(expected).max()))
        own = kernel_self(x, rule)
        assert own == pytest.approx(naive_kernels.kernel_self(x, rule), rel=1e-12)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.code))
def test_a_value_has_the_same_bits_at_every_position_and_width(rule: KernelRule, precision: Precision) -> None:
    supports, x = some(6, 7 * LANES, precision)
    supports[:] = supports[:, :1]
    for width in (1, LANES, 3 * LANES, 7 * LANES):
        row = np.empty(width, dtype=precision)
        kernel_row(row, supports, x, rule)
        assert len(set(row.tolist())) == 1
        single = row[0]
        kernel_row(row, np.repeat(x[:, None], 7 * LANES, axis=1), np.ascontiguousarray(supports[:, 0]), rule)
        assert (row == single).all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_equal_rows_have_kernel_value_1_and_far_ones_0(precision: Precision) -> None:
    supports, x = some(5, LANES, precision)
    supports[:, 3] = x = (x + 1e4).astype(precision)
    row = np.empty(LANES, dtype=precision)
    for rule in RULES[:4]:
        kernel_row(row, supports, x, rule)
        assert row[3] == 1.0
        assert not np.delete(row, 3).any()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("code", [GAUSSIAN, LAPLACIAN])
def test_kernel_sums_match_naive_and_add_up(code: int, precision: Precision) -> None:
    rng = np.random.default_rng(code)
    inputs, supports = rng.standard_normal((37, 5)).astype(precision), rng.standard_normal((45, 5)).astype(precision)
    coefficients, rule = rng.standard_normal((3, 45)).astype(precision), KernelRule(code, 0.2, 0.0, 0)
    sums, expected = np.ones((37, 3)), np.ones((37, 3))
    values = np.empty((37, 45), dtype=precision)
    add_kernel_sums(sums, values, inputs, panels_of(supports.T), coefficients, rule)
    naive_kernels.add_kernel_sums(expected, inputs, supports, coefficients, rule)
    assert np.ptp(expected) > 1.0
    np.testing.assert_allclose(sums, expected, rtol=0, atol={"float32": 2e-5, "float64": 1e-12}[precision])


@pytest.mark.parametrize("precision", BLOCK_PRECISIONS)
def test_sign_products_match_naive(precision: Precision) -> None:
    inputs, landmarks = some_rows(9, precision), some_rows(21, precision, seed=1)
    landmarks[:3] = inputs[:3]  # no sign
    values, transposed = some_rows(9, precision, 21, seed=2), np.ascontiguousarray(landmarks.T)
    found, expected = np.empty_like(inputs), np.empty_like(inputs)
    sign_products(found, values, inputs, transposed)
    naive_kernels.sign_products(expected, values, inputs, transposed)
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=RELATIVE_ERROR[precision] * np.abs(values).sum(axis=1).max()
    )
