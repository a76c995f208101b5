"""Dual entries and their slopes as functions of margins: what a Newton step needs of every row.

A row has a margin z, from which the threshold of its sign is taken, and a dual entry a(z) that never rises. Slopes are
generalised derivatives -a'(z), the row's weight in the Hessian.

Legend: a duals (m,), d slopes (m,), z margins (m,), s signs (m,), -1 or +1.
"""

from __future__ import annotations

import math

from okl.compiled.jit import compiled
from okl.foundation.types import FloatArray


@compiled
def box_duals(
    duals: FloatArray,
    slopes: FloatArray,
    margins: FloatArray,
    signs: FloatArray,
    anchors: FloatArray,
    steps: FloatArray,
    targets: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    plus: float,
    minus: float,
) -> None:
    """Overwrite duals by anchor + step (target - z + threshold) in [lower, upper], and slopes by the step inside."""
    for i in range(margins.shape[0]):
        threshold = plus if signs[i] > 0.0 else minus
        entry = anchors[i] + steps[i] * (targets[i] - margins[i] + threshold)
        entry = min(max(entry, lower[i]), upper[i])
        duals[i] = entry
        slopes[i] = steps[i] if lower[i] < entry < upper[i] else 0.0


@compiled
def entropy_duals(
    duals: FloatArray,
    slopes: FloatArray,
    margins: FloatArray,
    signs: FloatArray,
    upper: FloatArray,
    plus: float,
    minus: float,
) -> None:
    """Overwrite duals by upper / (1 + exp(z - threshold)), and slopes."""
    for i in range(margins.shape[0]):
        z = margins[i] - (plus if signs[i] > 0.0 else minus)
        small = math.exp(-abs(z))
        share = (small if z > 0.0 else 1.0) / (1.0 + small)
        duals[i] = upper[i] * share
        slopes[i] = upper[i] * (small / (1.0 + small)) / (1.0 + small)


@compiled
def square_root_duals(
    duals: FloatArray,
    slopes: FloatArray,
    margins: FloatArray,
    signs: FloatArray,
    scales: FloatArray,
    upper: FloatArray,
    plus: float,
    minus: float,
) -> None:
    """Overwrite duals by min(upper, scale / (z - threshold)^2), upper for z <= threshold, and slopes."""
    for i in range(margins.shape[0]):
        z = margins[i] - (plus if signs[i] > 0.0 else minus)
        if z <= 0.0 or scales[i] >= upper[i] * z * z:
            duals[i], slopes[i] = upper[i], 0.0
        else:
            duals[i] = scales[i] / (z * z)
            slopes[i] = 2.0 * duals[i] / z
