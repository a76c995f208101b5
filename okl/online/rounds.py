"""What shards do in a round of mix or sum, and how the caller puts the parts together, in shard order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.errors import DivergedError
from okl.execution.protocol import Rows
from okl.online.learner import LinearLearner
from okl.online.progress import Progress
from okl.online.slices import round_rows
from okl.online.weights import Weights
from okl.store.dataset import Dataset, Shard
from okl.store.order import Order
from okl.types import FloatArray

ADAGRAD_EPSILON = 1e-8


@dataclass(frozen=True, eq=False)
class RoundTask:
    """What goes down to the shards each round.

    learned : the state to start from, as the learner forks it; its progress is for the running baseline
    seed : of the run and the pass; part : (round, rounds) of the pass
    """

    learned: Any
    seed: tuple[int, ...]
    part: tuple[int, int]


@dataclass(frozen=True, eq=False)
class RoundWork:
    """What every round of a run has in common; sent to the workers once."""

    data: Dataset
    learner: Any
    order: Order

    def rows(self, shard: Shard, task: RoundTask) -> Rows:
        """The rows of a shard that take part in a round."""
        precision = self.learner.precision
        return round_rows(self.data, shard, self.order, task.seed, task.part, precision)


@dataclass(frozen=True, eq=False)
class LearnWork(RoundWork):
    """mix: learn a shard's rows one by one, from the state given."""

    def __call__(self, shard: Shard, task: RoundTask) -> Any:
        """The state after the shard's rows."""
        return self.learner.learn(task.learned, self.rows(shard, task))


@dataclass(frozen=True, eq=False)
class GradientWork(RoundWork):
    """sum: add up the subgradients of a shard's rows at the given weights."""

    def __call__(self, shard: Shard, task: RoundTask) -> Gradient:
        """The shard's part of the sum."""
        return Gradient.of(self.learner, task.learned.last, self.rows(shard, task))


@dataclass(frozen=True, eq=False)
class AdaGrad:
    """Sum of squared mean subgradients so far, (n_outputs, n_columns) float64: each coordinate's step shrinks with it.

    Source: Duchi, Hazan & Singer, JMLR 12, 2011, Figure 1 (diagonal matrix).
    """

    squares: NDArray[np.float64]

    @classmethod
    def start(cls, n_outputs: int, n_columns: int) -> AdaGrad:
        """Nothing seen yet."""
        return cls(np.zeros((n_outputs, n_columns)))


@dataclass(frozen=True, eq=False)
class Gradient:
    """Subgradients of some rows at fixed weights, added up.

    gradient : (n_outputs, n_columns) float64; progress : rows, errors, class counts and target sum of these rows
    target_squares : sum of squared targets
    """

    gradient: NDArray[np.float64]
    progress: Progress
    target_squares: float

    @classmethod
    def of(cls, learner: LinearLearner, last: FloatArray, rows: Rows) -> Gradient:
        """Of some rows, at weights last (n_outputs, n_columns)."""
        summed = learner.gradient(last, rows)
        counts = np.zeros(len(learner.start().progress.class_counts), dtype=np.int64)
        if learner.loss.task != "regression":
            index = rows.targets > 0 if learner.loss.task == "binary" else rows.targets
            counts = np.bincount(index.astype(np.int64), minlength=len(counts))
        progress = replace(
            summed.progress,
            class_counts=tuple(int(count) for count in counts),
            target_sum=float(np.sum(rows.targets)) if learner.loss.task == "regression" else 0.0,
        )
        return cls(summed.gradient, progress, float(np.sum(rows.targets**2)))

    def step(
        self, learner: LinearLearner, weights: Weights, optimiser: AdaGrad | None, number: int
    ) -> tuple[Weights, AdaGrad | None]:
        """Step `number` (from 1) along the mean subgradient: plain, or with AdaGrad's step a coordinate.

        Step t counts t times in the average of the weights: early ones, far from the end, count little.

        Raises
        ------
        DivergedError : the weights are no longer finite
        """
        rows = self.progress.rows
        if rows == 0:
            return weights, optimiser
        mean = self.gradient / rows
        if optimiser is not None:
            optimiser = AdaGrad(optimiser.squares + mean**2)
            mean = mean / (np.sqrt(optimiser.squares) + ADAGRAD_EPSILON)
        with np.errstate(over="ignore", invalid="ignore"):  # told below, in a sentence
            last = (weights.last - learner.step_size * mean).astype(weights.last.dtype)
        if not np.isfinite(last).all():
            raise DivergedError(
                f"After {weights.progress.rows + rows:,} rows the weights are no longer finite with "
                f"step_size = {learner.step_size:g}. Use a smaller one, such as {learner.step_size / 10:g}."
            )
        progress = weights.progress.plus(self._with_baseline(weights.progress))
        total = weights.summed + number * last.astype(np.float64)
        return Weights(last, total, weights.n_sampled + number, progress), optimiser

    def _with_baseline(self, before: Progress) -> Progress:
        """The errors on these rows of the majority class, or the mean, of the rows before."""
        mine = self.progress
        if mine.task == "regression":
            mean = before.target_sum / before.rows if before.rows else 0.0
            errors = self.target_squares - 2.0 * mean * mine.target_sum + mine.rows * mean**2
            return replace(mine, baseline_squared_error=max(0.0, errors))
        counts = before.class_counts
        # the same rule for ties as the compiled learner: +1 of two classes, the first of several
        majority = int(counts[1] >= counts[0]) if mine.task == "binary" else int(np.argmax(counts))
        return replace(mine, baseline_mistakes=mine.rows - mine.class_counts[majority])


def add_gradients(parts: list[Gradient]) -> Gradient:
    """Add the parts up in the order given."""
    total = parts[0]
    for part in parts[1:]:
        total = Gradient(
            total.gradient + part.gradient,
            total.progress.plus(part.progress),
            total.target_squares + part.target_squares,
        )
    return total
