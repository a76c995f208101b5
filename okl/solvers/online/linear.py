"""Linear learners in a feature map: weights, row and block updates, rounds over shards."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from okl.compiled import sgd
from okl.compiled.constrained import BlockTask, GradientSums, RowSteps, before_turn, in_turn, sweep_fourier
from okl.compiled.jit import aligned_empty, as_compiled, one_blas_thread
from okl.compiled.products import SparseBlock, sparse_block
from okl.compiled.threads import MOST_ROWS, borrowed_block, give_up_turns, new_turns, pass_turn, run_threads, wait_turn
from okl.data.dataset import Dataset, Shard
from okl.data.execution import Rows
from okl.data.order import Order, plan_windows
from okl.data.reading import load_window
from okl.data.sparse import stacked
from okl.distributed.cache import resident
from okl.features.base import FeatureMap, check_weights
from okl.features.fourier import FourierFeatures
from okl.features.linear import SparseInputs
from okl.features.predictors import LinearPredictor, block_of
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, DivergedError
from okl.foundation.telemetry import MAP, Span
from okl.foundation.types import Doubles, FloatArray, Mode, Precision, Task
from okl.foundation.validation import check_positive
from okl.losses import Loss, ScalarLoss, own_address
from okl.solvers.base import SolverMap
from okl.solvers.online import base as online


def round_rows(
    data: Dataset, shard: Shard, order: Order, seed: tuple[int, ...], part: tuple[int, int], precision: Precision
) -> Rows:
    """Return rows of one round: part = (round, rounds) of the shard in the order that (seed, shard) draws.

    Windows of the shard stay in this process's memory between rounds, within the limit of `okl.distributed.cache`;
    what comes back must not be written into.
    """
    index, parts = part
    start, stop = shard.rows * index // parts, shard.rows * (index + 1) // parts
    seed = (*seed, shard.index)
    pieces: list[Rows] = []
    for window in plan_windows((shard,), data.row_width, order, seed):
        low, high = max(start, window.first_row), min(stop, window.first_row + window.rows)
        if low < high:
            key = (data.read_sha256, str(data.folder), shard.index, window, precision)
            rows = resident(key, lambda window=window: load_window(data, window, precision))  # type: ignore[misc]
            inside = slice(low - window.first_row, high - window.first_row)
            pieces.append(Rows(rows.inputs[inside], rows.targets[inside]))
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:  # more rounds than rows
        shape = (0, data.schema.n_features)
        empty: Any = csr_array(shape, dtype=precision) if data.schema.sparse else np.empty(shape, dtype=precision)
        return Rows(empty, np.empty(0))
    return Rows(stacked([p.inputs for p in pieces]), np.concatenate([p.targets for p in pieces]))


# State: weights, average and progress.

SAMPLE_EVERY = 16  # rows between two samples of the weights for their average; each costs as much as a step


@stored("linear-weights")
@dataclass(frozen=True, eq=False)
class Weights:
    """The state of a linear learner: a value that no method writes into.

    last : (n_outputs, n_columns), in the map's precision, after the last row
    total : the same in float64, the sum of the weights after every 16th row since learning began, the t-th t times;
        None for zero, which need not travel
    n_sampled : how many weights total adds up, 1 + 2 + ...; progress : how the predictions did
    """

    last: FloatArray
    total: Doubles | None
    n_sampled: int
    progress: online.Progress

    @property
    def averaged(self) -> FloatArray:
        """Return the mean of the sampled weights (n_outputs, n_columns) with more weight on later ones.

        The last weights before the first sample.

        Source: Lacoste-Julien, Schmidt & Bach, arXiv 1212.2002, 2012, equation (5).
        """
        if self.n_sampled == 0 or self.total is None:
            return self.last
        return (self.total / self.n_sampled).astype(self.last.dtype)

    @property
    def summed(self) -> Doubles:
        """Return a copy of total, zeros for None."""
        return np.zeros(self.last.shape) if self.total is None else self.total.copy()

    @property
    def rest(self) -> Doubles:
        """Return the sum of the sampled weights less n_sampled * last, an array of its own."""
        return self.summed - self.n_sampled * self.last.astype(np.float64)

    def without_average(self) -> Weights:
        """Return the same weights, with a new average."""
        return replace(self, total=None, n_sampled=0)


@stored("sparse-linear-weights")
@dataclass(frozen=True, eq=False)
class SparseWeights(Weights):
    """The state of a linear learner of sparse rows; total is the sum of the sampled weights less n_sampled * last."""

    @property
    def averaged(self) -> FloatArray:
        if self.n_sampled == 0 or self.total is None:
            return self.last
        return (self.last + self.total / self.n_sampled).astype(self.last.dtype)

    @property
    def summed(self) -> Doubles:
        return self.n_sampled * self.last.astype(np.float64) + self.rest

    @property
    def rest(self) -> Doubles:
        return np.zeros(self.last.shape) if self.total is None else self.total.copy()


def learner_arrays(weights: Weights, total: Doubles | None = None) -> sgd.LearnerArrays:
    """Return copies of everything that learning writes into; total : an array in place of the sum of the weights."""
    last = aligned_empty(weights.last.shape, weights.last.dtype)
    last[...] = weights.last
    counts, sums, class_counts = online.progress_arrays(weights.progress)
    counts[sgd.SAMPLED] = weights.n_sampled
    return sgd.LearnerArrays(last, weights.summed if total is None else total, counts, sums, class_counts)


def weights_from(arrays: sgd.LearnerArrays, task: Task) -> Weights:
    """Return the arrays of a learner as a state; they are not written into afterwards."""
    progress = online.progress_from(task, arrays.counts, arrays.sums, arrays.class_counts)
    return Weights(arrays.weights, arrays.total, int(arrays.counts[sgd.SAMPLED]), progress)


def average_shard_weights(base: Weights, parts: list[Weights]) -> Weights:
    """Return the average by rows what shards learned from the same weights, in the order given.

    The average of the weights takes in what every shard sampled on its way.

    Source: McDonald, Hall & Mann, NAACL 2010, Figure 3 (iterative parameter mixing).
    """
    shares, progress = online.shares_of_rows(base.progress, [part.progress for part in parts])
    if not shares:
        return base
    last, total, n_sampled = np.zeros(base.last.shape), base.summed, base.n_sampled
    for part, share in zip(parts, shares, strict=True):
        last += share * part.last
        total += part.summed
        n_sampled += part.n_sampled
    return Weights(last.astype(base.last.dtype), total, n_sampled, progress)


def sweep_rows(task: BlockTask, feature_map: FeatureMap, inputs: Any, targets: Doubles, n_threads: int) -> None:
    """Do a compiled task with checked rows in order, in place; same bits for any number of threads."""
    fused = not issparse(inputs)
    size = feature_map.rows_per_block if isinstance(feature_map, FourierFeatures) and fused else MOST_ROWS
    n_blocks, turns = -(-inputs.shape[0] // size), new_turns()
    n_threads = max(1, min(n_threads, n_blocks))

    def run(thread: int) -> None:
        if isinstance(feature_map, FourierFeatures) and fused:
            with borrowed_block(size, feature_map.widths, inputs.dtype) as block:
                sweep_fourier(task, turns, block, inputs, targets, feature_map.waves, thread, n_threads)
            return
        for index in range(thread, n_blocks, n_threads):
            part = slice(index * size, (index + 1) * size)
            with Span(MAP):
                block = block_of(feature_map.transform(inputs[part]))
            scores = before_turn(task, block)  # type: ignore[no-untyped-call]
            if not wait_turn(turns, index):
                return
            in_turn(task, block, scores, targets[part])  # type: ignore[no-untyped-call]
            pass_turn(turns, index + 1)

    with one_blas_thread():
        run_threads(n_threads, run, partial(give_up_turns, turns))


def check_ball(radius: float | None, decaying: bool, loss: Loss, two_classes: bool = False) -> None:
    """Raise ConfigError unless a loss of two classes, or another, may be learned in a ball of this radius, if any."""
    if radius is None:
        if decaying:
            raise ConfigError("Decaying steps need weights in a ball. Set a radius, or use constant steps.")
        return
    check_positive("radius", radius)
    if isinstance(loss, ScalarLoss) or (two_classes and loss.task != "binary"):
        allowed = (
            "two classes and the hinge or logistic loss" if two_classes else "the hinge, logistic or half squared loss"
        )
        raise ConfigError(f"radius = {radius:g} needs {allowed}, but the loss is {loss.name}. Remove it.")


@stored("linear-learner")
@dataclass(frozen=True, eq=False)
class LinearLearner(online.LossLearner):
    """Settings of learning row by row: score f = w'z(x), count the error, then w <- w - step_size c loss'(f) z(x).

    feature_map : z; its precision is that of the weights; loss : of the table; step_size : > 0, on the map's scale
    n_outputs : number of classes for several classes, otherwise 1
    class_weights : c, factor of the step of each class, in label order; None for 1
    average : whether weights are sampled for an average
    radius : of the ball ||w|| <= radius that every step ends in, at its nearest point; None for no ball; of several
        classes, w holds the weights of all
    decaying : whether step t is step_size / sqrt(t), in a ball
    Raises ConfigError : a size, the step size, the class weights or the radius do not fit the loss
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
        online.check_outputs(self.loss, self.n_outputs, self.class_weights)
        check_ball(self.radius, self.decaying, self.loss)

    def start(self) -> Weights:
        """Return weights of zero, before any row."""
        shape = (self.n_outputs, self.feature_map.n_columns)
        progress = online.start_progress(self.loss.task, self.n_outputs)
        return Weights(np.zeros(shape, dtype=self.feature_map.precision), None, 0, progress)

    def learn(self, weights: Weights, rows: Rows, n_threads: int = 1) -> Weights:
        inputs, targets = self._checked(weights.last, rows)
        arrays = learner_arrays(weights)
        sweep_rows(RowSteps(arrays, self.rule), self.feature_map, inputs, targets, n_threads)
        after = weights_from(arrays, self.loss.task)
        self._check_finite(weights, after)
        return after

    def predictor(self, weights: Weights) -> LinearPredictor:
        return LinearPredictor(self.feature_map, weights.averaged if self.average else weights.last)

    def chosen(self, weights: Weights) -> dict[str, Any]:
        """Return nothing: nothing is pending."""
        return {}

    def shard_start(self, weights: Weights) -> Weights:
        """Return the start of a shard: the same weights, with a new average."""
        return weights.without_average()

    def average_shards(self, base: Weights, parts: list[Weights]) -> Weights:
        return average_shard_weights(base, parts)

    def gradient(self, weights: FloatArray, rows: Rows, n_threads: int = 1) -> PlainGradient:
        """Return the sum of the subgradients of all rows at weights (n_outputs, n_columns).

        Same bits for any number of threads.

        Raises DataError, ConfigError : inputs, targets or weights do not fit the map or the loss
        """
        summed = sgd.SummedGradients(np.zeros(weights.shape), np.zeros(5, dtype=np.int64), np.zeros(1))
        targets = self._sum(summed, weights, rows, n_threads)
        counts, class_counts, regression = summed.counts, np.zeros(1, dtype=np.int64), self.task == "regression"
        if not regression:
            index = targets > 0 if self.task == "binary" else targets
            class_counts = np.bincount(index.astype(np.int64), minlength=online.n_classes_of(self.task, self.n_outputs))
        progress = online.Progress(
            task=self.task,
            rows=int(counts[sgd.ROWS]),
            updates=int(counts[sgd.UPDATES]),
            mistakes=int(counts[sgd.MISTAKES]),
            squared_error=float(summed.sums[sgd.SQUARED_ERROR]),
            class_counts=tuple(int(count) for count in class_counts),
            target_sum=float(np.sum(rows.targets)) if regression else 0.0,
        )
        return PlainGradient(summed.gradient, progress, float(np.sum(rows.targets**2)))

    def _sum(self, summed: sgd.SummedGradients, weights: FloatArray, rows: Rows, n_threads: int) -> Doubles:
        """Add up the subgradients of rows, and return their targets."""
        inputs, targets = self._checked(weights, rows)
        weights = as_compiled(weights, self.feature_map.precision)
        sweep_rows(GradientSums(summed, weights, self.rule), self.feature_map, inputs, targets, n_threads)
        return targets

    @property
    def rule(self) -> sgd.UpdateRule:
        code, epsilon, class_weights = online.loss_numbers(self.loss, self.n_outputs, self.class_weights)
        return sgd.UpdateRule(
            code,
            epsilon,
            float(self.step_size),
            class_weights,
            SAMPLE_EVERY if self.average else 0,
            float(self.radius or 0.0),
            self.decaying,
            own_address(self.loss),
        )

    def _checked(self, weights: FloatArray, rows: Rows) -> tuple[FloatArray, Doubles]:
        check_weights(self.feature_map, weights)
        if len(weights) != self.n_outputs:
            raise ConfigError(f"The weights have {len(weights)} outputs; the learner expects {self.n_outputs}.")
        return online.checked_rows(
            rows, self.loss.task, self.feature_map.n_inputs, self.n_outputs, self.feature_map.precision
        )

    def _check_finite(self, before: Weights, after: Weights) -> None:
        if not np.isfinite(after.last).all():
            raise DivergedError(
                f"Rows {before.progress.rows:,} to {after.progress.rows - 1:,}: the weights are no longer finite with "
                f"step_size = {self.step_size:g}. Use a smaller value, such as {self.step_size / 10:g}."
            )


@stored("sparse-linear-learner")
@dataclass(frozen=True, eq=False)
class SparseLearner(LinearLearner):
    """Settings of learning sparse rows one by one, as LinearLearner does without a ball, at cost of their values."""

    def learn(self, weights: Weights, rows: Rows, n_threads: int = 1) -> Weights:
        block, targets = self._block(weights.last, rows)
        arrays = learner_arrays(weights, weights.rest)
        sgd.learn_sparse(arrays, block, targets, self.rule)
        after = weights_from(arrays, self.loss.task)
        self._check_finite(weights, after)
        return SparseWeights(after.last, after.total, after.n_sampled, after.progress)

    def _sum(self, summed: sgd.SummedGradients, weights: FloatArray, rows: Rows, n_threads: int) -> Doubles:
        block, targets = self._block(weights, rows)
        sgd.sum_sparse(summed, as_compiled(weights, self.precision), block, targets, self.rule)
        return targets

    def _block(self, weights: FloatArray, rows: Rows) -> tuple[SparseBlock, Doubles]:
        check_weights(self.feature_map, weights)
        mapped: Any = self.feature_map.transform(rows.inputs)
        block = sparse_block(mapped, self.precision)
        return block, online.checked_targets(rows.targets, mapped.shape[0], self.loss.task, self.n_outputs)


# Rounds of mix and sum over shards.

ADAGRAD_EPSILON = 1e-8


@dataclass(frozen=True, eq=False)
class RoundTask:
    """Message to the shards in each round.

    learned : the state to start from, as the learner forks it; its progress is for the running baseline
    seed : of the run and the pass; part : (round, rounds) of the pass
    """

    learned: Any
    seed: tuple[int, ...]
    part: tuple[int, int]


@dataclass(frozen=True, eq=False)
class RoundWork:
    """All rounds of a run, sent once: learn a shard's rows one by one (mix), or add subgradients up (sums)."""

    data: Dataset
    learner: Any
    order: Order
    sums: bool

    def __call__(self, shard: Shard, task: RoundTask) -> Any:
        """Return the state after the shard's rows of a round, or the sum over these."""
        rows = round_rows(self.data, shard, self.order, task.seed, task.part, self.learner.precision)
        return self.learner.gradient(task.learned.last, rows) if self.sums else self.learner.learn(task.learned, rows)


@dataclass(frozen=True, eq=False)
class PlainGradient:
    """Subgradients of some rows at fixed weights, added up.

    gradient : (n_outputs, n_columns) float64, of class_weight * derivative * z
    progress : rows, rows with a derivative (updates), errors, class counts and target sum; its baseline is empty
    target_squares : sum of squared targets
    """

    gradient: Doubles
    progress: online.Progress
    target_squares: float

    def step(
        self, learner: LinearLearner, weights: Weights, optimiser: online.AdaGrad | None, number: int
    ) -> tuple[Weights, online.AdaGrad | None]:
        """Return the step `number` (from 1) along the mean subgradient: plain, or with AdaGrad's step a coordinate.

        Step t counts t times in the average of the weights: early ones, far from the end, count little.

        Raises DivergedError : the weights are no longer finite
        """
        rows = self.progress.rows
        if rows == 0:
            return weights, optimiser
        mean = self.gradient / rows
        if optimiser is not None:
            optimiser = online.AdaGrad(optimiser.squares + mean**2)
            mean = mean / (np.sqrt(optimiser.squares) + ADAGRAD_EPSILON)
        with np.errstate(over="ignore", invalid="ignore"):  # reported below
            last = (weights.last - learner.step_size * mean).astype(weights.last.dtype)
        if not np.isfinite(last).all():
            raise DivergedError(
                f"After {weights.progress.rows + rows:,} rows the weights are no longer finite with "
                f"step_size = {learner.step_size:g}. Use a smaller value, such as {learner.step_size / 10:g}."
            )
        progress = weights.progress.plus(self._with_baseline(weights.progress))
        total = weights.summed + number * last.astype(np.float64)
        return Weights(last, total, weights.n_sampled + number, progress), optimiser

    def _with_baseline(self, before: online.Progress) -> online.Progress:
        """Return the errors on these rows of the majority class, or the mean, of the rows before."""
        progress = self.progress
        if progress.task == "regression":
            mean = before.target_sum / before.rows if before.rows else 0.0
            errors = self.target_squares - 2.0 * mean * progress.target_sum + progress.rows * mean**2
            return replace(progress, baseline_squared_error=max(0.0, errors))
        counts = before.class_counts
        # the same rule for ties as the compiled learner: +1 of two classes, the first of several
        majority = int(counts[1] >= counts[0]) if progress.task == "binary" else int(np.argmax(counts))
        return replace(progress, baseline_mistakes=progress.rows - progress.class_counts[majority])


def add_gradients(parts: list[PlainGradient]) -> PlainGradient:
    """Add the parts up in the order given."""
    total = parts[0]
    for part in parts[1:]:
        total = PlainGradient(
            total.gradient + part.gradient,
            total.progress.plus(part.progress),
            total.target_squares + part.target_squares,
        )
    return total


# Step sizes: a race on a sample.

ADAGRAD_STEPS = tuple(2.0**k for k in range(-6, 4))
RACE_BATCHES = 32


def race_step_sizes(learner: LinearLearner, sample: Rows, adaptive: bool) -> tuple[float, str]:
    """Choose the step size whose progressive error on a sample is least; the smaller one on a tie.

    Rows of the scaled map have norm 1, so that a step of at most 1 on a squared residual never overshoots it: larger
    ones do not take part in regression. AdaGrad's steps do not grow with the gradients, so that in regression they are
    measured in the root mean square of the targets: weights for house prices could never be reached by steps of 8.

    learner : whose step size is to be chosen; sample : rows in a random order
    adaptive : for AdaGrad's mini-batch steps
    Returns the step size, and a sentence with the reason.
    """
    steps = _adagrad_steps(learner, sample) if adaptive else _safe_steps(learner)
    racers = [replace(learner, step_size=step) for step in steps]
    errors = [
        _adagrad_error(racer, sample) if adaptive else online.progressive_error(racer, sample) for racer in racers
    ]
    best = int(np.argmin(errors))
    return steps[best], online.race_reason(steps, sample)


RACE_HELD_OUT = 4  # every fourth row of the sample


def race_on_held_out(learner: SparseLearner, sample: Rows) -> tuple[float, str]:
    """Choose the smallest step size whose error on held-out rows is within a standard error of the least.

    In very many columns most values of the first rows are new, and the error of predicting these rows before they are
    learned prefers steps that do nothing.

    sample : rows in a random order, of which every fourth is held out
    """
    steps = _safe_steps(learner)
    held = np.arange(len(sample.targets)) % RACE_HELD_OUT == 0
    inputs, targets = sample.inputs[held], sample.targets[held]
    errors = []
    for step in steps:
        racer = replace(learner, step_size=step)
        try:
            predictor = racer.predictor(racer.learn(racer.start(), Rows(sample.inputs[~held], sample.targets[~held])))
        except DivergedError:
            errors.append(np.full(len(targets), np.inf))
            continue
        scores = predictor.scores(inputs)
        if learner.task == "regression":
            errors.append(np.square(scores - targets))
        else:
            classes = scores.argmax(axis=1) if learner.n_outputs > 1 else np.where(scores >= 0.0, 1.0, -1.0)
            errors.append((classes != targets).astype(np.float64))
    means = [float(of_step.mean()) for of_step in errors]
    least = int(np.argmin(means))
    chance = float(errors[least].std()) / math.sqrt(max(1, len(targets))) if np.isfinite(means[least]) else 0.0
    best = next(index for index, mean in enumerate(means) if mean <= means[least] + chance)
    return steps[best], f"within chance of the least error of {len(steps)} step sizes on {len(targets):,} held-out rows"


def _safe_steps(learner: LinearLearner) -> tuple[float, ...]:
    if learner.loss.task != "regression":
        return online.PLAIN_STEPS
    return tuple(step for step in online.PLAIN_STEPS if step <= 1.0)


def _adagrad_steps(learner: LinearLearner, sample: Rows) -> tuple[float, ...]:
    if learner.loss.task != "regression" or not sample.targets.any():
        return ADAGRAD_STEPS
    unit = float(np.sqrt(np.mean(sample.targets**2)))
    return tuple(step * unit for step in ADAGRAD_STEPS)


def _adagrad_error(racer: LinearLearner, sample: Rows) -> float:
    weights, optimiser = racer.start(), online.AdaGrad.start(racer.n_outputs, racer.feature_map.n_columns)
    try:
        batches = np.array_split(np.arange(len(sample.targets)), min(RACE_BATCHES, len(sample.targets)))
        for number, part in enumerate(batches, start=1):
            inside = slice(part[0], part[-1] + 1)
            gradient = racer.gradient(weights.last, Rows(sample.inputs[inside], sample.targets[inside]))
            weights, stepped = gradient.step(racer, weights, optimiser, number)
            assert stepped is not None
            optimiser = stepped
    except DivergedError:
        return np.inf
    return weights.progress.error


def step_in_ball(
    radius: float, step_size: float | None, decaying: bool, length: float = 1.0
) -> tuple[float, bool, str]:
    """Return step size, whether it decays, and the reason; None is radius / (sqrt(2) length sqrt(t)).

    Steps eta / sqrt(t) cost distance^2 sqrt(T) / (2 eta) + eta length^2 sqrt(T) at most; of weights a radius apart
    that is least for eta = radius / (sqrt(2) length).

    length : of the subgradients

    Source: Zinkevich, ICML 2003, Theorem 1 and its proof.
    """
    decaying = decaying or step_size is None
    why = "as given" if step_size else "of the radius"
    why += ", divided by the square root of the rows seen" if decaying else ""
    return step_size or radius / math.sqrt(2.0) / length, decaying, why


def longest_subgradient(loss: Loss) -> float:
    """Return the length of a loss's longest subgradient by the scores; infinite for squared losses."""
    if loss.task == "regression":
        return math.inf
    return math.sqrt(2.0) if loss.task == "multiclass" else 1.0


# The linear learner with a fixed map.

MOST_STEP_FACTOR = 4


@dataclass(frozen=True)
class LinearFactory:
    """Predict, suffer, then learn, one row at a time: w <- w - step_size loss'(w'z(x)) z(x).

    maps : the feature map to draw; loss : of the table
    step_size : on the scaled map, None for a choice by a small race
    class_weights : weight of each class's steps, None for 1; average : predict with averaged weights
    adaptive : whether the caller of the mode sum steps by AdaGrad
    radius : of the ball that weights stay in, None for no ball; a step size that is to be chosen is then that of
        `step_in_ball`, or of a race with squared losses
    decaying : whether step t is step_size / sqrt(t), in a ball
    Source: Lu et al., JMLR 17(47), 2016, Algorithms 1, 3 and 5; in a ball, Zinkevich, ICML 2003, section 2.
    """

    maps: SolverMap
    loss: Loss
    step_size: float | None = None
    class_weights: tuple[float, ...] | None = None
    average: bool = True
    adaptive: bool = True
    name: str = "fogd"
    radius: float | None = None
    decaying: bool = False

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Return the modes in which it can train."""
        return ("stream", "mix", "sum") if self.radius is None else ("stream",)

    def build(self, context: online.BuildContext) -> online.BuiltLearner:
        schema, sample, mode = context.schema, context.sample, context.mode
        online.check_loss(self.loss, schema)
        feature_map, chosen = self.maps.draw(schema, sample.inputs, context.seed, context.precision)
        kind = SparseLearner if isinstance(feature_map, SparseInputs) else LinearLearner
        learner = kind(feature_map, self.loss, 1.0, schema.n_outputs, self.class_weights, self.average)
        adaptive = mode == "sum" and self.adaptive
        if self.radius is not None:
            return self._build_in_ball(learner, self.radius, chosen, sample)
        if self.step_size is None:
            if isinstance(learner, SparseLearner) and not adaptive:
                step_size, why = race_on_held_out(learner, sample)
            else:
                step_size, why = race_step_sizes(learner, sample, adaptive)
            factor = self._step_factor(context)
            if factor != 1:
                step_size, why = step_size * factor, f"{why}, times {factor} for the mode {mode}"
        else:
            step_size, why = self.step_size, "as given"
        optimiser = online.AdaGrad.start(schema.n_outputs, feature_map.n_columns) if adaptive else None
        chosen = chosen | {"step_size": step_size, "step_size_reason": why}
        return online.BuiltLearner(replace(learner, step_size=step_size), chosen, optimiser)

    def _build_in_ball(
        self, learner: LinearLearner, radius: float, chosen: dict[str, Any], sample: Rows
    ) -> online.BuiltLearner:
        length, decaying = longest_subgradient(self.loss), self.decaying
        if self.step_size is None and math.isinf(length):
            step_size, why = race_step_sizes(replace(learner, radius=radius, decaying=decaying), sample, False)
        else:
            step_size, decaying, why = step_in_ball(radius, self.step_size, decaying, length)
        learner = replace(learner, step_size=step_size, radius=radius, decaying=decaying)
        return online.BuiltLearner(
            learner, chosen | {"step_size": step_size, "step_size_reason": why, "radius": radius}
        )

    def _step_factor(self, context: online.BuildContext) -> int:
        """Return the factor of a mode's steps relative to the sample's; squared residuals do not tolerate one.

        The average of mix takes 1/shards of the way of each shard, but with long steps a shard soon finds nothing left
        to learn in its rows of a round; in sum the average of the weights is predicted with, which gains from longer
        steps than the progressive error of the race does (measured: tests/benchmarks/modes.py).
        """
        if context.mode == "stream" or self.loss.task == "regression":
            return 1
        return MOST_STEP_FACTOR if context.mode == "sum" else min(context.n_shards, MOST_STEP_FACTOR)
