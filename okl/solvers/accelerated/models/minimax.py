"""MM-FDA and MM-MPM: models of the means and covariances of two classes, with a margin."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize_scalar

from okl.compiled.jit import one_blas_thread
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Doubles, FloatArray
from okl.foundation.validation import check_positive
from okl.solvers.accelerated.base import Classifier, ParameterName
from okl.solvers.accelerated.dual import MinimaxProblem
from okl.solvers.accelerated.operators import DenseRows
from okl.solvers.accelerated.problem import ClassMoments, class_moments, inverse_form, range_of, square_root


class MinimaxModel(Classifier):
    """Base of models of the moments of the classes, whose size does not grow with the rows.

    The weights do not change from kappa_max on. They are 0 there, and kappa has to be below, unless the class means
    differ in a direction in which no row spreads, as they do where there are more columns than rows: then w is the part
    of d in these directions, and every kappa is valid.

    kappa : > 0; fit_intercept : whether there is a bias, which the objective does not depend on
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
        return 0.0, cls.kappa_max(class_moments(_in_span(rows)[0], sample_weight))

    @classmethod
    def default_value(cls, highest: float, total_weight: float, distance: Callable[[], float]) -> float | None:
        """Return half of kappa_max; None where that is 0, as no kappa changes the weights."""
        return 0.5 * highest or None

    @classmethod
    def kappa_max(cls, moments: ClassMoments) -> float:
        """Return the kappa from which on the weights do not change.

        That is the least length of a u, or the least larger one of u+ and u-, at which the dual is as small as without
        a bound of their lengths; it is 0 where rows do not spread in the direction of the means.
        """
        positive, negative, apart = moments.positive.covariance, moments.negative.covariance, moments.difference
        if not _vanishes(moments):  # the range alone, which is small where there are more columns than rows
            basis = range_of(moments.total_covariance)
            positive, negative, apart = basis.T @ positive @ basis, basis.T @ negative @ basis, basis.T @ apart
        return cls._largest(positive, negative, apart) if np.any(apart) else 0.0

    def problem(self, rows: DenseRows, sample_weight: FloatArray | None = None) -> MinimaxProblem:
        """Return the dual on rows with sample_weight (m,), or 1; raises as `problem_of`."""
        inside, basis = _in_span(rows)
        return replace(self.problem_of(class_moments(inside, sample_weight)), basis=basis)

    def problem_of(self, moments: ClassMoments) -> MinimaxProblem:
        """Return the same problem from the moments of the classes.

        Raises DataError : both classes have the same mean
        Raises ConfigError : the weights are 0, as kappa is not below kappa_max
        """
        if not np.any(moments.difference):
            raise DataError(
                "Both classes have the same mean, so no kappa is valid. Use a model without kappa, such as c-svm."
            )
        largest = self.kappa_max(moments)
        if self.kappa >= largest and _vanishes(moments):
            raise ConfigError(f"kappa = {self.kappa} is outside (0, {largest:.6g}), the valid range for these rows.")
        difference, (roots, n_balls) = moments.difference, self._roots(moments)
        if 0.0 < largest <= self.kappa:  # a solution at kappa_max would have spreads that a larger kappa multiplies
            difference, roots = _unspread(moments), np.zeros_like(roots)
        return MinimaxProblem(
            difference=difference,
            roots=roots,
            n_balls=n_balls,
            kappa=self.kappa,
            centre=0.5 * (moments.positive.mean + moments.negative.mean),
            intercept=self.fit_intercept,
        )

    @staticmethod
    @abstractmethod
    def _largest(positive: FloatArray, negative: FloatArray, apart: FloatArray) -> float:
        """Return kappa_max of covariances (n, n) and the difference of the means (n,), which is in their range."""

    @staticmethod
    @abstractmethod
    def _roots(moments: ClassMoments) -> tuple[FloatArray, int]:
        """Return the square roots of the covariances (n, k n), and their number k."""


@dataclass(frozen=True)
class MMFDA(MinimaxModel):
    """Minimise -<w, d> + kappa sqrt(w'(S+ + S-) w) + 1/2 ||w||^2, d the difference of the class means.

    Dual: minimise 1/2 ||d + (S+ + S-)^(1/2) u||^2 over ||u|| <= kappa, which is w. At kappa_max w is 0; on the
    way there its direction becomes that of Fisher's discriminant. Own bias: half way between the means.

    kappa : > 0, see MinimaxModel; kappa_max = sqrt(d'(S+ + S-)^+ d), of the pseudoinverse
    fit_intercept : whether there is a bias, which the objective does not depend on

    Source: Ito et al., 2017, section 3.2.6, (16).
    """

    NAME: ClassVar[str] = "mm-fda"
    EQUATION: ClassVar[int] = 16

    kappa: float = 0.5
    fit_intercept: bool = True

    @staticmethod
    def _largest(positive: FloatArray, negative: FloatArray, apart: FloatArray) -> float:
        return math.sqrt(inverse_form(positive + negative, apart))

    @staticmethod
    def _roots(moments: ClassMoments) -> tuple[FloatArray, int]:
        return square_root(moments.total_covariance), 1


@dataclass(frozen=True)
class MMMPM(MinimaxModel):
    """Minimise -<w, d> + kappa (sqrt(w'S+ w) + sqrt(w'S- w)) + 1/2 ||w||^2, d the difference of the class means.

    Dual: minimise 1/2 ||d + S+^(1/2) u+ - S-^(1/2) u-||^2 over ||u+||, ||u-|| <= kappa, which is w. Own bias: half way
    between the means, each moved towards the other by kappa standard deviations of its class along w.

    kappa : > 0, see MinimaxModel; kappa_max = 1 / min {sqrt(w'S+ w) + sqrt(w'S- w) : <w, d> = 1}, of the part of d in
        the range of S+ + S-
    fit_intercept : whether there is a bias, which the objective does not depend on

    Source: Ito et al., 2017, section 3.2.7, (17), with the sign of the second risk corrected.
    """

    NAME: ClassVar[str] = "mm-mpm"
    EQUATION: ClassVar[int] = 17

    kappa: float = 0.25
    fit_intercept: bool = True

    @staticmethod
    def _largest(positive: FloatArray, negative: FloatArray, apart: FloatArray) -> float:
        """Return 1 / min {sqrt(w'S+ w) + sqrt(w'S- w) : <w, d> = 1}.

        The square of the sum is the minimum over t in (0, 1) of w'S+ w / t + w'S- w / (1 - t), jointly convex in w and
        t, and the best w for a t is known: what is left is a search along t.
        """
        optimum = minimize_scalar(
            lambda t: 1.0 / inverse_form(positive / t + negative / (1.0 - t), apart),
            bounds=(1e-6, 1.0 - 1e-6),
            method="bounded",
            options={"xatol": 1e-9},
        )
        return 1.0 / math.sqrt(float(optimum.fun))

    @staticmethod
    def _roots(moments: ClassMoments) -> tuple[FloatArray, int]:
        positive, negative = (square_root(of_class.covariance) for of_class in (moments.positive, moments.negative))
        return np.hstack([positive, -negative]), 2


def _in_span(rows: DenseRows) -> tuple[DenseRows, FloatArray | None]:
    """Return rows that are fewer than their columns in an orthonormal basis (n, m) of their span, and this basis.

    Means, and the weights, are in this span: moments of 62 rows of 2,000 columns need no matrix of 2,000 columns.
    """
    if rows.n_points >= rows.n_image:
        return rows, None
    with one_blas_thread():
        basis, factor = np.linalg.qr(rows.rows.T.astype(np.float64))
    return DenseRows(factor.T, rows.signs), basis


_OUTSIDE = 1e-9  # of the length of a vector: that of rounding


def _vanishes(moments: ClassMoments) -> bool:
    """Return whether the weights are 0 from kappa_max on: whether rows spread wherever the means differ."""
    return float(np.linalg.norm(_unspread(moments))) <= _OUTSIDE * float(np.linalg.norm(moments.difference))


def _unspread(moments: ClassMoments) -> Doubles:
    """Return the part of the difference of the means in the directions in which no row spreads, (n,)."""
    apart: Doubles = moments.difference
    vectors = range_of(moments.total_covariance)
    with one_blas_thread():
        for _ in range(2):  # the first leaves its rounding, by the size of the means
            apart = apart - vectors @ (vectors.T @ apart)
    return apart
