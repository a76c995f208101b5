"""Fourier online gradient descent: a kernel method at the cost of a linear one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from okl.checks import check_choice
from okl.errors import ConfigError
from okl.estimators.classify import OnlineClassifier
from okl.estimators.parameters import Auto, number_or_auto, whole_number
from okl.estimators.regress import OnlineRegressor
from okl.losses import Loss
from okl.online.linear import LinearRecipe
from okl.online.maps import FourierChoice
from okl.online.recipe import Recipe
from okl.online.tracking.recipe import TrackingRecipe


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
    state_ : what was learnt; state_.progress counts the mistakes made before each row was learnt
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

    def _recipe(self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None) -> Recipe:
        return _fourier_recipe(self, loss, class_weights)

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

    def _recipe(self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None) -> Recipe:
        return _fourier_recipe(self, loss, class_weights)


def _fourier_recipe(
    estimator: FOGDClassifier | FOGDRegressor, loss: Loss, class_weights: tuple[float, ...] | None
) -> Recipe:
    bandwidth = number_or_auto("bandwidth", estimator.bandwidth)
    maps = FourierChoice(
        estimator.kernel, bandwidth, whole_number("n_frequencies", estimator.n_frequencies), estimator.map
    )
    step_size = number_or_auto("step_size", estimator.step_size)
    if estimator.track:
        if step_size is not None or not estimator.average:
            raise ConfigError(
                f"track = True with step_size = {estimator.step_size!r} and average = {estimator.average!r}, but it "
                "weighs last and averaged weights of its own step sizes. Leave the two as they are by default."
            )
        return TrackingRecipe(maps, loss, class_weights)
    return LinearRecipe(maps, loss, step_size, class_weights, bool(estimator.average))
