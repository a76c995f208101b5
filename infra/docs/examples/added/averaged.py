# File: okl/solvers/online/averaged.py
# SOLVERS: "averaged-perceptron": "okl.solvers.online.averaged:AveragedPerceptronSettings",
"""The averaged perceptron on random Fourier features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from okl.data.dataset import Schema
from okl.foundation.errors import ConfigError
from okl.foundation.stored import stored
from okl.foundation.types import Task
from okl.losses import ScalarLoss
from okl.solvers.online.base import check_loss
from okl.solvers.online.linear import LinearFactory
from okl.solvers.online.settings import OnlineSettings, map_of
from okl.solvers.options import FourierOptions
from okl.solvers.settings import TrainSettings


@stored("averaged-perceptron-loss")
@dataclass(frozen=True)
class Mistakes(ScalarLoss):
    """max(0, -y f): a step for every row that is misclassified, of the same length."""

    name: str = "perceptron"
    task: Task = "binary"

    @staticmethod
    def of_score(f: float, y: float) -> float:
        """Return the loss of a score f, target y."""
        return max(0.0, -y * f)

    @staticmethod
    def slope(f: float, y: float) -> float:
        """Return the derivative by the score."""
        return -y if y * f <= 0.0 else 0.0


class AveragedPerceptronSettings(OnlineSettings, FourierOptions):
    """Averaged perceptron: w <- w + y z(x) after a mistake; predict with the average of the weights.

    The size of the steps changes no decision, because training starts with weights of zero.

    Source: Freund & Schapire, Machine Learning 37, 1999 (with averaged weights).
    """

    SOLVER: ClassVar[str] = "averaged-perceptron"
    SUMMARY: ClassVar[str] = "perceptron on random Fourier features, with averaged weights"

    def check(self, run: TrainSettings) -> None:
        """Refuse a loss, and options of a map without one."""
        super().check(run)
        if self.loss != "auto":
            raise ConfigError(f"{self.described('loss')}, but {self.SOLVER} has its own. Remove it.")
        self.check_no_map()

    def learning(self, schema: Schema) -> dict[str, Any]:
        """Return how weights are trained, also those of the linear model to compare with."""
        check_loss(loss := Mistakes(), schema)
        return {"loss": loss, "step_size": 1.0, "average": True, "adaptive": False}

    def factory(self, schema: Schema) -> LinearFactory:
        """Return the learner."""
        return LinearFactory(map_of(self), name=self.SOLVER, **self.learning(schema))
