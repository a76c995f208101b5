"""Online learning of a linear model in a fixed feature map: FOGD with a Fourier map, in three modes of execution."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from okl.errors import ConfigError
from okl.execution.protocol import Execution, Rows
from okl.losses import Loss
from okl.online.learner import LinearLearner
from okl.online.maps import MapChoice
from okl.online.rounds import AdaGrad, GradientWork, LearnWork, RoundTask, add_gradients, average_weights
from okl.online.stepsize import race_step_sizes
from okl.online.weights import Weights
from okl.predictors import LinearPredictor
from okl.solvers import Outcome, Standing
from okl.store.dataset import Dataset, Schema
from okl.store.order import Order, Window, mixing_share, plan_windows
from okl.store.reading import sample_rows
from okl.types import Precision

Mode = Literal["stream", "mix", "sum"]
SAMPLE_ROWS = 4096
MOST_STEP_FACTOR = 8
SEGMENTS, MOST_SEGMENT_ROWS, BLOCK_ROWS = 8, 65536, 256


@dataclass(frozen=True, eq=False)
class OnlineState:
    """Everything that evolves; never written into.

    learner : the map, loss and step size that `start` settled on
    weights : what was learnt; squares : AdaGrad's sum of squared gradients (sum mode)
    pass_index, step : the next segment (stream) or round (mix, sum) to learn; steps_per_pass : how many there are
    windows, segments : of all passes (stream): what is read together, and of these (window, rows) what a step learns
    """

    learner: LinearLearner
    weights: Weights
    optimiser: AdaGrad | None
    total_rows: int
    steps_per_pass: int
    pass_index: int = 0
    step: int = 0
    windows: tuple[Window, ...] = ()
    segments: tuple[tuple[int, slice], ...] = ()
    chosen: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OnlineLinear:
    """Predict, suffer, then learn, one row at a time, w <- w - step_size loss'(w'z(x)) z(x); with a Fourier map: FOGD.

    mode "stream" is exact; in "mix" every shard learns its part of the rows from the same weights, which are then
    averaged by rows; in "sum" every shard adds up the subgradients of its part at the same weights and the caller takes
    one step.

    Parameters
    ----------
    maps : the feature map to draw; loss : of the table
    step_size : on the scaled map, None for a choice by a small race
    class_weights : weight of each class's steps, None for 1; average : predict with averaged weights
    passes, order, seed, precision : as in TrainSettings; rounds : of mix and sum, a pass

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 1, 3 and 5.
    """

    maps: MapChoice
    loss: Loss
    step_size: float | None = None
    class_weights: tuple[float, ...] | None = None
    average: bool = True
    passes: int = 1
    order: Order = "shuffle"
    seed: int = 0
    precision: Precision = "float32"
    mode: Mode = "stream"
    rounds: int = 1
    adaptive: bool = True

    def start(self, data: Dataset, execution: Execution) -> OnlineState:
        """Draw the map, settle the step size on a sample, and lay out the passes."""
        schema = data.schema
        if self.loss.task != schema.task:
            raise ConfigError(
                f"The loss {self.loss.name!r} is for a {self.loss.task} task, but {schema.target!r} makes this a "
                f"{schema.task} task. Leave the loss to auto, or ingest with --task {self.loss.task}."
            )
        sample = _mixed(sample_rows(data, "train", SAMPLE_ROWS, self.seed, self.precision), self.seed)
        feature_map, chosen = self.maps.draw(schema, sample.inputs, self.seed, self.precision)
        learner = LinearLearner(feature_map, self.loss, 1.0, schema.n_outputs, self.class_weights, self.average)
        adaptive = self.mode == "sum" and self.adaptive
        if self.step_size is None:
            step_size, why = race_step_sizes(learner, sample, adaptive)
            factor = self._step_factor(data)
            if factor != 1:
                step_size, why = step_size * factor, f"{why}, times {factor} for the mode {self.mode}"
        else:
            step_size, why = self.step_size, "as given"
        learner = replace(learner, step_size=step_size)
        windows = self._windows(data) if self.mode == "stream" else ()
        segments = _segments(windows, data.rows("train"))
        chosen |= {"step_size": step_size, "step_size_reason": why}
        if self.mode == "stream":
            first_pass = windows[: len(windows) // self.passes]
            chosen["mixing_share"] = mixing_share(first_pass) if self.order == "shuffle" else 0.0
        return OnlineState(
            learner=learner,
            weights=learner.start(),
            optimiser=AdaGrad.start(schema.n_outputs, feature_map.n_columns) if adaptive else None,
            total_rows=data.rows("train") * self.passes,
            steps_per_pass=len(segments) // self.passes if self.mode == "stream" else self.rounds,
            windows=windows,
            segments=segments,
            chosen=chosen,
        )

    def advance(self, state: OnlineState, data: Dataset, execution: Execution) -> OnlineState:
        """Learn the next segment (stream) or the next round (mix, sum)."""
        if self.mode == "stream":
            weights, optimiser = self._stream(state, data, execution), state.optimiser
        else:
            weights, optimiser = self._round(state, data, execution)
        wraps = state.step + 1 == state.steps_per_pass
        return replace(
            state,
            weights=weights,
            optimiser=optimiser,
            pass_index=state.pass_index + wraps,
            step=0 if wraps else state.step + 1,
        )

    def finished(self, state: OnlineState) -> Outcome | None:
        """Done after the last pass; a learner that diverges raises DivergedError at once."""
        return Outcome("done", f"{self.passes} pass(es) learnt") if state.pass_index >= self.passes else None

    def standing(self, state: OnlineState) -> Standing:
        """Rows learnt and the progressive errors."""
        progress = state.weights.progress
        return Standing(progress.rows, state.total_rows, progress.error, progress.baseline_error)

    def predictor(self, state: OnlineState) -> LinearPredictor:
        """The map with the averaged weights, or the last ones."""
        weights = state.weights.averaged if self.average else state.weights.last
        return LinearPredictor(state.learner.feature_map, weights)

    def chosen(self, state: OnlineState) -> dict[str, Any]:
        """Bandwidth and step size, each with its reason, and how thorough the shuffle is."""
        return state.chosen

    def _step_factor(self, data: Dataset) -> int:
        """How much longer than on the sample the steps of a mode are; squared residuals would not bear it.

        The average of mix takes 1/shards of the way of each shard; in sum the average of the weights is predicted with,
        which gains from longer steps than the progressive error of the race does (measured: tests/benchmarks/modes.py).
        """
        if self.mode == "stream" or self.loss.task == "regression":
            return 1
        return MOST_STEP_FACTOR if self.mode == "sum" else min(len(data.split("train")), MOST_STEP_FACTOR)

    def _windows(self, data: Dataset) -> tuple[Window, ...]:
        """All passes one after the other, so that reading ahead goes on from one to the next."""
        shards, n_features = data.split("train"), data.schema.n_features
        passes = [plan_windows(shards, n_features, self.order, (self.seed, index)) for index in range(self.passes)]
        return tuple(window for windows in passes for window in windows)

    def _stream(self, state: OnlineState, data: Dataset, execution: Execution) -> Weights:
        weights, step = state.weights, state.pass_index * state.steps_per_pass + state.step
        window, part = state.segments[step]
        for rows in execution.stream(data, state.windows, window, window + 1, self.precision):
            weights = state.learner.learn(weights, Rows(rows.inputs[part], rows.targets[part]), execution.n_threads)
        return weights

    def _round(self, state: OnlineState, data: Dataset, execution: Execution) -> tuple[Weights, AdaGrad | None]:
        weights = state.weights
        task = RoundTask(weights.last, weights.progress, (self.seed, state.pass_index), (state.step, self.rounds))
        shards, number = data.split("train"), state.pass_index * self.rounds + state.step + 1
        if self.mode == "mix":
            learn = LearnWork(data, state.learner, self.order)
            return execution.mix(learn, shards, task, partial(average_weights, weights)), None
        work = GradientWork(data, state.learner, self.order)
        return execution.sum(work, shards, task, add_gradients).step(state.learner, weights, state.optimiser, number)


def _segments(windows: tuple[Window, ...], rows: int) -> tuple[tuple[int, slice], ...]:
    """Windows cut at multiples of a block, SEGMENTS a pass or so: the same bits, and progress within a window."""
    wanted = max(1, min(rows // SEGMENTS, MOST_SEGMENT_ROWS))
    size = -(-wanted // BLOCK_ROWS) * BLOCK_ROWS
    return tuple(
        (index, slice(first, min(first + size, window.rows)))
        for index, window in enumerate(windows)
        for first in range(0, window.rows, size)
    )


def _mixed(sample: Rows, seed: int) -> Rows:
    """The sample in a random order: it comes in that of the data, which may be sorted by class."""
    order = np.random.default_rng((seed, 0x0DDE)).permutation(len(sample.targets))
    return Rows(sample.inputs[order], sample.targets[order])


def balanced_class_weights(schema: Schema) -> tuple[float, ...]:
    """rows / (classes x rows of the class), the convention of scikit-learn, from the TRAIN rows."""
    counts = np.array(schema.class_counts, dtype=np.float64)
    return tuple(float(weight) for weight in counts.sum() / (len(counts) * counts))
