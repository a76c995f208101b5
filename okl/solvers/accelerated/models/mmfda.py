"""MM-FDA: Fisher's discriminant with a margin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray
from okl.foundation.validation import check_positive
from okl.solvers.accelerated.base import Classifier, ParameterName
from okl.solvers.accelerated.dual import MinimaxProblem
from okl.solvers.accelerated.operators import DenseRows
from okl.solvers.accelerated.problem import ClassMoments, class_moments, inverse_form, square_root


@dataclass(frozen=True)
class MMFDA(Classifier):
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
    PARAMETER: ClassVar[ParameterName] = "kappa"
    TAKES_KERNEL: ClassVar[bool] = False
    EQUATION: ClassVar[int] = 16

    kappa: float = 0.5
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        check_positive("kappa", self.kappa)

    @classmethod
    def of(cls, parameter: float | None, fit_intercept: bool = True) -> MMFDA:
        """Return the model with kappa = parameter, or 0.5."""
        return cls(0.5 if parameter is None else parameter, fit_intercept)

    @classmethod
    def valid_range(
        cls, rows: Any, sample_weight: FloatArray | None = None, fit_intercept: bool = True
    ) -> tuple[float, float]:
        """Above 0, below kappa_max."""
        return 0.0, fda_kappa_max(class_moments(rows, sample_weight))

    def problem(self, rows: DenseRows, sample_weight: FloatArray | None = None) -> MinimaxProblem:
        """Return the dual on rows with sample_weight (m,), or 1.

        ConfigError where kappa is not below kappa_max.
        """
        return self.problem_of(class_moments(rows, sample_weight))

    def problem_of(self, moments: ClassMoments) -> MinimaxProblem:
        """Return the same problem from the moments of the classes."""
        moments = moments.mended()
        largest = fda_kappa_max(moments)
        if self.kappa >= largest:
            raise ConfigError(
                f"kappa = {self.kappa} is outside (0, {largest:.6g}), the valid range for these rows."
                + (f" {moments.note}" if moments.note else "")
            )
        return MinimaxProblem(
            difference=moments.difference,
            roots=square_root(moments.total_covariance),
            n_balls=1,
            kappa=self.kappa,
            centre=0.5 * (moments.positive.mean + moments.negative.mean),
            intercept=self.fit_intercept,
            note=moments.note,
        )


def fda_kappa_max(moments: ClassMoments) -> float:
    """Return sqrt(d'(S+ + S-)^(-1) d), of the regularised moments."""
    moments = moments.mended()
    return math.sqrt(inverse_form(moments.total_covariance, moments.difference))
