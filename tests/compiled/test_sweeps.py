from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tests.naive.sweeps as naive
from okl.compiled import rowpasses, sweeps
from okl.types import FloatArray


def arguments(n_rows: int, n_columns: int, precision: str) -> tuple[list[FloatArray], list[Any]]:
    """Outputs, and inputs up to the buffer or the curvatures."""
    rng = np.random.default_rng(n_rows)
    rows = rng.standard_normal((n_rows, n_columns)).astype(precision)
    outputs: list[FloatArray] = [np.zeros(n_columns), np.empty(n_rows), np.empty(n_rows)]
    signs, vector = rng.choice([-1.0, 1.0], n_rows), rng.standard_normal(n_columns)
    return outputs, [rows, signs, vector, rng.uniform(-1.0, 2.0, n_rows)]


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 5), (50, 5)])
def test_sweeps_match_naive(shape: tuple[int, int], precision: str) -> None:
    for name in ("sweep_box", "sweep_entropy"):
        outputs, inputs = arguments(*shape, precision)
        expected, upper = [one.copy() for one in outputs], np.random.default_rng(0).uniform(0.5, 2.0, shape[0])
        upper[0] = 0.0
        fifth = upper / 3.0
        getattr(naive, name)(*expected, *inputs, fifth.copy(), upper, -1.0, 3.0)
        getattr(sweeps, name)(*outputs, *inputs, fifth.copy(), upper, -1.0, 3.0)
        for found, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)
        assert outputs[1][0] == 0.0 < outputs[1].max()


def test_sweep_in_blocks_gives_the_bits_of_passes_of_their_own() -> None:
    outputs, inputs = arguments(203, 700, "float64")  # blocks of 44 rows
    given: list[Any] = [*outputs, *inputs, np.zeros(203), np.full(203, 0.4), -1.0, 3.0]
    sweeps.sweep_box(*given)
    products, sums = np.empty(203), np.zeros(700)
    rowpasses.multiply_rows(products, *inputs[:3])
    rowpasses.add_rows(sums, inputs[0], inputs[1], outputs[1])
    assert np.array_equal(outputs[2], products - 1.0)
    assert np.array_equal(outputs[0], sums)
