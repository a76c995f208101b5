"""MM-MPM: the minimax probability machine with a margin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize_scalar

from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray
from okl.foundation.validation import check_positive
from okl.solvers.accelerated.base import Classifier, ParameterName
from okl.solvers.accelerated.dual import MinimaxProblem
from okl.solvers.accelerated.operators import DenseRows
from okl.solvers.accelerated.problem import ClassMoments, class_moments, inverse_form, square_root


@dataclass(frozen=True)
class MMMPM(Classifier):
    """Minimise -<w, d> + kappa (sqrt(w'S+ w) + sqrt(w'S- w)) + 1/2 ||w||^2, d the difference of the class means.

    Dual: minimise 1/2 ||d + S+^(1/2) u+ - S-^(1/2) u-||^2 over ||u+||, ||u-|| <= kappa, which is w. Own bias: half way
    between the means, each moved towards the other by kappa standard deviations of its class along w.

    Parameters
    ----------
    kappa : in (0, kappa_max), kappa_max = 1 / min {sqrt(w'S+ w) + sqrt(w'S- w) : <w, d> = 1}
    fit_intercept : whether there is a bias, which the objective does not depend on

    Source: Ito et al., 2017, section 3.2.7, (17), with the sign of the second risk corrected.
    """

    NAME: ClassVar[str] = "mm-mpm"
    PARAMETER: ClassVar[ParameterName] = "kappa"
    TAKES_KERNEL: ClassVar[bool] = False
    EQUATION: ClassVar[int] = 17

    kappa: float = 0.25
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        check_positive("kappa", self.kappa)

    @classmethod
    def of(cls, parameter: float | None, fit_intercept: bool = True) -> MMMPM:
        """Return the model with kappa = parameter, or 0.25."""
        return cls(0.25 if parameter is None else parameter, fit_intercept)

    @classmethod
    def valid_range(
        cls, rows: Any, sample_weight: FloatArray | None = None, fit_intercept: bool = True
    ) -> tuple[float, float]:
        """Above 0, below kappa_max."""
        return 0.0, mpm_kappa_max(class_moments(rows, sample_weight))

    def problem(self, rows: DenseRows, sample_weight: FloatArray | None = None) -> MinimaxProblem:
        """Return the dual on rows with sample_weight (m,), or 1.

        ConfigError where kappa is not below kappa_max.
        """
        return self.problem_of(class_moments(rows, sample_weight))

    def problem_of(self, moments: ClassMoments) -> MinimaxProblem:
        """Return the same problem from the moments of the classes."""
        moments = moments.mended()
        largest = mpm_kappa_max(moments)
        if self.kappa >= largest:
            raise ConfigError(
                f"kappa = {self.kappa} is outside (0, {largest:.6g}), the valid range for these rows."
                + (f" {moments.note}" if moments.note else "")
            )
        positive, negative = moments.covariances
        roots = [square_root(positive), -square_root(negative)]
        return MinimaxProblem(
            difference=moments.difference,
            roots=np.hstack(roots),
            n_balls=2,
            kappa=self.kappa,
            centre=0.5 * (moments.positive.mean + moments.negative.mean),
            intercept=self.fit_intercept,
            note=moments.note,
        )


def mpm_kappa_max(moments: ClassMoments) -> float:
    """Return 1 / min {sqrt(w'S+ w) + sqrt(w'S- w) : <w, d> = 1}, of the regularised moments.

    The square of the sum is the minimum over t in (0, 1) of w'S+ w / t + w'S- w / (1 - t), jointly convex in w and t,
    and the best w for a t is known: what is left is a search along t.
    """
    moments = moments.mended()
    positive, negative = moments.covariances

    def squared(t: float) -> float:
        return inverse_form(positive / t + negative / (1.0 - t), moments.difference)

    optimum = minimize_scalar(
        lambda t: 1.0 / squared(t), bounds=(1e-6, 1.0 - 1e-6), method="bounded", options={"xatol": 1e-9}
    )
    return 1.0 / math.sqrt(float(optimum.fun))
