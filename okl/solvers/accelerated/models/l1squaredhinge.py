"""l2-loss SVM with an l1 penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from okl.solvers.accelerated.dual import SmoothLoss, SparseClassifier
from okl.solvers.accelerated.models.l2svm import SquaredHinge


@dataclass(frozen=True)
class L1SquaredHinge(SparseClassifier):
    """Minimise ||w||_1 + C sum_i weight_i max(0, 1 - y_i <w, x_i>)^2.

    C : see CostClassifier

    Source: Ito et al., 2017, appendix D, (28).
    """

    NAME: ClassVar[str] = "l1-l2-svm"
    EQUATION: ClassVar[int] = 28
    LOSS: ClassVar[SmoothLoss] = SquaredHinge()
