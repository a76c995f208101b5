from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.columns import scatter_columns, squash_columns
from okl.foundation.types import Precision
from tests.naive import columns as naive_columns


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (16, 3), (37, 54), (50, 300)])
def test_scatter_columns_matches_naive_bit_for_bit(rows: int, columns: int, precision: Precision) -> None:
    random = np.random.default_rng(rows)
    values = random.normal(100, 30, (columns, rows)).astype(np.float32)
    shift, factor = random.normal(100, 1, columns), random.uniform(0.01, 3, columns)
    factor[0] = 0.0
    positions = random.permutation(rows + 5)[:rows]  # some rows of the output are unchanged
    expected = np.full((rows + 5, columns), -7.0, dtype=precision)
    out = expected.copy()
    naive_columns.scatter_columns(expected, values, positions, shift, factor)
    addresses = values.ctypes.data + np.arange(columns, dtype=np.int64) * values.strides[0]
    scatter_columns(out, addresses, positions, shift, factor)
    np.testing.assert_array_equal(out, expected)
    assert (out == -7).all(axis=1).sum() == 5


def test_scatter_columns_leaves_inputs_unchanged() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    before, positions = values.copy(), np.array([3, 1, 0, 2])
    addresses = values.ctypes.data + np.arange(3, dtype=np.int64) * values.strides[0]
    scatter_columns(np.empty((4, 3)), addresses, positions, np.ones(3), np.ones(3))
    np.testing.assert_array_equal(values, before)
    np.testing.assert_array_equal(positions, [3, 1, 0, 2])


@pytest.mark.parametrize("n_before", [1, 2, 3])
@pytest.mark.parametrize(("rows", "columns"), [(5, 9), (41, 10)])
def test_scatter_columns_reads_values_at_any_address(rows: int, columns: int, n_before: int) -> None:
    values = np.random.default_rng(0).normal(size=(columns, rows)).astype(np.float32)
    memory = np.frombuffer(bytes(n_before) + values.tobytes(), np.uint8)
    addresses = memory.ctypes.data + n_before + np.arange(columns, dtype=np.int64) * values.strides[0]
    out = np.empty((rows, columns), np.float32)
    scatter_columns(out, addresses, np.arange(rows)[::-1].copy(), np.zeros(columns), np.ones(columns))
    np.testing.assert_array_equal(out[::-1], values.T)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_squash_columns_matches_naive_and_leaves_other_rows_and_columns(precision: Precision) -> None:
    random = np.random.default_rng(3)
    out = random.standard_cauchy((40, 7)).astype(precision)
    out[3, 5] = -np.inf
    expected, before = out.copy(), out.copy()
    rows, columns = random.permutation(40)[:25], np.array([5, 0, 2])
    shift, factor = random.normal(size=3), random.uniform(0.1, 2.0, 3)
    naive_columns.squash_columns(expected, rows, columns, shift, factor)
    squash_columns(out, rows, columns, shift, factor)
    np.testing.assert_array_equal(out, expected)
    changed = np.zeros(out.shape, bool)
    changed[np.ix_(rows, columns)] = True
    np.testing.assert_array_equal(out != before, changed)
