"""Slow twins of okl.compiled.dual_sweep."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.foundation.types import FloatArray
from tests.naive.dual_steps import entropy_prox
from tests.naive.products import add_rows, multiply_rows


def sweep(
    sums: FloatArray,
    out: FloatArray,
    gradient: FloatArray,
    rows: FloatArray,
    signs: FloatArray,
    vector: FloatArray,
    points: FloatArray,
    numbers: FloatArray,
    upper: FloatArray,
    offset: float,
    lipschitz: float,
    barrier: bool,
) -> None:
    """Three passes, one after the other."""
    multiply_rows(gradient, rows, signs, vector)
    gradient += offset if barrier else numbers * points + offset
    targets = points - gradient / lipschitz
    if barrier:
        entropy_prox(out, targets, signs, upper, lipschitz, 0.0)
    else:
        out[:] = np.minimum(np.maximum(targets, 0.0), upper)
    add_rows(sums, rows, signs, out)


def sweep_guessed(
    sums: FloatArray,
    targets: FloatArray,
    gradient: FloatArray,
    rows: FloatArray,
    signs: FloatArray,
    vector: FloatArray,
    points: FloatArray,
    curvatures: FloatArray,
    normals: NDArray[np.int8],
    lower: FloatArray,
    upper: FloatArray,
    plus: float,
    minus: float,
    offset: float,
    lipschitz: float,
) -> None:
    """A pass for the gradients, one for the points, and one for those that are free, of either class."""
    multiply_rows(gradient, rows, signs, vector)
    gradient += curvatures * points + offset
    targets[:] = points - gradient / lipschitz
    moved = targets - np.where(normals > 0, plus, minus)
    add_rows(sums[0], rows, signs, np.clip(moved, lower, upper))
    free = (moved > lower) & (moved < upper)
    add_rows(sums[1], rows, signs, (free & (normals > 0)).astype(float))
    add_rows(sums[2], rows, signs, (free & (normals < 0)).astype(float))


def project_at_multipliers(
    out: FloatArray,
    listed: NDArray[np.int64],
    changes: FloatArray,
    targets: FloatArray,
    signs: FloatArray,
    normals: NDArray[np.int8],
    lower: FloatArray,
    upper: FloatArray,
    guesses: tuple[float, float],
    found: tuple[float, float],
) -> int:
    """Entry by entry."""
    count = 0
    for i, (target, low, high) in enumerate(zip(targets, lower, upper, strict=True)):
        place = 0 if normals[i] > 0 else 1
        before, after = target - guesses[place], target - found[place]
        out[i] = min(max(after, low), high)
        if low < before < high and low < after < high:
            continue
        change = out[i] - min(max(before, low), high)
        if low < before < high:
            change += found[place] - guesses[place]
        if change:
            listed[count], changes[count] = i, signs[i] * change
            count += 1
    return count
