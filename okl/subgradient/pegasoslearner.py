"""Pegasos over rows as they come: a learner for streams and for shards that are mixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from okl.checks import check_at_least
from okl.compiled.blocks import MOST_ROWS
from okl.compiled.primalsteps import FACTORS, SCALE, STEPS, TOTAL, step_rows
from okl.errors import ConfigError, DivergedError
from okl.execution.protocol import Rows
from okl.features.protocol import FeatureMap
from okl.features.scoring import transform_rows
from okl.losses import Loss
from okl.online.checked import checked_rows
from okl.online.maps import MapChoice
from okl.online.recipe import Mode, Settled, Situation, check_loss
from okl.predictors import LinearPredictor
from okl.subgradient.pegasos import Average, Pegasos, PegasosState, state_from
from okl.types import Precision, Task

LOSSES = ("hinge", "multiclass-hinge")
_WINDOW = 16 * MOST_ROWS  # rows whose features are in memory at once


@dataclass(frozen=True, eq=False)
class PegasosLearner:
    """Steps of 1 / (lam t) on the rows in their order, `batch` of them a step.

    Parameters
    ----------
    feature_map : z; method : lam, batch, projection and average; its batch divides 256
    loss : "hinge" or "multiclass-hinge"; n_outputs : number of classes for several, otherwise 1

    Raises
    ------
    ConfigError : another loss, or a batch that does not divide 256, so that blocks of rows would change what is learnt

    Source: as in okl.subgradient.pegasos; on shards, McDonald, Hall & Mann, NAACL 2010, Figure 3.
    """

    feature_map: FeatureMap
    method: Pegasos
    loss: Loss
    n_outputs: int = 1

    def __post_init__(self) -> None:
        check_at_least("n_outputs", self.n_outputs, 2 if self.loss.task == "multiclass" else 1)
        check_stream(self.loss, self.method.batch)

    @property
    def task(self) -> Task:
        """That of the loss."""
        return self.loss.task

    @property
    def precision(self) -> Precision:
        """That of the map."""
        return self.feature_map.precision

    def start(self) -> PegasosState:
        """Nothing learnt."""
        return self.method.start(self.feature_map.n_columns, self.n_outputs, self.precision)

    def learn(self, state: PegasosState, rows: Rows, n_threads: int = 1) -> PegasosState:
        """Learn rows in their order; the state that came stays as it is. The last step may have fewer rows.

        Raises
        ------
        DataError : inputs or targets do not fit; DivergedError : the weights are no longer finite
        """
        shape = (self.task, self.feature_map.n_inputs, self.n_outputs, self.precision)
        inputs, targets = checked_rows(rows, *shape)
        carried, batch = state.carried(), self.method.batch
        scores, changes = np.zeros(self.n_outputs, dtype=self.precision), np.zeros(batch)
        wrongs = np.zeros(batch, dtype=np.int64)
        for first in range(0, len(targets), _WINDOW):
            features = transform_rows(self.feature_map, inputs[first : first + _WINDOW], n_threads)
            picks = np.arange(len(features))
            some = targets[first : first + _WINDOW]
            step_rows(carried, scores, changes, wrongs, features, some, picks, self.method.steps)
        after = state_from(carried, self.task)
        if not np.isfinite(after.points).all():
            raise DivergedError(
                f"Rows {state.progress.rows:,} to {after.progress.rows - 1:,}: the weights are no longer finite with "
                f"lam = {self.method.lam:g}. Use a larger one, or precision float64."
            )
        return after

    def predictor(self, state: PegasosState) -> LinearPredictor:
        """The map with the averaged weights, or the last ones."""
        return LinearPredictor(self.feature_map, self.method.weights(state).astype(self.precision))

    def chosen(self, state: PegasosState) -> dict[str, Any]:
        """Nothing: all was settled before."""
        return {}

    def fork(self, state: PegasosState) -> PegasosState:
        """The same weights and step, with an average that begins afresh."""
        numbers = state.numbers.copy()
        numbers[[FACTORS, TOTAL]] = 0.0
        return PegasosState(state.points, np.zeros_like(state.behind), numbers, state.progress)

    def join(self, base: PegasosState, parts: list[PegasosState]) -> PegasosState:
        """The average, by rows, of what shards learnt from fork(base); steps go on from all that were taken."""
        grown = [part.progress.since(base.progress) for part in parts]
        rows = sum(growth.rows for growth in grown)
        if rows == 0:
            return base
        lam, numbers = self.method.lam, base.numbers.copy()
        numbers[STEPS] += sum(part.numbers[STEPS] - base.numbers[STEPS] for part in parts)
        numbers[SCALE], progress = 1.0, base.progress
        last = np.zeros_like(base.behind)
        total = base.numbers[FACTORS] * base.points.astype(np.float64) - base.behind
        for part, growth in zip(parts, grown, strict=True):
            last += growth.rows / rows * part.last(lam)
            total += part.numbers[FACTORS] * part.points.astype(np.float64) - part.behind
            numbers[TOTAL] += part.numbers[TOTAL]
            progress = progress.plus(growth)
        # the sum of all weights so far is W x - u: with W = 0 it is -u
        numbers[FACTORS] = 0.0
        points = (lam * numbers[STEPS] * last).astype(base.points.dtype)
        return PegasosState(points, -total, numbers, progress)


@dataclass(frozen=True)
class PegasosRecipe:
    """Pegasos in a feature map that is drawn for the data.

    Parameters
    ----------
    maps : the feature map to draw; loss : "hinge" or "multiclass-hinge"
    lam, batch, project, average : as in okl.subgradient.pegasos.Pegasos; batch divides 256

    Raises
    ------
    ConfigError : a parameter is out of range, or another loss
    """

    maps: MapChoice
    loss: Loss
    lam: float = 1e-3
    batch: int = 1
    project: bool = False
    average: Average = "later"
    name: str = "pegasos"
    modes: tuple[Mode, ...] = ("stream", "mix")

    def __post_init__(self) -> None:
        check_stream(self.loss, self._method(0).batch)

    def settle(self, situation: Situation) -> Settled:
        """Draw the map."""
        schema = situation.schema
        check_loss(self.loss, schema)
        sample = situation.sample.inputs
        feature_map, chosen = self.maps.draw(schema, sample, situation.seed, situation.precision)
        learner = PegasosLearner(feature_map, self._method(situation.seed), self.loss, schema.n_outputs)
        return Settled(learner, chosen | {"lam": self.lam, "lam_reason": "as given", "bias": "none"})

    def _method(self, seed: int) -> Pegasos:
        return Pegasos(self.lam, self.batch, self.project, self.average, seed=seed)


def check_stream(loss: Loss, batch: int) -> None:
    """Raise ConfigError unless Pegasos can learn this loss from a stream in steps of so many rows."""
    if loss.name not in LOSSES:
        raise ConfigError(f"The loss is {loss.name!r}, but pegasos takes {' or '.join(LOSSES)}. Leave it out.")
    if MOST_ROWS % batch:
        raise ConfigError(f"batch = {batch}, but in a stream it divides {MOST_ROWS}: use 1, 2, 4, .. or {MOST_ROWS}.")
