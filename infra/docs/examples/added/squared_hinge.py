# File: okl/squared_hinge.py
# LOSSES: "squared-hinge": "okl.squared_hinge:SquaredHinge",
"""The squared hinge loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from okl.foundation.class_tags import stored
from okl.foundation.types import FloatArray, Task
from okl.losses import ScalarLoss


@stored("squared-hinge-loss")
@dataclass(frozen=True)
class SquaredHinge(ScalarLoss):
    """1/2 max(0, 1 - y f)^2: a hinge without a kink.

    Source: Lee & Mangasarian, Computational Optimization and Applications 20, 2001 (SSVM, before smoothing).
    """

    name: str = "squared-hinge"
    task: Task = "binary"

    @staticmethod
    def of_score(f: float, y: float) -> float:
        """Return the loss of a score f, target y."""
        missing = max(0.0, 1.0 - y * f)
        return 0.5 * missing * missing

    @staticmethod
    def slope(f: float, y: float) -> float:
        """Return the derivative by the score."""
        return -y * max(0.0, 1.0 - y * f)

    def conjugate(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Return y dual + dual^2 / 2 where y dual <= 0, infinite elsewhere, (rows,)."""
        margin = target * dual
        return np.where(margin <= 0.0, margin + 0.5 * dual**2, np.inf)
