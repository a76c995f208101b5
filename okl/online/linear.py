"""The linear learner in a feature map that is drawn beforehand: FOGD with a Fourier map."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from okl.losses import Loss
from okl.online.learner import LinearLearner
from okl.online.maps import MapChoice
from okl.online.recipe import Mode, Settled, Situation, check_loss
from okl.online.rounds import AdaGrad
from okl.online.stepsize import race_step_sizes

MOST_STEP_FACTOR = 4


@dataclass(frozen=True)
class LinearRecipe:
    """Predict, suffer, then learn, one row at a time: w <- w - step_size loss'(w'z(x)) z(x).

    Parameters
    ----------
    maps : the feature map to draw; loss : of the table
    step_size : on the scaled map, None for a choice by a small race
    class_weights : weight of each class's steps, None for 1; average : predict with averaged weights
    adaptive : whether the caller of the mode sum steps by AdaGrad
    radius : of the ball that weights stay in, None for no ball; a step size that is to be chosen is then the one that
        its regret is proved for, radius / sqrt(2 t)
    decaying : whether step t is step_size / sqrt(t), in a ball

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 1, 3 and 5; in a ball, Zinkevich, ICML 2003, section 2.
    """

    maps: MapChoice
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
        """All three; in a ball rows are learnt one after the other only, which is what regret is about."""
        return ("stream", "mix", "sum") if self.radius is None else ("stream",)

    def settle(self, situation: Situation) -> Settled:
        """Draw the map, and settle the step size on the sample."""
        schema, sample, mode = situation.schema, situation.sample, situation.mode
        check_loss(self.loss, schema)
        feature_map, chosen = self.maps.draw(schema, sample.inputs, situation.seed, situation.precision)
        learner = LinearLearner(feature_map, self.loss, 1.0, schema.n_outputs, self.class_weights, self.average)
        adaptive = mode == "sum" and self.adaptive
        if self.radius is not None:
            return self._settle_in_ball(learner, self.radius, chosen)
        if self.step_size is None:
            step_size, why = race_step_sizes(learner, sample, adaptive)
            factor = self._step_factor(situation)
            if factor != 1:
                step_size, why = step_size * factor, f"{why}, times {factor} for the mode {mode}"
        else:
            step_size, why = self.step_size, "as given"
        optimiser = AdaGrad.start(schema.n_outputs, feature_map.n_columns) if adaptive else None
        chosen = chosen | {"step_size": step_size, "step_size_reason": why}
        return Settled(replace(learner, step_size=step_size), chosen, optimiser)

    def _settle_in_ball(self, learner: LinearLearner, radius: float, chosen: dict[str, Any]) -> Settled:
        decaying = self.decaying or self.step_size is None
        step_size, why = (self.step_size, "as given") if self.step_size else (radius / math.sqrt(2.0), "of the radius")
        why += ", over the square root of the rows seen" if decaying else ""
        learner = replace(learner, step_size=step_size, radius=radius, decaying=decaying)
        return Settled(learner, chosen | {"step_size": step_size, "step_size_reason": why, "radius": radius})

    def _step_factor(self, situation: Situation) -> int:
        """How much longer than on the sample the steps of a mode are; squared residuals would not bear it.

        The average of mix takes 1/shards of the way of each shard, but with long steps a shard soon finds nothing left
        to learn in its rows of a round; in sum the average of the weights is predicted with, which gains from longer
        steps than the progressive error of the race does (measured: tests/benchmarks/modes.py).
        """
        if situation.mode == "stream" or self.loss.task == "regression":
            return 1
        return MOST_STEP_FACTOR if situation.mode == "sum" else min(situation.n_shards, MOST_STEP_FACTOR)
