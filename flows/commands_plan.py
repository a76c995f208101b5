"""The command `okl plan`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flows.commands import Config, Json, Pairs, app, show
from flows.options import INGEST, TRAIN, Given, accepts
from flows.sections import SECTIONS, sectioned
from flows.words import train_settings
from okl.errors import ConfigError

GIB = 2**30


ON_PAPER = (
    "What to plan for",
    ("rows", "columns", "classes", "network", "latency", "memory", "iterations", "recalibrate"),
)


@app.command(
    cls=sectioned(ON_PAPER, *SECTIONS), short_help="Say what a run would take: seconds, bytes over the network, memory."
)
@accepts(options=TRAIN, ingest_options=INGEST)
def plan(
    options: Given,
    ingest_options: Given,
    dataset: Annotated[
        str | None, typer.Argument(metavar="DATASET", help="Folder of a data set; none: on paper.", show_default=False)
    ] = None,
    network: Annotated[
        str | None, typer.Option(metavar="GBIT", help="Of each host's link; none: workers are processes here.")
    ] = None,
    latency: Annotated[str, typer.Option(metavar="MS", help="From host to host, one way.")] = "0",
    iterations: Annotated[
        str | None, typer.Option(metavar="N", help="To plan for, of solvers that end by a gap [default: 500]")
    ] = None,
    rows: Annotated[
        str | None, typer.Option(metavar="N", help="On paper: training rows, such as 1e9; none: those of DATASET.")
    ] = None,
    columns: Annotated[str | None, typer.Option(metavar="N", help="On paper: inputs; none: those of DATASET.")] = None,
    classes: Annotated[str, typer.Option(metavar="K", help="On paper, with --task multiclass.")] = "3",
    memory: Annotated[
        str | None, typer.Option(metavar="GIB", help="Of a worker; none: an equal share of this machine's.")
    ] = None,
    recalibrate: Annotated[
        bool, typer.Option("--recalibrate", help="Measure machine and solver again, rather than use what was kept.")
    ] = False,
    config: Config = None,
    pairs: Pairs = None,
    json: Json = False,
) -> None:
    """Say what `okl train` with the same options would take: seconds, bytes over the network, memory.

    The solver is rehearsed on a few thousand rows, of the data set if there is one; machine and solver are measured
    once. With --rows and --columns no data are needed; --solver all makes a table.
    """
    from okl.planning.network import Network
    from okl.planning.outlook import Paper, outlook
    from okl.planning.wording import outlook_text

    every = options.get("solver") == "all"
    if every:
        del options["solver"]
    on_paper = rows is not None or columns is not None
    if on_paper == (dataset is not None) or (rows is None) != (columns is None):
        raise ConfigError("okl plan takes a data set, or --rows and --columns in place of one.")
    task = ingest_options.get("task", "binary")
    if on_paper and task not in ("binary", "multiclass", "regression"):
        raise ConfigError(f"--task {task}, but on paper it takes binary, multiclass or regression.")
    settings = train_settings(dataset or "paper", options, ingest_options, config, pairs or [])
    told = outlook(
        settings,
        Paper(_whole("rows", rows), _whole("columns", columns), task, _whole("classes", classes)) if on_paper else None,
        Network(None if network is None else _number("network", network), _number("latency", latency, least=0.0)),
        None if iterations is None else _whole("iterations", iterations),
        every,
        recalibrate,
        None if memory is None else int(GIB * _number("memory", memory)),
    )
    content: dict[str, Any] = {
        "rows": told.scene.rows,
        "columns": len(told.scene.features),
        "shards": told.scene.shards,
        "machine": told.machine.__dict__,
        "plans": [one.as_json() for one in told.forecasts],
        "refused": dict(told.refused),
    }
    show(content, json, "" if json else outlook_text(told))


def _number(name: str, text: str, least: float | None = None) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not (value > 0.0 if least is None else value >= least) or value == float("inf"):
        raise ConfigError(f"--{name} {text}, but it takes a number {'above' if least is None else 'of at least'} 0.")
    return value


def _whole(name: str, text: str | None) -> int:
    value = _number(name, text or "")
    if value != int(value):
        raise ConfigError(f"--{name} {text}, but it takes a whole number.")
    return int(value)
