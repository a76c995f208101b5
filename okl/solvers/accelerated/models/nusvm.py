"""nu-SVM: the conditional value at risk of the margins, and the valid range of nu."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError
from okl.foundation.types import Doubles, FloatArray
from okl.solvers.accelerated import base
from okl.solvers.accelerated.dual import DualProblem
from okl.solvers.accelerated.operators import ClassGroups, DenseRows, SparseRows
from okl.solvers.accelerated.problem import BoxHyperplane, HalfSquare, LinearTerm, Region, Risk, SimplexPair, Sums, Take

# Where the parameter of nu-SVM makes sense: the least nu, by a linear program.


def nu_min(rows: base.RowOperator, sample_weight: FloatArray | None = None, fit_intercept: bool = True) -> float:
    """Return the largest nu at which the reduced convex hulls of the classes intersect, so that w = 0 is optimal.

    With t_i = weight_i / sum of weights, (14) has a dual point with A a = 0 if and only if nu is not above

    max { sum_i a_i : A a = 0, 0 <= a_i <= t_i, and sum_i s_i a_i = 0 with a bias },

    which is the least mean hinge loss, min over w and b of sum_i t_i max(0, 1 - s_i (<w, z_i> - b)), by duality. It is
    0 if a plane separates the classes.

    rows : operator; points of a kernel matrix are taken to be independent, as those of distinct inputs are for
        strictly positive definite kernels: 0
    sample_weight : (m,) or None
    Returns nu_min, to about 1e-7; m bounded variables and n + 1 equations: seconds up to some 10,000 rows of 100
        columns.
    Raises ConfigError : the linear program was not solved

    Source: Crisp & Burges, NIPS 1999, on the geometry of nu-SVM; Ito et al., 2017, sections 3.2.4 and 5.
    """
    if not isinstance(rows, (DenseRows, SparseRows)):
        return 0.0
    weights = base.weights_of(rows, sample_weight)
    share = weights / weights.sum()
    equations = _equations(rows, fit_intercept)
    # variables of size 1: the solver's tolerances are absolute
    scale = float(share.max())
    bounds = np.stack([np.zeros(rows.n_points), share / scale], axis=1)
    optimum = linprog(
        -np.ones(rows.n_points), A_eq=equations, b_eq=np.zeros(equations.shape[0]), bounds=bounds, method="highs"
    )
    if optimum.status != 0:
        raise ConfigError(f"nu_min could not be computed: {optimum.message} Scale the columns, or set nu by trial.")
    return min(1.0, max(0.0, -float(optimum.fun) * scale))


def _equations(rows: DenseRows | SparseRows, fit_intercept: bool) -> sparse.csr_array:
    """Return the matrix of the equality constraints, scaled to entries of at most 1."""
    signed = sparse.csr_array(rows.rows, dtype=np.float64).multiply(rows.signs[:, np.newaxis])
    columns = sparse.csc_array(signed)
    largest: Doubles = np.asarray(np.abs(columns).max(axis=0).todense(), dtype=np.float64).ravel()
    indices = np.flatnonzero(largest)
    scaled = sparse.csr_array((columns[:, indices] / largest[indices]).T)
    return sparse.csr_array(sparse.vstack([scaled, rows.signs[np.newaxis]])) if fit_intercept else scaled


# nu-SVM: the conditional value at risk of the margins.


@stored("nu-svm-risk")
@dataclass(frozen=True, eq=False)
class _ConditionalValueAtRisk(Risk):
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

    def part(self, take: Take, signs: FloatArray) -> _ConditionalValueAtRisk:
        return _ConditionalValueAtRisk(signs, np.asarray(take(self.steepest)))

    def totals(self, intercept: bool) -> FloatArray:
        """Return a total for the threshold of each class, +1 first, or without a bias for that of all rows."""
        return np.array([0.5, 0.5] if intercept else [1.0])

    def slopes(self, margins: FloatArray, candidates: FloatArray) -> Sums:
        slopes = np.zeros((*candidates.shape, 3))
        for k, chosen in enumerate(self._groups(len(candidates))):
            order = np.argsort(margins[chosen], kind="stable")
            reached = np.concatenate([[0.0], np.cumsum(self.steepest[chosen][order])])
            places = np.searchsorted(margins[chosen][order], candidates[k])
            slopes[k, :, 0], slopes[k, :, 2] = -reached[places], reached[-1]
        return slopes

    def sum_at(self, margins: FloatArray, thresholds: FloatArray) -> float:
        return sum(
            float(self.steepest[chosen] @ np.maximum(0.0, threshold - margins[chosen]))
            for chosen, threshold in zip(self._groups(len(thresholds)), thresholds, strict=True)
        )

    def bias_at(self, thresholds: FloatArray) -> float:
        return 0.5 * float(thresholds[0] - thresholds[1]) if len(thresholds) == 2 else 0.0

    def _groups(self, n_thresholds: int) -> list[NDArray[np.bool_]]:
        if n_thresholds == 1:
            return [np.ones(len(self.signs), dtype=np.bool_)]
        return [self.signs > 0.0, self.signs < 0.0]


def _quantile(values: FloatArray, weights: FloatArray, total: float) -> float:
    """Return the smallest value at which the weights of the values up to it reach the total."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    # a total that the weights reach but for rounding is the last value's
    index = int(np.searchsorted(reached, total * (1.0 - 1e-12)))
    return float(values[order[min(index, len(order) - 1)]])


@dataclass(frozen=True)
class NuSVM(base.Classifier):
    """Minimise 1/2 ||w||^2 - rho + 1/(sum of weights nu) sum_i weight_i max(0, rho - y_i (<w, x_i> - b)).

    Dual: minimise 1/2 ||A a||^2 over 0 <= a_i <= weight_i / (nu sum of weights) and sum_i a_i = 1, half of it in each
    class with a bias; w = A a. Any factor before ||w||^2 only scales w.

    nu : in (nu_min, nu_max], where nu_max = 2 min(m+, m-) / m with a bias, m+ and m- the weights of the classes, and 1
        without; at nu_min and below, w = 0 is best
    fit_intercept : whether there is a bias b

    Source: Ito et al., 2017, section 3.2.4, (14), where nu_max is printed with max for min.
    """

    NAME: ClassVar[str] = "nu-svm"
    PARAMETER: ClassVar[base.ParameterName] = "nu"
    EQUATION: ClassVar[int] = 14
    GROWS: ClassVar[bool] = True
    DEFAULT: ClassVar[str] = "half of the largest valid value, or more where no weights were found at that value"

    nu: float = 0.5
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        if not 0.0 < self.nu <= 1.0:
            raise ConfigError(f"nu = {self.nu!r}; expected a number in (0, 1].")

    @classmethod
    def valid_range(
        cls, rows: Any, sample_weight: FloatArray | None = None, fit_intercept: bool = True
    ) -> tuple[float, float]:
        """Return (nu_min, nu_max]: below, the reduced hulls of the classes meet; above, they are empty."""
        weights = base.weights_of(rows, sample_weight)
        return nu_min(rows, weights, fit_intercept), cls.highest(rows.signs, weights, fit_intercept)

    @classmethod
    def highest(cls, signs: FloatArray, weights: FloatArray, fit_intercept: bool) -> float:
        return nu_max(signs, weights) if fit_intercept else 1.0

    @classmethod
    def default_value(cls, highest: float, total_weight: float, distance: Callable[[], float]) -> float:
        return 0.5 * highest

    def prototype(self, groups: ClassGroups) -> DualProblem:
        """Return the problem of one row of each group, whose bounds are shares of the weight of all rows."""
        problem, n_rows = self.problem(groups.one_row_each, groups.totals), np.array(groups.rows, dtype=np.float64)
        region, risk = problem.region, problem.risk
        assert isinstance(region, BoxHyperplane | SimplexPair)
        assert isinstance(risk, _ConditionalValueAtRisk)
        return replace(
            problem,
            region=replace(region, upper=np.asarray(region.upper) / n_rows),
            risk=replace(risk, steepest=risk.steepest / n_rows),
        )

    def check_weights(self, certificate: base.Certificate, highest: float) -> None:
        """Raise ConfigError where w = 0 is best, as it is at nu_min and below."""
        if certificate.primal < 0.0:
            return
        if self.nu >= highest:
            raise ConfigError(
                f"nu = {self.nu:.6g} is the largest valid value for these labels, and the optimal weights are all 0: "
                "no nu separates these rows. Use another kernel or model."
            )
        low, high = base.differing_digits(self.nu, highest)
        raise ConfigError(
            f"nu = {low} is below the valid range for these rows, so the optimal weights are all 0. "
            f"Choose nu above {low}, up to {high}."
        )

    def check(self, solution: base.Solution, rows: Any, sample_weight: FloatArray | None = None) -> None:
        """Raise ConfigError where w = 0 is as good as what was found because nu is not above nu_min."""
        certificate = solution.certificate
        if certificate.primal < 0.0:
            return
        if not isinstance(rows, DenseRows | SparseRows):  # no linear program gives the least nu
            if -certificate.dual <= certificate.rounding:
                self.check_weights(
                    certificate, self.highest(rows.signs, base.weights_of(rows, sample_weight), self.fit_intercept)
                )
            return
        least, largest = self.valid_range(rows, sample_weight, self.fit_intercept)
        if least >= largest:
            raise ConfigError(
                f"nu = {self.nu} gives weights of 0, as does every valid nu, up to {largest:.6g}: no nu separates "
                "these rows. Use another kernel or model."
            )
        if self.nu <= least:
            low, high = base.differing_digits(least, largest)
            raise ConfigError(
                f"nu = {self.nu} is outside ({low}, {high}], the valid range for these rows: at {low} "
                "and below, the optimal weights are all 0."
            )

    def problem(self, rows: base.RowOperator, sample_weight: FloatArray | None = None) -> DualProblem:
        """Return the dual on rows with sample_weight (m,), or 1; raise ConfigError where nu is above nu_max."""
        weights = base.weights_of(rows, sample_weight)
        share = weights / weights.sum()
        largest = self.highest(rows.signs, weights, self.fit_intercept)
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
            separable=LinearTerm(0.0),
            region=region,
            risk=_ConditionalValueAtRisk(rows.signs, upper),
            first=first,
            intercept=self.fit_intercept,
        )


def nu_max(signs: FloatArray, weights: FloatArray) -> float:
    """Return 2 min(m+, m-) / m, the largest nu for which the dual of a model with a bias has a point."""
    positive, negative = float(weights[signs > 0].sum()), float(weights[signs < 0].sum())
    return 2.0 * min(positive, negative) / (positive + negative)
