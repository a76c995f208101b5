"""l2-loss SVM with an l1 penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from okl.foundation.stored import stored
from okl.foundation.types import FloatArray
from okl.solvers.accelerated.base import Classifier, ParameterName, check_cost, weights_of
from okl.solvers.accelerated.dual import SparseProblem
from okl.solvers.accelerated.operators import DenseRows, SparseRows


@stored("l1-squared-hinge-loss")
class _L1SquaredHinge:
    """max(0, 1 - z)^2, with curvature of at most 2."""

    def value(self, margins: FloatArray) -> FloatArray:
        values: FloatArray = np.square(np.maximum(0.0, 1.0 - margins))
        return values

    def derivative(self, margins: FloatArray) -> FloatArray:
        values: FloatArray = np.minimum(0.0, 2.0 * (margins - 1.0))
        return values

    def excess(self, margins: FloatArray, at: FloatArray) -> FloatArray:
        short, at_short = np.maximum(0.0, 1.0 - margins), np.maximum(0.0, 1.0 - at)
        values: FloatArray = np.square(short - at_short) + 2.0 * at_short * np.maximum(0.0, margins - 1.0)
        return values

    def conjugate(self, duals: FloatArray) -> FloatArray:
        values: FloatArray = duals * (0.25 * duals - 1.0)
        return values


@dataclass(frozen=True)
class L1SquaredHinge(Classifier):
    """Minimise ||w||_1 + C sum_i weight_i max(0, 1 - y_i <w, x_i>)^2.

    Parameters
    ----------
    C : > 0, LIBLINEAR's

    Source: Ito et al., 2017, appendix D, (28).
    """

    NAME: ClassVar[str] = "l1-l2-svm"
    PARAMETER: ClassVar[ParameterName] = "C"
    TAKES_KERNEL: ClassVar[bool] = False
    HAS_OWN_BIAS: ClassVar[bool] = False
    EQUATION: ClassVar[int] = 28

    C: float = 1.0

    def __post_init__(self) -> None:
        check_cost(self.C)

    def problem(self, rows: DenseRows | SparseRows, sample_weight: FloatArray | None = None) -> SparseProblem:
        """Return the problem on rows with sample_weight (m,), or 1."""
        return SparseProblem(rows, _L1SquaredHinge(), self.C * weights_of(rows, sample_weight), curvature=2.0)
