"""Slow twins of okl.compiled.dual_sweep."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.foundation.types import FloatArray
from tests.naive.dual_steps import entropy_point


def sweep_segments(
    signed: FloatArray, vector: FloatArray, points: FloatArray, numbers: FloatArray, upper: FloatArray,
    offset: float, lipschitz: float, barrier: bool,
) -> tuple[FloatArray, FloatArray, FloatArray]:  # fmt: skip
    """Return the image of out, out, and gradient. signed : s_i z_i."""
    gradient = signed @ vector + offset + (0.0 if barrier else numbers * points)
    targets = points - gradient / lipschitz
    out = np.clip(targets, 0.0, upper)
    if barrier:
        out[:] = [entropy_point(q, u, lipschitz) if u > 0.0 else 0.0 for q, u in zip(targets, upper, strict=True)]
    return out @ signed, out, gradient


def sweep_warm_started_segments(
    signed: FloatArray, vector: FloatArray, points: FloatArray, curvatures: FloatArray, normals: NDArray[np.int8],
    box: tuple[FloatArray, FloatArray], guesses: tuple[float, float], offset: float, lipschitz: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:  # fmt: skip
    """Return the sums over all rows, over the free ones of either class; targets; and gradient. signed : s_i z_i."""
    gradient = signed @ vector + curvatures * points + offset
    targets = points - gradient / lipschitz
    moved = targets - np.where(normals > 0, *guesses)
    free = (moved > box[0]) & (moved < box[1])
    weights = np.array([np.clip(moved, *box), free & (normals > 0), free & (normals < 0)])
    return weights @ signed, targets, gradient


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
