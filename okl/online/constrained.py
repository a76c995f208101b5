"""The linear learner under constraints: Algorithm 1 of Yi et al. in a ball, row after row, in any feature map."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from okl.checks import check_positive
from okl.compiled.blocks import borrowed_block
from okl.compiled.constrained import learn_constrained_block
from okl.compiled.constrainedsteps import room_for
from okl.compiled.drivers import learn_constrained_fourier
from okl.errors import ConfigError
from okl.execution.protocol import Rows
from okl.features.fourier import FourierFeatures
from okl.online.blockwise import Turns, in_turns, learn_mapped
from okl.online.constrainedstate import ConstrainedWeights, average_constrained, watched_from
from okl.online.constraints.limits import LinearLimits
from okl.online.learner import LinearLearner
from okl.online.weights import Weights, learnt_from, weights_from
from okl.predictors import LinearPredictor
from okl.types import FloatArray

ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class ConstrainedLearner(LinearLearner):
    """Settings of learning row by row, two classes, within limits in the long run.

    w_(t+1) = argmin over the ball of alpha_t <grad, w> + alpha_t gamma_(t+1) <q-hat, [g(w)]_+> + ||w - w_t||^2, with
    alpha_t = 2 step_t, gamma_t = gamma_0 / sqrt(alpha_t) and g the rows of the limits at length 1. gamma_0 =
    1 / (sqrt(2) G), where G bounds the gradients of the loss, whose features have length 1, and of g.

    What predicts is the nearest of the (averaged) weights that is within all limits: the limits hold for it to the
    last, whatever they were overstepped by on the way.

    Parameters
    ----------
    feature_map, loss, step_size, class_weights, average, decaying : as in LinearLearner
    limits : of linear quantities, with the radius of the ball
    fixed : whether the rows of the limits stay; rows that are refreshed leave no theorem to claim
    given_gain : gamma_0, None for the largest that the theorems allow; above it no theorem is claimed either

    Raises
    ------
    ConfigError : what LinearLearner refuses, no limits, or a gamma_0 that is not above 0

    Source: Yi et al., ICML 2021, Algorithm 1, Theorems 1 (constant steps) and 2 (steps that decay).
    """

    limits: LinearLimits | None = None
    fixed: bool = True
    given_gain: float | None = None

    def __post_init__(self) -> None:
        if self.limits is None:
            raise ConfigError("A learner under constraints takes limits. Give some, or use LinearLearner.")
        if self.given_gain is not None:
            check_positive("constraint_gain", self.given_gain)
        object.__setattr__(self, "radius", check_positive("radius", self.limits.radius))
        super().__post_init__()

    @property
    def kept(self) -> LinearLimits:
        """The limits."""
        assert self.limits is not None
        return self.limits

    @property
    def gain(self) -> float:
        """gamma_0."""
        return self.largest_gain if self.given_gain is None else self.given_gain

    @property
    def covered(self) -> bool:
        """Whether the theorems are about these settings: the rows stay, and gamma_0 is within its range."""
        return self.fixed and self.gain <= self.largest_gain * (1.0 + ROUNDING)

    @property
    def largest_gain(self) -> float:
        """1 / (sqrt(2) G), up to which the theorems allow gamma_0.

        A limit of two sides counts once in G: what is outside of one side is inside of the other.
        """
        return 1.0 / (math.sqrt(2.0) * max(*(self.class_weights or (1.0, 1.0)), self.kept.steepness))

    def start(self) -> ConstrainedWeights:
        """Weights of zero, before any row."""
        count = len(self.kept.low)
        return ConstrainedWeights.of(super().start(), np.zeros((2, count)), np.zeros(count + 1))

    def learn(self, weights: Weights, rows: Rows, n_threads: int = 1) -> ConstrainedWeights:
        """Learn rows in their order, exactly one after the other; see LinearLearner.learn."""
        assert isinstance(weights, ConstrainedWeights)
        inputs, targets = self._checked(weights.last, rows)
        learnt, watched, found = learnt_from(weights), watched_from(weights), room_for(len(self.kept.low))
        rule, limits = self.rule, self.kept.compiled(self.precision, self.gain)

        def fused(fourier: FourierFeatures, turns: Turns, thread: int, n_threads: int) -> None:
            with borrowed_block(fourier.rows_per_block, fourier.widths, inputs.dtype) as block:
                parts = (learnt, watched, found, turns, block, inputs, targets)
                learn_constrained_fourier(*parts, fourier.waves, rule, limits, thread, n_threads)

        def other(turns: Turns, thread: int, n_threads: int) -> None:
            learn_mapped(
                self.feature_map,
                inputs,
                turns,
                thread,
                n_threads,
                lambda block, part: learn_constrained_block(learnt, watched, found, block, targets[part], rule, limits),
            )

        in_turns(self.feature_map, len(inputs), n_threads, fused, other)
        after = weights_from(learnt, self.loss.task)
        self._check_finite(weights, after)
        return ConstrainedWeights.of(after, watched.queues, watched.exceeded)

    def predictor(self, weights: Weights) -> LinearPredictor:
        """The map with the nearest weights within the limits to the averaged ones, or to the last ones."""
        nearest = self.kept.nearest(self.raw(weights)[0])
        return LinearPredictor(self.feature_map, nearest[None, :].astype(self.precision))

    def raw(self, weights: Weights) -> FloatArray:
        """The averaged weights, or the last ones, (1, n_columns), as they were learnt."""
        return weights.averaged if self.average else weights.last

    def chosen(self, weights: Weights) -> dict[str, Any]:
        """What the limits were overstepped by, and how far the weights that predict are from what was learnt."""
        raw = self.raw(weights)[0]
        return {
            "violation_a_row": weights.progress.violation / max(1, weights.progress.rows),
            "violation_as_learnt": float(np.linalg.norm(self.kept.excess(raw))),
            "moved_within_limits": float(np.linalg.norm(self.kept.nearest(raw) - raw)),
        }

    def join(self, base: Weights, parts: list[Any]) -> ConstrainedWeights:
        """The average, by rows, of what shards learnt from fork(base)."""
        assert isinstance(base, ConstrainedWeights)
        return average_constrained(base, parts)

    def refreshed(self, limits: LinearLimits) -> ConstrainedLearner:
        """The same settings with other rows, as more data tell them: from here on no theorem is claimed."""
        return replace(self, limits=limits, fixed=False)
