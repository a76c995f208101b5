"""The command `okl`: options in, one object of settings, a summary or one line of JSON out; errors are one sentence."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.options import INGEST, TRAIN, gather, help_for, split_pairs
from okl.configuration import IngestSettings, TrainSettings, settings_from
from okl.errors import OklError

if TYPE_CHECKING:
    from okl.progress import Observer

app = typer.Typer(
    name="okl",
    help="Large-scale kernel learning on Parquet: ingest, train, evaluate, predict.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line on standard output.")]
Target = Annotated[str | None, typer.Option("--target", help=help_for(IngestSettings, "target"))]
TaskName = Annotated[str | None, typer.Option("--task", help=help_for(IngestSettings, "task"))]
SplitColumn = Annotated[str | None, typer.Option("--split-column", help=help_for(IngestSettings, "split_column"))]
Holdout = Annotated[str | None, typer.Option("--holdout", help=help_for(IngestSettings, "holdout"))]
Keys = Annotated[list[str] | None, typer.Option("--key", help=help_for(IngestSettings, "keys") + " (repeatable)")]
Drops = Annotated[list[str] | None, typer.Option("--drop", help=help_for(IngestSettings, "drop") + " (repeatable)")]
Scale = Annotated[str | None, typer.Option("--scale", help=help_for(IngestSettings, "scale"))]
ScaleTarget = Annotated[
    bool | None, typer.Option("--scale-target/--no-scale-target", help=help_for(IngestSettings, "scale_target"))
]
RowsPerShard = Annotated[int | None, typer.Option("--rows-per-shard", help=help_for(IngestSettings, "rows_per_shard"))]
Missing = Annotated[str | None, typer.Option("--missing", help=help_for(IngestSettings, "missing"))]
Workers = Annotated[int | None, typer.Option("--workers", help=help_for(TrainSettings, "workers"))]
Scheduler = Annotated[str | None, typer.Option("--scheduler", help=help_for(TrainSettings, "scheduler"))]
Threads = Annotated[str | None, typer.Option("--threads", help=help_for(TrainSettings, "threads"))]


@app.command()
def ingest(
    source: Annotated[str, typer.Argument(help="Parquet file, directory or glob; CSV; or svmlight text.")],
    destination: Annotated[str, typer.Argument(metavar="DEST", help="Folder of the data set to make.")],
    target: Target = None,
    task: TaskName = None,
    split_column: SplitColumn = None,
    holdout: Holdout = None,
    key: Keys = None,
    drop: Drops = None,
    scale: Scale = None,
    scale_target: ScaleTarget = None,
    rows_per_shard: RowsPerShard = None,
    missing: Missing = None,
    compression: Annotated[str | None, typer.Option(help=help_for(IngestSettings, "compression"))] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a data set made from another source.")
    ] = False,
    json: Json = False,
) -> None:
    """Turn a source into a sharded data set with a manifest."""
    settings = settings_from(
        IngestSettings, gather(locals(), INGEST) | _given("compression", compression), "okl ingest"
    )
    from okl.store.describe import describe as description_of
    from okl.store.describe import describe_text
    from okl.store.ingest import ingest as make

    observer = _observer()
    try:
        observer.stage("ingest")
        made = make(
            source,
            destination,
            settings,
            overwrite=overwrite,
            progress=lambda done, total: observer.advance(done, total or 0, {}),
        )
    finally:
        observer.finish()
    _print(description_of(made.dataset) | {"changed": made.changed}, json, describe_text(made.dataset))


@app.command()
def describe(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Folder of a data set.")], json: Json = False
) -> None:
    """Show a data set's columns, classes, splits, shards and scaling."""
    from okl.store.describe import describe as description_of
    from okl.store.describe import describe_text
    from okl.store.manifest import open_dataset

    data = open_dataset(dataset)
    _print(description_of(data), json, describe_text(data))


@app.command()
def train(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help=help_for(TrainSettings, "data", False))],
    solver: Annotated[str | None, typer.Option(help=help_for(TrainSettings, "solver"))] = None,
    kernel: Annotated[str | None, typer.Option(help=help_for(TrainSettings, "kernel"))] = None,
    bandwidth: Annotated[str | None, typer.Option(help=help_for(TrainSettings, "bandwidth"))] = None,
    frequencies: Annotated[int | None, typer.Option(help=help_for(TrainSettings, "frequencies"))] = None,
    loss: Annotated[str | None, typer.Option(help=help_for(TrainSettings, "loss"))] = None,
    step_size: Annotated[str | None, typer.Option(help=help_for(TrainSettings, "step_size"))] = None,
    class_weights: Annotated[
        str | None, typer.Option(help=help_for(TrainSettings, "class_weights") + "; or LABEL=WEIGHT,LABEL=WEIGHT")
    ] = None,
    passes: Annotated[int | None, typer.Option(help=help_for(TrainSettings, "passes"))] = None,
    rounds: Annotated[str | None, typer.Option(help=help_for(TrainSettings, "rounds"))] = None,
    order: Annotated[str | None, typer.Option(help=help_for(TrainSettings, "order"))] = None,
    seed: Annotated[int | None, typer.Option(help=help_for(TrainSettings, "seed"))] = None,
    precision: Annotated[str | None, typer.Option(help=help_for(TrainSettings, "precision"))] = None,
    mode: Annotated[str | None, typer.Option(help=help_for(TrainSettings, "mode"))] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    threads: Threads = None,
    out: Annotated[str | None, typer.Option(help=help_for(TrainSettings, "out"))] = None,
    name: Annotated[str | None, typer.Option(help=help_for(TrainSettings, "name"))] = None,
    config: Annotated[str | None, typer.Option(help="TOML file with the same options; the command line wins.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting, such as epsilon=0.1 (repeatable)."),
    ] = None,
    target: Target = None,
    task: TaskName = None,
    split_column: SplitColumn = None,
    holdout: Holdout = None,
    key: Keys = None,
    drop: Drops = None,
    scale: Scale = None,
    scale_target: ScaleTarget = None,
    rows_per_shard: RowsPerShard = None,
    missing: Missing = None,
    json: Json = False,
) -> None:
    """Train a model, evaluate it, save it with a report; recorded by Prefect."""
    given = locals()
    settings = train_settings(dataset, gather(given, TRAIN), gather(given, INGEST), config, set_ or [])
    from flows.run import run_train
    from okl.planning import check

    check(settings)
    observer = _observer()
    result = run_train(settings, observer)
    from okl.store.report import text_summary

    _print(result, json, text_summary(result))


def train_settings(
    dataset: str, options: dict[str, Any], ingest_options: dict[str, Any], config: str | None, pairs: list[str]
) -> TrainSettings:
    """One object from a TOML file, then --set pairs, then options; paths become absolute."""
    from flows.options import read_config

    values = read_config(config) if config else {}
    ingest_values = dict(values.pop("ingest", None) or {})
    values |= split_pairs(pairs) | options | {"data": os.path.abspath(dataset)}
    if values.get("out"):
        values["out"] = os.path.abspath(values["out"])
    if ingest_values or ingest_options:
        values["ingest"] = settings_from(IngestSettings, ingest_values | ingest_options, "okl train")
    return settings_from(TrainSettings, values, "okl train")


@app.command()
def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder of a model.")],
    dataset: Annotated[
        str, typer.Argument(metavar="DATASET", help="Data set or source with the model's target column.")
    ],
    split: Annotated[
        str, typer.Option(help="test, train or all; test: all rows of a source or of a set without a split")
    ] = "test",
    workers: Workers = None,
    scheduler: Scheduler = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Measure a model on labelled rows."""
    from okl.scoring import EvaluateSettings, evaluate_model
    from okl.store.report import text_metrics

    values = {"model": os.path.abspath(model), "source": os.path.abspath(dataset), "split": split}
    settings = settings_from(EvaluateSettings, values | _execution(workers, scheduler, threads), "okl evaluate")
    observer = _observer()
    try:
        result = evaluate_model(settings, observer)
    finally:
        observer.finish()
    _print(result, json, text_metrics(result["metrics"], result["rows"]))


@app.command()
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder of a model.")],
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Raw rows (Parquet, CSV, svmlight) or a data set.")],
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Folder to make for the Parquet files of scores and predictions.")
    ],
    key: Keys = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Score rows with a model, in their order; recorded by Prefect."""
    from okl.scoring import ScoreSettings, check_score

    values: dict[str, Any] = {
        "model": os.path.abspath(model),
        "source": os.path.abspath(source),
        "out": os.path.abspath(out),
    }
    values |= _given("keys", tuple(key) if key else None) | _execution(workers, scheduler, threads)
    settings = settings_from(ScoreSettings, values, "okl predict")
    check_score(settings)
    from flows.run import run_score

    result = run_score(settings, _observer())
    lines = [f"{result['rows']:,} rows scored in {result['seconds']:.2f} s", f"written to {result['out']}"]
    _print(result, json, "\n".join(lines))


def main() -> None:
    """Run the command; OklErrors become one sentence on standard error and their exit code, Ctrl-C becomes 130."""
    try:
        app(standalone_mode=True)
    except OklError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)


def _observer() -> Observer:
    from flows.progress import terminal_observer

    return terminal_observer()


def _given(name: str, value: object) -> dict[str, Any]:
    return {} if value is None else {name: value}


def _execution(workers: int | None, scheduler: str | None, threads: str | None) -> dict[str, Any]:
    return _given("workers", workers) | _given("scheduler", scheduler) | _given("threads", threads)


def _print(result: dict[str, Any], as_json: bool, text: str) -> None:
    if as_json:
        import json

        print(json.dumps(result, allow_nan=False))
    else:
        print(text)


if __name__ == "__main__":
    main()
