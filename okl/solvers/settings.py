"""Settings of training: those of every run, and the options of each solver.

A solver owns its options: a frozen model of its own, nested in `TrainSettings.options`. Command line, TOML files,
Python and stored models spell them flat, next to the other settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from okl.foundation import plugins
from okl.foundation.catalogue import MODELS, SOLVERS, STRATEGIES, load
from okl.foundation.errors import ConfigError
from okl.foundation.settings import Count, ExecutionSettings, IngestSettings, Name, OrExtension, SolverName
from okl.foundation.types import Mode, Optimise, Precision, Task
from okl.solvers.options import ClassWeightOptions, IterationOptions, LossOptions, SolverSettings

# Solvers by name: `okl.foundation.catalogue` lists them.

SOLVER_NAMES = tuple(name for name in SOLVERS if name != "auto")


@cache
def solver_settings(name: str) -> type[SolverSettings]:
    """Return the settings of a solver, okl's own or an extension's model. Raises KeyError (an unknown name)."""
    if name in STRATEGIES:
        from okl.solvers.online.settings import strategy_settings

        return strategy_settings(load(STRATEGIES[name]))
    if name in MODELS or (name not in SOLVERS and plugins.find("solver", name) is not None):
        from okl.solvers.accelerated.settings import model_settings

        return model_settings(name)
    kind: type[SolverSettings] = load(SOLVERS[name])
    return kind


def restored_settings(solver: str, values: dict[str, Any]) -> SolverSettings:
    """Restore pickled settings of a solver, whose class is made in each process."""
    return solver_settings(solver).model_validate(values)


def owners_of(option: str) -> list[str]:
    """Return the solvers that take an option."""
    return [name for name in SOLVERS if option in solver_settings(name).model_fields]


class AutoSettings(IterationOptions, ClassWeightOptions):
    """The automatic choice of solver, scaling, kernel, bandwidth and size."""

    SOLVER: ClassVar[str] = "auto"
    SUMMARY: ClassVar[str] = "choose solver, scaling, kernel, bandwidth and size on a sample"

    budget_seconds: float = Field(
        60.0,
        gt=0,
        allow_inf_nan=False,
        description="time limit of the automatic choice and training, in seconds on a machine with two cores; counted "
        "in operations, so that the model does not depend on the clock",
    )
    validation: Literal["auto", "rows", "blocks"] = Field(
        "auto",
        description="validation of the candidates in the automatic choice; rows: shuffled folds; blocks: contiguous "
        "folds, for data whose neighbouring rows are similar; auto: rows, or blocks if their error is much larger and "
        "the test rows were given, not drawn",
    )

    @property
    def standardises(self) -> bool:
        """Return False: the scaling is chosen."""
        return False


# Settings of training.

NOT_OF_SOLVERS = frozenset(
    {"data", "ingest", "solver", "options", "optimise", "threshold", "beside", "rescale", "metric"}
    | {"seed", "precision", "checkpoint_seconds", "checkpoint_rounds", "out", "name"}
)
"""Settings that leave the automatic choice of a solver as it is; an option of a solver, or a mode, selects fogd."""


class TrainSettings(ExecutionSettings):
    """Settings of training: everything that determines the model, and where the work runs.

    Options of the solver are given flat, as in TrainSettings(data="rows", solver="fogd", frequencies=100), and read as
    settings.options.frequencies. Without a solver, an option of one selects fogd.
    """

    data: str = Field(
        description="folder of a data set, or a source to ingest first: Parquet, CSV, JSON lines or svmlight"
    )
    ingest: IngestSettings | None = Field(None, description="settings to ingest a source into the run's folder")
    solver: Annotated[SolverName, OrExtension("solver")] = Field(
        "auto",
        description="solver; auto: choose solver, scaling, kernel, bandwidth and size on a sample, or fogd as soon as "
        "a solver option is given; ridge: exact kernel least squares on landmarks; falkon: "
        "the same on very many landmarks, by iterations; local: the same in cells of neighbouring rows; "
        "perceptron, ogd: store every "
        "support vector, so memory grows with the rows; c-svm to l1-l2-svm: optimise to a certified duality gap; "
        "scs: optimise on growing samples until the gap over all rows is certified; wolfe: conjugate subgradients "
        "over all rows",
    )
    options: SerializeAsAny[SolverSettings] = Field(default_factory=AutoSettings, description="options of the solver")
    optimise: Optimise = Field(
        "auto",
        description="criterion of classes by which candidates and penalties are chosen, and models compared; auto: "
        "log-loss if fewer than 20% of the rows are outside the most frequent class, accuracy otherwise, and "
        "balanced-accuracy with balanced class weights",
    )
    threshold: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="probability from which on the second of two classes is predicted; none: 0.5, or by class weights",
    )
    beside: Literal["linear", "boosting"] = Field(
        "linear",
        description="baselines next to the constant one; linear: logistic or ridge regression, tuned on its penalty; "
        "boosting: histogram gradient boosting of scikit-learn, too",
    )
    rescale: Literal["stored", "none", "standard", "minmax", "robust", "robust-minmax"] = Field(
        "stored",
        description="scaling of inputs, applied when rows are read; stored: that of the data set; of a source with a "
        "given solver: robust-minmax with --text, else standard, except for --track, and for fogd without bandwidth "
        "and step size; "
        "robust and robust-minmax: after squashing columns with heavy tails to z / sqrt(1 + (z / 3)^2)",
    )
    metric: Literal["auto", "none", "diagonal"] = Field(
        "auto",
        description="metric of the inputs, applied after their scaling; diagonal: a weight for each input, learnt on a "
        "sample and used if leave-one-out errors are smaller with it; auto: diagonal with the automatic choice, none "
        "with a given solver",
    )
    seed: int = Field(0, ge=0, description="seed of frequencies, row order and samples")
    precision: Precision = Field(
        "float32",
        description="precision of inputs, maps and weights; ridge: float64 by default, and always if it was chosen "
        "automatically",
    )
    mode: Literal["auto", "stream", "mix", "sum"] = Field(
        "auto",
        description="stream: row by row in one process; mix: train on each shard and average the weights; sum: "
        "mini-batch steps over all shards",
    )
    checkpoint_seconds: float = Field(
        60.0,
        ge=0,
        allow_inf_nan=False,
        description="seconds between checkpoints, for okl train --resume; 0: no checkpoints by time",
    )
    checkpoint_rounds: Count | None = Field(
        None, description="rounds, stream segments or gap checks between checkpoints; none: checkpoints by time only"
    )
    out: str | None = Field(None, description="folder of the run; none: a new folder in okl's home folder")
    name: Name | None = Field(None, description="name of the model")

    if TYPE_CHECKING:

        def __init__(self, **settings: Any) -> None:
            """Take the settings, those of the solver among them."""

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Return the names of all settings, of all solvers, as they are spelled flat."""
        options = dict.fromkeys(option for name in SOLVERS for option in solver_settings(name).model_fields)
        return (*(name for name in cls.model_fields if name != "options"), *options)

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return the default of every setting, of all solvers, as stored models spell them."""
        kinds = [cls, *(solver_settings(name) for name in SOLVERS)]
        fields = {name: field for kind in reversed(kinds) for name, field in kind.model_fields.items()}
        return {name: field.get_default() for name, field in fields.items() if name != "options"}

    def replaced(self, **changes: Any) -> TrainSettings:
        """Return these settings with others instead; for another solver, without the options that it does not take."""
        given = self.model_dump(exclude_unset=True)
        if (solver := changes.get("solver", self.solver)) != self.solver:
            dropped = set(type(self.options).model_fields) - set(solver_settings(solver).model_fields)
            given = {name: value for name, value in given.items() if name not in dropped}
        return type(self).model_validate(given | changes)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other settings of the run; `replaced` also takes options of the solver."""
        if unknown := sorted(set(update or ()) - set(type(self).model_fields)):
            raise ConfigError(f"{', '.join(unknown)} cannot be copied in. Use replaced({unknown[0]}=...).")
        return super().model_copy(update=update, deep=deep)

    @model_validator(mode="before")
    @classmethod
    def _nest_options(cls, values: Any) -> Any:
        """Move the options of the solver into `options`; drop other solvers' options at their defaults.

        Stored settings of older versions hold the options of all solvers.
        """
        if not isinstance(values, dict):
            return values
        given = dict(values)
        if given.get("start") == "own":  # a former setting
            del given["start"]
        if "rescale" not in given and _explicitly_unscaled(given.get("ingest")):
            given["rescale"] = "none"
        nested = given.pop("options", {})
        flat = {name: given.pop(name) for name in list(given) if name not in cls.model_fields}
        options = (nested.model_dump(exclude_unset=True) if isinstance(nested, SolverSettings) else nested) | flat
        solver = shown = given.get("solver", "auto")
        if solver == "auto" and _selects_fogd(given, options):
            given["solver"] = solver = "fogd"
            mode = given.get("mode", "auto")
            shown = "fogd (taken if none is given)" if mode == "auto" else f"fogd (taken because of mode = {mode})"
        if solver not in SOLVERS and not (isinstance(solver, str) and plugins.find("solver", solver)):
            return given  # refused by the choice itself
        kind = solver_settings(solver)
        given["options"] = {name: value for name, value in options.items() if name in kind.model_fields}
        for name, value in options.items():
            if name not in given["options"] and not _is_default(name, value, shown):
                given[name] = value  # an unknown setting
        if kind.PRECISION != "float32":
            given.setdefault("precision", kind.PRECISION)
        return given

    @field_validator("options", mode="wrap")
    @classmethod
    def _of_solver(cls, options: Any, handler: Any, info: ValidationInfo) -> SolverSettings:
        """Validate options by the solver that takes them."""
        return solver_settings(info.data.get("solver", "auto")).model_validate(options)

    @model_serializer(mode="wrap")
    def _flat(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write the options of the solver next to the other settings."""
        values: dict[str, Any] = handler(self)
        options: dict[str, Any] = values.pop("options", {})
        return values | options

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the schema with the options of all solvers, flat."""
        described = handler.resolve_ref_schema(handler(schema))
        properties = described["properties"]
        properties.pop("options", None)
        for name in SOLVERS:
            own = solver_settings(name).model_json_schema()
            properties |= {option: entry for option, entry in own["properties"].items() if option not in properties}
        return described

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the solver, the loss and the map, which an extension may have added."""
        options = self.options
        return (
            self.solver,
            *(getattr(options, name) for name in ("loss", "map") if name in type(options).model_fields),
        )

    @property
    def has_workers(self) -> bool:
        """Return whether worker processes compute."""
        return bool(self.workers or self.scheduler or self.cluster)

    def check_options(self) -> None:
        """Raise ConfigError for a piecewise linear loss of other solvers, and for options that do not fit the run."""
        from okl.losses import online_losses

        loss = self.options.loss if isinstance(self.options, LossOptions) else ""
        if loss in self.options.NOT_TAKEN.get("loss", ()) and loss not in online_losses():
            refused = {name: solver_settings(name).NOT_TAKEN.get("loss", ()) for name in owners_of("loss")}
            raise ConfigError(
                f"{self.options.described('loss')}, but {self.solver} does not take it. Remove it, or set --solver to "
                f"{listed_solvers([name for name, losses in refused.items() if loss not in losses])}."
            )
        self.options.check(self)

    def judged_by(self, task: Task) -> Optimise:
        """Return the criterion: as given, or balanced accuracy where balanced class weights ask for such classes."""
        is_balanced = task != "regression" and getattr(self.options, "class_weights", "none") == "balanced"
        return "balanced-accuracy" if self.optimise == "auto" and is_balanced else self.optimise

    @property
    def training_mode(self) -> Mode:
        """Return the mode: as set, or by default stream in one process and with workers the faster of mix and sum."""
        return self.options.mode(self) if self.mode == "auto" else self.mode


def _explicitly_unscaled(ingest: Any) -> bool:
    """Return whether settings of ingestion state scale = none, rather than leave it open."""
    given = ingest.model_dump(exclude_unset=True) if isinstance(ingest, IngestSettings) else ingest
    return isinstance(given, Mapping) and given.get("scale") == "none"


def _selects_fogd(given: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Return whether settings without a solver hold an option of one, or a mode."""
    execution = ExecutionSettings.model_fields
    others = {name: value for name, value in given.items() if name not in NOT_OF_SOLVERS and name not in execution}
    if "solver" not in given:  # whatever the value is
        return bool(others) or any(map(owners_of, options.keys() - AutoSettings.model_fields.keys()))
    return others.get("mode", "auto") != "auto" or any(
        not _is_default(name, value, None) for name, value in options.items() if name not in AutoSettings.model_fields
    )


def _is_default(option: str, value: Any, solver: str | None) -> bool:
    """Return whether a value is the default of another solver's option, False if unknown; else raise ConfigError."""
    owners = owners_of(option)
    if not owners:
        return False
    kind = solver_settings(owners[0])
    value, default = getattr(kind.model_validate({option: value}), option), kind.model_fields[option].default
    if value == default:
        return True
    if solver is None:
        return False
    raise _of_others(option, value, solver)


def check_given(settings: TrainSettings, given: Mapping[str, Any]) -> None:
    """Raise ConfigError if a given option belongs to other solvers than that of the settings, a default value too."""
    for option, value in given.items():
        if option not in type(settings).model_fields and option not in type(settings.options).model_fields:
            owner = solver_settings(owners_of(option)[0])
            raise _of_others(option, getattr(owner.model_validate({option: value}), option), settings.solver)


def _of_others(option: str, value: Any, solver: str) -> ConfigError:
    owners, remedy = owners_of(option), "Remove it, or choose another solver."
    if owners == ["auto"]:
        remedy = "Remove it, or leave the solver and the mode to okl."
    elif longer := [name for name in AutoSettings.model_fields if name.startswith(f"{option}_")]:
        remedy += f" The automatic choice has {longer[0]}."
    return ConfigError(
        f"{option} = {value!r} is set, but the solver {solver} has no {option}: it belongs to "
        f"{listed_solvers(owners)}. {remedy}"
    )


_MOST_LISTED = 6


def listed_solvers(names: list[str]) -> str:
    """Return names as text; of more than six the first three."""
    if len(names) > _MOST_LISTED:
        return f"{', '.join(names[: _MOST_LISTED // 2])} and {len(names) - _MOST_LISTED // 2} others"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
