"""The interface of online learners, their progress counters, passes and slices of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from okl.compiled.jit import as_compiled
from okl.data.dataset import Dataset, Schema
from okl.data.execution import Execution, Rows
from okl.data.order import Order, Window, plan_windows
from okl.features.base import FeatureMap, as_inputs
from okl.features.predictors import Predictor
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, DataError, DivergedError
from okl.foundation.types import Doubles, FloatArray, Integers, Mode, Precision, Task
from okl.foundation.validation import check_at_least
from okl.losses import Loss, ThresholdedHalfSquared

# Progress: prediction errors before each row is learned.


@stored("progressive-error", renamed={"squared_gradients": None})
@dataclass(frozen=True)
class Progress:
    """Errors of predictions that were made before each row was learned, and of a predictor that ignores the inputs.

    task : decides which errors are counted; rows, updates : rows seen, and how many of them changed the weights
    mistakes, baseline_mistakes : of the learner, and of the majority class so far (+1 or the first class on a tie)
    squared_error, baseline_squared_error : sums in squared units of the scaled target, of the learner and of the mean
        of the targets so far (0 before the first)
    class_counts : rows of each class, the negative one first; target_sum : sum of scaled targets
    surrogate, stepped_gradients : of learners in a ball: sums of c loss(f) and step ||g||^2, where g is a row's
        gradient of c loss by the weights and c its class weight
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
    stepped_gradients: float = 0.0
    violation: float = 0.0

    @property
    def error(self) -> float:
        """Return the progressive mistake rate, or mean squared error of the scaled target; NaN before the first row."""
        return self._mean(self.squared_error if self.task == "regression" else self.mistakes)

    @property
    def baseline_error(self) -> float:
        """Return the same of the majority class or the mean target so far; NaN before the first row."""
        return self._mean(self.baseline_squared_error if self.task == "regression" else self.baseline_mistakes)

    def plus(self, other: Progress) -> Progress:
        return self._combined(other, 1)

    def since(self, earlier: Progress) -> Progress:
        """Return the progress after an earlier progress."""
        return self._combined(earlier, -1)

    def _mean(self, total: float) -> float:
        return total / self.rows if self.rows else float("nan")

    def _combined(self, other: Progress, sign: int) -> Progress:
        pairs = zip(self.class_counts, other.class_counts, strict=True)
        names = [field.name for field in fields(self) if field.name not in ("task", "class_counts")]
        sums: dict[str, Any] = {name: getattr(self, name) + sign * getattr(other, name) for name in names}
        return replace(self, class_counts=tuple(own + sign * others for own, others in pairs), **sums)


def shares_of_rows(base: Progress, parts: Sequence[Progress]) -> tuple[list[float], Progress]:
    """Return each part's share of the rows learned since base, nothing for no rows, and the progress of all parts."""
    grown = [part.since(base) for part in parts]
    rows, progress = sum(growth.rows for growth in grown), base
    for growth in grown:
        progress = progress.plus(growth)
    return [growth.rows / rows for growth in grown] if rows else [], progress


def start_progress(task: Task, n_outputs: int) -> Progress:
    """Return nothing seen yet; n_outputs : the number of classes for several classes, otherwise 1."""
    return Progress(task, class_counts=(0,) * n_classes_of(task, n_outputs))


def n_classes_of(task: Task, n_outputs: int) -> int:
    """Return the number of classes whose rows are counted, and which may have weights; 1 for a regression."""
    return {"binary": 2, "multiclass": n_outputs, "regression": 1}[task]


# what okl.compiled.sgd counts and sums, at its places; the last place of counts is a learner's own
_COUNTS = ("rows", "mistakes", "baseline_mistakes", "updates")
_SUMS = ("squared_error", "baseline_squared_error", "target_sum", "surrogate", "stepped_gradients")


def progress_arrays(progress: Progress) -> tuple[Integers, Doubles, Integers]:
    """Return the counts, sums and class counts that compiled code changes in place; see okl.compiled.sgd."""
    counts = np.array([*(getattr(progress, name) for name in _COUNTS), 0], dtype=np.int64)
    sums = np.array([getattr(progress, name) for name in _SUMS], dtype=np.float64)
    return counts, sums, np.array(progress.class_counts, dtype=np.int64)


def progress_from(task: Task, counts: Integers, sums: Doubles, class_counts: Integers) -> Progress:
    """Return the value that these arrays hold."""
    values = dict(zip(_COUNTS + _SUMS, counts[:-1].tolist() + sums.tolist(), strict=True))
    return Progress(task=task, class_counts=tuple(class_counts.tolist()), **values)


class LearnerState(Protocol):
    """State of a learner: a picklable value that no method writes into."""

    @property
    def progress(self) -> Progress: ...


State = TypeVar("State", bound=LearnerState)


class RowLearner(Protocol[State]):
    """Frozen settings of learning one row at a time, exactly in the order of the rows."""

    @property
    def task(self) -> Task: ...

    @property
    def precision(self) -> Precision:
        """Return the precision of the inputs."""

    def start(self) -> State:
        """Return nothing learned yet."""

    def learn(self, state: State, rows: Rows, n_threads: int = 1) -> State:
        """Train on rows in their order, without changing the given state.

        Several calls whose rows end at multiples of 256 give the same bits as one; so does any number of threads.

        Raises DataError : inputs or targets do not fit; DivergedError : what was learned is no longer finite
        """

    def predictor(self, state: State) -> Predictor:
        """Return the predictor of the learned state."""

    def chosen(self, state: State) -> dict[str, Any]:
        """Return the values chosen while learning (support vectors, rank, leader), each with its reason, as text."""


class LossLearner:
    """Base of learners by steps along a loss, in a feature map."""

    loss: Loss
    feature_map: FeatureMap

    @property
    def task(self) -> Task:
        return self.loss.task

    @property
    def precision(self) -> Precision:
        return self.feature_map.precision


# Passes: windows and their segments.

SEGMENTS, MOST_SEGMENT_ROWS, BLOCK_ROWS = 8, 262144, 256  # starting threads takes half a millisecond a segment

Segment = tuple[int, slice]
"""Index of a window, and which of its rows."""


def windows_of(data: Dataset, order: Order, n_passes: int, seed: int) -> tuple[Window, ...]:
    """Return all passes one after the other, so that reading ahead continues from one to the next."""
    shards, width = data.split("train"), data.row_width
    passes = [plan_windows(shards, width, order, (seed, index)) for index in range(n_passes)]
    return tuple(window for windows in passes for window in windows)


def segments_of(windows: tuple[Window, ...], rows: int, segments: int) -> tuple[Segment, ...]:
    """Cut windows at multiples of a block into about so many segments a pass (of `rows`), with the same bits."""
    wanted = max(1, min(rows // segments, MOST_SEGMENT_ROWS))
    size = -(-wanted // BLOCK_ROWS) * BLOCK_ROWS
    return tuple(
        (index, slice(first, min(first + size, window.rows)))
        for index, window in enumerate(windows)
        for first in range(0, window.rows, size)
    )


def checked_rows(
    rows: Rows, task: Task, n_inputs: int, n_outputs: int, precision: Precision
) -> tuple[FloatArray, Doubles]:
    """Return C-contiguous inputs in the precision and float64 targets (-1 or +1, index, number), or DataError."""
    inputs = as_inputs(rows.inputs, precision)
    if inputs.ndim != 2 or inputs.shape[1] != n_inputs:
        raise DataError(
            f"Inputs have shape {inputs.shape}; the learner expects (rows, {n_inputs}). Give the "
            "columns that it was built for."
        )
    return inputs, checked_targets(rows.targets, inputs.shape[0], task, n_outputs)


def checked_targets(values: Any, n_rows: int, task: Task, n_outputs: int) -> Doubles:
    """Return targets (rows,) float64, checked as in `checked_rows`, or DataError."""
    targets: Doubles = as_compiled(values, np.float64)
    if targets.shape != (n_rows,):
        raise DataError(f"Targets have shape {targets.shape} for {n_rows} rows; expected one target for each row.")
    if task == "binary" and not (np.abs(targets) == 1.0).all():
        raise DataError(f"Two classes are -1 and +1 in memory, but a target is {targets[np.abs(targets) != 1.0][0]}.")
    if task == "multiclass":
        # compiled code uses a target as an index: a wrong one would write into foreign memory
        wrong = ~((targets >= 0) & (targets < n_outputs) & (targets == np.floor(targets)))
        if wrong.any():
            raise DataError(f"Classes are 0 to {n_outputs - 1} in memory, but a target is {targets[wrong][0]}.")
    return targets


def check_outputs(loss: Loss, n_outputs: int, class_weights: tuple[float, ...] | None) -> None:
    """Raise ConfigError unless the number of outputs and the class weights (n_classes,) fit the loss."""
    check_at_least("n_outputs", n_outputs, 2 if loss.task == "multiclass" else 1)
    if loss.task != "multiclass" and n_outputs != 1:
        raise ConfigError(f"n_outputs = {n_outputs}; the loss {loss.name!r} has one output.")
    if class_weights is None:
        return
    if loss.task == "regression":
        raise ConfigError("class_weights are set, but a regression has no classes. Remove them.")
    if len(class_weights) != (n_classes := n_classes_of(loss.task, n_outputs)):
        raise ConfigError(f"{len(class_weights)} class weights are set for {n_classes} classes.")
    # a negative one would walk uphill
    if not all(np.isfinite(weight) and weight >= 0 for weight in class_weights):
        raise ConfigError(f"class_weights = {class_weights}; expected finite numbers of at least 0.")


def loss_numbers(loss: Loss, n_outputs: int, class_weights: tuple[float, ...] | None) -> tuple[int, float, Doubles]:
    """Return a loss for compiled code: its code, its epsilon, 0 for none, and the weight of each class, 1 for None."""
    epsilon = float(loss.epsilon) if isinstance(loss, ThresholdedHalfSquared) else 0.0
    weights = class_weights or (1.0,) * n_classes_of(loss.task, n_outputs)
    return loss.code, epsilon, np.array(weights, dtype=np.float64)


# Step sizes: a race on a sample.

PLAIN_STEPS = tuple(2.0**k for k in range(-6, 5))


def progressive_error(learner: RowLearner[Any], sample: Rows) -> float:
    """Return the error of predictions while learning a sample; infinite where the learner diverges."""
    try:
        return float(learner.learn(learner.start(), sample).progress.error)
    except DivergedError:
        return np.inf


def race_reason(steps: Sequence[float], sample: Rows) -> str:
    """Return why one of these step sizes was chosen on a sample, as text."""
    return f"least progressive error of {len(steps)} step sizes on {len(sample.targets):,} sampled rows"


def least_error(steps: Sequence[float], errors: Sequence[float], sample: Rows) -> tuple[float, str]:
    """Return the step size of least error, the first on a tie, and why; DivergedError if all diverge."""
    best = int(np.argmin(errors))
    if not np.isfinite(errors[best]):
        raise DivergedError(
            f"Every step size down to {min(steps):g} diverges on a sample of {len(sample.targets):,} rows. "
            "Scale the inputs and the target, or set a smaller step size."
        )
    return steps[best], race_reason(steps, sample)


@dataclass(frozen=True, eq=False)
class BuildContext:
    """Context in which a learner is built.

    schema : of the data; sample : training rows in a random order, at most 4096 of them
    rows : training rows of a pass, None for a stream of unknown length; n_shards : that hold them
    mode, seed, precision : of the run
    data, execution : all of the rows and where to go over them, None for rows in memory
    """

    schema: Schema
    sample: Rows
    rows: int | None
    n_shards: int
    mode: Mode
    seed: int
    precision: Precision
    data: Dataset | None = None
    execution: Execution | None = None


@stored("adagrad")
@dataclass(frozen=True, eq=False)
class AdaGrad:
    """Sum of squared mean subgradients so far, (n_outputs, n_columns) float64: each coordinate's step shrinks with it.

    Source: Duchi, Hazan & Singer, JMLR 12, 2011, Figure 1 (diagonal matrix).
    """

    squares: Doubles

    @classmethod
    def start(cls, n_outputs: int, n_columns: int) -> AdaGrad:
        return cls(np.zeros((n_outputs, n_columns)))


class BuiltLearner(NamedTuple):
    """Learner built for a context.

    learner : the learner; chosen : what was chosen from the sample, each with its reason: for people
    optimiser : that steps in the mode sum; None for plain steps
    """

    learner: RowLearner[Any]
    chosen: dict[str, Any]
    optimiser: AdaGrad | None = None


class LearnerFactory(Protocol):
    """Frozen configuration of one kind of learner."""

    @property
    def name(self) -> str:
        """Return the name for `--solver`."""

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Return the modes in which it can train."""

    def build(self, context: BuildContext) -> BuiltLearner:
        """Return the learner for the data at hand. Raises ConfigError (the configuration does not fit the data)."""


def check_loss(loss: Loss, schema: Schema) -> None:
    """Raise ConfigError unless the loss is for the task of the data."""
    if loss.task != schema.task:
        raise ConfigError(
            f"The loss {loss.name!r} is for {loss.task} tasks, but {schema.target!r} makes this a {schema.task} task. "
            f"Use another loss or solver, or ingest with --task {loss.task}."
        )


def balanced_class_weights(schema: Schema) -> tuple[float, ...]:
    """Return rows / (classes x rows of the class), as in scikit-learn, from the training rows."""
    counts = np.array(schema.class_counts, dtype=np.float64)
    return tuple(float(weight) for weight in counts.sum() / (len(counts) * counts))
