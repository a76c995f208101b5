"""What can be decided, and refused, before anything is learnt: checks, the solver that is meant, the run's folder."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from datetime import datetime
from itertools import chain, count
from urllib.parse import urlsplit

from okl.accelerated.catalogue import is_model
from okl.accelerated.solver import AcceleratedSolver
from okl.applicable import check_options
from okl.configuration import IngestSettings, TrainSettings, WhereSettings
from okl.errors import ConfigError, ExecutionError
from okl.execution.clusterfile import read_cluster_file
from okl.home import name_after, okl_home
from okl.online.constraints.columns import check_columns, without_features
from okl.online.constraints.grammar import parse_constraints
from okl.online.constraints.quantities import columns_of
from okl.online.recipe import Mode
from okl.online.solver import SEGMENTS, OnlineSolver, check_mode
from okl.recipes import Certified, check_recipe, make_accelerated, make_recipe, make_ridge, make_subgradient
from okl.ridge.solver import RidgeSolver
from okl.store.dataset import Dataset, Schema
from okl.store.ingest import check_source
from okl.store.manifest import is_dataset, open_dataset
from okl.store.places import Place, place_of
from okl.store.publishing import check_place
from okl.subgradient.catalogue import CUTTING_NAMES
from okl.subgradient.solver import SubgradientSolver
from okl.types import Task

MOST_ROUNDS, LEAST_ROUND_ROWS = 1024, 32  # a pass, where shards share weights in a map
MOST_JOINS, LEAST_JOIN_ROWS = 512, 64  # where support vectors are united and brought down to the budget again
CERTIFIED_SEGMENTS = 64  # a pass: regret is told at a sixteenth of the rows, an eighth, ...
WINDOWS = 100  # of rows in their own order
IN_MAPS = ("fogd", "nogd")  # whose state is a vector in a map that shards share
TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")
CONNECT_SECONDS = 3.0


def check(settings: TrainSettings) -> None:
    """Refuse what can be known to be wrong without reading rows, starting a server or starting workers.

    Raises
    ------
    OklError : of the kind that fits; the message says what to do
    """
    check_workers(settings)
    if settings.rounds != "auto" and mode_of(settings) == "stream":
        raise ConfigError(
            "rounds belongs to the modes mix and sum; this run would stream. Set --mode mix or --mode sum."
        )
    if settings.step_rule == "plain" and mode_of(settings) != "sum":
        raise ConfigError(
            f"step_rule = 'plain' belongs to the mode sum; this run's is {mode_of(settings)}. Leave it out, or set "
            "--mode sum."
        )
    _check_certify(settings)
    if is_dataset(settings.data):
        if settings.ingest is not None:
            raise ConfigError(f"{settings.data} is a data set already; options of ingest do not apply to it.")
        data = learnt_columns(settings, open_dataset(settings.data))
        solver = None if settings.solver == "auto" else make_solver(settings, data)
        if solver is None:  # a race takes what fits
            check_options(settings)
        elif isinstance(solver, AcceleratedSolver):
            solver.check(data.schema)
        elif isinstance(solver, SubgradientSolver | RidgeSolver):
            solver.check(data.schema, data.rows("train"))
        else:
            check_recipe(solver.recipe, data.schema, data.rows("train"))
    else:
        ingest = settings.ingest or IngestSettings()
        check_source(settings.data, ingest)
        _check_unread(settings, ingest)
    check_place(run_folder(settings))  # last: it may make okl's home folder


def learnt_columns(settings: TrainSettings, data: Dataset, named: str | None = None) -> Dataset:
    """The data set without the inputs that constraints look at, unless these are to be learnt from, too; rescaled.

    named : what errors call it, such as the source that it was made of; None: its folder

    Raises
    ------
    DataError : a constraint looks at a column that is not there; ConfigError : no input would be left
    """
    constraints, _ = parse_constraints(settings.constraints)
    check_columns(data.schema, constraints, named or str(data.folder))
    if settings.rescale != "stored":
        data = replace(data, schema=replace(data.schema, scale=settings.rescale))
    return data if settings.learn_sensitive else without_features(data, columns_of(constraints))


def _check_certify(settings: TrainSettings) -> None:
    """Refuse a proof of regret of rows that are not learnt once, one after the other."""
    if not settings.certify or settings.solver != "fogd":
        return
    if (mode := mode_of(settings)) != "stream":
        raise ConfigError(
            f"certify was given, but regret is about rows that are learnt one after the other, and this run's mode is "
            f"{mode}. Set --mode stream, or leave certify out."
        )
    if settings.passes != 1:
        raise ConfigError(
            f"passes = {settings.passes} and certify were given, but regret is about rows that are seen once. Leave "
            "one of them out."
        )


def _check_unread(settings: TrainSettings, ingest: IngestSettings) -> None:
    """Refuse settings that fit no task that a source may turn out to have; labels are not known yet."""
    refused: list[ConfigError] = []
    for task in TASKS if ingest.task == "auto" else (ingest.task,):
        schema = Schema(("x",), ingest.target, task, (0, 1, 2)[: {"binary": 2, "multiclass": 3}.get(task, 0)])
        try:
            unweighted = settings.model_copy(update={"class_weights": "none"})
            if is_model(settings.solver):
                return make_accelerated(unweighted, schema).check(schema)
            if settings.solver == "auto":
                return check_options(settings)
            if settings.solver == "ridge":
                return make_ridge(unweighted, schema).check(schema, None)
            if settings.solver in CUTTING_NAMES:
                return make_subgradient(unweighted, schema).check(schema, None)
            recipe = make_recipe(unweighted, schema)
            check_mode(recipe, mode_of(settings))
            return check_recipe(recipe, schema, None)
        except ConfigError as error:
            refused.append(error)
    raise refused[0]


def make_solver(settings: TrainSettings, data: Dataset) -> OnlineSolver | Certified:
    """The solver that the settings mean for a data set."""
    if is_model(settings.solver):
        return make_accelerated(settings, data.schema)
    if settings.solver in CUTTING_NAMES:
        return make_subgradient(settings, data.schema)
    if settings.solver == "ridge":
        return make_ridge(settings, data.schema)
    return make_online_solver(settings, data)


def make_online_solver(settings: TrainSettings, data: Dataset) -> OnlineSolver:
    """The online learner that the settings mean for a data set."""
    schema = data.schema
    mode = mode_of(settings)
    recipe = make_recipe(settings, schema)
    check_mode(recipe, mode)
    asked, rows = settings.rounds, data.rows("train")
    rounds = default_rounds(settings.solver, mode, rows) if asked == "auto" else asked
    return OnlineSolver(
        recipe=recipe,
        passes=settings.passes,
        order=settings.order,
        seed=settings.seed,
        precision=settings.precision,
        mode=mode,
        rounds=rounds,
        segments=_segments(settings, mode),
    )


def _segments(settings: TrainSettings, mode: Mode) -> int:
    """Of a pass: as many as regret is told at, or as there are windows to look for a change in."""
    if mode == "stream" and settings.order == "stored" and settings.passes == 1:
        return WINDOWS
    return CERTIFIED_SEGMENTS if settings.certify else SEGMENTS


def mode_of(settings: TrainSettings) -> Mode:
    """The mode: as given; otherwise stream in one process, and with workers what was measured to learn sooner."""
    if settings.mode != "auto":
        return settings.mode
    if is_model(settings.solver) or settings.solver in (*CUTTING_NAMES, "ridge", "auto"):
        return "sum"
    if not (settings.workers or settings.scheduler or settings.cluster):
        return "stream"
    return "sum" if settings.solver in IN_MAPS and not settings.constraints else "mix"


def default_rounds(solver: str, mode: Mode, rows: int) -> int:
    """Rounds a pass: as many as were measured to learn well, but not for a handful of rows each."""
    if mode == "stream":
        return 1
    most, least_rows = (MOST_ROUNDS, LEAST_ROUND_ROWS) if solver in IN_MAPS else (MOST_JOINS, LEAST_JOIN_ROWS)
    return max(1, min(most, rows // least_rows))


def run_folder(settings: TrainSettings) -> Place:
    """Where a run is kept: `out`, or a new folder named by the model and the time in okl's home folder."""
    if settings.out is not None:
        return place_of(settings.out).absolute()
    name = settings.name or name_after(settings.data)
    stem = f"{name}-{datetime.now().strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    runs = okl_home() / "runs"
    folders = chain([stem], (f"{stem}-{k}" for k in count(2)))  # a chain: unpacking an endless count fills the memory
    return next(runs / folder for folder in folders if not (runs / folder).exists())


def check_workers(where: WhereSettings) -> None:
    """Raise ConfigError or ExecutionError if it can be known, without starting anything, that work cannot run there."""
    scheduler = where.scheduler
    if where.workers and scheduler:
        raise ConfigError("workers starts processes here, scheduler uses running ones. Give one of them, not both.")
    if where.cluster:
        if where.workers or scheduler:
            raise ConfigError("cluster starts workers elsewhere. Give one of cluster, workers and scheduler.")
        read_cluster_file(where.cluster)
    if scheduler is not None:
        _check_address(scheduler)


def _check_address(scheduler: str) -> None:
    address = urlsplit(scheduler if "://" in scheduler else f"tcp://{scheduler}")
    try:
        host, port = address.hostname, address.port
        if host is None or port is None:
            raise ValueError
    except ValueError:
        raise ConfigError(f"scheduler = {scheduler!r}, but it takes an address like tcp://HOST:8786.") from None
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise ExecutionError(
            f"No Dask scheduler answers at {scheduler} ({error}). Start one with `dask scheduler`, or use --workers."
        ) from None
