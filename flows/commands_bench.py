"""The command `okl bench`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from flows.commands import Json, app, show
from flows.options import Given, Options, accepts, help_for
from okl.bench.settings import BenchSettings
from okl.configuration import settings_from
from okl.store.places import local_location

BENCH = Options(BenchSettings, ("stage", "again", "limit_seconds", "turns", "out"))


@app.command(short_help="Measure okl beside other systems: seconds to a given accuracy, and memory; a page.")
@accepts(given=BENCH)
def bench(
    given: Given,
    data: Annotated[str, typer.Option(metavar="DIR", help=help_for(BenchSettings, "data", False))] = "",
    sets: Annotated[str, typer.Option(metavar="NAME,...", help=help_for(BenchSettings, "sets", False))] = "",
    systems: Annotated[str, typer.Option(metavar="NAME,...", help=help_for(BenchSettings, "systems", False))] = "",
    json: Json = False,
) -> None:
    """Measure okl beside scikit-learn, LIBLINEAR, LIBSVM, River and others: seconds to a given accuracy, and memory.

    Systems that are installed take part (pip install 'okl[bench]'). The same --out again goes on where a run stopped.
    """
    words = {"data": local_location("--data", data) if data else "", "sets": sets, "systems": systems} | given
    if "out" in given:
        words["out"] = local_location("--out", given["out"])
    settings = settings_from(BenchSettings, words, "okl bench")
    from okl.bench.run import bench as measure
    from okl.bench.wording import text_summary

    result = measure(settings, lambda line: print(line, file=sys.stderr, flush=True))
    show(result, json, "" if json else text_summary(result))
