"""l2-SVM: the squared hinge loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from okl.foundation.stored import stored
from okl.foundation.types import FloatArray
from okl.solvers.accelerated.base import Classifier, ParameterName, RowOperator, check_cost, weights_of
from okl.solvers.accelerated.dual import DualProblem
from okl.solvers.accelerated.problem import BoxHyperplane, BoxRegion, HalfSquare, Quadratic, SumOfLosses


@stored("l2-svm-margin-loss")
class _SquaredHingeMargins:
    """max(0, 1 - z)^2."""

    def value(self, margins: FloatArray) -> FloatArray:
        values: FloatArray = np.square(np.maximum(0.0, 1.0 - margins))
        return values

    def derivative(self, margins: FloatArray) -> FloatArray:
        values: FloatArray = np.minimum(0.0, 2.0 * (margins - 1.0))
        return values


@dataclass(frozen=True)
class L2SVM(Classifier):
    """Minimise 1/2 ||w||^2 + C sum_i weight_i max(0, 1 - y_i (<w, x_i> - b))^2.

    Dual: minimise 1/2 ||A a||^2 + sum_i a_i^2 / (4 C weight_i) - a_i over a_i >= 0, and sum_i y_i a_i = 0 with a bias;
    w = A a. Rows of weight 0 keep a_i = 0.

    Parameters
    ----------
    C : > 0, LIBLINEAR's; the paper's a is a / C here, its objective this one over C
    fit_intercept : whether there is a bias b

    Source: Ito et al., 2017, section 3.2.2, (12), where -sum_i a_i is missing: l*(-a) = a^2 / 4 - a.
    """

    NAME: ClassVar[str] = "l2-svm"
    PARAMETER: ClassVar[ParameterName] = "C"
    EQUATION: ClassVar[int] = 12

    C: float = 1.0
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        check_cost(self.C)

    def problem(self, rows: RowOperator, sample_weight: FloatArray | None = None) -> DualProblem:
        """Return the dual on rows with sample_weight (m,), or 1."""
        weights = self.C * weights_of(rows, sample_weight)
        counted = weights > 0.0
        curvatures = np.divide(0.5, weights, out=np.zeros(rows.n_points), where=counted)
        upper: float | FloatArray = np.inf if counted.all() else np.where(counted, np.inf, 0.0)
        return DualProblem(
            rows=rows,
            outer=HalfSquare(),
            separable=Quadratic(curvatures),
            region=BoxHyperplane(rows.signs, 0.0, upper) if self.fit_intercept else BoxRegion(0.0, upper),
            risk=SumOfLosses(_SquaredHingeMargins(), rows.signs, weights),
            first=np.zeros(rows.n_points),
            intercept=self.fit_intercept,
            curvature=float(curvatures.min()),
        )
