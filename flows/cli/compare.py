"""The commands `okl compare` and `okl reproduce`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from flows.cli.commands import Json, app, show
from flows.cli.options import (
    DATA,
    INGEST,
    SECTIONS,
    WHERE,
    Given,
    Options,
    Section,
    Sectioned,
    accepts,
    data_location,
    help_for,
)
from flows.progress import terminal_observer
from flows.run import run_recorded
from okl.foundation.locations import absolute_location, local_location
from okl.foundation.settings import IngestSettings, settings_from
from okl.papers.settings import ReproduceSettings
from okl.runs.compare_settings import CompareSettings

# The command `okl compare`.

COMPARE = Options(
    CompareSettings,
    (*("folds", "holdout", "grid", "halving", "rows", "kernel", "bandwidth", "frequencies", "map", "tolerance"),
     *("constraints", "constraint_path", "radius", "learn_sensitive", "certify"),
     *("iterations", "memory", "seed", "precision", *WHERE, "out", "name")),
)  # fmt: skip
# --holdout is the comparison's own: which of the training rows models are judged on
INGESTED = Options(IngestSettings, tuple(field for field in INGEST.fields if field != "holdout"))


OF_SOURCES: Section = (DATA[0], tuple(name for name in DATA[1] if name != "holdout"))
TRYING: Section = (
    "How models are tried",
    ("models", "folds", "holdout", "grid", "halving", "rows", "tolerance", "iterations", "memory"),
)
PRICE: Section = (
    "What a constraint costs",
    ("constraints", "constraint_path", "radius", "learn_sensitive", "certify"),
)


class _Compare(Sectioned):
    """`--constraint-path` without a value means auto, which typer has no words for."""

    sections = (OF_SOURCES, TRYING, PRICE, *SECTIONS)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = [*args]
        for place, word in enumerate(args):
            following = args[place + 1 : place + 2]
            if word == "--constraint-path" and (not following or following[0].startswith("--")):
                given.insert(place + 1, "auto")
        return super().parse_args(ctx, given)


@app.command(cls=_Compare, short_help="Try many models on the same folds, or what a constraint costs; with a report.")
@accepts(given=COMPARE, ingest_options=INGESTED)
def compare(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help=help_for(CompareSettings, "data", False))],
    given: Given,
    ingest_options: Given,
    models: Annotated[
        str, typer.Option(metavar="all|online|NAME,...", help=help_for(CompareSettings, "models", False))
    ] = "all",
    json: Json = False,
) -> None:
    """Try many models on the same folds, each over its valid range, and save the best one with a report.

    \b
    okl compare rows.csv --target y --scale standard             all with a certificate
    okl compare rows.csv --target y --models c-svm,logistic,fogd three by name

    Of two classes or more: a regression is refused. Runs of okl train, by any solver, stand side by side in okl runs.

    Recorded by Prefect. The table has the spread over folds, the certified gap, and a paired test against the best.
    With --constraint no models are compared but bounds of it: what each of them costs in accuracy.
    """
    words: Given = {"data": data_location(dataset), "models": models} | given
    if "out" in given:
        words["out"] = absolute_location(given["out"])
    if ingest_options:
        words["ingest"] = settings_from(IngestSettings, ingest_options, "okl compare")
    settings = settings_from(CompareSettings, words, "okl compare")
    from okl.runs.compare_run import check, summary_text

    check(settings)
    result = run_recorded(lambda: _load(settings), settings, terminal_observer())
    show(result, json, "" if json else summary_text(result))


def _load(settings: CompareSettings) -> Callable[[Any], Any]:
    from flows.compare import okl_compare
    from okl.runs.compare_run import compile_ahead

    compile_ahead(settings)
    return okl_compare


# The command `okl reproduce`.

REPRODUCE = Options(ReproduceSettings, ("repeats", "orders", "choice", "precision", "workers", "threads", "out"))


@app.command(short_help="Run a table of a paper again, and set it beside the printed numbers.")
@accepts(given=REPRODUCE)
def reproduce(
    table: Annotated[str, typer.Argument(metavar="TABLE", help=help_for(ReproduceSettings, "table", False))],
    given: Given,
    data: Annotated[str, typer.Option(metavar="DIR", help=help_for(ReproduceSettings, "data", False))] = "",
    datasets: Annotated[
        str, typer.Option(metavar="NAME,...", help=help_for(ReproduceSettings, "datasets", False))
    ] = "",
    algorithms: Annotated[
        str, typer.Option(metavar="NAME,...", help=help_for(ReproduceSettings, "algorithms", False))
    ] = "",
    json: Json = False,
) -> None:
    """Run a table of a paper again, and set it beside the printed numbers; recorded by Prefect.

    The same --out again goes on where a run stopped: what is done is not done again.
    """
    folder = local_location("--data", data) if data else ""
    words = {"table": table, "data": folder, "datasets": datasets, "algorithms": algorithms} | given
    if "out" in given:
        words["out"] = local_location("--out", given["out"])
    settings = settings_from(ReproduceSettings, words, "okl reproduce")
    from okl.papers.report import text_summary
    from okl.papers.run import check

    check(settings)
    result = run_recorded(_load_reproduction, settings, terminal_observer())
    show(result, json, "" if json else text_summary(result))


def _load_reproduction() -> Callable[[Any], Any]:
    from flows.reproduce import okl_reproduce

    return okl_reproduce
