"""The minimax and the l1 models under the names of the field, each with its own parameters only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from okl.estimators.parameters import Auto
from okl.estimators.unifiedbase import AcceleratedClassifier
from okl.estimators.unifiedfit import Bias
from okl.estimators.unifiedmargins import ClassWeight


@dataclass(kw_only=True, eq=False, repr=False)
class _MinimaxClassifier(AcceleratedClassifier):
    """A model of the classes' means and covariances.

    Parameters
    ----------
    kappa : float above 0, below where the classes' ellipsoids meet, or "auto" for half of that
    bias : "own", the model's, or "error-minimising", of fewest training errors
    """

    kappa: float | Auto = "auto"
    bias: Bias = "own"

    @property
    def _parameters(self) -> dict[str, Any]:
        return {"kappa": self.kappa}

    @property
    def _bias(self) -> Bias:
        return self.bias


@dataclass(kw_only=True, eq=False, repr=False)
class MMFDAClassifier(_MinimaxClassifier):
    """Fisher's discriminant with a margin: the classes' means apart by more than kappa of their joint spread.

    Parameters
    ----------
    kappa : float above 0, below sqrt(d'(S+ + S-)^(-1) d), d the difference of the means, or "auto" for half of that
    bias : "own", half way between the means, or "error-minimising", of fewest training errors
    all others : as in UnifiedClassifier; kernels by a feature map only

    Source: Ito et al., 2017, section 3.2.6, (16).
    """

    @property
    def _model_name(self) -> str:
        return "mm-fda"


@dataclass(kw_only=True, eq=False, repr=False)
class MMMPMClassifier(_MinimaxClassifier):
    """The minimax probability machine with a margin: each class kappa of its spreads on its side.

    Parameters
    ----------
    kappa : float above 0, below where the ellipsoids of the classes meet, or "auto" for half of that
    bias : "own", or "error-minimising", of fewest training errors
    all others : as in UnifiedClassifier; kernels by a feature map only

    Source: Ito et al., 2017, section 3.2.7, (17).
    """

    @property
    def _model_name(self) -> str:
        return "mm-mpm"


@dataclass(kw_only=True, eq=False, repr=False)
class _SparseClassifier(AcceleratedClassifier):
    """Minimise ||w||_1 + C sum of losses: few columns have a weight.

    Parameters
    ----------
    C : float > 0, LIBLINEAR's
    fit_intercept : a bias of fewest training errors; the model has none of its own
    class_weight : factor of the weights of each class's rows, by label; "balanced" for rows / (classes * rows of it)
    """

    C: float = 1.0
    fit_intercept: bool = True
    class_weight: ClassWeight = None

    @property
    def _parameters(self) -> dict[str, Any]:
        return {"C": self.C}

    @property
    def _bias(self) -> Bias:
        return "error-minimising"

    @property
    def _weighting(self) -> Any:
        return self.class_weight


@dataclass(kw_only=True, eq=False, repr=False)
class L1LogisticClassifier(_SparseClassifier):
    """Logistic regression with an l1 penalty: ||w||_1 + C sum of logistic losses.

    Parameters
    ----------
    C, class_weight : as in LogisticClassifier; fit_intercept : a bias of fewest training errors, which is the only one
    all others : as in UnifiedClassifier; kernels by a feature map only

    Source: Ito et al., 2017, appendix D, (27).
    """

    @property
    def _model_name(self) -> str:
        return "l1-logistic"


@dataclass(kw_only=True, eq=False, repr=False)
class L1L2SVMClassifier(_SparseClassifier):
    """l2-SVM with an l1 penalty: ||w||_1 + C sum of squared hinge losses; parameters as in L1LogisticClassifier.

    Source: Ito et al., 2017, appendix D, (28).
    """

    @property
    def _model_name(self) -> str:
        return "l1-l2-svm"
