"""The commands of `okl`: options in, one object of settings, a summary or one line of JSON out."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.journey import FIRST_STEPS, Journey
from flows.options import INGEST, STORE, TRAIN, WORKERS, Given, accepts, help_for
from flows.sections import Sectioned
from flows.words import data_location, resumed_settings, train_settings
from okl.configuration import IngestSettings, TrainSettings, WhereSettings, settings_from

if TYPE_CHECKING:
    from okl.progress import Observer

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
        from okl.extensions import offer

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
    from okl.execution import open_for
    from okl.store.describe import describe as description_of
    from okl.store.describe import describe_text
    from okl.store.ingest import ingest as make

    if where:
        from okl.planning import check_workers

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
    from okl.store.describe import describe as description_of
    from okl.store.describe import describe_text
    from okl.store.manifest import open_dataset

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
    from okl.errors import ConfigError

    if resume is not None:
        from okl.checkpoints.origin import refuse_other_settings
        from okl.checkpoints.unfinished import find_unfinished, newest_head, settings_of
        from okl.training import check_before

        folder = find_unfinished(resume)
        settings = resumed_settings(settings_of(folder), dataset, options, ingest_options, config, pairs or [])
        refuse_other_settings(newest_head(folder).about, settings, resume)
        check_before(settings, folder)
        result = run_train(settings, _observer(), folder)
    elif dataset is None:
        raise ConfigError("Missing argument 'DATASET': give a data set or a source to train on, or --resume RUN.")
    else:
        from okl.planning import check

        settings = train_settings(dataset, options, ingest_options, config, pairs or [])
        check(settings)
        result = run_train(settings, _observer())
    from okl.store.report import text_summary

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
