"""The loss part of a primal objective, spread over the rows of a shard, and the search for the best bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.risks import Risk, SumOfLosses
from okl.accelerated.sharded.regions import spread
from okl.types import FloatArray, IntArray


class ShardRisk(Protocol):
    """The part of a risk that the rows of a shard are, as a function of thresholds: the bias, or quantiles.

    slopes : (n_thresholds, K, 3) at candidates (n_thresholds, K): minus the derivative, 0, and the size of its terms
    value : at thresholds (n_thresholds,)
    """

    def slopes(self, margins: FloatArray, candidates: FloatArray) -> NDArray[np.float64]: ...

    def value(self, margins: FloatArray, thresholds: FloatArray) -> float: ...


@dataclass(frozen=True, eq=False)
class LossPart:
    """sum_i weight_i loss(margin_i - s_i bias); the one threshold is the bias."""

    sum: SumOfLosses

    def slopes(self, margins: FloatArray, candidates: FloatArray) -> NDArray[np.float64]:
        """Of the bias."""
        size = float(self.sum.weights.sum())
        found = [(-self.sum.slope(margins, float(bias)), 0.0, size) for bias in candidates.ravel()]
        return np.array(found).reshape(*candidates.shape, 3)

    def value(self, margins: FloatArray, thresholds: FloatArray) -> float:
        """The sum."""
        return self.sum.value(margins, float(thresholds[0]) if len(thresholds) else 0.0)


@dataclass(frozen=True, eq=False)
class TailPart:
    """sum_i steepest_i max(0, t - margin_i), t the threshold of the row's class, or of all rows.

    thresholds : 2 for one a class, +1 first, or 1
    """

    signs: FloatArray
    steepest: FloatArray
    thresholds: int

    def slopes(self, margins: FloatArray, candidates: FloatArray) -> NDArray[np.float64]:
        """Minus the weight of the margins below each candidate."""
        found = np.zeros((*candidates.shape, 3))
        for k, chosen in enumerate(self._groups()):
            order = np.argsort(margins[chosen], kind="stable")
            reached = np.concatenate([[0.0], np.cumsum(self.steepest[chosen][order])])
            places = np.searchsorted(margins[chosen][order], candidates[k])
            found[k, :, 0], found[k, :, 2] = -reached[places], reached[-1]
        return found

    def value(self, margins: FloatArray, thresholds: FloatArray) -> float:
        """The sum over both classes."""
        return sum(
            float(self.steepest[chosen] @ np.maximum(0.0, threshold - margins[chosen]))
            for chosen, threshold in zip(self._groups(), thresholds, strict=True)
        )

    def _groups(self) -> list[NDArray[np.bool_]]:
        if self.thresholds == 1:
            return [np.ones(len(self.signs), dtype=np.bool_)]
        return [self.signs > 0.0, self.signs < 0.0]


@dataclass(frozen=True)
class Thresholds:
    """How the thresholds of a risk are sought, and what they mean.

    totals : (n_thresholds,), added to minus the derivatives; linear : what totals add to the risk, per threshold
    """

    totals: tuple[float, ...]
    tail: bool

    def bias(self, found: FloatArray) -> float:
        """The model's own bias."""
        if not len(found):
            return 0.0
        if self.tail:
            return 0.5 * float(found[0] - found[1]) if len(found) == 2 else 0.0
        return float(found[0])

    def risk(self, summed: float, found: FloatArray) -> float:
        """The risk, from the sum of the shards' values."""
        return summed - float(np.asarray(self.totals) @ found) if self.tail else summed


def thresholds_of(risk: Risk, intercept: bool) -> Thresholds:
    """Of a model with or without a bias."""
    if isinstance(risk, SumOfLosses):
        return Thresholds((0.0,) if intercept else (), tail=False)
    return Thresholds((0.5, 0.5) if intercept else (1.0,), tail=True)


def risk_part_of(risk: Risk, intercept: bool, signs: FloatArray, groups: IntArray) -> ShardRisk:
    """A prototype's risk, spread over rows of these signs and groups."""
    if isinstance(risk, SumOfLosses):
        return LossPart(SumOfLosses(risk.loss, signs, spread(risk.weights, groups)))
    steepest = risk.steepest  # type: ignore[attr-defined]  # the tail mean of nu-SVM
    return TailPart(signs, spread(steepest, groups), 2 if intercept else 1)
