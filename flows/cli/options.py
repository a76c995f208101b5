"""Command-line options generated from settings: declaration, parsing, and panels of the help."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import wraps
from glob import glob
from os.path import commonprefix, isfile
from pathlib import Path
from shlex import join
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel, create_model
from typer.core import TyperCommand

from okl.foundation.catalogue import SOLVERS
from okl.foundation.errors import ConfigError
from okl.foundation.locations import absolute_location, place_of
from okl.foundation.settings import ONE_OF_MANY, ExecutionSettings, IngestSettings, read_toml, settings_from
from okl.solvers.options import SolverSettings
from okl.solvers.settings import TrainSettings, check_given, solver_settings

# Options generated from settings


def words(text: str) -> tuple[str, ...]:
    """Return names of settings, written with spaces between them."""
    return tuple(text.split())


OptionValues = dict[str, Any]
"""Values that the user gave for a group of options, by the names of their settings."""

MOST_METAVAR = 60  # characters; longer lists of choices are shown in the help text
TEXTS = {"constraints": "CONSTRAINT", "release": "SHA256", "exclude": "FILE", "missing_words": "WORD"}
"""Placeholders of repeatable options that are not columns."""


@dataclass(frozen=True)
class Options:
    """Group of settings that are options of a command, by panel (heading of the help).

    help_texts : whole help text, by field, if it differs from the description of the setting
    of_solvers, refused : whether the command takes the options of the solver, too, and which it does not
    """

    kind: type[BaseModel]
    panels: Mapping[str, tuple[str, ...]]
    help_texts: Mapping[str, str] = field(default_factory=dict)
    of_solvers: bool = False
    refused: frozenset[str] = frozenset()

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(field for fields in self.panels.values() for field in fields)

    def without(self, *names: str, **help_texts: str) -> Options:
        """Return the group without some options, and with other help texts."""
        left = {panel: tuple(one for one in fields if one not in names) for panel, fields in self.panels.items()}
        return replace(self, panels=left, help_texts={**self.help_texts, **help_texts}, refused=self.refused | {*names})

    def takes(self, name: str) -> bool:
        return name in self.fields or (self.of_solvers and name not in (*self.kind.model_fields, *self.refused))

    def parameters(self) -> dict[str, inspect.Parameter]:
        """Return typer's parameters, by field; values stay text, which the settings validate, and default to None."""
        return {
            field: option_of(self.kind, field, panel, self.help_texts.get(field))
            for panel, fields in self.panels.items()
            for field in fields
        }

    def given(self, arguments: OptionValues, of_solver: Mapping[str, Any] | None = None) -> OptionValues:
        """Return the given arguments, also those of the solver; convert syntax of the command line."""
        values = {field: arguments[field] for field in self.fields if arguments[field] is not None}
        values |= (of_solver or {}) if self.of_solvers else {}
        if "holdout" in values:
            with suppress(ValueError):
                values["holdout"] = float(values["holdout"])
        if "=" in (text := str(values.get("class_weights", ""))):
            pairs = [pair.rpartition("=") for pair in text.split(",")]
            if any(not label or not weight.strip() for label, _, weight in pairs):
                raise ConfigError(
                    f"--class-weights {text!r} is invalid: use none, balanced or LABEL=WEIGHT,LABEL=WEIGHT."
                )
            values["class_weights"] = {label: weight for label, _, weight in pairs}
        return values


CONTEXT = "context"  # parameter that typer fills with click's context
SOLVER_OPTIONS = "okl.solver_options"  # key in click's context: the given values of a solver's options


def argument(metavar: str, text: str) -> Any:
    """Return typer's declaration of a positional argument."""
    return typer.Argument(metavar=metavar, help=text, show_default=False)


def option(metavar: str, text: str, *names: str, panel: str | None = None) -> Any:
    """Return typer's declaration of an option that is no setting; names : such as "--set", if not the parameter's."""
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel)


def option_of(kind: type[BaseModel], field: str, panel: str, help_text: str | None = None) -> inspect.Parameter:
    """Return typer's parameter of a setting."""
    annotation = kind.model_fields[field].annotation
    flag, text = f"--{ONE_OF_MANY.get(field, field).replace('_', '-')}", help_text or help_for(kind, field)
    value_kind: Any = str
    if annotation is bool:
        value_kind, flag = bool, f"{flag}/--no-{flag[2:]}"
    elif get_origin(annotation) is tuple:
        value_kind, text = list[str], f"{text} (repeatable)"
    shown = None if annotation is bool else metavar(annotation, field)
    annotated = Annotated[value_kind | None, typer.Option(flag, metavar=shown, help=text, rich_help_panel=panel)]
    return inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotated)


# Headings of the help, in their order; the options of a solver follow those of the model
DEPLOYMENT = "Deployment"
SIZES = "Size of the data and of a worker"
DATA = "Data"
SHARDS = "New shards and quarantine"
PUBLICATION = "Publication"
SERVICE_LEVELS = "Timeouts, retries and late runs"
VALIDATION = "Models and validation"
MODEL = "Model"
OUTPUT = "Output"
FROM_FILES = "Settings from a file, and settings without an option"
CHECKPOINTS = "Checkpoints and interrupted runs"
WORKERS = "Workers and threads"
FORMATS = "File formats"
OTHER = "Options"
PANELS = ("Arguments", DEPLOYMENT, SIZES, DATA, SHARDS, PUBLICATION, SERVICE_LEVELS, VALIDATION, MODEL, OUTPUT,
          FROM_FILES, CHECKPOINTS, WORKERS, FORMATS, OTHER)  # fmt: skip

INGEST_ALL = Options(
    IngestSettings,
    {
        DATA: words(
            "target task positive holdout group split_column missing dates categories max_categories many_values keys "
            "drop text min_documents max_terms scale scale_target"
        ),
        FORMATS: words(
            "missing_words date_order decimal svmlight_index hash_columns storage normalise rows_per_shard compression"
        ),
    },
)
INGEST = INGEST_ALL.without("compression")
EXECUTION = Options(TrainSettings, {OTHER: ("workers", "scheduler", "cluster", "tls", "threads")})
INGEST_EXECUTION = Options(ExecutionSettings, {WORKERS: ("workers", "scheduler", "cluster", "tls")})
KEYS = Options(IngestSettings, {OTHER: ("keys",)})
TRAIN = Options(
    TrainSettings,
    {
        MODEL: ("solver", "optimise", "threshold", "beside", "rescale", "metric", "seed", "precision"),
        OUTPUT: ("out", "name"),
        CHECKPOINTS: ("checkpoint_seconds", "checkpoint_rounds"),
        WORKERS: (*EXECUTION.fields, "mode"),
    },
    of_solvers=True,
)
_RARE = (
    "split_column max_categories many_values svmlight_index hash_columns rows_per_shard scale_target categories "
    "positive storage normalise min_documents max_terms missing_words date_order decimal tls threads checkpoint_rounds "
    "checkpoint_seconds metric precision mode validation"
)
_SPARSE = "storage normalise hash_columns many_values"
_OF_SHARDS = "rescale release exclude max_shards settle_seconds slices holdout_shards window_shards threshold cluster"
RARE: dict[str | None, tuple[str, ...]] = {
    "ingest": words(f"compression group svmlight_index min_documents max_terms {_SPARSE}"),
    "train": words(f"{_RARE} rescale cluster scheduler dates scale"),
    "compare": words(f"{_RARE} group rescale grid halving tolerance iterations memory map"),
    "plan": words(f"{_RARE} group rescale text out name beside threshold"),
    "retrain": words(f"{_RARE} group {_OF_SHARDS} scheduler margin on_bad time_column budget_seconds"),
    "deploy": words(
        f"{_RARE} {_OF_SHARDS} group text on_bad time_column margin choose beside seed budget_seconds scheduler "
        "dry_run stage_seconds retries retry_seconds late late_seconds empty_windows"
    ),
}
"""Options that `--help` shows only with --solver NAME or --help-all, or, of data, in `okl ingest --help`."""
ALL_OPTIONS = "okl.all_options"  # key in click's context: whether the help shows all options, as with --help-all
HIDDEN = words(
    "degree offset first_sample bundle_size batch project max_iterations regularisation aggressiveness epsilon average "
    "step_rule"
)
"""Settings of solvers for --set and TOML files, without an option of their own."""


def accepts(**groups: Options) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds groups of options to a command: one dictionary an argument of the group's name."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        options = {field: one for group in groups.values() for field, one in group.parameters().items()}
        solver_group = next((group for group in groups.values() if group.of_solvers), None)
        if solver_group is not None:
            options[CONTEXT] = inspect.Parameter(CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        keywords = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own.parameters.values()]
        shown = [*(one for one in keywords if one.name not in groups), *options.values()]
        shown.sort(key=lambda parameter: parameter.name == "json")  # --json and --help come last in every command

        @wraps(command)
        def run(**arguments: Any) -> None:
            of_solver = arguments[CONTEXT].meta[SOLVER_OPTIONS] if CONTEXT in arguments else {}
            given = {name: group.given(arguments, of_solver) for name, group in groups.items()}
            command(**{name: value for name, value in arguments.items() if name not in options}, **given)

        run.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]  # inspect.signature's protocol
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
        run.solver_group = solver_group  # type: ignore[attr-defined]  # for Command, which sees the function only
        return run

    return decorate


def help_for(kind: type[BaseModel], field: str, with_default: bool = True) -> str:
    """Return the help text of an option: description, choices and default of its setting."""
    info = kind.model_fields[field]
    text = info.description or ""
    if get_origin(info.annotation) is Literal and metavar(info.annotation) == "NAME":
        text += f"; choices: {', '.join(map(str, get_args(info.annotation)))}"
    if with_default and not info.is_required():
        default = {True: "yes", False: "no"}[info.default] if isinstance(info.default, bool) else info.default
        if default not in (None, ()):
            text += f" [default: {default}]"
        elif "none:" not in text:  # which explains none
            text += " [default: none]"
    return text


def metavar(annotation: Any, field: str = "") -> str:
    """Return the placeholder of an option's value; repeatable text is COLUMN except for the fields in TEXTS.

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


def train_settings(
    dataset: str, options: OptionValues, ingest_options: OptionValues, config: str | None, pairs: list[str]
) -> TrainSettings:
    """Return the settings of a TOML file, overridden by --set pairs, then by options; paths become absolute."""
    values = _train_values(dataset, options, ingest_options, config, pairs)
    settings = settings_from(TrainSettings, values, "okl train")
    check_given(settings, options)
    return settings


def resumed_settings(
    run: TrainSettings,
    dataset: str | None,
    options: OptionValues,
    ingest_options: OptionValues,
    config: str | None,
    pairs: list[str],
) -> TrainSettings:
    """Return the settings of an interrupted run, overridden by the given ones; the run refuses invalid changes."""
    given = _train_values(dataset or run.data, options, ingest_options, config, pairs)
    workers: dict[str, Any] = {"workers": 0, "scheduler": None, "cluster": None}
    if workers.keys() & given.keys():  # others than those of the interrupted run
        given = workers | given
    if isinstance(ingest := given.pop("ingest", None), IngestSettings):
        given["ingest"] = (run.ingest or IngestSettings()).model_dump() | ingest.model_dump(exclude_unset=True)
    return settings_from(TrainSettings, run.model_dump() | given, "okl train")


def _train_values(
    dataset: str, options: OptionValues, ingest_options: OptionValues, config: str | None, pairs: list[str]
) -> OptionValues:
    """Return the given values by the names of settings; paths are absolute."""
    values, tables = merged_values(config, pairs, {"ingest": ingest_options})
    values |= options | {"data": data_location(dataset)}
    if values.get("out"):
        values["out"] = absolute_location(str(values["out"]))
    if tables["ingest"]:
        values["ingest"] = settings_from(IngestSettings, tables["ingest"], "okl train")
    return values


def merged_values(
    config: str | None, pairs: list[str], groups: Mapping[str, OptionValues]
) -> tuple[OptionValues, dict[str, OptionValues]]:
    """Return the values of a TOML file and its tables, overridden by --set pairs and given options; or ConfigError."""
    read = read_toml(config, "--config") if config else {}
    values = {name.replace("-", "_"): value for name, value in read.items()}
    tables: dict[str, OptionValues] = {}
    for table in groups:
        if not isinstance(content := values.pop(table, {}), dict):
            raise ConfigError(f"--config {config}: {table} = {content!r}, but it must be a table: [{table}].")
        tables[table] = {name.replace("-", "_"): value for name, value in content.items()}
    for key, value in split_pairs(pairs).items():
        table, dot, field = key.partition(".")
        if dot and table in tables:
            tables[table][field] = value
        else:
            values[key] = value
    return values, {table: content | groups[table] for table, content in tables.items()}


def data_location(dataset: str) -> str:
    """Return the absolute location of data, or raise ConfigError for the folder of a run."""
    location = place_of(dataset)
    if isinstance(location, Path) and (location / "result.json").is_file() and (location / "model").is_dir():
        data = f"Its data are in {location / 'data'}." if (location / "data").is_dir() else "Give its data instead."
        raise ConfigError(f"{dataset} is the folder of a run, not of data. {data} To compare runs, use okl runs.")
    return absolute_location(dataset)


def split_pairs(pairs: list[str]) -> OptionValues:
    """Return KEY=VALUE pairs as values; a value that is not TOML is text."""
    values: OptionValues = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        name = key.strip().replace("-", "_")
        if not equals or not name:
            raise ConfigError(f"--set {pair!r} is invalid: use KEY=VALUE, such as epsilon=0.1.")
        try:
            values[name] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            values[name] = text
    return values


class Command(TyperCommand):
    """Command that lists its options by panel, and takes the options of solvers if one of its groups does.

    `--help` of a command with options of solvers shows what most runs need, `--help-all` all options, and with --solver
    NAME those of that solver, too.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, with the options of solvers, for typer.

        Raises ConfigError : a pattern that the shell expanded, or an option of okl itself
        """
        group = self._solver_group
        if any(argument.partition("=")[0] == "--extension" for argument in args):
            rest = ctx.command_path.partition(" ")[2]
            raise ConfigError(f"--extension comes before the command: okl --extension FILE.py {rest} ...")
        solver, shows_help = _solver_in(args), bool({"--help", "-h"} & {*args})
        ctx.meta[SOLVER] = solver
        if group is not None:
            ctx.meta[PARAMETERS] = solver_parameters(group, solver or "auto" if shows_help else None)
        ctx.allow_extra_args, arguments = True, [*args]
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            taken = [ctx.params[one.name] for one in self.get_params(ctx) if one.param_type_name == "argument"]
            files = [value for value in (*taken, *rest) if isinstance(value, str) and isfile(value)]
            if len(files) > 1:
                raise ConfigError(_several_files_message(files, ctx.command_path, arguments))
            ctx.fail(f"Got unexpected extra argument(s) ({' '.join(rest)})")
        given = {parameter.name: ctx.params.pop(parameter.name, None) for parameter in ctx.meta.get(PARAMETERS, ())}
        ctx.meta[SOLVER_OPTIONS] = {name: value for name, value in given.items() if value not in (None, ())}
        return rest

    @property
    def _solver_group(self) -> Options | None:
        return getattr(self.callback, "solver_group", None)

    def get_params(self, ctx: Any) -> list[Any]:
        own = super().get_params(ctx)
        return [*own[:-1], *ctx.meta.get(PARAMETERS, ()), *own[-1:]]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the parameters by panel; called by typer for --help."""
        solver = ctx.meta.get(SOLVER)
        rare = () if ctx.meta.get(ALL_OPTIONS) or solver is not None else RARE.get(self.name, ())
        has_one_mode = solver not in (None, "auto") and solver_settings(solver).mode is SolverSettings.mode
        hidden = {*rare, "mode"} if has_one_mode else {*rare}  # it refuses --mode
        entries: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and parameter.name not in hidden:
                panel = "Arguments" if parameter.param_type_name == "argument" else OTHER
                entries.setdefault(getattr(parameter, "rich_help_panel", None) or panel, []).append(record)
        # the panel of a solver is the only one that PANELS does not name
        for panel in sorted(entries, key=lambda panel: PANELS.index(panel if panel in PANELS else MODEL)):
            with formatter.section(panel):
                if panel not in PANELS and solver is not None:
                    summary = solver_settings(solver).SUMMARY
                    formatter.write_text(f"{summary[:1].upper()}{summary[1:]}.")
                formatter.write_dl(entries[panel])
        if rare:
            own = ", with --solver NAME also the solver's own" if self._solver_group is not None else ""
            with formatter.section("More options"):
                formatter.write_text(f"{ctx.command_path} --help-all lists all options{own}.")


PARAMETERS = "okl.solver_parameters"  # keys in click's context: the parameters of a solver, and its name
SOLVER = "okl.solver"


def _solver_in(args: Sequence[str]) -> str | None:
    """Return the solver that the arguments name, or None."""
    for number, argument in enumerate(args):
        if argument.startswith("--solver="):
            return argument.partition("=")[2]
        if argument == "--solver" and number + 1 < len(args):
            return args[number + 1]
    return None


def solver_parameters(group: Options, solver: str | None) -> list[Any]:
    """Return click's parameters of the options of a solver, or of all solvers; ConfigError for an unknown solver."""
    if solver is not None and solver not in SOLVERS:
        raise ConfigError(f"solver = {solver!r}; expected one of {', '.join(SOLVERS)}.")
    kinds = [offered_settings(solver_settings(solver))] if solver else [solver_settings(name) for name in SOLVERS]
    fields = {field: kind for kind in reversed(kinds) for field in kind.model_fields}

    def declare(**_: Any) -> None:
        """Take the options, for typer to read them."""

    options = {
        field: option_of(kind, field, f"Solver {solver}", group.help_texts.get(field))
        for field, kind in fields.items()
        if group.takes(field) and field not in HIDDEN and not _has_one_choice(kind, field)
    }
    declare.__signature__ = inspect.Signature([*options.values()])  # type: ignore[attr-defined]  # inspect's protocol
    declare.__annotations__ = {field: parameter.annotation for field, parameter in options.items()}
    reader = typer.Typer(add_completion=False)
    reader.command()(declare)
    return [parameter for parameter in typer.main.get_command(reader).params if parameter.name != "help"]


def _has_one_choice(kind: type[BaseModel], field: str) -> bool:
    annotation = kind.model_fields[field].annotation
    return get_origin(annotation) is Literal and len(get_args(annotation)) == 1


def offered_settings(kind: type[SolverSettings]) -> type[SolverSettings]:
    """Return the settings of a solver with those choices only that it takes, for its help."""
    fields: dict[str, Any] = {}
    for name, refused in kind.NOT_TAKEN.items():
        info = kind.model_fields[name]
        fields[name] = Literal[tuple(one for one in get_args(info.annotation) if one not in refused)], info
    offered: type[SolverSettings] = create_model(kind.__name__, __base__=kind, **fields)
    return offered


def _several_files_message(files: Sequence[str], command: str, arguments: Sequence[str]) -> str:
    """Return the message for files in place of one source; it names a pattern that matches exactly these, if any."""
    before = commonprefix(files)  # noqa: RUF071  a pattern is matched letter by letter
    after = commonprefix([file[len(before) :][::-1] for file in files])[::-1]  # noqa: RUF071
    pattern = f"{before}*{after}"
    corrected = [pattern if argument == files[0] else argument for argument in arguments if argument not in files[1:]]
    advice = (
        f"Quote the pattern, so that the shell does not expand it: {command} {join(corrected)}"
        if sorted(glob(pattern)) == sorted(files)
        else "Put the files into one folder, and give the folder."
    )
    return (
        f"{command} takes one source, but got {len(files)} files "
        f"({files[0]}, {files[1]}{', ...' if len(files) > 2 else ''}). {advice}"
    )
