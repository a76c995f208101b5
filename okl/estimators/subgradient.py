"""Stochastic conjugate subgradient estimators."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from okl.compiled.jit import one_blas_thread
from okl.data.execution import Rows
from okl.estimators import base
from okl.estimators.base import threads_of
from okl.estimators.spaces import Inputs, KernelSpace, MapGiven, SpaceEstimator
from okl.features.base import precision_of
from okl.foundation.errors import ConfigError
from okl.foundation.types import Doubles, FloatArray
from okl.foundation.validation import check_choice
from okl.kernels import Kernel
from okl.solvers.subgradient.fitting import GeometricGrowth, PaperGrowth
from okl.solvers.subgradient.losses import make_piecewise, weigh, weigh_rows
from okl.solvers.subgradient.sampling import FIRST_SAMPLE
from okl.solvers.subgradient.spaces import ColumnSource, KernelSource


@dataclass(kw_only=True, eq=False, repr=False)
class SubgradientEstimator(SpaceEstimator, base.BatchEstimator):
    """A kernel machine with a piecewise linear loss, on a sample that grows until its gap over all rows is proved.

        minimise  lam/2 ||w||^2 + mean_i loss(y_i, <w, phi(x_i)> + b)

    The mean is weighted by sample_weight. The linear kernel without a map takes CSR. Inputs should be of like scale:
    put a StandardScaler before it. The same rows, parameters and random_state give the same bits, whatever n_jobs is.

    Parameters
    ----------
    lam : float > 0; C of a support vector machine of m rows is 1 / (lam m)
    gap : float > 0; the objective over all rows is to be this far above its least value, at most
    confidence : in (0, 1), of the gap where not all rows were needed; None: all rows are taken, and the gap is exact.
        The growth "paper" bounds no gap over rows it has not taken, and does not use it
    kernel : "gaussian", "laplacian", "matern32", "matern52", "polynomial", "linear", or a kernel of okl.kernels
    bandwidth : float > 0 in units of the inputs, or "auto" for the median distance of a sample of 4096 rows
    degree, offset : of the polynomial kernel
    feature_map : "independent", "orthogonal", "quasi", "structured", "nystrom" or a map of okl.features; None for the
        exact kernel, whose support grows with the sample
    n_columns : int >= 1, of a map that is named
    bias : "own", which is none; "regularised", b^2 is in the regulariser; "free", it is not (one output only)
    directions : "bundle" of cuts, or the paper's "conjugate" pair, or its "subgradient" without the pair
    growth : "geometric", samples grow fourfold; "paper", by some rows an iteration, for the paper's directions
    first_sample : int >= 2, rows, or "auto" for 1000, or all rows if there are fewer
    max_iter : int >= 1, on one sample
    memory_budget : bytes of kernel values, where there is no map
    n_jobs : threads, None for 1, -1 for all cores
    random_state : int, RandomState or None, of maps and of the order of drawing

    Attributes
    ----------
    coef_ : (1 or n_classes, columns), unless the kernel is exact
    dual_coef_, support_, support_vectors_ : (1 or n_classes, n_supports), numbers and rows, for an exact kernel
    intercept_ : (1 or n_classes,)
    objective_, lower_bound_ : on the last sample; n_sample_ : its rows; n_iter_ : iterations on all samples
    certificate_ : the gap over all rows, with its confidence, None if exact; None if nothing is known
    problem_ : the solved problem, as text; notes_ : deviations from the parameters
    chosen_ : what "auto" parameters became, each with its reason; space_ : where weights live
    n_features_in_, feature_names_in_ : of the inputs

    Source: Zhang & Sen, Algorithms 1 and 2, repaired; see okl.solvers.subgradient.
    """

    lam: float = 1e-3
    gap: float = 0.01
    confidence: float | None = 0.95
    kernel: str | Kernel = "gaussian"
    feature_map: MapGiven = "independent"
    bias: Literal["own", "none", "regularised", "free"] = "own"
    directions: Literal["bundle", "conjugate", "subgradient"] = "bundle"
    growth: Literal["geometric", "paper"] = "geometric"
    first_sample: int | base.Auto = "auto"
    max_iter: int = 20_000
    memory_budget: int = 2**30

    SOLVER: ClassVar[str] = "scs"

    @property
    def _takes_sparse(self) -> bool:
        return self._is_plain

    @one_blas_thread()  # bits depend on the number of threads
    def _learn(
        self,
        inputs: Inputs,
        targets: FloatArray,
        loss: str,
        n_outputs: int,
        weights: tuple[float, ...] | None = None,
        sample_weight: Doubles | None = None,
    ) -> None:
        # None takes all rows: their gap is exact at any confidence. The bias is "none" in older versions
        changes: dict[str, Any] = {} if self.confidence is not None else {"confidence": 0.95}
        changes |= {"bias": "own"} if self.bias == "none" else {}
        options = self._options(loss=loss, **changes)
        piecewise = weigh(make_piecewise(loss, options.epsilon), weights)
        if sample_weight is not None:
            piecewise, targets = weigh_rows(piecewise, targets, sample_weight)
        method = options.method(piecewise)
        growth = self._growth(options)
        rng = check_random_state(self.random_state)
        seed, order = base.draw_seed(rng), rng.permutation(len(targets))
        self.space_, self.chosen_ = self._build_space(
            options, inputs[order[: base.SAMPLE_ROWS]], seed, precision_of(inputs)
        )
        regularised = method.bias == "regularised"
        shared = (regularised, n_outputs, threads_of(self.n_jobs))
        source: ColumnSource | KernelSource
        if isinstance(self.space_, KernelSpace):
            source = KernelSource(self.space_.kernel, inputs, order, *shared, self.space_.budget_bytes)
        else:
            source = ColumnSource(inputs, order, self.space_.feature_map, *shared)
        fitted = growth.fit(source, targets[order], method)
        coefficients, self.intercept_ = fitted.vector.coefficients, np.full(n_outputs, fitted.bias)
        if isinstance(self.space_, KernelSpace):
            self._keep_weights(
                coefficients.reshape(len(coefficients), n_outputs).T, inputs[order[: len(coefficients)]], order
            )
            if regularised:
                self.intercept_ = self.dual_coef_.sum(axis=1)
        else:
            columns = coefficients.reshape(n_outputs, -1)
            if regularised:
                columns, self.intercept_ = columns[:, :-1], columns[:, -1].copy()
            self._keep_weights(columns, inputs, order, order)
        self.objective_, self.lower_bound_ = fitted.objective, fitted.lower_bound
        self.n_sample_, self.n_iter_ = fitted.n_rows, max(1, fitted.iterations)
        self.certificate_, self.problem_, self.notes_ = fitted.full, method.problem, fitted.notes
        self._reason = fitted.reason

    def _growth(self, options: Any) -> GeometricGrowth | PaperGrowth:
        first = FIRST_SAMPLE if options.first_sample == "auto" else options.first_sample
        if check_choice("growth", self.growth, ("geometric", "paper")) == "paper":
            if self.directions == "bundle" or self.bias == "free":
                raise ConfigError(
                    'growth = "paper" requires directions = "conjugate" or "subgradient", and no free bias: the cuts '
                    "of a bundle are valid on one sample only."
                )
            return PaperGrowth(first)
        return GeometricGrowth(first, confidence=None if self.confidence is None else options.confidence)

    def _warn(self) -> None:
        if self._reason == "gap":
            return
        advice = {
            "rounding": "rounding prevents a smaller gap, so raise gap or scale the inputs",
            "stalled": "the last iterations no longer reduce it, so raise gap or scale the inputs",
        }.get(self._reason, "raise max_iter or gap")
        warnings.warn(
            f"{type(self).__name__}: the gap on a sample of {self.n_sample_:,} rows is "
            f"{self.objective_ - self.lower_bound_:.2g}, above gap = {self.gap:g}: {advice}.",
            ConvergenceWarning,
            stacklevel=3,  # the call of fit
        )


# Stochastic conjugate subgradients: kernel machines whose cost does not grow with the rows, with a certificate.


@dataclass(kw_only=True, eq=False, repr=False)
class SCSClassifier(base.BatchClassifier, SubgradientEstimator):
    """A support vector machine for two classes or several, by stochastic conjugate subgradients, with a certificate.

    Two classes take the hinge; several take the multi-class hinge with one weight vector a class.

    Parameters
    ----------
    class_weight : as in BatchClassifier; all others : as in SubgradientEstimator

    Attributes
    ----------
    classes_ : as in BatchClassifier; all others : as in SubgradientEstimator

    Source: Zhang & Sen, Algorithms 1 and 2, repaired; several classes: Crammer & Singer, JMLR 2, 2001.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> bool(SCSClassifier(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit rows X (rows, n_features) with labels y (rows,), each weighing sample_weight (rows,) or 1.

        Warns and raises as LocalRidgeClassifier; DataError, too, where every row of a class has sample_weight 0.
        """
        self._fit(X, y, sample_weight)
        self._warn()
        return self

    def _learn_classes(
        self, rows: Rows, n_outputs: int, weights: tuple[float, ...] | None, sample_weight: Doubles | None
    ) -> None:
        loss = "hinge" if n_outputs == 1 else "multiclass-hinge"
        self._learn(rows.inputs, rows.targets, loss, n_outputs, weights, sample_weight)


@dataclass(kw_only=True, eq=False, repr=False)
class SCSRegressor(RegressorMixin, SubgradientEstimator):  # type: ignore[misc]
    """Support vector regression by stochastic conjugate subgradients, with a certificate.

    Targets are fitted less their median, in units of their mean absolute deviation from it: lam, gap and epsilon do not
    depend on the target's unit.

    Parameters
    ----------
    epsilon : float >= 0, half the width of the tube, in those units; 0 is the absolute loss, a median
    all others : as in SubgradientEstimator

    Attributes
    ----------
    target_center_, target_spread_ : in the target's unit; objectives and gaps are in units of the spread
    all others : as in SubgradientEstimator

    Source: Zhang & Sen, Algorithms 1 and 2, repaired; the loss: Drucker et al., NIPS 1996.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-3, 3, (400, 1))
    >>> y = 1000 + 50 * np.sin(X[:, 0])
    >>> bool(SCSRegressor(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    epsilon: float = 0.1

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit rows X (rows, n_features) with targets y (rows,), each weighing sample_weight (rows,) or 1.

        Warns and raises as the classifier.
        """
        inputs, given = self._valid(X, y, reset=True, y_numeric=True)
        targets, weights = given.astype(np.float64), base.row_weights(sample_weight, inputs)
        with base.large_values_refused():
            center = float(np.median(targets) if weights is None else weighted_median(targets, weights))
            spread = float(np.average(np.abs(targets - center), weights=weights))
        self.target_center_, self.target_spread_ = base.finite_scale(targets, center, spread)
        scaled = (targets - center) / self.target_spread_
        self._learn(inputs, scaled, "epsilon-insensitive", 1, sample_weight=weights)
        self._warn()
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return targets (rows,) in their own unit, float64."""
        return self._scores(X) * self.target_spread_ + self.target_center_


def weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """Return the median of values (n,), each counted as often as it weighs."""
    order = np.argsort(values)
    order = order[weights[order] > 0.0]
    reached, half = np.cumsum(weights[order]), 0.5 * weights.sum()
    # half the weight is reached but for rounding
    first, second = (int(np.searchsorted(reached, half * (1.0 + sign * 1e-12))) for sign in (-1.0, 1.0))
    return 0.5 * float(values[order[first]] + values[order[min(second, len(order) - 1)]])
