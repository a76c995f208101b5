"""The two reads of the rows that an iteration of a cutting-plane method takes, summed in float64.

Legend: Z rows (m, n), float32 or float64; W weights and G sums (n,) of one output or (K, n) of several; scores and
slopes (m,) or (m, K).
"""

from __future__ import annotations

from okl.compiled.door import compiled, compiled_sum
from okl.types import FloatArray


@compiled_sum
def score_rows(scores: FloatArray, rows: FloatArray, weights: FloatArray) -> None:
    """Overwrite scores (m,) by <w, z_i>."""
    for i in range(rows.shape[0]):
        row, total = rows[i], 0.0
        for j in range(row.shape[0]):
            total += row[j] * weights[j]
        scores[i] = total


@compiled_sum
def score_rows_of_classes(scores: FloatArray, rows: FloatArray, weights: FloatArray) -> None:
    """Overwrite scores (m, K) by <w_k, z_i>."""
    for i in range(rows.shape[0]):
        row = rows[i]
        for k in range(weights.shape[0]):
            total = 0.0
            for j in range(row.shape[0]):
                total += row[j] * weights[k, j]
            scores[i, k] = total


@compiled
def add_sloped_rows(sums: FloatArray, rows: FloatArray, slopes: FloatArray) -> None:
    """Add the sum of slope_i z_i to sums (n,), in the order of the rows; rows of slope 0 are not read."""
    for i in range(rows.shape[0]):
        slope = slopes[i]
        if slope != 0.0:
            row = rows[i]
            for j in range(sums.shape[0]):
                sums[j] += slope * row[j]


@compiled
def add_sloped_rows_of_classes(sums: FloatArray, rows: FloatArray, slopes: FloatArray) -> None:
    """Add the sums of slope_ik z_i to sums (K, n), in the order of the rows; rows of slopes 0 are not read."""
    for i in range(rows.shape[0]):
        for k in range(slopes.shape[1]):
            slope = slopes[i, k]
            if slope != 0.0:
                row = rows[i]
                for j in range(sums.shape[1]):
                    sums[k, j] += slope * row[j]
