"""Learning without tuning: experts in a stream; elsewhere their choice of a map on a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from okl.features.protocol import FeatureMap
from okl.losses import Loss
from okl.online.experts.candidates import draw_candidates
from okl.online.experts.learner import ExpertLearner
from okl.online.experts.schedule import MOST_RACED_ROWS, WHOLE_RACE, race_schedule
from okl.online.linear import LinearRecipe
from okl.online.recipe import Mode, Settled, Situation, check_loss
from okl.store.dataset import Schema
from okl.types import FloatArray, Precision


@dataclass(frozen=True)
class ExpertRecipe:
    """Bandwidths and step sizes tracked side by side, and with them a linear model: nothing is left to choose.

    Shards could not average what experts of their own chose: in the modes mix and sum, experts learn a sample, and the
    map of the one that leads is what the shards learn in. A sample is short, so nobody leaves before its end: maps that
    predict the majority class are ahead in the first rows, where another one stands out later.

    Parameters
    ----------
    loss : of the table; kernel : name of a shift-invariant one; n_frequencies : of each map
    class_weights : weight of each class's steps, None for 1
    average, adaptive : as in LinearRecipe, for mix and sum

    Source: see ExpertLearner.
    """

    loss: Loss
    kernel: str = "gaussian"
    n_frequencies: int = 400
    class_weights: tuple[float, ...] | None = None
    average: bool = True
    adaptive: bool = True
    name: str = "fogd"
    modes: tuple[Mode, ...] = ("stream", "mix", "sum")

    def settle(self, situation: Situation) -> Settled:
        """Draw the maps for the sample; for mix and sum, let experts choose one of them."""
        schema, sample = situation.schema, situation.sample
        check_loss(self.loss, schema)
        candidates = draw_candidates(
            sample.inputs, self.n_frequencies, situation.seed, situation.precision, self.kernel
        )
        # of a stream nobody knows the length of, the race is as long as in the longest
        schedule = race_schedule(situation.rows or MOST_RACED_ROWS) if situation.mode == "stream" else WHOLE_RACE
        learner = ExpertLearner(candidates, self.loss, schema.n_outputs, schedule, class_weights=self.class_weights)
        if situation.mode == "stream":
            n_maps = len(candidates.bases) * candidates.n_octaves + 1
            return Settled(learner, {"maps": n_maps, "maps_reason": "raced while they learnt; one of them is linear"})
        learnt = learner.learn(learner.start(), sample)
        why = f"least loss of experts on {len(sample.targets):,} sampled rows"
        recipe = LinearRecipe(
            Chosen(learner.leader(learnt)[0], learner.map_chosen(learnt, why)),
            self.loss,
            None,
            self.class_weights,
            self.average,
            self.adaptive,
            self.name,
        )
        return recipe.settle(situation)


@dataclass(frozen=True, eq=False)
class Chosen:
    """A map that was chosen already, and what it is, for people."""

    feature_map: FeatureMap
    chosen: dict[str, Any]

    def draw(
        self, schema: Schema, sample: FloatArray, seed: int, precision: Precision
    ) -> tuple[FeatureMap, dict[str, Any]]:
        """The map, and what it is."""
        return self.feature_map, self.chosen
