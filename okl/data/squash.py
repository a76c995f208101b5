"""Inputs with heavy tails: which columns have them, and the smooth clip that pulls them in.

A few rows far away make the standard deviation of a column large, so that all other rows have nearly the same input.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from okl.data.dataset import ColumnStatistics, Dataset, Schema, SquashedColumn
from okl.data.reading import MANY_GROUPS, sample_rows
from okl.foundation.types import FloatArray

SAMPLE_ROWS = 8192
HEAVY = 6.0  # kurtosis: 3 of a normal distribution, 6 of a Laplacian one, 9 of an exponential one
_FEW_VALUES = 10
_NORMAL_QUARTILES = 1.3489795003921634  # interquartile range of the standard normal distribution


def squash(values: FloatArray, center: float, width: float) -> FloatArray:
    """Return z / sqrt(1 + (z / 3)^2) with z = (values - center) / width."""
    z = (values - center) / width
    return np.asarray(z / np.sqrt(1.0 + z * z / 9.0))


def with_squashed(data: Dataset, seed: int) -> Dataset:
    """Return the shards, squashing columns with heavy tails in sampled training rows; or raise DataError."""
    raw = replace(data, schema=replace(data.schema.dense, scale="none", metric=(), squashed=()))
    rows = sample_rows(raw, "train", SAMPLE_ROWS, seed, "float64", MANY_GROUPS)
    return replace(data, schema=replace(data.schema, squashed=heavy_tailed(data.schema, rows.inputs)))


def heavy_tailed(schema: Schema, inputs: FloatArray) -> tuple[SquashedColumn, ...]:
    """Return the columns of raw inputs (rows, >= len(schema.features)) with a kurtosis above 6 and over ten values."""
    if len(inputs) <= _FEW_VALUES:
        return ()
    squashed = []
    for name, whole, values in zip(schema.features, schema.feature_statistics, inputs.T, strict=False):
        centred = values - values.mean()
        variance = np.square(centred).mean()
        if not variance > 0.0 or np.square(np.square(centred) / variance).mean() < HEAVY:
            continue
        if len(np.unique(values)) <= _FEW_VALUES:
            continue
        low, center, high = np.percentile(values, [25.0, 50.0, 75.0])
        width = (high - low) / _NORMAL_QUARTILES
        if not width > 0.0:  # more than half of the rows have one value
            width = float(np.median(np.abs(values[values != center] - center)))
        made = squash(values, center, width)
        least, most = squash(np.array([whole.minimum, whole.maximum]), center, width)
        statistics = ColumnStatistics(whole.count, float(made.mean()), float(made.std()), float(least), float(most))
        squashed.append(SquashedColumn(name, float(center), float(width), statistics))
    return tuple(squashed)
