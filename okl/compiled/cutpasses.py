"""The two reads of the rows that an iteration of a cutting-plane method takes, summed in float64.

Legend: Z rows (m, n), float32 or float64; W weights and G sums (n,) of one output or (K, n) of several; scores and
slopes (m,) or (m, K).
"""

from __future__ import annotations

import numpy as np

from okl.compiled.door import compiled, compiled_row, compiled_sum
from okl.types import FloatArray, IntArray


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
    """Add the sum of slope_i z_i to sums (n,), eight rows at once in their order; rows of slope 0 are not read."""
    held, places = 0, np.empty(8, dtype=np.int64)
    for i in range(rows.shape[0]):
        if slopes[i] != 0.0:
            places[held] = i
            held += 1
            if held == 8:
                _add_eight(sums, rows, slopes, places)
                held = 0
    for k in range(held):
        row, slope = rows[places[k]], slopes[places[k]]
        for j in range(sums.shape[0]):
            sums[j] += slope * row[j]


@compiled_row
def _add_eight(sums: FloatArray, rows: FloatArray, slopes: FloatArray, places: IntArray) -> None:
    # sums are read and written once for all of them, which otherwise takes longer than the rows
    a, b, c, d = rows[places[0]], rows[places[1]], rows[places[2]], rows[places[3]]
    e, f, g, h = rows[places[4]], rows[places[5]], rows[places[6]], rows[places[7]]
    of_a, of_b, of_c, of_d = slopes[places[0]], slopes[places[1]], slopes[places[2]], slopes[places[3]]
    of_e, of_f, of_g, of_h = slopes[places[4]], slopes[places[5]], slopes[places[6]], slopes[places[7]]
    for j in range(sums.shape[0]):
        first = (of_a * a[j] + of_b * b[j]) + (of_c * c[j] + of_d * d[j])
        second = (of_e * e[j] + of_f * f[j]) + (of_g * g[j] + of_h * h[j])
        sums[j] += first + second


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
