"""Learning under drift: experts mixed by Fixed Share."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.compiled.expert_weights import ExpertRule, FixedShareState, MixtureCounters, ShareRule, share_rows
from okl.compiled.experts import AVERAGED, ExpertPredictions, learn_team
from okl.compiled.jit import one_blas_thread
from okl.compiled.threads import MOST_ROWS, ThreadPool
from okl.data.execution import Rows
from okl.features.base import FeatureMap
from okl.features.fourier import FourierFeatures
from okl.features.predictors import LinearPredictor, block_of, score_rows
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, DivergedError
from okl.foundation.types import Doubles, FloatArray, Integers, Mode, Task
from okl.foundation.validation import check_positive
from okl.losses import Loss
from okl.solvers.base import SolverMap
from okl.solvers.online import base as online
from okl.solvers.online import step_size_experts as experts

# Snapshots of the model at the ends of the last windows.
#
# A tracker is soon as good as before where rows change; what it had learned before is not. And of a model that learns
# no more, the rows it is wrong on are as many by chance as they were, if nothing changes.

MOST_KEPT = 4  # the oldest is compared on three windows that it was not trained on


@stored("tracking-snapshots")
@dataclass(frozen=True, eq=False)
class Snapshot:
    """A value that no method writes into; M models, the latest last.

    weights : (M, n_outputs, n_columns)
    limits : (M,), of a regression, scaled target units: a model is wrong on a row that it misses by more; the root mean
        square of what the tracker missed rows by in the window before
    wrong : (M,) int64, rows of the window so far that each is wrong on; progress : of the tracker when the window began
    """

    weights: FloatArray
    limits: Doubles
    wrong: Integers
    progress: online.Progress

    def with_latest(self, weights: FloatArray, progress: online.Progress) -> Snapshot:
        """Return the snapshots with the last weights (n_outputs, n_columns) of a window, without the oldest."""
        weights = np.concatenate([self.weights, weights[None]])[-MOST_KEPT:]
        error = progress.since(self.progress).error if progress.task == "regression" else 0.0
        limits = np.append(self.limits, math.sqrt(error))[-MOST_KEPT:]
        return Snapshot(weights, limits, np.zeros(len(limits), dtype=np.int64), progress)

    def with_rows(self, feature_map: FeatureMap, inputs: FloatArray, targets: Doubles, n_threads: int = 1) -> Snapshot:
        """Return the snapshots with the mistakes on more rows counted; a score that is not finite is wrong."""
        if not len(self.weights):
            return self
        columns = self.weights.reshape(-1, self.weights.shape[-1])
        scores = score_rows(feature_map, columns, inputs, n_threads).reshape(len(inputs), *self.weights.shape[:2])
        return replace(self, wrong=self.wrong + (~_right(self.progress.task, scores, targets, self.limits)).sum(axis=0))


def _right(task: Task, scores: FloatArray, targets: Doubles, limits: Doubles) -> NDArray[np.bool_]:
    """Return whether scores (rows, M, n_outputs) are right, (rows, M)."""
    true = targets[:, None]
    if task == "multiclass":
        right = (scores.argmax(axis=2) == true) & np.isfinite(scores).all(axis=2)
    elif task == "regression":
        right = np.abs(scores[:, :, 0] - true) <= limits
    else:
        right = ((scores[:, :, 0] >= 0.0) == (true > 0.0)) & np.isfinite(scores[:, :, 0])
    return np.asarray(right)


@stored("tracking-step-sizes")
@dataclass(frozen=True, eq=False)
class StepSizeTeam:
    """A team of step sizes in a map."""

    feature_map: FeatureMap

    def learn(self, group: experts.ExpertGroup, rows: experts.RowBatch) -> experts.Predicted:
        """Return predictions (rows, E) and changes (rows,); changes the group; rows may be cut at 256."""
        n_rows, n_steps = len(rows.targets), group.steps.size
        scores, stepped = np.empty((1, n_rows, n_steps, 2)), np.empty((1, n_rows), dtype=np.uint8)
        if self._candidates is not None:
            experts.learn_fourier((scores, stepped), group, self._candidates, rows)
        else:
            with one_blas_thread():
                for number, part in enumerate(rows.cut(MOST_ROWS)):
                    place = slice(number * MOST_ROWS, (number + 1) * MOST_ROWS)
                    block, cautions = block_of(self.feature_map.transform(part.inputs)), np.ones(len(part.targets))
                    results = ExpertPredictions(scores[0, place], stepped[0, place])
                    learn_team(results, group.team, block, part.targets, cautions, part.rule, part.n_before)
        return scores.reshape(n_rows, -1), stepped[0]

    @cached_property
    def _candidates(self) -> experts.Candidates | None:
        return experts.Candidates((self.feature_map,), 1) if isinstance(self.feature_map, FourierFeatures) else None


@stored("tracking-state")
@dataclass(frozen=True, eq=False)
class TrackingState:
    """The state of the tracking learner: a value that no method writes into.

    group : one map with T step sizes, E = 2 T experts: of each step size the last and the averaged weights
    p, mistakes : (E,), weights of the experts, sums of their losses; numbers : (2,); as in okl.compiled.expert_weights
    progress : how the mixture's predictions did; kept : earlier models, if changes are watched for
    """

    group: experts.ExpertGroup
    p: Doubles
    mistakes: Doubles
    numbers: Doubles
    progress: online.Progress
    kept: Snapshot

    def weights(self) -> FloatArray:
        """Return the mean of the experts' weights (n_outputs, n_columns), each times the weight of its expert."""
        n_before, share = self.progress.rows, self.p.reshape(-1, 2)
        first = self.group.expert_weights(0, 0, 0, n_before)
        mean = np.zeros(first.shape)
        for t, which in np.ndindex(share.shape):
            if share[t, which] > 0.0:
                mean += share[t, which] * self.group.expert_weights(0, t, which, n_before)
        return mean.astype(first.dtype)


STEP_SIZES: dict[Task, tuple[float, ...]] = {
    "binary": (0.00390625, 0.015625, 0.0625, 0.25, 1.0, 4.0, 16.0),
    "multiclass": (0.00390625, 0.015625, 0.0625, 0.25, 1.0, 4.0, 16.0),
    "regression": (0.0078125, 0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0),
}
RATES: dict[Task, float] = {"binary": 0.5, "multiclass": 0.5, "regression": 2.0}
SHARE = 0.001


@stored("tracking-learner")
@dataclass(frozen=True, eq=False)
class TrackingLearner(online.LossLearner):
    """Settings of learning from rows that change: of every step size the last and the averaged weights are experts.

    Large steps forget soon, small ones and averages are precise while nothing changes; Fixed Share weighs
    recent losses most. For two classes the mean of the experts' scores is predicted with: that of the mean of their
    weights, which is what is saved. Several classes are voted for, and in regression each score is clipped to the range
    of the targets so far before the mean is taken.

    feature_map : z; its precision is that of the weights
    loss : of the table, which every learner steps by; experts are charged for mistakes, or for squared errors over the
        squared range of the targets
    n_outputs : number of classes for several classes, otherwise 1
    step_sizes : on the map's scale, None for the defaults of the task
    share : alpha, of the weight that goes to other experts after every row; in (0, 1)
    rate : eta, None for the default of the task
    class_weights : factor of the steps and of the mistakes of each class, in label order; None for 1
    Raises ConfigError : a size, a step size, the share, the rate or the class weights do not fit
    Source: Herbster & Warmuth, Machine Learning 32, 1998, section 5; Lu et al., JMLR 17(47), 2016, Algorithms 1, 3, 5.
    """

    feature_map: FeatureMap
    loss: Loss
    n_outputs: int = 1
    step_sizes: tuple[float, ...] | None = None
    share: float = SHARE
    rate: float | None = None
    class_weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        online.check_outputs(self.loss, self.n_outputs, self.class_weights)
        if not self._step_sizes:
            raise ConfigError("step_sizes is empty. Give at least one step size.")
        for step in self._step_sizes:
            check_positive("a step size", step)
        if not 0.0 < self.share < 1.0:
            raise ConfigError(f"share = {self.share:g}; expected a share of the weight above 0 and below 1.")
        check_positive("rate", self._rate)

    def start(self) -> TrackingState:
        feature_map, shape = self.feature_map, (self.n_outputs, self.precision)
        if isinstance(feature_map, FourierFeatures):
            group = experts.ExpertGroup.start("fourier", ((0, 0),), feature_map.n_frequencies, self._step_sizes, *shape)
        else:
            group = experts.ExpertGroup.start("linear", ((0, 0),), feature_map.n_columns, self._step_sizes, *shape)
        n_experts, progress = group.n_experts, online.start_progress(self.task, self.n_outputs)
        no_models = np.empty((0, self.n_outputs, feature_map.n_columns), self.precision)
        snapshot = Snapshot(no_models, np.empty(0), np.zeros(0, dtype=np.int64), progress)
        return TrackingState(
            group, np.full(n_experts, 1.0 / n_experts), np.zeros(n_experts), np.zeros(2), progress, snapshot
        )

    def learn(self, state: TrackingState, rows: Rows, n_threads: int = 1) -> TrackingState:
        feature_map, n_before, snapshot = self.feature_map, state.progress.rows, state.kept
        changed = {name: getattr(state, name).copy() for name in ("group", "p", "mistakes", "numbers")}
        tracked = replace(state, **changed)
        inputs, targets = online.checked_rows(
            rows, self.task, feature_map.n_inputs, self.n_outputs, feature_map.precision
        )
        counted = MixtureCounters(*online.progress_arrays(state.progress))
        shares = FixedShareState(
            tracked.p, tracked.mistakes, tracked.numbers, np.zeros(len(tracked.p)), np.zeros(len(counted.class_counts))
        )
        rule = ExpertRule(*online.loss_numbers(self.loss, self.n_outputs, self.class_weights))
        share_rule = ShareRule(float(self._rate), float(self.share), *rule)
        with ThreadPool() as crew:
            for part in experts.RowBatch(inputs, targets, rule, n_before, n_threads, crew).cut(experts.STRETCH_ROWS):
                scores, stepped = self._speakers.learn(tracked.group, part)
                share_rows(counted, shares, scores, stepped, part.targets, share_rule)
                snapshot = snapshot.with_rows(feature_map, part.inputs, part.targets, n_threads)
        if not np.isfinite(tracked.mistakes).any():
            raise DivergedError(
                f"Rows {n_before:,} to {n_before + len(targets) - 1:,}: the weights of all experts are no "
                "longer finite. Use smaller step_sizes, or scale inputs and target."
            )
        return replace(tracked, progress=online.progress_from(self.task, *counted), kept=snapshot)

    def keep(self, state: TrackingState) -> TrackingState:
        """End a window of a stream: add the current model to the snapshots, to count its mistakes on later rows."""
        return replace(state, kept=state.kept.with_latest(state.weights(), state.progress))

    def predictor(self, state: TrackingState) -> LinearPredictor:
        return LinearPredictor(self.feature_map, state.weights())

    def chosen(self, state: TrackingState) -> dict[str, Any]:
        t, which = np.unravel_index(int(state.p.argmax()), (state.group.steps.size, 2))
        source = f"of the expert with most weight, {100.0 * state.p.max():.0f}% of {len(state.p)}"
        averaged = "averaged" if which == AVERAGED else "last"
        return {
            "step_size": float(state.group.steps[0, t]),
            "step_size_reason": source,
            "weights": averaged,
            "weights_reason": f"{source}; the mean of all experts' weights is saved",
        }

    @property
    def _step_sizes(self) -> tuple[float, ...]:
        return STEP_SIZES[self.task] if self.step_sizes is None else self.step_sizes

    @property
    def _rate(self) -> float:
        return RATES[self.task] if self.rate is None else self.rate

    @cached_property
    def _speakers(self) -> StepSizeTeam:
        return StepSizeTeam(self.feature_map)


@dataclass(frozen=True)
class TrackingFactory:
    """Experts of several step sizes in one map, mixed by Fixed Share.

    Rows are learned one after the other only: what changes with time cannot be learned on shards apart.

    maps : the feature map to draw; loss : of the table
    class_weights : weight of each class's steps and mistakes, None for 1
    radius : of the ball that models lie in which a certificate compares with; None for no certificate; two classes

    Source: see TrackingLearner.
    """

    maps: SolverMap
    loss: Loss
    class_weights: tuple[float, ...] | None = None
    radius: float | None = None
    name: str = "track"
    modes: tuple[Mode, ...] = ("stream",)

    def build(self, context: online.BuildContext) -> online.BuiltLearner:
        schema = context.schema
        online.check_loss(self.loss, schema)
        feature_map, chosen = self.maps.draw(schema, context.sample.inputs, context.seed, context.precision)
        steps = _stable_steps(feature_map, context.sample.inputs) if schema.task == "regression" else None
        learner = TrackingLearner(feature_map, self.loss, schema.n_outputs, steps, class_weights=self.class_weights)
        return online.BuiltLearner(learner, chosen)


def _stable_steps(feature_map: FeatureMap, inputs: FloatArray) -> tuple[float, ...] | None:
    """Return step sizes of a regression, divided by the largest |z(x)|^2 of sampled inputs; None if that is 1.

    Steps of squared residuals diverge from 2 / |z(x)|^2 upward, and Fixed Share leaves every expert some weight: one
    that diverges ruins the mean of the weights. Only rows of the linear and the polynomial kernel are longer than 1.
    """
    largest = float((feature_map.transform(inputs).astype(np.float64) ** 2).sum(axis=1).max(initial=0.0))
    return tuple(step / largest for step in STEP_SIZES["regression"]) if largest > 1.001 else None
