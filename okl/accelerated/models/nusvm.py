"""nu-SVM: the conditional value at risk of the margins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from okl.accelerated.classifier import Classifier, ParameterName
from okl.accelerated.dual import DualProblem
from okl.accelerated.operators import RowOperator
from okl.accelerated.outer import HalfSquare
from okl.accelerated.protocol import Solution
from okl.accelerated.ranges import nu_min
from okl.accelerated.regions import BoxHyperplane, Region, SimplexPair
from okl.accelerated.separable import Linear
from okl.accelerated.weighting import weights_of
from okl.errors import ConfigError
from okl.types import FloatArray


@dataclass(frozen=True, eq=False)
class _TailMean:
    """min over rho of -rho + sum_i steepest_i max(0, rho - z_i), z_i = margin_i - s_i bias.

    With a bias rho + s_i bias is a threshold for each class of its own, a quantile of its margins.
    """

    signs: FloatArray
    steepest: FloatArray

    def value(self, margins: FloatArray, bias: float) -> float:
        moved = margins - bias * self.signs
        threshold = _quantile(moved, self.steepest, 1.0)
        return -threshold + float(self.steepest @ np.maximum(0.0, threshold - moved))

    def best_bias(self, margins: FloatArray) -> float:
        above, below = (
            _quantile(margins[self.signs == sign], self.steepest[self.signs == sign], 0.5) for sign in (1.0, -1.0)
        )
        return 0.5 * (above - below)


def _quantile(values: FloatArray, weights: FloatArray, total: float) -> float:
    """The smallest value at which the weights of the values up to it reach the total."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    # a total that the weights reach but for rounding is the last value's
    place = int(np.searchsorted(reached, total * (1.0 - 1e-12)))
    return float(values[order[min(place, len(order) - 1)]])


@dataclass(frozen=True)
class NuSVM(Classifier):
    """Minimise 1/2 ||w||^2 - rho + 1/(sum of weights nu) sum_i weight_i max(0, rho - y_i (<w, x_i> - b)).

    Dual: minimise 1/2 ||A a||^2 over 0 <= a_i <= weight_i / (nu sum of weights) and sum_i a_i = 1, half of it in each
    class with a bias; w = A a. Any factor before ||w||^2 only scales w.

    Parameters
    ----------
    nu : in (nu_min, nu_max], where nu_max = 2 min(m+, m-) / m with a bias, m+ and m- the weights of the classes, and 1
        without; at nu_min and below, w = 0 is best
    fit_intercept : whether there is a bias b

    Source: Ito et al., 2017, section 3.2.4, (14), where nu_max is printed with max for min.
    """

    NAME: ClassVar[str] = "nu-svm"
    PARAMETER: ClassVar[ParameterName] = "nu"
    EQUATION: ClassVar[int] = 14

    nu: float = 0.5
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        if not 0.0 < self.nu <= 1.0:
            raise ConfigError(f"nu = {self.nu!r}, but it takes a number in (0, 1].")

    @classmethod
    def of(cls, parameter: float | None, fit_intercept: bool = True) -> NuSVM:
        """With nu = parameter, or 0.5."""
        return cls(0.5 if parameter is None else parameter, fit_intercept)

    @classmethod
    def valid_range(
        cls, rows: Any, sample_weight: FloatArray | None = None, fit_intercept: bool = True
    ) -> tuple[float, float]:
        """(nu_min, nu_max]: below, the reduced hulls of the classes meet; above, they are empty."""
        weights = weights_of(rows, sample_weight)
        return nu_min(rows, weights, fit_intercept), nu_max(rows.signs, weights) if fit_intercept else 1.0

    def check(self, found: Solution, rows: Any, sample_weight: FloatArray | None = None) -> None:
        """Raise ConfigError where w = 0 is as good as what was found because nu is not above nu_min."""
        if found.certificate.primal < 0.0:
            return
        low, high = self.valid_range(rows, sample_weight, self.fit_intercept)
        if self.nu <= low:
            raise ConfigError(
                f"nu = {self.nu} is outside ({low:.6g}, {high:.6g}], the valid range for these rows: at {low:.6g} and "
                "below, the best weights are all 0."
            )

    def problem(self, rows: RowOperator, sample_weight: FloatArray | None = None) -> DualProblem:
        """The dual on rows, each weighing sample_weight (m,) or 1, or ConfigError where nu is above nu_max."""
        weights = weights_of(rows, sample_weight)
        share = weights / weights.sum()
        largest = nu_max(rows.signs, weights) if self.fit_intercept else 1.0
        if self.nu > largest:
            raise ConfigError(f"nu = {self.nu} is outside (0, {largest:.6g}], the valid range for these labels.")
        upper = share / self.nu
        region: Region = SimplexPair(rows.signs, upper)
        if not self.fit_intercept:
            region = BoxHyperplane(np.ones(rows.n_points), 0.0, upper, total=1.0)
        first = upper.copy()
        region.prox(first, np.zeros(rows.n_points), 1.0)
        return DualProblem(
            rows=rows,
            outer=HalfSquare(),
            separable=Linear(0.0),
            region=region,
            risk=_TailMean(rows.signs, upper),
            first=first,
            intercept=self.fit_intercept,
        )


def nu_max(signs: FloatArray, weights: FloatArray) -> float:
    """2 min(m+, m-) / m, the largest nu for which the dual of a model with a bias has a point."""
    positive, negative = float(weights[signs > 0].sum()), float(weights[signs < 0].sum())
    return 2.0 * min(positive, negative) / (positive + negative)
