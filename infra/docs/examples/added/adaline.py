# File: okl/solvers/online/adaline.py
# SOLVERS: "adaline": "okl.solvers.online.adaline:AdalineSettings",
"""The Adaline on random Fourier features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from okl.data.dataset import Schema
from okl.foundation.catalogue import LOSSES
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError
from okl.foundation.types import Task
from okl.losses import ScalarLoss
from okl.solvers.online.base import check_loss
from okl.solvers.online.linear import LinearFactory
from okl.solvers.online.settings import OnlineSettings, map_of
from okl.solvers.options import Choices, FourierOptions, Run


@stored("adaline-loss")
@dataclass(frozen=True)
class DistanceToLabel(ScalarLoss):
    """(f - y)^2 / 2: a step for every row, as long as its score is from the label."""

    name: str = "adaline"
    task: Task = "binary"

    @staticmethod
    def of_score(f: float, y: float) -> float:
        """Return the loss of a score f, target y."""
        return 0.5 * (f - y) ** 2

    @staticmethod
    def slope(f: float, y: float) -> float:
        """Return the derivative by the score."""
        return f - y


class AdalineSettings(OnlineSettings, FourierOptions):
    """Adaline: w <- w + step_size (y - w'z(x)) z(x) after each row; the step size is chosen by a race on a sample.

    It predicts with an average of the weights in which later ones count more, as `average` of LinearLearner is.

    Source: Widrow & Hoff, IRE WESCON Convention Record, 1960.
    """

    SOLVER: ClassVar[str] = "adaline"
    SUMMARY: ClassVar[str] = "adaline on random Fourier features"
    NOT_TAKEN: ClassVar[Choices] = {**FourierOptions.NOT_TAKEN, "loss": tuple(LOSSES)}

    def check(self, run: Run) -> None:
        """Refuse a loss, and options of a map without one."""
        super().check(run)
        if self.loss != "auto":
            raise ConfigError(f"{self.described('loss')}, but {self.SOLVER} has its own. Remove it.")
        self.check_no_map()

    def learning(self, schema: Schema) -> dict[str, Any]:
        """Return how weights are trained."""
        check_loss(loss := DistanceToLabel(), schema)
        return {"loss": loss, "average": True, "adaptive": False}

    def factory(self, schema: Schema) -> LinearFactory:
        """Return the learner."""
        return LinearFactory(map_of(self), name=self.SOLVER, **self.learning(schema))
