"""The command `okl runs`."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.commands import Json, app, show


@app.command(short_help="Runs so far, side by side: solver, data, error, seconds.")
def runs(
    most: Annotated[int, typer.Option("--most", metavar="N", min=1, help="Of the newest runs.")] = 20,
    json: Json = False,
) -> None:
    """Runs in okl's home, the newest first, side by side: what each learnt, from which data, its error, its seconds.

    Errors compare where runs have the same test rows: of the same data and --holdout they do.
    """
    from okl.store.pastruns import past_runs, runs_text

    found = past_runs(most)
    show({"runs": found}, json, runs_text(found))
