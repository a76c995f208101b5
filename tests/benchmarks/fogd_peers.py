"""The compared learners: okl's, and scikit-learn's RBFSampler with SGDClassifier; training is timed."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import SGDClassifier

from okl.data.execution import Rows
from okl.features.fourier import FourierFeatures, draw_fourier_map
from okl.foundation.types import Precision
from okl.kernels import Gaussian
from okl.losses import Hinge
from okl.solvers.online.linear import LinearLearner

BATCH_ROWS = 256
STEP_SIZES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
TUNING_ROWS = 16_384


class Run(NamedTuple):
    """seconds of learning; error: progressive mistake rate; updates: share of rows that changed the weights."""

    seconds: float
    error: float
    updates: float


Peer = Callable[[Rows, float], Run]


def okl_peer(drawn: FourierFeatures, n_threads: int) -> Peer:
    """Return okl's learner, exact row by row; it counts its mistakes during training."""

    def run(rows: Rows, step_size: float) -> Run:
        learner = LinearLearner(drawn, Hinge(), step_size)
        start = perf_counter()
        progress = learner.learn(learner.start(), rows, n_threads).progress
        return Run(perf_counter() - start, progress.error, progress.updates / progress.rows)

    return run


def learn_in_batches(feature_map: RBFSampler | Nystroem, rows: Rows, step_size: float) -> Run:
    """Learn with SGDClassifier on a fitted map in batches of 256 rows; predicting each batch first is not timed."""
    model = SGDClassifier(
        loss="hinge", penalty=None, learning_rate="constant", eta0=step_size, fit_intercept=False, shuffle=False
    )
    seconds, mistakes = 0.0, 0
    for first in range(0, len(rows.targets), BATCH_ROWS):
        part = slice(first, first + BATCH_ROWS)
        start = perf_counter()
        features = feature_map.transform(rows.inputs[part])
        seconds += perf_counter() - start
        predictions = model.predict(features) if first else np.ones(len(features))
        mistakes += int(np.sum(predictions != rows.targets[part]))
        start = perf_counter()
        model.partial_fit(features, rows.targets[part], classes=(-1.0, 1.0))
        seconds += perf_counter() - start
    return Run(seconds, mistakes / len(rows.targets), float("nan"))


def sklearn_peer(bandwidth: float, n_frequencies: int) -> Peer:
    """Return scikit-learn's learner in batches of 256 rows, with its default threads; predictions are not timed."""

    def run(rows: Rows, step_size: float) -> Run:
        sampler = RBFSampler(gamma=0.5 / bandwidth**2, n_components=2 * n_frequencies, random_state=0)
        sampler.fit(rows.inputs[:2])
        return learn_in_batches(sampler, rows, step_size)

    return run


def draw_map(rows: Rows, bandwidth: float, n_frequencies: int) -> FourierFeatures:
    """Draw okl's map in the precision of the rows."""
    precision: Precision = "float32" if rows.inputs.dtype == np.float32 else "float64"
    return draw_fourier_map(Gaussian(bandwidth), rows.inputs.shape[1], n_frequencies, 0, precision)


def tuned_step_size(peer: Peer, rows: Rows) -> float:
    """Return the step size with the fewest progressive mistakes on the first rows."""
    first = Rows(rows.inputs[:TUNING_ROWS], rows.targets[:TUNING_ROWS])
    return min(STEP_SIZES, key=lambda step_size: peer(first, step_size).error)
