"""Models with an l1 penalty: logistic regression and the l2-loss SVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from okl.foundation.class_tags import stored
from okl.foundation.types import FloatArray
from okl.solvers.accelerated.dual import SmoothLoss, SparseClassifier
from okl.solvers.accelerated.models.logistic import LogisticMarginLoss
from okl.solvers.accelerated.models.svm import SquaredHinge

_TINY = 1e-290  # a share so small that quotients with others may overflow


@stored("l1-logistic-loss")
class _L1LogisticLoss(LogisticMarginLoss):
    """log(1 + exp(-z))."""

    curvature = 0.25
    has_kinks = False

    def value(self, margins: FloatArray) -> FloatArray:
        values: FloatArray = np.log1p(_small(margins))
        values -= np.minimum(margins, 0.0)
        return values

    def derivative(self, margins: FloatArray) -> FloatArray:
        return -_share(margins)

    def second_derivative(self, margins: FloatArray) -> FloatArray:
        small = _small(margins)
        values: FloatArray = small / np.square(1.0 + small)
        return values

    def excess(self, margins: FloatArray, at: FloatArray) -> FloatArray:
        # that of the conjugate with the arguments exchanged: two relative entropies of shares
        return _relative_entropy(at, margins) + _relative_entropy(-at, -margins)

    def conjugate(self, duals: FloatArray) -> FloatArray:
        inside = np.clip(duals, np.finfo(np.float64).tiny, 1.0 - np.finfo(np.float64).epsneg)
        entropies: FloatArray = np.log(inside)
        entropies *= inside
        entropies += (1.0 - inside) * np.log1p(-inside)
        return entropies


def _small(margins: FloatArray) -> FloatArray:
    """Return exp(-|z|)."""
    small: FloatArray = np.exp(-np.abs(margins))
    return small


def _share(margins: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(z)), with all its digits where it is small."""
    share: FloatArray = np.exp(np.minimum(-margins, 0.0))
    share /= 1.0 + _small(margins)
    return share


def _relative_entropy(left_margins: FloatArray, right_margins: FloatArray) -> FloatArray:
    """Return a log(a / b) - (a - b) of the shares a, b of margins, as a series where a is close to b."""
    left, right = _share(left_margins), _share(right_margins)
    change = (left - right) / np.maximum(right, np.finfo(np.float64).tiny)
    near = np.abs(change) < 1e-3
    small = np.where(near, change, 0.0)
    series = right * small**2 * (0.5 - small * (1.0 / 6.0 - small * (1.0 / 12.0 - small / 20.0)))
    # far out a share is 0, but its logarithm is not: without it the first steps would look shorter than they are
    logarithms = np.where(
        right > _TINY,
        np.log1p(np.where(near | (right <= _TINY), 0.0, np.maximum(change, -1.0 + 1e-16))),
        np.logaddexp(0.0, right_margins) - np.logaddexp(0.0, left_margins),
    )
    return np.where(near, series, left * logarithms - (left - right))


@dataclass(frozen=True)
class L1LogisticRegression(SparseClassifier):
    """Minimise ||w||_1 + C sum_i weight_i log(1 + exp(-y_i <w, x_i>)).

    C : see CostClassifier

    Source: Ito et al., 2017, appendix D, (27).
    """

    NAME: ClassVar[str] = "l1-logistic"
    EQUATION: ClassVar[int] = 27
    LOSS: ClassVar[SmoothLoss] = _L1LogisticLoss()


# l2-loss SVM with an l1 penalty.


@dataclass(frozen=True)
class L1SquaredHinge(SparseClassifier):
    """Minimise ||w||_1 + C sum_i weight_i max(0, 1 - y_i <w, x_i>)^2.

    C : see CostClassifier

    Source: Ito et al., 2017, appendix D, (28).
    """

    NAME: ClassVar[str] = "l1-l2-svm"
    EQUATION: ClassVar[int] = 28
    LOSS: ClassVar[SmoothLoss] = SquaredHinge()
