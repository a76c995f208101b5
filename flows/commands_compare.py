"""The command `okl compare`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from flows.commands import Json, app, show
from flows.options import INGEST, WHERE, Given, Options, accepts, help_for
from flows.progress import terminal_observer
from flows.run import run_recorded
from flows.sections import DATA, SECTIONS, Section, Sectioned
from flows.words import data_location
from okl.comparison.settings import CompareSettings
from okl.configuration import IngestSettings, settings_from
from okl.store.places import absolute_location

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
    from okl.comparison.dispatch import check, text_summary

    check(settings)
    result = run_recorded(lambda: _load(settings), settings, terminal_observer())
    show(result, json, "" if json else text_summary(result))


def _load(settings: CompareSettings) -> Callable[[Any], Any]:
    from flows.compare import okl_compare
    from okl.comparison.ahead import compile_ahead

    compile_ahead(settings)
    return okl_compare
