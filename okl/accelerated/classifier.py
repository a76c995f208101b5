"""What every classification model says about itself, so that a new one is one file that touches nothing else."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

from okl.accelerated.protocol import Problem, Solution
from okl.checks import check_positive
from okl.errors import ConfigError
from okl.types import FloatArray

ParameterName = Literal["C", "nu", "kappa"]


class Classifier(ABC):
    """A model of two classes: frozen configuration that makes a problem of rows.

    NAME : at the command and in estimators
    PARAMETER : the one parameter it takes
    TAKES_KERNEL : whether rows may be known by a kernel matrix alone; the others take explicit rows
    HAS_OWN_BIAS : whether the bias is part of its problem; the others take one from the training errors, or none
    EQUATION : number of its formula in Ito et al., 2017, which orders the models; one beyond 100 where it is not there
    """

    NAME: ClassVar[str]
    PARAMETER: ClassVar[ParameterName]
    TAKES_KERNEL: ClassVar[bool] = True
    HAS_OWN_BIAS: ClassVar[bool] = True
    EQUATION: ClassVar[int]

    @classmethod
    @abstractmethod
    def of(cls, parameter: float | None, fit_intercept: bool = True) -> Classifier:
        """The model with its parameter, or its default if None; ConfigError outside the parameter's range."""

    @classmethod
    @abstractmethod
    def valid_range(
        cls, rows: Any, sample_weight: FloatArray | None = None, fit_intercept: bool = True
    ) -> tuple[float, float]:
        """Open lower and upper end of the parameter for these rows; the upper end of a nu is part of it."""

    @abstractmethod
    def problem(self, rows: Any, sample_weight: FloatArray | None = None) -> Problem:
        """What is minimised over rows, an operator, each weighing sample_weight (m,) or 1."""

    def check(self, found: Solution, rows: Any, sample_weight: FloatArray | None = None) -> None:  # noqa: B027
        """Raise ConfigError where a solution shows that the parameter was outside its valid range for the rows."""


def check_cost(value: float) -> float:
    """Return a C that is finite and above 0, or raise ConfigError."""
    if value == math.inf:
        raise ConfigError(
            "C = inf leaves no regularisation, and the weights no bound where a plane tells the classes apart: "
            "it takes a finite number above 0."
        )
    return check_positive("C", value)
