"""The linear learner: predict, suffer, then learn, one row at a time, in any feature map; with a Fourier map, FOGD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_at_least, check_positive
from okl.compiled.blocks import as_compiled
from okl.compiled.counting import MISTAKES, ROWS, SQUARED_ERROR, UPDATES
from okl.compiled.gradients import LOSS, Summed
from okl.compiled.updates import Rule
from okl.errors import ConfigError, DivergedError
from okl.execution.protocol import Rows
from okl.features.protocol import FeatureMap, check_weights
from okl.features.scoring import score_rows
from okl.losses import ExtensionLoss, Loss, ThresholdedHalfSquared
from okl.online.blockwise import learn_rows, sum_rows
from okl.online.checked import check_class_weights, checked_rows
from okl.online.progress import Progress, start_progress
from okl.online.weights import SAMPLE_EVERY, Weights, average_weights, learnt_from, weights_from
from okl.predictors import LinearPredictor
from okl.types import FloatArray, Precision, Task

__all__ = ["GradientSum", "LinearLearner", "Progress", "Weights"]


@dataclass(frozen=True, eq=False)
class GradientSum:
    """Sums over rows at fixed weights.

    gradient : (n_outputs, n_columns) float64, of class_weight * derivative * z; loss : of class_weight * loss
    progress : rows, rows with a derivative (updates), mistakes or squared error; its baseline stays empty
    """

    gradient: NDArray[np.float64]
    loss: float
    progress: Progress


def check_ball(radius: float | None, decaying: bool, loss: Loss) -> None:
    """Raise ConfigError unless a loss may be learnt in a ball of this radius, if any."""
    if radius is None:
        if decaying:
            raise ConfigError("Steps that decay belong to weights in a ball: give a radius, or leave them constant.")
        return
    check_positive("radius", radius)
    if loss.task != "binary" or isinstance(loss, ExtensionLoss):
        raise ConfigError(
            f"radius = {radius:g}, but weights are held in a ball for two classes only, with the hinge or the logistic "
            f"loss; the loss here is {loss.name}. Leave it out."
        )


@dataclass(frozen=True, eq=False)
class LinearLearner:
    """Settings of learning row by row: score f = w'z(x), count the error, then w <- w - step_size c loss'(f) z(x).

    Parameters
    ----------
    feature_map : z; its precision is that of the weights
    loss : of the table; step_size : > 0, on the map's scale
    n_outputs : number of classes for several classes, otherwise 1
    class_weights : c, factor of the step of each class, in label order; None for 1
    average : whether weights are sampled for an average
    radius : of the ball ||w|| <= radius that every step ends in, at its nearest point; None for no ball; two classes
    decaying : whether step t is step_size / sqrt(t), in a ball

    Raises
    ------
    ConfigError : a size, the step size, the class weights or the radius do not fit the loss

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 1, 3 and 5; in a ball, Zinkevich, ICML 2003, section 2.
    """

    feature_map: FeatureMap
    loss: Loss
    step_size: float
    n_outputs: int = 1
    class_weights: tuple[float, ...] | None = None
    average: bool = True
    radius: float | None = None
    decaying: bool = False

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_at_least("n_outputs", self.n_outputs, 2 if self.loss.task == "multiclass" else 1)
        if self.loss.task != "multiclass" and self.n_outputs != 1:
            raise ConfigError(f"n_outputs = {self.n_outputs}, but the loss {self.loss.name!r} takes one output.")
        check_ball(self.radius, self.decaying, self.loss)
        check_class_weights(self.class_weights, self.loss.task, self._n_classes)

    def start(self) -> Weights:
        """Weights of zero, before any row."""
        shape = (self.n_outputs, self.feature_map.n_columns)
        progress = start_progress(self.loss.task, self.n_outputs)
        return Weights(np.zeros(shape, dtype=self.feature_map.precision), None, 0, progress)

    def learn(self, weights: Weights, rows: Rows, n_threads: int = 1) -> Weights:
        """Learn rows in their order, exactly one after the other; the input weights stay as they are.

        Splitting rows into several calls at multiples of 256 rows gives the same bits; so does any number of threads.

        Raises
        ------
        DataError, ConfigError : inputs, targets or weights do not fit the map or the loss
        DivergedError : the weights are no longer finite
        """
        inputs, targets = self._checked(weights.last, rows)
        learnt = learnt_from(weights)
        learn_rows(learnt, self.feature_map, inputs, targets, self.rule, n_threads)
        after = weights_from(learnt, self.loss.task)
        self._check_finite(weights, after)
        return after

    def scores(self, weights: FloatArray, inputs: FloatArray, n_threads: int = 1) -> FloatArray:
        """Scores (rows,) for one output, (rows, n_outputs) for several, of weights (n_outputs, n_columns)."""
        scores = score_rows(self.feature_map, weights, inputs, n_threads)
        return scores[:, 0] if self.n_outputs == 1 else scores

    def predictor(self, weights: Weights) -> LinearPredictor:
        """The map with the averaged weights, or the last ones."""
        return LinearPredictor(self.feature_map, weights.averaged if self.average else weights.last)

    def chosen(self, weights: Weights) -> dict[str, Any]:
        """Nothing: all was settled before."""
        return {}

    def fork(self, weights: Weights) -> Weights:
        """What a shard starts from: the same weights, whose average begins afresh."""
        return weights.without_average()

    def join(self, base: Weights, parts: list[Weights]) -> Weights:
        """The average, by rows, of what shards learnt from fork(base)."""
        return average_weights(base, parts)

    def gradient(self, weights: FloatArray, rows: Rows, n_threads: int = 1) -> GradientSum:
        """Sum of the subgradients of all rows at weights (n_outputs, n_columns); same bits for any number of threads.

        Raises
        ------
        DataError, ConfigError : inputs, targets or weights do not fit the map or the loss
        """
        inputs, targets = self._checked(weights, rows)
        weights = as_compiled(weights, self.feature_map.precision)
        summed = Summed(np.zeros(weights.shape), np.zeros(5, dtype=np.int64), np.zeros(3))
        sum_rows(summed, self.feature_map, weights, inputs, targets, self.rule, n_threads)
        counts, sums = summed.counts, summed.sums
        progress = Progress(
            task=self.loss.task,
            rows=int(counts[ROWS]),
            updates=int(counts[UPDATES]),
            mistakes=int(counts[MISTAKES]),
            squared_error=float(sums[SQUARED_ERROR]),
            class_counts=(0,) * self._n_classes,
        )
        return GradientSum(summed.gradient, float(sums[LOSS]), progress)

    @property
    def task(self) -> Task:
        """That of the loss."""
        return self.loss.task

    @property
    def precision(self) -> Precision:
        """That of the map."""
        return self.feature_map.precision

    @property
    def _n_classes(self) -> int:
        return {"binary": 2, "multiclass": self.n_outputs, "regression": 1}[self.loss.task]

    @property
    def rule(self) -> Rule:
        """How a row changes the weights, as compiled code takes it."""
        class_weights = np.array(self.class_weights or (1.0,) * self._n_classes, dtype=np.float64)
        epsilon = self.loss.epsilon if isinstance(self.loss, ThresholdedHalfSquared) else 0.0
        return Rule(
            self.loss.code,
            float(epsilon),
            float(self.step_size),
            class_weights,
            SAMPLE_EVERY if self.average else 0,
            float(self.radius or 0.0),
            self.decaying,
            self.loss.address if isinstance(self.loss, ExtensionLoss) else 0,
        )

    def _checked(self, weights: FloatArray, rows: Rows) -> tuple[FloatArray, NDArray[np.float64]]:
        check_weights(self.feature_map, weights)
        if len(weights) != self.n_outputs:
            raise ConfigError(f"Weights for {len(weights)} outputs came to a learner of {self.n_outputs}.")
        return checked_rows(rows, self.loss.task, self.feature_map.n_inputs, self.n_outputs, self.feature_map.precision)

    def _check_finite(self, before: Weights, after: Weights) -> None:
        if not np.isfinite(after.last).all():
            raise DivergedError(
                f"Rows {before.progress.rows:,} to {after.progress.rows - 1:,}: the weights are no longer finite with "
                f"step_size = {self.step_size:g}. Use a smaller one, such as {self.step_size / 10:g}."
            )
