"""Naive twin of okl.compiled.columns."""

from __future__ import annotations

import numpy as np

from okl.foundation.types import FloatArray


def scatter_columns(
    out: FloatArray, columns: FloatArray, positions: np.ndarray, shift: FloatArray, factor: FloatArray
) -> None:
    for r in range(columns.shape[1]):
        for c in range(columns.shape[0]):
            out[positions[r], c] = (np.float64(columns[c, r]) - shift[c]) * factor[c]
