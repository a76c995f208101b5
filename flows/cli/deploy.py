"""Command `okl deploy`: apply deployments to a Prefect server."""

from __future__ import annotations

import asyncio
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli import options as cli
from flows.cli.commands import Config, Json, Pairs, app, print_result
from flows.cli.retrain import (
    KEYS_OF_A_MODEL,
    LEARNING,
    OF_SHARDS,
    READING,
    RETRAIN,
    check_new_name,
    retrain_values,
    solver_help,
)
from flows.service import RetrainService, ServiceSettings
from okl.foundation.errors import ConfigError
from okl.foundation.locations import absolute_location, place_of
from okl.foundation.plugins import elsewhere
from okl.foundation.settings import settings_from
from okl.lifecycle.settings import NOT_OF_TRAIN, RetrainSettings
from okl.solvers.settings import TrainSettings

SERVICE = cli.Options(
    RetrainService,
    {cli.SERVICE_LEVELS: ("stage_seconds", "retries", "retry_seconds", "late", "late_seconds", "empty_windows")},
)
# no --out: every run of a deployment creates its own folder
DEPLOYED = cli.TRAIN.without("out", solver=solver_help(f"auto: as in okl train; with --retrain, {OF_SHARDS}", "auto"))
SPLIT = cli.INGEST.without(
    holdout=f"{cli.help_for(cli.INGEST.kind, 'holdout', with_default=False)}; with --retrain: "
    f"{cli.help_for(RETRAIN.kind, 'holdout')}",
    keys=f"{cli.help_for(cli.INGEST.kind, 'keys', False)}; with --retrain, {KEYS_OF_A_MODEL} [default: none]",
)
OWN_FOLDER = "{time}-version-{version}"
_deployment = partial(cli.option, panel=cli.DEPLOYMENT)


@app.command(cls=cli.Command, short_help="Deploy training, retraining or scoring to a Prefect server, with a schedule.")
@cli.accepts(service=SERVICE, retrain_options=RETRAIN, options=DEPLOYED, ingest_options=SPLIT)
def deploy(
    service: cli.OptionValues,
    retrain_options: cli.OptionValues,
    options: cli.OptionValues,
    ingest_options: cli.OptionValues,
    dataset: Annotated[
        str | None,
        cli.argument(
            "DATASET",
            "Default data set or source of the runs; with --retrain, the location of new files; none: each run "
            "names its data.",
        ),
    ] = None,
    retrain: Annotated[
        str | None, _deployment("NAME", "Retrain this model on new files in DATASET, as okl retrain does; none: train.")
    ] = None,
    cron: Annotated[
        str | None, _deployment("FIELDS", "Schedule, such as '0 3 * * *'; none: runs are started by hand.")
    ] = None,
    timezone: Annotated[
        str | None, _deployment("ZONE", "Time zone of --cron, such as Europe/Zurich; none: UTC.")
    ] = None,
    score: Annotated[
        str | None,
        _deployment(
            "SOURCE", "With --retrain: rows to score after each run, with the champion at that time; none: no scoring."
        ),
    ] = None,
    score_out: Annotated[
        str | None,
        _deployment(
            "DIR", "Folder for the scores; may contain {date}, {time}, {version}, {run}; none: in okl's home folder."
        ),
    ] = None,
    pool: Annotated[str, _deployment("NAME", "Work pool; created if it is missing.")] = "okl",
    config: Config = None,
    pairs: Pairs = None,
    json: Json = False,
) -> None:
    """Apply deployments to the configured Prefect server; by default, to the server of `okl up`.

    Without --retrain: okl-train/default, scheduled by --cron, and okl-score/default, okl-compare/default,
    okl-reproduce/default and okl-notice/default. With it: okl-retrain/NAME, scheduled by --cron, okl-score/NAME with
    --score, and okl-notice/default. Running the command again updates the deployments.
    """
    from flows.foreground import server_is_configured, stack_server_settings

    if retrain is None:
        if score is not None or score_out is not None:
            raise ConfigError("--score and --score-out need a retrained model: add --retrain NAME.")
        if odd := [name for name in retrain_options if name not in cli.INGEST.fields]:
            raise ConfigError(f"--{odd[0].replace('_', '-')} is an option of retraining: add --retrain NAME.")
        training, retraining = _training(dataset, options, ingest_options, config, pairs or []), None
        levels = settings_from(ServiceSettings, service, "okl deploy")
    else:
        if score is None and score_out is not None:
            raise ConfigError("--score-out needs rows to score: add --score SOURCE.")
        groups = retrain_options, options, ingest_options
        training, retraining = None, _retraining(retrain, dataset, groups, config, pairs or [])
        levels = settings_from(RetrainService, service, "okl deploy")
        if score is not None and isinstance(rows := place_of(score), Path) and not (rows.exists() or has_magic(score)):
            typer.echo(f"Warning: {rows.absolute()} does not exist. Scoring fails until it does.", err=True)
    trained = retraining.train if retraining else training
    if trained and (warning := elsewhere(*trained.names)):
        typer.echo(f"Warning: {warning}", err=True)
    configured = server_is_configured()
    with stack_server_settings():
        from prefect.settings import PREFECT_API_URL

        from flows.deploy import deploy as apply

        scoring = None if score is None or retrain is None else _scoring(score, score_out, retrain)
        names = apply(
            training, scoring, retrain=retraining, service=levels, cron=cron, timezone=timezone, pool=pool
        )  # fmt: skip
        schedule, url = schedule_of(cron, timezone), None if configured else str(PREFECT_API_URL.value())
    applied = {"deployments": names, "pool": pool, "schedule": schedule}
    print_result(applied, json, deployed_text(names, schedule, url, scoring))


def _training(
    dataset: str | None, options: cli.OptionValues, ingest: cli.OptionValues, config: str | None, pairs: list[str]
) -> TrainSettings | None:
    """Return the checked settings of training; None if each run names its data."""
    if dataset is None:
        if options or ingest or config or pairs:
            raise ConfigError("Training options need data: add the argument DATASET.")
        return None
    from okl.runs.plan import check

    settings = cli.train_settings(dataset, options, ingest, config, pairs)
    check(settings)
    return settings


def _retraining(
    name: str, source: str | None, given_of: tuple[cli.OptionValues, ...], config: str | None, pairs: list[str]
) -> RetrainSettings:
    """Return the checked settings of retraining; given_of : the values of retraining, training and ingestion."""
    retraining, options, ingest = given_of
    allowed = {"train": (options, LEARNING), "ingest": (ingest, READING)}
    for given, known in allowed.values():
        if odd := [field for field in given if not known.takes(field) and field not in RETRAIN.fields]:
            why = NOT_OF_TRAIN.get(odd[0])
            problem = f"--{odd[0].replace('_', '-')} is not an option of retraining"
            raise ConfigError(f"{problem}: {why}. Remove it." if why else f"{problem}: see okl retrain --help.")
    groups: dict[str, dict[str, Any]] = {
        table: {field: value for field, value in given.items() if known.takes(field)}
        for table, (given, known) in allowed.items()
    }
    values = retrain_values(name, source, retraining, groups, config, pairs)
    settings = settings_from(RetrainSettings, values, "okl deploy")
    from okl.distributed.cluster_file import check_execution_options
    from okl.lifecycle.lineage_checks import check_arrivals

    check_execution_options(settings.train)
    check_arrivals(settings)
    check_new_name(settings)
    return settings


def _scoring(source: str, out: str | None, name: str) -> dict[str, str]:
    """Return source and destination of the scores; a destination without a field gets the fields of OWN_FOLDER."""
    from okl.foundation.locations import okl_home
    from okl.runs.predict import FIELD

    location = absolute_location(out or str(okl_home() / "scores" / name))
    own = location if FIELD.search(location) else f"{location.rstrip('/')}/{OWN_FOLDER}"
    if not {"date", "time", "run"} & set(FIELD.findall(own)):
        raise ConfigError(
            f"--score-out {location} is one folder for several runs, but each run needs its own. Add {{time}} to it."
        )
    return {"source": absolute_location(source), "out": own}


def schedule_of(cron: str | None, timezone: str | None) -> dict[str, Any] | None:
    """Return the cron fields, the zone and the next run (ISO 8601, in that zone); None without a schedule."""
    if cron is None:
        return None
    from prefect.server.schemas.schedules import CronSchedule  # slow to import: only for a schedule

    zone = timezone or "UTC"
    (first,) = asyncio.run(CronSchedule(cron=cron, timezone=zone).get_dates(1))
    return {"cron": cron, "timezone": zone, "next": first.isoformat()}


def deployed_text(
    names: list[str], schedule: dict[str, Any] | None, url: str | None, scoring: dict[str, str] | None = None
) -> str:
    """Return the names of the deployments and the commands to run, check and remove them.

    schedule : see `schedule_of`, of the first one; url : of the server, if `prefect` is not configured for it
    scoring : source and destination of the deployment that scores after each retraining, if there is one
    """
    from flows.stack.status import variables

    first = names[0]
    own = [name for name in names if not name.endswith("/default")] or [first]
    prefect = f"{variables(url)} prefect" if url else "prefect"
    when = "when started by hand (no --cron)"
    if schedule is not None:
        when = f'on schedule "{schedule["cron"]}", {schedule["timezone"]}; next: {schedule["next"].replace("T", " ")}'
    lines = [*names, f"{first} runs {when}"]
    if scoring is not None:
        scored = f"scores {scoring['source']} after each retraining; scores go to {scoring['out']}"
        lines += [f"{name} {scored}" for name in own if name != first]
    elif first.startswith("okl-retrain/"):
        lines.append("no scoring of rows (no --score); an earlier scoring deployment is removed")
    lines += [f"run now:          {prefect} deployment run {first} --watch", "check status:     okl status"]
    if schedule is not None:
        lines.append("remove schedule:  okl deploy again, without --cron")
    return "\n".join([*lines, *(f"remove:           {prefect} deployment delete {name}" for name in own)])
