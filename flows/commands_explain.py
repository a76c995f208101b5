"""The command `okl explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.commands import MODEL_HELP, Json, Registered, app, show
from flows.patterns import TakesFiles
from flows.progress import terminal_observer


@app.command(cls=TakesFiles, short_help="Tell what a model is, what is proven of it, and which columns it leans on.")
def explain(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE", help="Labelled rows or a data set; none: that of its run.", show_default=False
        ),
    ] = None,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=2, help="Sampled rows.")] = 5000,
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", min=1, help="Permutations of each column.")] = 5,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of sample and permutations.")] = 0,
    registry: Registered = None,
    json: Json = False,
) -> None:
    """Tell what a model is, what is proven of it, where it comes from, and which columns it leans on.

    A column matters as much as the error rises when its values are dealt out to other rows.
    """
    from okl.explaining.explain import ExplainSettings
    from okl.explaining.explain import explain as told_of
    from okl.explaining.wording import explanation_text

    observer = terminal_observer()
    try:
        told = told_of(
            ExplainSettings(model=model, registry=registry, source=source, rows=rows, repeats=repeats, seed=seed),
            observer,
        )
    finally:
        observer.finish()
    show(told, json, explanation_text(told))
