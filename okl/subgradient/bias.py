"""A free bias: minimised out exactly, so that cuts are those of min_b mean loss(y, scores + b)."""

from __future__ import annotations

import math

import numpy as np

from okl.subgradient.linesearch import ExactSearch, Ray
from okl.subgradient.losses import PiecewiseLinear
from okl.types import FloatArray


class FreeBias:
    """The best bias of scores (n,) by selection, and slopes of mean 0 there.

    The slopes at the best bias, from its right and from its left, have sums of opposite signs; the mixture whose sum is
    0 is a subgradient in scores and bias at once, whose cut holds for every bias.
    """

    def __init__(self, loss: PiecewiseLinear, targets: FloatArray) -> None:
        self._loss, self._targets = loss, targets
        self._search, self._ones = ExactSearch(), np.ones(len(targets))
        self._left = np.empty(len(targets))

    def best(self, scores: FloatArray) -> float:
        """The b of least mean loss(y, scores + b), the one nearest to 0 if there are several."""
        right = self._step(scores, self._ones)
        return right if right > 0.0 else -self._step(scores, -self._ones)

    def slopes_into(self, out: FloatArray, scores: FloatArray) -> tuple[float, float]:
        """Overwrite out (n,) by slopes of sum 0 at scores with their best bias; sums of losses and intercepts."""
        losses, of_right = self._loss.slopes_into(out, scores, self._ones, self._targets)
        _, of_left = self._loss.slopes_into(self._left, scores, -self._ones, self._targets)
        right, left = float(out.sum()), float(self._left.sum())
        share = right / (right - left) if right > left else 0.0
        share = min(1.0, max(0.0, share))
        out += share * (self._left - out)
        return losses, of_right + share * (of_left - of_right)

    def _step(self, scores: FloatArray, along: FloatArray) -> float:
        ray = Ray(scores, along, self._targets, 0.0, 0.0, 1.0)
        step = self._search.step(ray, self._loss, math.inf)
        return step if math.isfinite(step) else 0.0
