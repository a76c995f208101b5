"""Command-line application, and the commands `okl ingest`, `okl describe` and `okl train`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from flows.cli import options as cli
from okl.foundation.settings import ExecutionSettings, IngestSettings, settings_from
from okl.report.progress import observed, terminal_observer
from okl.solvers.settings import TrainSettings

# Main help

COMMAND_ORDER = (
    "train", "predict", "evaluate", "explain", "runs", "compare", "plan", "ingest", "describe", "export", "retrain",
    "models", "deploy", "up", "status", "down", "reproduce",
)  # fmt: skip
FIRST_STEPS = """\b
First steps:
  okl train rows.csv --target y               train, evaluate on 20% held-out rows, write a report
  okl predict MODEL new.csv --out scores.csv  MODEL: name of a run, as listed by okl runs
  okl compare rows.csv --target y             compare models on the same folds
  okl train -h                                show the options of a command; --help-all shows all of them"""


class OrderedCommands(TyperGroup):
    """Group of commands, listed in the order of first use; other commands come last.

    `okl help`, `okl help COMMAND` and `okl version` are accepted for --help and --version. --help-all is --help with
    all options.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; called by typer."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        elif args == ["version"]:
            args = ["--version"]
        own = args[: args.index("--")] if "--" in args else args
        if "--help-all" in own:
            ctx.meta[cli.ALL_OPTIONS] = True  # which the context of the command shares
            args = ["--help" if word == "--help-all" else word for word in own] + args[len(own) :]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order of first use."""
        return sorted(super().list_commands(ctx), key=lambda name: (*COMMAND_ORDER, name).index(name))


HELP_COLUMNS = 100

app = typer.Typer(
    name="okl",
    cls=OrderedCommands,
    help="Large-scale kernel learning on Parquet: ingest, train, evaluate, predict.",
    epilog=FIRST_STEPS,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": HELP_COLUMNS},
)

Record = Annotated[
    bool,
    typer.Option(
        "--record",
        help="Record the run in Prefect with a temporary server; a configured one or that of okl up records every run.",
        rich_help_panel=cli.OUTPUT,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line on standard output.")]
Config = Annotated[
    str | None,
    cli.option(
        "FILE.toml",
        'TOML file of settings, with keys = ["id"] under [ingest]; --set and options override it; none: no file.',
        panel=cli.FROM_FILES,
    ),
]
Pairs = Annotated[
    list[str] | None,
    cli.option("KEY=VALUE", "Set any setting, such as epsilon=0.1 (repeatable).", "--set", panel=cli.FROM_FILES),
]
MODEL_HELP = "Folder or URL of a model or run, name of a run, or registered model NAME, NAME@7, NAME@previous."
Registered = Annotated[
    str | None,
    cli.option("URL", "Folder or URL of the model registry; none: OKL_REGISTRY, or okl's home.", "--registry"),
]
SOURCE_HELP = (
    "File, folder, quoted glob pattern or URL (s3://BUCKET/FOLDER) of Parquet, CSV, JSON lines or svmlight rows, "
    "compressed or not."
)


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
        cli.option(
            "FILE.py",
            "Python file that adds losses, models or maps; run when one of its names is used (repeatable); none: "
            "those of OKL_EXTENSIONS.",
        ),
    ] = None,
) -> None:
    """Large-scale kernel learning on Parquet: ingest, train, evaluate, predict."""
    if extension:
        from okl.foundation.plugins import offer

        for path in extension:
            offer(path)


@app.command(cls=cli.Command, short_help="Convert a source into a sharded data set with a manifest.")
@cli.accepts(given=cli.INGEST_ALL, where=cli.INGEST_EXECUTION)
def ingest(
    source: Annotated[str, cli.argument("SOURCE", SOURCE_HELP)],
    destination: Annotated[str, cli.argument("DEST", "Folder or URL of the data set to create.")],
    given: cli.OptionValues,
    where: cli.OptionValues,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace a data set made from another source or with other settings.",
            rich_help_panel=cli.OUTPUT,
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Convert a source into a sharded data set with a manifest.

    Running it again with the same source and settings changes nothing. Workers write the same bytes; they must reach
    SOURCE and DEST under the same paths.
    """
    settings = settings_from(IngestSettings, given, "okl ingest")
    execution_settings = settings_from(ExecutionSettings, where, "okl ingest")
    from okl.data.describe import describe as description_of
    from okl.data.describe import describe_text
    from okl.data.ingest.run import ingest as make
    from okl.distributed import open_for

    if where:
        from okl.distributed.cluster_file import check_execution_options

        check_execution_options(execution_settings)
    with observed() as observer:
        observer.stage("ingest")
        with open_for(execution_settings, "ingest") if where else nullcontext() as execution:
            ingested = make(
                source, destination, settings, overwrite=overwrite, execution=execution,
                progress=lambda done, total: observer.advance(done, total or 0, {}),
            )  # fmt: skip
    described = description_of(ingested.dataset) | {"changed": ingested.changed}
    print_result(described, json, describe_text(ingested.dataset))


@app.command(short_help="Show a data set's columns, classes, splits, shards and scaling.")
def describe(
    dataset: Annotated[str, cli.argument("DATASET", "Folder or URL of a data set.")], json: Json = False
) -> None:
    """Show a data set's columns, classes, splits, shards and scaling."""
    from okl.data.describe import describe as description_of
    from okl.data.describe import describe_text
    from okl.data.manifest import open_dataset

    data = open_dataset(cli.data_location(dataset))
    print_result(description_of(data), json, describe_text(data))


@app.command(cls=cli.Command, short_help="Train a model, evaluate it, and save it with a report.")
@cli.accepts(options=cli.TRAIN, ingest_options=cli.INGEST)
def train(
    options: cli.OptionValues,
    ingest_options: cli.OptionValues,
    dataset: Annotated[str | None, cli.argument("DATASET", cli.help_for(TrainSettings, "data", False))] = None,
    config: Config = None,
    pairs: Pairs = None,
    resume: Annotated[
        str | None,
        cli.option(
            "RUN",
            "Name or folder of an interrupted run to resume from its last checkpoint; none: start a new run.",
            panel=cli.CHECKPOINTS,
        ),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Print all metrics, times, memory and reasons.", rich_help_panel=cli.OUTPUT
        ),
    ] = False,
    record: Record = False,
    json: Json = False,
) -> None:
    """Train a model, evaluate it, and save it with a report.

    \b
    okl train rows.csv --target y --key id --name churn  choose the solver automatically
    okl train rows.csv --target y --solver c-svm         train the model of a solver

    A data set made by okl ingest needs no options for its data. With --resume, all settings come from the interrupted
    run, including its mode; only the options of workers and threads may change.
    """
    from flows.foreground import perform_run
    from okl.foundation.errors import NOT_CONVERGED, ConfigError
    from okl.runs.train import TrainingRun

    if resume is not None:
        from okl.distributed.cluster_file import check_execution_options
        from okl.runs.checkpoint import check_same_settings, find_unfinished, newest_origin, settings_of

        folder = find_unfinished(resume)
        settings = cli.resumed_settings(settings_of(folder), dataset, options, ingest_options, config, pairs or [])
        check_same_settings(newest_origin(folder), settings, resume)
        check_execution_options(settings)
        run = TrainingRun(settings, resume=folder)
    elif dataset is None:
        raise ConfigError("Missing argument 'DATASET': give a data set or a source, or --resume RUN.")
    else:
        from okl.runs.plan import check

        settings = cli.train_settings(dataset, options, ingest_options, config, pairs or [])
        check(settings)
        run, folder = TrainingRun(settings), None
    parameters = {} if folder is None else {"resume": str(folder)}
    result = perform_run(run, "flows.runs:okl_train", terminal_observer(), record, parameters)
    from okl.report.sentences import not_converged
    from okl.report.training import text_summary

    print_result(result, json, "" if json else text_summary(result, verbose))
    if warning := not_converged(result):
        if json:
            typer.echo(f"Warning: {warning}", err=True)
        raise typer.Exit(NOT_CONVERGED)


def print_result(result: dict[str, Any], as_json: bool, text: str) -> None:
    """Print a result as one line of JSON or as text."""
    if as_json:
        import json

        print(json.dumps(result, allow_nan=False))
    else:
        print(text)
