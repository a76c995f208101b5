"""Accelerated classifiers, one class for each model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from okl.compiled.jit import one_blas_thread
from okl.estimators.accelerated_fit import (
    Bias,
    Calibration,
    ClassFit,
    Inputs,
    KernelSpace,
    LabelledRows,
    MapGiven,
    SpaceChoice,
    TwoClassFit,
    calibrate,
    float_or_auto,
    label_rows,
    of_log_odds,
    one_or_all,
    refuse_idle_weights,
    refuse_two_intercepts,
    refuse_without_columns,
    warn_of,
)
from okl.estimators.base import SAMPLE_ROWS, Auto, RandomState, classes_of, draw_seed, number_or_auto
from okl.foundation.validation import check_choice
from okl.kernels import Kernel
from okl.solvers.accelerated.fitting import ModelTask
from okl.solvers.accelerated.method import Fapg
from okl.solvers.accelerated.models import make_model, model_class, parameter_of

# The base class: fitting with a certificate, and scores.

_LEARNT = ("coef_", "support_", "support_vectors_", "dual_coef_", "calibration_")


@dataclass(kw_only=True, eq=False, repr=False)
class AcceleratedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A model of two classes, or of several one against the rest, with a proof of how good its solution is.

    Inputs may be sparse where kernel = "linear", without a feature map, but for the models of kappa (MM-FDA, MM-MPM),
    whose covariances are dense. Equal rows count as one of their weights' sum.
    The same rows in any order, parameters and random_state give the same bits where rows have weights or repeat, and
    whatever n_jobs and memory_budget are.

    Parameters
    ----------
    kernel : "linear" for the inputs themselves; "gaussian", "laplacian", "matern32", "matern52", "polynomial" or a
        kernel of okl.kernels, exactly or through a feature map
    bandwidth : float > 0 in units of the inputs, or "auto" for the median distance of a sample of 4096 rows
    degree, offset : of the polynomial kernel
    feature_map : None; "fourier", "orthogonal", "quasi", "structured" or "nystrom" for a map of the kernel; or a map of
        okl.features
    n_columns : int >= 1, of a map that is named
    fit_intercept : whether there is a bias
    probability : whether to calibrate probabilities, by five more fits; the logistic model has some without
    tol : float > 0, of the duality gap, relative to the objective
    max_iter : int >= 1
    method : "practical", or "proven" for the one with a bound on its iterations
    n_jobs : threads, None for 1, -1 for all cores; no result depends on it
    random_state : int, RandomState or None, of maps, samples and folds

    Attributes
    ----------
    classes_ : labels in order, the second of two has positive scores
    coef_ : (1 or n_classes, n_features or columns of the map), unless the kernel is exact
    dual_coef_, support_, support_vectors_ : (1 or n_classes, n_supports), numbers and rows, for an exact kernel
    intercept_ : (1 or n_classes,); scores are X @ coef_.T + intercept_
    objective_, dual_objective_, duality_gap_ : of the solution with the model's own bias; no solution has an objective
        below dual_objective_; n_iter_ : iterations; each a number, or one a class
    certificates_ : one a class, with the part of the gap that is due to smoothing, and that to expect of rounding
    chosen_ : what "auto" parameters became, each with its reason; space_ : where weights live
    n_features_in_, feature_names_in_ : of the inputs
    """

    kernel: str | Kernel = "linear"
    bandwidth: float | Auto = "auto"
    degree: int = 3
    offset: float = 1.0
    feature_map: MapGiven = None
    n_columns: int = 800
    fit_intercept: bool = True
    probability: bool = False
    tol: float = 1e-4
    max_iter: int = 20_000
    method: Literal["practical", "proven"] = "practical"
    n_jobs: int | None = None
    random_state: RandomState = None

    _MODEL: ClassVar[str]

    @property
    def _model_name(self) -> str:
        return self._MODEL

    @property
    def _parameters(self) -> dict[str, Any]:
        """Return C, nu and kappa as far as the estimator has them; None or "auto" for a default."""
        return {name: getattr(self, name) for name in ("C", "nu", "kappa") if hasattr(self, name)}

    @property
    def _bias(self) -> Bias:
        bias: Bias = getattr(self, "bias", "own")
        return "errors" if str(bias) == "error-minimising" else bias  # its name in older versions

    @property
    def _weighting(self) -> Any:
        """Return class weights as scikit-learn defines them: None, "balanced", or by label."""
        return getattr(self, "class_weight", None)

    @property
    def _scores_are_log_odds(self) -> bool:
        return self._model_name == "logistic" and self._bias == "own"

    @one_blas_thread()  # bits depend on the number of threads
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn rows X (rows, n_features) with labels y (rows,), each weighing sample_weight (rows,) or 1.

        Warns
        -----
        ConvergenceWarning : the gap did not fall to tol, by max_iter or at the numerical floor; it names the gap

        Raises
        ------
        ConfigError, a ValueError : a parameter is out of its range; that of nu and kappa depends on the rows
        DataError, a ValueError : y holds one class only, or a class has no weight
        DivergedError : the solution is no longer finite
        """
        fitting, choice = self._fitting(), self._space_choice()
        labelled = self._labelled(X, y, sample_weight)
        rng = check_random_state(self.random_state)
        seed, order = draw_seed(rng), rng.permutation(labelled.n_rows)[:SAMPLE_ROWS]
        # a plain space uses no rows, and sparse rows are no sample
        sample = np.empty((0, labelled.n_features)) if choice.is_plain else labelled.inputs[order]
        self.space_, self.chosen_ = choice.build(sample, seed, labelled.precision)
        n_threads = effective_n_jobs(self.n_jobs)
        fits = fitting.fit(self.space_, labelled.inputs, labelled.codes, labelled.weights, n_threads)
        self._keep(fits, labelled)
        if self.probability:
            self.calibration_ = calibrate(fitting, self.space_, labelled, seed, n_threads)
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return scores (rows,) for two classes, positive for the second, or (rows, n_classes)."""
        check_is_fitted(self)
        inputs = self._validated(X, reset=False)
        n_threads = effective_n_jobs(self.n_jobs)
        exact = isinstance(self.space_, KernelSpace)
        supports, weights = (self.support_vectors_, self.dual_coef_) if exact else (None, self.coef_)
        scores = self.space_.scores(inputs, supports, weights, n_threads) + self.intercept_
        return scores if len(self.classes_) > 2 else np.ascontiguousarray(scores[:, 0])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return labels (rows,)."""
        scores = self.decision_function(X)
        chosen = np.argmax(scores, axis=1) if scores.ndim == 2 else (scores >= 0).astype(np.int64)
        labels: NDArray[Any] = self.classes_[chosen]
        return labels

    @available_if(lambda self: self.probability or self._scores_are_log_odds)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return probabilities (rows, n_classes); monotone in the scores, of two classes exactly.

        With `probability` they are calibrated. Without, the logistic model with its own bias has them, too: its scores
        are the logarithm of the odds, of several classes one against the rest.
        """
        check_is_fitted(self, "calibration_" if self.probability else None)
        scores = self.decision_function(X)
        n_scores = 1 if scores.ndim == 1 else scores.shape[1]
        calibration: Calibration = self.calibration_ if self.probability else of_log_odds(n_scores)
        return calibration.probabilities(scores)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        return tags

    @property
    def _takes_sparse(self) -> bool:
        plain = isinstance(self.kernel, str) and self.kernel == "linear" and self.feature_map is None
        return plain and parameter_of(self._model_name) != "kappa"  # covariances are dense

    def _fitting(self) -> TwoClassFit:
        parameters = {name: float_or_auto(name, value) for name, value in self._parameters.items()}
        own = parameter_of(self._model_name)
        others: Any = {name: value for name, value in parameters.items() if name != own}
        make_model(self._model_name, **others)
        task = ModelTask(self._model_name, parameters.get(own), bool(self.fit_intercept))
        method = Fapg(
            check_choice("method", self.method, ("practical", "proven")),  # type: ignore[arg-type]
            tolerance=float_or_auto("tol", self.tol) or 0.0,
            max_iterations=self.max_iter,
        )
        bias = check_choice("bias", self._bias, ("own", "errors"))
        refuse_two_intercepts(self._model_name, bias, self.fit_intercept)
        return TwoClassFit(task, bias, method)  # type: ignore[arg-type]

    def _space_choice(self) -> SpaceChoice:
        bandwidth = number_or_auto("bandwidth", self.bandwidth)
        shape = (self.degree, self.offset, self.feature_map, self.n_columns, getattr(self, "memory_budget", 1))
        choice = SpaceChoice(self.kernel, bandwidth, *shape)
        if choice.is_exact_kernel:
            refuse_without_columns(self._model_name, self.kernel)
        return choice

    def _validated(self, X: ArrayLike, reset: bool) -> Inputs:
        sparse = "csr" if self._takes_sparse else False
        # float32 stays: half the memory, while sums are float64
        return validate_data(self, X, accept_sparse=sparse, dtype=[np.float64, np.float32], order="C", reset=reset)

    def _labelled(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> LabelledRows:
        sparse = "csr" if self._takes_sparse else False
        inputs, labels = validate_data(
            self, X, y, accept_sparse=sparse, dtype=[np.float64, np.float32], order="C", reset=True
        )
        self.classes_, _ = classes_of(self, labels)
        if self._bias == "own" and len(self.classes_) == 2:
            refuse_idle_weights(self._model_name, self._weighting)
        return label_rows(inputs, labels, self.classes_, sample_weight, self._weighting)

    def _keep(self, fits: list[ClassFit], labelled: LabelledRows) -> None:
        for name in _LEARNT:  # of an earlier fit in another space
            self.__dict__.pop(name, None)
        weights = np.stack([fit.weights for fit in fits])
        if isinstance(self.space_, KernelSpace):
            support = np.flatnonzero((weights != 0.0).any(axis=0))
            self.support_, self.support_vectors_ = labelled.numbers[support], labelled.inputs[support]
            self.dual_coef_ = np.ascontiguousarray(weights[:, support])
        else:
            self.coef_ = weights
        self.intercept_ = np.array([fit.intercept for fit in fits])
        self.certificates_ = tuple(fit.fitted.certificate for fit in fits)
        self.objective_ = one_or_all([certificate.primal for certificate in self.certificates_])
        self.dual_objective_ = one_or_all([certificate.dual for certificate in self.certificates_])
        self.duality_gap_ = one_or_all([certificate.gap for certificate in self.certificates_])
        # the check of the first point counts: a start may be the solution
        self.n_iter_ = one_or_all([max(1, fit.fitted.iterations) for fit in fits])
        own = parameter_of(self._model_name)
        if self._parameters.get(own) in (None, "auto"):
            values = one_or_all([fit.parameter for fit in fits])
            self.chosen_ |= {own: values, f"{own}_reason": model_class(self._model_name).DEFAULT}
        warn_of(type(self).__name__, fits, self.tol)


# All nine models in one class.


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
    bias : "own", the model's, which the l1 models have none of; or "errors", of fewest training errors
    class_weight : factor of the weights of each class's rows, by label; "balanced" for rows / (classes * rows of it);
        of two classes mm-fda and mm-mpm do not see it, and refuse it but for the errors of "errors"
    memory_budget : bytes that kernel values may take; those beyond are computed again in every iteration
    kernel, bandwidth, degree, offset, feature_map, n_columns, fit_intercept, probability, tol, max_iter, method,
        n_jobs, random_state : as in AcceleratedClassifier

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
    >>> bool(model.duality_gap_ <= 1e-4 * abs(model.objective_))
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


# The five margin models.

ClassWeight = dict[Any, float] | Literal["balanced"] | None


@dataclass(kw_only=True, eq=False, repr=False)
class _MarginClassifier(AcceleratedClassifier):
    """A model of margins: it takes exact kernels, has a bias of its own, and classes may weigh differently.

    Parameters
    ----------
    bias : "own", the model's, or "errors", of fewest training errors
    class_weight : factor of the weights of each class's rows, by label; "balanced" for rows / (classes * rows of it)
    memory_budget : bytes that kernel values may take; those beyond are computed again in every iteration
    """

    bias: Bias = "own"
    class_weight: ClassWeight = None
    memory_budget: int = 2**30


@dataclass(kw_only=True, eq=False, repr=False)
class _PenalisedClassifier(_MarginClassifier):
    """Minimise 1/2 ||w||^2 + C sum of losses; C : float > 0, LIBSVM's."""

    C: float = 1.0


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

    _MODEL: ClassVar[str] = "c-svm"


@dataclass(kw_only=True, eq=False, repr=False)
class L2SVMClassifier(_PenalisedClassifier):
    """l2-SVM: 1/2 ||w||^2 + C sum of squared hinge losses; parameters as in CSVMClassifier.

    Source: Ito et al., 2017, section 3.2.2, (12).
    """

    _MODEL: ClassVar[str] = "l2-svm"


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticClassifier(_PenalisedClassifier):
    """Logistic regression: 1/2 ||w||^2 + C sum of logistic losses; parameters as in CSVMClassifier.

    Source: Ito et al., 2017, section 3.2.3, (13).
    """

    _MODEL: ClassVar[str] = "logistic"


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

    _MODEL: ClassVar[str] = "nu-svm"


@dataclass(kw_only=True, eq=False, repr=False)
class DWDClassifier(_MarginClassifier):
    """Distance weighted discrimination: the sum of inverse distances from the boundary, over ||w|| <= 1.

    Parameters
    ----------
    nu : float > 0, or "auto" for d^2 / (100 m), d the median distance of rows of one class from those of the other
    bias, class_weight, memory_budget, and all others : as in UnifiedClassifier

    Source: Ito et al., 2017, section 3.2.5, (15); Marron, Todd & Ahn, JASA 102, 2007.
    """

    nu: float | Auto = "auto"

    _MODEL: ClassVar[str] = "dwd"


# The minimax and l1 models.


@dataclass(kw_only=True, eq=False, repr=False)
class _MinimaxClassifier(AcceleratedClassifier):
    """A model of the classes' means and covariances.

    Parameters
    ----------
    kappa : float above 0, below where the classes' ellipsoids meet, or "auto" for half of that
    bias : "own", the model's, or "errors", of fewest training errors
    """

    kappa: float | Auto = "auto"
    bias: Bias = "own"


@dataclass(kw_only=True, eq=False, repr=False)
class MMFDAClassifier(_MinimaxClassifier):
    """Fisher's discriminant with a margin: the classes' means apart by more than kappa of their joint spread.

    Parameters
    ----------
    kappa : float above 0, below sqrt(d'(S+ + S-)^(-1) d), d the difference of the means, or "auto" for half of that
    bias : "own", half way between the means, or "errors", of fewest training errors
    all others : as in UnifiedClassifier; kernels by a feature map only

    Source: Ito et al., 2017, section 3.2.6, (16).
    """

    _MODEL: ClassVar[str] = "mm-fda"


@dataclass(kw_only=True, eq=False, repr=False)
class MMMPMClassifier(_MinimaxClassifier):
    """The minimax probability machine with a margin: each class kappa of its spreads on its side.

    Parameters
    ----------
    kappa : float above 0, below where the ellipsoids of the classes meet, or "auto" for half of that
    bias : "own", or "errors", of fewest training errors
    all others : as in UnifiedClassifier; kernels by a feature map only

    Source: Ito et al., 2017, section 3.2.7, (17).
    """

    _MODEL: ClassVar[str] = "mm-mpm"


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
    def _bias(self) -> Bias:
        return "errors"


@dataclass(kw_only=True, eq=False, repr=False)
class L1LogisticClassifier(_SparseClassifier):
    """Logistic regression with an l1 penalty: ||w||_1 + C sum of logistic losses.

    Parameters
    ----------
    C, class_weight : as in LogisticClassifier; fit_intercept : a bias of fewest training errors, which is the only one
    all others : as in UnifiedClassifier; kernels by a feature map only

    Source: Ito et al., 2017, appendix D, (27).
    """

    _MODEL: ClassVar[str] = "l1-logistic"


@dataclass(kw_only=True, eq=False, repr=False)
class L1L2SVMClassifier(_SparseClassifier):
    """l2-SVM with an l1 penalty: ||w||_1 + C sum of squared hinge losses; parameters as in L1LogisticClassifier.

    Source: Ito et al., 2017, appendix D, (28).
    """

    _MODEL: ClassVar[str] = "l1-l2-svm"
