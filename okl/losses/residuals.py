"""Losses of a regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from okl.errors import ConfigError
from okl.types import FloatArray, Task


@dataclass(frozen=True)
class ThresholdedHalfSquared:
    """Half the squared residual where it exceeds epsilon, nothing below: 1/2 (f - y)^2 [|f - y| > epsilon].

    The step of the paper's regression learner is step_size (y - f) z when |y - f| > epsilon, which is this derivative;
    the factor 1/2 is what makes them agree. Not convex at the threshold for epsilon > 0.

    Parameters
    ----------
    epsilon : float >= 0, in units of the (scaled) target

    Source: Lu et al., JMLR 17(47), 2016, Algorithm 5 and section 7.4.1, with |y - f| > epsilon for the printed test.
    """

    epsilon: float = 0.1
    name: str = "thresholded-half-squared"
    task: Task = "regression"
    code: int = 3

    def __post_init__(self) -> None:
        if not (np.isfinite(self.epsilon) and self.epsilon >= 0):
            raise ConfigError(f"epsilon = {self.epsilon!r}, but it takes a finite number of at least 0.")

    def value(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Loss of each row, (rows,), in squared units of the target."""
        residual = scores - target
        return np.where(np.abs(residual) > self.epsilon, 0.5 * residual**2, 0.0)

    def derivative(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Derivative by the score, f - y beyond epsilon, (rows,)."""
        residual = scores - target
        return np.where(np.abs(residual) > self.epsilon, residual, 0.0)

    def conjugate(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """dual y + max(epsilon |dual|, dual^2 / 2 beyond 2 epsilon), (rows,)."""
        size = np.abs(dual)
        return dual * target + np.where(size <= 2.0 * self.epsilon, self.epsilon * size, 0.5 * dual**2)
