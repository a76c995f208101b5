"""Fourier online gradient descent as a scikit-learn regressor."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from okl.errors import DataError
from okl.losses import ThresholdedHalfSquared
from okl.online_estimator import Auto, OnlineEstimator, RandomState
from okl.types import FloatArray, Precision


class FOGDRegressor(RegressorMixin, OnlineEstimator):  # type: ignore[misc]
    """Fourier online gradient descent on the squared residual: kernel regression at the cost of a linear one.

    Inputs should be of like scale: put a StandardScaler before it. Targets may be of any scale.

    Parameters
    ----------
    epsilon : float >= 0; residuals up to this are not learnt, in standard deviations of the target
    scale_target : learn the target less its mean, in standard deviations, as `fit` or the first `partial_fit` finds
        them; False learns it as it is, with epsilon in its own unit, as the paper does
    step_size : float > 0, or "auto" for the best of a race on a sample; up to 1 never overshoots, far above 2 diverges
    n_frequencies, bandwidth, passes, shuffle, average, precision, n_jobs, random_state : as in FOGDClassifier

    Attributes
    ----------
    target_mean_, target_spread_ : of the scaled target, in the target's unit
    bandwidth_, step_size_, learner_, weights_, n_features_in_, feature_names_in_ : as in FOGDClassifier

    Source: Lu et al., JMLR 17(47), 2016, Algorithm 5, with the test |y - f| > epsilon.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-3, 3, (400, 1))
    >>> y = 1000 + 50 * np.sin(X[:, 0])
    >>> bool(FOGDRegressor(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    def __init__(
        self,
        n_frequencies: int = 400,
        bandwidth: float | Auto = "auto",
        epsilon: float = 0.1,
        scale_target: bool = True,
        step_size: float | Auto = "auto",
        passes: int = 20,
        shuffle: bool = True,
        average: bool = True,
        precision: Precision = "float32",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_frequencies = n_frequencies
        self.bandwidth = bandwidth
        self.epsilon = epsilon
        self.scale_target = scale_target
        self.step_size = step_size
        self.passes = passes
        self.shuffle = shuffle
        self.average = average
        self.precision = precision
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn rows X (rows, n_features) with targets y (rows,) from nothing.

        Raises
        ------
        ConfigError, a ValueError : a parameter is out of its range
        DivergedError : the step size given is too large
        """
        inputs, targets = self._checked(X, y, reset=True, y_numeric=True)
        self._settle(inputs, targets)
        self._learn_passes(inputs, self._scaled(targets))
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn some more rows, once, as they come; the same as one call with all rows if calls end at 256 rows.

        The first call settles "auto" parameters and the target's scale on its rows: give it some hundreds, in random
        order, or set bandwidth, step_size and scale_target=False.
        """
        first = self._first
        inputs, targets = self._checked(X, y, reset=first, y_numeric=True)
        if first:
            self._settle(inputs, targets)
        self._learn(inputs, self._scaled(targets))
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Targets (rows,) in their own unit, float64."""
        scores = self._scores(X).astype(np.float64)
        return scores * self.target_spread_ + self.target_mean_

    def _settle(self, inputs: FloatArray, targets: NDArray[Any]) -> None:
        self.target_mean_, self.target_spread_ = 0.0, 1.0
        if self.scale_target:
            with np.errstate(over="ignore", invalid="ignore"):
                mean, spread = float(np.mean(targets, dtype=np.float64)), float(np.std(targets, dtype=np.float64))
            if not np.isfinite([mean, spread]).all():
                raise DataError(f"Targets up to {np.abs(targets).max():g} have no finite spread. Scale them down.")
            self.target_mean_, self.target_spread_ = mean, spread or 1.0
        self._begin(inputs, self._scaled(targets), ThresholdedHalfSquared(self.epsilon), 1, None)

    def _scaled(self, targets: NDArray[Any]) -> FloatArray:
        return (np.asarray(targets, dtype=np.float64) - self.target_mean_) / self.target_spread_
