"""One file a model: what it minimises, its set, its losses, its valid parameters."""

from okl.accelerated.models.csvm import CSVM
from okl.accelerated.models.dwd import DWD
from okl.accelerated.models.insensitive import InsensitiveRegression
from okl.accelerated.models.l1logistic import L1LogisticRegression
from okl.accelerated.models.l1squaredhinge import L1SquaredHinge
from okl.accelerated.models.l2svm import L2SVM
from okl.accelerated.models.logistic import LogisticRegression
from okl.accelerated.models.mmfda import MMFDA
from okl.accelerated.models.mmmpm import MMMPM
from okl.accelerated.models.normconstrained import NormConstrained
from okl.accelerated.models.nusvm import NuSVM
from okl.accelerated.models.ridge import RidgeRegression

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
