"""One table of losses: value, derivative, prediction and conjugate, in plain numpy, row by row of a block.

Targets are -1 or +1 (binary), class indices 0 .. K - 1 (several classes) or real numbers (regression). Scores are what
a model says before the link: (rows,) for one output, (rows, K) for K classes. The compiled learners know a loss by its
`code`; their twins here are the definition.
"""

from okl.losses.classes import Hinge, Logistic, MulticlassHinge
from okl.losses.extension import ExtensionLoss, OwnLoss
from okl.losses.making import DEFAULT_LOSS, make_loss
from okl.losses.protocol import Loss
from okl.losses.residuals import ThresholdedHalfSquared

__all__ = [
    "DEFAULT_LOSS",
    "ExtensionLoss",
    "Hinge",
    "Logistic",
    "Loss",
    "MulticlassHinge",
    "OwnLoss",
    "ThresholdedHalfSquared",
    "make_loss",
]
