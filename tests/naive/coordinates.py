"""Slow, obvious twins of okl/compiled/coordinates.py."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.compiled.coordinates import Box, Doubles
from okl.types import FloatArray


def best_coefficient(b: float, pull: float, square: float, lower: float, upper: float, box: Box) -> float:
    def dual(new: float) -> float:
        moved = new - b
        return pull * moved - box.epsilon * abs(new) - square / (2.0 * box.scale) * moved * moved

    places = [lower, upper, 0.0] + [b + (pull + sign * box.epsilon) * box.scale / square for sign in (-1.0, 1.0)]
    return max((place for place in places if lower <= place <= upper), key=dual)


def descend_rows(
    coefficients: Doubles, weights: Doubles, pulls: Doubles, order: NDArray[np.int64], rows: FloatArray, box: Box
) -> None:
    for i in order:
        z = rows[i].astype(np.float64)
        pulls[i] = box.targets[i] - z @ weights
        new = best_coefficient(coefficients[i], pulls[i], box.squares[i], box.lower[i], box.upper[i], box)
        weights += (new - coefficients[i]) / box.scale * z
        coefficients[i] = new


def descend_kernel(
    coefficients: Doubles, scores: Doubles, pulls: Doubles, order: NDArray[np.int64], matrix: FloatArray, box: Box
) -> None:
    for i in order:
        pulls[i] = box.targets[i] - scores[i]
        new = best_coefficient(coefficients[i], pulls[i], box.squares[i], box.lower[i], box.upper[i], box)
        scores += (new - coefficients[i]) / box.scale * matrix[i].astype(np.float64)
        coefficients[i] = new
