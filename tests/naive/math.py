"""Slow, obvious twins of okl.compiled.math."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from okl.foundation.types import FloatArray

# Exponentials.


def exponentials(values: FloatArray) -> None:
    for j, value in enumerate(values.tolist()):
        values[j] = math.exp(value)


# Logarithms.


def logarithms(values: FloatArray) -> None:
    for j, value in enumerate(values.tolist()):
        values[j] = math.log(value)


# The obvious twin of okl.compiled.math.


def shuffle_from(positions: np.ndarray[Any, Any], draws: np.ndarray[Any, Any], last: int) -> None:
    left = list(positions[: last + 1])
    for i, draw in enumerate(draws):
        position = int(draw * len(left))
        positions[last - i] = left[position]
        left[position] = left[-1]  # the last element takes the free position
        left.pop()
    positions[: len(left)] = left


# Sines and cosines.


def sines_and_cosines(sines: FloatArray, cosines: FloatArray, amplitude: float) -> None:
    """Overwrite angles in half turns by their sines, and cosines by their cosines; exact reduction, longest format."""
    pi = np.longdouble("3.14159265358979323846264338327950288")
    turns = sines.astype(np.longdouble)
    angles = pi * (turns - 2 * np.rint(turns / 2))
    cosines[...] = amplitude * np.cos(angles)
    sines[...] = amplitude * np.sin(angles)
