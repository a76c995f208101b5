"""The obvious twins of okl.compiled.columns: files by Python, values by struct."""

from __future__ import annotations

import os
import struct
from typing import Any

import numpy as np

from okl.compiled.columns import Pages, Scaling
from okl.foundation.types import FloatArray

# The obvious twins of okl.compiled.columns: files by Python, values by struct.

Array = np.ndarray[Any, Any]


def read_pages(
    inputs_out: Array, targets_out: Array, failed_out: Array, positions: Array, pages: Pages, scaling: Scaling
) -> None:
    n = pages.starts.shape[1] - 1
    for k, rows in enumerate(pages.rows):
        columns = []
        for c in range(n + 1):
            kind, width = ("d", 8) if c == n else ("f", 4)
            length = pages.lengths[k, c // n]
            content = os.pread(pages.descriptors[k], length + width * rows, pages.starts[k, c] - length)
            if len(content) < length + width * rows or content[:length] != bytes(pages.headers[k, c // n, :length]):
                failed_out[k] = 1
                break
            columns.append(struct.unpack(f"<{rows}{kind}", content[length:]))
        else:
            for r in range(rows):
                into = pages.first[k] + r
                into = positions[into] if len(positions) else into
                for c in range(n):
                    inputs_out[into, c] = (np.float64(columns[c][r]) - scaling.shift[c]) * scaling.factor[c]
                targets_out[into] = target_of(columns[n][r], scaling)


def scatter_targets(out: Array, positions: Array, stored: Array, scaling: Scaling) -> None:
    for r, place in enumerate(positions):
        out[place] = target_of(stored[r], scaling)


def target_of(stored: float, scaling: Scaling) -> float:
    if scaling.two_classes:
        return 1.0 if stored == scaling.positive else -1.0
    return (stored - scaling.target_shift) * scaling.target_factor


# The obvious twin of okl.compiled.columns.


def scatter_columns(
    out: FloatArray, columns: FloatArray, positions: np.ndarray, shift: FloatArray, factor: FloatArray
) -> None:
    for r in range(columns.shape[1]):
        for c in range(columns.shape[0]):
            out[positions[r], c] = (np.float64(columns[c, r]) - shift[c]) * factor[c]
