"""What the entries of a box can sum to, by the sign that they are weighted with: one pass each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled_sum
from okl.compiled.projections import Doubles


@compiled_sum
def sum_bounds(sums: Doubles, signs: NDArray[np.int8], lower: NDArray[np.float64], upper: NDArray[np.float64]) -> None:
    """Overwrite sums (5,): of lower and of upper (m,) over signs +1, over the others, and how many are out of order."""
    least_plus, least_minus, most_plus, most_minus, crossed = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(signs.shape[0]):
        positive = signs[i] > 0
        least_plus += lower[i] if positive else 0.0
        most_plus += upper[i] if positive else 0.0
        least_minus += 0.0 if positive else lower[i]
        most_minus += 0.0 if positive else upper[i]
        crossed += 0.0 if lower[i] <= upper[i] else 1.0
    sums[0], sums[1], sums[2], sums[3], sums[4] = least_plus, most_plus, least_minus, most_minus, crossed


@compiled_sum
def count_signs(signs: NDArray[np.int8]) -> tuple[int, int]:
    """How many of signs (m,) are +1, and how many are -1."""
    plus, minus = 0, 0
    for i in range(signs.shape[0]):
        plus += signs[i] == 1
        minus += signs[i] == -1
    return plus, minus
