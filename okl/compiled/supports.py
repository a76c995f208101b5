"""Supports of a learner with a budget come, go and shrink: what strategies do with their slots.

Legend as in okl.compiled.budget.
"""

from __future__ import annotations

from okl.compiled.budget import ADDED, COUNT, LABEL, NUMBER, SCALE, Doubles, Integers, Seen
from okl.compiled.door import compiled_row
from okl.types import FloatArray

LEAST_SCALE = 1e-6  # below it, or above its inverse, coefficients take the scale in: single precision ends at 1e-38


@compiled_row
def put_support(
    supports: FloatArray,
    coefficients: FloatArray,
    marks: Integers,
    integers: Integers,
    x: FloatArray,
    slot: int,
    seen: Seen,
    value: float,
) -> None:
    """Make a row the support at a slot: value, before the scale, for its output, -value for the best wrong class.

    The slot at COUNT is a new one; any other is overwritten. supports, coefficients, marks, integers change in place.
    """
    for j in range(x.shape[0]):
        supports[j, slot] = x[j]
    put_coefficient(coefficients, marks, integers, slot, seen, value)


@compiled_row
def put_coefficient(
    coefficients: FloatArray,
    marks: Integers,
    integers: Integers,
    slot: int,
    seen: Seen,
    value: float,
) -> None:
    """`put_support` without the row itself."""
    for k in range(coefficients.shape[0]):
        coefficients[k, slot] = 0
    coefficients[seen.output, slot] = value
    if seen.wrong >= 0:
        coefficients[seen.wrong, slot] = -value
    marks[LABEL, slot] = seen.label
    marks[NUMBER, slot] = integers[ADDED]
    integers[ADDED] += 1
    if slot == integers[COUNT]:
        integers[COUNT] += 1


@compiled_row
def drop_support(
    supports: FloatArray,
    coefficients: FloatArray,
    marks: Integers,
    integers: Integers,
    slot: int,
) -> None:
    """Take a support out: the last one moves to its slot, and the last column becomes 0. All four change in place."""
    last = integers[COUNT] - 1
    for j in range(supports.shape[0]):
        supports[j, slot] = supports[j, last]
        supports[j, last] = 0
    for k in range(coefficients.shape[0]):
        coefficients[k, slot] = coefficients[k, last]
        coefficients[k, last] = 0
    for k in range(marks.shape[0]):
        marks[k, slot] = marks[k, last]
        marks[k, last] = 0
    integers[COUNT] = last


@compiled_row
def rescale(coefficients: FloatArray, floats: Doubles, factor: float) -> None:
    """Multiply f by a factor > 0: the scale and, once in a while, the coefficients change in place."""
    floats[SCALE] *= factor
    if floats[SCALE] < LEAST_SCALE or floats[SCALE] > 1.0 / LEAST_SCALE:
        take_scale_in(coefficients, floats)


@compiled_row
def take_scale_in(coefficients: FloatArray, floats: Doubles) -> None:
    """Make the scale 1 by multiplying the coefficients by it."""
    scale = coefficients.dtype.type(floats[SCALE])
    for k in range(coefficients.shape[0]):
        for i in range(coefficients.shape[1]):
            coefficients[k, i] *= scale
    floats[SCALE] = 1.0


@compiled_row
def copy_support(column: FloatArray, supports: FloatArray, slot: int) -> None:
    """Overwrite column (n_inputs,) by a support: kernel rows take contiguous inputs."""
    for j in range(column.shape[0]):
        column[j] = supports[j, slot]


@compiled_row
def oldest_support(marks: Integers, count: int) -> int:
    """Slot of the support that came first; count >= 1."""
    oldest = 0
    for i in range(1, count):
        if marks[NUMBER, i] < marks[NUMBER, oldest]:
            oldest = i
    return oldest
