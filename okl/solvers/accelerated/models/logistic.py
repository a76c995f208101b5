"""Logistic regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray
from okl.solvers.accelerated import problem as parts
from okl.solvers.accelerated.base import CostClassifier, RowOperator, weights_of
from okl.solvers.accelerated.dual import DualProblem


@stored("logistic-margin-loss")
class LogisticMarginLoss:
    """log(1 + exp(-z))."""

    def value(self, margins: FloatArray) -> FloatArray:
        return np.logaddexp(0.0, -margins)

    def derivative(self, margins: FloatArray) -> FloatArray:
        # tanh does not overflow for margins of any size, 1 / (1 + exp) does
        values: FloatArray = -0.5 * (1.0 - np.tanh(0.5 * margins))
        return values


@dataclass(frozen=True)
class LogisticRegression(CostClassifier):
    """Minimise 1/2 ||w||^2 + C sum_i weight_i log(1 + exp(-y_i (<w, x_i> - b))).

    Dual, with u_i = C weight_i: minimise 1/2 ||A a||^2 + sum_i a_i log(a_i / u_i) + (u_i - a_i) log((u_i - a_i) / u_i)
    over 0 <= a_i <= u_i, and sum_i y_i a_i = 0 with a bias; w = A a. The slope of the entropy is infinite at the
    border: its prox is taken, which has none.

    C : see CostClassifier; fit_intercept : whether there is a bias b
    margin : None, or the paper's way: gradients of the entropy over margin u_i <= a_i <= (1 - margin) u_i, in
        (0, 1/2); its 1e-4 leaves a part of the gap
    Source: Ito et al., 2017, section 3.2.3, (13).
    """

    NAME: ClassVar[str] = "logistic"
    EQUATION: ClassVar[int] = 13
    SMOOTH: ClassVar[bool] = True

    fit_intercept: bool = True
    margin: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.margin is not None and not 0.0 < self.margin < 0.5:
            raise ConfigError(f"margin = {self.margin!r}; expected a number between 0 and 1/2, or None.")

    def problem(self, rows: RowOperator, sample_weight: FloatArray | None = None) -> DualProblem:
        upper = self.C * weights_of(rows, sample_weight)
        separable, region, first = self._parts(rows, upper)
        return DualProblem(
            rows=rows,
            outer=parts.HalfSquare(),
            separable=separable,
            region=region,
            risk=parts.SumOfLosses(LogisticMarginLoss(), rows.signs, upper),
            first=first,
            intercept=self.fit_intercept,
            curvature=0.0 if self.margin is None else 4.0 / float(upper.max()),
        )

    def _parts(self, rows: RowOperator, upper: FloatArray) -> tuple[parts.Separable, parts.Region, FloatArray]:
        first = np.empty(rows.n_points)
        if self.margin is None:
            region: parts.Region = parts.EntropyBarrier(rows.signs, upper, self.fit_intercept)
            region.prox(first, np.zeros(rows.n_points), 1.0 / float(upper.max()))
            return parts.LinearTerm(0.0), region, first
        lower, highest = self.margin * upper, (1.0 - self.margin) * upper
        region = parts.box(rows.signs, lower, highest, self.fit_intercept)
        region.prox(first, lower, 1.0)
        return parts.Entropy(upper, self.margin), region, first
