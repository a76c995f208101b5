"""Naive twin of okl.compiled.columns."""

from __future__ import annotations

import math

import numpy as np

from okl.foundation.types import FloatArray


def scatter_columns(
    out: FloatArray, columns: FloatArray, positions: np.ndarray, shift: FloatArray, factor: FloatArray
) -> None:
    for r in range(columns.shape[1]):
        for c in range(columns.shape[0]):
            out[positions[r], c] = (np.float64(columns[c, r]) - shift[c]) * factor[c]


def squash_columns(
    out: FloatArray, rows: np.ndarray, columns: np.ndarray, shift: FloatArray, factor: FloatArray
) -> None:
    for r in rows:
        for k, c in enumerate(columns):
            z = float(np.clip(out[r, c], -1e18, 1e18))
            out[r, c] = (z / math.sqrt(1.0 + z * z / 9.0) - shift[k]) * factor[k]
