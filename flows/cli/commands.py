"""The application object of the command line and the commands ingest, describe and train."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from flows.cli.options import (
    INGEST,
    STORE,
    TRAIN,
    WORKERS,
    Given,
    Sectioned,
    accepts,
    data_location,
    help_for,
    resumed_settings,
    train_settings,
)
from okl.foundation.settings import IngestSettings, TrainSettings, WhereSettings, settings_from

if TYPE_CHECKING:
    from okl.foundation.telemetry import Observer


# What a newcomer reads first: commands in the order of need, and the first steps.

JOURNEY = (
    "train", "predict", "evaluate", "explain", "runs", "compare", "plan", "ingest", "describe", "export", "retrain",
    "models", "deploy", "up", "status", "down", "reproduce",
)  # fmt: skip
FIRST_STEPS = """\b
First steps:
  okl train rows.csv --target y --holdout 0.2    learn, evaluate on a fifth held out; a model and a report
  okl predict MODEL new.csv --out scores         MODEL: the name of the run, as okl runs tells it
  okl compare rows.csv --target y                of classes: which model suits these rows
  okl train -h                                   every option of a command"""


class Journey(TyperGroup):
    """Lists commands in the order in which people come to need them; what is not in JOURNEY comes last.

    `okl help`, `okl help COMMAND` and `okl version` do what --help and --version do.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command line; called by what runs commands."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        elif args == ["version"]:
            args = ["--version"]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Names, in order."""
        return sorted(super().list_commands(ctx), key=lambda name: (*JOURNEY, name).index(name))


# The commands of `okl`: options in, one object of settings, a summary or one line of JSON out.

HELP_COLUMNS = 100

app = typer.Typer(
    name="okl",
    cls=Journey,
    help="Large-scale kernel learning on Parquet: ingest, train, evaluate, predict.",
    epilog=FIRST_STEPS,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": HELP_COLUMNS},
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line on standard output.")]
Config = Annotated[
    str | None,
    typer.Option(metavar="FILE.toml", help="TOML file of the same settings; --set and options win; none: those alone."),
]
Pairs = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any setting, such as epsilon=0.1 (repeatable)."),
]
MODEL_HELP = "Folder or URL of a model or a run, name of a run, or registered NAME, NAME@7, NAME@previous."
Registered = Annotated[
    str | None,
    typer.Option(
        "--registry", metavar="URL", help="Folder or URL of registered models; none: OKL_REGISTRY, or okl's home."
    ),
]
SOURCE_HELP = "Parquet, CSV or svmlight text, compressed or not: a file, folder or quoted glob; a path, or a URL as s3://BUCKET/FOLDER."


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"okl {version('okl')}")
        except PackageNotFoundError:
            print("okl (a checkout, not installed)")
        raise typer.Exit


@app.callback()
def okl(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
    extension: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE.py",
            help="File that adds a loss, a model or a map, run when one is asked for (repeatable); none: those of "
            "OKL_EXTENSIONS.",
        ),
    ] = None,
) -> None:
    """Large-scale kernel learning on Parquet: ingest, train, evaluate, predict."""
    if extension:
        from okl.foundation.plugins import offer

        for path in extension:
            offer(path)


@app.command(cls=Sectioned, short_help="Turn a source into a sharded data set with a manifest.")
@accepts(given=STORE, where=WORKERS)
def ingest(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=SOURCE_HELP)],
    destination: Annotated[str, typer.Argument(metavar="DEST", help="Folder or URL of the data set to make.")],
    given: Given,
    where: Given,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a data set made from another source or otherwise.")
    ] = False,
    json: Json = False,
) -> None:
    """Turn a source into a sharded data set with a manifest.

    The same source and settings again change nothing. On workers, which all see SOURCE and DEST under these very paths,
    the same bytes come of it.
    """
    settings = settings_from(IngestSettings, given, "okl ingest")
    places = settings_from(WhereSettings, where, "okl ingest")
    from okl.data.describe import describe as description_of
    from okl.data.describe import describe_text
    from okl.data.ingest.run import ingest as make
    from okl.distributed import open_for

    if where:
        from okl.runs.plan import check_workers

        check_workers(places)
    observer = _observer()
    try:
        observer.stage("ingest")
        with open_for(places, "ingest") if where else nullcontext() as execution:
            made = make(
                source,
                destination,
                settings,
                overwrite=overwrite,
                progress=lambda done, total: observer.advance(done, total or 0, {}),
                execution=execution,
            )
    finally:
        observer.finish()
    show(description_of(made.dataset) | {"changed": made.changed}, json, describe_text(made.dataset))


@app.command(short_help="Show a data set's columns, classes, splits, shards and scaling.")
def describe(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Folder of a data set.")], json: Json = False
) -> None:
    """Show a data set's columns, classes, splits, shards and scaling."""
    from okl.data.describe import describe as description_of
    from okl.data.describe import describe_text
    from okl.data.manifest import open_dataset

    data = open_dataset(data_location(dataset))
    show(description_of(data), json, describe_text(data))


@app.command(cls=Sectioned, short_help="Train a model, evaluate it, and save it with a report.")
@accepts(options=TRAIN, ingest_options=INGEST)
def train(
    options: Given,
    ingest_options: Given,
    dataset: Annotated[
        str | None, typer.Argument(metavar="DATASET", help=help_for(TrainSettings, "data", False), show_default=False)
    ] = None,
    config: Config = None,
    pairs: Pairs = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Go on with a run that was broken off, from its last checkpoint: name or folder; none: a new run.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Train a model, evaluate it, and save it with a report; recorded by Prefect.

    \b
    okl train rows.csv --target y --holdout 0.2                 what suits is chosen by a race
    okl train rows.csv --target y --missing mean --dates parts  numbers that are missing; dates
    okl train rows.csv --target y --scale standard --solver c-svm

    Of a data set, which was ingested, nothing need be told of the data. With --resume all settings are those that the
    run was begun with, its mode among them: a run that streams goes on to stream, whatever --workers. Only where it
    runs may be given anew.
    """
    from flows.run import run_train
    from okl.foundation.errors import ConfigError

    if resume is not None:
        from okl.runs.checkpoint import find_unfinished, newest_head, refuse_other_settings, settings_of
        from okl.runs.train import check_before

        folder = find_unfinished(resume)
        settings = resumed_settings(settings_of(folder), dataset, options, ingest_options, config, pairs or [])
        refuse_other_settings(newest_head(folder).about, settings, resume)
        check_before(settings, folder)
        result = run_train(settings, _observer(), folder)
    elif dataset is None:
        raise ConfigError("Missing argument 'DATASET': give a data set or a source to train on, or --resume RUN.")
    else:
        from okl.runs.plan import check

        settings = train_settings(dataset, options, ingest_options, config, pairs or [])
        check(settings)
        result = run_train(settings, _observer())
    from okl.report.run import text_summary

    show(result, json, text_summary(result))


def _observer() -> Observer:
    from flows.progress import terminal_observer

    return terminal_observer()


def show(result: dict[str, Any], as_json: bool, text: str) -> None:
    """Print a result: one line of JSON, or text for people."""
    if as_json:
        import json

        print(json.dumps(result, allow_nan=False))
    else:
        print(text)
