"""Frozen, validated settings of ingestion and training, read from options, TOML files or Python.

The descriptions of the fields are the help texts of the command line.
"""

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

# TOML files


def read_toml(path: str | Path, option: str) -> dict[str, Any]:
    """Return the values of a TOML file.

    Parameters
    ----------
    path : file to read
    option : option that named the file, such as "--config"; errors start with it

    Raises
    ------
    ConfigError : the file cannot be read, or is not TOML in UTF-8
    """
    try:
        with open(path, "rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise ConfigError(f"{option} {path} cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{option} {path} is not TOML: {error}.") from None


# Numbers and names that settings accept

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]

SolverName = Literal[
    "fogd", "nogd", "perceptron", "ogd", "norma", "rbp", "forgetron", "projectron", "projectron++", "bpa-s", "bpa-nn",
    "bpa-p", "bogd", "bogd++", "bsgd-removal", "bsgd-merging", "budget-perceptron", "tvm",
    "c-svm", "l2-svm", "logistic", "nu-svm", "dwd", "mm-fda", "mm-mpm", "l1-logistic", "l1-l2-svm",
    "scs", "wolfe", "pegasos", "ridge",
]  # fmt: skip
SolverChoice = Literal[SolverName, "auto"]
KernelName = Literal["gaussian", "laplacian", "matern32", "matern52", "polynomial", "linear"]
MapName = Literal["independent", "orthogonal", "quasi", "structured", "auto", "exact"]
LossName = Literal[
    "auto", "hinge", "logistic", "multiclass-hinge", "thresholded-half-squared", "absolute", "epsilon-insensitive"
]
MOST_LISTED = 12  # an error lists all names of a choice up to this number, otherwise similar ones


class OrExtension:
    """Annotation of a choice that accepts okl's built-in names and those that extensions declare."""

    def __init__(self, kind: plugins.Kind) -> None:
        self.kind = kind

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return a schema that loads extensions only for a name that is not built in."""
        as_text = core_schema.to_string_ser_schema()
        return core_schema.no_info_wrap_validator_function(self._validate, handler(source), serialization=as_text)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON schema with the names of all extensions that this process has loaded."""
        described = handler(schema)
        return described | {"enum": [*described["enum"], *plugins.names(self.kind)]}

    def _validate(self, name: Any, validate_builtin: Callable[[Any], Any]) -> Any:
        try:
            return validate_builtin(name)
        except ValidationError as error:
            if isinstance(name, str) and plugins.find(self.kind, name):
                return name
            expected = _expected_names(str(name), error.errors()[0])
            message = "{expected}, or one that --extension adds"
            raise PydanticCustomError("no_such_name", message, {"expected": expected}) from None


def _expected_names(name: str, fault: ErrorDetails) -> str:
    """Return the names that a choice accepts: all if they are few, otherwise the most similar ones."""
    names = re.findall(r"'([^']+)'", fault["msg"])
    if len(names) <= MOST_LISTED:
        return fault["msg"]
    near = [candidate for candidate in names if name.strip() and name.lower() in candidate]
    near = near or get_close_matches(name, names, 4, 0.5) or names[:1] + names[-2:]
    return f"input should be a name listed by okl train --help, such as {', '.join(near)}"


# Settings of execution, ingestion and training


class ExecutionSettings(BaseModel):
    """Settings of execution: workers, scheduler, threads; in a given mode they never change the model's bits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workers: int = Field(0, ge=0, description="Dask worker processes to start; 0: run in this process only")
    scheduler: str | None = Field(None, description="address of a running Dask scheduler")
    cluster: str | None = Field(
        None,
        description="TOML file of a cluster to start: class (of dask-jobqueue, dask-kubernetes or "
        "dask-cloudprovider), workers, [options]",
    )
    tls: str | None = Field(
        None, description="folder with ca.pem, cert.pem and key.pem, to encrypt connections to workers"
    )
    threads: Count | Literal["auto"] = Field(
        "auto", description="threads of this process; auto: one per core, at most 4"
    )

    @field_validator("cluster", "tls")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        """Return an absolute path: settings may be read again in another directory."""
        return path and os.path.abspath(path)


class IngestSettings(BaseModel):
    """Settings of ingestion: target, columns, encoding, scaling and split of a data set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: str = Field("y", description="name of the column to predict")
    task: Task | Literal["auto"] = Field(
        "auto", description="binary, multiclass or regression; auto: inferred from the values of the target"
    )
    split_column: str | None = Field(
        None,
        description="text column with the value train or test in each row; none: a text column named split, if any",
    )
    holdout: float | str | None = Field(
        None,
        description="test rows: a share between 0 and 1, drawn by a seeded hash of the row number, or a 0/1 column",
    )
    keys: tuple[str, ...] = Field((), description="columns copied to the scores, such as an identifier; never inputs")
    drop: tuple[str, ...] = Field((), description="columns to ignore")
    scale: Literal["none", "standard", "minmax"] = Field(
        "none", description="scaling of inputs, applied when rows are read"
    )
    scale_target: bool = Field(False, description="scale the target of a regression in the same way")
    rows_per_shard: int = Field(131072, ge=1, description="rows in each part file")
    rows_per_group: int = Field(16384, ge=1, description="rows in each Parquet row group, the unit of reading")
    missing: Literal["error", "drop", "zero", "mean"] = Field(
        "error",
        description="missing numbers; error: refuse the source; drop: drop the row; zero: use 0; mean: use the "
        "training mean and add a 0/1 indicator input. Missing text is a category of its own",
    )
    categories: tuple[str, ...] = Field(
        (), description="numeric columns to encode as categories: one input for each value, as for a text column"
    )
    max_categories: int = Field(
        64, ge=1, description="inputs for the most frequent values of a text column; all other values share one input"
    )
    dates: Literal["error", "parts", "drop"] = Field(
        "error",
        description="date and time columns; error: refuse the source; parts: encode the year and the position in the "
        "year, week and day; drop: ignore the column",
    )
    svmlight_index: Literal["auto", "0", "1"] = Field(
        "auto", description="index of the first column in svmlight text; auto: 0 if it occurs, otherwise 1"
    )
    hash_columns: int | None = Field(
        None, ge=1, description="svmlight text with very many columns: number of columns to hash them into, with signs"
    )
    compression: Literal["zstd", "none"] = Field(
        "zstd", description="compression of part files; none is the fastest to read"
    )
    compression_level: int = Field(
        3, ge=1, le=22, description="level of zstd; 19 takes 15 times as long and saves 17% of the bytes"
    )
    seed: int = Field(0, ge=0, description="seed of the test rows that a holdout share draws")

    @field_validator("svmlight_index", mode="before")
    @classmethod
    def _as_word(cls, index: Any) -> Any:
        """Return a number from TOML or Python as the text that the command line passes."""
        return str(index) if index in (0, 1) else index


_TRUE = ("true", "1", "yes", "on")
SELECTION_OPTIONS = frozenset(
    {"data", "ingest", "solver", "rescale", "budget_seconds", "validation", "seed", "precision", "checkpoint_seconds"}
    | {"checkpoint_rounds", "out", "name"}
)
"""Options of a run that the automatic choice accepts; any other one selects fogd."""


class TrainSettings(ExecutionSettings):
    """Settings of training: everything that determines the model, and where the work runs."""

    data: str = Field(description="folder of a data set, or a source to ingest first: Parquet, CSV or svmlight")
    ingest: IngestSettings | None = Field(None, description="settings to ingest a source into the run's folder")
    solver: Annotated[SolverChoice, OrExtension("solver")] = Field(
        "auto",
        description="solver; auto: choose solver, scaling, kernel, bandwidth and size on a sample, or fogd as soon as "
        "a solver option is given; ridge: exact kernel least squares on landmarks; perceptron, ogd: store every "
        "support vector, so memory grows with the rows; c-svm to l1-l2-svm: optimise to a certified duality gap; "
        "scs: optimise on growing samples until the gap over all rows is certified; wolfe: conjugate subgradients "
        "over all rows",
    )
    kernel: KernelName = Field("gaussian", description="k(x, x'); a Fourier map takes the first four")
    bandwidth: Positive | Literal["auto"] = Field(
        "auto",
        description="kernel bandwidth in units of the scaled inputs; auto: the median distance; fogd chooses it by "
        "experts while it trains",
    )
    degree: int = Field(3, ge=1, description="degree of the polynomial kernel")
    offset: float = Field(1.0, ge=0, allow_inf_nan=False, description="offset of the polynomial kernel")
    frequencies: int = Field(
        400,
        ge=1,
        description="random frequencies of the Fourier map, which has twice as many columns (fogd, c-svm to pegasos)",
    )
    map: Annotated[MapName, OrExtension("map")] = Field(
        "independent",
        description="sampling of the random frequencies; auto: chosen by the inputs; exact: the kernel itself, no map "
        "(scs)",
    )
    C: Positive | Literal["auto"] = Field(
        "auto",
        description="weight of the losses, as in LIBSVM (c-svm, l2-svm, logistic, l1-logistic, l1-l2-svm); auto: 1",
    )
    nu: Positive | Literal["auto"] = Field(
        "auto",
        description="nu-svm: upper bound on the share of margin errors; auto: half of the largest valid value, or more "
        "if all weights would be 0. dwd: any number above 0; auto: by the "
        "distance between the classes",
    )
    kappa: Positive | Literal["auto"] = Field(
        "auto",
        description="standard deviations allowed around the class means (mm-fda, mm-mpm); auto: half of the largest "
        "valid value",
    )
    tol: Positive = Field(1e-4, description="relative duality gap to stop at (c-svm to l1-l2-svm)")
    lam: Positive = Field(
        1e-3,
        description="weight of half the squared norm, added to the mean loss; C = 1 / (lam * rows) (scs, wolfe, "
        "pegasos)",
    )
    gap: Positive = Field(0.01, description="absolute gap of the objective over all rows to stop at (scs, wolfe)")
    confidence: float = Field(
        0.95,
        gt=0,
        lt=1,
        description="confidence of a sampled gap (scs, pegasos with --certify); an exact gap needs none",
    )
    first_sample: Annotated[int, Field(ge=2)] | Literal["auto"] = Field(
        "auto", description="rows of the first sample (scs); auto: 1000, or all rows if there are fewer"
    )
    bundle_size: int = Field(100, ge=2, description="maximum number of cuts in the bundle (scs)")
    batch: int = Field(1, ge=1, description="rows per step, a divisor of 256 (pegasos)")
    project: bool = Field(
        False, description="project the weights onto the ball that contains the optimal ones (pegasos)"
    )
    max_iterations: int = Field(
        20_000, ge=1, description="maximum number of iterations, for each class (c-svm to wolfe)"
    )
    fit_intercept: bool = Field(True, description="fit a bias (c-svm to mm-mpm, ridge)")
    bias: Literal["own", "errors", "regularised", "free"] = Field(
        "own",
        description="c-svm to l1-l2-svm: own: the bias of the model's formula; errors: the bias with the fewest "
        "training errors. scs, wolfe: own: no bias; regularised: penalised like a weight; free: not penalised",
    )
    budget: int = Field(100, ge=1, description="maximum number of support vectors or landmarks")
    rank: Count | Literal["auto"] = Field(
        "auto", description="columns of the Nystrom map (nogd); auto: 0.3 of the budget"
    )
    landmarks: Literal["supports", "uniform", "kmeans", "rpcholesky"] = Field(
        "supports",
        description="choice of landmarks (nogd, ridge); supports: the first support vectors (nogd only; ridge: "
        "uniform); uniform, kmeans, rpcholesky: from a sample before training",
    )
    n_landmarks: Count | Literal["auto"] = Field(
        "auto", description="number of landmarks (ridge); auto: 1,000, or all rows if there are fewer"
    )
    penalty: Positive | Literal["auto"] = Field(
        "auto",
        description="weight of the squared norm, added to the mean squared error (ridge); auto: the value with the "
        "smallest leave-one-out error on sampled training rows",
    )
    rescale: Literal["stored", "none", "standard", "minmax"] = Field(
        "stored", description="scaling of inputs, applied when rows are read; stored: the scaling chosen at ingestion"
    )
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
    regularisation: Positive | Literal["auto"] = Field(
        "auto", description="weight of the squared norm (bogd, bogd++, norma, bsgd); auto: the solver's default"
    )
    aggressiveness: Positive | Literal["auto"] = Field(
        "auto", description="largest coefficient of a row (bpa, tvm); auto: the solver's default"
    )
    loss: Annotated[LossName, OrExtension("loss")] = Field(
        "auto", description="loss to minimise; auto: by the task; absolute, epsilon-insensitive: scs and wolfe only"
    )
    epsilon: float = Field(
        0.1,
        ge=0,
        allow_inf_nan=False,
        description="regression: residuals below this, in units of the scaled target, have no loss",
    )
    step_size: Positive | Literal["auto"] = Field(
        "auto", description="step size for feature maps with rows of norm 1; auto: chosen on a sample or by experts"
    )
    class_weights: Literal["none", "balanced"] | dict[str, Positive] = Field(
        "none", description="weight of each class in steps or losses; balanced: rows / (classes * rows of the class)"
    )
    average: bool = Field(True, description="predict with the average of all iterates, not with the last one")
    passes: int = Field(1, ge=1, description="passes over the training rows")
    rounds: Count | Literal["auto"] = Field("auto", description="rounds per pass (modes mix and sum)")
    step_rule: Literal["adagrad", "plain", "sqrt"] = Field(
        "adagrad",
        description="step rule of mode sum; sqrt: step_size / sqrt(t), which needs a radius; a radius with automatic "
        "step size also uses sqrt",
    )
    radius: Positive | None = Field(
        None,
        description="radius of the ball that the weights are projected onto (fogd, two classes); with --track: radius "
        "of the models in the certificate",
    )
    constraints: tuple[str, ...] = Field(
        (),
        description="constraint on the scores (fogd, two classes), such as 'abs(covariance(COLUMN)) <= 0.01', "
        "'abs(difference(COLUMN=1, COLUMN=0)) <= 0.05' or 'mean(COLUMN=1) >= -0.2'; 'norm <= 10' is a radius",
    )
    constraint_margin: float = Field(
        0.0,
        ge=0,
        allow_inf_nan=False,
        description="safety margin: constraints are enforced with limits tightened by this",
    )
    constraint_gain: Positive | Literal["auto"] = Field(
        "auto",
        description="growth rate gamma_0 of the multipliers of violated constraints; auto: the largest value that the "
        "theorems allow; larger values have no proven bound",
    )
    learn_sensitive: bool = Field(False, description="also use the columns of the constraints as inputs")
    certify: bool = Field(
        False,
        description="compute a certificate; fogd: regret against the best fixed weights in the ball, with --track also "
        "against weights that change 1, 2, 4, ... times; pegasos: gap over all rows",
    )
    track: bool = Field(
        False,
        description="follow data that change over time (fogd): combine several step sizes by Fixed Share; the order of "
        "rows is then stored by default",
    )
    order: Literal["shuffle", "stored"] = Field("shuffle", description="order of the rows in each pass")
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
    name: str | None = Field(None, description="name of the model")

    @model_validator(mode="after")
    def _select_fogd(self) -> TrainSettings:
        """Select fogd if an option of a solver is given without a solver: nothing is left to the automatic choice."""
        if self.solver == "auto":
            own = set(TrainSettings.model_fields) - set(ExecutionSettings.model_fields) - SELECTION_OPTIONS
            given = own & self.model_fields_set
            if "solver" in self.model_fields_set:  # as in stored settings, where all fields are set
                given = {name for name in own if getattr(self, name) != TrainSettings.model_fields[name].default}
            if given:
                object.__setattr__(self, "solver", "fogd")  # frozen, but not yet handed out
        return self

    @model_validator(mode="before")
    @classmethod
    def _ridge_in_double(cls, values: Any) -> Any:
        """Use float64 for ridge by default: its weights may be large and cancel, so float32 sums are inaccurate."""
        if isinstance(values, dict) and values.get("solver") == "ridge" and "precision" not in values:
            return values | {"precision": "float64"}
        return values

    @model_validator(mode="before")
    @classmethod
    def _without_start(cls, values: Any) -> Any:
        """Drop the former setting `start` at its default, which older versions of okl recorded."""
        if isinstance(values, dict) and values.get("start") == "own":
            return {name: value for name, value in values.items() if name != "start"}
        return values

    @model_validator(mode="before")
    @classmethod
    def _track_as_stored(cls, values: Any) -> Any:
        """Use the stored order by default with track."""
        if isinstance(values, dict) and str(values.get("track")).lower() in _TRUE and "order" not in values:
            return values | {"order": "stored"}
        return values


# Validation of values from a command line, a TOML file or the parameters of a flow

Settings = TypeVar("Settings", bound=BaseModel)


def settings_from(kind: type[Settings], values: dict[str, Any], where: str) -> Settings:
    """Validate values into settings.

    Raises
    ------
    ConfigError : starts with `where` and names each invalid field with its value
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        faults: dict[str, list[str]] = {}
        for fault in error.errors():
            # later parts of the path only distinguish the members of a union; show the field and its value
            field, path = str(fault["loc"][0]), ".".join(map(str, fault["loc"]))
            if fault["type"] == "extra_forbidden":
                takes = (
                    f"valid options: {', '.join(kind.model_fields)}" if path == field else f"see the fields of {field}"
                )
                close = get_close_matches(path, kind.model_fields, 2, 0.7)
                near = f" (did you mean {' or '.join(close)}?)" if close else ""
                faults[f"{path!r} is not an option{near}; {takes}"] = []
            elif fault["type"] == "missing":
                faults[f"{path} is missing"] = []
            else:
                name, value = _innermost(values, fault["loc"])
                faults.setdefault(f"{name} = {value!r}", []).append(_reason(fault))
        parts = [what + (f": {', or '.join(dict.fromkeys(why))}" if why else "") for what, why in faults.items()]
        raise ConfigError(f"{where}: {'; '.join(parts)}.") from None


def _innermost(values: Mapping[str, Any], path: Sequence[int | str]) -> tuple[str, Any]:
    """Return the name and value of the invalid field; in nested settings, those of the innermost field."""
    name = str(path[0])
    value = values[name]
    for inner in path[1:]:
        if not isinstance(value, Mapping) or inner not in value:
            break
        name, value = str(inner), value[inner]
    return name, value


def _reason(fault: ErrorDetails) -> str:
    """Return the reason of a fault, from pydantic or a validator, to be placed inside a sentence."""
    reason = str(fault["ctx"]["error"]) if fault["type"] == "value_error" else fault["msg"]
    return reason[:1].lower() + reason[1:].rstrip(".")
