"""What can be refused before anything is learnt, and where a run will be kept."""

from __future__ import annotations

import os
import socket
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
from okl.online.solver import check_mode
from okl.planning.meaning import learnt_columns, make_solver, mode_of
from okl.recipes import check_recipe, make_accelerated, make_recipe, make_ridge, make_subgradient
from okl.ridge.solver import RidgeSolver
from okl.store.dataset import Schema
from okl.store.ingest import check_source
from okl.store.manifest import is_dataset, open_dataset
from okl.store.places import Place, place_of
from okl.store.publishing import check_place
from okl.subgradient.catalogue import CUTTING_NAMES
from okl.subgradient.solver import SubgradientSolver
from okl.types import Task

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
        check_ingested(settings)
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


def check_ingested(settings: TrainSettings) -> None:
    """Raise ConfigError if settings say how to ingest a data set, which has been."""
    if settings.ingest is not None:
        raise ConfigError(f"{settings.data} is a data set already; options of ingest do not apply to it.")


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
