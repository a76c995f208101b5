"""Losses of classes.

Targets are -1 or +1 (binary) or class indices 0 .. K - 1 (several classes).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from okl.types import FloatArray, IntArray, Task


@dataclass(frozen=True)
class Hinge:
    """The hinge max(0, 1 - y f); its subgradient is -y where y f < 1, and 0 at the kink.

    Source: Lu et al., JMLR 17(47), 2016, Algorithm 1 and section 7.2.1.
    """

    name: str = "hinge"
    task: Task = "binary"
    code: int = 0

    def value(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Loss of each row, (rows,), in units of the margin."""
        return np.maximum(0.0, 1.0 - target * scores)

    def derivative(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Derivative by the score, (rows,)."""
        return np.where(target * scores < 1.0, -target, 0.0)

    def conjugate(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """sup_f dual f - value(f): y dual where -1 <= y dual <= 0, infinite elsewhere, (rows,)."""
        margin = target * dual
        return np.where((margin >= -1.0) & (margin <= 0.0), margin, np.inf)


@dataclass(frozen=True)
class Logistic:
    """The logistic loss log(1 + exp(-y f)).

    Source: Lu et al., JMLR 17(47), 2016, section 3.1 (any convex loss); the conjugate is the negative entropy.
    """

    name: str = "logistic"
    task: Task = "binary"
    code: int = 1

    def value(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Loss of each row, (rows,), in nats."""
        values: FloatArray = np.logaddexp(0.0, -target * scores)
        return values

    def derivative(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Derivative by the score, -y / (1 + exp(y f)), (rows,)."""
        # tanh does not overflow for scores of any size, 1 / (1 + exp) does
        return -target * 0.5 * (1.0 - np.tanh(0.5 * target * scores))

    def conjugate(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """p log p + (1 - p) log(1 - p) with p = -y dual in [0, 1], infinite elsewhere, (rows,)."""
        share = -target * dual
        inside = (share >= 0.0) & (share <= 1.0)
        p = np.clip(share, 0.0, 1.0)
        entropy = xlogy(p, p) + xlogy(1.0 - p, 1.0 - p)  # 0 at both ends
        return np.where(inside, entropy, np.inf)


@dataclass(frozen=True)
class MulticlassHinge:
    """The multi-class hinge max(0, 1 - (f_y - max_{k != y} f_k)).

    Its subgradient touches two classes only: -1 for the true one, +1 for the best wrong one (the first on a tie).

    Source: Lu et al., JMLR 17(47), 2016, section 5.1 and Algorithm 3; Crammer & Singer, JMLR 3, 2003.
    """

    name: str = "multiclass-hinge"
    task: Task = "multiclass"
    code: int = 2

    def value(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Loss of each row, (rows,); scores (rows, K), target class indices (rows,)."""
        true, wrong = self._true_and_best_wrong(scores, target)
        rows = np.arange(len(scores))
        return np.maximum(0.0, 1.0 - (scores[rows, true] - scores[rows, wrong]))

    def derivative(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Derivative by the scores, (rows, K)."""
        true, wrong = self._true_and_best_wrong(scores, target)
        rows = np.arange(len(scores))
        active = scores[rows, true] - scores[rows, wrong] < 1.0
        slopes: FloatArray = np.zeros_like(scores)
        slopes[rows[active], true[active]] = -1.0
        slopes[rows[active], wrong[active]] = 1.0
        return slopes

    def conjugate(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """dual_y where the dual sums to 0, its wrong entries are >= 0 and sum to at most 1; else infinite, (rows,)."""
        true = np.asarray(target, dtype=np.int64)
        rows = np.arange(len(dual))
        wrong = dual.copy()
        wrong[rows, true] = 0.0
        feasible = (np.abs(dual.sum(axis=1)) < 1e-9) & (wrong >= 0.0).all(axis=1) & (wrong.sum(axis=1) <= 1.0 + 1e-9)
        return np.where(feasible, dual[rows, true], np.inf)

    @staticmethod
    def _true_and_best_wrong(scores: FloatArray, target: FloatArray) -> tuple[IntArray, IntArray]:
        true = np.asarray(target, dtype=np.int64)
        others = np.array(scores, dtype=np.float64)
        others[np.arange(len(scores)), true] = -np.inf
        return true, np.argmax(others, axis=1)
