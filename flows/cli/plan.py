"""Commands `okl plan` and `okl runs`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.commands import Config, Json, Pairs, app, print_result
from flows.cli.options import INGEST, SIZES, TRAIN, Command, OptionValues, accepts, argument, option, train_settings
from okl.foundation.errors import ConfigError, RegistryError
from okl.foundation.settings import IngestSettings
from okl.solvers.settings import TrainSettings

if TYPE_CHECKING:
    from okl.runs.memory import AssumedData

# okl plan

GIB = 2**30


@app.command(cls=Command, short_help="Show the memory of a run, and whether it would be refused.")
@accepts(options=TRAIN, ingest_options=INGEST)
def plan(
    options: OptionValues,
    ingest_options: OptionValues,
    dataset: Annotated[str | None, argument("DATASET", "Folder of a data set; none: use --rows and --columns.")] = None,
    rows: Annotated[
        str | None, option("N", "Number of training rows, such as 1e9; none: as in DATASET.", panel=SIZES)
    ] = None,
    columns: Annotated[str | None, option("N", "Number of input columns; none: as in DATASET.", panel=SIZES)] = None,
    classes: Annotated[
        str | None, option("K", "Number of classes, with --rows and --task multiclass [default: 3]", panel=SIZES)
    ] = None,
    memory: Annotated[
        str | None, option("GIB", "Memory of each worker; none: an equal share of this machine's memory.", panel=SIZES)
    ] = None,
    config: Config = None,
    pairs: Pairs = None,
    json: Json = False,
) -> None:
    """Show the rows, the shards and the memory that `okl train` with the same options needs, and what it refuses.

    No rows are read, except that without --solver the solver is chosen on a sample. With --rows and --columns no data
    are needed. --solver all prints a table of all solvers.
    """
    from okl.runs.plan import plan_run, plan_text

    every = options.get("solver") == "all"
    if every:
        del options["solver"]
    if (rows is not None or columns is not None) == (dataset is not None) or (rows is None) != (columns is None):
        raise ConfigError("okl plan takes either a data set or both --rows and --columns.")
    settings = train_settings(dataset or "paper", options, ingest_options, config, pairs or [])
    worker_memory = None if memory is None else int(GIB * _number("memory", memory))
    report = plan_run(settings, assumed_data(settings, rows, columns, classes), every, worker_memory)
    print_result(report.as_json(), json, "" if json else plan_text(report))


def assumed_data(
    settings: TrainSettings, rows: str | None, columns: str | None, classes: str | None
) -> AssumedData | None:
    """Return the assumed size of the data, with the given task (default: binary); None if there is a data set.

    Raises ConfigError : task auto, which needs rows; a value that is not a number; or classes without task multiclass
    """
    from okl.runs.memory import AssumedData

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
    return AssumedData(_whole("rows", rows), _whole("columns", columns), task, _whole("classes", classes or "3"))


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0.0 < value < float("inf"):
        raise ConfigError(f"--{name} {text} is invalid: expected a number above 0.")
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
    """List the runs in okl's home folder, newest first: solver, data, error, seconds; and unfinished ones.

    Errors are comparable between runs with the same test rows, that is, with the same data and --holdout.
    """
    from okl.models.registry import Registry
    from okl.runs.history import past_runs, runs_text, unfinished_runs

    listed, unfinished, models = past_runs(most), unfinished_runs(), list[str]()
    with suppress(RegistryError):  # there is none yet
        models = [model.name for model in Registry().models()]
    text = runs_text(listed, unfinished)
    if models:
        text += f"\nmodels in the registry: {', '.join(models)}; their retrainings: okl models show NAME"
    print_result({"runs": listed, "unfinished": unfinished, "models": models}, json, text)
