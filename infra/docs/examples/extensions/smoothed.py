"""A C-SVM with a smoothed hinge loss: between the C-SVM (gamma = 0) and the l2-SVM.

Source: Shalev-Shwartz & Zhang, JMLR 14, 2013, section 2; the dual as in Ito et al., JMLR 18(16), 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from okl.extensions import add_model
from okl.solvers.accelerated.base import Classifier, ParameterName, check_cost, weights_of
from okl.solvers.accelerated.dual import DualProblem
from okl.solvers.accelerated.problem import BoxHyperplane, BoxRegion, HalfSquare, Quadratic, SumOfLosses

GAMMA = 0.5  # width of the quadratic part, in units of the margin


class SmoothedHinge:
    """0 for z >= 1, (1 - z)^2 / (2 gamma) for z >= 1 - gamma, and 1 - z - gamma / 2 below."""

    def value(self, margins: Any) -> Any:
        short = np.maximum(0.0, 1.0 - margins)
        return np.where(short < GAMMA, short**2 / (2.0 * GAMMA), short - 0.5 * GAMMA)

    def derivative(self, margins: Any) -> Any:
        return -np.clip((1.0 - margins) / GAMMA, 0.0, 1.0)


@add_model
@dataclass(frozen=True)
class SmoothedSVM(Classifier):
    """Minimise 1/2 ||w||^2 + C sum_i weight_i loss(y_i (<w, x_i> - b)).

    Dual, with u_i = C weight_i: minimise 1/2 ||A a||^2 + sum_i gamma a_i^2 / (2 u_i) - a_i over 0 <= a_i <= u_i, and
    sum_i y_i a_i = 0 with a bias.
    """

    NAME: ClassVar[str] = "smoothed-svm"
    PARAMETER: ClassVar[ParameterName] = "C"
    EQUATION: ClassVar[int] = 101  # above 100: not in the paper

    C: float = 1.0
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        check_cost(self.C)

    def problem(self, rows: Any, sample_weight: Any = None) -> DualProblem:
        upper = self.C * weights_of(rows, sample_weight)
        curvatures = np.divide(GAMMA, upper, out=np.zeros(rows.n_points), where=upper > 0.0)
        return DualProblem(
            rows=rows,
            outer=HalfSquare(),
            separable=Quadratic(curvatures),
            region=BoxHyperplane(rows.signs, 0.0, upper) if self.fit_intercept else BoxRegion(0.0, upper),
            risk=SumOfLosses(SmoothedHinge(), rows.signs, upper),
            first=np.zeros(rows.n_points),
            intercept=self.fit_intercept,
            curvature=float(curvatures.min()),
        )
