"""Options of commands, made from settings: each has the name, the help and the choices of its setting."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel

from okl.configuration import IngestSettings, TrainSettings, WhereSettings
from okl.errors import ConfigError

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
