"""The linear learner under long-term constraints (Algorithms 1 and 2 of Yi et al.)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from okl.compiled.constrained import LimitCounters, LimitedSteps
from okl.compiled.oco import first_weights, make_work
from okl.data.execution import Rows
from okl.features.base import FeatureMap
from okl.features.predictors import LinearPredictor
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError
from okl.foundation.types import Doubles, FloatArray, Mode
from okl.foundation.validation import check_at_least, check_positive
from okl.losses import Loss
from okl.solvers.base import SolverMap
from okl.solvers.online import linear
from okl.solvers.online.base import BuildContext, BuiltLearner, check_loss, shares_of_rows
from okl.solvers.online.constraints import (
    Constraint,
    LinearLimits,
    RowSums,
    Weighings,
    estimate_rows,
    limits_of,
    rows_from,
    unit_of,
)

# State: weights and violations.


@stored("constrained-weights", renamed={"exceeded": None})
@dataclass(frozen=True, eq=False)
class ConstrainedWeights(linear.Weights):
    """Weights, and the queues of Algorithm 1 (2 n_outputs, m) float64, lower and upper in turn; never written into."""

    queues: Doubles


@stored("constrained-experts")
@dataclass(frozen=True, eq=False)
class ConstrainedExperts(ConstrainedWeights):
    """Weights of N experts of Algorithm 2, whose mean by their shares is `last`; queues (2 N n_outputs, m), in turn.

    experts : (N, n_outputs, n_columns), in the map's precision; shares : (N,)
    """

    experts: FloatArray
    shares: Doubles

    @classmethod
    def of(cls, weights: linear.Weights, queues: Doubles, experts: FloatArray, shares: Doubles) -> ConstrainedExperts:
        """Return the state of such experts; of plain weights, the last ones are replaced by their mean."""
        last = np.zeros(experts.shape[1:])
        for own, share in zip(experts, shares, strict=True):
            last += share * own
        values = vars(replace(weights, last=last.astype(experts.dtype)))
        return cls(**values, queues=queues, experts=experts, shares=shares)


ROUNDING = 1e-12


@stored("constrained-learner")
@dataclass(frozen=True, eq=False)
class ConstrainedLearner(linear.LinearLearner):
    """Settings of learning row by row within limits of the scores in the long run.

    w_(t+1) = argmin over the ball of alpha_t <grad, w> + alpha_t gamma_(t+1) <q-hat, [g(w)]_+> + ||w - w_t||^2, with
    alpha_t = 2 step_t, gamma_t = gamma_0 / sqrt(alpha_t) and g the rows of the limits at length 1. gamma_0 =
    1 / (sqrt(2) G), where G bounds the gradients of the loss, whose features have length 1, and of g. Those of a
    squared loss have no such bound: there G is of g alone, as the proof needs no more. Of several classes, g holds the
    limits of each score.

    What predicts is the nearest of the (averaged) weights that is within all limits: the limits hold for it to the
    last, whatever they were overstepped by on the way.

    Several experts follow data that change: expert i = 0, 1, .. takes steps 2^i times as long by the slope at the mean
    of all, and its share in the mean is multiplied by exp(-share_rate <grad, w_i - w>). They begin with the shares of
    Algorithm 2, and are not averaged over time.

    feature_map, loss, step_size, n_outputs, class_weights, average, decaying : as in LinearLearner
    limits : of linear quantities, with the radius of the ball
    fixed : whether the rows of the limits stay; rows that are refreshed leave no theorem to claim
    given_gain : gamma_0, None for the largest that the theorems allow; above it no theorem is claimed either
    rectified : whether queues and prices are those of RECOO, with gamma_t = gamma_0 t^.55. Its theorem takes any
        gamma_0, by default 1, and one expert
    n_experts, share_rate : N and beta of Algorithm 2; 1 expert for Algorithm 1
    Raises ConfigError : what LinearLearner refuses, no limits, a gamma_0 that is not above 0, or an average of experts
    Source: Yi et al., ICML 2021, Algorithm 1, Theorems 1 (constant steps) and 2 (steps that decay), and Algorithm 2,
    Theorem 3; of the loss, Lemma 4 uses G in (41) alone, where the length of the gradient itself does. Guo, Liu, Wei &
    Ying, NeurIPS 2022, Algorithm 1 and Theorem 1.
    """

    limits: LinearLimits | None = None
    fixed: bool = True
    given_gain: float | None = None
    n_experts: int = 1
    share_rate: float = 0.0
    rectified: bool = False

    def __post_init__(self) -> None:
        check_at_least("n_experts", self.n_experts, 1)
        if self.n_experts > 1 and self.average:
            raise ConfigError(
                "Several experts follow changing data, which an average over time does not. Unset average."
            )
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
        if self.given_gain is not None:
            return self.given_gain
        return 1.0 if self.rectified else self.largest_gain

    @property
    def covered(self) -> bool:
        """Return whether the theorems apply to these settings: the rows are fixed, and gamma_0 is within its range."""
        in_range = self.n_experts == 1 if self.rectified else self.gain <= self.largest_gain * (1.0 + ROUNDING)
        return self.fixed and in_range

    @property
    def largest_gain(self) -> float:
        """Return 1 / (sqrt(2) G), the largest gamma_0 that the theorems allow.

        A limit of two sides counts once in G: what is outside of one side is inside of the other.
        """
        longest = linear.longest_subgradient(self.loss) * max(self.class_weights or (1.0,))
        return 1.0 / (math.sqrt(2.0) * max(longest if math.isfinite(longest) else 0.0, self.kept.steepness))

    def start(self) -> ConstrainedWeights:
        first, n_experts = super().start(), self.n_experts
        queues = np.zeros((2 * n_experts * self.n_outputs, len(self.kept.low)))
        if n_experts == 1:
            return ConstrainedWeights(**vars(first), queues=queues)
        experts = np.zeros((n_experts, *first.last.shape), first.last.dtype)
        return ConstrainedExperts.of(first, queues, experts, first_weights(n_experts))

    def learn(self, weights: linear.Weights, rows: Rows, n_threads: int = 1) -> ConstrainedWeights:
        """Learn rows in their order, exactly one after the other; see LinearLearner.learn."""
        assert isinstance(weights, ConstrainedWeights)
        inputs, targets = self._checked(weights.last, rows)
        of_experts, shares = weights.last, np.ones(1)
        if isinstance(weights, ConstrainedExperts):
            of_experts, shares = weights.experts.reshape(-1, weights.last.shape[1]), weights.shares.copy()
        arrays, sides = linear.learner_arrays(replace(weights, last=of_experts)), self.kept.has_side
        rule, limits = self.rule, self.kept.compiled(self.precision, self.gain, self.share_rate, self.rectified)
        queues = np.zeros_like(weights.queues)
        before, after_rows = (each.reshape(-1, *sides.shape)[:, ::-1] for each in (weights.queues, queues))
        values, violation = np.zeros(len(shares) * limits.units.size), np.array([weights.progress.violation])
        watched = LimitCounters(before[:, sides].ravel(), values, violation, shares)
        task = LimitedSteps(arrays, watched, make_work(limits.signs.size, 1), rule, limits)
        linear.sweep_rows(task, self.feature_map, inputs, targets, n_threads)
        after = linear.weights_from(arrays, self.loss.task)
        self._check_finite(weights, after)
        after = replace(after, progress=replace(after.progress, violation=float(violation[0])))
        after_rows[:, sides] = watched.queues.reshape(len(after_rows), -1)
        if not isinstance(weights, ConstrainedExperts):
            return ConstrainedWeights(**vars(after), queues=queues)
        return ConstrainedExperts.of(after, queues, after.last.reshape(weights.experts.shape), shares)

    def predictor(self, weights: linear.Weights) -> LinearPredictor:
        return LinearPredictor(self.feature_map, self.kept.nearest(self.raw(weights)).astype(self.precision))

    def raw(self, weights: linear.Weights) -> FloatArray:
        """Return the averaged weights, or the last ones, (n_outputs, n_columns), as they were learned."""
        return weights.averaged if self.average else weights.last

    def chosen(self, weights: linear.Weights) -> dict[str, Any]:
        raw = self.raw(weights)
        chosen: dict[str, Any] = {}
        if isinstance(weights, ConstrainedExperts):
            most = int(weights.shares.argmax())
            why = f"{100.0 * weights.shares.max():.0f}% of {self.n_experts} step sizes"
            why += ", divided by the square root of the rows seen" if self.decaying else ""
            chosen = {
                "step_size": 2.0**most * self.step_size,
                "step_size_reason": f"of the expert with most weight, {why}",
                "weights": "last",
                "weights_reason": "the mean of all experts' weights is saved",
            }
        return chosen | {
            "violation_a_row": weights.progress.violation / max(1, weights.progress.rows),
            "violation_as_learnt": max(float(np.linalg.norm(excess)) for excess in self.kept.excess(raw)),
            "moved_within_limits": float(np.linalg.norm(self.kept.nearest(raw) - raw)),
        }

    def average_shards(self, base: linear.Weights, parts: list[Any]) -> ConstrainedWeights:
        """Return the average by rows, queues among it. Weights within convex limits average to weights within them."""
        assert isinstance(base, ConstrainedWeights)
        shares, _ = shares_of_rows(base.progress, [part.progress for part in parts])
        if not shares:
            return base
        queues = np.zeros_like(base.queues)
        for part, share in zip(parts, shares, strict=True):
            queues += share * part.queues
        return ConstrainedWeights(**vars(linear.average_shard_weights(base, parts)), queues=queues)

    def refreshed(self, limits: LinearLimits) -> ConstrainedLearner:
        """Return the same settings with rows estimated from more data: from here on no theorem is claimed."""
        return replace(self, limits=limits, fixed=False)


@dataclass(frozen=True)
class ConstrainedFactory:
    """Algorithms 1 and 2 of Yi et al. in a ball, within limits of what is linear in the weights.

    maps : the feature map to draw; loss : of the table
    constraints : at least one; radius : of the ball; margin : as in LinearLimits
    gain, rectified : gamma_0, and whether queues are RECOO's, as in ConstrainedLearner
    race : whether step_size None is chosen by a race on the sample, without ball and limits; a constant one
    step_size : otherwise None for the one that regret is proved for, that of `step_in_ball`, or with squared losses
        that of a race in the ball; a number as in LinearFactory
    class_weights, average, decaying : as in LinearFactory
    track : whether experts of several step sizes follow data that change; rows one after the other only
    summed, unit : for rows in memory: their sums in a map, and shift and spread of scores in the constraints' unit;
        None where the data set has them
    Source: Yi et al., ICML 2021, Algorithms 1 and 2 with kappa = c = 1/2; alpha_t = 2 step_t.
    """

    maps: SolverMap
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
    track: bool = False
    summed: Callable[[FeatureMap], RowSums] | None = None
    unit: tuple[float, float] | None = None
    rectified: bool = False

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Return the modes: constraints are applied row by row, or by shards whose weights are averaged."""
        return ("stream",) if self.track else ("stream", "mix")

    def build(self, context: BuildContext) -> BuiltLearner:
        """Draw the map, add the rows of the constraints up over all training rows, and choose the step size.

        Raises ConfigError : a group without rows, limits that no weights keep to; DataError : a column that does not
            fit
        """
        schema, sample = context.schema, context.sample
        check_loss(self.loss, schema)
        feature_map, chosen = self.maps.draw(schema, sample.inputs, context.seed, context.precision)
        if self.summed is not None:
            sums = self.summed(feature_map)
            rows = rows_from(Weighings(self.constraints), sums)
        elif context.data is None or context.execution is None:
            raise ConfigError("Constraints on columns need a data set, but the rows have none.")
        else:
            rows, sums = estimate_rows(context.data, self.constraints, feature_map, context.execution)
        n_outputs, length, decaying = schema.n_outputs, linear.longest_subgradient(self.loss), self.decaying
        unit = self.unit or unit_of(schema)
        limits = limits_of(self.constraints, rows, self.radius, self.margin, n_outputs, unit)
        experts = self._experts(int(sums.counts[0]), length)
        if experts and math.isinf(length):
            step_size, decaying, why = 2.0 ** (1 - experts["n_experts"]), False, "up to 1, which would fit each row"
        elif self.step_size is None and (self.race or math.isinf(length)):
            racer = linear.LinearLearner(feature_map, self.loss, 1.0, n_outputs, self.class_weights, self.average)
            racer = racer if self.race else replace(racer, radius=self.radius, decaying=decaying)
            step_size, why = linear.race_step_sizes(racer, sample, adaptive=False)
            why += ", divided by the square root of the rows seen" if decaying else ""
        else:
            step_size, decaying, why = linear.step_in_ball(self.radius, self.step_size, decaying, length)
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
            rectified=self.rectified,
            **experts,
        )
        chosen = chosen | {
            "step_size": step_size,
            "step_size_reason": why,
            "radius": self.radius,
            "constraint_gain": learner.gain,
            "constraint_gain_reason": "as given"
            if self.gain is not None
            else "any value fits the theorem"
            if self.rectified
            else "the largest value that the theorems allow",
            "constraint_rows": int(sums.counts[0]),
            "constraint_rows_reason": "all training rows, in one pass",
            "constraint_margin": float(limits.margins.max()),
            "constraint_margin_reason": "the given margin plus rounding errors"
            if self.margin
            else "what rounding takes",
        }
        return BuiltLearner(learner, chosen)

    def _experts(self, n_rows: int, length: float) -> dict[str, Any]:
        """Return the number of experts for these rows, and how fast shares follow losses of slopes of this length.

        beta_0 = 2 / length: any fits the theorem; this one is of scores that differ by about 1. On electricity, a
        quarter and four times of it make as many mistakes, or up to 5% more.
        """
        if not self.track:
            return {}
        rate = 2.0 / ((length if math.isfinite(length) else 1.0) * math.sqrt(max(n_rows, 1)))
        return {"n_experts": math.ceil(0.5 * math.log2(1 + n_rows)) + 1, "share_rate": rate}
