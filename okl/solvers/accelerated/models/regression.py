"""Support vector regression and ridge regression."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray
from okl.solvers.accelerated.base import check_cost
from okl.solvers.accelerated.dual import (
    DualProblem,
    InsensitiveResiduals,
    PricedBox,
    SquaredResiduals,
    residual_weights,
)
from okl.solvers.accelerated.operators import TargetRows
from okl.solvers.accelerated.problem import HalfSquare, Quadratic

# Support vector regression: residuals count from a width on.


@dataclass(frozen=True)
class InsensitiveRegression:
    """Minimise 1/2 ||w||^2 + C sum_i weight_i max(0, |t_i - <w, x_i> + b| - width).

    Dual: minimise 1/2 ||A a||^2 + sum_i width |a_i| - t_i a_i over |a_i| <= C weight_i, and sum_i a_i = 0 with a bias;
    w = A a. LIBSVM has two variables a row for a_i, its parts above and below 0; the prox needs but one.

    Parameters
    ----------
    C : > 0, LIBSVM's
    width : >= 0, in units of the targets: LIBSVM's epsilon
    fit_intercept : whether there is a bias b; predictions are <w, x> - b

    Source: Smola & Schoelkopf, Statistics and Computing 14, 2004, (3) and (10); the parts of Ito et al., 2017, (9).
    """

    C: float = 1.0
    width: float = 0.1
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        check_cost(self.C)
        if not 0.0 <= self.width < math.inf:
            raise ConfigError(f"width = {self.width!r}; expected a finite number of at least 0.")

    def problem(self, rows: TargetRows, sample_weight: FloatArray | None = None) -> DualProblem:
        """Return the dual on rows with sample_weight (m,), or 1."""
        n_points = rows.rows.n_points
        weights = self.C * residual_weights(n_points, sample_weight)
        return DualProblem(
            rows=rows.rows,
            outer=HalfSquare(),
            separable=Quadratic(np.zeros(n_points), rows.targets),
            region=PricedBox(weights, self.width, self.fit_intercept),
            risk=InsensitiveResiduals(rows.targets, weights, self.width),
            first=np.zeros(n_points),
            intercept=self.fit_intercept,
        )


# Ridge regression: squared residuals.


@dataclass(frozen=True)
class RidgeRegression:
    """Minimise 1/2 ||w||^2 + C sum_i weight_i (t_i - <w, x_i> + b)^2.

    Dual: minimise 1/2 ||A a||^2 + sum_i a_i^2 / (4 C weight_i) - t_i a_i, over sum_i a_i = 0 with a bias; w = A a. Rows
    of weight 0 keep a_i = 0.

    Parameters
    ----------
    C : > 0; the penalty of ||w||^2, relative to the sum of squares, is 1 / (2 C)
    fit_intercept : whether there is a bias b; predictions are <w, x> - b

    Source: Saunders, Gammerman & Vovk, ICML 1998; the parts of Ito et al., 2017, (9).
    """

    C: float = 1.0
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        check_cost(self.C)

    def problem(self, rows: TargetRows, sample_weight: FloatArray | None = None) -> DualProblem:
        """Return the dual on rows with sample_weight (m,), or 1."""
        n_points = rows.rows.n_points
        weights = self.C * residual_weights(n_points, sample_weight)
        counted = weights > 0.0
        curvatures = np.divide(0.5, weights, out=np.zeros(n_points), where=counted)
        return DualProblem(
            rows=rows.rows,
            outer=HalfSquare(),
            separable=Quadratic(curvatures, rows.targets),
            region=PricedBox(np.where(counted, np.inf, 0.0), 0.0, self.fit_intercept),
            risk=SquaredResiduals(rows.targets, weights),
            first=np.zeros(n_points),
            intercept=self.fit_intercept,
            curvature=float(curvatures[counted].min()),
        )
