"""Command `okl retrain`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flows.cli.commands import Config, Json, Pairs, app, print_result
from flows.cli.options import (
    INGEST,
    SECTIONS,
    TRAIN,
    Options,
    OptionValues,
    Section,
    accepts,
    help_for,
    read_config,
    sectioned,
    split_pairs,
)
from flows.progress import terminal_observer
from okl.foundation.errors import ConfigError
from okl.foundation.locations import absolute_location
from okl.foundation.settings import settings_from
from okl.lifecycle.settings import NOT_OF_INGEST, NOT_OF_TRAIN, RetrainSettings

RETRAIN = Options(
    RetrainSettings,
    (*("registry", "holdout", "holdout_shards", "window_shards", "max_shards", "on_bad", "time_column", "release"),
     *("publish_if", "margin", "slices", "settle_seconds", "dry_run")),
)  # fmt: skip
OF_SHARDS = "fogd, which continues training on each new shard"


def solver_help(auto: str, default: str) -> str:
    """Return the help of --solver with another meaning of auto and another default, for commands that retrain."""
    parts = help_for(TRAIN.kind, "solver", with_default=False).split("; ")
    return f"{'; '.join(auto if part.startswith('auto:') else part for part in parts)} [default: {default}]"


LEARNING = Options(
    TRAIN.kind,
    tuple(name for name in TRAIN.fields if name not in NOT_OF_TRAIN),
    {
        "solver": solver_help(f"auto: {OF_SHARDS}", "fogd"),
        "learn_sensitive": f"{'also use the columns of the constraints as inputs'}; otherwise a new model gets "
        "them as keys [default: no]",
    },
    of_solvers=True,
    without=frozenset(NOT_OF_TRAIN),
)
KEYS_OF_A_MODEL = "a registered model keeps the key columns of its first version"
READING = Options(
    INGEST.kind,
    tuple(name for name in INGEST.fields if name not in (*NOT_OF_INGEST, "rows_per_shard")),
    {"keys": f"{help_for(INGEST.kind, 'keys', with_default=False)}; {KEYS_OF_A_MODEL} [default: none]"},
)
ARRIVING: Section = (
    "New shards and quarantine",
    ("registry", "window_from", "window_to", "time_column", "on_bad", "release", "max_shards", "settle_seconds"),
)
JUDGING: Section = (
    "Publication",
    ("publish_if", "margin", "slices", "holdout", "holdout_shards", "window_shards", "dry_run"),
)
TABLES = ("train", "ingest", "contract")


@app.command(
    cls=sectioned(ARRIVING, JUDGING, *SECTIONS, solver_group=LEARNING),
    short_help="Train on new shards since the champion; publish the model if it is better.",
)
@accepts(given=RETRAIN, options=LEARNING, ingest_options=READING)
def retrain(
    given: OptionValues,
    options: OptionValues,
    ingest_options: OptionValues,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the registered model.")],
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE", help="Folder, URL or glob of the new files; each file is a shard.", show_default=False
        ),
    ] = None,
    window_from: Annotated[
        str | None,
        typer.Option("--from", metavar="DATE", help="Use only shards at or after this time; none: from the first."),
    ] = None,
    window_to: Annotated[
        str | None,
        typer.Option("--to", metavar="DATE", help="Use only shards before this time; none: to the last."),
    ] = None,
    config: Config = None,
    pairs: Pairs = None,
    json: Json = False,
) -> None:
    """Train on new shards since the champion, and publish the model if it is better; recorded by Prefect.

    New files are validated against a contract; files that violate it are quarantined with a reason. Online solvers
    continue from the champion, other solvers train on the latest shards. No shard is trained on twice. In a TOML file
    and in --set, settings of training, ingestion and contract have the prefixes train, ingest and contract: --set
    contract.min_rows=10.
    """
    from okl.distributed.opening import check_workers
    from okl.lifecycle.report import summary_text

    window = {"window_from": window_from, "window_to": window_to}
    given |= {field: value for field, value in window.items() if value is not None}
    values = retrain_values(name, source, given, {"train": options, "ingest": ingest_options}, config, pairs or [])
    settings = settings_from(RetrainSettings, values, "okl retrain")
    check_workers(settings.train)
    warn_of_new_name(settings)
    from flows.run import run_flow

    result = run_flow("okl_retrain", settings, terminal_observer())
    print_result(result, json, summary_text(result))


def warn_of_new_name(settings: RetrainSettings) -> None:
    """Warn if no model has this name but some have a similar one, since a run would create a new model."""
    from okl.models.registry import Registry

    model = Registry(settings.registry).model(settings.name)
    if not model.state().latest and (close := model.close_names()):
        typer.echo(
            f"Warning: no model is named {model.name}, so this creates a new one. Did you mean {close}?", err=True
        )


def retrain_values(
    name: str,
    source: str | None,
    given: OptionValues,
    groups: dict[str, OptionValues],
    config: str | None,
    pairs: list[str],
) -> OptionValues:
    """Return values of settings from a TOML file, overridden by --set pairs, then by options; paths are absolute."""
    values = read_config(config) if config else {}
    tables: dict[str, Any] = {table: values.pop(table, {}) for table in TABLES}
    if wrong := [table for table in TABLES if not isinstance(tables[table], dict)]:
        raise ConfigError(
            f"--config {config}: {wrong[0]} = {tables[wrong[0]]!r}, but it must be a table: [{wrong[0]}]."
        )
    for key, value in split_pairs(pairs).items():
        table, dot, field = key.partition(".")
        if dot and table in TABLES:
            tables[table] = tables[table] | {field: value}
        else:
            values[key] = value
    for table, options in groups.items():
        tables[table] = tables[table] | options
    values |= given | {"name": name} | tables
    location = source or values.get("source")
    if not location:
        raise ConfigError("Missing argument 'SOURCE': give the folder, URL or glob of the new files.")
    values["source"] = absolute_location(str(location))
    if values.get("registry"):
        values["registry"] = absolute_location(str(values["registry"]))
    return values
