"""Nine classification models behind one face, each solved by the same method with a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from okl.estimators.unifiedbase import AcceleratedClassifier
from okl.estimators.unifiedfit import Bias


@dataclass(kw_only=True, eq=False, repr=False)
class UnifiedClassifier(AcceleratedClassifier):
    """Any of nine classification models, by name, on explicit columns or an exact kernel.

    Inputs should be of like scale: put a StandardScaler before it.

    Parameters
    ----------
    model : "c-svm", "l2-svm", "logistic", "nu-svm", "dwd", "mm-fda", "mm-mpm", "l1-logistic" or "l1-l2-svm"
    C : float > 0, LIBSVM's: 1/2 ||w||^2 + C sum of losses; None for 1
    nu : of nu-svm, in (0, 2 min(m+, m-) / m], or None for half of the largest; of dwd, above 0, or None for
        d^2 / (100 m), d the median distance of rows of one class from those of the other
    kappa : of mm-fda and mm-mpm, from 0 to where the classes' ellipsoids meet; None for half of that
    bias : "own", the model's, which the l1 models have none of; or "error-minimising", of fewest training errors
    class_weight : factor of the weights of each class's rows, by label; "balanced" for rows / (classes * rows of it);
        of two classes mm-fda and mm-mpm do not see it, and refuse it but for the errors of "error-minimising"
    memory_budget : bytes that kernel values may take; those beyond are computed again in every iteration
    kernel, bandwidth, degree, offset, feature_map, n_columns, fit_intercept, probability, tol, max_iter, method,
        start, n_jobs, random_state : as in AcceleratedClassifier

    Attributes
    ----------
    classes_, coef_, dual_coef_, support_, support_vectors_, intercept_, objective_, dual_objective_, duality_gap_,
        n_iter_, certificates_, chosen_, space_, n_features_in_, feature_names_in_ : as in AcceleratedClassifier

    Source: Ito, Takeda & Toh, JMLR 18(16), 2017.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> model = UnifiedClassifier(model="nu-svm", kernel="gaussian", random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.95)
    True
    >>> bool(model.duality_gap_ <= 1e-6 * abs(model.objective_))
    True
    """

    model: str = "c-svm"
    C: float | None = None
    nu: float | None = None
    kappa: float | None = None
    bias: Bias = "own"
    class_weight: dict[Any, float] | Literal["balanced"] | None = None
    memory_budget: int = 2**30

    @property
    def _model_name(self) -> str:
        return self.model

    @property
    def _parameters(self) -> dict[str, Any]:
        return {"C": self.C, "nu": self.nu, "kappa": self.kappa}

    @property
    def _bias(self) -> Bias:
        return self.bias

    @property
    def _weighting(self) -> Any:
        return self.class_weight

    @property
    def _memory_budget(self) -> int:
        return self.memory_budget
