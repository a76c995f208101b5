from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import numpy as np
import pytest

from okl.store.statistics import Moments, column_statistics, empty_moments, merge_moments, moments_of
from okl.types import FloatArray


def merge_all(parts: Iterable[Moments], n_columns: int) -> Moments:
    return reduce(merge_moments, parts, empty_moments(n_columns))


def columns(rows: int = 4000) -> FloatArray:
    random = np.random.default_rng(3)
    values = random.normal(size=(4, rows)) * np.array([[1.0], [1e-3], [1e4], [2.0]]) + np.array([[0], [5], [1e6], [-3]])
    return np.asarray(values, dtype=np.float32)


def close(one: Moments, other: Moments, tolerance: float = 1e-12) -> bool:
    return one.count == other.count and all(
        np.allclose(getattr(one, name), getattr(other, name), rtol=tolerance, atol=tolerance)
        for name in ("mean", "squares", "minimum", "maximum")
    )


def test_moments_match_numpy_in_float64() -> None:
    values = columns()
    wide = values.astype(np.float64)
    for column, statistics in zip(wide, column_statistics(moments_of(values)), strict=True):
        assert statistics.count == len(column)
        assert statistics.mean == pytest.approx(column.mean(), rel=1e-12)
        assert statistics.standard_deviation == pytest.approx(column.std(), rel=1e-9)
        assert (statistics.minimum, statistics.maximum) == (column.min(), column.max())


def test_merged_moments_equal_those_of_all_rows() -> None:
    values = columns()
    parts = np.split(values, [1, 7, 500, 501, 3000], axis=1)
    assert close(merge_all(map(moments_of, parts), 4), moments_of(values))


def test_merging_does_not_depend_on_order() -> None:
    parts = [moments_of(part) for part in np.split(columns(), [100, 700, 1500, 3900], axis=1)]
    forward = merge_all(parts, 4)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(parts))
        assert close(merge_all([parts[i] for i in order], 4), forward)
    assert close(merge_moments(merge_moments(parts[0], parts[1]), merge_all(parts[2:], 4)), forward)


def test_no_rows_are_neutral() -> None:
    some = moments_of(columns(50))
    assert merge_moments(empty_moments(4), some) is some
    assert merge_moments(some, moments_of(columns(50)[:, :0])) is some


def test_merging_leaves_its_inputs_unchanged() -> None:
    one, other = moments_of(columns(50)), moments_of(columns(70))
    before = [array.copy() for array in (one.mean, one.squares, other.mean, other.squares)]
    merge_moments(one, other)
    for array, copy in zip((one.mean, one.squares, other.mean, other.squares), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_constant_column_has_no_spread_and_its_own_mean() -> None:
    (statistics,) = column_statistics(merge_all([moments_of(np.full((1, n), 0.1, np.float32)) for n in (3, 7)], 1))
    assert statistics.constant
    assert statistics.standard_deviation == 0.0
    assert statistics.mean == np.float32(0.1)
