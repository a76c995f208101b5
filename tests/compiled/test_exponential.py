from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.door import compiled_sum
from okl.compiled.exponential import exp_negative, exponentials
from okl.types import FloatArray, Precision
from tests.naive import exponential as naive

RELATIVE_ERROR = {"float32": 1.5e-7, "float64": 4e-16}


@compiled_sum
def _reordered(values: FloatArray) -> None:
    for j in range(values.shape[0]):
        values[j] = exp_negative(values[j])  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("sums", [exponentials, _reordered], ids=["in order", "reordered"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_exponentials_match_naive_to_rounding_over_the_whole_range(precision: Precision, sums: object) -> None:
    least = np.log(np.finfo(precision).tiny)
    spread = -np.logspace(-12, np.log10(-least), 40_000)
    values = np.concatenate([spread, np.linspace(0.999 * least, 0.0, 40_001)]).astype(precision)
    values = values[values > 0.9999 * least]
    expected = values.astype(np.float64)
    naive.exponentials(expected)
    assert np.ptp(np.log10(expected)) > 30
    assert callable(sums)
    sums(values)
    assert values.dtype == precision
    assert np.abs(values / expected - 1.0).max() < RELATIVE_ERROR[precision]


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_ends_of_the_range_are_exact(precision: Precision) -> None:
    values = np.array([0.0, -0.0, -1e9, -np.inf, np.nan] * 9, dtype=precision)
    exponentials(values)
    np.testing.assert_array_equal(values, np.array([1.0, 1.0, 0.0, 0.0, np.nan] * 9, dtype=precision))
