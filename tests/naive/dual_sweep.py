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
    targets: FloatArray, signs: FloatArray, normals: NDArray[np.int8], box: tuple[FloatArray, FloatArray],
    guesses: tuple[float, float], found: tuple[float, float],
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Return the projection x, and s_i (x_i - x'_i): x' is that at the guesses, with its free entries moved alone."""
    before, after = (targets - np.where(normals > 0, *pair) for pair in (guesses, found))
    was_free = (box[0] < before) & (before < box[1])
    out = np.clip(after, *box)
    return out, signs * (out - np.where(was_free, after, np.clip(before, *box)))
