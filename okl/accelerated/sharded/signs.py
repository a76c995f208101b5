"""Labels of a shard as signs and groups: two classes as they are, one of several against the rest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.types import FloatArray, IntArray


def signs_of_class(targets: FloatArray, positive: int | None) -> NDArray[np.float64]:
    """-1 or +1 a row; targets are that already (None), or class indices, of which one is positive."""
    signs = targets if positive is None else np.where(targets == positive, 1.0, -1.0)
    return np.ascontiguousarray(signs, dtype=np.float64)


def groups_of_class(targets: FloatArray, positive: int | None, n_groups: int) -> IntArray:
    """Which of a problem's groups of like rows each row is of, (m,); see okl.accelerated.sharded.prototype.Classes.

    0 is that of +1. Where there are two groups, 1 is that of -1; where there are more, each other class has one.
    """
    if n_groups == 2:
        return np.asarray(signs_of_class(targets, positive) < 0.0, dtype=np.intp)
    assert positive is not None, "of two classes there are two groups"
    classes = targets.astype(np.intp)
    return np.where(classes == positive, 0, classes + (classes < positive))
