"""MM-FDA: Fisher's discriminant with a margin."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from okl.accelerated.minimax import MinimaxProblem
from okl.accelerated.moments import ClassMoments, class_moments, square_root
from okl.accelerated.operators import DenseRows
from okl.checks import check_positive
from okl.errors import ConfigError
from okl.types import FloatArray


@dataclass(frozen=True)
class MMFDA:
    """Minimise -<w, d> + kappa sqrt(w'(S+ + S-) w) + 1/2 ||w||^2, d the difference of the class means.

    Dual: minimise 1/2 ||d + (S+ + S-)^(1/2) u||^2 over ||u|| <= kappa, which is w. At kappa_max w is 0; on the
    way there its direction becomes that of Fisher's discriminant. Own bias: half way between the means.

    Parameters
    ----------
    kappa : in (0, kappa_max), kappa_max = sqrt(d'(S+ + S-)^(-1) d)

    Source: Ito et al., 2017, section 3.2.6, (16).
    """

    kappa: float = 0.5

    def __post_init__(self) -> None:
        check_positive("kappa", self.kappa)

    def problem(self, rows: DenseRows) -> MinimaxProblem:
        """The dual on rows, or ConfigError where kappa is not below kappa_max."""
        return self.problem_of(class_moments(rows))

    def problem_of(self, moments: ClassMoments) -> MinimaxProblem:
        """The same of the classes' moments."""
        largest = fda_kappa_max(moments)
        if self.kappa >= largest:
            raise ConfigError(f"kappa = {self.kappa} is outside (0, {largest:.6g}), the valid range for these rows.")
        return MinimaxProblem(
            difference=moments.difference,
            roots=square_root(moments.positive.covariance + moments.negative.covariance),
            n_balls=1,
            kappa=self.kappa,
            centre=0.5 * (moments.positive.mean + moments.negative.mean),
        )


def fda_kappa_max(moments: ClassMoments) -> float:
    """sqrt(d'(S+ + S-)^(-1) d); infinite where the means differ in a direction without spread."""
    return math.sqrt(inverse_form(moments.positive.covariance + moments.negative.covariance, moments.difference))


def inverse_form(matrix: FloatArray, vector: FloatArray) -> float:
    """v'M^(-1) v of a positive semidefinite matrix; infinite where v leaves its range."""
    values, vectors = np.linalg.eigh(matrix)
    parts = vectors.T @ vector
    kept = values > len(values) * np.finfo(np.float64).eps * max(float(values[-1]), 0.0)
    if np.linalg.norm(parts[~kept]) > 1e-9 * np.linalg.norm(parts):
        return math.inf
    return float(np.sum(parts[kept] ** 2 / values[kept]))
