"""The solver that runs any online learner in the modes stream, mix and sum."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from okl.data.dataset import Dataset
from okl.data.execution import Execution, Rows
from okl.data.order import Order, Window, largest_window_share
from okl.data.reading import sample_rows
from okl.features.predictors import Predictor
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError
from okl.foundation.types import Mode, Precision
from okl.solvers.base import Outcome, SolverProgress
from okl.solvers.online import base as online
from okl.solvers.online.constrained import ConstrainedLearner
from okl.solvers.online.linear import PlainGradient, RoundTask, RoundWork, add_gradients
from okl.solvers.online.tracking import TrackingLearner, TrackingState

SAMPLE_ROWS = 4096


@stored("online-state")
@dataclass(frozen=True, eq=False)
class OnlineState:
    """Everything that evolves; never written into.

    learner : a RowLearner, built by `start`; learned : its state, with its progress
    optimiser : AdaGrad's sum of squared gradients (mode sum)
    pass_index, step : the next segment (stream) or round (mix, sum) to learn; steps_per_pass : how many there are
    windows, segments : of all passes (stream): what is read together, and of these (window, rows) what a step learns
    rounds_before : of mix and sum, on the data that were learned before these
    """

    learner: Any
    learned: Any
    optimiser: online.AdaGrad | None
    total_rows: int
    steps_per_pass: int
    pass_index: int = 0
    step: int = 0
    windows: tuple[Window, ...] = ()
    segments: tuple[online.Segment, ...] = ()
    rounds_before: int = 0
    chosen: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OnlineSolver:
    """Learn rows once (or in several passes), each predicted before it is learned.

    mode "stream" is exact; in "mix" every shard learns its part of the rows from the same state, and what came out is
    joined; in "sum" every shard adds up the subgradients of its part at the same weights and the caller takes one step.

    factory : which learner; passes, order, seed, precision : as in TrainSettings; rounds : of mix and sum, a pass
    segments : that a pass is cut into at least, as far as there are rows (stream); the same bits for any
    """

    factory: online.LearnerFactory
    passes: int = 1
    order: Order = "shuffle"
    seed: int = 0
    precision: Precision = "float32"
    mode: Mode = "stream"
    rounds: int = 1
    segments: int = online.SEGMENTS

    @property
    def follows(self) -> bool:
        """Return whether rows come once and in their own order, so that drift can be detected."""
        return self.mode == "stream" and self.order == "stored" and self.passes == 1

    def start(self, data: Dataset, execution: Execution) -> OnlineState:
        """Build the learner from a sample, and plan the passes; ConfigError if it does not fit."""
        schema, factory = data.schema, self.factory
        check_mode(factory, self.mode)
        sample = _mixed(sample_rows(data, "train", SAMPLE_ROWS, self.seed, self.precision), self.seed)
        rows, n_shards = data.rows("train"), len(data.split("train"))
        context = online.BuildContext(
            schema, sample, rows, n_shards, self.mode, self.seed, self.precision, data, execution
        )
        learner, chosen, optimiser = factory.build(context)
        state = self._laid_out(OnlineState(learner, learner.start(), optimiser, 0, 0), data)
        if self.mode == "stream":
            first_pass = state.windows[: len(state.windows) // self.passes]
            chosen = chosen | {"mixing_share": largest_window_share(first_pass) if self.order == "shuffle" else 0.0}
        return replace(state, chosen=chosen)

    def continued(self, state: OnlineState, data: Dataset) -> OnlineState:
        """Continue with other rows: the same learner and state, with passes over these rows alone.

        Rows, errors and steps are counted on. In stored order, what is learned of A and then of B is what is learned of
        both as one data set, bit for bit, where the training rows of A and of its row groups are multiples of 256;
        otherwise blocks of rows start elsewhere, and last bits may differ.

        state : finished, or not started; data : of the same inputs and labels, scaled by the same statistics
        Raises ConfigError : the state is in the middle of a pass
        """
        if (state.pass_index, state.step) != (0, 0) and self.finished(state) is None:
            raise ConfigError("A run can continue with other rows only after it has finished its own; it has not.")
        rounds = 0 if self.mode == "stream" else state.rounds_before + state.pass_index * state.steps_per_pass
        return self._laid_out(replace(state, pass_index=0, step=0, rounds_before=rounds), data)

    def _laid_out(self, state: OnlineState, data: Dataset) -> OnlineState:
        """Return the passes over the rows of a data set, of which nothing is learned yet."""
        rows = data.rows("train")
        windows: tuple[Window, ...] = ()
        if self.mode == "stream":
            windows = online.windows_of(data, self.order, self.passes, self.seed)
        segments = online.segments_of(windows, rows, self.segments)
        progress: online.Progress = state.learned.progress
        return replace(
            state,
            total_rows=progress.rows + rows * self.passes,
            steps_per_pass=len(segments) // self.passes if self.mode == "stream" else self.rounds,
            windows=windows,
            segments=segments,
        )

    def advance(self, state: OnlineState, data: Dataset, execution: Execution) -> OnlineState:
        if self.mode == "stream":
            learned, optimiser = self._stream(state, data, execution), state.optimiser
        else:
            learned, optimiser = self._round(state, data, execution)
        wraps = state.step + 1 == state.steps_per_pass
        return replace(
            state,
            learned=learned,
            optimiser=optimiser,
            pass_index=state.pass_index + wraps,
            step=0 if wraps else state.step + 1,
        )

    def finished(self, state: OnlineState) -> Outcome | None:
        """Done after the last pass; a learner that diverges raises DivergedError at once."""
        return Outcome("done", f"{self.passes} pass(es) learnt") if state.pass_index >= self.passes else None

    def progress(self, state: OnlineState) -> SolverProgress:
        progress: online.Progress = state.learned.progress
        return SolverProgress(
            progress.rows,
            state.total_rows,
            progress.error,
            progress.baseline_error,
            progress.surrogate,
            progress.stepped_gradients,
            tuple(state.learned.kept.wrong.tolist()) if isinstance(state.learned, TrackingState) else (),
            progress.violation if isinstance(state.learner, ConstrainedLearner) else None,
        )

    def predictor(self, state: OnlineState) -> Predictor:
        predictor: Predictor = state.learner.predictor(state.learned)
        return predictor

    def chosen(self, state: OnlineState) -> dict[str, Any]:
        choices: dict[str, Any] = state.learner.chosen(state.learned)
        return state.chosen | choices

    def _stream(self, state: OnlineState, data: Dataset, execution: Execution) -> Any:
        learned, step = state.learned, state.pass_index * state.steps_per_pass + state.step
        window, part = state.segments[step]
        for rows in execution.stream(data, state.windows, window, window + 1, self.precision):
            learned = state.learner.learn(learned, Rows(rows.inputs[part], rows.targets[part]), execution.n_threads)
        return learned

    def _round(self, state: OnlineState, data: Dataset, execution: Execution) -> tuple[Any, online.AdaGrad | None]:
        learner, learned = state.learner, state.learned
        part = (state.step, self.rounds)
        task = RoundTask(learner.shard_start(learned), (self.seed, state.pass_index), part)
        shards = data.split("train")
        number = state.rounds_before + state.pass_index * self.rounds + state.step + 1
        work = RoundWork(data, learner, self.order, sums=self.mode == "sum")
        if self.mode == "mix":
            return execution.mix(work, shards, task, lambda parts: learner.average_shards(learned, parts)), None
        gradient: PlainGradient = execution.sum(work, shards, task, add_gradients)
        return gradient.step(learner, learned, state.optimiser, number)


def with_current_snapshot(state: OnlineState) -> OnlineState:
    """Return the state at the end of a window, with a snapshot of the model for the drift test if it tracks."""
    learner = state.learner
    return replace(state, learned=learner.keep(state.learned)) if isinstance(learner, TrackingLearner) else state


def check_mode(factory: online.LearnerFactory, mode: Mode) -> None:
    """Raise ConfigError unless the factory can learn in a mode."""
    if mode not in factory.modes:
        with_limit = remedy = ""
        if getattr(factory, "constraints", ()):
            with_limit, remedy = " with constraints", ", or remove the constraints"
        elif getattr(factory, "radius", None) is not None:
            with_limit, remedy = " with a radius", ", or remove the radius"
        raise ConfigError(
            f"mode = {mode!r}, but {factory.name}{with_limit} supports {' and '.join(factory.modes)} only. "
            f"Set --mode {factory.modes[0]}{remedy}."
        )


def _mixed(sample: Rows, seed: int) -> Rows:
    """Return the sample in a random order: it comes in that of the data, which may be sorted by class."""
    order = np.random.default_rng((seed, 0x0DDE)).permutation(len(sample.targets))
    return Rows(sample.inputs[order], sample.targets[order])
