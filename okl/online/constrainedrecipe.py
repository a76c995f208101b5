"""How a learner under constraints is settled: the map from a sample, the rows of constraints from all training rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.errors import ConfigError
from okl.features.protocol import FeatureMap
from okl.losses import Loss
from okl.online.constrained import ConstrainedLearner
from okl.online.constraints.columns import Columns
from okl.online.constraints.limits import limits_of
from okl.online.constraints.quantities import Constraint
from okl.online.constraints.rows import RowSums, estimate_rows, rows_from, sums_of
from okl.online.constraints.weighings import Weighings
from okl.online.learner import LinearLearner
from okl.online.maps import MapChoice
from okl.online.recipe import Mode, Settled, Situation, check_loss
from okl.online.stepsize import race_step_sizes
from okl.types import FloatArray


def step_of_radius(radius: float) -> float:
    """Step 1 of those that decay: radius / sqrt(2).

    Steps eta / sqrt(t) cost distance^2 sqrt(T) / (2 eta) + eta sqrt(T) at most, for gradients of length 1; of weights
    a radius apart that is least here.

    Source: Zinkevich, ICML 2003, Theorem 1 and its proof.
    """
    return radius / math.sqrt(2)


@dataclass(frozen=True)
class ConstrainedRecipe:
    """Algorithm 1 of Yi et al. in a ball, within limits of what is linear in the weights.

    Parameters
    ----------
    maps : the feature map to draw; loss : hinge or logistic
    constraints : at least one; radius : of the ball; margin : as in LinearLimits
    gain : gamma_0, as in ConstrainedLearner
    race : whether step_size None is chosen by a race on the sample, without limits; a constant one
    step_size : otherwise None for the one that regret is proved for, radius / sqrt(2 t); a number as in LinearRecipe
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
    gain: float | None = None
    name: str = "fogd"
    race: bool = False

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
        feature_map, chosen = self.maps.draw(schema, sample.inputs, situation.seed, situation.precision)
        rows, sums = self._estimated(situation, feature_map)
        limits = limits_of(self.constraints, rows, self.radius, self.margin)
        decaying = self.decaying or (self.step_size is None and not self.race)
        step_size, why = (
            (self.step_size, "as given") if self.step_size else (step_of_radius(self.radius), "of the radius")
        )
        if self.step_size is None and self.race:
            free = LinearLearner(feature_map, self.loss, 1.0, 1, self.class_weights, self.average)
            step_size, why = race_step_sizes(free, sample, adaptive=False)
        why += ", over the square root of the rows seen" if decaying else ""
        learner = ConstrainedLearner(
            feature_map,
            self.loss,
            step_size,
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
            "constraint_gain_reason": "the largest that the theorems allow" if self.gain is None else "as given",
            "constraint_rows": int(sums.counts[0]),
            "constraint_rows_reason": "all training rows, in one pass",
            "constraint_margin": float(limits.margins.max()),
            "constraint_margin_reason": "as given, and what rounding takes" if self.margin else "what rounding takes",
        }
        return Settled(learner, chosen)

    def _estimated(self, situation: Situation, feature_map: FeatureMap) -> tuple[NDArray[np.float64], RowSums]:
        if situation.data is None or situation.execution is None:
            raise ConfigError("Constraints of columns are about a data set, but rows came without one.")
        return estimate_rows(situation.data, self.constraints, feature_map, situation.execution)


@dataclass(frozen=True, eq=False)
class RecipeInMemory(ConstrainedRecipe):
    """The same for rows in memory: inputs (rows, n_inputs), and the columns that constraints look at beside them."""

    inputs: FloatArray | None = None
    columns: Columns | None = None

    def _estimated(self, situation: Situation, feature_map: FeatureMap) -> tuple[NDArray[np.float64], RowSums]:
        assert self.inputs is not None
        assert self.columns is not None
        weighings = Weighings(self.constraints)
        sums = sums_of(weighings, feature_map.transform(self.inputs), self.columns, "sensitive")
        return rows_from(weighings, sums), sums
