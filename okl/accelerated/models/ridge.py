"""Ridge regression: squared residuals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from okl.accelerated.classifier import check_cost
from okl.accelerated.dual import DualProblem
from okl.accelerated.operators.targets import TargetRows
from okl.accelerated.outer import HalfSquare
from okl.accelerated.residuals import PricedBox, SquaredResiduals, TargetQuadratic, residual_weights
from okl.types import FloatArray


@dataclass(frozen=True)
class RidgeRegression:
    """Minimise 1/2 ||w||^2 + C sum_i weight_i (t_i - <w, x_i> + b)^2.

    Dual: minimise 1/2 ||A a||^2 + sum_i a_i^2 / (4 C weight_i) - t_i a_i, over sum_i a_i = 0 with a bias; w = A a. Rows
    of weight 0 keep a_i = 0.

    Parameters
    ----------
    C : > 0; the penalty of ||w||^2 beside the sum of squares is 1 / (2 C)
    fit_intercept : whether there is a bias b; predictions are <w, x> - b

    Source: Saunders, Gammerman & Vovk, ICML 1998; the parts of Ito et al., 2017, (9).
    """

    C: float = 1.0
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        check_cost(self.C)

    def problem(self, rows: TargetRows, sample_weight: FloatArray | None = None) -> DualProblem:
        """The dual on rows, each weighing sample_weight (m,) or 1."""
        weights = self.C * residual_weights(rows, sample_weight)
        counted = weights > 0.0
        curvatures = np.divide(0.5, weights, out=np.zeros(rows.n_points), where=counted)
        return DualProblem(
            rows=rows,
            outer=HalfSquare(),
            separable=TargetQuadratic(rows.targets, curvatures),
            region=PricedBox(np.where(counted, np.inf, 0.0), 0.0, self.fit_intercept),
            risk=SquaredResiduals(rows.targets, weights),
            first=np.zeros(rows.n_points),
            intercept=self.fit_intercept,
            curvature=float(curvatures[counted].min()),
        )
