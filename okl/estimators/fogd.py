"""Fourier online gradient descent: a kernel method at the cost of a linear one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from okl.checks import check_choice
from okl.estimators.base import Beginning
from okl.estimators.classify import OnlineClassifier
from okl.estimators.fourier_map import bandwidth_of, drawn_map
from okl.estimators.parameters import Auto, number_or_auto
from okl.estimators.regress import OnlineRegressor
from okl.features.protocol import FeatureMap
from okl.online.learner import LinearLearner
from okl.online.stepsize import race_step_sizes
from okl.types import Precision


@dataclass(kw_only=True, eq=False, repr=False)
class FOGDClassifier(OnlineClassifier):
    """Fourier online gradient descent for two classes or several.

    Inputs should be of like scale: put a StandardScaler before it.

    Parameters
    ----------
    n_frequencies : int >= 1; the random Fourier map of the Gaussian kernel has twice as many columns
    bandwidth : float > 0 in units of the inputs, or "auto" for the median distance of a sample of 4096 rows
    loss : "hinge" or "logistic" for two classes; several classes always take the multi-class hinge
    step_size : float > 0 on the map, whose rows have norm 1, or "auto" for the best of a race on the sample
    class_weight : factor of the steps of each class, by label; "balanced" for rows / (classes * rows of the class)
    average : predict with the average of the weights on the way, not the last ones
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
    bandwidth: float | Auto = "auto"
    loss: Literal["hinge", "logistic"] = "hinge"
    step_size: float | Auto = "auto"
    class_weight: dict[Any, float] | Literal["balanced"] | None = None
    average: bool = True

    def _make(self, beginning: Beginning) -> tuple[LinearLearner, dict[str, Any]]:
        drawn, chosen = _fourier(self.bandwidth, self.n_frequencies, self.precision, beginning)
        return settled(drawn, chosen, self.step_size, self.average, beginning)

    @property
    def _weighting(self) -> Any:
        return self.class_weight

    def _binary_loss(self) -> str:
        return check_choice("loss", self.loss, ("hinge", "logistic"))


@dataclass(kw_only=True, eq=False, repr=False)
class FOGDRegressor(OnlineRegressor):
    """Fourier online gradient descent on the squared residual.

    Inputs should be of like scale: put a StandardScaler before it. Targets may be of any scale.

    Parameters
    ----------
    step_size : float > 0, or "auto" for the best of a race on a sample; up to 1 never overshoots, far above 2 diverges
    n_frequencies, bandwidth, average : as in FOGDClassifier; epsilon, scale_target : as in OnlineRegressor
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
    bandwidth: float | Auto = "auto"
    step_size: float | Auto = "auto"
    average: bool = True

    def _make(self, beginning: Beginning) -> tuple[LinearLearner, dict[str, Any]]:
        drawn, chosen = _fourier(self.bandwidth, self.n_frequencies, self.precision, beginning)
        return settled(drawn, chosen, self.step_size, self.average, beginning)


def settled(
    drawn: FeatureMap, chosen: dict[str, Any], step_size: float | Auto, average: bool, beginning: Beginning
) -> tuple[LinearLearner, dict[str, Any]]:
    """The linear learner in a map, with the step size given or the best of a race on the sample."""
    learner = LinearLearner(
        drawn, beginning.loss, 1.0, beginning.n_outputs, beginning.class_weights, average=bool(average)
    )
    step, why = number_or_auto("step_size", step_size), "as given"
    if step is None:
        step, why = race_step_sizes(learner, beginning.sample, False)
    return replace(learner, step_size=step), chosen | {"step_size": step, "step_size_reason": why}


def _fourier(
    bandwidth: float | Auto, n_frequencies: int, precision: Precision, beginning: Beginning
) -> tuple[FeatureMap, dict[str, Any]]:
    drawn = drawn_map(bandwidth, beginning.sample.inputs, n_frequencies, beginning.seed, precision)
    why = "as given" if bandwidth != "auto" else f"median distance of {len(beginning.sample.targets):,} sampled rows"
    return drawn, {"bandwidth": bandwidth_of(drawn), "bandwidth_reason": why}
