"""Slow, obvious twins of the rounds of linear learners: one coordinate, one row, one shard at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from okl.foundation.types import FloatArray
from okl.solvers.online.linear import ADAGRAD_EPSILON


def adagrad_step(
    last: FloatArray, squares: NDArray[np.float64], mean: NDArray[np.float64], step_size: float
) -> tuple[FloatArray, NDArray[np.float64]]:
    """Take the step of Figure 1 of Duchi, Hazan & Singer with a diagonal matrix, coordinate by coordinate."""
    stepped, summed = last.astype(np.float64), squares.copy()
    for output in range(last.shape[0]):
        for column in range(last.shape[1]):
            g = mean[output, column]
            summed[output, column] += g * g
            stepped[output, column] -= step_size * g / (summed[output, column] ** 0.5 + ADAGRAD_EPSILON)
    return stepped.astype(last.dtype), summed


def majority_mistakes(task: str, class_counts: Sequence[int], targets: FloatArray) -> int:
    """Return mistakes of the majority class of the previous rows on some rows; +1 or the first class wins a tie."""
    if task == "binary":
        majority = 1.0 if class_counts[1] >= class_counts[0] else -1.0
    else:
        majority = float(max(range(len(class_counts)), key=lambda k: (class_counts[k], -k)))
    return sum(1 for target in targets if target != majority)


def mean_squared_errors(rows: int, target_sum: float, targets: FloatArray) -> float:
    """Return the summed squared error on some rows of the mean of the previous rows (0 before the first row)."""
    mean = target_sum / rows if rows else 0.0
    return float(sum((target - mean) ** 2 for target in targets))
