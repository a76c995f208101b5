"""Tracking rows that change: one map drawn beforehand, and nothing to tune."""

from __future__ import annotations

from dataclasses import dataclass

from okl.losses import Loss
from okl.online.maps import MapChoice
from okl.online.recipe import Mode, Settled, Situation, check_loss
from okl.online.tracking.learner import TrackingLearner


@dataclass(frozen=True)
class TrackingRecipe:
    """Experts of several step sizes in one map, mixed by Fixed Share.

    Rows are learnt one after the other only: what changes with time cannot be learnt on shards apart.

    Parameters
    ----------
    maps : the feature map to draw; loss : of the table
    class_weights : weight of each class's steps and mistakes, None for 1
    radius : of the ball that models lie in which a certificate compares with; None for no certificate; two classes

    Source: see TrackingLearner.
    """

    maps: MapChoice
    loss: Loss
    class_weights: tuple[float, ...] | None = None
    radius: float | None = None
    name: str = "track"
    modes: tuple[Mode, ...] = ("stream",)

    def settle(self, situation: Situation) -> Settled:
        """Draw the map for the sample."""
        schema = situation.schema
        check_loss(self.loss, schema)
        feature_map, chosen = self.maps.draw(schema, situation.sample.inputs, situation.seed, situation.precision)
        learner = TrackingLearner(feature_map, self.loss, schema.n_outputs, class_weights=self.class_weights)
        return Settled(learner, chosen)
