"""Count, mean, spread, minimum and maximum of columns: two passes over each block, merged exactly, all in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.store.dataset import ColumnStatistics
from okl.types import FloatArray

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Moments of n columns over some rows: all arrays (n,) float64.

    squares : sum of squared deviations from the mean, so that the population variance is squares / count
    """

    count: int
    mean: Vector
    squares: Vector
    minimum: Vector
    maximum: Vector


def empty_moments(n_columns: int) -> Moments:
    """Moments over no rows: the neutral element of `merge_moments`."""
    zeros, infinite = np.zeros(n_columns), np.full(n_columns, np.inf)
    return Moments(0, zeros, zeros.copy(), infinite, -infinite)


def moments_of(columns: FloatArray) -> Moments:
    """Moments of columns (n_columns, rows) of any precision; the values are taken as they are and summed in float64."""
    n_columns, rows = columns.shape
    if rows == 0:
        return empty_moments(n_columns)
    mean, squares = np.empty(n_columns), np.empty(n_columns)
    for index, column in enumerate(columns):  # column by column: the float64 copy of one stays in cache
        values = column.astype(np.float64)
        mean[index] = values.mean()
        values -= mean[index]
        squares[index] = np.square(values, out=values).sum()  # no BLAS: its threads would decide the last bits
    return Moments(rows, mean, squares, columns.min(axis=1).astype(np.float64), columns.max(axis=1).astype(np.float64))


def merge_moments(one: Moments, other: Moments) -> Moments:
    """Moments over the rows of both.

    With delta = mean_2 - mean_1 and n = n_1 + n_2:
    mean = mean_1 + delta n_2 / n,  squares = squares_1 + squares_2 + delta^2 n_1 n_2 / n.

    Source: Chan, Golub & LeVeque, The American Statistician 37(3), 1983, equations 2.1.
    """
    count = one.count + other.count
    if one.count == 0 or other.count == 0:
        return other if one.count == 0 else one
    delta = other.mean - one.mean
    return Moments(
        count,
        one.mean + delta * (other.count / count),
        one.squares + other.squares + delta * delta * (one.count * (other.count / count)),
        np.minimum(one.minimum, other.minimum),
        np.maximum(one.maximum, other.maximum),
    )


def column_statistics(moments: Moments) -> tuple[ColumnStatistics, ...]:
    """One record a column; the mean of a constant column is its value, exactly."""
    mean = np.where(moments.minimum == moments.maximum, moments.minimum, moments.mean)
    deviation = np.sqrt(moments.squares / max(1, moments.count))
    deviation[moments.minimum == moments.maximum] = 0.0
    return tuple(
        ColumnStatistics(moments.count, *map(float, values))
        for values in zip(mean, deviation, moments.minimum, moments.maximum, strict=True)
    )
