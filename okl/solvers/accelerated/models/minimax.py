"""MM-FDA and MM-MPM: models of the means and covariances of two classes, with a margin."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize_scalar

from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray
from okl.foundation.validation import check_positive
from okl.solvers.accelerated.base import Classifier, ParameterName
from okl.solvers.accelerated.dual import MinimaxProblem
from okl.solvers.accelerated.operators import DenseRows
from okl.solvers.accelerated.problem import ClassMoments, class_moments, inverse_form, square_root


class MinimaxModel(Classifier):
    """Base of models that know the rows by the moments of the classes, so that their size does not grow with the rows.

    kappa : in (0, kappa_max); fit_intercept : whether there is a bias, which the objective does not depend on
    """

    PARAMETER: ClassVar[ParameterName] = "kappa"
    TAKES_KERNEL: ClassVar[bool] = False
    OF_MOMENTS: ClassVar[bool] = True
    DEFAULT: ClassVar[str] = "half of the largest valid value"

    kappa: float
    fit_intercept: bool

    def __post_init__(self) -> None:
        check_positive("kappa", self.kappa)

    @classmethod
    def valid_range(
        cls, rows: Any, sample_weight: FloatArray | None = None, fit_intercept: bool = True
    ) -> tuple[float, float]:
        """Above 0, below kappa_max."""
        return 0.0, cls.kappa_max(class_moments(rows, sample_weight))

    @classmethod
    def default_value(cls, highest: float, total_weight: float, distance: Callable[[], float]) -> float | None:
        """Return half of kappa_max."""
        if highest == 0.0:
            raise DataError(
                "Both classes have the same mean, so no kappa is valid. Use a model without kappa, such as c-svm."
            )
        return 0.5 * highest if math.isfinite(highest) else None

    @classmethod
    def kappa_max(cls, moments: ClassMoments) -> float:
        """Return the kappa at which w is 0, of the regularised moments."""
        return cls._largest(moments.mended())

    def problem(self, rows: DenseRows, sample_weight: FloatArray | None = None) -> MinimaxProblem:
        """Return the dual on rows with sample_weight (m,), or 1.

        ConfigError where kappa is not below kappa_max.
        """
        return self.problem_of(class_moments(rows, sample_weight))

    def problem_of(self, moments: ClassMoments) -> MinimaxProblem:
        """Return the same problem from the moments of the classes."""
        moments = moments.mended()
        largest = self._largest(moments)
        if self.kappa >= largest:
            raise ConfigError(
                f"kappa = {self.kappa} is outside (0, {largest:.6g}), the valid range for these rows."
                + (f" {moments.note}" if moments.note else "")
            )
        roots, n_balls = self._roots(moments)
        return MinimaxProblem(
            difference=moments.difference,
            roots=roots,
            n_balls=n_balls,
            kappa=self.kappa,
            centre=0.5 * (moments.positive.mean + moments.negative.mean),
            intercept=self.fit_intercept,
            note=moments.note,
        )

    @staticmethod
    @abstractmethod
    def _largest(moments: ClassMoments) -> float:
        """Return kappa_max."""

    @staticmethod
    @abstractmethod
    def _roots(moments: ClassMoments) -> tuple[FloatArray, int]:
        """Return the square roots of the covariances (n, k n), and their number k."""


@dataclass(frozen=True)
class MMFDA(MinimaxModel):
    """Minimise -<w, d> + kappa sqrt(w'(S+ + S-) w) + 1/2 ||w||^2, d the difference of the class means.

    Dual: minimise 1/2 ||d + (S+ + S-)^(1/2) u||^2 over ||u|| <= kappa, which is w. At kappa_max w is 0; on the
    way there its direction becomes that of Fisher's discriminant. Own bias: half way between the means.

    Parameters
    ----------
    kappa : in (0, kappa_max), kappa_max = sqrt(d'(S+ + S-)^(-1) d)
    fit_intercept : whether there is a bias, which the objective does not depend on

    Source: Ito et al., 2017, section 3.2.6, (16).
    """

    NAME: ClassVar[str] = "mm-fda"
    EQUATION: ClassVar[int] = 16

    kappa: float = 0.5
    fit_intercept: bool = True

    @staticmethod
    def _largest(moments: ClassMoments) -> float:
        return math.sqrt(inverse_form(moments.total_covariance, moments.difference))

    @staticmethod
    def _roots(moments: ClassMoments) -> tuple[FloatArray, int]:
        return square_root(moments.total_covariance), 1


@dataclass(frozen=True)
class MMMPM(MinimaxModel):
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
    EQUATION: ClassVar[int] = 17

    kappa: float = 0.25
    fit_intercept: bool = True

    @staticmethod
    def _largest(moments: ClassMoments) -> float:
        """Return 1 / min {sqrt(w'S+ w) + sqrt(w'S- w) : <w, d> = 1}.

        The square of the sum is the minimum over t in (0, 1) of w'S+ w / t + w'S- w / (1 - t), jointly convex in w and
        t, and the best w for a t is known: what is left is a search along t.
        """
        positive, negative = moments.covariances
        optimum = minimize_scalar(
            lambda t: 1.0 / inverse_form(positive / t + negative / (1.0 - t), moments.difference),
            bounds=(1e-6, 1.0 - 1e-6),
            method="bounded",
            options={"xatol": 1e-9},
        )
        return 1.0 / math.sqrt(float(optimum.fun))

    @staticmethod
    def _roots(moments: ClassMoments) -> tuple[FloatArray, int]:
        positive, negative = moments.covariances
        return np.hstack([square_root(positive), -square_root(negative)]), 2
