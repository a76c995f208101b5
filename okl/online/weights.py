"""What evolves while rows are learnt one by one: weights, their average, and how the predictions did on the way."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import aligned_empty
from okl.compiled.updates import (
    BASELINE_MISTAKES,
    BASELINE_SQUARED_ERROR,
    MISTAKES,
    ROWS,
    SAMPLED,
    SQUARED_ERROR,
    TARGET,
    UPDATES,
    Learnt,
)
from okl.types import FloatArray, Task

SAMPLE_EVERY = 16  # rows between two samples of the weights for their average; each costs as much as a step


@dataclass(frozen=True)
class Progress:
    """Errors of predictions that were made before each row was learnt, and of a predictor that ignores the inputs.

    task : decides which errors are counted
    rows, updates : rows seen, and how many of them changed the weights
    mistakes, baseline_mistakes : of the learner, and of the majority class so far (+1 or the first class on a tie)
    squared_error, baseline_squared_error : sums in squared units of the scaled target, of the learner and of the mean
        of the targets so far (0 before the first)
    class_counts : rows of each class, the negative one first; target_sum : sum of scaled targets
    """

    task: Task
    rows: int = 0
    updates: int = 0
    mistakes: int = 0
    baseline_mistakes: int = 0
    squared_error: float = 0.0
    baseline_squared_error: float = 0.0
    class_counts: tuple[int, ...] = ()
    target_sum: float = 0.0

    @property
    def error(self) -> float:
        """Progressive mistake rate, or mean squared error in scaled target units; NaN before the first row."""
        return self._mean(self.squared_error if self.task == "regression" else self.mistakes)

    @property
    def baseline_error(self) -> float:
        """The same of the majority class or the mean target so far; NaN before the first row."""
        return self._mean(self.baseline_squared_error if self.task == "regression" else self.baseline_mistakes)

    def plus(self, other: Progress) -> Progress:
        """Both together, for rows that were learnt apart."""
        return self._combined(other, 1)

    def since(self, earlier: Progress) -> Progress:
        """What came after an earlier progress."""
        return self._combined(earlier, -1)

    def _mean(self, total: float) -> float:
        return total / self.rows if self.rows else float("nan")

    def _combined(self, other: Progress, sign: int) -> Progress:
        pairs = zip(self.class_counts, other.class_counts, strict=True)
        return Progress(
            task=self.task,
            rows=self.rows + sign * other.rows,
            updates=self.updates + sign * other.updates,
            mistakes=self.mistakes + sign * other.mistakes,
            baseline_mistakes=self.baseline_mistakes + sign * other.baseline_mistakes,
            squared_error=self.squared_error + sign * other.squared_error,
            baseline_squared_error=self.baseline_squared_error + sign * other.baseline_squared_error,
            class_counts=tuple(mine + sign * theirs for mine, theirs in pairs),
            target_sum=self.target_sum + sign * other.target_sum,
        )


@dataclass(frozen=True, eq=False)
class Weights:
    """The state of a linear learner: a value that no method writes into.

    last : (n_outputs, n_columns), in the map's precision, after the last row
    total : the same in float64, the sum of the weights after every 16th row since learning began, the t-th t times
    n_sampled : how many weights total adds up, 1 + 2 + ...; progress : how the predictions did
    """

    last: FloatArray
    total: NDArray[np.float64]
    n_sampled: int
    progress: Progress

    @property
    def averaged(self) -> FloatArray:
        """Mean of the sampled weights, later ones counting more, (n_outputs, n_columns); last before 16 rows.

        Source: Lacoste-Julien, Schmidt & Bach, arXiv 1212.2002, 2012, equation (5).
        """
        if self.n_sampled == 0:
            return self.last
        return (self.total / self.n_sampled).astype(self.last.dtype)

    def without_average(self) -> Weights:
        """The same weights, with an average that begins afresh."""
        return replace(self, total=np.zeros_like(self.total), n_sampled=0)


def learnt_from(weights: Weights) -> Learnt:
    """Copies of everything that learning writes into."""
    progress = weights.progress
    last = aligned_empty(weights.last.shape, weights.last.dtype)
    last[...] = weights.last
    counts = np.zeros(5, dtype=np.int64)
    counts[[ROWS, MISTAKES, BASELINE_MISTAKES]] = progress.rows, progress.mistakes, progress.baseline_mistakes
    counts[[UPDATES, SAMPLED]] = progress.updates, weights.n_sampled
    sums = np.zeros(3)
    sums[[SQUARED_ERROR, BASELINE_SQUARED_ERROR]] = progress.squared_error, progress.baseline_squared_error
    sums[TARGET] = progress.target_sum
    return Learnt(last, weights.total.copy(), counts, sums, np.array(progress.class_counts, dtype=np.int64))


def weights_from(learnt: Learnt, task: Task) -> Weights:
    """The value that learnt, which is not written into any more, has become."""
    counts, sums = learnt.counts, learnt.sums
    progress = Progress(
        task=task,
        rows=int(counts[ROWS]),
        updates=int(counts[UPDATES]),
        mistakes=int(counts[MISTAKES]),
        baseline_mistakes=int(counts[BASELINE_MISTAKES]),
        squared_error=float(sums[SQUARED_ERROR]),
        baseline_squared_error=float(sums[BASELINE_SQUARED_ERROR]),
        class_counts=tuple(int(count) for count in learnt.class_counts),
        target_sum=float(sums[TARGET]),
    )
    return Weights(learnt.weights, learnt.total, int(counts[SAMPLED]), progress)
