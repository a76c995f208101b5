"""C-SVM and l2-SVM: the hinge loss and its square."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from okl.foundation.class_tags import stored
from okl.foundation.types import FloatArray
from okl.solvers.accelerated.base import CostClassifier, RowOperator, weights_of
from okl.solvers.accelerated.dual import DualProblem
from okl.solvers.accelerated.problem import HalfSquare, LinearTerm, Quadratic, SumOfLosses, box


@stored("c-svm-margin-loss")
class _HingeOfMargin:
    """max(0, 1 - z)."""

    def value(self, margins: FloatArray) -> FloatArray:
        values: FloatArray = np.maximum(0.0, 1.0 - margins)
        return values

    def derivative(self, margins: FloatArray) -> FloatArray:
        return np.where(margins < 1.0, -1.0, 0.0)


@dataclass(frozen=True)
class CSVM(CostClassifier):
    """Minimise 1/2 ||w||^2 + C sum_i weight_i max(0, 1 - y_i (<w, x_i> - b)).

    Dual: minimise 1/2 ||A a||^2 - sum_i a_i over 0 <= a_i <= C weight_i, and sum_i y_i a_i = 0 with a bias; w = A a.

    C : see CostClassifier; fit_intercept : whether there is a bias b

    Source: Ito et al., 2017, section 3.2.1, (11).
    """

    NAME: ClassVar[str] = "c-svm"
    EQUATION: ClassVar[int] = 11

    fit_intercept: bool = True

    def problem(self, rows: RowOperator, sample_weight: FloatArray | None = None) -> DualProblem:
        upper = self.C * weights_of(rows, sample_weight)
        return DualProblem(
            rows=rows,
            outer=HalfSquare(),
            separable=LinearTerm(-1.0),
            region=box(rows.signs, 0.0, upper, self.fit_intercept),
            risk=SumOfLosses(_HingeOfMargin(), rows.signs, upper),
            first=np.zeros(rows.n_points),
            intercept=self.fit_intercept,
        )


# l2-SVM: the squared hinge loss.


@stored("l2-svm-margin-loss", former=("l1-squared-hinge-loss",))
class SquaredHinge:
    """max(0, 1 - z)^2."""

    curvature = 2.0
    has_kinks = True

    def value(self, margins: FloatArray) -> FloatArray:
        values: FloatArray = np.square(np.maximum(0.0, 1.0 - margins))
        return values

    def derivative(self, margins: FloatArray) -> FloatArray:
        values: FloatArray = np.minimum(0.0, 2.0 * (margins - 1.0))
        return values

    def second_derivative(self, margins: FloatArray) -> FloatArray:
        return np.where(margins < 1.0, 2.0, 0.0)

    def excess(self, margins: FloatArray, at: FloatArray) -> FloatArray:
        short, at_short = np.maximum(0.0, 1.0 - margins), np.maximum(0.0, 1.0 - at)
        values: FloatArray = np.square(short - at_short) + 2.0 * at_short * np.maximum(0.0, margins - 1.0)
        return values

    def conjugate(self, duals: FloatArray) -> FloatArray:
        return duals * (0.25 * duals - 1.0)


@dataclass(frozen=True)
class L2SVM(CostClassifier):
    """Minimise 1/2 ||w||^2 + C sum_i weight_i max(0, 1 - y_i (<w, x_i> - b))^2.

    Dual: minimise 1/2 ||A a||^2 + sum_i a_i^2 / (4 C weight_i) - a_i over a_i >= 0, and sum_i y_i a_i = 0 with a bias;
    w = A a. Rows of weight 0 keep a_i = 0.

    C : see CostClassifier; fit_intercept : whether there is a bias b

    Source: Ito et al., 2017, section 3.2.2, (12), where -sum_i a_i is missing: l*(-a) = a^2 / 4 - a.
    """

    NAME: ClassVar[str] = "l2-svm"
    EQUATION: ClassVar[int] = 12
    SMOOTH: ClassVar[bool] = True

    fit_intercept: bool = True

    def problem(self, rows: RowOperator, sample_weight: FloatArray | None = None) -> DualProblem:
        weights = self.C * weights_of(rows, sample_weight)
        counted = weights > 0.0
        curvatures = np.divide(0.5, weights, out=np.zeros(rows.n_points), where=counted)
        upper: float | FloatArray = np.inf if counted.all() else np.where(counted, np.inf, 0.0)
        return DualProblem(
            rows=rows,
            outer=HalfSquare(),
            separable=Quadratic(curvatures),
            region=box(rows.signs, 0.0, upper, self.fit_intercept),
            risk=SumOfLosses(SquaredHinge(), rows.signs, weights),
            first=np.zeros(rows.n_points),
            intercept=self.fit_intercept,
            curvature=float(curvatures.min()),
        )
