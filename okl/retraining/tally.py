"""Figures of columns while their rows stream by: missing, infinite, mean, spread, range, and a digest of the values."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.store.dataset import ColumnStatistics

Vector = NDArray[np.float64]


class ColumnTally:
    """Figures of n columns over the finite values of all rows so far.

    Parameters
    ----------
    lowest, highest : (n,) beyond which values are counted

    rows : seen; missing, infinite, beyond : (n,) int64, values that are NaN, infinite, outside lowest to highest
    """

    def __init__(self, lowest: Vector, highest: Vector) -> None:
        n = len(lowest)
        self.rows = 0
        self.missing, self.infinite, self.beyond = (np.zeros(n, dtype=np.int64) for _ in range(3))
        self._lowest, self._highest = lowest[:, None], highest[:, None]
        self._count, self._mean, self._squares = np.zeros(n), np.zeros(n), np.zeros(n)
        self._minimum, self._maximum = np.full(n, np.inf), np.full(n, -np.inf)
        self._digests = [hashlib.sha256() for _ in range(n)]

    def add(self, values: NDArray[Any]) -> None:
        """Take in a block of columns (n, rows), of any precision."""
        rows = values.shape[1]
        if rows == 0:
            return
        self.rows += rows
        for digest, column in zip(self._digests, values, strict=True):
            digest.update(np.ascontiguousarray(column).data)
        absent, infinite = np.isnan(values), np.isinf(values)
        finite = ~(absent | infinite)
        self.missing += absent.sum(axis=1)
        self.infinite += infinite.sum(axis=1)
        self.beyond += (finite & ((values < self._lowest) | (values > self._highest))).sum(axis=1)
        self._merge(values.astype(np.float64), finite)

    def statistics(self) -> tuple[ColumnStatistics, ...]:
        """Of the finite values; a column without any has the mean 0 and a count of 0."""
        empty = self._count == 0
        deviation = np.sqrt(self._squares / np.maximum(1.0, self._count))
        deviation[self._minimum == self._maximum] = 0.0
        minimum, maximum = np.where(empty, 0.0, self._minimum), np.where(empty, 0.0, self._maximum)
        return tuple(
            ColumnStatistics(int(count), float(mean), float(spread), float(low), float(high))
            for count, mean, spread, low, high in zip(self._count, self._mean, deviation, minimum, maximum, strict=True)
        )

    def digest(self) -> bytes:
        """Of all values, column by column, however they came in blocks."""
        return hashlib.sha256(b"".join(one.digest() for one in self._digests)).digest()

    def _merge(self, values: Vector, finite: NDArray[np.bool_]) -> None:
        """Source: Chan, Golub & LeVeque, The American Statistician 37(3), 1983, equations 2.1."""
        count = finite.sum(axis=1).astype(np.float64)
        kept = np.where(finite, values, 0.0)
        mean = kept.sum(axis=1) / np.maximum(1.0, count)
        squares = np.where(finite, np.square(kept - mean[:, None]), 0.0).sum(axis=1)
        total = self._count + count
        delta, share = mean - self._mean, count / np.maximum(1.0, total)
        self._squares = self._squares + squares + np.square(delta) * self._count * share
        self._mean = self._mean + delta * share
        self._count = total
        self._minimum = np.minimum(self._minimum, np.where(finite, values, np.inf).min(axis=1))
        self._maximum = np.maximum(self._maximum, np.where(finite, values, -np.inf).max(axis=1))


def merged_statistics(parts: Sequence[tuple[ColumnStatistics, ...]]) -> tuple[ColumnStatistics, ...]:
    """Statistics of columns over the rows of several parts, which each have one record a column."""
    found = []
    for columns in zip(*parts, strict=True):
        counted = [column for column in columns if column.count] or [columns[0]]
        total = sum(column.count for column in counted)
        mean = sum(column.count * column.mean for column in counted) / max(1, total)
        squares = sum(column.count * (column.standard_deviation**2 + (column.mean - mean) ** 2) for column in counted)
        lowest, highest = min(c.minimum for c in counted), max(c.maximum for c in counted)
        spread = 0.0 if lowest == highest else float(np.sqrt(squares / max(1, total)))
        found.append(ColumnStatistics(total, mean, spread, lowest, highest))
    return tuple(found)
