"""Options of solvers: the base of their settings, and groups of options that several of them take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, field_validator

from okl.foundation import plugins
from okl.foundation.catalogue import load
from okl.foundation.errors import ConfigError
from okl.foundation.settings import KernelName, LossName, MapName, OrExtension, Positive
from okl.foundation.types import Mode, Optimise, Precision, Task

if TYPE_CHECKING:
    from okl.data.dataset import Schema
    from okl.solvers.base import Solver


class Run(Protocol):
    """Settings of a run that a solver reads; see `okl.solvers.settings.TrainSettings`."""

    @property
    def seed(self) -> int: ...

    @property
    def precision(self) -> Precision: ...

    def judged_by(self, task: Task) -> Optimise: ...

    @property
    def mode(self) -> Literal["auto", "stream", "mix", "sum"]: ...

    @property
    def training_mode(self) -> Mode: ...

    @property
    def has_workers(self) -> bool: ...


@dataclass(frozen=True)
class MemoryModel:
    """Growth of a solver's memory.

    unit : "pass", rows are read once a pass; "iteration", in each iteration; "sample", a growing sample in each
        iteration; "moment", once, to sum their moments; "kernel", in each iteration, with few kernel values at once
    state : "fixed", constant size; "budget", grows up to the budget; "supports", grows with the rows
    vectors : number of float64 vectors with one entry a row
    answers : shards whose answers are in the driver at once; None: all
    """

    unit: Literal["pass", "iteration", "sample", "moment", "kernel"]
    state: Literal["fixed", "budget", "supports"] = "fixed"
    vectors: int = 0
    answers: int | None = None


Choices = Mapping[str, tuple[str, ...]]
"""Choices of options, by the names of these."""


class SolverSettings(BaseModel):
    """Options of one solver, what it needs, and how it is made.

    SOLVER : its name; SUMMARY : one line for the help; PRECISION : of the run by default; MEMORY : how its memory grows
    NOT_TAKEN : choices of options that it refuses with any others, so that its help does not show them
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    SOLVER: ClassVar[str]
    SUMMARY: ClassVar[str]
    NOT_TAKEN: ClassVar[Choices] = {}
    PRECISION: ClassVar[Precision] = "float32"
    MEMORY: ClassVar[MemoryModel] = MemoryModel("pass")

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to restore it by the name of its solver: classes that are made for a solver have no place."""
        return load("okl.solvers.settings:restored_settings"), (self.SOLVER, self.model_dump(exclude_unset=True))

    def check(self, run: Run) -> None:
        """Raise ConfigError for options without effect, and combinations that no data could make valid."""

    def mode(self, run: Run) -> Mode:
        """Return the mode of a run."""
        return "sum"

    def build(self, run: Run, schema: Schema, rows: int | None) -> Solver[Any]:
        """Make the solver for data of a schema and a number of training rows (None: unknown); or raise ConfigError."""
        raise NotImplementedError

    def n_columns(self, n_inputs: int) -> int:
        return n_inputs

    def part_bytes(self, n_inputs: int, n_outputs: int, rows: int, item: int) -> float:
        """Return the bytes of an upper bound of one shard's answer; item : bytes of a number."""
        return float(3 * 8 * self.n_columns(n_inputs) * n_outputs)

    def model_bytes(self, n_inputs: int, n_outputs: int, rows: int, item: int) -> float:
        """Return the bytes of a model that grows with the rows, and of what is made of it; 0 for others."""
        return 0.0

    @property
    def certifies(self) -> bool:
        return False

    @property
    def standardises(self) -> bool:
        """Return whether the inputs of a source are standardised unless a scaling is given."""
        return True

    @property
    def n_passes(self) -> int:
        """Return the passes over the training rows, where they are known beforehand."""
        return 1

    def changed(self, name: str) -> bool:
        """Return whether an option differs from its default."""
        return bool(getattr(self, name) != type(self).model_fields[name].default)

    def described(self, name: str) -> str:
        """Return an option and its value, to begin a message."""
        return f"{name} = {getattr(self, name)!r} is set"


def number_of(value: float | str) -> float | None:
    """Return a number as it is; None for "auto", or what else is a word."""
    return None if isinstance(value, str) else value


class KernelOptions(SolverSettings):
    """The kernel."""

    kernel: KernelName = Field("gaussian", description="k(x, x'); polynomial and linear have no Fourier map")
    bandwidth: Positive | Literal["auto"] = Field(
        "auto", description="kernel bandwidth in units of the scaled inputs; auto: the median distance"
    )

    def check(self, run: Run) -> None:
        """Refuse parameters that the kernel does not have."""
        from okl.kernels import kernel_parameters

        super().check(run)
        parameters = set(kernel_parameters(self.kernel))
        for name in ("degree", "offset"):
            if name in type(self).model_fields and name not in parameters and self.changed(name):
                raise ConfigError(
                    f"{self.described(name)}, but the kernel {self.kernel!r} has no {name}. Remove it, or set "
                    "kernel = 'polynomial'."
                )
        if self.bandwidth != "auto" and not parameters & {"bandwidth", "scale"}:
            raise ConfigError(
                f"{self.described('bandwidth')}, but the kernel {self.kernel!r} has no bandwidth. Remove it."
            )


class PolynomialOptions(SolverSettings):
    """The polynomial kernel."""

    degree: int = Field(3, ge=1, description="degree of the polynomial kernel")
    offset: float = Field(1.0, ge=0, allow_inf_nan=False, description="offset of the polynomial kernel")


class FourierOptions(KernelOptions):
    """The random Fourier map, or another one of as many columns. REFUSED_MAPS : with what takes them"""

    REFUSED_MAPS: ClassVar[dict[str, str]] = {"exact": "scs, or a solver with a budget"}
    NOT_TAKEN: ClassVar[Choices] = {"map": ("exact",)}

    frequencies: int = Field(
        400, ge=1, description="random frequencies of the Fourier map, which has twice as many columns"
    )
    map: Annotated[MapName, OrExtension("map")] = Field(
        "independent",
        description="sampling of the random frequencies; auto: chosen by the inputs; nystrom: landmarks in place of "
        "frequencies, twice as many; exact: the kernel itself, no map (scs only)",
    )

    def check(self, run: Run) -> None:
        """Refuse a map that the solver cannot use."""
        super().check(run)
        self.check_map()

    def check_map(self) -> None:
        """Refuse maps of other solvers; see `check`."""
        if self.map in self.REFUSED_MAPS:
            raise ConfigError(
                f"map = {self.map!r} is set, but {self.SOLVER} does not support it. Remove it, "
                f"or use {self.REFUSED_MAPS[self.map]}."
            )

    def n_columns(self, n_inputs: int) -> int:
        return n_inputs if self.kernel == "linear" or self.map == "exact" else 2 * self.frequencies

    def map_bytes(self, n_inputs: int, item: int) -> int:
        """Return the bytes of drawing a Fourier map: frequencies in double precision, and in that of the run."""
        return 0 if self.kernel == "linear" or self.map == "nystrom" else n_inputs * self.frequencies * (8 + 2 * item)

    def check_no_map(self) -> None:
        """Refuse options of a map with a linear kernel, which uses the inputs themselves."""
        for name in ("frequencies", "map") if self.kernel == "linear" else ():
            if self.changed(name):
                raise ConfigError(f"{self.described(name)}, but kernel = 'linear' uses no feature map. Remove it.")


class ClassWeightOptions(SolverSettings):
    """Weights of classes."""

    class_weights: Literal["none", "balanced"] | dict[str, Positive] = Field(
        "none",
        description="weight of each class in steps or losses, so that the predicted class may differ from the most "
        "probable one; balanced: rows / (classes * rows of the class)",
    )

    def weights_of_classes(self, schema: Schema) -> tuple[float, ...] | None:
        """Return the weight of each class, in the order of the labels; None for all equal."""
        from okl.solvers.online.base import balanced_class_weights

        given = self.class_weights
        if given == "none":
            return None
        if schema.task == "regression":
            raise ConfigError("class_weights is for classification, but this is a regression task. Remove it.")
        if given == "balanced":
            return balanced_class_weights(schema)
        names = [str(label) for label in schema.labels]
        if unknown := sorted(set(given) - set(names)):
            raise ConfigError(f"class_weights names {unknown}, but the labels are {names}.")
        if bad := {name: weight for name, weight in given.items() if not 0 < weight < float("inf")}:
            raise ConfigError(f"class_weights holds {bad}; expected finite numbers above 0.")
        return tuple(float(given.get(name, 1.0)) for name in names)


class IterationOptions(SolverSettings):
    """Solvers that read all rows in every iteration, whose only mode is sum."""

    def check(self, run: Run) -> None:
        """Refuse another mode."""
        super().check(run)
        if run.mode not in ("auto", "sum"):
            raise ConfigError(
                f"mode = {run.mode!r}, but {self.SOLVER} reads all rows in every iteration: its mode is sum. Remove it."
            )


class LossOptions(SolverSettings):
    """The loss."""

    loss: Annotated[LossName, OrExtension("loss")] = Field("auto", description="loss to minimise; auto: by the task")
    epsilon: float = Field(
        0.1,
        ge=0,
        allow_inf_nan=False,
        description="regression: residuals below this, in units of the scaled target, have no loss",
    )

    @field_validator("loss", mode="before")
    @classmethod
    def _not_huber(cls, loss: Any) -> Any:
        """Name the option that is Huber's loss."""
        if loss == "huber" and plugins.find("loss", loss) is None:
            raise ValueError("it is an option of least squares: --solver ridge --huber 1.345")
        return loss

    def check_epsilon(self, schema: Schema) -> None:
        """Refuse an epsilon where nothing has residuals."""
        if self.changed("epsilon") and schema.task != "regression":
            raise ConfigError(
                f"epsilon = {self.epsilon:g} is for regression, but {schema.target!r} makes this a {schema.task} task. "
                "Remove it, or ingest with --task regression."
            )
