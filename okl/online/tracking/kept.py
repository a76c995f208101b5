"""Models kept as they were at the ends of the last few windows of a stream, and how often each is wrong since.

A tracker is soon as good as before where rows change; what it had learnt before is not. And of a model that learns no
more, the rows it is wrong on are as many by chance as they were, if nothing changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from okl.features.protocol import FeatureMap
from okl.features.scoring import score_rows
from okl.online.progress import Progress
from okl.types import FloatArray, Task

MOST_KEPT = 4  # the oldest is judged beside three windows that it did not learn


@dataclass(frozen=True, eq=False)
class Kept:
    """A value that no method writes into; M models, the latest last.

    weights : (M, n_outputs, n_columns)
    limits : (M,), of a regression, scaled target units: a model is wrong on a row that it misses by more; the root mean
        square of what the tracker missed rows by in the window before
    wrong : (M,) int64, rows of the window so far that each is wrong on
    progress : of the tracker when the window began
    """

    weights: FloatArray
    limits: NDArray[np.float64]
    wrong: NDArray[np.int64]
    progress: Progress

    def with_latest(self, weights: FloatArray, progress: Progress) -> Kept:
        """A window ends: its last weights (n_outputs, n_columns) are kept too, the oldest no longer."""
        weights = np.concatenate([self.weights, weights[None]])[-MOST_KEPT:]
        error = progress.since(self.progress).error if progress.task == "regression" else 0.0
        limits = np.append(self.limits, math.sqrt(error))[-MOST_KEPT:]
        return Kept(weights, limits, np.zeros(len(limits), dtype=np.int64), progress)

    def heard(
        self, feature_map: FeatureMap, inputs: FloatArray, targets: NDArray[np.float64], n_threads: int = 1
    ) -> Kept:
        """After more rows of the window; a score that is not finite is wrong."""
        if not len(self.weights):
            return self
        columns = self.weights.reshape(-1, self.weights.shape[-1])
        scores = score_rows(feature_map, columns, inputs, n_threads).reshape(len(inputs), *self.weights.shape[:2])
        return replace(self, wrong=self.wrong + (~_right(self.progress.task, scores, targets, self.limits)).sum(axis=0))


def nothing_kept(n_outputs: int, n_columns: int, dtype: np.dtype[np.floating], progress: Progress) -> Kept:
    """No model yet."""
    return Kept(np.empty((0, n_outputs, n_columns), dtype), np.empty(0), np.zeros(0, dtype=np.int64), progress)


def _right(
    task: Task, scores: FloatArray, targets: NDArray[np.float64], limits: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """(rows, M) of scores (rows, M, n_outputs)."""
    true = targets[:, None]
    if task == "multiclass":
        right = (scores.argmax(axis=2) == true) & np.isfinite(scores).all(axis=2)
    elif task == "regression":
        right = np.abs(scores[:, :, 0] - true) <= limits
    else:
        right = ((scores[:, :, 0] >= 0.0) == (true > 0.0)) & np.isfinite(scores[:, :, 0])
    return np.asarray(right)
