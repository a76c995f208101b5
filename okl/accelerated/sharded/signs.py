"""Labels of a shard as signs: two classes as they are, one of several against the rest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.types import FloatArray


def signs_of_class(targets: FloatArray, positive: int | None) -> NDArray[np.float64]:
    """-1 or +1 a row; targets are that already (None), or class indices, of which one is positive."""
    signs = targets if positive is None else np.where(targets == positive, 1.0, -1.0)
    return np.ascontiguousarray(signs, dtype=np.float64)
