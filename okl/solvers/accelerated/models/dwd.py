"""Distance weighted discrimination."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from okl.foundation.class_tags import stored
from okl.foundation.types import FloatArray
from okl.foundation.validation import check_positive
from okl.solvers.accelerated.base import Classifier, ParameterName, RowOperator, weights_of
from okl.solvers.accelerated.dual import DualProblem
from okl.solvers.accelerated.operators import ClassGroups
from okl.solvers.accelerated.problem import EuclideanNorm, LinearTerm, SquareRootBarrier, SumOfLosses

_HUNDRED = 100.0  # Marron, Todd & Ahn's penalty is a hundred over the squared distance of the classes


@stored("dwd-margin-loss")
@dataclass(frozen=True)
class _Distance:
    """1 / z from z = 1 / sqrt(steepest) on, the tangent there before it; steepest = 1 / (m nu)."""

    steepest: float

    def value(self, margins: FloatArray) -> FloatArray:
        slopes = -self.derivative(margins)
        # either piece is the supremum of -a z + 2 sqrt(a) over a <= steepest, taken at its slope
        return 2.0 * np.sqrt(slopes) - slopes * margins

    def derivative(self, margins: FloatArray) -> FloatArray:
        values: FloatArray = -1.0 / np.maximum(margins, self.steepest**-0.5) ** 2
        return values


@dataclass(frozen=True)
class DWD(Classifier):
    """Minimise sum_i weight_i l(y_i (<w, x_i> - b)) over ||w|| <= 1; l(z) = 1 / z, continued linearly below sqrt(m nu).

    Dual, with u_i = weight_i / (m nu): minimise ||A a|| - 2 sum_i sqrt(weight_i a_i) over 0 <= a_i <= u_i, and
    sum_i y_i a_i = 0 with a bias; w = A a / ||A a||. The slope of the root is infinite at 0: its prox is taken, which
    never reaches 0. The norm has no derivative at 0, where the optimum may lie close: it is smoothed up to a tenth of
    its first length, and ten times less as often as the gap takes.

    nu : > 0; larger makes the straight piece of the loss longer and flatter; m is the sum of the weights
    fit_intercept : whether there is a bias b

    Source: Ito et al., 2017, section 3.2.5, (15).
    """

    NAME: ClassVar[str] = "dwd"
    PARAMETER: ClassVar[ParameterName] = "nu"
    EQUATION: ClassVar[int] = 15
    SMOOTH: ClassVar[bool] = True
    DEFAULT: ClassVar[str] = "the squared median distance between the classes, over 100 times the weight of the rows"

    nu: float = 0.5
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        check_positive("nu", self.nu)

    @classmethod
    def default_value(cls, highest: float, total_weight: float, distance: Callable[[], float]) -> float:
        """Return d^2 / (100 m). Source: Marron, Todd & Ahn, JASA 102, 2007, section 2.2, whose C is 1 / (m nu) here."""
        return (distance() or 1.0) ** 2 / (_HUNDRED * total_weight)

    def problem(self, rows: RowOperator, sample_weight: FloatArray | None = None) -> DualProblem:
        weights = weights_of(rows, sample_weight)
        steepest = 1.0 / (float(weights.sum()) * self.nu)
        region = SquareRootBarrier(rows.signs, steepest * weights, self.fit_intercept, weights)
        first = np.empty(rows.n_points)
        region.prox(first, steepest * weights, 1.0 / steepest)
        image = np.empty(rows.n_image)
        rows.apply(image, first)
        longest = math.sqrt(float(rows.squared_lengths().max())) * float(first.max())
        return DualProblem(
            rows=rows,
            outer=EuclideanNorm(1.0).of_length(math.sqrt(rows.squared_norm(first, image)), longest),
            separable=LinearTerm(0.0),
            region=region,
            risk=SumOfLosses(_Distance(steepest), rows.signs, weights),
            first=first,
            intercept=self.fit_intercept,
        )

    def prototype(self, groups: ClassGroups) -> DualProblem:
        """Return the problem of one row of each group; the steepest slope is one over nu times the weight of all."""
        weights = np.array(groups.weights)
        share = float(np.array(groups.rows, dtype=np.float64) @ weights / weights.sum())
        return replace(self, nu=self.nu * share).problem(groups.one_row_each, weights)
