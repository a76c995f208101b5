"""What the classifier and the regressor share: parameters, passes over rows in memory, and scores."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from okl.checks import check_choice
from okl.execution.protocol import Rows
from okl.features.fourier import FourierFeatures
from okl.features.rowwise import score_each
from okl.fourier_transformer import SAMPLE_ROWS, bandwidth_of, draw_seed, drawn_map, number_or_auto, whole_number
from okl.losses import Loss
from okl.online.learner import LinearLearner, Weights
from okl.online.stepsize import race_step_sizes
from okl.types import FloatArray, Precision

CHUNK_ROWS = 65536  # gathered at once in shuffled order; a multiple of every block, so that it changes no bit
Auto = Literal["auto"]
RandomState = int | np.random.RandomState | None


class OnlineEstimator(BaseEstimator):  # type: ignore[misc]
    """Predict, suffer, then learn, one row at a time, in a random Fourier map; subclasses know labels and targets.

    The same rows, parameters and random_state give the same bits, whatever n_jobs is; the scores of a row do not depend
    on the rows beside it, to the last bit.
    """

    n_frequencies: int
    bandwidth: float | Auto
    step_size: float | Auto
    passes: int
    average: bool
    shuffle: bool
    precision: Precision
    n_jobs: int | None
    random_state: RandomState

    def _checked(self, X: ArrayLike, y: ArrayLike, reset: bool, **options: bool) -> tuple[FloatArray, NDArray[Any]]:
        """Inputs (rows, n_features) in the precision of the learner, and y, both finite."""
        check_choice("precision", str(self.precision), ("float32", "float64"))
        whole_number("passes", self.passes)
        with _refused_if_too_large():
            inputs, targets = validate_data(self, X, y, dtype=self.precision, reset=reset, **options)
        return inputs, targets

    @property
    def _first(self) -> bool:
        """Whether nothing has been learnt yet."""
        return not hasattr(self, "learner_")

    def _begin(
        self,
        inputs: FloatArray,
        targets: NDArray[Any],
        loss: Loss,
        n_outputs: int,
        class_weights: tuple[float, ...] | None,
    ) -> None:
        """Draw the map and settle bandwidth and step size on the rows at hand; forgets what was learnt."""
        rng = check_random_state(self.random_state)
        seed = draw_seed(rng)
        chosen = rng.permutation(len(targets))[:SAMPLE_ROWS]
        drawn = drawn_map(self.bandwidth, inputs[chosen], self.n_frequencies, seed, self.precision)
        step_size = number_or_auto("step_size", self.step_size)
        if step_size is None:
            racer = LinearLearner(drawn, loss, 1.0, n_outputs, class_weights)
            step_size = race_step_sizes(racer, _rows(inputs, targets, chosen), False)[0]
        self.learner_ = LinearLearner(drawn, loss, step_size, n_outputs, class_weights, bool(self.average))
        self.bandwidth_, self.step_size_ = bandwidth_of(drawn), step_size
        self.weights_: Weights = self.learner_.start()
        self._order_rng = rng

    def _learn_passes(self, inputs: FloatArray, targets: NDArray[Any]) -> None:
        """Learn all rows several times, in a new random order each time or as they come."""
        for _ in range(self.passes):
            order = self._order_rng.permutation(len(targets)) if self.shuffle else np.arange(len(targets))
            self._learn(inputs, targets, order)

    def _learn(self, inputs: FloatArray, targets: NDArray[Any], order: NDArray[np.int64] | None = None) -> None:
        """Learn rows once, in some order or as they come; what was learnt before is kept if this fails."""
        order = np.arange(len(targets)) if order is None else order
        weights, n_threads = self.weights_, effective_n_jobs(self.n_jobs)
        for start in range(0, len(order), CHUNK_ROWS):
            rows = _rows(inputs, targets, order[start : start + CHUNK_ROWS])
            weights = self.learner_.learn(weights, rows, n_threads)
        self.weights_ = weights

    def _scores(self, X: ArrayLike) -> FloatArray:
        """Scores (rows,) for one output, (rows, n_outputs) for several."""
        check_is_fitted(self)
        with _refused_if_too_large():
            inputs = validate_data(self, X, dtype=self.learner_.feature_map.precision, reset=False)
        fourier, weights = self.learner_.feature_map, self.weights_
        assert isinstance(fourier, FourierFeatures)
        chosen = weights.averaged if self.average else weights.last
        scores = score_each(fourier, chosen, inputs, effective_n_jobs(self.n_jobs))
        return scores[:, 0] if self.learner_.n_outputs == 1 else scores


def _refused_if_too_large() -> np.errstate:
    """What is too large for float32 becomes infinite without a warning: scikit-learn then refuses it."""
    return np.errstate(over="ignore", invalid="ignore")


def _rows(inputs: FloatArray, targets: NDArray[Any], chosen: NDArray[np.int64]) -> Rows:
    return Rows(inputs[chosen], np.asarray(targets[chosen], dtype=np.float64))
