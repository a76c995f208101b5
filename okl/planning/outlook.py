"""`okl plan`: what a run would take, of a data set or on paper, for one solver or for all."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

from okl import extensions
from okl.choosing.choice import choose
from okl.configuration import IngestSettings, SolverName, TrainSettings
from okl.errors import ConfigError
from okl.execution.local import default_threads
from okl.execution.resident import process_cache
from okl.home import okl_home
from okl.planning.beforehand import check_ingested
from okl.planning.forecast import Forecast, forecast
from okl.planning.kinds import Kind, Rehearsed
from okl.planning.machine import FOLDER, Machine, identity, machine, read_row_seconds
from okl.planning.meaning import learnt_columns, mode_of
from okl.planning.memory import MemoryPlan, plan_memory
from okl.planning.network import Network, described_bytes
from okl.planning.rehearsal import rehearse
from okl.planning.rounds import Cluster, Setting
from okl.planning.standin import Scene, in_stretches, scene_of, scene_on_paper
from okl.provenance import memory_bytes, version_of
from okl.solveroptions import OPTIONS, options_of
from okl.store.dataset import Dataset
from okl.store.manifest import open_dataset
from okl.store.publishing import write_whole
from okl.types import Task


@dataclass(frozen=True)
class Paper:
    """Rows that nobody has. rows, columns : numbers; task, n_classes : what is to be learnt"""

    rows: int
    columns: int
    task: Task = "binary"
    n_classes: int = 3


@dataclass(frozen=True)
class Outlook:
    """What runs would take. refused : solvers of all that do not fit, and why"""

    scene: Scene
    network: Network
    machine: Machine
    forecasts: tuple[Forecast, ...]
    refused: tuple[tuple[str, str], ...] = ()


def outlook(
    settings: TrainSettings,
    paper: Paper | None,
    network: Network,
    iterations: int | None = None,
    every_solver: bool = False,
    recalibrate: bool = False,
    worker_memory_bytes: int | None = None,
    constants: Machine | None = None,
) -> Outlook:
    """Foresee what the settings would take, without reading the data set but for a sample.

    Parameters
    ----------
    settings : of a run, whose workers are those of the plan; data names a data set unless there is `paper`
    iterations : of methods that end by a gap; None: a usual number
    every_solver : of all, in place of the settings' own
    recalibrate : measure machine and solvers again
    worker_memory_bytes : limit of a worker; None: an equal share of this machine's
    constants : in place of those that are kept or measured

    Raises
    ------
    ConfigError, DataError : of settings or data that a run would refuse, too; ConfigError : memory that cannot suffice
    """
    data = None if paper else open_dataset(settings.data)
    if data is not None:
        check_ingested(settings)
        data = learnt_columns(settings, data)
    settings = _settled(settings, data)
    scene = _scene(settings, data, paper)
    constants = constants or machine(recalibrate)
    threads = default_threads() if settings.threads == "auto" else settings.threads
    cluster = Cluster(settings.workers, threads, network, constants)
    read = 0.0 if data is None else read_row_seconds(data)
    described = described_bytes(None if data is None else data.split("train"))

    def foreseen(of: TrainSettings) -> Forecast:
        def memory(workers: int) -> MemoryPlan:
            # where to stop is asked for other numbers of workers, too, which limits of memory have no say in
            limit = _limit(worker_memory_bytes, workers) if workers == settings.workers else None
            return plan_memory(of, scene, workers, limit, process_cache().limit_bytes)

        rehearsed = kept_rehearsal(of, scene, data, recalibrate)
        gone_over = in_stretches(scene) if of.solver == "ridge" else scene
        return forecast(Setting(of, gone_over, rehearsed, memory, described, iterations, read), cluster)

    if not every_solver:
        return Outlook(scene, network, constants, (foreseen(settings),))
    found: list[Forecast] = []
    refused: list[tuple[str, str]] = []
    for name in get_args(SolverName):
        try:
            found.append(foreseen(for_solver(settings, name)))
        except ConfigError as error:
            refused.append((name, str(error)))
    return Outlook(scene, network, constants, tuple(found), tuple(refused))


def _settled(settings: TrainSettings, data: Dataset | None) -> TrainSettings:
    """With the choice that a run would make; rows that nobody has are learnt online."""
    if settings.solver != "auto":
        return settings
    if data is None:
        return settings.model_copy(update={"solver": "fogd"})
    return choose(settings, data).settings


def for_solver(settings: TrainSettings, name: SolverName) -> TrainSettings:
    """The same for another solver, but for options that it does not take; of ridge in its own precision."""
    known = frozenset().union(*OPTIONS.values())
    default = TrainSettings(data=settings.data)
    dropped = {field: getattr(default, field) for field in known - options_of(name)}
    own = TrainSettings(data=settings.data, solver=name)
    precise = {} if "precision" in settings.model_fields_set else {"precision": own.precision}
    return settings.model_copy(update=dropped | precise | {"solver": name})


def _scene(settings: TrainSettings, data: Dataset | None, paper: Paper | None) -> Scene:
    if data is not None:
        return scene_of(data)
    assert paper is not None
    if paper.rows < 1 or paper.columns < 1 or paper.n_classes < 3:
        raise ConfigError(
            f"rows = {paper.rows}, columns = {paper.columns}, classes = {paper.n_classes}, but they take whole numbers "
            "of at least 1, 1 and 3."
        )
    return scene_on_paper(paper.rows, paper.columns, paper.task, paper.n_classes, settings.ingest or IngestSettings())


def _limit(given: int | None, workers: int) -> int:
    return given or memory_bytes() // max(1, workers)


def kept_rehearsal(settings: TrainSettings, scene: Scene, data: Dataset | None, again: bool) -> Rehearsed:
    """What a rehearsal told, now or when the same was rehearsed before; kept in okl's home folder."""
    path = _kept_at(settings, scene, data)
    if not again:
        with suppress(OSError, ValueError, TypeError, KeyError):
            content = json.loads(path.read_text())
            kinds = tuple(
                Kind(**kind | {"grown": tuple(tuple(entry) for entry in kind["grown"])}) for kind in content["kinds"]
            )
            return Rehearsed(**content | {"kinds": kinds})
    found = rehearse(settings, scene, data)
    write_whole(path, json.dumps(asdict(found)))
    return found


def _kept_at(settings: TrainSettings, scene: Scene, data: Dataset | None) -> Path:
    where = {"workers", "scheduler", "cluster", "tls", "threads", "out", "name", "data", "rounds", "passes"}
    told = settings.model_dump(mode="json", exclude=where)
    used = extensions.origins(settings.solver, settings.loss, settings.map)
    about = [told, mode_of(settings), asdict(scene), data and data.sha256, identity(), version_of("okl"), used]
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:24]
    return okl_home() / FOLDER / f"{settings.solver}-{digest}.json"
