"""The scikit-learn face: FOGD as a classifier and a regressor, the Fourier map as a transformer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from okl.execution.protocol import Rows
from okl.features.bandwidth import median_distance
from okl.features.fourier import draw_fourier_map
from okl.kernels import Gaussian
from okl.losses import Loss, make_loss
from okl.online.learner import LinearLearner, Weights
from okl.online.stepsize import race_step_sizes
from okl.predictors import LinearPredictor
from okl.types import FloatArray, Precision

SAMPLE_ROWS = 4096
Auto = Literal["auto"]
Labels = NDArray[Any]


class FourierMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Random Fourier features of the Gaussian kernel: z(x)'z(x') approximates k(x, x'), and z(x) has norm 1.

    Parameters
    ----------
    n_frequencies : int >= 1; there are 2 n_frequencies columns, sines first
    bandwidth : float > 0 in units of the inputs, or "auto" for the median distance of a sample
    random_state : int, RandomState or None

    Attributes
    ----------
    map_ : the drawn map; bandwidth_ : as used

    Source: Rahimi & Recht, NIPS 2007, Algorithm 1; Lu et al., JMLR 17(47), 2016, section 3.2.
    """

    def __init__(
        self, n_frequencies: int = 400, bandwidth: float | Auto = "auto", random_state: int | None = None
    ) -> None:
        self.n_frequencies = n_frequencies
        self.bandwidth = bandwidth
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Draw frequencies for inputs X (rows, n_features); y is not used."""
        inputs = validate_data(self, X, dtype=[np.float64, np.float32])
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        self.bandwidth_ = _bandwidth(self.bandwidth, inputs, rng)
        self.map_ = draw_fourier_map(Gaussian(self.bandwidth_), inputs.shape[1], self.n_frequencies, seed, "float64")
        self._n_features_out = self.map_.n_columns
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Map inputs (rows, n_features) to (rows, 2 n_frequencies), in the precision of X."""
        check_is_fitted(self)
        inputs = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        mapped: FloatArray = self.map_.transform(np.ascontiguousarray(inputs, dtype=np.float64))
        return mapped.astype(inputs.dtype, copy=False)


class _OnlineKernel(BaseEstimator):  # type: ignore[misc]
    """What both learners share: the map, the step size, passes over rows in memory."""

    n_frequencies: int
    bandwidth: float | Auto
    step_size: float | Auto
    passes: int
    average: bool
    shuffle: bool
    precision: Precision
    random_state: int | None

    def _begin(
        self, inputs: FloatArray, targets: FloatArray, loss: Loss, class_weights: tuple[float, ...] | None
    ) -> None:
        """Draw the map and settle bandwidth and step size on the rows at hand; forgets what was learnt."""
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        chosen = rng.permutation(len(targets))[:SAMPLE_ROWS]
        sample = self._rows(inputs[chosen], targets[chosen])
        self.bandwidth_ = _bandwidth(self.bandwidth, inputs, rng)
        drawn = draw_fourier_map(Gaussian(self.bandwidth_), inputs.shape[1], self.n_frequencies, seed, self.precision)
        n_outputs = self._n_outputs()
        learner = LinearLearner(drawn, loss, 1.0, n_outputs, class_weights)
        step_size = race_step_sizes(learner, sample, False)[0] if self.step_size == "auto" else float(self.step_size)
        self.learner_ = LinearLearner(drawn, loss, step_size, n_outputs, class_weights)
        self.step_size_ = step_size
        self.weights_: Weights = self.learner_.start()
        self._order_rng = rng

    def _n_outputs(self) -> int:
        return 1

    def _learn(self, inputs: FloatArray, targets: FloatArray, orders: Iterator[NDArray[np.int64] | None]) -> None:
        for order in orders:
            taken = (inputs, targets) if order is None else (inputs[order], targets[order])
            self.weights_ = self.learner_.learn(self.weights_, self._rows(*taken), n_threads=1)

    def _orders(self, rows: int) -> Iterator[NDArray[np.int64] | None]:
        for _ in range(self.passes):
            yield self._order_rng.permutation(rows) if self.shuffle else None

    def _rows(self, inputs: FloatArray, targets: FloatArray) -> Rows:
        return Rows(np.ascontiguousarray(inputs, dtype=self.precision), np.asarray(targets, dtype=np.float64))

    def _scores(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        inputs = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        weights = self.weights_.averaged if self.average else self.weights_.last
        predictor = LinearPredictor(self.learner_.feature_map, weights)
        return predictor.scores(np.ascontiguousarray(inputs, dtype=self.precision))


class FOGDClassifier(ClassifierMixin, _OnlineKernel):  # type: ignore[misc]
    """Fourier online gradient descent for two classes or several: a kernel classifier at the cost of a linear one.

    Parameters
    ----------
    n_frequencies : int >= 1, the map has twice as many columns; bandwidth : float > 0 in units of the inputs, or "auto"
    loss : "hinge" or "logistic"; several classes always take the multi-class hinge
    step_size : float > 0 on the map of norm 1, or "auto"; class_weight : dict, "balanced" or None
    passes : over the rows in `fit`; average : predict with averaged weights; shuffle : rows before each pass
    precision : "float32" or "float64"; random_state : int, RandomState or None

    Attributes
    ----------
    classes_, bandwidth_, step_size_, learner_, weights_

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 1 and 3.
    """

    def __init__(
        self,
        n_frequencies: int = 400,
        bandwidth: float | Auto = "auto",
        loss: Literal["hinge", "logistic"] = "hinge",
        step_size: float | Auto = "auto",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        passes: int = 5,
        average: bool = True,
        shuffle: bool = True,
        precision: Precision = "float64",
        random_state: int | None = None,
    ) -> None:
        self.n_frequencies = n_frequencies
        self.bandwidth = bandwidth
        self.loss = loss
        self.step_size = step_size
        self.class_weight = class_weight
        self.passes = passes
        self.average = average
        self.shuffle = shuffle
        self.precision = precision
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn rows X (rows, n_features) with labels y (rows,) from nothing."""
        inputs, labels = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(labels)
        self._settle_classes(labels)
        targets = self._targets(labels)
        self._begin(inputs, targets, self._loss(), self._class_weights(labels))
        self._learn(inputs, targets, self._orders(len(targets)))
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn some more rows, once, in order; the first call needs all classes and settles "auto" parameters."""
        first = not hasattr(self, "learner_")
        inputs, labels = validate_data(self, X, y, dtype=[np.float64, np.float32], reset=first)
        if first:
            if classes is None:
                raise ValueError("The first call of partial_fit takes classes: all labels that will ever come.")
            self._settle_classes(np.asarray(classes))
            if self.class_weight == "balanced":
                raise ValueError('class_weight="balanced" needs all rows; give partial_fit a dict of weights.')
        elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise ValueError(f"classes={classes!r} differ from those of the first call, {self.classes_!r}.")
        targets = self._targets(labels)
        if first:
            self._begin(inputs, targets, self._loss(), self._class_weights(labels))
        self._learn(inputs, targets, iter([None]))
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
            raise ValueError(f"{type(self).__name__} needs at least two classes, got one class: {self.classes_[0]!r}.")

    def _targets(self, labels: Labels) -> FloatArray:
        index = np.minimum(np.searchsorted(self.classes_, labels), len(self.classes_) - 1)
        if (unseen := self.classes_[index] != labels).any():
            raise ValueError(f"y holds {labels[unseen][0]!r}, which is not among the classes {self.classes_!r}.")
        return index.astype(np.float64) if len(self.classes_) > 2 else 2.0 * index - 1.0

    def _n_outputs(self) -> int:
        return len(self.classes_) if len(self.classes_) > 2 else 1

    def _loss(self) -> Loss:
        return make_loss("multiclass-hinge" if len(self.classes_) > 2 else self.loss)

    def _class_weights(self, labels: Labels) -> tuple[float, ...] | None:
        if self.class_weight is None:
            return None
        return tuple(float(w) for w in compute_class_weight(self.class_weight, classes=self.classes_, y=labels))


class FOGDRegressor(RegressorMixin, _OnlineKernel):  # type: ignore[misc]
    """Fourier online gradient descent on the squared residual beyond epsilon.

    Parameters
    ----------
    epsilon : residuals up to this, in units of the target, are not learnt; others as in FOGDClassifier

    Source: Lu et al., JMLR 17(47), 2016, Algorithm 5, with the test |y - f| > epsilon.
    """

    def __init__(
        self,
        n_frequencies: int = 400,
        bandwidth: float | Auto = "auto",
        epsilon: float = 0.1,
        step_size: float | Auto = "auto",
        passes: int = 5,
        average: bool = True,
        shuffle: bool = True,
        precision: Precision = "float64",
        random_state: int | None = None,
    ) -> None:
        self.n_frequencies = n_frequencies
        self.bandwidth = bandwidth
        self.epsilon = epsilon
        self.step_size = step_size
        self.passes = passes
        self.average = average
        self.shuffle = shuffle
        self.precision = precision
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn rows X (rows, n_features) with targets y (rows,) from nothing."""
        inputs, targets = validate_data(self, X, y, dtype=[np.float64, np.float32], y_numeric=True)
        self._begin(inputs, targets, make_loss("thresholded-half-squared", self.epsilon), None)
        self._learn(inputs, targets, self._orders(len(targets)))
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn some more rows, once, in their order; the first call settles "auto" parameters."""
        first = not hasattr(self, "learner_")
        inputs, targets = validate_data(self, X, y, dtype=[np.float64, np.float32], y_numeric=True, reset=first)
        if first:
            self._begin(inputs, targets, make_loss("thresholded-half-squared", self.epsilon), None)
        self._learn(inputs, targets, iter([None]))
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Targets (rows,)."""
        return self._scores(X)


def _bandwidth(given: float | Auto, inputs: FloatArray, rng: np.random.RandomState) -> float:
    if given != "auto":
        return float(given)
    return median_distance(inputs[rng.permutation(len(inputs))[:SAMPLE_ROWS]])
