"""Online estimators: FOGD, NOGD, budget learners, experts and constrained learners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from okl.estimators.base import Auto, OnlineClassifier, OnlineRegressor, number_or_auto, whole_number
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray
from okl.foundation.validation import check_choice
from okl.kernels import Kernel
from okl.losses import Loss
from okl.solvers.online.base import LearnerFactory
from okl.solvers.online.constrained import ConstrainedLearner, MemoryFactory
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
from okl.solvers.online.drift import TrackingFactory
from okl.solvers.online.experts import ExpertFactory
from okl.solvers.online.linear import LinearFactory
from okl.solvers.online.maps import FourierChoice, NystromChoice
from okl.solvers.online.nystrom import NOGDFactory
from okl.solvers.online.strategies import STRATEGIES, BudgetFactory

# Fourier online gradient descent: a kernel method at the cost of a linear one.


@dataclass(kw_only=True, eq=False, repr=False)
class FOGDClassifier(OnlineClassifier):
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
    average : predict with the average of the weights on the way, not the last ones
    track : follow rows that change with time: step sizes side by side, mixed by Fixed Share; step_size and average stay
        as they are. Rows should come in their order: partial_fit, or shuffle=False
    passes, shuffle, precision, n_jobs, random_state : as in OnlineEstimator

    Attributes
    ----------
    classes_ : labels in order, the second of two has positive scores
    chosen_ : bandwidth and step size as used, each with its reason; learner_ : the settings, the map among them
    state_ : what was learned; state_.progress counts the mistakes made before each row was learned
    n_features_in_, feature_names_in_ : of the inputs

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 1 and 3.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> bool(FOGDClassifier(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    n_frequencies: int = 400
    kernel: str = "gaussian"
    map: str = "independent"
    bandwidth: float | Auto = "auto"
    loss: Literal["hinge", "logistic"] = "hinge"
    step_size: float | Auto = "auto"
    class_weight: dict[Any, float] | Literal["balanced"] | None = None
    average: bool = True
    track: bool = False

    def _factory(self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None) -> LearnerFactory:
        return _fourier_factory(self, loss, class_weights)

    @property
    def _weighting(self) -> Any:
        return self.class_weight

    def _binary_loss(self) -> str:
        return check_choice("loss", self.loss, ("hinge", "logistic"))

    @property
    def _scores_are_log_odds(self) -> bool:
        return self.loss == "logistic" and not self.track  # what is mixed for rows that change is too sure of itself


@dataclass(kw_only=True, eq=False, repr=False)
class FOGDRegressor(OnlineRegressor):
    """Fourier online gradient descent on the squared residual.

    Inputs should be of like scale: put a StandardScaler before it. Targets may be of any scale.

    Parameters
    ----------
    step_size : float > 0, or "auto" for the best of a race on a sample; up to 1 never overshoots, far above 2 diverges
    n_frequencies, kernel, map, bandwidth, average, track : as in FOGDClassifier
    epsilon, scale_target : as in OnlineRegressor
    passes, shuffle, precision, n_jobs, random_state : as in OnlineEstimator

    Attributes
    ----------
    target_mean_, target_spread_ : of the scaled target, in the target's unit
    chosen_, learner_, state_, n_features_in_, feature_names_in_ : as in FOGDClassifier

    Source: Lu et al., JMLR 17(47), 2016, Algorithm 5, with the test |y - f| > epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-3, 3, (400, 1))
    >>> y = 1000 + 50 * np.sin(X[:, 0])
    >>> bool(FOGDRegressor(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    n_frequencies: int = 400
    kernel: str = "gaussian"
    map: str = "independent"
    bandwidth: float | Auto = "auto"
    step_size: float | Auto = "auto"
    average: bool = True
    track: bool = False

    def _factory(self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None) -> LearnerFactory:
        return _fourier_factory(self, loss, class_weights)


def _fourier_factory(
    estimator: FOGDClassifier | FOGDRegressor, loss: Loss, class_weights: tuple[float, ...] | None
) -> LearnerFactory:
    bandwidth = number_or_auto("bandwidth", estimator.bandwidth)
    maps = FourierChoice(
        estimator.kernel, bandwidth, whole_number("n_frequencies", estimator.n_frequencies), estimator.map
    )
    step_size = number_or_auto("step_size", estimator.step_size)
    if estimator.track:
        if step_size is not None or not estimator.average:
            raise ConfigError(
                f"track = True does not allow step_size = {estimator.step_size!r} and average = "
                f"{estimator.average!r}, because it chooses both itself. Leave them at their defaults."
            )
        return TrackingFactory(maps, loss, class_weights)
    return LinearFactory(maps, loss, step_size, class_weights, bool(estimator.average))


# Nystrom online gradient descent: landmarks are the first support vectors, or chosen from a sample.

Landmarks = Literal["supports", "uniform", "kmeans", "rpcholesky"]
RANK_SHARE = 0.3  # of the budget; Lu et al., section 7.3.3 advise .2 to .4


@dataclass(kw_only=True, eq=False, repr=False)
class NOGDClassifier(OnlineClassifier):
    """Nystrom online gradient descent for two classes or several.

    Inputs should be of like scale: put a StandardScaler before it.

    Parameters
    ----------
    budget : int >= 1, landmarks
    rank : int from 1 to budget, columns of the map, or "auto" for .3 of the budget
    landmarks : "supports", the first support vectors, as in the paper; or "uniform", "kmeans", "rpcholesky", from a
        sample of 4096 rows beforehand
    kernel : "gaussian", "laplacian", "matern32", "matern52", "polynomial", "linear", or a kernel object such as
        okl.kernels.CustomKernel
    bandwidth : float > 0 in units of the inputs, or "auto" for the median distance of the sample; "auto" beside a
        kernel object, which has its own
    degree, offset : of the polynomial kernel
    loss, step_size, class_weight, average : as in FOGDClassifier
    passes, shuffle, precision, n_jobs, random_state : as in OnlineEstimator

    Attributes
    ----------
    classes_, chosen_, learner_, state_, n_features_in_, feature_names_in_ : as in FOGDClassifier

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 2 and 4.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> bool(NOGDClassifier(budget=50, random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    budget: int = 100
    rank: int | Auto = "auto"
    landmarks: Landmarks = "supports"
    kernel: str | Kernel = "gaussian"
    bandwidth: float | Auto = "auto"
    degree: int = 3
    offset: float = 1.0
    loss: Literal["hinge", "logistic"] = "hinge"
    step_size: float | Auto = "auto"
    class_weight: dict[Any, float] | Literal["balanced"] | None = None
    average: bool = True

    def _factory(
        self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None
    ) -> NOGDFactory | LinearFactory:
        return _nystrom_factory(self, loss, class_weights, n_rows)

    @property
    def _weighting(self) -> Any:
        return self.class_weight

    def _binary_loss(self) -> str:
        return check_choice("loss", self.loss, ("hinge", "logistic"))

    @property
    def _scores_are_log_odds(self) -> bool:
        return self.loss == "logistic"


@dataclass(kw_only=True, eq=False, repr=False)
class NOGDRegressor(OnlineRegressor):
    """Nystrom online gradient descent on the squared residual.

    Inputs should be of like scale: put a StandardScaler before it. Targets may be of any scale.

    Parameters
    ----------
    budget, rank, landmarks, kernel, bandwidth, degree, offset, step_size, average : as in NOGDClassifier
    epsilon, scale_target : as in OnlineRegressor
    passes, shuffle, precision, n_jobs, random_state : as in OnlineEstimator

    Attributes
    ----------
    target_mean_, target_spread_ : of the scaled target, in the target's unit
    chosen_, learner_, state_, n_features_in_, feature_names_in_ : as in FOGDClassifier

    Source: Lu et al., JMLR 17(47), 2016, Algorithm 6, with the test |y - f| > epsilon.
    """

    budget: int = 100
    rank: int | Auto = "auto"
    landmarks: Landmarks = "supports"
    kernel: str | Kernel = "gaussian"
    bandwidth: float | Auto = "auto"
    degree: int = 3
    offset: float = 1.0
    step_size: float | Auto = "auto"
    average: bool = True

    def _factory(
        self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None
    ) -> NOGDFactory | LinearFactory:
        return _nystrom_factory(self, loss, class_weights, n_rows)


def _nystrom_factory(
    estimator: NOGDClassifier | NOGDRegressor,
    loss: Loss,
    class_weights: tuple[float, ...] | None,
    n_rows: int | None,
) -> NOGDFactory | LinearFactory:
    budget = whole_number("budget", estimator.budget)
    rank = round(RANK_SHARE * budget) or 1
    if estimator.rank != "auto":
        rank = whole_number("rank", estimator.rank)
    # fewer rows than landmarks: as many as there are
    n_landmarks = budget if n_rows is None else min(budget, n_rows)
    kernel: dict[str, Any] = {
        "kernel": estimator.kernel,
        "bandwidth": number_or_auto("bandwidth", estimator.bandwidth),
        "degree": estimator.degree,
        "offset": estimator.offset,
    }
    step_size = number_or_auto("step_size", estimator.step_size)
    rank = min(rank, n_landmarks) if rank <= budget else rank
    if estimator.landmarks == "supports":
        return NOGDFactory(loss, **kernel, budget=n_landmarks, rank=rank, step_size=step_size,
                          class_weights=class_weights, average=bool(estimator.average))  # fmt: skip
    maps = NystromChoice(**kernel, n_landmarks=n_landmarks, rank=rank, landmarks=estimator.landmarks)
    return LinearFactory(maps, loss, step_size, class_weights, bool(estimator.average), name="nogd")


# Kernel learners with at most a budget of support vectors, one for each strategy.


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetKernelClassifier(OnlineClassifier):
    """Online learning with support vectors for two classes or several.

    Inputs should be of like scale: put a StandardScaler before it.

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
    passes, shuffle, precision, n_jobs, random_state : as in OnlineEstimator

    Attributes
    ----------
    classes_, chosen_, learner_, state_, n_features_in_, feature_names_in_ : as in FOGDClassifier

    Source: each strategy in okl.solvers.online.strategies names its paper; Lu et al., JMLR 17(47), 2016, section 5.3.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> learner = BudgetKernelClassifier(strategy="bsgd-merging", budget=30, random_state=0)
    >>> bool(learner.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    strategy: str = "bsgd-merging"
    budget: int = 100
    kernel: str = "gaussian"
    bandwidth: float | Auto = "auto"
    degree: int = 3
    offset: float = 1.0
    step_size: float | Auto = "auto"
    regularisation: float | Auto = "auto"
    aggressiveness: float | Auto = "auto"

    def _factory(self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None) -> BudgetFactory:
        return _budget_factory(self, loss, n_rows)


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetKernelRegressor(OnlineRegressor):
    """Online regression with support vectors.

    Inputs should be of like scale: put a StandardScaler before it. Targets may be of any scale.

    Parameters
    ----------
    strategy : "projectron", "rbp", "forgetron", "bogd", "bogd++", "norma"; "perceptron" and "ogd" keep every support
    budget, kernel, degree, offset, bandwidth, step_size, regularisation : as in BudgetKernelClassifier
    epsilon, scale_target : as in OnlineRegressor
    passes, shuffle, precision, n_jobs, random_state : as in OnlineEstimator

    Attributes
    ----------
    target_mean_, target_spread_ : of the scaled target, in the target's unit
    chosen_, learner_, state_, n_features_in_, feature_names_in_ : as in FOGDClassifier

    Source: each strategy in okl.solvers.online.strategies names its paper; Lu et al., JMLR 17(47), 2016, section 7.4.
    """

    strategy: str = "projectron"
    budget: int = 100
    kernel: str = "gaussian"
    bandwidth: float | Auto = "auto"
    degree: int = 3
    offset: float = 1.0
    step_size: float | Auto = "auto"
    regularisation: float | Auto = "auto"

    def _factory(self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None) -> BudgetFactory:
        return _budget_factory(self, loss, n_rows)


def _budget_factory(
    estimator: BudgetKernelClassifier | BudgetKernelRegressor, loss: Loss, n_rows: int | None
) -> BudgetFactory:
    strategy: Any = STRATEGIES[check_choice("strategy", estimator.strategy, STRATEGIES)]()
    has = {field.name for field in fields(strategy)}
    numbers = [name for name in ("step_size", "regularisation", "aggressiveness") if hasattr(estimator, name)]
    given = {name: number_or_auto(name, getattr(estimator, name)) for name in numbers}
    if strange := [name for name, value in given.items() if value is not None and name not in has]:
        raise ConfigError(f"{strange[0]} is set, but the strategy {estimator.strategy} does not use it. Remove it.")
    strategy = replace(strategy, **{name: value for name, value in given.items() if value is not None})
    budget = whole_number("budget", estimator.budget)
    return BudgetFactory(
        strategy,
        loss,
        estimator.kernel,
        number_or_auto("bandwidth", estimator.bandwidth),
        budget if n_rows is None else min(budget, max(n_rows, strategy_least(strategy))),
        race="step_size" in has and given["step_size"] is None,
        degree=estimator.degree,
        offset=estimator.offset,
    )


def strategy_least(strategy: Any) -> int:
    """Return the smallest budget that a strategy allows."""
    return int(getattr(strategy, "least_budget", 1))


# Learning without tuning.


@dataclass(kw_only=True, eq=False, repr=False)
class ExpertKernelClassifier(OnlineClassifier):
    """Fourier features of several bandwidths, and a linear model, raced while they learn: nothing to tune.

    Inputs may be of unlike scale: standardised ones take part in the race.

    Parameters
    ----------
    n_frequencies : int >= 1; each Fourier map has twice as many columns
    kernel : "gaussian", "laplacian", "matern32" or "matern52"
    loss : "hinge" or "logistic" for two classes; several classes always take the multi-class hinge
    class_weight : factor of the steps of each class, by label; "balanced" for rows / (classes * rows of the class)
    passes, shuffle, precision, n_jobs, random_state : as in OnlineEstimator

    Attributes
    ----------
    classes_, chosen_, learner_, state_, n_features_in_, feature_names_in_ : as in FOGDClassifier

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
    loss: Literal["hinge", "logistic"] = "hinge"
    class_weight: dict[Any, float] | Literal["balanced"] | None = None

    def _factory(self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None) -> ExpertFactory:
        return ExpertFactory(loss, self.kernel, whole_number("n_frequencies", self.n_frequencies), class_weights)

    @property
    def _weighting(self) -> Any:
        return self.class_weight

    def _binary_loss(self) -> str:
        return check_choice("loss", self.loss, ("hinge", "logistic"))


@dataclass(kw_only=True, eq=False, repr=False)
class ExpertKernelRegressor(OnlineRegressor):
    """Fourier features of several bandwidths, and a linear model, raced while they learn: nothing to tune.

    Inputs may be of unlike scale: standardised ones take part in the race. Targets may be of any scale.

    Parameters
    ----------
    n_frequencies, kernel : as in ExpertKernelClassifier; epsilon, scale_target : as in OnlineRegressor
    passes, shuffle, precision, n_jobs, random_state : as in OnlineEstimator

    Attributes
    ----------
    target_mean_, target_spread_ : of the scaled target, in the target's unit
    chosen_, learner_, state_, n_features_in_, feature_names_in_ : as in FOGDClassifier

    Source: Lu et al., JMLR 17(47), 2016, Algorithm 5; de Rooij et al., JMLR 15, 2014 (AdaHedge).
    """

    n_frequencies: int = 400
    kernel: str = "gaussian"

    def _factory(self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None) -> ExpertFactory:
        return ExpertFactory(loss, self.kernel, whole_number("n_frequencies", self.n_frequencies))


# FOGD under constraints.


@dataclass(kw_only=True, eq=False, repr=False)
class ConstrainedFOGDClassifier(OnlineClassifier):
    """Two classes, learned row after row in a ball within limits of what is linear in the scores.

    Limits hold, to the last, for the model and the rows of `fit`. With `partial_fit` their rows are refreshed before
    every batch, from all batches so far, and no theorem is claimed.

    Parameters
    ----------
    constraints : texts such as "abs(covariance(sex)) <= 0.01", "abs(difference(sex=1, sex=0)) <= 0.05" or
        "mean(sex=1) >= -0.2"; see okl.solvers.online.constraints
    radius : of the ball that weights stay in; constraint_margin : so much inside their limits scores are kept
    n_frequencies, kernel, map, bandwidth, class_weight, average : as in FOGDClassifier
    loss : "hinge" or "logistic"; with neither there are probabilities
    step_size : float > 0, or "auto" for radius / sqrt(2 t), the one that regret is proved for
    passes, shuffle, precision, n_jobs, random_state : as in OnlineEstimator

    Attributes
    ----------
    claims_theorem_ : whether constraints did not change and each row was seen once
    classes_, chosen_, learner_, state_, n_features_in_, feature_names_in_ : as in FOGDClassifier

    Source: Yi et al., ICML 2021, Algorithm 1.

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

    constraints: Any = ()
    radius: float = 10.0
    constraint_margin: float = 0.0
    n_frequencies: int = 400
    kernel: str = "gaussian"
    map: str = "independent"
    bandwidth: float | Auto = "auto"
    loss: Literal["hinge", "logistic"] = "hinge"
    step_size: float | Auto = "auto"
    class_weight: dict[Any, float] | Literal["balanced"] | None = None
    average: bool = True

    def fit(self, X: ArrayLike, y: ArrayLike, sensitive: Mapping[str, ArrayLike] | None = None) -> Self:
        """Learn rows X (rows, n_features) with labels y (rows,); sensitive : columns (rows,) by name.

        Raises
        ------
        ConfigError, DataError : as in OnlineClassifier, a column or a group that is not there, limits in conflict
        """
        self._beside = self._columns(sensitive)
        super().fit(X, y)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sensitive: Mapping[str, ArrayLike] | None = None,
    ) -> Self:
        """Learn some more rows, once, after the rows of the constraints are refreshed by them."""
        self._beside = self._columns(sensitive)
        super().partial_fit(X, y, classes)
        return self

    @property
    def claims_theorem_(self) -> bool:
        """Return whether constraints did not change and each row was seen once."""
        return self._learner.fixed and self.passes == 1

    @property
    def _learner(self) -> ConstrainedLearner:
        learner = self.learner_
        assert isinstance(learner, ConstrainedLearner)
        return learner

    def _begin(
        self,
        inputs: FloatArray,
        targets: NDArray[Any],
        loss: Loss,
        n_outputs: int,
        class_weights: tuple[float, ...] | None,
        n_rows: int | None,
    ) -> None:
        self._inputs = inputs
        super()._begin(inputs, targets, loss, n_outputs, class_weights, n_rows)
        self._sums = None if n_rows is None else self._summed(inputs)  # the first rows of a stream reach `_learn`
        del self._inputs

    def _learn(self, inputs: FloatArray, targets: NDArray[Any], order: NDArray[np.int64] | None = None) -> None:
        """Learn rows once; those of a stream refresh the rows of the constraints before, unless they are refused."""
        if order is not None:
            super()._learn(inputs, targets, order)
            return
        before, sums = self._learner, self._summed(inputs)
        if self._sums is not None:
            sums = self._sums.plus(sums)
        rows = rows_from(Weighings(self._parsed()), sums)
        self.learner_ = before.refreshed(replace(before.kept, rows=rows))
        try:
            super()._learn(inputs, targets)
        except BaseException:  # an interrupt, too
            self.learner_ = before
            raise
        self._sums = sums

    def _summed(self, inputs: FloatArray) -> RowSums:
        features = self._learner.feature_map.transform(inputs)
        return sums_of(Weighings(self._parsed()), features, self._beside, "sensitive")

    def _parsed(self) -> Any:
        constraints, _ = parse_constraints(tuple(self.constraints))
        if not constraints:
            raise ConfigError("constraints is empty. Give expressions such as 'abs(covariance(sex)) <= 0.01'.")
        return constraints

    def _columns(self, sensitive: Mapping[str, ArrayLike] | None) -> Columns:
        columns: dict[str, NDArray[Any]] = {}
        for name in columns_of(self._parsed()):
            if sensitive is None or name not in sensitive:
                available = ", ".join(map(str, sensitive or ())) or "nothing"
                raise DataError(f"sensitive has no column {name!r}, which a constraint uses. It holds {available}.")
            columns[name] = values_of(pa.chunked_array([pa.array(np.asarray(sensitive[name]))]), name)
        return columns

    def _factory(self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None) -> MemoryFactory:
        constraints, bound = parse_constraints(tuple(self.constraints))
        width = whole_number("n_frequencies", self.n_frequencies)
        if any(len(column) != len(self._inputs) for column in self._beside.values()):
            raise DataError(
                f"The columns of sensitive must have {len(self._inputs)} rows, as X has, but some have another length."
            )
        return MemoryFactory(
            FourierChoice(self.kernel, number_or_auto("bandwidth", self.bandwidth), width, self.map),
            loss,
            constraints,
            min(self.radius, bound) if bound else self.radius,
            number_or_auto("step_size", self.step_size),
            class_weights,
            bool(self.average),
            margin=self.constraint_margin,
            inputs=self._inputs,
            columns=self._beside,
        )

    @property
    def _weighting(self) -> Any:
        return self.class_weight

    def _binary_loss(self) -> str:
        return check_choice("loss", self.loss, ("hinge", "logistic"))
