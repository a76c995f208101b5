"""What all online regressors share: the target's scale, and its own unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from okl.errors import DataError
from okl.estimators.base import OnlineEstimator
from okl.losses import ThresholdedHalfSquared
from okl.types import FloatArray


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineRegressor(RegressorMixin, OnlineEstimator):  # type: ignore[misc]
    """An online learner of a number; targets may be of any scale.

    Parameters
    ----------
    epsilon : float >= 0; residuals up to this are not learnt, in standard deviations of the target
    scale_target : learn the target less its mean, in standard deviations, as `fit` or the first `partial_fit` finds
        them; False learns it as it is, with epsilon in its own unit, as the paper does

    Attributes
    ----------
    target_mean_, target_spread_ : of the scaled target, in the target's unit
    """

    epsilon: float = 0.1
    scale_target: bool = True

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn rows X (rows, n_features) with targets y (rows,) from nothing.

        Raises
        ------
        ConfigError, a ValueError : a parameter is out of its range
        DivergedError : the step size given is too large
        """
        inputs, targets = self._checked(X, y, reset=True, y_numeric=True)
        self._settle(inputs, targets, len(targets))
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
            self._settle(inputs, targets, None)
        self._learn(inputs, self._scaled(targets))
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Targets (rows,) in their own unit, float64."""
        scores = self._scores(X).astype(np.float64)
        return scores * self.target_spread_ + self.target_mean_

    def _settle(self, inputs: FloatArray, targets: NDArray[Any], n_rows: int | None) -> None:
        self.target_mean_, self.target_spread_ = 0.0, 1.0
        if self.scale_target:
            with np.errstate(over="ignore", invalid="ignore"):
                mean, spread = float(np.mean(targets, dtype=np.float64)), float(np.std(targets, dtype=np.float64))
            if not np.isfinite([mean, spread]).all():
                raise DataError(f"Targets up to {np.abs(targets).max():g} have no finite spread. Scale them down.")
            self.target_mean_, self.target_spread_ = mean, spread or 1.0
        self._begin(inputs, self._scaled(targets), ThresholdedHalfSquared(self.epsilon), 1, None, n_rows)

    def _scaled(self, targets: NDArray[Any]) -> FloatArray:
        return (np.asarray(targets, dtype=np.float64) - self.target_mean_) / self.target_spread_
