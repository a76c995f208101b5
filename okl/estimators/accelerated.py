"""Accelerated classifiers, one class for each model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from okl.compiled.jit import as_compiled, one_blas_thread
from okl.compiled.products import multiply_rows, multiply_sparse_rows
from okl.compiled.threads import run_tasks
from okl.estimators.base import (
    SAMPLE_ROWS,
    Auto,
    ClassWeight,
    ScoringClassifier,
    check_weighted,
    classes_of,
    draw_seed,
    threads_of,
)
from okl.estimators.spaces import ColumnSpace, Inputs, KernelSpace, SpaceEstimator
from okl.features.base import precision_of
from okl.foundation.errors import ConfigError
from okl.foundation.types import Doubles, FloatArray, IntArray
from okl.metrics.calibration import LOG_ODDS, Sigmoid, fit_sigmoid, normalised
from okl.solvers.accelerated.choice import MethodChoice, MethodName
from okl.solvers.accelerated.fitting import (
    Fitted,
    ModelTask,
    cross_validated_scores,
    fit_task,
    relabelled,
    signs_by_class,
)
from okl.solvers.accelerated.models import model_class, parameter_of
from okl.solvers.accelerated.problem import error_minimising_bias

Bias = Literal["own", "errors"]
Space = ColumnSpace | KernelSpace

# Deduplication: equal rows become one row with their total weight.

_SEED = 20170418  # any fixed number: equal rows have equal keys in every run


def merge_repeats(inputs: Any, labels: IntArray, weights: FloatArray | None) -> tuple[IntArray, FloatArray] | None:
    """Find the rows that differ, leaving out those without weight; their order depends on their values only.

    A weight of 3 and a row that occurs three times give the same bits, in any order of the rows.

    inputs : (rows, n_features), C-contiguous array or CSR matrix of floats
    labels : (rows,), rows of two classes are never one; weights : (rows,), or None for 1 each
    Returns indices of the distinct rows (kept,), and their weights; or None where every row is there once and weighs 1
    """
    if weights is not None and (weights == 1.0).all():
        weights = None
    keys = _keys(inputs)
    order = np.lexsort((labels, keys))
    if weights is not None:
        order = order[weights[order] > 0.0]
    repeats = np.zeros(len(order), dtype=bool)
    repeats[1:] = (np.diff(keys[order]) == 0.0) & (np.diff(labels[order]) == 0)
    candidates = np.flatnonzero(repeats)
    repeats[candidates] = _equal(inputs, order[candidates], order[candidates - 1])
    if weights is None and not repeats.any():
        return None
    first = np.flatnonzero(~repeats)
    ordered = np.ones(len(order)) if weights is None else weights[order]
    summed = np.add.reduceat(ordered, first) if len(first) else ordered
    return order[first], summed


def _keys(inputs: Any) -> Doubles:
    """Return a random projection of every row (rows,), with the same bits for equal rows at any position."""
    direction = np.random.default_rng(_SEED).standard_normal(inputs.shape[1])
    keys = np.empty(inputs.shape[0])
    ones = np.ones(inputs.shape[0])
    if sparse.issparse(inputs):
        data = as_compiled(inputs.data, inputs.data.dtype)
        multiply_sparse_rows(keys, data, inputs.indices, inputs.indptr, ones, direction)
    else:
        multiply_rows(keys, as_compiled(inputs, inputs.dtype), ones, direction)
    return keys


def _equal(inputs: Any, left: IntArray, right: IntArray) -> NDArray[np.bool_]:
    """Return whether rows of two lists are equal, pair by pair."""
    equal: NDArray[np.bool_]
    if sparse.issparse(inputs):
        equal = np.asarray(abs(inputs[left] - inputs[right]).sum(axis=1)).ravel() == 0.0
    else:
        equal = (inputs[left] == inputs[right]).all(axis=1)
    return equal


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows to learn.

    inputs : (rows, n_features), array or CSR; codes : (rows,), numbers of their classes
    weights : (rows,) > 0, or None for 1 each; numbers : (rows,), indices of the rows in the input
    """

    inputs: Inputs
    codes: IntArray
    weights: FloatArray | None
    numbers: IntArray

    def part(self, numbers: IntArray) -> LabelledRows:
        """Return a subset of the rows."""
        weights = None if self.weights is None else self.weights[numbers]
        return LabelledRows(self.inputs[numbers], self.codes[numbers], weights, self.numbers[numbers])


def label_rows(
    inputs: Inputs, labels: NDArray[Any], classes: NDArray[Any], sample_weight: ArrayLike | None, class_weight: Any
) -> LabelledRows:
    """Weigh rows (array or CSR) and merge those that are equal; class_weight : None, "balanced", or by label.

    Raises DataError : a class has no weight; ValueError of scikit-learn : weights that are negative, or of other rows
    """
    codes = np.searchsorted(classes, labels)
    weights = None
    if sample_weight is not None:
        weights = _check_sample_weight(sample_weight, inputs, dtype=np.float64, ensure_non_negative=True)
        check_weighted(classes, codes[weights > 0.0])
    if class_weight is not None:
        given = np.ones(len(labels)) if weights is None else weights
        by_class = compute_class_weight(class_weight, classes=classes, y=labels, sample_weight=given)
        weights = given * by_class[codes]
    if sparse.issparse(inputs) and not inputs.has_canonical_format:
        inputs = inputs.copy()  # the user's own, perhaps
        inputs.sum_duplicates()
    merged = merge_repeats(inputs, codes, weights)
    if merged is None:
        return LabelledRows(inputs, codes, None, np.arange(len(codes)))
    kept, summed = merged
    labelled = LabelledRows(inputs[kept], codes[kept], summed, kept)
    check_weighted(classes, labelled.codes)
    return labelled


# Fits of two classes, and of one class against the rest.


@dataclass(frozen=True, eq=False)
class ClassFit:
    """Weights of columns or rows, and intercept: h(x) = f(x) + intercept; C, nu or kappa as used; the solution."""

    weights: FloatArray
    intercept: float
    parameter: float
    fitted: Fitted


@dataclass(frozen=True)
class TwoClassFit:
    """Solution that separates two classes.

    task : which model, with which parameter; method : its choice
    bias : the model's own, or "errors" for that of fewest training errors, which is also used where all weights are 0
    """

    task: ModelTask
    bias: Bias
    method: MethodChoice

    def fit(
        self, space: Space, inputs: Inputs, codes: IntArray, weights: FloatArray | None, n_threads: int
    ) -> list[ClassFit]:
        """Fit codes (rows,) of two classes, the higher being positive, or each against the rest, in parallel.

        Raises ConfigError, DataError : a parameter outside its range, or rows that the model cannot learn
        """
        _, signs = signs_by_class(codes)
        n_workers = min(n_threads, len(signs))
        rows = space.operator(inputs, signs[0], n_threads // n_workers)
        return run_tasks(lambda index: self._fit_two(relabelled(rows, signs[index]), weights), len(signs), n_workers)

    def _fit_two(self, rows: Any, weights: FloatArray | None) -> ClassFit:
        parameter, fitted = fit_task(self.task, rows, self.method, weights)
        bias = fitted.bias if self.task.fit_intercept else 0.0
        if self.task.fit_intercept and (self.bias == "errors" or not fitted.weights.any()):
            bias = error_minimising_bias(rows.scores(fitted.weights), rows.signs, weights)
        # an intercept of -0.0 would confuse readers
        return ClassFit(fitted.weights, 0.0 - bias, parameter, fitted)


# Calibration of scores by sigmoids on held-out scores.

_FOLDS = 5
_LEAST = 1e-300  # of a probability, so that there is a class for scores that exclude all


@dataclass(frozen=True, eq=False)
class Calibration:
    """A sigmoid a class, or one for two; probabilities never fall where scores rise."""

    sigmoids: tuple[Sigmoid, ...]

    def probabilities(self, scores: FloatArray) -> Doubles:
        """Return probabilities (rows, n_classes) of scores (rows,) of two classes, or (rows, n_classes)."""
        if len(self.sigmoids) == 1:
            return normalised(self.sigmoids[0].probabilities(scores))
        columns = [sigmoid.probabilities(column) for sigmoid, column in zip(self.sigmoids, scores.T, strict=True)]
        return normalised(np.maximum(np.stack(columns, axis=1), _LEAST))


def calibrate(fitting: TwoClassFit, space: Space, labelled: LabelledRows, seed: int, n_threads: int) -> Calibration:
    """Fit sigmoids to the scores of every fold of rows, as learned from the other folds.

    Raises DataError : a class has one row only
    Source: Platt, Advances in Large Margin Classifiers, 1999, with five folds as in LIBSVM.
    """

    def scores_by(learn: IntArray, judge: IntArray) -> Doubles:
        part = labelled.part(learn)
        fits = fitting.fit(space, part.inputs, part.codes, part.weights, n_threads)
        weights, intercepts = np.stack([fit.weights for fit in fits]), np.array([fit.intercept for fit in fits])
        found: Doubles = space.scores(labelled.inputs[judge], part.inputs, weights, n_threads) + intercepts
        return found

    scores = cross_validated_scores(scores_by, labelled.codes, _FOLDS, seed)
    _, signs = signs_by_class(labelled.codes)
    pairs = zip(scores.T, signs, strict=True)
    return Calibration(
        tuple(_rising(fit_sigmoid(*pair, labelled.weights), pair[1], labelled.weights) for pair in pairs)
    )


def _rising(sigmoid: Sigmoid, signs: FloatArray, weights: FloatArray | None) -> Sigmoid:
    """Return the sigmoid, or the class's share of the rows where the sigmoid does not rise with the scores."""
    if sigmoid.slope <= 0.0:
        return sigmoid
    counts = np.ones(len(signs)) if weights is None else weights
    return Sigmoid(0.0, float(np.log((counts[signs < 0].sum() + 1.0) / (counts[signs > 0].sum() + 1.0))))


# Messages about a fit.

_TO_THE_USER = 4  # frames from here to the call of fit


def one_or_all(values: list[Any]) -> Any:
    """Return the value of a single fit, or an array with one value for each class."""
    return values[0] if len(values) == 1 else np.array(values)


def warn_of(name: str, fits: list[ClassFit], tolerance: float, max_iterations: int) -> None:
    """Warn of what was changed to have a solution at all, and of a gap above the tolerance."""
    for note in sorted({fit.fitted.note for fit in fits} - {""}):
        warnings.warn(f"{name}: {note}.", UserWarning, stacklevel=_TO_THE_USER)
    worst = max((fit.fitted for fit in fits if not fit.fitted.converged), default=None, key=_gap)
    if worst is not None:
        advice = "Scale the inputs" if worst.iterations < max_iterations else "Raise max_iter, scale the inputs"
        warnings.warn(
            f"{name}: {worst.outcome.reason}. The certified relative duality gap is {_gap(worst):.2g}, above "
            f"tol = {tolerance:g}. {advice}, or raise tol.",
            ConvergenceWarning,
            stacklevel=_TO_THE_USER,
        )


def _gap(fitted: Fitted) -> float:
    return fitted.certificate.relative_gap


# The base class: fitting with a certificate, and scores.


@dataclass(kw_only=True, eq=False, repr=False)
class AcceleratedClassifier(ScoringClassifier, SpaceEstimator):
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
    method : "newton" for Newton's method, on explicit columns; "working-sets" for exact kernels of c-svm, l2-svm and
        nu-svm, which "auto" takes for them; "fapg" for accelerated gradients, or "proven" for those with a bound on
        their iterations; "auto" for newton with up to 1,000 columns, for logistic and for c-svm of sparse inputs with
        any number, and for l1 models with up to 5,000 columns or rows, unless C is so small that fapg is faster, else
        fapg
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

    fit_intercept: bool = True
    probability: bool = False
    tol: float = 1e-4
    max_iter: int = 20_000
    method: MethodName = "auto"

    ONLY_OF_SOME: ClassVar[tuple[str, ...]] = ("C", "nu", "kappa", "norm", "radius")

    @property
    def _bias(self) -> Any:
        bias = getattr(self, "bias", "own")
        return "errors" if str(bias) == "error-minimising" else bias  # its name in older versions

    @property
    def _method(self) -> Any:
        return "fapg" if str(self.method) == "practical" else self.method  # its name in older versions

    @property
    def _scores_are_log_odds(self) -> bool:
        return self.solver_name == "logistic" and self._bias == "own"

    @one_blas_thread()  # bits depend on the number of threads
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit rows X (rows, n_features) with labels y (rows,), each weighing sample_weight (rows,) or 1.

        Warns
        -----
        ConvergenceWarning : the gap did not fall to tol, by max_iter or at the numerical floor; it names the gap

        Raises
        ------
        ConfigError, a ValueError : a parameter is out of its range; that of nu and kappa depends on the rows
        DataError, a ValueError : y holds one class only, or a class has no weight
        DivergedError : the solution is no longer finite
        """
        options = self._options(bias=self._bias, method=self._method)
        fitting = self._fitting(options)
        labelled = self._labelled(X, y, sample_weight)
        rng = check_random_state(self.random_state)
        seed, order = draw_seed(rng), rng.permutation(len(labelled.codes))[:SAMPLE_ROWS]
        # a plain space uses no rows, and sparse rows are no sample
        sample = np.empty((0, labelled.inputs.shape[1])) if self._is_plain else labelled.inputs[order]
        self.space_, self.chosen_ = self._build_space(options, sample, seed, precision_of(labelled.inputs))
        n_threads = threads_of(self.n_jobs)
        fits = fitting.fit(self.space_, labelled.inputs, labelled.codes, labelled.weights, n_threads)
        self._keep_weights(np.stack([fit.weights for fit in fits]), labelled.inputs, labelled.numbers)
        self._keep_certificates(fits, fitting.task)
        warn_of(type(self).__name__, fits, self.tol, self.max_iter)
        if self.probability:
            self.calibration_ = calibrate(fitting, self.space_, labelled, seed, n_threads)
        return self

    @available_if(lambda self: self._has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Doubles:
        """Return probabilities (rows, n_classes); monotone in the scores, of two classes exactly.

        With `probability` they are calibrated. Without, the logistic model with its own bias has them, too: its scores
        are the logarithm of the odds, of several classes one against the rest.
        """
        check_is_fitted(self, "calibration_" if self.probability else None)
        scores = self.decision_function(X)
        n_scores = 1 if scores.ndim == 1 else scores.shape[1]
        calibration = self.calibration_ if self.probability else Calibration((LOG_ODDS,) * n_scores)
        return calibration.probabilities(scores)

    @property
    def _has_probabilities(self) -> bool:
        if self.probability or self._scores_are_log_odds:
            return True
        raise AttributeError("Its scores are not probabilities. Set probability=True.")

    @property
    def _takes_sparse(self) -> bool:
        return self._is_plain and parameter_of(self.solver_name) != "kappa"  # covariances are dense

    def _fitting(self, options: Any) -> TwoClassFit:
        if not self._is_plain and self.feature_map is None and not model_class(self.solver_name).TAKES_KERNEL:
            raise ConfigError(
                f"kernel = {self.kernel!r} is not available for model = {self.solver_name!r}, which takes explicit "
                'columns. Set feature_map, such as "orthogonal", or kernel = "linear".'
            )
        if options.bias == "errors" and not self.fit_intercept and model_class(self.solver_name).HAS_OWN_BIAS:
            raise ConfigError('bias = "errors" is an intercept, but fit_intercept = False. Leave one of them out.')
        task = replace(options.task, fit_intercept=bool(self.fit_intercept))
        return TwoClassFit(task, options.bias, options.chooser)

    def _labelled(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> LabelledRows:
        inputs, labels = self._valid(X, y, reset=True)
        self.classes_ = classes_of(self, labels)
        idle = self._class_weight is not None and parameter_of(self.solver_name) == "kappa"
        if idle and self._bias == "own" and len(self.classes_) == 2:
            raise ConfigError(
                f"class_weight does not change the class means and covariances of model = {self.solver_name!r}. Leave "
                'it out, or set bias = "errors", which weighs the errors.'
            )
        return label_rows(inputs, labels, self.classes_, sample_weight, self._class_weight)

    def _keep_certificates(self, fits: list[ClassFit], task: ModelTask) -> None:
        self.intercept_ = np.array([fit.intercept for fit in fits])
        self.certificates_ = tuple(fit.fitted.certificate for fit in fits)
        self.objective_ = one_or_all([certificate.primal for certificate in self.certificates_])
        self.dual_objective_ = one_or_all([certificate.dual for certificate in self.certificates_])
        self.duality_gap_ = one_or_all([certificate.gap for certificate in self.certificates_])
        # the check of the first point counts: a start may be the solution
        self.n_iter_ = one_or_all([max(1, fit.fitted.iterations) for fit in fits])
        if task.value is None:
            values = one_or_all([fit.parameter for fit in fits])
            self.chosen_ |= {task.parameter: values, f"{task.parameter}_reason": task.reason}


@dataclass(kw_only=True, eq=False, repr=False)
class UnifiedClassifier(AcceleratedClassifier):
    """Any of nine classification models, by name, on explicit columns or an exact kernel.

    Inputs should be of like scale: put a StandardScaler before it.

    Parameters
    ----------
    model : "c-svm", "l2-svm", "logistic", "nu-svm", "dwd", "mm-fda", "mm-mpm", "l1-logistic" or "l1-l2-svm"
    C : float > 0, LIBSVM's: 1/2 ||w||^2 + C sum of losses; None or "auto" for 1, as for the next four
    nu : of nu-svm, in (0, 2 min(m+, m-) / m], or None for half of the largest; of dwd, above 0, or None for
        d^2 / (100 m), d the median distance of rows of one class from those of the other
    kappa : of mm-fda and mm-mpm, from 0 to where the classes' ellipsoids meet; None for half of that
    norm : "1" or "inf" to bound this norm of the weights of l2-svm, logistic or dwd in place of the penalty, on
        explicit columns; None for the penalty
    radius : bound of the norm, above 0; None for 1
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
    norm: str | None = None
    radius: float | None = None
    bias: Bias = "own"
    class_weight: ClassWeight = None
    memory_budget: int = 2**30

    @property
    def solver_name(self) -> str:
        model_class(self.model)  # a wrong name is the first error
        return self.model


@dataclass(kw_only=True, eq=False, repr=False)
class _MarginClassifier(AcceleratedClassifier):
    """A model of margins: it takes exact kernels, has a bias of its own, and classes may weigh differently."""

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

    SOLVER: ClassVar[str] = "c-svm"


@dataclass(kw_only=True, eq=False, repr=False)
class L2SVMClassifier(_PenalisedClassifier):
    """l2-SVM: 1/2 ||w||^2 + C sum of squared hinge losses; parameters as in CSVMClassifier.

    Source: Ito et al., 2017, section 3.2.2, (12).
    """

    SOLVER: ClassVar[str] = "l2-svm"


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticClassifier(_PenalisedClassifier):
    """Logistic regression: 1/2 ||w||^2 + C sum of logistic losses; parameters as in CSVMClassifier.

    Source: Ito et al., 2017, section 3.2.3, (13).
    """

    SOLVER: ClassVar[str] = "logistic"


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

    SOLVER: ClassVar[str] = "nu-svm"


@dataclass(kw_only=True, eq=False, repr=False)
class DWDClassifier(_MarginClassifier):
    """Distance weighted discrimination: the sum of inverse distances from the boundary, over ||w|| <= 1.

    objective_ is sum_i weight_i l(y_i (<w, x_i> - b)) at ||w|| <= 1 with l(z) = 1 / z for z >= sqrt(m nu), and the
    tangent of 1 / z there for smaller z.

    Parameters
    ----------
    nu : float > 0, or "auto" for d^2 / (100 m), d the median distance of rows of one class from those of the other
    bias, class_weight, memory_budget, and all others : as in UnifiedClassifier

    Source: Ito et al., 2017, section 3.2.5, (15); Marron, Todd & Ahn, JASA 102, 2007.
    """

    nu: float | Auto = "auto"

    SOLVER: ClassVar[str] = "dwd"


@dataclass(kw_only=True, eq=False, repr=False)
class _MinimaxClassifier(AcceleratedClassifier):
    """A model of the classes' means and covariances."""

    kappa: float | Auto = "auto"
    bias: Bias = "own"


@dataclass(kw_only=True, eq=False, repr=False)
class MMFDAClassifier(_MinimaxClassifier):
    """Fisher's discriminant with a margin: the classes' means apart by more than kappa of their joint spread.

    objective_ is -<w, d> + kappa sqrt(w'(S+ + S-) w) + 1/2 ||w||^2, which is -1/2 ||w||^2 at the optimum.

    Parameters
    ----------
    kappa : float above 0, below sqrt(d'(S+ + S-)^(-1) d), d the difference of the means, or "auto" for half of that
    bias : "own", half way between the means, or "errors", of fewest training errors
    all others : as in UnifiedClassifier; kernels by a feature map only

    Source: Ito et al., 2017, section 3.2.6, (16).
    """

    SOLVER: ClassVar[str] = "mm-fda"


@dataclass(kw_only=True, eq=False, repr=False)
class MMMPMClassifier(_MinimaxClassifier):
    """The minimax probability machine with a margin: each class kappa of its spreads on its side.

    objective_ is -<w, d> + kappa (sqrt(w'S+ w) + sqrt(w'S- w)) + 1/2 ||w||^2, which is -1/2 ||w||^2 at the optimum; d
    is the difference of the class means, S+ and S- are the covariances of the classes.

    Parameters
    ----------
    kappa : float above 0, below where the ellipsoids of the classes meet, or "auto" for half of that
    bias : "own", or "errors", of fewest training errors
    all others : as in UnifiedClassifier; kernels by a feature map only

    Source: Ito et al., 2017, section 3.2.7, (17).
    """

    SOLVER: ClassVar[str] = "mm-mpm"


@dataclass(kw_only=True, eq=False, repr=False)
class _SparseClassifier(AcceleratedClassifier):
    """Minimise ||w||_1 + C sum of losses: few columns have a weight. The bias is that of fewest training errors."""

    C: float = 1.0
    fit_intercept: bool = True
    class_weight: ClassWeight = None

    @property
    def _bias(self) -> Any:
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

    SOLVER: ClassVar[str] = "l1-logistic"


@dataclass(kw_only=True, eq=False, repr=False)
class L1L2SVMClassifier(_SparseClassifier):
    """l2-SVM with an l1 penalty: ||w||_1 + C sum of squared hinge losses; parameters as in L1LogisticClassifier.

    Source: Ito et al., 2017, appendix D, (28).
    """

    SOLVER: ClassVar[str] = "l1-l2-svm"
