"""How an online learner is settled once the data have been looked at: from frozen configuration to a learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from okl.errors import ConfigError
from okl.execution.protocol import Execution, Rows
from okl.losses import Loss
from okl.online.protocol import RowLearner
from okl.online.rounds import AdaGrad
from okl.store.dataset import Dataset, Schema
from okl.types import Precision

Mode = Literal["stream", "mix", "sum"]


@dataclass(frozen=True, eq=False)
class Situation:
    """What a recipe may look at.

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


class Settled(NamedTuple):
    """What a recipe makes of a situation.

    learner : the learner; chosen : what was chosen from the sample, each with its reason: for people
    optimiser : that steps in the mode sum; None for plain steps
    """

    learner: RowLearner[Any]
    chosen: dict[str, Any]
    optimiser: AdaGrad | None = None


class Recipe(Protocol):
    """Frozen configuration of one kind of learner."""

    @property
    def name(self) -> str:
        """As `--solver` has it."""
        ...

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Modes that it can learn in."""
        ...

    def settle(self, situation: Situation) -> Settled:
        """The learner for the data at hand.

        Raises
        ------
        ConfigError : the configuration does not fit the data
        """
        ...


def check_loss(loss: Loss, schema: Schema) -> None:
    """Raise ConfigError unless the loss is for the task of the data."""
    if loss.task != schema.task:
        raise ConfigError(
            f"The loss {loss.name!r} is for a {loss.task} task, but {schema.target!r} makes this a {schema.task} task. "
            f"Leave the loss to auto, or ingest with --task {loss.task}."
        )


def balanced_class_weights(schema: Schema) -> tuple[float, ...]:
    """rows / (classes x rows of the class), the convention of scikit-learn, from the TRAIN rows."""
    counts = np.array(schema.class_counts, dtype=np.float64)
    return tuple(float(weight) for weight in counts.sum() / (len(counts) * counts))
