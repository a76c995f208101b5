"""What all online estimators share: passes over rows in memory, and scores. Subclasses know their learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from okl.checks import check_choice
from okl.estimators.parameters import SAMPLE_ROWS, RandomState, draw_seed, whole_number
from okl.execution.protocol import Rows
from okl.losses import Loss
from okl.online.recipe import Recipe, Situation
from okl.store.dataset import Schema
from okl.types import FloatArray, Precision

CHUNK_ROWS = 65536  # gathered at once in shuffled order; a multiple of every block, so that it changes no bit


# dataclasses write the constructors: scikit-learn wants every parameter spelled out, and nothing else done there
@dataclass(kw_only=True, eq=False, repr=False)
class OnlineEstimator(BaseEstimator):  # type: ignore[misc]
    """Predict, suffer, then learn, one row at a time.

    The same rows, parameters and random_state give the same bits, whatever n_jobs is; the scores of a row do not depend
    on the rows beside it, to the last bit.

    Parameters
    ----------
    passes : int >= 1, over the rows in `fit`; shuffle : the rows before each pass
    precision : "float32" or "float64", of inputs, what is learnt, and scores
    n_jobs : threads, None for 1, -1 for all cores; no result depends on it
    random_state : int, RandomState or None, of maps, samples and orders

    Attributes
    ----------
    learner_ : the settings that rows are learnt with; state_ : what was learnt
    chosen_ : what "auto" parameters became, each with its reason
    n_features_in_, feature_names_in_ : of the inputs
    """

    passes: int = 20
    shuffle: bool = True
    precision: Precision = "float32"
    n_jobs: int | None = None
    random_state: RandomState = None

    def _recipe(self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None) -> Recipe:
        """The learner that the parameters mean; n_rows : of a pass, None for a stream of unknown length."""
        raise NotImplementedError

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
        n_rows: int | None,
    ) -> None:
        """Make the learner from the rows at hand; forgets what was learnt."""
        rng = check_random_state(self.random_state)
        seed = draw_seed(rng)
        sample = _rows(inputs, targets, rng.permutation(len(targets))[:SAMPLE_ROWS])
        features = tuple(f"x{index}" for index in range(inputs.shape[1]))
        schema = Schema(features, "y", loss.task, tuple(range(n_outputs)))
        recipe = self._recipe(loss, class_weights, n_rows)
        self.learner_, self.chosen_, _ = recipe.settle(
            Situation(schema, sample, n_rows, 1, "stream", seed, self.precision)
        )
        self.state_ = self.learner_.start()
        self._order_rng = rng

    def _learn_passes(self, inputs: FloatArray, targets: NDArray[Any]) -> None:
        """Learn all rows several times, in a new random order each time or as they come."""
        for _ in range(self.passes):
            order = self._order_rng.permutation(len(targets)) if self.shuffle else np.arange(len(targets))
            self._learn(inputs, targets, order)

    def _learn(self, inputs: FloatArray, targets: NDArray[Any], order: NDArray[np.int64] | None = None) -> None:
        """Learn rows once, in some order or as they come; what was learnt before is kept if this fails."""
        order = np.arange(len(targets)) if order is None else order
        state, n_threads = self.state_, effective_n_jobs(self.n_jobs)
        for start in range(0, len(order), CHUNK_ROWS):
            rows = _rows(inputs, targets, order[start : start + CHUNK_ROWS])
            state = self.learner_.learn(state, rows, n_threads)
        self.state_ = state

    def _scores(self, X: ArrayLike) -> FloatArray:
        """Scores (rows,) for one output, (rows, n_outputs) for several."""
        check_is_fitted(self)
        with _refused_if_too_large():
            inputs = validate_data(self, X, dtype=self.learner_.precision, reset=False)
        return self.learner_.predictor(self.state_).scores(inputs, effective_n_jobs(self.n_jobs))


def _refused_if_too_large() -> np.errstate:
    """What is too large for float32 becomes infinite without a warning: scikit-learn then refuses it."""
    return np.errstate(over="ignore", invalid="ignore")


def _rows(inputs: FloatArray, targets: NDArray[Any], chosen: NDArray[np.int64]) -> Rows:
    return Rows(inputs[chosen], np.asarray(targets[chosen], dtype=np.float64))
