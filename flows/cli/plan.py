"""The commands `okl plan` and `okl runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.commands import Config, Json, Pairs, app, show
from flows.cli.options import INGEST, SECTIONS, TRAIN, Given, accepts, sectioned, train_settings
from okl.foundation.errors import ConfigError
from okl.foundation.settings import IngestSettings, TrainSettings

if TYPE_CHECKING:
    from okl.runs.plan import Paper


# The command `okl plan`.

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
    classes: Annotated[
        str | None, typer.Option(metavar="K", help="On paper, with --task multiclass [default: 3]")
    ] = None,
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
    from okl.runs.plan import Network, outlook, outlook_text

    every = options.get("solver") == "all"
    if every:
        del options["solver"]
    if (rows is not None or columns is not None) == (dataset is not None) or (rows is None) != (columns is None):
        raise ConfigError("okl plan takes a data set, or --rows and --columns in place of one.")
    settings = train_settings(dataset or "paper", options, ingest_options, config, pairs or [])
    told = outlook(
        settings,
        paper_of(settings, rows, columns, classes),
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


def paper_of(settings: TrainSettings, rows: str | None, columns: str | None, classes: str | None) -> Paper | None:
    """Rows that nobody has, of the task that is set, by default binary; None if there is a data set.

    Raises
    ------
    ConfigError : a task that only rows can tell, numbers that are none, or classes where they decide nothing
    """
    from okl.runs.plan import Paper

    if rows is None:
        if classes is not None:
            raise ConfigError(f"--classes {classes}, but a data set has its own. Leave it out.")
        return None
    asked = settings.ingest or IngestSettings()
    task = asked.task if "task" in asked.model_fields_set else "binary"
    if task == "auto":
        raise ConfigError(f"--task {task}, but on paper it takes binary, multiclass or regression.")
    if classes is not None and task != "multiclass":
        raise ConfigError(f"--classes {classes}, but the task is {task}. Leave it out, or set --task multiclass.")
    return Paper(_whole("rows", rows), _whole("columns", columns), task, _whole("classes", classes or "3"))


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


# The command `okl runs`.


@app.command(short_help="Runs so far, side by side: solver, data, error, seconds.")
def runs(
    most: Annotated[int, typer.Option("--most", metavar="N", min=1, help="Of the newest runs.")] = 20,
    json: Json = False,
) -> None:
    """Runs in okl's home, the newest first, side by side: what each learnt, from which data, its error, its seconds.

    Errors compare where runs have the same test rows: of the same data and --holdout they do.
    """
    from okl.runs.history import past_runs, runs_text

    found = past_runs(most)
    show({"runs": found}, json, runs_text(found))
