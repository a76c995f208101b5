from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.kernelrule import GAUSSIAN, LAPLACIAN, KernelRule
from okl.compiled.kernelsums import add_kernel_sums
from okl.compiled.projection import panels_of
from okl.types import Precision
from tests.compiled.cases import PRECISIONS
from tests.naive import kernelsums as naive


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("code", [GAUSSIAN, LAPLACIAN])
def test_kernel_sums_match_naive_and_add_up(code: int, precision: Precision) -> None:
    rng = np.random.default_rng(code)
    inputs, supports = rng.standard_normal((37, 5)).astype(precision), rng.standard_normal((45, 5)).astype(precision)
    coefficients, rule = rng.standard_normal((3, 45)).astype(precision), KernelRule(code, 0.2, 0.0, 0)
    sums, expected = np.ones((37, 3)), np.ones((37, 3))
    values = np.empty((37, 45), dtype=precision)
    add_kernel_sums(sums, values, inputs, panels_of(supports.T), coefficients, rule)
    naive.add_kernel_sums(expected, inputs, supports, coefficients, rule)
    assert np.ptp(expected) > 1.0
    np.testing.assert_allclose(sums, expected, rtol=0, atol={"float32": 2e-5, "float64": 1e-12}[precision])
