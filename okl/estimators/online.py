"""Online estimators: FOGD, NOGD, budget learners, experts, Pegasos and constrained learners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from okl.data.dataset import Schema
from okl.estimators.base import Auto, ClassWeight, Labels, OnlineClassifier, OnlineEstimator, OnlineRegressor
from okl.features.base import FeatureMap
from okl.features.fourier import DRAWS
from okl.foundation import plugins
from okl.foundation.catalogue import KERNELS, STRATEGIES
from okl.foundation.errors import ConfigError, DataError, first_of
from okl.foundation.types import FloatArray, Integers, Task
from okl.foundation.validation import check_choice
from okl.kernels import Kernel, shift_invariant_kernels
from okl.solvers.online.base import LearnerFactory
from okl.solvers.online.constrained import ConstrainedFactory, ConstrainedLearner
from okl.solvers.online.constraints import (
    Columns,
    RowSums,
    Weighings,
    columns_of,
    parse_constraints,
    rows_from,
    sums_of,
    values_of,
)

# Fourier online gradient descent: a kernel method at the cost of a linear one.


@dataclass(kw_only=True, eq=False, repr=False)
class _Fogd(OnlineEstimator):
    n_frequencies: int = 400
    kernel: str = "gaussian"
    map: str = "independent"
    bandwidth: float | Auto = "auto"
    step_size: float | Auto = "auto"
    average: bool = True
    track: bool = False

    SOLVER: ClassVar[str] = "fogd"

    def _options(self, n_rows: int | None, **changes: Any) -> Any:
        if str(self.kernel) not in KERNELS:  # the settings would list kernels without frequencies, too
            check_choice("kernel", self.kernel, shift_invariant_kernels())
        taken = (*DRAWS, "auto", "nystrom")
        if self.map not in taken and plugins.find("map", str(self.map)) is None:
            check_choice("map", self.map, taken)
        return super()._options(n_rows, **changes)

    def _factory(self, options: Any, schema: Schema) -> LearnerFactory:
        factory: LearnerFactory = options.factory(schema, experts=False)
        return factory


@dataclass(kw_only=True, eq=False, repr=False)
class FOGDClassifier(_Fogd, OnlineClassifier):
    """Fourier online gradient descent for two classes or several.

    Inputs should be of like scale: put a StandardScaler before it.

    Parameters
    ----------
    n_frequencies : int >= 1; the map has twice as many columns
    kernel : "gaussian", "laplacian", "matern32" or "matern52"
    map : how frequencies are drawn: "independent", "orthogonal", "quasi", "structured" or "auto"
    bandwidth : float > 0 in units of the inputs, or "auto" for the median distance of a sample of 4096 rows
    loss : "hinge" or "logistic" for two classes, which with "logistic" have probabilities, unless track is on; several
        classes always take the multi-class hinge
    step_size : float > 0 on the map, whose rows have norm 1, or "auto" for the best of a race on the sample
    class_weight : factor of the steps of each class, by label; "balanced" for rows / (classes * rows of the class)
    average : predict with the average of the weights on the way, not the last ones; it lags behind rows that change
    track : follow rows that change with time: step sizes side by side, mixed by Fixed Share; step_size and average stay
        as they are. Rows should come in their order: partial_fit, or shuffle=False
    passes, shuffle : int >= 1, passes of fit over the rows; whether they are shuffled before each
    precision, n_jobs : "float32" or "float64"; threads, None for 1, -1 for all cores
    random_state : int, RandomState or None, of maps, samples and orders

    Attributes
    ----------
    classes_ : labels in order, the second of two has positive scores
    chosen_ : bandwidth and step size as used, each with its reason; learner_ : the settings, the map among them
    state_ : what was learned; state_.progress counts the mistakes made before each row was learned, by the last weights
    n_features_in_, feature_names_in_ : of the inputs

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 1 and 3.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> bool(FOGDClassifier(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    loss: str = "hinge"
    class_weight: ClassWeight = None

    LOG_ODDS: ClassVar[bool] = True


@dataclass(kw_only=True, eq=False, repr=False)
class FOGDRegressor(_Fogd, OnlineRegressor):
    """Fourier online gradient descent on the squared residual.

    Inputs should be of like scale: put a StandardScaler before it. Targets may be of any scale.

    Parameters
    ----------
    step_size : float > 0, or "auto" for the best of a race on a sample; up to 1 never overshoots, far above 2 diverges
    n_frequencies, kernel, map, bandwidth, average, track : as in FOGDClassifier
    epsilon : float >= 0; residuals up to this are not learned, in standard deviations of the target
    scale_target : whether the target is standardised; if not, epsilon is in its own unit
    passes, shuffle : int >= 1, passes of fit over the rows; whether they are shuffled before each
    precision, n_jobs : "float32" or "float64"; threads, None for 1, -1 for all cores
    random_state : int, RandomState or None, of maps, samples and orders

    Source: Lu et al., JMLR 17(47), 2016, Algorithm 5, with the test |y - f| > epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-3, 3, (400, 1))
    >>> y = 1000 + 50 * np.sin(X[:, 0])
    >>> bool(FOGDRegressor(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """


# Nystrom online gradient descent: landmarks are the first support vectors, or chosen from a sample.

Landmarks = Literal["supports", "uniform", "kmeans", "rpcholesky"]


@dataclass(kw_only=True, eq=False, repr=False)
class _Nogd(OnlineEstimator):
    budget: int = 100
    rank: int | Auto = "auto"
    landmarks: Landmarks = "supports"
    kernel: str | Kernel = "gaussian"
    bandwidth: float | Auto = "auto"
    degree: int = 3
    offset: float = 1.0
    step_size: float | Auto = "auto"
    average: bool = True
    track: bool = False

    SOLVER: ClassVar[str] = "nogd"

    def _options(self, n_rows: int | None, **changes: Any) -> Any:
        if isinstance(self.kernel, str):
            options = super()._options(n_rows, **changes)
        else:  # not one of the names that settings know
            options = super()._options(n_rows, kernel="gaussian", **changes).model_copy(update={"kernel": self.kernel})
        # fewer rows than landmarks: as many as there are
        n_landmarks = min(options.budget, options.budget if n_rows is None else n_rows)
        rank = options.map_rank
        rank = min(rank, n_landmarks) if rank <= options.budget else rank
        return options.model_copy(update={"budget": n_landmarks, "rank": rank})


@dataclass(kw_only=True, eq=False, repr=False)
class NOGDClassifier(_Nogd, OnlineClassifier):
    """Nystrom online gradient descent for two classes or several.

    Inputs should be of like scale: put a StandardScaler before it.

    Parameters
    ----------
    budget : int >= 1, landmarks
    rank : int from 1 to budget, columns of the map, or "auto" for .3 of the budget
    landmarks : "supports", the first support vectors, as in the paper; or "uniform", "kmeans", "rpcholesky", from a
        sample of 4096 rows beforehand; with track and constraints, "supports" is "uniform"
    kernel : "gaussian", "laplacian", "matern32", "matern52", "polynomial", "linear", or a kernel object such as
        okl.kernels.CustomKernel
    bandwidth : float > 0 in units of the inputs, or "auto" for the median distance of the sample; "auto" beside a
        kernel object, which has its own
    degree, offset : of the polynomial kernel
    loss, step_size, class_weight, average, track : as in FOGDClassifier
    passes, shuffle : int >= 1, passes of fit over the rows; whether they are shuffled before each
    precision, n_jobs : "float32" or "float64"; threads, None for 1, -1 for all cores
    random_state : int, RandomState or None, of maps, samples and orders

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 2 and 4.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> bool(NOGDClassifier(budget=50, random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    loss: str = "hinge"
    class_weight: ClassWeight = None

    LOG_ODDS: ClassVar[bool] = True


@dataclass(kw_only=True, eq=False, repr=False)
class NOGDRegressor(_Nogd, OnlineRegressor):
    """Nystrom online gradient descent on the squared residual.

    Inputs should be of like scale: put a StandardScaler before it. Targets may be of any scale.

    Parameters
    ----------
    budget, rank, landmarks, kernel, bandwidth, degree, offset, step_size, average, track : as in NOGDClassifier
    epsilon : float >= 0; residuals up to this are not learned, in standard deviations of the target
    scale_target : whether the target is standardised; if not, epsilon is in its own unit
    passes, shuffle : int >= 1, passes of fit over the rows; whether they are shuffled before each
    precision, n_jobs : "float32" or "float64"; threads, None for 1, -1 for all cores
    random_state : int, RandomState or None, of maps, samples and orders

    Source: Lu et al., JMLR 17(47), 2016, Algorithm 6, with the test |y - f| > epsilon.
    """


# Kernel learners with at most a budget of support vectors, one for each strategy.


@dataclass(kw_only=True, eq=False, repr=False)
class _Budget(OnlineEstimator):
    strategy: str = "bsgd-merging"
    budget: int = 100
    kernel: str = "gaussian"
    bandwidth: float | Auto = "auto"
    degree: int = 3
    offset: float = 1.0
    step_size: float | Auto = "auto"
    regularisation: float | Auto = "auto"

    ONLY_OF_SOME: ClassVar[tuple[str, ...]] = ("step_size", "regularisation", "aggressiveness")

    @property
    def solver_name(self) -> str:
        return check_choice("strategy", self.strategy, STRATEGIES)

    def _options(self, n_rows: int | None, **changes: Any) -> Any:
        options = super()._options(n_rows, **changes)
        if n_rows is None or not hasattr(options, "budget"):
            return options
        return options.model_copy(update={"budget": min(options.budget, max(n_rows, 1))})


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetKernelClassifier(_Budget, OnlineClassifier):
    """Online learning with support vectors for two classes or several.

    Inputs should be of like scale: put a StandardScaler before it. Weights are the last ones, not averages: after one
    pass, and between calls of partial_fit, accuracy may be far below the share of the largest class (.31 to .81 on
    1,500 rows where that is .79, .82 after 20 passes). FOGDClassifier and NOGDClassifier average.

    Parameters
    ----------
    strategy : "bsgd-merging", "bsgd-removal", "projectron", "projectron++", "forgetron", "rbp", "bpa-s", "bpa-nn",
        "bpa-p", "bogd", "bogd++", "norma", "budget-perceptron", "tvm" (two classes); "perceptron" and "ogd" keep
        every support vector
    budget : int >= 1, support vectors at most
    kernel, degree, offset : as in NOGDClassifier, but named kernels only
    bandwidth : float > 0 in units of the inputs, or "auto" for the median distance of a sample of 4096 rows
    step_size, regularisation, aggressiveness : float > 0 where the strategy has it, or "auto": a race on the sample
        for the step size, the strategy's own value for the others
    passes, shuffle : int >= 1, passes of fit over the rows; whether they are shuffled before each
    precision, n_jobs : "float32" or "float64"; threads, None for 1, -1 for all cores
    random_state : int, RandomState or None, of maps, samples and orders

    Source: each strategy in okl.solvers.online.strategies names its paper; Lu et al., JMLR 17(47), 2016, section 5.3.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> learner = BudgetKernelClassifier(strategy="bsgd-merging", budget=30, random_state=0)
    >>> bool(learner.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    aggressiveness: float | Auto = "auto"


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetKernelRegressor(_Budget, OnlineRegressor):
    """Online regression with support vectors.

    Inputs should be of like scale: put a StandardScaler before it. Targets may be of any scale.

    Parameters
    ----------
    strategy : "projectron", "rbp", "forgetron", "bogd", "bogd++", "norma"; "perceptron" and "ogd" keep every support
    budget, kernel, degree, offset, bandwidth, step_size, regularisation : as in BudgetKernelClassifier
    epsilon : float >= 0; residuals up to this are not learned, in standard deviations of the target
    scale_target : whether the target is standardised; if not, epsilon is in its own unit
    passes, shuffle : int >= 1, passes of fit over the rows; whether they are shuffled before each
    precision, n_jobs : "float32" or "float64"; threads, None for 1, -1 for all cores
    random_state : int, RandomState or None, of maps, samples and orders

    Source: each strategy in okl.solvers.online.strategies names its paper; Lu et al., JMLR 17(47), 2016, section 7.4.
    """

    strategy: str = "projectron"


# Experts: no parameter to tune.


@dataclass(kw_only=True, eq=False, repr=False)
class ExpertKernelClassifier(OnlineClassifier):
    """Fourier features of several bandwidths, and a linear model, compared during training: nothing to tune.

    Inputs may be of unlike scale: standardised ones take part in the race.

    Parameters
    ----------
    n_frequencies : int >= 1; each Fourier map has twice as many columns
    kernel : "gaussian", "laplacian", "matern32" or "matern52"
    loss : "hinge" or "logistic" for two classes; several classes always take the multi-class hinge
    class_weight : factor of the steps of each class, by label; "balanced" for rows / (classes * rows of the class)
    passes, shuffle : int >= 1, passes of fit over the rows; whether they are shuffled before each
    precision, n_jobs : "float32" or "float64"; threads, None for 1, -1 for all cores
    random_state : int, RandomState or None, of maps, samples and orders

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 1 and 3; de Rooij et al., JMLR 15, 2014 (AdaHedge).

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> bool(ExpertKernelClassifier(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    n_frequencies: int = 400
    kernel: str = "gaussian"
    loss: str = "hinge"
    class_weight: ClassWeight = None

    SOLVER: ClassVar[str] = "fogd"


@dataclass(kw_only=True, eq=False, repr=False)
class ExpertKernelRegressor(OnlineRegressor):
    """Fourier features of several bandwidths, and a linear model, compared during training: nothing to tune.

    Inputs may be of unlike scale: standardised ones take part in the race. Targets may be of any scale.

    Parameters
    ----------
    n_frequencies, kernel : as in ExpertKernelClassifier
    epsilon : float >= 0; residuals up to this are not learned, in standard deviations of the target
    scale_target : whether the target is standardised; if not, epsilon is in its own unit
    passes, shuffle : int >= 1, passes of fit over the rows; whether they are shuffled before each
    precision, n_jobs : "float32" or "float64"; threads, None for 1, -1 for all cores
    random_state : int, RandomState or None, of maps, samples and orders

    Source: Lu et al., JMLR 17(47), 2016, Algorithm 5; de Rooij et al., JMLR 15, 2014 (AdaHedge).
    """

    n_frequencies: int = 400
    kernel: str = "gaussian"

    SOLVER: ClassVar[str] = "fogd"


@dataclass(kw_only=True, eq=False, repr=False)
class PegasosClassifier(OnlineClassifier):
    """A support vector machine in a Fourier map by steps of 1 / (lam t), for two classes or several; no bias.

    It goes down lam / 2 |w|^2 + mean hinge of the rows. Inputs should be of like scale: put a StandardScaler before it.

    Parameters
    ----------
    lam : float > 0
    batch : rows a step, a power of two up to 256
    project : whether steps end in the ball |w| <= lam^(-1/2)
    average : predict with the average of the weights, where later ones count more, not with the last ones
    n_frequencies, kernel, map, bandwidth : as in FOGDClassifier
    passes, shuffle : int >= 1, passes of fit over the rows; whether they are shuffled before each
    precision, n_jobs : "float32" or "float64"; threads, None for 1, -1 for all cores
    random_state : int, RandomState or None, of maps, samples and orders

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
    average: bool = True
    n_frequencies: int = 400
    kernel: str = "gaussian"
    map: str = "independent"
    bandwidth: float | Auto = "auto"

    SOLVER: ClassVar[str] = "pegasos"


@dataclass(kw_only=True, eq=False, repr=False)
class _Constrained(OnlineEstimator):
    constraints: Any = ()
    radius: float = 10.0
    constraint_margin: float = 0.0
    constraint_method: str = "algorithm1"

    @property
    def claims_theorem_(self) -> bool:
        """Return whether a theorem holds: constraints did not change and each row was seen once."""
        return self._learner.covered and self.passes == 1

    @property
    def _learner(self) -> ConstrainedLearner:
        learner = self.learner_
        assert isinstance(learner, ConstrainedLearner)
        return learner

    def _begin(
        self, inputs: FloatArray, targets: Labels, task: Task, n_classes: int, n_rows: int | None, **changes: Any
    ) -> None:
        self._inputs = inputs
        super()._begin(inputs, targets, task, n_classes, n_rows, **changes)
        # the first rows of a stream reach `_learn`
        self._sums = None if n_rows is None else self._summed(self._learner.feature_map, inputs)
        del self._inputs

    def _learn(self, inputs: FloatArray, targets: Labels, order: Integers | None = None) -> None:
        """Learn rows once; those of a stream refresh the rows of the constraints before, unless they are refused."""
        if order is not None:
            super()._learn(inputs, targets, order)
            return
        before, sums = self._learner, self._summed(self._learner.feature_map, inputs)
        if self._sums is not None:
            sums = self._sums.plus(sums)
        rows = rows_from(Weighings(self._parsed()), sums)
        self.learner_ = before.refreshed(replace(before.kept, rows=self._unit[1] * rows))
        try:
            super()._learn(inputs, targets)
        except BaseException:  # an interrupt, too
            self.learner_ = before
            raise
        self._sums = sums

    def _summed(self, feature_map: FeatureMap, inputs: FloatArray) -> RowSums:
        return sums_of(Weighings(self._parsed()), feature_map.transform(inputs), self._beside, "sensitive")

    def _parsed(self) -> Any:
        if isinstance(self.constraints, str):
            raise ConfigError(f"constraints = {self.constraints!r}; expected a list of such expressions.")
        constraints, _ = parse_constraints(tuple(self.constraints))
        if not constraints:
            raise ConfigError("constraints is empty. Give expressions such as 'abs(covariance(sex)) <= 0.01'.")
        return constraints

    def _columns(self, sensitive: Mapping[str, ArrayLike] | None) -> Columns:
        columns: dict[str, Labels] = {}
        for name in columns_of(self._parsed()):
            if sensitive is not None and not hasattr(sensitive, "keys"):
                kind = type(sensitive).__name__
                raise DataError(f"sensitive is of type {kind}; expected columns by name, such as {{{name!r}: values}}.")
            if sensitive is None:
                raise DataError(
                    f"A constraint uses the column {name!r}, which is not taken from X. Pass it in sensitive, such as "
                    f"fit(X, y, sensitive=table[[{name!r}]])."
                )
            if name not in sensitive:
                available = first_of([*map(str, sensitive)], 5) or "nothing"
                raise DataError(f"sensitive has no column {name!r}, which a constraint uses. It holds {available}.")
            columns[name] = values_of(pa.chunked_array([pa.array(np.asarray(sensitive[name]))]), name)
        return columns

    def _factory(self, options: Any, schema: Schema) -> ConstrainedFactory:
        if any(len(column) != len(self._inputs) for column in self._beside.values()):
            raise DataError(
                f"The columns of sensitive must have {len(self._inputs)} rows, as X has, but some have another length."
            )
        factory: ConstrainedFactory = options.factory(schema)
        return replace(factory, summed=partial(self._summed, inputs=self._inputs), unit=self._unit)

    def fit(self, X: ArrayLike, y: ArrayLike, sensitive: Mapping[str, ArrayLike] | None = None) -> Self:
        """Fit rows X (rows, n_features) with labels or targets y (rows,); sensitive : columns (rows,) by name.

        Raises
        ------
        ConfigError, DataError : as without constraints, a column or a group that is not there, limits in conflict
        """
        self._beside = self._columns(sensitive)
        super().fit(X, y)  # of the classifier or the regressor
        return self

    @property
    def _unit(self) -> tuple[float, float]:
        """Return shift and spread of scores in the unit of the target; (0, 1) of classes."""
        return getattr(self, "target_mean_", 0.0), getattr(self, "target_spread_", 1.0)


@dataclass(kw_only=True, eq=False, repr=False)
class _ConstrainedClassifier(_Constrained, OnlineClassifier):
    loss: str = "hinge"
    class_weight: ClassWeight = None

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sensitive: Mapping[str, ArrayLike] | None = None,
    ) -> Self:
        """Fit the model to further rows, once, after they have refreshed the rows of the constraints."""
        self._beside = self._columns(sensitive)
        super().partial_fit(X, y, classes)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class _ConstrainedRegressor(_Constrained, OnlineRegressor):
    def partial_fit(self, X: ArrayLike, y: ArrayLike, sensitive: Mapping[str, ArrayLike] | None = None) -> Self:
        """Fit the model to further rows, once, after they have refreshed the rows of the constraints."""
        self._beside = self._columns(sensitive)
        super().partial_fit(X, y)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class ConstrainedFOGDClassifier(_ConstrainedClassifier, _Fogd):
    """Online classifier in a Fourier map, with constraints on means of its scores; its weights stay in a ball.

    Limits hold for the score of each class, to the last, for the model and the rows of `fit`. With `partial_fit` their
    rows are refreshed before every batch, from all batches so far, and no theorem is claimed.

    Parameters
    ----------
    constraints : texts such as "abs(covariance(sex)) <= 0.01", "abs(difference(sex=1, sex=0)) <= 0.05" or
        "mean(sex=1) >= -0.2"; see okl.solvers.online.constraints
    radius : of the ball that weights stay in; constraint_margin : so much inside their limits scores are kept
    constraint_method : "algorithm1", or "recoo", which violates constraints less while it learns
    n_frequencies, kernel, map, bandwidth, class_weight, average : as in FOGDClassifier
    track : follow rows that change with time, by experts of several step sizes; step_size and average stay as they are,
        and rows should come in their order
    loss : "hinge" or "logistic"; with neither there are probabilities; several classes take the multi-class hinge
    step_size : float > 0, or "auto" for radius / sqrt(2 t), of several classes radius / (2 sqrt(t)), the one that
        regret is proved for
    passes, shuffle : int >= 1, passes of fit over the rows; whether they are shuffled before each
    precision, n_jobs : "float32" or "float64"; threads, None for 1, -1 for all cores
    random_state : int, RandomState or None, of maps, samples and orders

    Attributes
    ----------
    claims_theorem_ : whether a theorem holds: constraints did not change and each row was seen once
    classes_, chosen_, learner_, state_, n_features_in_, feature_names_in_ : as in FOGDClassifier

    Source: Yi et al., ICML 2021, Algorithm 1; with track, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> sensitive = {"right": (X[:, 0] > 0).astype(float)}
    >>> fair = ConstrainedFOGDClassifier(constraints=["abs(covariance(right)) <= 0.01"], random_state=0)
    >>> scores = fair.fit(X, y, sensitive).decision_function(X)
    >>> bool(abs(np.cov(scores, sensitive["right"], bias=True)[0, 1]) <= 0.01)
    True
    """


@dataclass(kw_only=True, eq=False, repr=False)
class ConstrainedFOGDRegressor(_ConstrainedRegressor, _Fogd):
    """Online regressor in a Fourier map, with constraints on means of its predictions; its weights stay in a ball.

    Limits hold as in ConstrainedFOGDClassifier, for the predictions in the unit of the target.

    Parameters
    ----------
    constraints, constraint_margin : as in ConstrainedFOGDClassifier, in the unit of the target
    constraint_method : as in ConstrainedFOGDClassifier
    radius : of the ball that weights stay in, in standard deviations of the target, unless scale_target is False
    step_size : float > 0, or "auto" for the best of a race on a sample
    n_frequencies, kernel, map, bandwidth, average, track : as in ConstrainedFOGDClassifier
    epsilon : float >= 0; residuals up to this are not learned, in standard deviations of the target
    scale_target : whether the target is standardised; if not, epsilon is in its own unit
    passes, shuffle : int >= 1, passes of fit over the rows; whether they are shuffled before each
    precision, n_jobs : "float32" or "float64"; threads, None for 1, -1 for all cores
    random_state : int, RandomState or None, of maps, samples and orders

    Source: Yi et al., ICML 2021, Algorithm 1; with track, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-3, 3, (400, 1))
    >>> y, right = 1000 + 50 * np.sin(X[:, 0]), (X[:, 0] > 0).astype(float)
    >>> fair = ConstrainedFOGDRegressor(constraints=["abs(difference(right=1, right=0)) <= 5"], random_state=0)
    >>> predicted = fair.fit(X, y, {"right": right}).predict(X)
    >>> bool(abs(predicted[right == 1].mean() - predicted[right == 0].mean()) <= 5)
    True
    """


@dataclass(kw_only=True, eq=False, repr=False)
class ConstrainedNOGDClassifier(_ConstrainedClassifier, _Nogd):
    """Online classifier in a Nystrom map, with constraints on means of its scores; its weights stay in a ball.

    Parameters
    ----------
    constraints, radius, constraint_margin, constraint_method, step_size, track, loss : as in ConstrainedFOGDClassifier
    budget, rank, landmarks, kernel, bandwidth, degree, offset, class_weight, average : as in NOGDClassifier
    passes, shuffle : int >= 1, passes of fit over the rows; whether they are shuffled before each
    precision, n_jobs : "float32" or "float64"; threads, None for 1, -1 for all cores
    random_state : int, RandomState or None, of maps, samples and orders

    Attributes
    ----------
    claims_theorem_, classes_, chosen_, learner_, state_, n_features_in_, feature_names_in_ : as in
        ConstrainedFOGDClassifier

    Source: Yi et al., ICML 2021, Algorithm 1; with track, Algorithm 2; the map as in Lu et al., JMLR 17(47), 2016,
        section 3.3.
    """


@dataclass(kw_only=True, eq=False, repr=False)
class ConstrainedNOGDRegressor(_ConstrainedRegressor, _Nogd):
    """Online regressor in a Nystrom map, with constraints on means of its predictions; its weights stay in a ball.

    Parameters
    ----------
    constraints, radius, constraint_margin, constraint_method, step_size, track, epsilon, scale_target : as in
        ConstrainedFOGDRegressor
    budget, rank, landmarks, kernel, bandwidth, degree, offset, average : as in NOGDRegressor
    passes, shuffle : int >= 1, passes of fit over the rows; whether they are shuffled before each
    precision, n_jobs : "float32" or "float64"; threads, None for 1, -1 for all cores
    random_state : int, RandomState or None, of maps, samples and orders

    Source: as in ConstrainedNOGDClassifier.
    """
