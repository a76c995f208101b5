"""How the predictions of an online learner did on the way, each made before its row was learnt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.compiled.counting import (
    BASELINE_MISTAKES,
    BASELINE_SQUARED_ERROR,
    MISTAKES,
    ROWS,
    SQUARED_ERROR,
    SQUARED_GRADIENTS,
    STEPPED_GRADIENTS,
    SURROGATE,
    TARGET,
    UPDATES,
)
from okl.types import Task


@dataclass(frozen=True)
class Progress:
    """Errors of predictions that were made before each row was learnt, and of a predictor that ignores the inputs.

    task : decides which errors are counted
    rows, updates : rows seen, and how many of them changed the weights
    mistakes, baseline_mistakes : of the learner, and of the majority class so far (+1 or the first class on a tie)
    squared_error, baseline_squared_error : sums in squared units of the scaled target, of the learner and of the mean
        of the targets so far (0 before the first)
    class_counts : rows of each class, the negative one first; target_sum : sum of scaled targets
    surrogate, squared_gradients, stepped_gradients : of learners in a ball: sums of c loss(f), ||g||^2 and
        step ||g||^2, where g is a row's gradient of c loss by the weights and c its class weight
    violation : under constraints: sum over rows of the length of what they were outside their limits, in their units
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
    surrogate: float = 0.0
    squared_gradients: float = 0.0
    stepped_gradients: float = 0.0
    violation: float = 0.0

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
            surrogate=self.surrogate + sign * other.surrogate,
            squared_gradients=self.squared_gradients + sign * other.squared_gradients,
            stepped_gradients=self.stepped_gradients + sign * other.stepped_gradients,
            violation=self.violation + sign * other.violation,
        )


def start_progress(task: Task, n_outputs: int) -> Progress:
    """Nothing seen yet; n_outputs : the number of classes for several classes, otherwise 1."""
    n_classes = {"binary": 2, "multiclass": n_outputs, "regression": 1}[task]
    return Progress(task, class_counts=(0,) * n_classes)


def progress_arrays(progress: Progress) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """The counts, sums and class counts that compiled code changes in place; see okl.compiled.counting."""
    counts, sums = np.zeros(5, dtype=np.int64), np.zeros(6)
    counts[[ROWS, MISTAKES, BASELINE_MISTAKES]] = progress.rows, progress.mistakes, progress.baseline_mistakes
    counts[UPDATES] = progress.updates
    sums[[SQUARED_ERROR, BASELINE_SQUARED_ERROR]] = progress.squared_error, progress.baseline_squared_error
    sums[TARGET], sums[SURROGATE] = progress.target_sum, progress.surrogate
    sums[[SQUARED_GRADIENTS, STEPPED_GRADIENTS]] = progress.squared_gradients, progress.stepped_gradients
    return counts, sums, np.array(progress.class_counts, dtype=np.int64)


def progress_from(
    task: Task, counts: NDArray[np.int64], sums: NDArray[np.float64], class_counts: NDArray[np.int64]
) -> Progress:
    """The value that these arrays hold."""
    return Progress(
        task=task,
        rows=int(counts[ROWS]),
        updates=int(counts[UPDATES]),
        mistakes=int(counts[MISTAKES]),
        baseline_mistakes=int(counts[BASELINE_MISTAKES]),
        squared_error=float(sums[SQUARED_ERROR]),
        baseline_squared_error=float(sums[BASELINE_SQUARED_ERROR]),
        class_counts=tuple(int(count) for count in class_counts),
        target_sum=float(sums[TARGET]),
        surrogate=float(sums[SURROGATE]),
        squared_gradients=float(sums[SQUARED_GRADIENTS]),
        stepped_gradients=float(sums[STEPPED_GRADIENTS]),
    )
