"""Frozen, validated settings for ingest and training, read from options, TOML files or Python."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from okl.foundation import plugins
from okl.foundation.errors import ConfigError
from okl.foundation.types import Precision, Task

# TOML files that people write, with errors that name the option by which a file was given.


def read_toml(path: str | Path, option: str) -> dict[str, Any]:
    """The values of a file. option : such as "--config", for errors

    Raises
    ------
    ConfigError : it cannot be read, or is not TOML in UTF-8
    """
    try:
        with open(path, "rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise ConfigError(f"{option} {path} cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{option} {path} is not TOML: {error}.") from None


# Numbers of the settings, with their ranges.

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


# The names that a choice of the settings takes: okl's own, and those that extensions have declared.

SolverName = Literal[
    "fogd", "nogd", "perceptron", "ogd", "norma", "rbp", "forgetron", "projectron", "projectron++", "bpa-s", "bpa-nn",
    "bpa-p", "bogd", "bogd++", "bsgd-removal", "bsgd-merging", "budget-perceptron", "tvm",
    "c-svm", "l2-svm", "logistic", "nu-svm", "dwd", "mm-fda", "mm-mpm", "l1-logistic", "l1-l2-svm",
    "scs", "wolfe", "pegasos", "ridge",
]  # fmt: skip
AskedSolver = Literal[SolverName, "auto"]
KernelName = Literal["gaussian", "laplacian", "matern32", "matern52", "polynomial", "linear"]
MapName = Literal["independent", "orthogonal", "quasi", "structured", "auto", "exact"]
LossName = Literal[
    "auto", "hinge", "logistic", "multiclass-hinge", "thresholded-half-squared", "absolute", "epsilon-insensitive"
]
MOST_LISTED = 12  # names of a choice in an error


class OrOfExtension:
    """Marks a choice among okl's own names, which may as well be one that an extension has declared."""

    def __init__(self, kind: plugins.Kind) -> None:
        self.kind = kind

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Extensions are looked at only for a name that is none of okl's own."""
        as_text = core_schema.to_string_ser_schema()
        return core_schema.no_info_wrap_validator_function(self._known, handler(source), serialization=as_text)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """All names that this process knows, for a form."""
        told = handler(schema)
        return told | {"enum": [*told["enum"], *plugins.names(self.kind)]}

    def _known(self, name: Any, own: Callable[[Any], Any]) -> Any:
        try:
            return own(name)
        except ValidationError as error:
            if isinstance(name, str) and plugins.find(self.kind, name):
                return name
            told = _near_names(str(name), error.errors()[0])
            raise PydanticCustomError("no_such_name", "{told}, or one that --extension adds", {"told": told}) from None


def _near_names(name: str, fault: ErrorDetails) -> str:
    """What a choice takes, in words: all names if they are few, otherwise those that come near."""
    names = re.findall(r"'([^']+)'", fault["msg"])
    if len(names) <= MOST_LISTED:
        return fault["msg"]
    near = [one for one in names if name.strip() and name.lower() in one] or get_close_matches(name, names, 4, 0.5)
    return f"input should be one that okl train --help lists, such as {', '.join(near or names[:1] + names[-2:])}"


# Where the work of a command runs.


class WhereSettings(BaseModel):
    """Where the work runs; a given mode has the same bits anywhere."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workers: int = Field(0, ge=0, description="Dask worker processes to start; 0: this process only")
    scheduler: str | None = Field(None, description="address of a running Dask scheduler")
    cluster: str | None = Field(
        None, description="TOML file: class (of dask-jobqueue, -kubernetes, -cloudprovider), workers, [options]"
    )
    tls: str | None = Field(
        None, description="folder with ca.pem, cert.pem and key.pem for encrypted connections to workers"
    )
    threads: Count | Literal["auto"] = Field("auto", description="threads of this process; auto: its cores, at most 4")

    @field_validator("cluster", "tls")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        """The same place for whoever reads the settings later, in another directory."""
        return path and os.path.abspath(path)


# How a source becomes a data set.


class IngestSettings(BaseModel):
    """How a source becomes a data set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: str = Field("y", description="name of the column to predict")
    task: Task | Literal["auto"] = Field(
        "auto", description="binary, multiclass or regression; auto looks at the target"
    )
    split_column: str | None = Field(
        None, description="text column that holds train or test for each row; none: a text column named split, if any"
    )
    holdout: float | str | None = Field(
        None,
        description="test rows: a share (0..1) by a seeded hash of the row number, or a 0/1 column",
    )
    keys: tuple[str, ...] = Field((), description="columns carried along, never learnt")
    drop: tuple[str, ...] = Field((), description="columns left out")
    scale: Literal["none", "standard", "minmax"] = Field("none", description="scaling of inputs, applied on reading")
    scale_target: bool = Field(False, description="scale a regression target the same way")
    rows_per_shard: int = Field(131072, ge=1, description="rows in a part file")
    rows_per_group: int = Field(16384, ge=1, description="rows in a Parquet row group: the unit of reading")
    missing: Literal["error", "drop", "zero", "mean"] = Field(
        "error",
        description="numbers that a row misses: error, drop the row, read 0, or read the training mean beside an input "
        "that says so; in text a missing value is one more category",
    )
    categories: tuple[str, ...] = Field(
        (), description="columns whose values are names, though they are numbers: one input each, as of a text column"
    )
    max_categories: int = Field(
        64, ge=1, description="most frequent values of a text column that get an input each; the others share one"
    )
    dates: Literal["error", "parts", "drop"] = Field(
        "error", description="date and time columns: parts are years, and places in the year, the week and the day"
    )
    svmlight_index: Literal["auto", "0", "1"] = Field(
        "auto", description="index of the first column of svmlight text; auto: 0 if it occurs, else 1"
    )
    hash_columns: int | None = Field(
        None, ge=1, description="svmlight text with very many columns: fold them into so many, signed, by a hash"
    )
    compression: Literal["zstd", "none"] = Field("zstd", description="of part files; none is read fastest")
    compression_level: int = Field(3, ge=1, le=22, description="of zstd: 19 takes 15 times longer for 17% fewer bytes")
    seed: int = Field(0, ge=0, description="decides which rows a holdout share takes")

    @field_validator("svmlight_index", mode="before")
    @classmethod
    def _as_word(cls, index: Any) -> Any:
        """A number, as TOML and Python give it, as the word that a command line gives."""
        return str(index) if index in (0, 1) else index


# Everything that decides a trained model.

_TRUE = ("true", "1", "yes", "on")
NOT_OF_LEARNERS = frozenset(
    {"data", "ingest", "solver", "rescale", "budget_seconds", "validation", "seed", "precision", "checkpoint_seconds"}
    | {"checkpoint_rounds", "out", "name"}
)
"""Options of a run that a race takes as well."""


class TrainSettings(WhereSettings):
    """Everything that decides a trained model, and where the work runs."""

    data: str = Field(description="folder of a data set, or a source: Parquet, CSV or svmlight (then ingest is used)")
    ingest: IngestSettings | None = Field(None, description="how a source is ingested into the run's folder")
    solver: Annotated[AskedSolver, OrOfExtension("solver")] = Field(
        "auto",
        description="the learner; auto: solver, scaling, kernel, bandwidth and size by a race on a sample, or fogd as "
        "soon as an option of a learner is given; ridge: kernel least squares on landmarks, solved exactly; "
        "perceptron and ogd keep every row they learn from: memory grows with the rows; "
        "c-svm to l1-l2-svm: solved to a certified duality gap; scs: solved on samples that grow until the gap over "
        "all rows is certified; wolfe: conjugate subgradients of all rows at once",
    )
    kernel: KernelName = Field("gaussian", description="k(x, x'); a Fourier map takes the first four")
    bandwidth: Positive | Literal["auto"] = Field(
        "auto", description="in units of scaled inputs; auto: median distance, or chosen by experts while fogd learns"
    )
    degree: int = Field(3, ge=1, description="of the polynomial kernel")
    offset: float = Field(1.0, ge=0, allow_inf_nan=False, description="of the polynomial kernel")
    frequencies: int = Field(
        400, ge=1, description="fogd, c-svm to pegasos: random frequencies; the map has twice as many columns"
    )
    map: Annotated[MapName, OrOfExtension("map")] = Field(
        "independent",
        description="of the same: how frequencies are drawn; auto: what suits the inputs; exact: scs, no map at all",
    )
    C: Positive | Literal["auto"] = Field(
        "auto", description="c-svm, l2-svm, logistic, l1-logistic, l1-l2-svm: weight of the losses, LIBSVM's; auto: 1"
    )
    nu: Positive | Literal["auto"] = Field(
        "auto",
        description="nu-svm: share of rows in the margin, at most; auto: half of the largest valid one, or more where "
        "that has no weights; dwd: any number above 0; auto: .5, where estimators choose by the classes' distance",
    )
    kappa: Positive | Literal["auto"] = Field(
        "auto", description="mm-fda, mm-mpm: deviations from the class means; auto: half of the largest valid one"
    )
    tol: Positive = Field(1e-4, description="c-svm to l1-l2-svm: relative duality gap to stop at")
    lam: Positive = Field(
        1e-3,
        description="scs, wolfe, pegasos: weight of half the squared norm beside the mean loss; C = 1 / (lam rows)",
    )
    gap: Positive = Field(0.01, description="scs, wolfe: gap of the objective over all rows to stop at, absolute")
    confidence: float = Field(0.95, gt=0, lt=1, description="scs, a certified pegasos: of that gap, unless it is exact")
    first_sample: Annotated[int, Field(ge=2)] | Literal["auto"] = Field(
        "auto", description="scs: rows of the first sample; auto: 1000, or all"
    )
    bundle_size: int = Field(100, ge=2, description="scs: cuts that are kept")
    batch: int = Field(1, ge=1, description="pegasos: rows a step; divides 256")
    project: bool = Field(False, description="pegasos: keep the weights in the ball that holds the best ones")
    max_iterations: int = Field(20_000, ge=1, description="c-svm to wolfe: iterations at most, for each class")
    fit_intercept: bool = Field(True, description="c-svm to mm-mpm, ridge: whether the model has a bias")
    bias: Literal["own", "errors", "regularised", "free"] = Field(
        "own",
        description="c-svm to l1-l2-svm: the model's own bias, or that of fewest training errors; scs, wolfe: own is "
        "none, or regularised like a weight",
    )
    start: Literal["own", "stochastic"] = Field(
        "own", description="c-svm to l1-l2-svm: begin at the model's own point, or where steps on random rows lead"
    )
    budget: int = Field(100, ge=1, description="support vectors or landmarks at most")
    rank: Count | Literal["auto"] = Field("auto", description="nogd: columns of the map; auto: .3 of the budget")
    landmarks: Literal["supports", "uniform", "kmeans", "rpcholesky"] = Field(
        "supports",
        description="nogd: first support vectors, or chosen from a sample beforehand; ridge, which has no support "
        "vectors: uniform",
    )
    n_landmarks: Count | Literal["auto"] = Field(
        "auto", description="ridge: landmarks, on which its weights stand; auto: 1,000, or all rows if they are fewer"
    )
    penalty: Positive | Literal["auto"] = Field(
        "auto",
        description="ridge: weight of the squared norm beside the mean of squares; auto: that of least leave-one-out "
        "error of sampled training rows",
    )
    rescale: Literal["stored", "none", "standard", "minmax"] = Field(
        "stored", description="scaling of inputs, applied on reading; stored: as the data set was ingested"
    )
    budget_seconds: float = Field(
        60.0,
        gt=0,
        allow_inf_nan=False,
        description="auto: seconds that the race and the learning may take on a machine of two cores, counted in "
        "operations, so that the model does not depend on the clock",
    )
    validation: Literal["auto", "rows", "blocks"] = Field(
        "auto",
        description="auto: what the race's candidates are judged by; rows: each row by a model of the others; blocks: "
        "each fifth of the rows, as they lie, by a model of the others, for rows that are like their neighbours; auto: "
        "rows, or blocks where these are much harder and test rows were given, not drawn",
    )
    regularisation: Positive | Literal["auto"] = Field(
        "auto", description="of bogd, bogd++, norma, bsgd: weight of the squared norm; auto: the solver's own"
    )
    aggressiveness: Positive | Literal["auto"] = Field(
        "auto", description="of bpa, tvm: largest coefficient of one row; auto: the solver's own"
    )
    loss: Annotated[LossName, OrOfExtension("loss")] = Field(
        "auto", description="what a step makes smaller; auto: by the task; the last two: scs and wolfe"
    )
    epsilon: float = Field(
        0.1,
        ge=0,
        allow_inf_nan=False,
        description="regression: smaller residuals, in scaled target units, are not learnt",
    )
    step_size: Positive | Literal["auto"] = Field(
        "auto", description="on the scaled map, whose rows have norm 1; auto: chosen by a race or by experts"
    )
    class_weights: Literal["none", "balanced"] | dict[str, Positive] = Field(
        "none", description="weight of each class's steps or losses; balanced: rows / (classes x rows of the class)"
    )
    average: bool = Field(True, description="predict with the average of the weights, not the last ones")
    passes: int = Field(1, ge=1, description="passes over the training rows")
    rounds: Count | Literal["auto"] = Field("auto", description="mix and sum: rounds a pass")
    step_rule: Literal["adagrad", "plain", "sqrt"] = Field(
        "adagrad", description="sum: how the caller steps; sqrt: with a radius, step_size / sqrt(t), as is auto's there"
    )
    radius: Positive | None = Field(
        None,
        description="fogd, two classes: weights stay in the ball of this radius, on the scaled map; with track: those "
        "of the models that it is certified against",
    )
    constraints: tuple[str, ...] = Field(
        (),
        description="fogd, two classes: such as 'abs(covariance(COLUMN)) <= 0.01', 'abs(difference(COLUMN=1, "
        "COLUMN=0)) <= 0.05', 'mean(COLUMN=1) >= -0.2' of the scores, or 'norm <= 10', which is a radius",
    )
    constraint_margin: float = Field(
        0.0, ge=0, allow_inf_nan=False, description="constraints: so much inside their limits scores are kept"
    )
    constraint_gain: Positive | Literal["auto"] = Field(
        "auto",
        description="constraints: gamma_0, how fast their price grows while they are overstepped; auto: the largest "
        "that the theorems allow, above which no bound is claimed",
    )
    learn_sensitive: bool = Field(False, description="constraints: learn from the columns that they look at, too")
    certify: bool = Field(
        False,
        description="prove how good the run was; fogd: regret against the best weights of the ball in hindsight, "
        "with track also against those that change 1, 2, 4, ... times; "
        "pegasos: the gap over all rows",
    )
    track: bool = Field(
        False,
        description="fogd, for rows that change in time: step sizes side by side, mixed by Fixed Share; order: stored "
        "unless it is given",
    )
    order: Literal["shuffle", "stored"] = Field("shuffle", description="order of rows in each pass")
    seed: int = Field(0, ge=0, description="of frequencies, orders and samples")
    precision: Precision = Field(
        "float32",
        description="of inputs, maps and weights; ridge: float64, unless it is given with solver ridge; a ridge that a "
        "race chose: always float64",
    )
    mode: Literal["auto", "stream", "mix", "sum"] = Field(
        "auto", description="stream: exact, one process; mix: shards learn, weights are averaged; sum: mini-batch"
    )
    checkpoint_seconds: float = Field(
        60.0,
        ge=0,
        allow_inf_nan=False,
        description="write down where learning stands so often, for okl train --resume; 0: never by the clock",
    )
    checkpoint_rounds: Count | None = Field(
        None, description="the same after so many rounds, segments of a stream, or checks of a gap; none: by the clock"
    )
    out: str | None = Field(None, description="folder of the run; none: a new one in okl's home folder")
    name: str | None = Field(None, description="name of the model")

    @model_validator(mode="after")
    def _as_asked(self) -> TrainSettings:
        """With an option of a learner and no solver it is fogd that takes the option: nothing is left to a race."""
        if self.solver == "auto":
            own = set(TrainSettings.model_fields) - set(WhereSettings.model_fields) - NOT_OF_LEARNERS
            told = own & self.model_fields_set
            if "solver" in self.model_fields_set:  # such as of settings that were stored: all fields are set
                told = {name for name in own if getattr(self, name) != TrainSettings.model_fields[name].default}
            if told:
                object.__setattr__(self, "solver", "fogd")  # frozen, but not yet handed out
        return self

    @model_validator(mode="before")
    @classmethod
    def _ridge_in_double(cls, values: Any) -> Any:
        """Weights of kernel least squares may be large and cancel: in single precision their sums are rough."""
        if isinstance(values, dict) and values.get("solver") == "ridge" and "precision" not in values:
            return values | {"precision": "float64"}
        return values

    @model_validator(mode="before")
    @classmethod
    def _track_as_stored(cls, values: Any) -> Any:
        """Rows that are tracked come as they are stored, unless another order is asked for."""
        if isinstance(values, dict) and str(values.get("track")).lower() in _TRUE and "order" not in values:
            return values | {"order": "stored"}
        return values


# Settings from what a person wrote: a command line, a TOML file, the parameters of a flow.

Settings = TypeVar("Settings", bound=BaseModel)


def settings_from(kind: type[Settings], values: dict[str, Any], where: str) -> Settings:
    """Validate values into settings, or raise ConfigError: a sentence an offending field, and where they came from."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        faults: dict[str, list[str]] = {}
        for fault in error.errors():
            # the words after the first tell the members of a union apart; a person sees the field and its value
            field, path = str(fault["loc"][0]), ".".join(map(str, fault["loc"]))
            if fault["type"] == "extra_forbidden":
                takes = f"it takes {', '.join(kind.model_fields)}" if path == field else f"see the fields of {field}"
                close = get_close_matches(path, kind.model_fields, 2, 0.7)
                near = f" (did you mean {' or '.join(close)}?)" if close else ""
                faults[f"{path!r} is not an option{near}; {takes}"] = []
            elif fault["type"] == "missing":
                faults[f"{path} is missing"] = []
            else:
                name, value = _innermost(values, fault["loc"])
                faults.setdefault(f"{name} = {value!r}", []).append(_reason(fault))
        told = [what + (f": {', or '.join(dict.fromkeys(why))}" if why else "") for what, why in faults.items()]
        raise ConfigError(f"{where}: {'; '.join(told)}.") from None


def _innermost(values: Mapping[str, Any], place: Sequence[int | str]) -> tuple[str, Any]:
    """The name and value of the field that is at fault, in settings within settings that of the inner one."""
    name = str(place[0])
    value = values[name]
    for inner in place[1:]:
        if not isinstance(value, Mapping) or inner not in value:
            break
        name, value = str(inner), value[inner]
    return name, value


def _reason(fault: ErrorDetails) -> str:
    """What is wrong, for the middle of a sentence: as pydantic tells it, or whoever refused the value."""
    told = str(fault["ctx"]["error"]) if fault["type"] == "value_error" else fault["msg"]
    return told[:1].lower() + told[1:].rstrip(".")
