"""Nystrom online gradient descent: landmarks are the first support vectors, or chosen from a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from okl.checks import check_choice
from okl.estimators.classify import OnlineClassifier
from okl.estimators.parameters import Auto, number_or_auto, whole_number
from okl.estimators.regress import OnlineRegressor
from okl.kernels import Kernel
from okl.losses import Loss
from okl.online.linear import LinearRecipe
from okl.online.maps import NystromChoice
from okl.online.nogdrecipe import NOGDRecipe

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

    def _recipe(
        self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None
    ) -> NOGDRecipe | LinearRecipe:
        return _nystrom_recipe(self, loss, class_weights, n_rows)

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

    def _recipe(
        self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None
    ) -> NOGDRecipe | LinearRecipe:
        return _nystrom_recipe(self, loss, class_weights, n_rows)


def _nystrom_recipe(
    estimator: NOGDClassifier | NOGDRegressor,
    loss: Loss,
    class_weights: tuple[float, ...] | None,
    n_rows: int | None,
) -> NOGDRecipe | LinearRecipe:
    budget = whole_number("budget", estimator.budget)
    rank = round(RANK_SHARE * budget) or 1
    if estimator.rank != "auto":
        rank = whole_number("rank", estimator.rank)
    # fewer rows than landmarks: as many as there are
    held = budget if n_rows is None else min(budget, n_rows)
    kernel: dict[str, Any] = {
        "kernel": estimator.kernel,
        "bandwidth": number_or_auto("bandwidth", estimator.bandwidth),
        "degree": estimator.degree,
        "offset": estimator.offset,
    }
    step_size = number_or_auto("step_size", estimator.step_size)
    rank = min(rank, held) if rank <= budget else rank
    if estimator.landmarks == "supports":
        return NOGDRecipe(loss, **kernel, budget=held, rank=rank, step_size=step_size,
                          class_weights=class_weights, average=bool(estimator.average))  # fmt: skip
    maps = NystromChoice(**kernel, n_landmarks=held, rank=rank, landmarks=estimator.landmarks)
    return LinearRecipe(maps, loss, step_size, class_weights, bool(estimator.average), name="nogd")
