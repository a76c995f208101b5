"""Commands `okl plan` and `okl runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.commands import Config, Json, Pairs, app, print_result
from flows.cli.options import INGEST, SECTIONS, TRAIN, OptionValues, accepts, sectioned, train_settings
from okl.foundation.errors import ConfigError
from okl.foundation.settings import IngestSettings, TrainSettings

if TYPE_CHECKING:
    from okl.runs.plan import Paper

# okl plan

GIB = 2**30


ON_PAPER = (
    "Size of the data and of the cluster",
    ("rows", "columns", "classes", "network", "latency", "memory", "iterations", "recalibrate"),
)


@app.command(
    cls=sectioned(ON_PAPER, *SECTIONS), short_help="Estimate the seconds, network traffic and memory of a run."
)
@accepts(options=TRAIN, ingest_options=INGEST)
def plan(
    options: OptionValues,
    ingest_options: OptionValues,
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET", help="Folder of a data set; none: use --rows and --columns.", show_default=False
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="GBIT", help="Bandwidth of the network link of each host; none: all workers on this host."
        ),
    ] = None,
    latency: Annotated[str, typer.Option(metavar="MS", help="One-way network latency between hosts.")] = "0",
    iterations: Annotated[
        str | None,
        typer.Option(metavar="N", help="Iterations to plan for, with solvers that stop at a gap [default: 500]"),
    ] = None,
    rows: Annotated[
        str | None, typer.Option(metavar="N", help="Number of training rows, such as 1e9; none: as in DATASET.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="N", help="Number of input columns; none: as in DATASET.")
    ] = None,
    classes: Annotated[
        str | None, typer.Option(metavar="K", help="Number of classes, with --rows and --task multiclass [default: 3]")
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(metavar="GIB", help="Memory of each worker; none: an equal share of this machine's memory."),
    ] = None,
    recalibrate: Annotated[
        bool,
        typer.Option("--recalibrate", help="Measure the machine and the solver again instead of using stored figures."),
    ] = False,
    config: Config = None,
    pairs: Pairs = None,
    json: Json = False,
) -> None:
    """Estimate what `okl train` with the same options would take: seconds, network traffic, memory.

    The solver is timed on a few thousand rows, from the data set if there is one; measurements are stored. With --rows
    and --columns no data are needed. --solver all prints a table of all solvers.
    """
    from okl.runs.plan import Network, outlook, outlook_text

    every = options.get("solver") == "all"
    if every:
        del options["solver"]
    if (rows is not None or columns is not None) == (dataset is not None) or (rows is None) != (columns is None):
        raise ConfigError("okl plan takes either a data set or both --rows and --columns.")
    settings = train_settings(dataset or "paper", options, ingest_options, config, pairs or [])
    forecast = outlook(
        settings,
        paper_of(settings, rows, columns, classes),
        Network(None if network is None else _number("network", network), _number("latency", latency, least=0.0)),
        None if iterations is None else _whole("iterations", iterations),
        every,
        recalibrate,
        None if memory is None else int(GIB * _number("memory", memory)),
    )
    content: dict[str, Any] = {
        "rows": forecast.scene.rows,
        "columns": len(forecast.scene.features),
        "shards": forecast.scene.shards,
        "machine": forecast.machine.__dict__,
        "plans": [plan.as_json() for plan in forecast.forecasts],
        "refused": dict(forecast.refused),
    }
    print_result(content, json, "" if json else outlook_text(forecast))


def paper_of(settings: TrainSettings, rows: str | None, columns: str | None, classes: str | None) -> Paper | None:
    """Return the assumed size of the data, with the given task (default: binary); None if there is a data set.

    Raises
    ------
    ConfigError : task auto, which needs rows; a value that is not a number; or classes without task multiclass
    """
    from okl.runs.plan import Paper

    if rows is None:
        if classes is not None:
            raise ConfigError(f"--classes {classes} conflicts with a data set, which has its own classes. Remove it.")
        return None
    ingest = settings.ingest or IngestSettings()
    task = ingest.task if "task" in ingest.model_fields_set else "binary"
    if task == "auto":
        raise ConfigError(f"--task {task} needs a data set. With --rows, use binary, multiclass or regression.")
    if classes is not None and task != "multiclass":
        raise ConfigError(f"--classes {classes} conflicts with task {task}. Remove it, or add --task multiclass.")
    return Paper(_whole("rows", rows), _whole("columns", columns), task, _whole("classes", classes or "3"))


def _number(name: str, text: str, least: float | None = None) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not (value > 0.0 if least is None else value >= least) or value == float("inf"):
        bound = "above" if least is None else "of at least"
        raise ConfigError(f"--{name} {text} is invalid: expected a number {bound} 0.")
    return value


def _whole(name: str, text: str | None) -> int:
    value = _number(name, text or "")
    if value != int(value):
        raise ConfigError(f"--{name} {text} is invalid: expected a whole number.")
    return int(value)


# okl runs


@app.command(short_help="List the runs so far: solver, data, error, seconds.")
def runs(
    most: Annotated[int, typer.Option("--most", metavar="N", min=1, help="Maximum number of runs to list.")] = 20,
    json: Json = False,
) -> None:
    """List the runs in okl's home folder, newest first: solver, data, error, seconds.

    Errors are comparable between runs with the same test rows, that is, with the same data and --holdout.
    """
    from okl.runs.history import past_runs, runs_text

    listed = past_runs(most)
    print_result({"runs": listed}, json, runs_text(listed))
