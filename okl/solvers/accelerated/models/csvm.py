"""C-SVM: the hinge loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from okl.foundation.class_tags import stored
from okl.foundation.types import FloatArray
from okl.solvers.accelerated.base import CostClassifier, RowOperator, weights_of
from okl.solvers.accelerated.dual import DualProblem
from okl.solvers.accelerated.problem import HalfSquare, LinearTerm, SumOfLosses, box


@stored("c-svm-margin-loss")
class _Hinge:
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

    C : see CostClassifier
    fit_intercept : whether there is a bias b

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
            risk=SumOfLosses(_Hinge(), rows.signs, upper),
            first=np.zeros(rows.n_points),
            intercept=self.fit_intercept,
        )
