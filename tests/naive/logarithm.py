"""Slow, obvious twin of okl/compiled/logarithm.py."""

from __future__ import annotations

import math

from okl.types import FloatArray


def logarithms(values: FloatArray) -> None:
    for j, value in enumerate(values.tolist()):
        values[j] = math.log(value)
