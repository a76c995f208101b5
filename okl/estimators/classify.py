"""What all online classifiers share: labels in and out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from okl.accelerated.calibration import LOG_ODDS, normalised
from okl.errors import ConfigError, DataError
from okl.estimators.base import OnlineEstimator
from okl.losses import Loss, make_loss
from okl.types import FloatArray

Labels = NDArray[Any]


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineClassifier(ClassifierMixin, OnlineEstimator):  # type: ignore[misc]
    """An online learner of two classes or several.

    Attributes
    ----------
    classes_ : labels in order, the second of two has positive scores
    """

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
        self._begin(inputs, targets, self._loss(), self._n_outputs, self._class_weights(labels), len(targets))
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
            if self._weighting == "balanced":
                raise ConfigError(
                    'class_weight = "balanced" takes all rows at once: use fit, or give weights by label.'
                )
            self._settle_classes(np.asarray(classes))
        elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise ConfigError(f"classes = {classes!r}, but those of the first call were {self.classes_.tolist()!r}.")
        targets = self._targets(labels)
        if first:
            self._begin(inputs, targets, self._loss(), self._n_outputs, self._class_weights(labels), None)
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

    @available_if(lambda self: self._tells_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities (rows, 2) of two classes, from scores that are the logarithm of the odds: loss = "logistic"."""
        return normalised(LOG_ODDS.probabilities(self._scores(X).astype(np.float64)))

    @property
    def _tells_probabilities(self) -> bool:
        return self._scores_are_log_odds and len(getattr(self, "classes_", (0, 1))) == 2

    @property
    def _scores_are_log_odds(self) -> bool:
        """Whether scores of two classes are the logarithm of the odds, and no more than that was made of them."""
        return False

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

    @property
    def _weighting(self) -> Any:
        """Weights of the classes' steps as scikit-learn has them: None, "balanced", or by label."""
        return None

    def _binary_loss(self) -> str:
        """Name of the loss of two classes."""
        return "hinge"

    def _loss(self) -> Loss:
        name = self._binary_loss()  # a wrong name is an error whatever the classes are
        return make_loss("multiclass-hinge" if len(self.classes_) > 2 else name)

    def _class_weights(self, labels: Labels) -> tuple[float, ...] | None:
        if self._weighting is None:
            return None
        weights = compute_class_weight(self._weighting, classes=self.classes_, y=labels)
        return tuple(float(weight) for weight in weights)
