"""Kernel learning without tuning: experts of several bandwidths and step sizes choose while they learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from okl.checks import check_choice
from okl.estimators.classify import OnlineClassifier
from okl.estimators.parameters import whole_number
from okl.estimators.regress import OnlineRegressor
from okl.losses import Loss
from okl.online.experts.recipe import ExpertRecipe


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

    def _recipe(self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None) -> ExpertRecipe:
        return ExpertRecipe(loss, self.kernel, whole_number("n_frequencies", self.n_frequencies), class_weights)

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

    def _recipe(self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None) -> ExpertRecipe:
        return ExpertRecipe(loss, self.kernel, whole_number("n_frequencies", self.n_frequencies))
