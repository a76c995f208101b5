"""What every online learner counts before it learns a row: its own error, and that of a predictor without inputs.

counts : (5,) int64, at ROWS, MISTAKES, BASELINE_MISTAKES, UPDATES, SAMPLED
sums : (6,) float64, at SQUARED_ERROR, BASELINE_SQUARED_ERROR, TARGET; and, of learners in a ball, at SURROGATE,
    SQUARED_GRADIENTS, STEPPED_GRADIENTS
class_counts : (n_classes,) int64, rows of each class so far, the negative one of two first; (1,) for regression
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled
from okl.types import FloatArray

ROWS, MISTAKES, BASELINE_MISTAKES, UPDATES, SAMPLED = 0, 1, 2, 3, 4
SQUARED_ERROR, BASELINE_SQUARED_ERROR, TARGET = 0, 1, 2
SURROGATE, SQUARED_GRADIENTS, STEPPED_GRADIENTS = 3, 4, 5


@compiled
def count_binary(counts: NDArray[np.int64], class_counts: NDArray[np.int64], f: float, y: float) -> int:
    """Count mistakes of the score's sign and of the majority so far, both +1 at 0; returns the row's class."""
    label = 1 if y > 0.0 else 0
    counts[MISTAKES] += (f >= 0.0) != (label == 1)
    counts[BASELINE_MISTAKES] += (class_counts[1] >= class_counts[0]) != (label == 1)
    class_counts[label] += 1
    return label


@compiled
def count_class(counts: NDArray[np.int64], class_counts: NDArray[np.int64], scores: FloatArray, true: int) -> None:
    """Count mistakes of the largest score (n_classes,) and of the majority so far, the first of either on a tie."""
    counts[MISTAKES] += np.argmax(scores) != true
    counts[BASELINE_MISTAKES] += np.argmax(class_counts) != true
    class_counts[true] += 1


@compiled
def count_squares(sums: NDArray[np.float64], class_counts: NDArray[np.int64], f: float, y: float) -> int:
    """Add up squared errors of the score and of the mean target so far, 0 at first; returns 0, the only class."""
    rows = class_counts[0]
    mean = sums[TARGET] / rows if rows > 0 else 0.0
    sums[SQUARED_ERROR] += (f - y) * (f - y)
    sums[BASELINE_SQUARED_ERROR] += (mean - y) * (mean - y)
    sums[TARGET] += y
    class_counts[0] += 1
    return 0
