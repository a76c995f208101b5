"""Fourier online gradient descent as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from okl.checks import check_choice
from okl.errors import ConfigError, DataError
from okl.losses import Loss, make_loss
from okl.online_estimator import Auto, OnlineEstimator, RandomState
from okl.types import FloatArray, Precision

Labels = NDArray[Any]


class FOGDClassifier(ClassifierMixin, OnlineEstimator):  # type: ignore[misc]
    """Fourier online gradient descent for two classes or several: a kernel classifier at the cost of a linear one.

    Inputs should be of like scale: put a StandardScaler before it.

    Parameters
    ----------
    n_frequencies : int >= 1; the random Fourier map of the Gaussian kernel has twice as many columns
    bandwidth : float > 0 in units of the inputs, or "auto" for the median distance of a sample of 4096 rows
    loss : "hinge" or "logistic" for two classes; several classes always take the multi-class hinge
    step_size : float > 0 on the map, whose rows have norm 1, or "auto" for the best of a race on the sample
    class_weight : factor of the steps of each class, by label; "balanced" for rows / (classes * rows of the class)
    passes : int >= 1, over the rows in `fit`; shuffle : the rows before each pass
    average : predict with the average of the weights on the way, not the last ones
    precision : "float32" or "float64", of map, weights and scores
    n_jobs : threads, None for 1, -1 for all cores; no result depends on it
    random_state : int, RandomState or None, of map, sample and orders

    Attributes
    ----------
    classes_ : labels in order, the second of two has positive scores
    bandwidth_, step_size_ : as used; learner_ : the settings that rows are learnt with, the map among them
    weights_ : what was learnt; weights_.progress counts the mistakes made before each row was learnt
    n_features_in_, feature_names_in_ : of the inputs

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 1 and 3.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> bool(FOGDClassifier(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    def __init__(
        self,
        n_frequencies: int = 400,
        bandwidth: float | Auto = "auto",
        loss: Literal["hinge", "logistic"] = "hinge",
        step_size: float | Auto = "auto",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        passes: int = 20,
        shuffle: bool = True,
        average: bool = True,
        precision: Precision = "float32",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_frequencies = n_frequencies
        self.bandwidth = bandwidth
        self.loss = loss
        self.step_size = step_size
        self.class_weight = class_weight
        self.passes = passes
        self.shuffle = shuffle
        self.average = average
        self.precision = precision
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn rows X (rows, n_features) with labels y (rows,) from nothing.

        Raises
        ------
        ConfigError, a ValueError : a parameter is out of its range
        DataError, a ValueError : y holds one class only
        """
        inputs, labels = self._checked(X, y, reset=True)
        check_classification_targets(labels)
        self._settle_classes(labels)
        targets = self._targets(labels)
        self._begin(inputs, targets, self._loss(), self._n_outputs, self._class_weights(labels))
        self._learn_passes(inputs, targets)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn some more rows, once, as they come; the same as one call with all rows if calls end at 256 rows.

        The first call takes all classes that will ever come and settles "auto" parameters on its rows: give it some
        hundreds, in random order, or set bandwidth and step_size.

        Raises
        ------
        ConfigError, DataError, both ValueErrors : no or other classes; a label not among them; "balanced" weights
        """
        first = self._first
        inputs, labels = self._checked(X, y, reset=first)
        if first:
            if classes is None:
                raise ConfigError("The first call of partial_fit takes classes=...: all labels that will ever come.")
            if self.class_weight == "balanced":
                raise ConfigError(
                    'class_weight = "balanced" takes all rows at once: use fit, or give weights by label.'
                )
            self._settle_classes(np.asarray(classes))
        elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise ConfigError(f"classes = {classes!r}, but those of the first call were {self.classes_.tolist()!r}.")
        targets = self._targets(labels)
        if first:
            self._begin(inputs, targets, self._loss(), self._n_outputs, self._class_weights(labels))
        self._learn(inputs, targets)
        return self

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Scores (rows,) for two classes, positive for the second, or (rows, n_classes)."""
        return self._scores(X)

    def predict(self, X: ArrayLike) -> Labels:
        """Labels (rows,)."""
        scores = self._scores(X)
        chosen = np.argmax(scores, axis=1) if scores.ndim == 2 else (scores >= 0).astype(np.int64)
        labels: Labels = self.classes_[chosen]
        return labels

    def _settle_classes(self, labels: Labels) -> None:
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise DataError(
                f"{type(self).__name__} takes two classes or more, but got one class: {self.classes_.tolist()[0]!r}."
            )

    def _targets(self, labels: Labels) -> FloatArray:
        index = np.minimum(np.searchsorted(self.classes_, labels), len(self.classes_) - 1)
        if (unseen := self.classes_[index] != labels).any():
            raise DataError(f"y holds {labels[unseen].tolist()[0]!r}, but the classes are {self.classes_.tolist()!r}.")
        return index.astype(np.float64) if len(self.classes_) > 2 else 2.0 * index - 1.0

    @property
    def _n_outputs(self) -> int:
        return len(self.classes_) if len(self.classes_) > 2 else 1

    def _loss(self) -> Loss:
        check_choice("loss", self.loss, ("hinge", "logistic"))
        return make_loss("multiclass-hinge" if len(self.classes_) > 2 else self.loss)

    def _class_weights(self, labels: Labels) -> tuple[float, ...] | None:
        if self.class_weight is None:
            return None
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=labels)
        return tuple(float(weight) for weight in weights)
