"""Slow, obvious twin of okl/compiled/exponential.py."""

from __future__ import annotations

import math

from okl.types import FloatArray


def exponentials(values: FloatArray) -> None:
    for j, value in enumerate(values.tolist()):
        values[j] = math.exp(value)
