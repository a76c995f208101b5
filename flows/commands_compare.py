"""The command `okl compare`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any

import typer

from flows.commands import Json, app, show
from flows.options import Given, Options, accepts, help_for
from flows.progress import terminal_observer
from flows.run import run_recorded
from okl.comparison.settings import CompareSettings
from okl.configuration import settings_from

COMPARE = Options(
    CompareSettings,
    (*("folds", "holdout", "grid", "halving", "rows", "kernel", "bandwidth", "frequencies", "map", "tolerance"),
     *("iterations", "memory", "seed", "precision", "workers", "scheduler", "threads", "out", "name")),
)  # fmt: skip


@app.command(short_help="Try many models on the same folds, and save the best one with a report.")
@accepts(given=COMPARE)
def compare(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help=help_for(CompareSettings, "data", False))],
    given: Given,
    models: Annotated[
        str, typer.Option(metavar="all|online|NAME,...", help=help_for(CompareSettings, "models", False))
    ] = "all",
    json: Json = False,
) -> None:
    """Try many models on the same folds, each over its valid range, and save the best one with a report.

    Recorded by Prefect. The table has the spread over folds, the certified gap, and a paired test against the best.
    """
    words = {"data": os.path.abspath(dataset), "models": models} | given
    if "out" in given:
        words["out"] = os.path.abspath(given["out"])
    settings = settings_from(CompareSettings, words, "okl compare")
    from okl.comparison.run import check
    from okl.comparison.wording import text_summary

    check(settings)
    result = run_recorded(lambda: _load(settings), settings, terminal_observer())
    show(result, json, "" if json else text_summary(result))


def _load(settings: CompareSettings) -> Callable[[Any], Any]:
    from flows.compare import okl_compare
    from okl.comparison.ahead import compile_ahead

    compile_ahead(settings)
    return okl_compare
