"""Stochastic conjugate subgradient and Pegasos estimators."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from okl.compiled.jit import one_blas_thread
from okl.estimators.accelerated_fit import ColumnSpace, KernelSpace, MapGiven, SpaceChoice
from okl.estimators.base import (
    SAMPLE_ROWS,
    Auto,
    BatchClassifier,
    BatchEstimator,
    OnlineClassifier,
    RandomState,
    draw_seed,
    number_or_auto,
    whole_number,
)
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray, Precision
from okl.foundation.validation import check_choice
from okl.kernels import Kernel
from okl.losses import EpsilonInsensitive, Hinge, Loss, MulticlassHinge, PiecewiseLinear
from okl.solvers.online.maps import FourierChoice
from okl.solvers.subgradient.fitting import GeometricGrowth, PaperGrowth, SubgradientFit
from okl.solvers.subgradient.losses import weigh
from okl.solvers.subgradient.method import Bias, Scs
from okl.solvers.subgradient.pegasos import Average, PegasosFactory
from okl.solvers.subgradient.spaces import ColumnSource, KernelSource

# The base class.

_LEARNT = ("coef_", "support_", "support_vectors_", "dual_coef_")


@dataclass(kw_only=True, eq=False, repr=False)
class SubgradientEstimator(BatchEstimator):
    """A kernel machine with a piecewise linear loss, on a sample that grows until its gap over all rows is proved.

        minimise  lam/2 ||w||^2 + mean_i loss(y_i, <w, phi(x_i)> + b)

    Inputs should be of like scale: put a StandardScaler before it. The same rows, parameters and random_state give the
    same bits, whatever n_jobs is.

    Parameters
    ----------
    lam : float > 0; C of a support vector machine of m rows is 1 / (lam m)
    gap : float > 0; the objective over all rows is to be this far above its least value, at most
    confidence : in (0, 1), of the gap where not all rows were needed; None: all rows are taken, and the gap is exact.
        The growth "paper" bounds no gap over rows it has not taken, and does not use it
    kernel : "gaussian", "laplacian", "matern32", "matern52", "polynomial", "linear", or a kernel of okl.kernels
    bandwidth : float > 0 in units of the inputs, or "auto" for the median distance of a sample of 4096 rows
    degree, offset : of the polynomial kernel
    feature_map : "fourier", "orthogonal", "quasi", "structured", "nystrom" or a map of okl.features; None for the exact
        kernel, whose support grows with the sample
    n_columns : int >= 1, of a map that is named
    bias : "none"; "regularised", b^2 is in the regulariser; "free", it is not (one output only)
    directions : "bundle" of cuts, or the paper's "conjugate" pair, or its "subgradient" without the pair
    growth : "geometric", samples grow fourfold; "paper", by some rows an iteration, for the paper's directions
    first_sample : int >= 2, rows
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
    gap: float = 1e-3
    confidence: float | None = 0.95
    kernel: str | Kernel = "gaussian"
    bandwidth: float | Auto = "auto"
    degree: int = 3
    offset: float = 1.0
    feature_map: MapGiven = "orthogonal"
    n_columns: int = 800
    bias: Bias = "none"
    directions: Literal["bundle", "conjugate", "subgradient"] = "bundle"
    growth: Literal["geometric", "paper"] = "geometric"
    first_sample: int = 1000
    max_iter: int = 1000
    memory_budget: int = 2**30
    n_jobs: int | None = None
    random_state: RandomState = None

    @one_blas_thread()  # bits depend on the number of threads
    def _learn(self, inputs: FloatArray, targets: FloatArray, loss: PiecewiseLinear, n_outputs: int) -> None:
        method, growth = self._method(loss), self._growth()
        rng = check_random_state(self.random_state)
        seed, order = draw_seed(rng), rng.permutation(len(targets))
        precision: Precision = "float32" if inputs.dtype == np.float32 else "float64"
        choice = self._space_choice()
        self.space_, self.chosen_ = choice.build(inputs[order[:SAMPLE_ROWS]], seed, precision)
        shared = (method.bias == "regularised", n_outputs, effective_n_jobs(self.n_jobs))
        source: ColumnSource | KernelSource
        if isinstance(self.space_, KernelSpace):
            source = KernelSource(self.space_.kernel, inputs, order, *shared, choice.memory_budget)
        else:
            source = ColumnSource(inputs, order, self.space_.feature_map, *shared)
        self._keep(growth.fit(source, targets[order], method), inputs, order, n_outputs, method)

    def _scores(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return scores (rows,) or (rows, n_outputs)."""
        check_is_fitted(self)
        inputs = validate_data(self, X, dtype=[np.float64, np.float32], order="C", reset=False)
        exact = isinstance(self.space_, KernelSpace)
        supports, weights = (self.support_vectors_, self.dual_coef_) if exact else (None, self.coef_)
        space: ColumnSpace | KernelSpace = self.space_
        scores: NDArray[np.float64] = space.scores(inputs, supports, weights, effective_n_jobs(self.n_jobs))
        scores += self.intercept_
        return scores if len(self.intercept_) > 1 else np.ascontiguousarray(scores[:, 0])

    def _checked(self, X: ArrayLike, y: ArrayLike, **options: Any) -> tuple[FloatArray, NDArray[Any]]:
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large for a sum is refused, or harmless
            checked: tuple[FloatArray, NDArray[Any]] = validate_data(
                self, X, y, dtype=[np.float64, np.float32], order="C", reset=True, **options
            )
        return checked

    def _method(self, loss: PiecewiseLinear) -> Scs:
        return Scs(
            lam=_number("lam", self.lam),
            loss=loss,
            gap=_number("gap", self.gap),
            directions=self.directions,
            bias=self.bias,
            max_iterations=whole_number("max_iter", self.max_iter),
        )

    def _growth(self) -> GeometricGrowth | PaperGrowth:
        first = whole_number("first_sample", self.first_sample)
        confidence = None if self.confidence is None else _number("confidence", self.confidence)
        geometric = GeometricGrowth(first, confidence=confidence)  # checks the confidence for any growth
        if check_choice("growth", self.growth, ("geometric", "paper")) == "paper":
            if self.directions == "bundle" or self.bias == "free":
                raise ConfigError(
                    'growth = "paper" requires directions = "conjugate" or "subgradient", and no free bias: the cuts '
                    "of a bundle are valid on one sample only."
                )
            return PaperGrowth(first_sample=first)
        return geometric

    def _space_choice(self) -> SpaceChoice:
        bandwidth = number_or_auto("bandwidth", self.bandwidth)
        budget = whole_number("memory_budget", self.memory_budget)
        shape = (self.degree, self.offset, self.feature_map, self.n_columns, budget)
        return SpaceChoice(self.kernel, bandwidth, *shape)

    def _keep(
        self, fitted: SubgradientFit, inputs: FloatArray, order: NDArray[Any], n_outputs: int, method: Scs
    ) -> None:
        for name in _LEARNT:  # of an earlier fit in another space
            self.__dict__.pop(name, None)
        coefficients, intercept = fitted.vector.coefficients, np.full(n_outputs, fitted.bias)
        if isinstance(self.space_, KernelSpace):
            weights = coefficients.reshape(len(coefficients), n_outputs).T
            support = np.flatnonzero((weights != 0.0).any(axis=0))
            self.support_ = order[support]
            self.support_vectors_ = np.ascontiguousarray(inputs[self.support_])
            self.dual_coef_ = np.ascontiguousarray(weights[:, support])
            if method.bias == "regularised":
                intercept = self.dual_coef_.sum(axis=1)
        else:
            weights = coefficients.reshape(n_outputs, -1)
            if method.bias == "regularised":
                weights, intercept = weights[:, :-1], weights[:, -1].copy()
            self.coef_ = np.ascontiguousarray(weights)
        self.intercept_ = intercept
        self.objective_, self.lower_bound_ = fitted.objective, fitted.lower_bound
        self.n_sample_, self.n_iter_ = fitted.n_rows, max(1, fitted.iterations)
        self.certificate_, self.problem_, self.notes_ = fitted.full, method.problem, fitted.notes
        self._reason = fitted.reason

    def _warn(self) -> None:
        if self._reason == "gap":
            return
        advice = "raise max_iter or gap"
        if self._reason in ("rounding", "stalled"):
            advice = "rounding prevents a smaller gap, so raise gap or scale the inputs"
        warnings.warn(
            f"{type(self).__name__}: the gap on a sample of {self.n_sample_:,} rows is "
            f"{self.objective_ - self.lower_bound_:.2g}, above gap = {self.gap:g}: {advice}.",
            ConvergenceWarning,
            stacklevel=3,  # the call of fit
        )


def _number(name: str, value: Any) -> float:
    """Return a float of any numeric type."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ConfigError(f"{name} = {value!r}; expected a number.")
    return float(value)


# Stochastic conjugate subgradients: kernel machines whose cost does not grow with the rows, with a certificate.


@dataclass(kw_only=True, eq=False, repr=False)
class SCSClassifier(BatchClassifier, SubgradientEstimator):
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

    def _learn_classes(
        self, inputs: FloatArray, targets: NDArray[np.float64], n_outputs: int, weights: tuple[float, ...] | None
    ) -> None:
        self._learn(inputs, targets, weigh(Hinge() if n_outputs == 1 else MulticlassHinge(), weights), n_outputs)


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

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn rows X (rows, n_features) with targets y (rows,) from nothing; warns and raises as the classifier."""
        loss = EpsilonInsensitive(float(self.epsilon))
        inputs, given = self._checked(X, y, y_numeric=True)
        targets = given.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            center = float(np.median(targets))
            spread = float(np.abs(targets - center).mean())
        if not np.isfinite([center, spread]).all():
            raise DataError(
                f"Targets up to {np.abs(targets).max():g} have no finite standard deviation. Scale them down."
            )
        self.target_center_, self.target_spread_ = center, spread or 1.0
        self._learn(inputs, (targets - center) / self.target_spread_, loss, 1)
        self._warn()
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return targets (rows,) in their own unit, float64."""
        return self._scores(X) * self.target_spread_ + self.target_center_


# Pegasos in a Fourier map.


@dataclass(kw_only=True, eq=False, repr=False)
class PegasosClassifier(OnlineClassifier):
    """A support vector machine in a Fourier map by steps of 1 / (lam t), for two classes or several; no bias.

    It goes down lam / 2 |w|^2 + mean hinge of the rows. Inputs should be of like scale: put a StandardScaler before it.

    Parameters
    ----------
    lam : float > 0
    batch : rows a step, a power of two up to 256
    project : whether steps end in the ball |w| <= lam^(-1/2)
    average : of the weights: "none", "uniform", or "later", where later ones count more
    n_frequencies, kernel, map, bandwidth : as in FOGDClassifier
    passes, shuffle, precision, n_jobs, random_state : as in OnlineEstimator

    Attributes
    ----------
    classes_, chosen_, learner_, state_, n_features_in_, feature_names_in_ : as in FOGDClassifier

    Source: Shalev-Shwartz, Singer, Srebro & Cotter, Mathematical Programming 127, 2011, Figures 1 and 2.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> bool(PegasosClassifier(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    lam: float = 1e-3
    batch: int = 1
    project: bool = False
    average: Average = "later"
    n_frequencies: int = 400
    kernel: str = "gaussian"
    map: str = "independent"
    bandwidth: float | Auto = "auto"

    def _factory(self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None) -> PegasosFactory:
        maps = FourierChoice(
            self.kernel,
            number_or_auto("bandwidth", self.bandwidth),
            whole_number("n_frequencies", self.n_frequencies),
            self.map,
        )
        batch, project = whole_number("batch", self.batch), bool(self.project)
        return PegasosFactory(maps, loss, float(self.lam), batch, project, self.average)
