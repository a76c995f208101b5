"""Losses of online steps by number: their values and derivatives at one row's scores.

Legend: f score, y target.
"""

from __future__ import annotations

import math

from okl.compiled.door import compiled
from okl.compiled.ownloss import SLOPE, VALUE, call_own
from okl.types import FloatArray

HINGE, LOGISTIC, MULTICLASS_HINGE, THRESHOLDED_HALF_SQUARED = 0, 1, 2, 3
OWN_BINARY, OWN_REGRESSION = 4, 5  # of an extension: what it is stands at an address


@compiled
def slope(code: int, epsilon: float, f: float, y: float) -> float:
    """Derivative by the score of a loss with one output."""
    if code == HINGE:
        return -y if y * f < 1.0 else 0.0
    if code == LOGISTIC:
        return -y * 0.5 * (1.0 - math.tanh(0.5 * y * f))
    residual = f - y
    return residual if abs(residual) > epsilon else 0.0


@compiled
def loss_value(code: int, epsilon: float, f: float, y: float) -> float:
    """Value of a loss with one output."""
    if code == HINGE:
        return max(0.0, 1.0 - y * f)
    if code == LOGISTIC:
        return max(0.0, -y * f) + math.log1p(math.exp(-abs(y * f)))
    residual = f - y
    return 0.5 * residual * residual if abs(residual) > epsilon else 0.0


@compiled
def is_regression(code: int) -> bool:
    """Whether squared errors are counted with a loss, not mistakes."""
    return code in (THRESHOLDED_HALF_SQUARED, OWN_REGRESSION)


@compiled
def slope_of(code: int, epsilon: float, own: int, f: float, y: float) -> float:
    """Derivative by the score of a loss with one output, an extension's among them."""
    return slope(code, epsilon, f, y) if own == 0 else call_own(own, SLOPE, f, y)


@compiled
def value_of(code: int, epsilon: float, own: int, f: float, y: float) -> float:
    """Value of a loss with one output, an extension's among them."""
    return loss_value(code, epsilon, f, y) if own == 0 else call_own(own, VALUE, f, y)


@compiled
def best_wrong(scores: FloatArray, true: int) -> int:
    """Index of the largest score (n_classes,) that is not the true class's; the first on a tie."""
    best = 0 if true != 0 else 1
    for k in range(best + 1, scores.shape[0]):
        if k != true and scores[k] > scores[best]:
            best = k
    return best
