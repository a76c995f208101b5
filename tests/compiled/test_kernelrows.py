from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.kernelrows import (
    LANES,
    absolute_distances,
    inner_products,
    kernel_row,
    kernel_self,
    squared_distances,
)
from okl.compiled.kernelrule import GAUSSIAN, LAPLACIAN, LINEAR, MATERN32, MATERN52, POLYNOMIAL, KernelRule
from okl.types import FloatArray, Precision
from tests.compiled.cases import PRECISIONS
from tests.naive import kernelrows as naive

RULES = [
    KernelRule(GAUSSIAN, 0.1, 0.0, 0),
    KernelRule(LAPLACIAN, 0.2, 0.0, 0),
    KernelRule(MATERN32, 0.5, 0.0, 0),
    KernelRule(MATERN52, 0.5, 0.0, 0),
    KernelRule(POLYNOMIAL, 0.2, 1.0, 3),
    KernelRule(LINEAR, 1.0, 0.0, 0),
]
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
        getattr(naive, function.__name__)(expected, supports, x)
        np.testing.assert_allclose(row, expected, rtol=0, atol=TOLERANCE[precision] * np.abs(expected).max())


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.code))
def test_kernel_rows_match_naive(rule: KernelRule, precision: Precision) -> None:
    for width in (1, LANES, 5 * LANES):
        supports, x = some(7, width, precision)
        row, expected = np.empty(width, dtype=precision), np.empty(width)
        kernel_row(row, supports, x, rule)
        naive.kernel_row(expected, supports, x, rule)
        assert width == 1 or np.ptp(expected) > 0.1
        np.testing.assert_allclose(row, expected, rtol=0, atol=TOLERANCE[precision] * max(1.0, np.abs(expected).max()))
        own = kernel_self(x, rule)
        assert own == pytest.approx(naive.kernel_self(x, rule), rel=1e-12)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.code))
def test_a_value_has_the_same_bits_in_every_place_and_width(rule: KernelRule, precision: Precision) -> None:
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
