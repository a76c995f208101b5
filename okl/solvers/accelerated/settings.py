"""Settings of the models that are solved to a certified duality gap."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from okl.data.dataset import Schema
from okl.foundation.errors import ConfigError
from okl.foundation.settings import Positive
from okl.solvers.accelerated.base import Classifier
from okl.solvers.accelerated.choice import MethodChoice, MethodName
from okl.solvers.accelerated.fitting import ModelTask
from okl.solvers.accelerated.models import model_class
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.online.settings import map_of, summary_of
from okl.solvers.options import (
    Choices,
    ClassWeightOptions,
    FourierOptions,
    IterationOptions,
    MemoryModel,
    Run,
    SolverSettings,
    number_of,
)

NEWTON_MODELS = ("c-svm", "l2-svm", "logistic", "nu-svm", "dwd", "l1-logistic", "l1-l2-svm")


class CostOptions(SolverSettings):
    """The parameter C."""

    C: Positive | Literal["auto"] = Field("auto", description="weight of the losses, as in LIBSVM; auto: 1")


class NuOptions(SolverSettings):
    """The parameter nu."""

    nu: Positive | Literal["auto"] = Field(
        "auto",
        description="nu-svm: upper bound on the share of margin errors; auto: half of the largest valid value, or more "
        "if all weights would be 0. dwd: any number above 0; auto: by the distance "
        "between the classes",
    )


class KappaOptions(SolverSettings):
    """The parameter kappa."""

    kappa: Positive | Literal["auto"] = Field(
        "auto", description="standard deviations allowed around the class means; auto: half of the largest valid value"
    )


class BallOptions(SolverSettings):
    """Bound on a norm of the weights."""

    norm: Literal["1", "inf", "auto"] = Field(
        "auto",
        description="norm of the weights that is bounded in place of the penalty: 1 for few weights, inf for even "
        "ones; auto: none, the penalty of the model",
    )
    radius: Positive | Literal["auto"] = Field("auto", description="bound of the norm; auto: 1")


class InterceptOptions(SolverSettings):
    """Option of models with a bias."""

    fit_intercept: bool = Field(True, description="fit a bias")


class ModelSettings(FourierOptions, IterationOptions):
    """Options of a model that is solved to a certified duality gap."""

    MODEL: ClassVar[type[Classifier]]
    NOT_TAKEN: ClassVar[Choices] = {
        "map": ("exact",), "bias": ("regularised", "free"), "method": ("working-sets",),
    }  # fmt: skip

    tol: Positive = Field(1e-4, description="relative duality gap to stop at")
    max_iterations: int = Field(20_000, ge=1, description="maximum number of iterations, for each class")
    bias: Literal["own", "errors", "regularised", "free"] = Field(
        "own", description="own: the bias of the model's formula; errors: the bias with the fewest training errors"
    )

    method: MethodName = Field(
        "auto",
        description="newton: Newton's method; fapg: accelerated gradients; proven: fapg with a bound on its "
        "iterations; auto: newton up to 1,000 columns and for logistic, unless C is so small that fapg is faster; "
        "else fapg",
    )

    @property
    def intercept(self) -> bool:
        return not isinstance(self, InterceptOptions) or self.fit_intercept

    @property
    def task(self) -> ModelTask:
        task = ModelTask(self.SOLVER, number_of(getattr(self, self.MODEL.PARAMETER)), self.intercept)
        if not isinstance(self, BallOptions) or (self.norm == "auto" == self.radius):
            return task
        if self.norm == "auto":
            raise ConfigError(f"radius = {self.radius:g} is set without a norm. Set norm to 1 or inf, or remove it.")
        if self.method == "newton":
            raise ConfigError("method = 'newton' is set, but a bound on a norm takes method = fapg, proven or auto.")
        return replace(task, norm=float(self.norm), radius=number_of(self.radius) or 1.0)

    @property
    def chooser(self) -> MethodChoice:
        return MethodChoice(self.method, self.tol, self.max_iterations)

    def check(self, run: Run) -> None:
        """Refuse biases of other solvers, and options of a map without one."""
        super().check(run)
        self.task  # noqa: B018  (raises where options do not fit together)
        if self.method == "newton" and self.SOLVER not in NEWTON_MODELS:
            raise ConfigError(
                f"method = 'newton' is set, but {self.SOLVER} is not one of {', '.join(NEWTON_MODELS)}. Remove it."
            )
        if self.method == "working-sets":
            raise ConfigError(
                "method = 'working-sets' is set, but only estimators have exact kernels. Set method=auto or remove it."
            )
        if self.bias in ("regularised", "free"):
            raise ConfigError(
                f"bias = {self.bias!r}, but {self.SOLVER} has its own bias or that of fewest errors. Remove it, or "
                "use scs."
            )
        if self.bias == "errors" and not self.intercept:
            raise ConfigError(
                "bias = 'errors' is set with fit_intercept = False, but the bias of fewest errors is an intercept. "
                "Remove one of them."
            )
        self.check_no_map()

    def build(self, run: Run, schema: Schema, rows: int | None) -> AcceleratedSolver:
        assert self.bias != "regularised", "options were checked"
        assert self.bias != "free", "options were checked"
        weights = self.weights_of_classes(schema) if isinstance(self, ClassWeightOptions) else None
        return AcceleratedSolver(
            task=self.task,
            maps=map_of(self),
            class_weights=weights,
            bias=self.bias,
            method=self.chooser,
            seed=run.seed,
            precision=run.precision,
        )

    def part_bytes(self, n_inputs: int, n_outputs: int, rows: int, item: int) -> float:
        if self.MEMORY.unit != "moment":
            return super().part_bytes(n_inputs, n_outputs, rows, item)
        columns = self.n_columns(n_inputs)
        return float(8 * columns * (2 * columns + n_outputs))


_PARAMETERS: dict[str, type[SolverSettings]] = {"C": CostOptions, "nu": NuOptions, "kappa": KappaOptions}


def model_settings(name: str) -> type[ModelSettings]:
    """Return the settings of a model by name; class moments do not depend on sample weights."""
    model = model_class(name)
    bases: list[type[SolverSettings]] = [ModelSettings, _PARAMETERS[model.PARAMETER]]
    if model.HAS_OWN_BIAS:
        bases.append(InterceptOptions)
    if model.SMOOTH:
        bases.append(BallOptions)
    if model.PARAMETER != "kappa":
        bases.append(ClassWeightOptions)
    own = {
        "SOLVER": name,
        "SUMMARY": summary_of(model),
        "MODEL": model,
        "MEMORY": MemoryModel("moment") if model.PARAMETER == "kappa" else MemoryModel("iteration", vectors=9),
        "__module__": __name__,
        "__doc__": model.__doc__,
    }
    return type(f"{model.__name__}Settings", tuple(bases), own)
