"""Settings of the subgradient solvers: scs, wolfe and pegasos."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from okl.data.dataset import Schema
from okl.foundation.errors import ConfigError
from okl.foundation.settings import InRange, Positive
from okl.kernels import shift_invariant_kernels
from okl.losses import PiecewiseLinear
from okl.solvers.online.settings import NOT_SMOOTHED, OnlineSettings, map_of
from okl.solvers.options import (
    Choices,
    ClassWeightOptions,
    FourierOptions,
    IterationOptions,
    LossOptions,
    MemoryModel,
    PolynomialOptions,
    Run,
    SolverSettings,
    number_of,
)
from okl.solvers.subgradient.losses import DEFAULT_LOSS, make_piecewise, weigh
from okl.solvers.subgradient.pegasos import PegasosFactory
from okl.solvers.subgradient.scs import Bias, DirectionName, Scs
from okl.solvers.subgradient.solver import SubgradientSolver
from okl.solvers.subgradient.spaces import ExactChoice


class PenaltyOptions(SolverSettings):
    """Weight of the squared norm."""

    lam: InRange = Field(
        1e-3, description="weight of half the squared norm, added to the mean loss; C = 1 / (lam * rows)"
    )


class ConfidenceOptions(SolverSettings):
    """Confidence of a sampled gap."""

    confidence: float = Field(0.95, gt=0, lt=1, description="confidence of a sampled gap; an exact gap needs none")


class CuttingSettings(IterationOptions, FourierOptions, LossOptions, ClassWeightOptions, PenaltyOptions):
    """Options of solvers by cuts."""

    NOT_TAKEN: ClassVar[Choices] = {
        "loss": ("logistic", "thresholded-half-squared"), "bias": ("errors", "free"),
    }  # fmt: skip

    gap: Positive = Field(0.01, description="absolute gap of the objective over all rows to stop at")
    max_iterations: int = Field(20_000, ge=1, description="maximum number of iterations")
    bias: Literal["own", "errors", "regularised", "free"] = Field(
        "own", description="own: no bias; regularised: penalised like a weight"
    )

    def check(self, run: Run) -> None:
        """Refuse biases that do not exist over shards, and options of a map without one."""
        super().check(run)
        if self.bias == "free":
            raise ConfigError(
                f"bias = 'free', but over shards {self.SOLVER} has no bias or a regularised one. Set "
                "bias = 'regularised', use c-svm, whose own bias is free, with C = 1 / (lam rows), or "
                "okl.SCSClassifier."
            )
        if self.bias == "errors":
            raise ConfigError(
                f"bias = 'errors', but {self.SOLVER} has no bias or a regularised one. Remove it, "
                "or set bias = 'regularised'."
            )
        self.check_no_map()

    def build(self, run: Run, schema: Schema, rows: int | None) -> SubgradientSolver:
        self.check_epsilon(schema)
        name = DEFAULT_LOSS[schema.task] if self.loss == "auto" else self.loss
        return SubgradientSolver(
            loss=weigh(make_piecewise(name, self.epsilon), self.weights_of_classes(schema)),
            lam=self.lam,
            gap=self.gap,
            constant=self.bias == "regularised",
            max_iterations=self.max_iterations,
            seed=run.seed,
            precision=run.precision,
            **self._method(),
        )

    def _method(self) -> dict[str, Any]:
        raise NotImplementedError


class ScsSettings(CuttingSettings, PolynomialOptions, ConfidenceOptions):
    """Stochastic conjugate subgradients on growing samples. Source: Zhang & Sen, Algorithm 1."""

    SOLVER: ClassVar[str] = "scs"
    SUMMARY: ClassVar[str] = "kernel SVM on growing samples, until the gap over all rows is certified"
    MEMORY: ClassVar[MemoryModel] = MemoryModel("sample", vectors=4)

    first_sample: Annotated[int, Field(ge=2)] | Literal["auto"] = Field(
        "auto", description="rows of the first sample; auto: 1000, or all rows if there are fewer"
    )
    bundle_size: int = Field(100, ge=2, description="maximum number of cuts in the bundle")
    directions: DirectionName = Field(
        "bundle",
        description="search directions on a sample; bundle: to the minimum of all cuts; conjugate: of Zhang & Sen, the "
        "shortest combination of the last direction and a subgradient; subgradient: without the last direction",
    )

    def check(self, run: Run) -> None:
        """Refuse a size of a bundle without one."""
        super().check(run)
        if self.directions != "bundle" and self.changed("bundle_size"):
            raise ConfigError(f"{self.described('bundle_size')}, but directions = {self.directions!r}. Remove one.")

    def check_map(self) -> None:
        """Refuse a kernel without a map, and options of maps with the kernel itself."""
        if self.map != "exact":
            if self.map != "nystrom" and self.kernel not in ("linear", *shift_invariant_kernels()):
                raise ConfigError(
                    f"kernel = {self.kernel!r} has no Fourier map. Set map = 'nystrom' or 'exact', or use nogd."
                )
            return
        if self.bias == "regularised":
            raise ConfigError(
                "bias = 'regularised' is set, but over shards it requires a feature map, and map = 'exact' has none. "
                "Remove one of them."
            )
        if self.changed("frequencies"):
            raise ConfigError(f"{self.described('frequencies')}, but map = 'exact' has no frequencies. Remove it.")

    def method(self, loss: PiecewiseLinear) -> Scs:
        """Return the method on one sample in memory."""
        biases: dict[str, Bias] = {"own": "none", "errors": "none", "regularised": "regularised", "free": "free"}
        return Scs(self.lam, loss, self.gap, self.directions, self.bundle_size, biases[self.bias], self.max_iterations)

    def _method(self) -> dict[str, Any]:
        exact = ExactChoice(self.kernel, number_of(self.bandwidth), self.degree, self.offset)
        return {
            "maps": exact if self.map == "exact" else map_of(self),
            "confidence": self.confidence,
            "first_sample": None if self.first_sample == "auto" else self.first_sample,
            "bundle_size": self.bundle_size,
            "directions": self.directions,
        }


class WolfeSettings(CuttingSettings):
    """Wolfe's conjugate subgradient method over all rows."""

    SOLVER: ClassVar[str] = "wolfe"
    SUMMARY: ClassVar[str] = "kernel SVM by conjugate subgradients over all rows"
    NOT_TAKEN: ClassVar[Choices] = {**CuttingSettings.NOT_TAKEN, **FourierOptions.NOT_TAKEN}
    MEMORY: ClassVar[MemoryModel] = MemoryModel("iteration", vectors=4)

    def _method(self) -> dict[str, Any]:
        return {"maps": map_of(self), "all_rows": True, "conjugate": True}


class PegasosSettings(OnlineSettings, FourierOptions, PenaltyOptions, ConfidenceOptions):
    """Pegasos: stochastic subgradient steps of decaying size."""

    SOLVER: ClassVar[str] = "pegasos"
    COMPARED: ClassVar[bool] = False
    NOT_TAKEN: ClassVar[Choices] = {"loss": (*CuttingSettings.NOT_TAKEN["loss"], *NOT_SMOOTHED), "map": ("exact",)}
    SUMMARY: ClassVar[str] = "kernel SVM by stochastic subgradient steps, in one or more passes"

    batch: int = Field(1, ge=1, description="rows per step, a divisor of 256")
    project: bool = Field(False, description="project the weights onto the ball that contains the optimal ones")
    average: bool = Field(True, description="predict with the average of all iterates, not with the last one")
    certify: bool = Field(False, description="compute a certificate: the gap over all rows")

    def check(self, run: Run) -> None:
        """Refuse a confidence without a certificate, and options of a map without one."""
        super().check(run)
        if self.changed("confidence") and not self.certify:
            raise ConfigError(
                f"{self.described('confidence')}, but the run has no certificate. Remove it, or set --certify."
            )
        self.check_no_map()

    @property
    def certifies(self) -> bool:
        return self.certify

    def factory(self, schema: Schema) -> PegasosFactory:
        return PegasosFactory(
            map_of(self),
            self.loss_of(schema),
            lam=self.lam,
            batch=self.batch,
            project=self.project,
            average="later" if self.average else "none",
        )

    def learning(self, schema: Schema) -> dict[str, Any]:
        """Return how a linear model is learned for comparison, as options of LinearFactory."""
        return super().learning(schema) | {"average": self.average}
