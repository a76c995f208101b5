"""The linear learner under long-term constraints (Algorithm 1 of Yi et al.)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from okl.compiled.constrained import LimitCounters, LimitedSteps
from okl.compiled.oco import make_work
from okl.data.dataset import Schema
from okl.data.execution import Rows
from okl.features.base import FeatureMap
from okl.features.predictors import LinearPredictor
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError
from okl.foundation.types import Doubles, FloatArray, Mode
from okl.foundation.validation import check_positive
from okl.losses import Loss
from okl.solvers.online.base import BuildContext, BuiltLearner, check_loss
from okl.solvers.online.constraints import (
    Columns,
    Constraint,
    LinearLimits,
    RowSums,
    Weighings,
    estimate_rows,
    limits_of,
    rows_from,
    sums_of,
    unit_of,
)
from okl.solvers.online.linear import (
    LinearLearner,
    Weights,
    average_shard_weights,
    learner_arrays,
    longest_subgradient,
    race_step_sizes,
    step_in_ball,
    sweep_rows,
    weights_from,
)
from okl.solvers.online.maps import MapChoice

# State: weights and violations.


@stored("constrained-weights")
@dataclass(frozen=True, eq=False)
class ConstrainedWeights(Weights):
    """Weights, and the queues of Algorithm 1; never written into.

    queues : (2 n_outputs, m) float64, of lower and upper limits of each output in turn
    exceeded : (n_outputs m + 1,), as in okl.compiled.constrained.LimitCounters
    """

    queues: Doubles
    exceeded: Doubles

    @classmethod
    def of(cls, weights: Weights, queues: Doubles, exceeded: Doubles) -> ConstrainedWeights:
        """Return weights, with what was exceeded counted in their progress."""
        values = {field.name: getattr(weights, field.name) for field in fields(Weights)}
        values["progress"] = replace(weights.progress, violation=float(exceeded[-1]))
        return cls(**values, queues=queues, exceeded=exceeded)


def average_constrained_shards(base: ConstrainedWeights, parts: list[ConstrainedWeights]) -> ConstrainedWeights:
    """Return the average by rows what shards learned from the same weights, queues among it; what was exceeded adds up.

    Weights within convex limits average to weights within them.
    """
    average = average_shard_weights(base, list(parts))
    grown = [part.progress.rows - base.progress.rows for part in parts]
    if not sum(grown):
        return base
    queues, exceeded = np.zeros_like(base.queues), base.exceeded.copy()
    for part, rows in zip(parts, grown, strict=True):
        queues += rows / sum(grown) * part.queues
        exceeded += part.exceeded - base.exceeded
    return ConstrainedWeights.of(average, queues, exceeded)


ROUNDING = 1e-12


@stored("constrained-learner")
@dataclass(frozen=True, eq=False)
class ConstrainedLearner(LinearLearner):
    """Settings of learning row by row within limits of the scores in the long run.

    w_(t+1) = argmin over the ball of alpha_t <grad, w> + alpha_t gamma_(t+1) <q-hat, [g(w)]_+> + ||w - w_t||^2, with
    alpha_t = 2 step_t, gamma_t = gamma_0 / sqrt(alpha_t) and g the rows of the limits at length 1. gamma_0 =
    1 / (sqrt(2) G), where G bounds the gradients of the loss, whose features have length 1, and of g. Those of a
    squared loss have no such bound: there G is of g alone, as the proof needs no more. Of several classes, g holds the
    limits of each score.

    What predicts is the nearest of the (averaged) weights that is within all limits: the limits hold for it to the
    last, whatever they were overstepped by on the way.

    Parameters
    ----------
    feature_map, loss, step_size, n_outputs, class_weights, average, decaying : as in LinearLearner
    limits : of linear quantities, with the radius of the ball
    fixed : whether the rows of the limits stay; rows that are refreshed leave no theorem to claim
    given_gain : gamma_0, None for the largest that the theorems allow; above it no theorem is claimed either

    Raises
    ------
    ConfigError : what LinearLearner refuses, no limits, or a gamma_0 that is not above 0

    Source: Yi et al., ICML 2021, Algorithm 1, Theorems 1 (constant steps) and 2 (steps that decay); of the loss,
    Lemma 4 uses G in (41) alone, where the length of the gradient itself does.
    """

    limits: LinearLimits | None = None
    fixed: bool = True
    given_gain: float | None = None

    def __post_init__(self) -> None:
        if self.limits is None:
            raise ConfigError("A constrained learner needs limits. Set them, or use LinearLearner.")
        if self.given_gain is not None:
            check_positive("constraint_gain", self.given_gain)
        object.__setattr__(self, "radius", check_positive("radius", self.limits.radius))
        super().__post_init__()

    @property
    def kept(self) -> LinearLimits:
        assert self.limits is not None
        return self.limits

    @property
    def gain(self) -> float:
        return self.largest_gain if self.given_gain is None else self.given_gain

    @property
    def covered(self) -> bool:
        """Return whether the theorems apply to these settings: the rows are fixed, and gamma_0 is within its range."""
        return self.fixed and self.gain <= self.largest_gain * (1.0 + ROUNDING)

    @property
    def largest_gain(self) -> float:
        """Return 1 / (sqrt(2) G), the largest gamma_0 that the theorems allow.

        A limit of two sides counts once in G: what is outside of one side is inside of the other.
        """
        longest = longest_subgradient(self.loss) * max(self.class_weights or (1.0,))
        return 1.0 / (math.sqrt(2.0) * max(longest if math.isfinite(longest) else 0.0, self.kept.steepness))

    def start(self) -> ConstrainedWeights:
        count, n_outputs = len(self.kept.low), self.n_outputs
        return ConstrainedWeights.of(super().start(), np.zeros((2 * n_outputs, count)), np.zeros(n_outputs * count + 1))

    def learn(self, weights: Weights, rows: Rows, n_threads: int = 1) -> ConstrainedWeights:
        """Learn rows in their order, exactly one after the other; see LinearLearner.learn."""
        assert isinstance(weights, ConstrainedWeights)
        inputs, targets = self._checked(weights.last, rows)
        arrays, sides = learner_arrays(weights), self.kept.has_side
        rule, limits = self.rule, self.kept.compiled(self.precision, self.gain)
        queues = np.zeros_like(weights.queues)
        before, after_rows = (each.reshape(-1, *sides.shape)[:, ::-1] for each in (weights.queues, queues))
        watched = LimitCounters(before[:, sides].ravel(), np.zeros(limits.units.size), weights.exceeded.copy())
        task = LimitedSteps(arrays, watched, make_work(len(watched.queues), 1), rule, limits)
        sweep_rows(task, self.feature_map, inputs, targets, n_threads)
        after = weights_from(arrays, self.loss.task)
        self._check_finite(weights, after)
        after_rows[:, sides] = watched.queues.reshape(self.n_outputs, -1)
        return ConstrainedWeights.of(after, queues, watched.exceeded)

    def predictor(self, weights: Weights) -> LinearPredictor:
        return LinearPredictor(self.feature_map, self.kept.nearest(self.raw(weights)).astype(self.precision))

    def raw(self, weights: Weights) -> FloatArray:
        """Return the averaged weights, or the last ones, (n_outputs, n_columns), as they were learned."""
        return weights.averaged if self.average else weights.last

    def chosen(self, weights: Weights) -> dict[str, Any]:
        raw = self.raw(weights)
        return {
            "violation_a_row": weights.progress.violation / max(1, weights.progress.rows),
            "violation_as_learnt": max(float(np.linalg.norm(excess)) for excess in self.kept.excess(raw)),
            "moved_within_limits": float(np.linalg.norm(self.kept.nearest(raw) - raw)),
        }

    def average_shards(self, base: Weights, parts: list[Any]) -> ConstrainedWeights:
        assert isinstance(base, ConstrainedWeights)
        return average_constrained_shards(base, parts)

    def refreshed(self, limits: LinearLimits) -> ConstrainedLearner:
        """Return the same settings with rows estimated from more data: from here on no theorem is claimed."""
        return replace(self, limits=limits, fixed=False)


@dataclass(frozen=True)
class ConstrainedFactory:
    """Algorithm 1 of Yi et al. in a ball, within limits of what is linear in the weights.

    Parameters
    ----------
    maps : the feature map to draw; loss : of the table
    constraints : at least one; radius : of the ball; margin : as in LinearLimits
    gain : gamma_0, as in ConstrainedLearner
    race : whether step_size None is chosen by a race on the sample, without ball and limits; a constant one
    step_size : otherwise None for the one that regret is proved for, that of `step_in_ball`, or with squared losses
        that of a race in the ball; a number as in LinearFactory
    class_weights, average, decaying : as in LinearFactory

    Source: Yi et al., ICML 2021, Algorithm 1; alpha_t = 2 step_t.
    """

    maps: MapChoice
    loss: Loss
    constraints: tuple[Constraint, ...]
    radius: float
    step_size: float | None = None
    class_weights: tuple[float, ...] | None = None
    average: bool = True
    decaying: bool = False
    margin: float = 0.0
    gain: float | None = None
    name: str = "fogd"
    race: bool = False

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Return the modes: constraints are applied row by row, or by shards whose weights are averaged."""
        return ("stream", "mix")

    def build(self, context: BuildContext) -> BuiltLearner:
        """Draw the map, add the rows of the constraints up over all training rows, and choose the step size.

        Raises
        ------
        ConfigError : a group without rows, limits that no weights keep to; DataError : a column that does not fit
        """
        schema, sample = context.schema, context.sample
        check_loss(self.loss, schema)
        feature_map, chosen = self.maps.draw(schema, sample.inputs, context.seed, context.precision)
        rows, sums = self._estimated(context, feature_map)
        n_outputs, length, decaying = schema.n_outputs, longest_subgradient(self.loss), self.decaying
        limits = limits_of(self.constraints, rows, self.radius, self.margin, n_outputs, self._unit(schema))
        if self.step_size is None and (self.race or math.isinf(length)):
            racer = LinearLearner(feature_map, self.loss, 1.0, n_outputs, self.class_weights, self.average)
            racer = racer if self.race else replace(racer, radius=self.radius, decaying=decaying)
            step_size, why = race_step_sizes(racer, sample, adaptive=False)
            why += ", divided by the square root of the rows seen" if decaying else ""
        else:
            step_size, decaying, why = step_in_ball(self.radius, self.step_size, decaying, length)
        learner = ConstrainedLearner(
            feature_map,
            self.loss,
            step_size,
            n_outputs,
            class_weights=self.class_weights,
            average=self.average,
            decaying=decaying,
            limits=limits,
            given_gain=self.gain,
        )
        chosen = chosen | {
            "step_size": step_size,
            "step_size_reason": why,
            "radius": self.radius,
            "constraint_gain": learner.gain,
            "constraint_gain_reason": "the largest value that the theorems allow" if self.gain is None else "as given",
            "constraint_rows": int(sums.counts[0]),
            "constraint_rows_reason": "all training rows, in one pass",
            "constraint_margin": float(limits.margins.max()),
            "constraint_margin_reason": "the given margin plus rounding errors"
            if self.margin
            else "what rounding takes",
        }
        return BuiltLearner(learner, chosen)

    def _estimated(self, context: BuildContext, feature_map: FeatureMap) -> tuple[Doubles, RowSums]:
        if context.data is None or context.execution is None:
            raise ConfigError("Constraints on columns need a data set, but the rows have none.")
        return estimate_rows(context.data, self.constraints, feature_map, context.execution)

    def _unit(self, schema: Schema) -> tuple[float, float]:
        """Return shift and spread of scores in the unit of the constraints."""
        return unit_of(schema)


@dataclass(frozen=True, eq=False)
class MemoryFactory(ConstrainedFactory):
    """The same for rows in memory: inputs (rows, n_inputs), the columns that constraints use, and the scores' unit."""

    inputs: FloatArray | None = None
    columns: Columns | None = None
    unit: tuple[float, float] = (0.0, 1.0)

    def _unit(self, schema: Schema) -> tuple[float, float]:
        return self.unit

    def _estimated(self, context: BuildContext, feature_map: FeatureMap) -> tuple[Doubles, RowSums]:
        assert self.inputs is not None
        assert self.columns is not None
        weighings = Weighings(self.constraints)
        sums = sums_of(weighings, feature_map.transform(self.inputs), self.columns, "sensitive")
        return rows_from(weighings, sums), sums
