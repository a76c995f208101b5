"""Kernel least squares as scikit-learn estimators: one pass over the rows, then solved exactly, with a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin

from okl.estimators.parameters import classes_of, weights_of_classes
from okl.estimators.ridgebase import KernelRidgeEstimator
from okl.ridge.gram import Outputs
from okl.types import FloatArray, Task


@dataclass(kw_only=True, eq=False, repr=False)
class KernelRidgeClassifier(ClassifierMixin, KernelRidgeEstimator):  # type: ignore[misc]
    """Classes as +1 and -1 by kernel least squares; several against the rest, all at the cost of one.

    Its scores are no probabilities: scikit-learn's CalibratedClassifierCV around it makes some.

    Parameters
    ----------
    class_weight : factor of the squares of each class's rows, by label; "balanced" for rows / (classes * rows of it)
    all others : as in KernelRidgeEstimator

    Attributes
    ----------
    classes_ : labels in order, the second of two has scores from 0 upward
    all others : as in KernelRidgeEstimator

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> bool(KernelRidgeClassifier(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    class_weight: dict[Any, float] | Literal["balanced"] | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn rows X (rows, n_features) with labels y (rows,) from nothing.

        Raises
        ------
        ConfigError, a ValueError : a parameter is out of its range
        DataError, a ValueError : y holds one class only; sums of squares leave the range of floating numbers
        DivergedError, an ArithmeticError : columns so large that rounding is all that is left
        """
        inputs, labels = self._checked(X, y)
        self.classes_, indices = classes_of(self, labels)
        weights = weights_of_classes(self.class_weight, self.classes_, labels)
        two = len(self.classes_) == 2
        task: Task = "binary" if two else "multiclass"
        self._learn(
            inputs, 2.0 * indices - 1.0 if two else indices, Outputs(task, 1 if two else len(self.classes_), weights)
        )
        return self

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Scores (rows,) for two classes, (rows, n_classes) for several."""
        return self._scores(X)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels (rows,)."""
        scores = self._scores(X)
        found: NDArray[Any] = self.classes_[(scores >= 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]
        return found


@dataclass(kw_only=True, eq=False, repr=False)
class KernelRidgeRegressor(RegressorMixin, KernelRidgeEstimator):  # type: ignore[misc]
    """A target by kernel least squares.

    Parameters, attributes : as in KernelRidgeEstimator

    Examples
    --------
    >>> x = np.linspace(-3.0, 3.0, 200)[:, np.newaxis]
    >>> bool(KernelRidgeRegressor(random_state=0).fit(x, np.sin(x[:, 0])).score(x, np.sin(x[:, 0])) > 0.999)
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn rows X (rows, n_features) with targets y (rows,) from nothing.

        Raises
        ------
        ConfigError, a ValueError : a parameter is out of its range
        DataError, a ValueError : sums of squares, or weights, leave the range of floating numbers
        DivergedError, an ArithmeticError : columns so large that rounding is all that is left
        """
        inputs, targets = self._checked(X, y, y_numeric=True)
        self._learn(inputs, np.asarray(targets, dtype=np.float64), Outputs("regression", 1))
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Targets (rows,)."""
        return self._scores(X)
