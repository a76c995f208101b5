"""Commands `okl evaluate` and `okl predict`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from shlex import quote
from typing import Annotated, Any
from uuid import uuid4

import typer

from flows.cli.commands import MODEL_HELP, Json, Record, Registered, app, print_result
from flows.cli.options import EXECUTION, KEYS, Command, OptionValues, accepts, argument, data_location, help_for, option
from okl.foundation.errors import ConfigError
from okl.foundation.locations import absolute_location
from okl.foundation.settings import settings_from
from okl.report.progress import observed, terminal_observer
from okl.solvers.settings import TrainSettings

OTHER_FILES = (".tsv", ".txt", ".json", ".jsonl", ".gz", ".xlsx")
MOST_LABELS = 10
Threshold = Annotated[
    str | None,
    option("NUMBER", "Probability from which on the second of two classes is predicted; none: the model's own."),
]


@app.command(cls=Command, short_help="Evaluate a model on labelled rows.")
@accepts(where=EXECUTION)
def evaluate(
    model: Annotated[str, argument("MODEL", MODEL_HELP)],
    where: OptionValues,
    dataset: Annotated[
        str | None,
        argument(
            "DATASET", "Data set, or a source with the model's target column; none: the data set of the model's run."
        ),
    ] = None,
    split: Annotated[
        str, option("test|train|all", "Rows to evaluate on; a source, or a data set without a split, uses all.")
    ] = "test",
    threshold: Threshold = None,
    recall: Annotated[
        str | None,
        option("SHARE", "Choose the highest threshold with this recall on these rows, such as 0.9; none: --threshold."),
    ] = None,
    precision: Annotated[
        str | None, option("SHARE", "Choose the lowest threshold with this precision on these rows; none: --threshold.")
    ] = None,
    registry: Registered = None,
    json: Json = False,
) -> None:
    """Evaluate a model on labelled rows, and the majority class or the mean of its training rows.

    \b
    okl evaluate churn rows.csv       new rows
    okl evaluate churn --recall 0.9   test rows of its run; finds 90% of the second class
    """
    from okl.report.training import text_evaluation
    from okl.runs.evaluate import EvaluateSettings, evaluate_model

    resolved = _resolve_model(model, registry)
    chosen = {"threshold": threshold, "recall": recall, "precision": precision}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    values = {"source": None if dataset is None else data_location(dataset), "split": split} | chosen
    settings = settings_from(EvaluateSettings, resolved | values | where, "okl evaluate")
    with observed() as observer:
        result = evaluate_model(settings, observer)
    text = "\n".join([text_evaluation(result), *_warned(result)])
    if result["learnt_rows"] and split != "train":
        again = " ".join(["okl evaluate", quote(model), *(f"--{name} {value}" for name, value in chosen.items())])
        text += (
            f"\nWarning: the model was trained on {result['learnt_rows']:,} of these rows, so these figures are too "
            "optimistic. " + (f"On its test rows: {again}" if result["has_test_rows"] else "Give other rows.")
        )
    print_result(result, json, text)


@app.command(cls=Command, short_help="Score rows with a model.")
@accepts(given=KEYS, where=EXECUTION.without(workers=f"with --out a folder: {help_for(TrainSettings, 'workers')}"))
def predict(
    model: Annotated[str, argument("MODEL", MODEL_HELP)],
    source: Annotated[
        str, argument("SOURCE", "Rows (Parquet, CSV, JSON lines, svmlight), a data set, or - for standard input.")
    ],
    given: OptionValues,
    where: OptionValues,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|DIR",
            help="New file (.csv, .parquet) or folder of Parquet files for scores and predictions; -, or none: CSV "
            "on standard output.",
            show_default=False,
        ),
    ] = None,
    threshold: Threshold = None,
    registry: Registered = None,
    record: Record = False,
    json: Json = False,
) -> None:
    """Score rows with a model, in the order of the rows.

    \b
    okl predict churn new.csv --out scores.csv     one file, CSV or Parquet
    okl predict churn new/ --out scores            a folder of Parquet files
    okl predict churn new.csv > scores.csv         CSV on standard output
    okl predict churn - < new.csv > scores.csv     rows from standard input: CSV, JSON lines, Parquet

    All rows of standard input are read before the first score is written, as late rows decide the types of columns.
    """
    given = given if threshold is None else given | {"threshold": threshold}
    out = None if out == "-" else out
    if out is not None and out.endswith(OTHER_FILES):
        raise ConfigError(f"--out {out}: scores are written to one file (.csv, .parquet) or to a folder. Change --out.")
    if source == "-" or out is None:
        if out is not None or record or json or where:
            raise ConfigError(
                "Scores of standard input are written to standard output, with --key, --threshold and --registry as "
                "the only options. Remove the others."
                if source == "-"
                else "Without --out, scores are written to standard output as CSV. Add --out DIR for the other options."
            )
        _stream(model, source, registry, given)
        return
    from okl.runs.predict import ONE_FILE, ScoreSettings, ScoringRun, check_score, fill_out_fields, score_to_file

    paths = {"source": data_location(source), "out": absolute_location(out)}
    settings = settings_from(ScoreSettings, _resolve_model(model, registry) | paths | given | where, "okl predict")
    one_file = out.endswith(ONE_FILE)
    if one_file and record:
        raise ConfigError(f"A run that writes one file, --out {out}, is not recorded. Give a folder as --out.")
    settings = fill_out_fields(settings, datetime.now(UTC), uuid4().hex)
    if one_file:
        with observed() as observer:
            result = score_to_file(settings, observer)
    else:
        from flows.foreground import perform_run

        check_score(settings, look=False)  # the run itself reads the source
        result = perform_run(ScoringRun(settings), "flows.runs:okl_score", terminal_observer(), record)
    print_result(result, json, scored_text(result))


def scored_text(result: dict[str, Any]) -> str:
    """Return the summary of `okl predict`: scored rows, most frequent predictions, rows without a score, folder."""
    counts = result.get("predictions") or {}
    most = sorted(counts, key=lambda label: -counts[label])[:MOST_LABELS]
    named = ", ".join(f"{label} {counts[label]:,}" for label in most) + (", ..." if len(counts) > len(most) else "")
    scored = f"{result['scored']:,} rows scored by {result['model']} in {result['seconds']:.2f} s"
    without = result["rows"] - result["scored"]
    lines = [
        scored + (f": {named}" if named else ""),
        *([f"rows without a score because of a missing value (missing = drop): {without:,}"] if without else []),
        f"written to {result['out']}",
        *_warned(result),
    ]
    return "\n".join(lines)


def _warned(result: dict[str, Any]) -> list[str]:
    return [f"Warning: {sentence}" for sentence in result.get("warnings") or []]


def _resolve_model(model: str, registry: str | None) -> dict[str, str]:
    """Return a fixed reference to a model: an absolute folder, or NAME@NUMBER of an alias and its registry."""
    from okl.foundation.locations import runs_named
    from okl.models.reference import is_reference, pinned
    from okl.models.registry import registry_location

    resolved = pinned(model, registry)
    if not is_reference(resolved):
        return {"model": absolute_location(resolved)}
    if "@" not in model:
        run = next((f"; for the run: {run.name}" for run in runs_named(model)), "")
        typer.echo(f"{model} is {resolved}, the champion in the registry{run}", err=True)
    return {"model": resolved, "registry": registry_location(registry)}


def _stream(model: str, source: str, registry: str | None, given: OptionValues) -> None:
    """Score rows to standard output."""
    from okl.models.reference import is_reference, pinned
    from okl.runs.predict import ScoreSettings, score_stream, score_to_stream

    if source != "-":
        values = _resolve_model(model, registry) | {"source": data_location(source), "out": ""} | given
        score_to_stream(settings_from(ScoreSettings, values, "okl predict"), sys.stdout.buffer)
        return
    resolved = pinned(model, registry)
    if is_reference(resolved) and resolved != model:
        typer.echo(f"scored by {resolved}", err=True)  # the alias may name another version later
    threshold = settings_from(ScoreSettings, given | {"model": "", "source": "", "out": ""}, "okl predict").threshold
    score_stream(resolved, sys.stdin.buffer, sys.stdout.buffer, given.get("keys", ()), registry, threshold)
