"""Factories of online learners and the choice of a step size."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from okl.data.dataset import Dataset, Schema
from okl.data.executor import Execution, Rows
from okl.foundation.errors import ConfigError, DivergedError
from okl.foundation.types import Precision
from okl.losses import Loss
from okl.solvers.online.base import RowLearner
from okl.solvers.online.linear import AdaGrad, LinearLearner, PlainGradient
from okl.solvers.online.maps import MapChoice

# From settings to a learner.

Mode = Literal["stream", "mix", "sum"]


@dataclass(frozen=True, eq=False)
class BuildContext:
    """Context in which a learner is built.

    schema : of the data; sample : training rows in a random order, at most 4096 of them
    rows : training rows of a pass, None for a stream of unknown length; n_shards : that hold them
    mode, seed, precision : of the run
    data, execution : all of the rows and where to go over them, None for rows in memory
    """

    schema: Schema
    sample: Rows
    rows: int | None
    n_shards: int
    mode: Mode
    seed: int
    precision: Precision
    data: Dataset | None = None
    execution: Execution | None = None


class BuiltLearner(NamedTuple):
    """Learner built for a context.

    learner : the learner; chosen : what was chosen from the sample, each with its reason: for people
    optimiser : that steps in the mode sum; None for plain steps
    """

    learner: RowLearner[Any]
    chosen: dict[str, Any]
    optimiser: AdaGrad | None = None


class LearnerFactory(Protocol):
    """Frozen configuration of one kind of learner."""

    @property
    def name(self) -> str:
        """Return the name for `--solver`."""
        ...

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Return the modes in which it can train."""
        ...

    def settle(self, situation: BuildContext) -> BuiltLearner:
        """Return the learner for the data at hand.

        Raises
        ------
        ConfigError : the configuration does not fit the data
        """
        ...


def check_loss(loss: Loss, schema: Schema) -> None:
    """Raise ConfigError unless the loss is for the task of the data."""
    if loss.task != schema.task:
        raise ConfigError(
            f"The loss {loss.name!r} is for {loss.task} tasks, but {schema.target!r} makes this a "
            f"{schema.task} task. Set the loss to auto, or ingest with --task {loss.task}."
        )


def balanced_class_weights(schema: Schema) -> tuple[float, ...]:
    """Return rows / (classes x rows of the class), as in scikit-learn, from the training rows."""
    counts = np.array(schema.class_counts, dtype=np.float64)
    return tuple(float(weight) for weight in counts.sum() / (len(counts) * counts))


# Step sizes: a race on a sample.

PLAIN_STEPS = tuple(2.0**k for k in range(-6, 5))
ADAGRAD_STEPS = tuple(2.0**k for k in range(-6, 4))
RACE_BATCHES = 32


def race_step_sizes(learner: LinearLearner, sample: Rows, adaptive: bool) -> tuple[float, str]:
    """Choose the step size whose progressive error on a sample is least; the smaller one on a tie.

    Rows of the scaled map have norm 1, so that a step of at most 1 on a squared residual never overshoots it: larger
    ones do not take part in regression. AdaGrad's steps do not grow with the gradients, so that in regression they are
    measured in the root mean square of the targets: weights for house prices could never be reached by steps of 8.

    Parameters
    ----------
    learner : whose step size is to be chosen; sample : rows in a random order
    adaptive : for AdaGrad's mini-batch steps

    Returns
    -------
    the step size, and a sentence that says why
    """
    steps = _adagrad_steps(learner, sample) if adaptive else _safe_steps(learner)
    errors = [_adagrad_error(learner, sample, step) if adaptive else _error(learner, sample, step) for step in steps]
    best = int(np.argmin(errors))
    return steps[best], f"least progressive error of {len(steps)} step sizes on {len(sample.targets):,} sampled rows"


def _safe_steps(learner: LinearLearner) -> tuple[float, ...]:
    if learner.loss.task != "regression":
        return PLAIN_STEPS
    return tuple(step for step in PLAIN_STEPS if step <= 1.0)


def _adagrad_steps(learner: LinearLearner, sample: Rows) -> tuple[float, ...]:
    if learner.loss.task != "regression" or not sample.targets.any():
        return ADAGRAD_STEPS
    unit = float(np.sqrt(np.mean(sample.targets**2)))
    return tuple(step * unit for step in ADAGRAD_STEPS)


def _error(learner: LinearLearner, sample: Rows, step: float) -> float:
    racer = replace(learner, step_size=step)
    try:
        return racer.learn(racer.start(), sample, n_threads=1).progress.error
    except DivergedError:
        return np.inf


def _adagrad_error(learner: LinearLearner, sample: Rows, step: float) -> float:
    racer = replace(learner, step_size=step)
    weights, optimiser = racer.start(), AdaGrad.start(learner.n_outputs, learner.feature_map.n_columns)
    try:
        batches = np.array_split(np.arange(len(sample.targets)), min(RACE_BATCHES, len(sample.targets)))
        for number, part in enumerate(batches, start=1):
            inside = slice(part[0], part[-1] + 1)
            gradient = PlainGradient.of(racer, weights.last, Rows(sample.inputs[inside], sample.targets[inside]))
            weights, stepped = gradient.step(racer, weights, optimiser, number)
            assert stepped is not None
            optimiser = stepped
    except DivergedError:
        return np.inf
    return weights.progress.error


# The linear learner with a fixed map.

MOST_STEP_FACTOR = 4


@dataclass(frozen=True)
class LinearFactory:
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
        """Return the modes in which it can train."""
        return ("stream", "mix", "sum") if self.radius is None else ("stream",)

    def settle(self, situation: BuildContext) -> BuiltLearner:
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
        return BuiltLearner(replace(learner, step_size=step_size), chosen, optimiser)

    def _settle_in_ball(self, learner: LinearLearner, radius: float, chosen: dict[str, Any]) -> BuiltLearner:
        decaying = self.decaying or self.step_size is None
        step_size, why = (self.step_size, "as given") if self.step_size else (radius / math.sqrt(2.0), "of the radius")
        why += ", divided by the square root of the rows seen" if decaying else ""
        learner = replace(learner, step_size=step_size, radius=radius, decaying=decaying)
        return BuiltLearner(learner, chosen | {"step_size": step_size, "step_size_reason": why, "radius": radius})

    def _step_factor(self, situation: BuildContext) -> int:
        """Return the factor of a mode's steps relative to the sample's; squared residuals do not tolerate one.

        The average of mix takes 1/shards of the way of each shard, but with long steps a shard soon finds nothing left
        to learn in its rows of a round; in sum the average of the weights is predicted with, which gains from longer
        steps than the progressive error of the race does (measured: tests/benchmarks/modes.py).
        """
        if situation.mode == "stream" or self.loss.task == "regression":
            return 1
        return MOST_STEP_FACTOR if situation.mode == "sum" else min(situation.n_shards, MOST_STEP_FACTOR)
