"""How a learner under constraints is settled: the map from a sample, the rows of constraints from all training rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from okl.errors import ConfigError
from okl.losses import Loss
from okl.online.constrained import ConstrainedLearner
from okl.online.constraints.limits import LinearLimits
from okl.online.constraints.quantities import Constraint
from okl.online.constraints.rows import estimate_rows
from okl.online.maps import MapChoice
from okl.online.recipe import Mode, Settled, Situation, check_loss


@dataclass(frozen=True)
class ConstrainedRecipe:
    """Algorithm 1 of Yi et al. in a ball, within limits of what is linear in the weights.

    Parameters
    ----------
    maps : the feature map to draw; loss : hinge or logistic
    constraints : at least one; radius : of the ball; margin : as in LinearLimits
    step_size : None for the one that its regret is proved for, radius / sqrt(2 t); otherwise as in LinearRecipe
    class_weights, average, decaying : as in LinearRecipe

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
    name: str = "fogd"

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Limits are kept row after row, or by shards whose weights are averaged."""
        return ("stream", "mix")

    def settle(self, situation: Situation) -> Settled:
        """Draw the map, add the rows of the constraints up over all training rows, and settle the step size.

        Raises
        ------
        ConfigError : a group without rows, limits that no weights keep to; DataError : a column that does not fit
        """
        schema, sample = situation.schema, situation.sample
        check_loss(self.loss, schema)
        if situation.data is None or situation.execution is None:
            raise ConfigError("Constraints of columns are about a data set, but rows came without one.")
        feature_map, chosen = self.maps.draw(schema, sample.inputs, situation.seed, situation.precision)
        rows, sums = estimate_rows(situation.data, self.constraints, feature_map, situation.execution)
        limits = LinearLimits(
            rows,
            np.array([one.low for one in self.constraints]),
            np.array([one.high for one in self.constraints]),
            tuple(str(one) for one in self.constraints),
            self.radius,
            self.margin,
        )
        decaying = self.decaying or self.step_size is None
        step_size, why = (
            (self.step_size, "as given") if self.step_size else (self.radius / math.sqrt(2), "of the radius")
        )
        why += ", over the square root of the rows seen" if decaying else ""
        learner = ConstrainedLearner(
            feature_map,
            self.loss,
            step_size,
            class_weights=self.class_weights,
            average=self.average,
            decaying=decaying,
            limits=limits,
        )
        chosen = chosen | {
            "step_size": step_size,
            "step_size_reason": why,
            "radius": self.radius,
            "constraint_rows": int(sums.counts[0]),
            "constraint_rows_reason": "all training rows, in one pass",
            "constraint_margin": float(limits.margins.max()),
            "constraint_margin_reason": "as given, and what rounding takes" if self.margin else "what rounding takes",
        }
        return Settled(learner, chosen)
