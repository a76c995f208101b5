"""The prox of weighted absolute values, in one pass."""

from __future__ import annotations

import numpy as np

from okl.compiled.door import compiled
from okl.compiled.projections import Bounds, bound_at
from okl.types import FloatArray


@compiled
def shrink(out: FloatArray, point: FloatArray, thresholds: Bounds) -> None:
    """Overwrite out (n,) by sign(a) max(0, |a| - threshold); thresholds : a float or float64 (n,)."""
    for i in range(out.shape[0]):
        a, threshold = np.float64(point[i]), bound_at(thresholds, i)  # type: ignore[no-untyped-call]
        size = abs(a) - threshold
        size = size if size > 0.0 else 0.0
        out[i] = size if a > 0.0 else -size
