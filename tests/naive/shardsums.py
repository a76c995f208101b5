"""Slow, obvious twins of okl.compiled.shardsums."""

from __future__ import annotations

import numpy as np

from okl.types import FloatArray


def clipped_sums(
    sums: FloatArray, points: FloatArray, signs: FloatArray, upper: FloatArray, thresholds: FloatArray
) -> None:
    for group, sign in enumerate((1.0, -1.0)):
        chosen = signs == sign
        for k, threshold in enumerate(thresholds[group]):
            moved = points[chosen] - threshold
            sums[group, k, 0] += np.clip(moved, 0.0, upper[chosen]).sum()
            sums[group, k, 1] += np.count_nonzero((moved > 0.0) & (moved < upper[chosen]))


def clip_by_sign(
    out: FloatArray, points: FloatArray, signs: FloatArray, upper: FloatArray, plus: float, minus: float
) -> None:
    out[:] = np.clip(points - np.where(signs > 0.0, plus, minus), 0.0, upper)
