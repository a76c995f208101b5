"""NOGD settled on the data at hand: kernel and step size from a sample, landmarks from the first support vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from okl.errors import ConfigError, DivergedError
from okl.execution.protocol import Rows
from okl.features.bandwidth import suit_kernel
from okl.features.nystrom import NystromFeatures
from okl.features.protocol import FeatureMap
from okl.kernels import Kernel
from okl.losses import Loss
from okl.online.linear import LinearRecipe
from okl.online.maps import refuse_bandwidth_beside
from okl.online.nogd import NOGDLearner, check_budget
from okl.online.nogdstate import nystrom_start
from okl.online.recipe import Mode, Settled, Situation, check_loss
from okl.online.stepsize import PLAIN_STEPS
from okl.store.dataset import Schema
from okl.types import FloatArray, Precision


@dataclass(frozen=True)
class NOGDRecipe:
    """NOGD whose landmarks are the first support vectors: of the stream, or of the sample in the modes mix and sum.

    Shards could not average what each learns with supports of its own: there the map is made beforehand.

    Parameters
    ----------
    loss : of the table
    kernel : a name, or a kernel itself
    bandwidth : of a named kernel, None for the median distance of the sample; none for a kernel that is given itself
    budget : landmarks; rank : columns of the map, at most budget
    step_size : None for a choice by a small race on the sample
    class_weights, average : as in LinearRecipe; adaptive : whether the caller of the mode sum steps by AdaGrad
    degree, offset : of the polynomial kernel by name

    Raises
    ------
    ConfigError : a bandwidth beside a kernel that is given itself

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 2, 4 and 6.
    """

    loss: Loss
    kernel: str | Kernel = "gaussian"
    bandwidth: float | None = None
    budget: int = 100
    rank: int = 20
    step_size: float | None = None
    class_weights: tuple[float, ...] | None = None
    average: bool = True
    adaptive: bool = True
    degree: int = 3
    offset: float = 1.0
    name: str = "nogd"
    modes: tuple[Mode, ...] = ("stream", "mix", "sum")

    def __post_init__(self) -> None:
        refuse_bandwidth_beside(self.kernel, self.bandwidth)

    def settle(self, situation: Situation) -> Settled:
        """Choose the kernel's bandwidth and the step size on the sample; with shards, the landmarks, too.

        Raises
        ------
        ConfigError : the loss, the budget or the rank does not fit the data
        """
        schema, sample = situation.schema, situation.sample
        check_loss(self.loss, schema)
        if situation.rows is not None:
            check_budget(self.budget, situation.rows)
        kernel: Kernel
        chosen: dict[str, Any]
        if isinstance(self.kernel, str):
            kernel, chosen = suit_kernel(self.kernel, self.bandwidth, sample.inputs, self.degree, self.offset)
        else:
            kernel, chosen = self.kernel, {}
        learner = NOGDLearner(
            kernel,
            schema.n_features,
            self.loss,
            1.0 if self.step_size is None else self.step_size,
            self.budget,
            self.rank,
            schema.n_outputs,
            self.class_weights,
            self.average,
            situation.precision,
        )
        why = "as given"
        if self.step_size is None:
            step_size, why = _race(learner, sample)
            learner = replace(learner, step_size=step_size)
        if situation.mode != "stream":
            maps = _FirstSupports(learner, sample, chosen)
            recipe = LinearRecipe(
                maps, self.loss, self.step_size, self.class_weights, self.average, self.adaptive, self.name
            )
            return recipe.settle(situation)
        sizes = {"landmarks": self.budget, "rank": self.rank, "rank_reason": "as asked for"}
        return Settled(learner, chosen | sizes | {"step_size": learner.step_size, "step_size_reason": why})


@dataclass(frozen=True, eq=False)
class _FirstSupports:
    """The Nystrom map of the first support vectors of a sample."""

    learner: NOGDLearner
    sample: Rows
    chosen: dict[str, Any]

    def draw(
        self, schema: Schema, sample: FloatArray, seed: int, precision: Precision
    ) -> tuple[FeatureMap, dict[str, Any]]:
        """The map, and how many landmarks and columns it has."""
        learner = self.learner
        feature_map, n_rows = _map_of_sample(learner, self.sample)
        n_landmarks, rank = feature_map.n_landmarks, feature_map.n_columns
        why = "as asked for" if rank == learner.rank else "all that the landmarks' kernel matrix can keep"
        chosen = self.chosen | {
            "landmarks": n_landmarks,
            "landmarks_reason": f"the first support vectors among {n_rows:,} sampled rows",
            "rank": rank,
            "rank_reason": why,
        }
        return feature_map, chosen


def _map_of_sample(learner: NOGDLearner, sample: Rows) -> tuple[NystromFeatures, int]:
    """The map of the landmarks that a sample has, at most the budget, and the rows it took to find them."""
    state = learner.learn(learner.start(), sample)
    if state.feature_map is None:
        found = len(state.supports.inputs)
        if found == 0:
            raise ConfigError(
                f"No row of a sample of {len(sample.targets):,} suffers a loss, so NOGD finds no landmarks for the "
                "shards. Use the mode stream, or a smaller epsilon."
            )
        state = nystrom_start(learner.kernel, min(learner.rank, found), state)
    assert state.feature_map is not None
    return state.feature_map, state.filled.rows


def _race(learner: NOGDLearner, sample: Rows) -> tuple[float, str]:
    """The step size whose progressive error on the sample is least, the smaller one on a tie; and why."""
    errors = [_error(replace(learner, step_size=step), sample) for step in PLAIN_STEPS]
    best = int(np.argmin(errors))
    if not np.isfinite(errors[best]):
        raise DivergedError(
            f"Every step size down to {PLAIN_STEPS[0]:g} diverges on a sample of {len(sample.targets):,} rows. Scale "
            "the inputs and the target, or give a smaller step size."
        )
    why = f"least progressive error of {len(PLAIN_STEPS)} step sizes on {len(sample.targets):,} sampled rows"
    return PLAIN_STEPS[best], why


def _error(learner: NOGDLearner, sample: Rows) -> float:
    try:
        return learner.learn(learner.start(), sample).progress.error
    except DivergedError:
        return np.inf
