"""The five models of margins under the names of the field, each with its own parameters only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from okl.estimators.parameters import Auto
from okl.estimators.unifiedbase import AcceleratedClassifier
from okl.estimators.unifiedfit import Bias

ClassWeight = dict[Any, float] | Literal["balanced"] | None


@dataclass(kw_only=True, eq=False, repr=False)
class _MarginClassifier(AcceleratedClassifier):
    """A model of margins: it takes exact kernels, has a bias of its own, and classes may weigh differently.

    Parameters
    ----------
    bias : "own", the model's, or "error-minimising", of fewest training errors
    class_weight : factor of the weights of each class's rows, by label; "balanced" for rows / (classes * rows of it)
    memory_budget : bytes that kernel values may take; those beyond are computed again in every iteration
    """

    bias: Bias = "own"
    class_weight: ClassWeight = None
    memory_budget: int = 2**30

    @property
    def _bias(self) -> Bias:
        return self.bias

    @property
    def _weighting(self) -> Any:
        return self.class_weight

    @property
    def _memory_budget(self) -> int:
        return self.memory_budget


@dataclass(kw_only=True, eq=False, repr=False)
class _PenalisedClassifier(_MarginClassifier):
    """Minimise 1/2 ||w||^2 + C sum of losses; C : float > 0, LIBSVM's."""

    C: float = 1.0

    @property
    def _parameters(self) -> dict[str, Any]:
        return {"C": self.C}


@dataclass(kw_only=True, eq=False, repr=False)
class CSVMClassifier(_PenalisedClassifier):
    """C-SVM: 1/2 ||w||^2 + C sum of hinge losses, solved with a certificate.

    Parameters
    ----------
    C : float > 0, LIBSVM's
    bias, class_weight, memory_budget, and all others : as in UnifiedClassifier

    Source: Ito et al., 2017, section 3.2.1, (11).

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> bool(CSVMClassifier(kernel="gaussian", random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    @property
    def _model_name(self) -> str:
        return "c-svm"


@dataclass(kw_only=True, eq=False, repr=False)
class L2SVMClassifier(_PenalisedClassifier):
    """l2-SVM: 1/2 ||w||^2 + C sum of squared hinge losses; parameters as in CSVMClassifier.

    Source: Ito et al., 2017, section 3.2.2, (12).
    """

    @property
    def _model_name(self) -> str:
        return "l2-svm"


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticClassifier(_PenalisedClassifier):
    """Logistic regression: 1/2 ||w||^2 + C sum of logistic losses; parameters as in CSVMClassifier.

    Source: Ito et al., 2017, section 3.2.3, (13).
    """

    @property
    def _model_name(self) -> str:
        return "logistic"


@dataclass(kw_only=True, eq=False, repr=False)
class NuSVMClassifier(_MarginClassifier):
    """nu-SVM: 1/2 ||w||^2 - rho + the mean shortfall of the margins below rho, over nu.

    Parameters
    ----------
    nu : float in (0, 2 min(m+, m-) / m], m+ and m- the weights of the classes, or "auto" for half of the largest
    bias, class_weight, memory_budget, and all others : as in UnifiedClassifier

    Source: Ito et al., 2017, section 3.2.4, (14).
    """

    nu: float | Auto = "auto"

    @property
    def _model_name(self) -> str:
        return "nu-svm"

    @property
    def _parameters(self) -> dict[str, Any]:
        return {"nu": self.nu}


@dataclass(kw_only=True, eq=False, repr=False)
class DWDClassifier(_MarginClassifier):
    """Distance weighted discrimination: the sum of inverse distances from the boundary, over ||w|| <= 1.

    Parameters
    ----------
    nu : float > 0, or "auto" for d^2 / (100 m), d the median distance of rows of one class from those of the other;
        the command's "auto" is another, .5 whatever the rows are
    bias, class_weight, memory_budget, and all others : as in UnifiedClassifier

    Source: Ito et al., 2017, section 3.2.5, (15); Marron, Todd & Ahn, JASA 102, 2007.
    """

    nu: float | Auto = "auto"

    @property
    def _model_name(self) -> str:
        return "dwd"

    @property
    def _parameters(self) -> dict[str, Any]:
        return {"nu": self.nu}
