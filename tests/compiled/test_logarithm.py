from __future__ import annotations

import numpy as np

from okl.compiled.logarithm import logarithms
from tests.naive import logarithm as naive


def test_logarithms_match_naive_to_rounding_over_the_whole_range() -> None:
    near = 1.0 + np.concatenate([-np.logspace(-16, -0.3, 4000), np.logspace(-16, 0.3, 4000)])
    values = np.concatenate([np.exp(np.linspace(-708.0, 709.0, 40_001)), near, [1.0, 0.5, 2.0]])
    found, expected = values.copy(), values.copy()
    naive.logarithms(expected)
    logarithms(found)
    assert np.abs(expected).min() == 0.0 < 1e-15 < np.abs(expected[expected != 0.0]).max()
    np.testing.assert_allclose(found, expected, rtol=5e-16, atol=0.0)
    assert found[-3] == 0.0
