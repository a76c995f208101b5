from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.kernelblocks import as_nystrom, kernel_block, nystrom_transform
from okl.compiled.kernelrule import GAUSSIAN, LAPLACIAN, LINEAR, MATERN32, MATERN52, POLYNOMIAL, KernelRule
from okl.compiled.projection import panels_of
from okl.types import FloatArray, Precision
from tests.naive import kernelblocks as naive

RULES = [
    KernelRule(GAUSSIAN, 0.1, 0.0, 0),
    KernelRule(LAPLACIAN, 0.2, 0.0, 0),
    KernelRule(MATERN32, 0.5, 0.0, 0),
    KernelRule(MATERN52, 0.5, 0.0, 0),
    *(KernelRule(POLYNOMIAL, 0.2, 1.0, degree) for degree in (1, 2, 3, 4)),
    KernelRule(LINEAR, 1.0, 0.0, 0),
]
RELATIVE_ERROR = {"float32": 2e-6, "float64": 1e-14}
PRECISIONS: list[Precision] = ["float32", "float64"]


def some_rows(rows: int, precision: Precision, n_inputs: int = 5, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((rows, n_inputs)).astype(precision)


def compute(inputs: FloatArray, landmarks: FloatArray, rule: KernelRule) -> FloatArray:
    values = np.full((len(inputs), len(landmarks)), np.nan, dtype=inputs.dtype)
    kernel_block(values, inputs, panels_of(landmarks.T), rule)
    return values


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.code}-{rule.degree}")
def test_kernel_blocks_match_naive(rule: KernelRule, precision: Precision) -> None:
    for n_landmarks in (1, 37, 64):
        inputs, landmarks = some_rows(29, precision), some_rows(n_landmarks, precision, seed=1)
        expected = np.empty((29, n_landmarks))
        naive.kernel_block(expected, inputs, landmarks, rule)
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


@pytest.mark.parametrize("precision", PRECISIONS)
def test_nystrom_features_match_naive_on_any_number_of_threads(precision: Precision) -> None:
    inputs, landmarks = some_rows(75, precision), some_rows(21, precision, seed=1)
    projection = some_rows(21, precision, 18, seed=2)
    expected = np.empty((75, 18))
    naive.nystrom_transform(expected, inputs, landmarks, RULES[0], projection)
    assert expected.std() > 0.3
    nystrom = as_nystrom(landmarks, RULES[0], projection)
    for n_threads in (1, 3):
        features = np.full((75, 18), np.nan, dtype=precision)
        for thread in range(n_threads):
            nystrom_transform(features, np.empty((16, 21), precision), inputs, nystrom, thread, n_threads)
        np.testing.assert_allclose(features, expected, atol=10 * RELATIVE_ERROR[precision], rtol=0)
