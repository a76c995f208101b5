"""The command `okl reproduce`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from flows.commands import Json, app, show
from flows.options import Given, Options, accepts, help_for
from flows.progress import terminal_observer
from flows.run import run_recorded
from okl.configuration import settings_from
from okl.reproduction.settings import ReproduceSettings
from okl.store.places import local_location

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
    from okl.reproduction.run import check
    from okl.reproduction.wording import text_summary

    check(settings)
    result = run_recorded(_load, settings, terminal_observer())
    show(result, json, "" if json else text_summary(result))


def _load() -> Callable[[Any], Any]:
    from flows.reproduce import okl_reproduce

    return okl_reproduce
