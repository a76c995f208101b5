"""Command-line options generated from settings, their sections in the help, and their parsing."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from glob import glob
from os.path import commonprefix, isfile
from pathlib import Path
from shlex import join
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from typer.core import TyperCommand

from okl.foundation.errors import ConfigError
from okl.foundation.locations import absolute_location, place_of
from okl.foundation.settings import IngestSettings, TrainSettings, WhereSettings, read_toml, settings_from

# Options of commands, made from settings: each has the name, the help and the choices of its setting.

Given = dict[str, Any]
"""What was given of a group of options, by the names of their settings."""

MOST_METAVAR = 60  # characters; longer lists of choices stand in the help
ONE_OF_MANY = {
    "keys": "key",
    "categories": "category",
    "constraints": "constraint",
    "slices": "slice",
}  # an option that may be repeated is named for one of its values
TEXTS = {"constraints": "CONSTRAINT", "release": "SHA256"}  # what several texts are, where they are no columns


@dataclass(frozen=True)
class Options:
    """The settings that are options of a command: each has the name, the help and the choices of its setting.

    told : the whole help, by field, where it is another one at this command
    """

    kind: type[BaseModel]
    fields: tuple[str, ...]
    told: Mapping[str, str] = field(default_factory=dict)

    def parameters(self) -> dict[str, inspect.Parameter]:
        """Parameters for typer, by field; all are None unless given, and none is read: the settings do that."""
        return {field: self._parameter(field) for field in self.fields}

    def given(self, words: Given) -> Given:
        """Of a command's words those that were given, as far from text as only the command line knows."""
        values = {field: words[field] for field in self.fields if words[field] is not None}
        if "holdout" in values:
            values["holdout"] = _number_or_text(values["holdout"])
        if "=" in str(values.get("class_weights", "")):
            values["class_weights"] = _weights(values["class_weights"])
        return values

    def _parameter(self, field: str) -> inspect.Parameter:
        annotation = self.kind.model_fields[field].annotation
        flag = ONE_OF_MANY.get(field, field).replace("_", "-")
        told = self.told.get(field) or help_for(self.kind, field)
        if annotation is bool:
            kind: Any = bool
            option = typer.Option(f"--{flag}/--no-{flag}", help=told)
        else:
            many = get_origin(annotation) is tuple
            kind = list[str] if many else str
            option = typer.Option(
                f"--{flag}",
                metavar=metavar(annotation, field),
                help=f"{told} (repeatable)" if many else told,
            )
        return inspect.Parameter(
            field, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
        )


WHERE = ("workers", "scheduler", "cluster", "tls", "threads")
INGEST = Options(
    IngestSettings,
    (*("target", "task", "split_column", "holdout", "keys", "drop", "scale", "scale_target"),
     *("missing", "categories", "max_categories", "dates", "svmlight_index", "hash_columns", "rows_per_shard")),
)  # fmt: skip
TRAIN = Options(
    TrainSettings,
    (*("solver", "kernel", "bandwidth", "frequencies", "map", "budget", "rank", "landmarks", "loss", "step_size"),
     *("n_landmarks", "penalty", "rescale", "budget_seconds", "validation"),
     *("C", "nu", "kappa", "tol", "lam", "gap", "confidence", "fit_intercept", "bias"),
     *("class_weights", "radius", "constraints", "constraint_margin", "constraint_gain", "learn_sensitive",
      "certify"),
     *("passes", "rounds", "order", "track", "seed", "precision", "mode"), *WHERE,
     *("checkpoint_seconds", "checkpoint_rounds", "out", "name")),
)  # fmt: skip
STORE = Options(IngestSettings, (*INGEST.fields, "compression"))
EXECUTION = Options(TrainSettings, WHERE)
WORKERS = Options(WhereSettings, WHERE[:-1])
KEYS = Options(IngestSettings, ("keys",))


def accepts(**groups: Options) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add groups of options to a command, which gets what was given of each as the argument of the group's name."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        added = {name: group.parameters() for name, group in groups.items()}
        options = {field: parameter for parameters in added.values() for field, parameter in parameters.items()}
        kept = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own.parameters.values()]
        shown = [*(parameter for parameter in kept if parameter.name not in groups), *options.values()]

        @wraps(command)
        def run(**words: Any) -> None:
            given = {name: group.given(words) for name, group in groups.items()}
            command(**{name: word for name, word in words.items() if name not in options}, **given)

        # --json and --help stay last, where one looks for them
        last = [parameter for parameter in shown if parameter.name == "json"]
        run.__signature__ = own.replace(  # type: ignore[attr-defined]  # inspect.signature's own protocol
            parameters=[parameter for parameter in shown if parameter not in last] + last
        )
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
        return run

    return decorate


def help_for(kind: type[BaseModel], field: str, with_default: bool = True) -> str:
    """The help of an option, from the description and default of the setting behind it."""
    info = kind.model_fields[field]
    text = info.description or ""
    if get_origin(info.annotation) is Literal and metavar(info.annotation) == "NAME":
        text += f": {', '.join(map(str, get_args(info.annotation)))}"
    if with_default and not info.is_required():
        text += _told_default(info.default, text)
    return text


def _told_default(default: Any, text: str) -> str:
    """What holds where nothing is given; a setting whose text says what none means need not be told that it is none."""
    if isinstance(default, bool):
        return f" [default: {'yes' if default else 'no'}]"
    if default is None or default == ():
        return "" if "none:" in text else " [default: none]"
    return f" [default: {default}]"


def metavar(annotation: Any, field: str = "") -> str:
    """What an option takes, for its help; several texts are columns unless the field's name says otherwise.

    >>> metavar(float | Literal["auto"]), metavar(Literal["shuffle", "stored"]), metavar(str | None)
    ('NUMBER|auto', 'shuffle|stored', 'TEXT')
    >>> metavar(tuple[str, ...], "keys"), metavar(tuple[str, ...], "release")
    ('COLUMN', 'SHA256')
    """
    if get_origin(annotation) in (Union, UnionType):
        return "|".join(metavar(part) for part in get_args(annotation) if part is not type(None))
    if get_origin(annotation) is Literal:
        choices = "|".join(map(str, get_args(annotation)))
        return choices if len(choices) <= MOST_METAVAR else "NAME"
    if get_origin(annotation) is dict:
        return "LABEL=WEIGHT,..."
    if get_origin(annotation) is Annotated:
        return metavar(get_args(annotation)[0])
    if get_origin(annotation) is tuple and metavar(get_args(annotation)[0]) == "NUMBER":
        return "NUMBER,..."
    if get_origin(annotation) is tuple:
        return TEXTS.get(field, "COLUMN")
    return {int: "N", float: "NUMBER"}.get(annotation, "TEXT")


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _weights(text: str) -> dict[str, str]:
    pairs = [pair.rpartition("=") for pair in text.split(",")]
    if any(not label or not weight.strip() for label, _, weight in pairs):
        raise ConfigError(f"--class-weights {text!r}, but it takes none, balanced or LABEL=WEIGHT,LABEL=WEIGHT.")
    return {label: weight for label, _, weight in pairs}


# From the words of a command line to one object of settings: TOML files, KEY=VALUE pairs, options, places of data.


def train_settings(
    dataset: str, options: Given, ingest_options: Given, config: str | None, pairs: list[str]
) -> TrainSettings:
    """One object from a TOML file, then --set pairs, then options; paths become absolute."""
    return settings_from(TrainSettings, _train_values(dataset, options, ingest_options, config, pairs), "okl train")


def resumed_settings(
    run: TrainSettings, dataset: str | None, options: Given, ingest_options: Given, config: str | None, pairs: list[str]
) -> TrainSettings:
    """The settings that a run was begun with, and what was given beside --resume; the run refuses what may not be."""
    given = _train_values(dataset or run.data, options, ingest_options, config, pairs)
    if isinstance(ingest := given.pop("ingest", None), IngestSettings):
        given["ingest"] = (run.ingest or IngestSettings()).model_dump() | ingest.model_dump(exclude_unset=True)
    return settings_from(TrainSettings, run.model_dump() | given, "okl train")


def _train_values(dataset: str, options: Given, ingest_options: Given, config: str | None, pairs: list[str]) -> Given:
    """What was given, by the names of settings; paths are absolute."""
    values = read_config(config) if config else {}
    ingest_values = values.pop("ingest", {})
    if not isinstance(ingest_values, dict):
        raise ConfigError(
            f"--config {config}: ingest = {ingest_values!r}, but it is a table: [ingest], then target = ..."
        )
    for name, value in split_pairs(pairs).items():
        if name.startswith("ingest."):
            ingest_values[name.removeprefix("ingest.")] = value
        else:
            values[name] = value
    values |= options | {"data": data_location(dataset)}
    if values.get("out"):
        values["out"] = absolute_location(str(values["out"]))
    if ingest_values or ingest_options:
        values["ingest"] = settings_from(IngestSettings, ingest_values | ingest_options, "okl train")
    return values


def data_location(dataset: str) -> str:
    """Where data lie, from the root; raises ConfigError for the folder of a run, whose files are no rows."""
    place = place_of(dataset)
    if isinstance(place, Path) and (place / "result.json").is_file() and (place / "model").is_dir():
        kept = f" Its data are in {place / 'data'}." if (place / "data").is_dir() else ""
        raise ConfigError(
            f"{dataset} is the folder of a run, and not of data.{kept} To set runs side by side: okl runs."
        )
    return absolute_location(dataset)


def split_pairs(pairs: list[str]) -> Given:
    """KEY=VALUE words as values: read like TOML where that works, as text where it does not."""
    values: Given = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {pair!r}, but it takes KEY=VALUE, such as epsilon=0.1.")
        try:
            values[_underscored(key.strip())] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            values[_underscored(key.strip())] = text
    return values


def read_config(path: str) -> Given:
    """The settings in a TOML file; dashes in names are underscores."""
    values = read_toml(path, "--config")
    if isinstance(values.get("ingest"), dict):
        values["ingest"] = {_underscored(name): value for name, value in values["ingest"].items()}
    return {_underscored(name): value for name, value in values.items()}


def _underscored(name: str) -> str:
    return name.replace("-", "_")


# Several files where one source is taken: most often a pattern that the shell expanded before okl saw it.


class TakesFiles(TyperCommand):
    """A command one of whose arguments is a source; says what to type where the shell made several files of it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words after the command; called by what runs commands.

        Raises
        ------
        ConfigError : more words than arguments, and several of them are files
        """
        ctx.allow_extra_args, words = True, [*args]
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            taken = [ctx.params[one.name] for one in self.get_params(ctx) if one.param_type_name == "argument"]
            files = [word for word in (*taken, *rest) if isinstance(word, str) and isfile(word)]
            if len(files) > 1:
                raise ConfigError(_told(files, ctx.command_path, words))
            ctx.fail(f"Got unexpected extra argument(s) ({' '.join(rest)})")
        return rest


def _told(files: Sequence[str], command: str, words: Sequence[str]) -> str:
    pattern = pattern_of(files)
    typed = [pattern if word == files[0] else word for word in words if word not in files[1:]]
    way = (
        f"Quote the pattern, so that the shell leaves it to okl: {command} {join(typed)}"
        if pattern
        else "Put them into a folder of their own, and give that."
    )
    return (
        f"{len(files)} files came ({files[0]}, {files[1]}{', ...' if len(files) > 2 else ''}), but {command} takes one "
        f"source, which may be many files of the same columns. {way}"
    )


def pattern_of(files: Sequence[str]) -> str:
    """A pattern of one asterisk that matches these files and no others; "" if there is none."""
    before = commonprefix(files)  # noqa: RUF071  letter by letter is what a pattern goes by
    after = commonprefix([file[len(before) :][::-1] for file in files])[::-1]  # noqa: RUF071
    pattern = f"{before}*{after}"
    return pattern if sorted(glob(pattern)) == sorted(files) else ""


# Options of a command under headings, in the order in which people come to need them.

Section = tuple[str, tuple[str, ...]]
"""A heading, and the names of the parameters below it."""

WHERE_IT_RUNS: Section = (
    "Where it runs",
    ("workers", "scheduler", "cluster", "tls", "threads", "mode", "rounds"),
)
FROM_FILES: Section = ("Settings from a file, and those without an option", ("config", "pairs"))
DATA: Section = (
    "The data",
    ("target", "task", "holdout", "split_column", "missing", "dates", "categories", "max_categories", "keys",
     "drop", "scale", "scale_target"),
)  # fmt: skip
SECTIONS: tuple[Section, ...] = (
    DATA,
    (
        "What to learn",
        ("solver", "kernel", "bandwidth", "loss", "class_weights", "rescale", "validation", "seed", "precision"),
    ),
    ("How long", ("budget_seconds", "passes", "order")),
    ("Where results go", ("out", "name", "overwrite")),
    FROM_FILES,
    ("Runs that are broken off", ("resume", "checkpoint_seconds", "checkpoint_rounds")),
    WHERE_IT_RUNS,
    ("Of fogd, c-svm to l1-l2-svm, scs, wolfe and pegasos: the Fourier map", ("frequencies", "map")),
    ("Of online learners, fogd to tvm; landmarks of ridge, too", ("step_size", "budget", "rank", "landmarks", "track")),
    ("Of ridge", ("n_landmarks", "penalty")),
    ("Of c-svm to l1-l2-svm", ("C", "nu", "kappa", "tol")),
    ("A bias: of c-svm to l1-l2-svm, ridge, scs and wolfe", ("fit_intercept", "bias")),
    ("Of scs, wolfe and pegasos", ("lam", "gap", "confidence")),
    (
        "Of fogd: a ball, limits on scores, and what is proved",
        ("radius", "certify", "constraints", "constraint_margin", "constraint_gain", "learn_sensitive"),
    ),
    ("Files of sources and data sets", ("svmlight_index", "hash_columns", "rows_per_shard", "compression")),
)  # fmt: skip
REST = "Options"


class Sectioned(TakesFiles):
    """Prints its options by section; those of none come last, and a section of which it has none is left out."""

    sections: Sequence[Section] = SECTIONS

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then options; called by what prints --help."""
        told: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        headings = {name: heading for heading, names in reversed(self.sections) for name in names}
        parameters = self.get_params(ctx)
        order = [name for _, names in self.sections for name in names]
        places = {name: place for place, name in reversed([*enumerate(order)])}
        for parameter in sorted(parameters, key=lambda one: places.get(str(one.name), len(order))):
            record = parameter.get_help_record(ctx)
            if record is not None:
                argument = parameter.param_type_name == "argument"
                heading = "Arguments" if argument else headings.get(str(parameter.name), REST)
                told.setdefault(heading, []).append(record)
        for heading, records in told.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def sectioned(*sections: Section) -> type[Sectioned]:
    """The class of a command that has other sections; a name that is below several belongs to the first."""
    return type("Sectioned", (Sectioned,), {"sections": sections})
