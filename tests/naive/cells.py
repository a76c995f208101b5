"""Slow, obvious twin of okl/compiled/cells.py."""

from __future__ import annotations

from okl.foundation.types import Doubles, FloatArray, Integers


def find_cells(
    cells: Integers, inputs: FloatArray, directions: Doubles, thresholds: Doubles, children: Integers
) -> None:
    for row, x in enumerate(inputs.tolist()):
        child = 0 if len(directions) else -1
        while child >= 0:
            product = sum(value * weight for value, weight in zip(x, directions[child].tolist(), strict=True))
            left, right = children[child]
            child = right if product > thresholds[child] else left
        cells[row] = -1 - child
