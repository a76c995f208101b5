"""The commands `okl evaluate` and `okl predict`."""

from __future__ import annotations

import sys
from shlex import quote
from typing import Annotated, Any

import typer

from flows.cli.commands import MODEL_HELP, Json, Registered, app, show
from flows.cli.options import EXECUTION, KEYS, Given, TakesFiles, accepts, data_location
from flows.progress import terminal_observer
from okl.foundation.errors import ConfigError
from okl.foundation.locations import absolute_location
from okl.foundation.settings import settings_from

TEXT_ENDINGS = (".csv", ".tsv", ".txt", ".json")
MOST_LABELS = 10


@app.command(cls=TakesFiles, short_help="Measure a model on labelled rows.")
@accepts(where=EXECUTION)
def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    dataset: Annotated[
        str, typer.Argument(metavar="DATASET", help="Data set, or a source with the model's target column.")
    ],
    where: Given,
    split: Annotated[
        str, typer.Option(metavar="test|train|all", help="Rows of a data set; a source, or a set without a split: all.")
    ] = "test",
    registry: Registered = None,
    json: Json = False,
) -> None:
    """Measure a model on labelled rows."""
    from okl.report.run import text_metrics
    from okl.runs.evaluate import EvaluateSettings, evaluate_model

    chosen = _registered(model, registry)
    values = {"source": data_location(dataset), "split": split}
    settings = settings_from(EvaluateSettings, chosen | values | where, "okl evaluate")
    observer = terminal_observer()
    try:
        result = evaluate_model(settings, observer)
    finally:
        observer.finish()
    text = text_metrics(result["metrics"], result["rows"])
    if result["learnt_rows"] and split != "train":
        text += (
            f"\nWarning: The model learnt from {result['learnt_rows']:,} of these rows, and the figures flatter it. "
            f"Those of rows held out, if there are any: okl explain {quote(model)}"
        )
    show(result, json, text)


@app.command(cls=TakesFiles, short_help="Score rows with a model, in their order.")
@accepts(given=KEYS, where=EXECUTION)
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="Rows (Parquet, CSV, svmlight), a data set, or - for standard input."),
    ],
    given: Given,
    where: Given,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Folder to make for the Parquet files of scores and predictions, never replaced if it exists; none: "
            "SOURCE is -.",
            show_default=False,
        ),
    ] = None,
    registry: Registered = None,
    json: Json = False,
) -> None:
    """Score rows with a model, in their order; recorded by Prefect.

    With - as SOURCE, rows come as CSV or Parquet from standard input, their scores go to standard output as CSV, and
    nothing is recorded: okl predict MODEL - < rows.csv > scores.csv
    """
    if source == "-":
        _pipe(model, registry, given | where, out, json)
        return
    if out is None or out.endswith(TEXT_ENDINGS):
        told = "okl predict takes --out DIR" if out is None else f"--out {out} looks like a file"
        wanted = "the folder to make for the scores" if out is None else "but scores go to a folder of Parquet files"
        as_csv = f"okl predict {quote(model)} - < {quote(source)} > {quote(out or 'scores.csv')}"
        raise ConfigError(f"{told}, {wanted}; for a file of CSV: {as_csv}.")
    from okl.runs.predict import ScoreSettings, check_score

    paths = {"source": data_location(source), "out": absolute_location(out)}
    settings = settings_from(ScoreSettings, _registered(model, registry) | paths | given | where, "okl predict")
    check_score(settings, look=False)  # the run itself looks
    from flows.run import run_score

    result = run_score(settings, terminal_observer())
    show(result, json, scored_text(result))


def scored_text(result: dict[str, Any]) -> str:
    """What `okl predict` prints: rows with a score, the labels most of them got, rows without a score, and where."""
    counts = result.get("predictions") or {}
    most = sorted(counts, key=lambda label: -counts[label])[:MOST_LABELS]
    named = ", ".join(f"{label} {counts[label]:,}" for label in most) + (", ..." if len(counts) > len(most) else "")
    took = f"{result['scored']:,} rows scored by {result['model']} in {result['seconds']:.2f} s"
    bare = result["rows"] - result["scored"]
    lines = [
        took + (f": {named}" if named else ""),
        *([f"rows without a score, as they miss a value (missing = drop): {bare:,}"] if bare else []),
        f"written to {result['out']}",
    ]
    return "\n".join(lines)


def _registered(model: str, registry: str | None) -> dict[str, str]:
    """A model for good: a folder from the root, or NAME@NUMBER for whatever an alias names now, and its registry."""
    from okl.models.reference import is_reference, pinned
    from okl.models.registry import registry_location

    found = pinned(model, registry)
    if not is_reference(found):
        return {"model": absolute_location(found)}
    return {"model": found, "registry": registry_location(registry)}


def _pipe(model: str, registry: str | None, given: dict[str, Any], out: str | None, json: bool) -> None:
    """From standard input to standard output."""
    if out is not None or json or given.keys() - {"keys"}:
        raise ConfigError("okl predict MODEL - takes no option but --key and --registry: scores go to standard output.")
    from okl.models.reference import is_reference, pinned
    from okl.runs.predict import score_stream

    found = pinned(model, registry)
    if is_reference(found) and found != model:
        typer.echo(f"scored by {found}", err=True)  # an alias may name another one tomorrow
    score_stream(found, sys.stdin.buffer, sys.stdout.buffer, given.get("keys", ()), registry)
