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
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    field_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from okl.foundation import plugins
from okl.foundation.catalogue import KERNELS, LOSSES, SOLVERS
from okl.foundation.errors import ConfigError
from okl.foundation.types import Task
from okl.foundation.validation import OTHER_NAMES, check_name


def read_toml(path: str | Path, option: str) -> dict[str, Any]:
    """Return the values of a TOML file, or raise ConfigError, which starts with the option that named the file."""
    try:
        with open(path, "rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise ConfigError(f"{option} {path} cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{option} {path} is not TOML: {error}.") from None


# Numbers and names that settings accept


def _in_range(value: float) -> float:
    if not 1e-15 <= value <= 1e15:
        raise ValueError("expected a number from 1e-15 to 1e15")
    return value


Name = Annotated[str, AfterValidator(check_name)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
InRange = Annotated[Positive, AfterValidator(_in_range)]
"""A penalty or radius; beyond this range, sums of squares of scaled rows are lost in rounding errors."""
Count = Annotated[int, Field(ge=1)]

MapName = Literal["independent", "orthogonal", "quasi", "structured", "auto", "nystrom", "exact"]
if TYPE_CHECKING:
    KernelName = str
    LossName = str
    SolverName = str
else:
    KernelName, LossName, SolverName = Literal[*KERNELS], Literal["auto", *LOSSES], Literal[*SOLVERS]
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
            message = "{expected}, or one that an extension adds"
            raise PydanticCustomError("no_such_name", message, {"expected": expected}) from None


def _expected_names(name: str, fault: ErrorDetails) -> str:
    """Return the names that a choice accepts: all if they are few, otherwise the most similar ones."""
    names = re.findall(r"'([^']+)'", fault["msg"])
    if len(names) <= MOST_LISTED:
        return fault["msg"]
    near = [candidate for candidate in names if name.strip() and name.lower() in candidate]
    near = near or get_close_matches(name, names, 4, 0.5) or names[:1] + names[-2:]
    return f"input should be a name listed by okl train --help, such as {', '.join(near)}"


def _names(value: object) -> object:
    """Return the names in a text with commas between them."""
    return tuple(name.strip() for name in value.split(",") if name.strip()) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]


Columns = Annotated[tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)]

ONE_OF_MANY = {
    "keys": "key",
    "categories": "category",
    "constraints": "constraint",
    "slices": "slice",
    "missing_words": "missing_word",
}
"""Singular names of settings that hold several values: of the repeatable options of a command."""


class ExecutionSettings(BaseModel):
    """Settings of execution: workers, scheduler, threads; in a given mode they never change the model's bits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workers: int = Field(
        0, ge=0, description="Dask worker processes to start, for rows that one process takes too long for; 0: none"
    )
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

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Return the names that values may have."""
        return tuple(cls.model_fields)

    @field_validator("cluster", "tls")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        """Return an absolute path: settings may be read again in another directory."""
        return path and os.path.abspath(path)


LAST = re.compile(r"last(?::(0?\.\d+))?")
LAST_SHARE = 0.2  # of the rows, the last ones, without a number


def last_share_of(holdout: float | str | None) -> float:
    """Return the share of rows at the end that a holdout means; 0 if it means others.

    >>> last_share_of("last"), last_share_of("last:0.1"), last_share_of(0.2), last_share_of("is_test")
    (0.2, 0.1, 0.0, 0.0)
    """
    found = LAST.fullmatch(str(holdout))
    return float(found[1] or LAST_SHARE) if found else 0.0


class IngestSettings(BaseModel):
    """Settings of ingestion: target, columns, encoding, scaling and split of a data set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: str = Field("y", description="name of the column to predict")
    task: Task | Literal["auto"] = Field(
        "auto",
        description="binary, multiclass or regression; auto: text and few, frequent whole numbers are classes, other "
        "numbers a regression",
    )
    positive: str | None = Field(
        None,
        description="class of two that precision, recall, thresholds and probabilities are about; none: the second "
        "one; of text labels, one of less than 20% of the rows",
    )
    split_column: str | None = Field(
        None,
        description="text column with the value train or test in each row; none: a text column named split, if any",
    )
    holdout: float | str | None = Field(
        None,
        description="test rows: a share between 0 and 1, drawn by a seeded hash of the row number; last or last:0.1: "
        "the last 20% or 10% of the rows, as the newest of sorted ones; or a column that is 1 in test rows, 0 in "
        "others; none: okl train holds out 20% of a source without a split, drawn by class",
    )
    group: str | None = Field(
        None,
        description="column whose equal values belong together, such as a person: the automatic choice validates on "
        "whole groups, and test rows of a share are whole groups; copied to the scores, not an input",
    )
    stratify: bool = Field(False, description="draw the test rows of a share by class, so that rare classes have some")
    keys: Columns = Field((), description="columns copied to the scores, such as an identifier; never inputs")
    drop: Columns = Field((), description="columns to ignore")
    scale: Literal["none", "standard", "minmax"] = Field(
        "none", description="scaling of inputs, applied when rows are read"
    )
    scale_target: bool = Field(False, description="scale the target of a regression in the same way")
    rows_per_shard: int = Field(131072, ge=1, description="rows in each part file")
    rows_per_group: int = Field(16384, ge=1, description="rows in each Parquet row group, the unit of reading")
    missing: Literal["error", "drop", "zero", "mean"] = Field(
        "mean",
        description="missing numbers; error: refuse the source; drop: drop the row; zero: use 0; mean: use the "
        "training mean and add a 0/1 indicator input. Missing text is a category of its own; a row without a target is "
        "always left out",
    )
    categories: Columns = Field(
        (), description="numeric columns to encode as categories: one input for each value, as for a text column"
    )
    max_categories: int | None = Field(
        None,
        ge=1,
        description="inputs for the most frequent values of a text column, all others share one; none: 64, and "
        "further ones in at least 5 training rows, up to 30 million numbers in all rows",
    )
    many_values: Literal["auto", "means", "inputs"] = Field(
        "auto",
        description="text columns of more than 64 values without max_categories; means: the mean target of each value, "
        "if there are fewer than 30 training rows of each on average; inputs: an input for each frequent value; auto: "
        "means if most rows have a value in fewer than 8 rows; the automatic choice tries both on up to 65,536 rows",
    )
    dates: Literal["auto", "error", "parts", "calendar", "drop"] = Field(
        "auto",
        description="date and time columns; parts: the year and the position in the year, week and day; calendar: a "
        "0/1 input for each weekday and hour, too; auto: parts, or calendar if the automatic choice finds it better; "
        "error: refuse the source; drop: ignore the column",
    )
    missing_words: tuple[str, ...] = Field(
        (),
        description="words or numbers such as unknown or -999 that mean a missing value in columns of numbers and "
        "dates, besides NA, ?, none and empty ones",
    )
    date_order: Literal["auto", "day", "month"] = Field(
        "auto",
        description="dates in text such as 01/02/2026; day: 1 February; month: January 2; auto: as the values show, "
        "otherwise day first with points, else month first",
    )
    decimal: Literal["auto", "point", "comma"] = Field(
        "auto",
        description="decimal mark of numbers in text, the other one groups thousands; auto: as the values show, "
        "otherwise comma between semicolons, else point",
    )
    svmlight_index: Literal["auto", "0", "1"] = Field(
        "auto",
        description="index of the first column in svmlight text; auto: 0 if it occurs or rows are sparse, otherwise 1",
    )
    hash_columns: int | None = Field(
        None, ge=1, description="svmlight text with very many columns: number of columns to hash them into, with signs"
    )
    storage: Literal["auto", "sparse", "dense"] = Field(
        "auto",
        description="svmlight text; sparse: store the values that are not 0, for up to 1,000,000 columns; dense: a "
        "Parquet column for each; auto: sparse beyond 4,096 columns, or beyond 1,024 if at most 1% of values are not 0",
    )
    normalise: Literal["l2", "none"] = Field(
        "l2", description="sparse rows of svmlight text; l2: divide each by its length when it is read; none: as stored"
    )
    text: Columns = Field(
        (), description="text columns whose words and pairs of words become sparse inputs, weighted by tf-idf"
    )
    min_documents: int = Field(2, ge=1, description="training rows that a word or pair of a text column must occur in")
    max_terms: int = Field(
        200_000, ge=1, le=1_000_000, description="words and pairs of each text column, those in the most training rows"
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


# Validation of values from a command line, a TOML file or the parameters of a flow

Settings = TypeVar("Settings", bound=BaseModel)


def settings_from(
    kind: type[Settings],
    values: dict[str, Any],
    where: str,
    shown: Mapping[str, str] | None = None,
    strict: bool = False,
    others: Sequence[str] = (),
) -> Settings:
    """Validate values into settings, strictly (no text for numbers) or not; ConfigError names each invalid field.

    shown : names in messages of fields that the caller names otherwise; others : further options, for messages
    """
    try:
        return kind.model_validate(values, strict=strict)
    except ValidationError as error:
        faults, takes = dict[str, list[str]](), dict[str, list[str]]()
        for fault in error.errors():
            # later parts of the path only distinguish the members of a union; show the field and its value
            location = [part for part in fault["loc"] if part != "options"]  # which are spelled flat
            refusal = fault.get("ctx", {}).get("error")
            if isinstance(refusal, ConfigError) and (not location or isinstance(fault["input"], Mapping)):
                raise refusal from None  # of settings together, which names them
            field, path = str(location[0]), ".".join(map(str, location))
            if fault["type"] == "extra_forbidden":
                near = _meant(kind, path, others)
                if path in ("weights", "sample_weight", "sample_weights"):
                    near = " (weights of rows are an argument of KernelClassifier.fit and KernelRegressor.fit)"
                faults[f"{path!r} is not an option{near}"] = []
                if not near:
                    tables = _tables(kind, others)
                    of = f" of {field}" if path != field and field in tables else ""
                    takes[f"valid options{of}: {', '.join(tables[field if of else ''])}"] = []
            elif fault["type"] == "missing":
                faults[f"{path} is missing"] = []
            else:
                name, value = _innermost(values, location)
                faults.setdefault(f"{(shown or {}).get(name, name)} = {value!r}", []).append(_reason(fault))
        parts = [
            what + (f": {', or '.join(dict.fromkeys(why))}" if why else "") for what, why in (faults | takes).items()
        ]
        raise ConfigError(f"{where}: {'; '.join(parts)}.") from None


def _option_names(kind: type[BaseModel]) -> tuple[str, ...]:
    return kind.option_names() if issubclass(kind, ExecutionSettings) else tuple(kind.model_fields)


def _tables(kind: type[BaseModel], others: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the names of options by table: "" for those of the settings themselves, else the field, such as train."""
    own = tuple(dict.fromkeys((*_option_names(kind), *others)))
    nested = [
        (field, inner)
        for field, info in kind.model_fields.items()
        for inner in (info.annotation, *get_args(info.annotation))
        if isinstance(inner, type) and issubclass(inner, BaseModel)
    ]
    return {"": own} | {field: _option_names(inner) for field, inner in nested}


def _meant(kind: type[BaseModel], path: str, others: Sequence[str]) -> str:
    """Return which options may be meant by an unknown one: of this name elsewhere, or of a similar one."""
    table, _, name = path.rpartition(".")
    tables = _tables(kind, others)
    here = [(table, one) for one in get_close_matches(name, tables.get(table, ()), 2, 0.7)]
    exact = [(other, name) for other, names in tables.items() if name in names]
    near = [(other, one) for other, names in tables.items() for one in get_close_matches(name, names, 1, 0.7)]
    found = [f"{other}.{one}, [{other}] {one} in TOML" if other else one for other, one in exact or here or near]
    return f" (did you mean {' or '.join(found)}?)" if found else ""


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
    meant = OTHER_NAMES.get(fault["input"]) if isinstance(fault["input"], str) else None
    hint = f" (did you mean {meant!r}?)" if fault["type"] == "literal_error" and repr(meant) in reason else ""
    return reason[:1].lower() + reason[1:].rstrip(".") + hint
