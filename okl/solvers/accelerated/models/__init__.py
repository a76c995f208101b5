"""One file a model: what it minimises, its set, its losses, its valid parameters."""

from okl.solvers.accelerated.models.csvm import CSVM
from okl.solvers.accelerated.models.dwd import DWD
from okl.solvers.accelerated.models.l1logistic import L1LogisticRegression
from okl.solvers.accelerated.models.l1squaredhinge import L1SquaredHinge
from okl.solvers.accelerated.models.l2svm import L2SVM
from okl.solvers.accelerated.models.logistic import LogisticRegression
from okl.solvers.accelerated.models.mmfda import MMFDA
from okl.solvers.accelerated.models.mmmpm import MMMPM
from okl.solvers.accelerated.models.normconstrained import NormConstrained
from okl.solvers.accelerated.models.nusvm import NuSVM
from okl.solvers.accelerated.models.regression import InsensitiveRegression, RidgeRegression

__all__ = [
    "CSVM",
    "DWD",
    "L2SVM",
    "MMFDA",
    "MMMPM",
    "InsensitiveRegression",
    "L1LogisticRegression",
    "L1SquaredHinge",
    "LogisticRegression",
    "NormConstrained",
    "NuSVM",
    "RidgeRegression",
]
