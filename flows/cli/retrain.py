"""Command `okl retrain`."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.cli import options as cli
from flows.cli.commands import Config, Json, Pairs, Record, app, print_result
from okl.foundation.errors import ConfigError
from okl.foundation.locations import absolute_location
from okl.foundation.settings import settings_from
from okl.lifecycle.settings import NOT_OF_INGEST, NOT_OF_TRAIN, RetrainSettings
from okl.report.progress import terminal_observer

RETRAIN = cli.Options(
    RetrainSettings,
    {
        cli.SHARDS: ("registry", "time_column", "on_bad", "release", "exclude", "max_shards", "settle_seconds"),
        cli.PUBLICATION: (
            "publish_if",
            "margin",
            "slices",
            "holdout",
            "holdout_shards",
            "window_shards",
            "choose",
            "dry_run",
        ),
    },
)
OF_SHARDS = "the champion's; for a new model chosen as in okl train, and kept"


def solver_help(auto: str, default: str) -> str:
    """Return the help of --solver with another meaning of auto and another default, for commands that retrain."""
    parts = cli.help_for(cli.TRAIN.kind, "solver", with_default=False).split("; ")
    return f"{'; '.join(auto if part.startswith('auto:') else part for part in parts)} [default: {default}]"


LEARNING = cli.TRAIN.without(
    *NOT_OF_TRAIN,
    solver=solver_help(f"auto: {OF_SHARDS}", "auto"),
    learn_sensitive="also use the columns of the constraints as inputs; otherwise a new model gets them as keys "
    "[default: no]",
)
KEYS_OF_A_MODEL = "a registered model keeps the key columns of its first version"
READING = cli.INGEST.without(
    *NOT_OF_INGEST,
    "rows_per_shard",
    keys=f"{cli.help_for(cli.INGEST.kind, 'keys', with_default=False)}; {KEYS_OF_A_MODEL} [default: none]",
)


@app.command(cls=cli.Command, short_help="Train on new shards since the champion; publish the model if it is better.")
@cli.accepts(given=RETRAIN, options=LEARNING, ingest_options=READING)
def retrain(
    given: cli.OptionValues,
    options: cli.OptionValues,
    ingest_options: cli.OptionValues,
    name: Annotated[str, cli.argument("NAME", "Name of the registered model.")],
    source: Annotated[
        str | None, cli.argument("SOURCE", "Folder, URL or glob of the new files; each file is a shard.")
    ] = None,
    window_from: Annotated[
        str | None,
        cli.option("DATE", "Use only shards at or after this time; none: from the first.", "--from", panel=cli.SHARDS),
    ] = None,
    window_to: Annotated[
        str | None, cli.option("DATE", "Use only shards before this time; none: to the last.", "--to", panel=cli.SHARDS)
    ] = None,
    config: Config = None,
    pairs: Pairs = None,
    record: Record = False,
    json: Json = False,
) -> None:
    """Train on new shards since the champion, and publish the model if it is better.

    New files are validated against a contract; files that violate it are quarantined with a reason, and the exit code
    stays 0: see shards.rejected of --json, or stop with exit code 2 by --on-bad stop. Online solvers
    continue from the champion, other solvers train on the latest shards. No shard is trained on twice. In a TOML file
    and in --set, settings of training, ingestion and contract have the prefixes train, ingest and contract: --set
    contract.min_rows=10.
    """
    from okl.distributed.cluster_file import check_execution_options
    from okl.report.retraining import summary_text

    window = {"window_from": window_from, "window_to": window_to}
    given |= {field: value for field, value in window.items() if value is not None}
    values = retrain_values(name, source, given, {"train": options, "ingest": ingest_options}, config, pairs or [])
    settings = settings_from(RetrainSettings, values, "okl retrain")
    check_execution_options(settings.train)
    check_new_name(settings)
    from flows.foreground import perform_run
    from okl.lifecycle.retrain import RetrainingRun

    result = perform_run(RetrainingRun(settings), "flows.runs:okl_retrain", terminal_observer(), record)
    print_result(result, json, summary_text(result))


def check_new_name(settings: RetrainSettings) -> None:
    """Refuse to create a model with the name of a run; warn if models have a similar name.

    Raises ConfigError : a run has this name, but no model: its model would be left out
    """
    from okl.foundation.locations import runs_named
    from okl.lifecycle.shard_store import ShardStore
    from okl.models.registry import Registry

    model = Registry(settings.registry).model(settings.name)
    if model.state().latest or ShardStore(model.folder / "data").reference() is not None:
        return
    if runs := runs_named(model.name):
        where = f" --registry {settings.registry}" if settings.registry else ""
        raise ConfigError(
            f"{model.name} is a run ({runs[0].name}), not a registered model. To retrain it, register it first: okl "
            f"models publish {model.name} {model.name} --promote{where}. For a new model, choose another name."
        )
    if close := model.close_names():
        problem = f"no model is named {model.name}, so this creates a new one"
        typer.echo(f"Warning: {problem}. Did you mean {close}?", err=True)


def retrain_values(
    name: str,
    source: str | None,
    given: cli.OptionValues,
    groups: dict[str, cli.OptionValues],
    config: str | None,
    pairs: list[str],
) -> cli.OptionValues:
    """Return values of settings from a TOML file, overridden by --set pairs, then by options; paths are absolute."""
    values, tables = cli.merged_values(config, pairs, {"contract": {}} | groups)
    values |= given | {"name": name} | tables
    location = source or values.get("source")
    if not location:
        raise ConfigError("Missing argument 'SOURCE': give the folder, URL or glob of the new files.")
    values["source"] = absolute_location(str(location))
    if values.get("registry"):
        values["registry"] = absolute_location(str(values["registry"]))
    return values
