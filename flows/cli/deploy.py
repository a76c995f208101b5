"""The command `okl deploy`."""

from __future__ import annotations

import asyncio
from glob import has_magic
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.commands import Config, Json, Pairs, app, show
from flows.cli.options import (
    DATA,
    INGEST,
    SECTIONS,
    TRAIN,
    Given,
    Options,
    Section,
    accepts,
    help_for,
    sectioned,
    train_settings,
)
from flows.cli.retrain import (
    ARRIVING,
    JUDGING,
    KEYS_OF_A_MODEL,
    LEARNING,
    OF_SHARDS,
    READING,
    RETRAIN,
    retrain_values,
    solver_help,
    warn_of_new_name,
)
from flows.service import RetrainService, ServiceSettings
from okl.foundation.errors import ConfigError
from okl.foundation.locations import absolute_location, place_of
from okl.foundation.plugins import elsewhere
from okl.foundation.settings import TrainSettings, settings_from
from okl.lifecycle.settings import NOT_OF_TRAIN, RetrainSettings

# The command `okl deploy`.

SERVICE = Options(
    RetrainService, ("stage_seconds", "retries", "retry_seconds", "late", "late_seconds", "empty_windows")
)
# a deployment runs many times, each time into a folder of its own
DEPLOYED = Options(
    TRAIN.kind,
    tuple(name for name in TRAIN.fields if name != "out"),
    {"solver": solver_help(f"auto: as of okl train; with --retrain {OF_SHARDS}", "auto, which with --retrain is fogd")},
)
SPLIT = Options(
    INGEST.kind,
    INGEST.fields,
    {
        "holdout": f"{help_for(INGEST.kind, 'holdout', with_default=False)}; with --retrain: "
        f"{help_for(RETRAIN.kind, 'holdout')}",
        "keys": f"{help_for(INGEST.kind, 'keys', with_default=False)}; of --retrain NAME: {KEYS_OF_A_MODEL} "
        "[default: none]",
    },
)
OWN_FOLDER = "{time}-version-{version}"


DEPLOYING: Section = ("What is deployed", ("retrain", "cron", "timezone", "score", "score_out", "pool"))
LEVELS: Section = ("What happens when something goes wrong", SERVICE.fields)


@app.command(
    cls=sectioned(DEPLOYING, DATA, ARRIVING, JUDGING, LEVELS, *SECTIONS),
    short_help="Apply deployments to the configured Prefect server: training, retraining, scoring, ...",
)
@accepts(service=SERVICE, retrain_options=RETRAIN, options=DEPLOYED, ingest_options=SPLIT)
def deploy(
    service: Given,
    retrain_options: Given,
    options: Given,
    ingest_options: Given,
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET",
            help="What a run trains on that is given nothing, or where files arrive; none: each run says.",
        ),
    ] = None,
    retrain: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Retrain this model on the files that arrive in DATASET, as okl retrain does; none: train.",
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            help="With --retrain: score these rows with each new champion, when a run is over; none: no scoring.",
        ),
    ] = None,
    score_out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Of the scores; may hold {date}, {time}, {version}, {run}; none: in okl's home folder."
        ),
    ] = None,
    cron: Annotated[
        str | None, typer.Option(metavar="FIELDS", help="When to run, such as '0 3 * * *'; none: only when asked.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Of --cron, such as Europe/Zurich; none: UTC.")
    ] = None,
    pool: Annotated[str, typer.Option(metavar="NAME", help="Work pool; made if it is missing.")] = "okl",
    config: Config = None,
    pairs: Pairs = None,
    json: Json = False,
) -> None:
    """Apply deployments to the configured Prefect server; none configured: that of `okl up`.

    Without --retrain: okl-train/default, which --cron is for, and okl-score, okl-compare, okl-reproduce and okl-notice,
    each /default. With it: okl-retrain/NAME, which --cron is for, okl-score/NAME if there is something to score, and
    okl-notice/default. May be repeated: it updates.
    """
    from flows.run import server_is_configured, server_known

    groups = retrain_options, options, ingest_options
    if retrain is None:
        if score is not None or score_out is not None:
            raise ConfigError("--score is of a retrained model, and none was named: give --retrain NAME, too.")
        training, retraining = _training(dataset, *groups, config, pairs or []), None
        levels = settings_from(ServiceSettings, service, "okl deploy")
    else:
        if score is None and score_out is not None:
            raise ConfigError("--score-out is of rows to score, and none were named: give --score SOURCE, too.")
        training, retraining = None, _retraining(retrain, dataset, *groups, config, pairs or [])
        levels = settings_from(RetrainService, service, "okl deploy")
        if score is not None and isinstance(rows := place_of(score), Path) and not (rows.exists() or has_magic(score)):
            typer.echo(f"Warning: {rows.absolute()} does not exist; until it does, scoring fails.", err=True)
    asked = retraining.train if retraining else training
    if asked and (warning := elsewhere(asked.solver, asked.loss, asked.map)):
        typer.echo(f"Warning: {warning}", err=True)
    configured = server_is_configured()
    with server_known():
        from flows.deploy import deploy as apply

        scoring = None if score is None or retrain is None else _scoring(score, score_out, retrain)
        names = apply(
            training, scoring, retrain=retraining, service=levels, cron=cron, timezone=timezone, pool=pool
        )  # fmt: skip
        schedule, url = schedule_of(cron, timezone), None if configured else address()
    found = {"deployments": names, "pool": pool, "schedule": schedule}
    show(found, json, deployed_text(names, schedule, url, scoring))


def _training(
    dataset: str | None, retraining: Given, options: Given, ingest: Given, config: str | None, pairs: list[str]
) -> TrainSettings | None:
    """What to train on, checked; None where each run says."""
    if odd := [name for name in retraining if name not in INGEST.fields]:
        raise ConfigError(f"--{odd[0].replace('_', '-')} is of a retraining: give --retrain NAME, too.")
    if dataset is None:
        if options or ingest or config or pairs:
            raise ConfigError("Options of training need something to train on: give the data set too.")
        return None
    from okl.runs.plan import check

    settings = train_settings(dataset, options, ingest, config, pairs)
    check(settings)
    return settings


def _retraining(
    name: str,
    source: str | None,
    retraining: Given,
    options: Given,
    ingest: Given,
    config: str | None,
    pairs: list[str],
) -> RetrainSettings:
    """How to retrain, checked."""
    allowed = {"train": (options, LEARNING), "ingest": (ingest, READING)}
    for given, known in allowed.values():
        if odd := [one for one in given if one not in (*known.fields, *RETRAIN.fields)]:
            why = NOT_OF_TRAIN.get(odd[0])
            told = f"--{odd[0].replace('_', '-')} is no option of a retraining"
            raise ConfigError(f"{told}: {why}. Leave it out." if why else f"{told}: see okl retrain --help.")
    groups: dict[str, dict[str, Any]] = {
        table: {one: value for one, value in given.items() if one in known.fields}
        for table, (given, known) in allowed.items()
    }
    values = retrain_values(name, source, retraining, groups, config, pairs)
    settings = settings_from(RetrainSettings, values, "okl deploy")
    from okl.lifecycle.lineage_checks import check_arrivals
    from okl.runs.plan import check_workers

    check_workers(settings.train)
    check_arrivals(settings)
    warn_of_new_name(settings)
    return settings


def _scoring(source: str, out: str | None, name: str) -> dict[str, str]:
    """Which rows to score with each champion of a model, and where to; a folder without a field gets some."""
    from flows.score import FIELD
    from okl.foundation.locations import okl_home

    place = absolute_location(out or str(okl_home() / "scores" / name))
    own = place if FIELD.search(place) else f"{place.rstrip('/')}/{OWN_FOLDER}"
    return {"source": absolute_location(source), "out": own}


# When a deployment fires, and what to type to run or remove it, as `okl deploy` prints them.


def schedule_of(cron: str | None, timezone: str | None) -> dict[str, Any] | None:
    """Fields, zone, and the next firing (ISO 8601, in that zone) by the code of Prefect's own scheduler.

    None where there is no schedule; the fields have been checked.
    """
    if cron is None:
        return None
    from prefect.server.schemas.schedules import CronSchedule  # the server's: only where there is a schedule

    zone = timezone or "UTC"
    (first,) = asyncio.run(CronSchedule(cron=cron, timezone=zone).get_dates(1))
    return {"cron": cron, "timezone": zone, "next": first.isoformat()}


def address() -> str | None:
    """Of the server that is in use."""
    from prefect.settings import PREFECT_API_URL

    value = PREFECT_API_URL.value()
    return None if value is None else str(value)


def deployed_text(
    names: list[str], schedule: dict[str, Any] | None, url: str | None, scoring: dict[str, str] | None = None
) -> str:
    """Names of deployments, the first of which fires by the schedule, and the commands that go with them.

    url : of the server where `prefect` would not find it by itself
    scoring : source and out of the deployment that scores with each new champion, if there is one
    """
    first = names[0]
    own = [name for name in names if not name.endswith("/default")] or [first]
    prefect = f"PREFECT_API_URL={url} prefect" if url else "prefect"
    when = "only when asked"
    if schedule is not None:
        when = f'by --cron "{schedule["cron"]}", {schedule["timezone"]}; next: {schedule["next"].replace("T", " ")}'
    lines = [
        *names,
        f"{first} runs {when}",
        *(
            f"{name} scores {scoring['source']} with each new champion; scores go to {scoring['out']}"
            for name in own
            if scoring is not None and name != first
        ),
        *(
            ["no rows are scored with new champions: --score SOURCE does that, and what did it before is removed"]
            if scoring is None and first.startswith("okl-retrain/")
            else []
        ),
        f"run it now:   {prefect} deployment run {first} --watch",
        "what became of it: okl status",
        *(["end its schedule: okl deploy again, without --cron"] if schedule is not None else []),
        *(f"remove it:    {prefect} deployment delete {name}" for name in own),
    ]
    return "\n".join(lines)
