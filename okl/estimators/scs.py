"""Stochastic conjugate subgradients: kernel machines whose cost does not grow with the rows, with a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin

from okl.errors import DataError
from okl.estimators.parameters import classes_of, weights_of_classes
from okl.estimators.scsbase import SubgradientEstimator
from okl.subgradient.losses import ClassesHinge, Hinge, Insensitive
from okl.subgradient.weighted import weigh
from okl.types import FloatArray


@dataclass(kw_only=True, eq=False, repr=False)
class SCSClassifier(ClassifierMixin, SubgradientEstimator):  # type: ignore[misc]
    """A support vector machine for two classes or several, by stochastic conjugate subgradients, with a certificate.

    Two classes take the hinge; several take the multi-class hinge with one weight vector a class.

    Parameters
    ----------
    class_weight : factor of the losses of each class's rows, by label; "balanced" for rows / (classes * rows of it)
    all others : as in SubgradientEstimator

    Attributes
    ----------
    classes_ : labels in order, the second of two has positive scores
    all others : as in SubgradientEstimator

    Source: Zhang & Sen, Algorithms 1 and 2, repaired; several classes: Crammer & Singer, JMLR 2, 2001.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> bool(SCSClassifier(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    class_weight: dict[Any, float] | Literal["balanced"] | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn rows X (rows, n_features) with labels y (rows,) from nothing.

        Warns
        -----
        ConvergenceWarning : the gap was not reached; it says how far it fell

        Raises
        ------
        ConfigError, a ValueError : a parameter is out of its range, the kernel is indefinite
        ValueError of scikit-learn : class_weight names no class of y
        DataError, a ValueError : y holds one class only
        """
        inputs, labels = self._checked(X, y)
        self.classes_, codes = classes_of(self, labels)
        weights = weights_of_classes(self.class_weight, self.classes_, labels)
        if len(self.classes_) == 2:
            self._learn(inputs, 2.0 * codes - 1.0, weigh(Hinge(), weights), 1)
        else:
            self._learn(inputs, codes, weigh(ClassesHinge(), weights), len(self.classes_))
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Scores (rows,) for two classes, positive for the second, or (rows, n_classes)."""
        scores = self._scores(X)
        return scores if len(self.classes_) > 2 else np.ascontiguousarray(scores[:, 0])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels (rows,)."""
        scores = self.decision_function(X)
        chosen = np.argmax(scores, axis=1) if scores.ndim == 2 else (scores >= 0).astype(np.int64)
        labels: NDArray[Any] = self.classes_[chosen]
        return labels


@dataclass(kw_only=True, eq=False, repr=False)
class SCSRegressor(RegressorMixin, SubgradientEstimator):  # type: ignore[misc]
    """Support vector regression by stochastic conjugate subgradients, with a certificate.

    Targets are learnt less their median, in units of their mean absolute deviation from it: lam, gap and epsilon do not
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
        loss = Insensitive(float(self.epsilon))
        inputs, given = self._checked(X, y, y_numeric=True)
        targets = given.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            center = float(np.median(targets))
            spread = float(np.abs(targets - center).mean())
        if not np.isfinite([center, spread]).all():
            raise DataError(f"Targets up to {np.abs(targets).max():g} have no finite spread. Scale them down.")
        self.target_center_, self.target_spread_ = center, spread or 1.0
        self._learn(inputs, (targets - center) / self.target_spread_, loss, 1)
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Targets (rows,) in their own unit, float64."""
        return self._scores(X)[:, 0] * self.target_spread_ + self.target_center_
