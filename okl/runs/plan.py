"""The memory plan of a run, and the refusals that need no training."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import platform
import resource
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okl.data.dataset import Dataset, Schema, Shard
from okl.data.executor import Execution, Item, Part, Result, Rows, ShardWork, Value
from okl.data.ingest.run import check_source, ingest
from okl.data.manifest import RECORDED, is_dataset, memory_bytes, open_dataset, processor, version_of
from okl.data.order import WINDOW_BYTES
from okl.data.reading import read_rows, sample_rows
from okl.distributed.cache import process_cache
from okl.distributed.local import LocalExecution, default_threads
from okl.distributed.opening import read_cluster_file
from okl.distributed.rpc import HANDLER_SECONDS, pack
from okl.foundation import plugins
from okl.foundation.errors import ConfigError, DivergedError, ExecutionError
from okl.foundation.folders import check_published, write_whole
from okl.foundation.locations import Place, name_after, okl_home, place_of
from okl.foundation.settings import ExecutionSettings, IngestSettings, SolverName, TrainSettings
from okl.foundation.types import Task
from okl.report.format import aligned
from okl.runs.select import choose
from okl.solvers.accelerated.catalogue import MODEL_NAMES, is_model, parameter_of
from okl.solvers.accelerated.shards import SEGMENT
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.base import Convergence
from okl.solvers.factory import Certified, check_recipe, make_accelerated, make_recipe, make_ridge, make_subgradient
from okl.solvers.online.base import SEGMENTS
from okl.solvers.online.budget import BudgetStrategy
from okl.solvers.online.constraints import check_columns, columns_of, parse_constraints, without_features
from okl.solvers.online.factory import Mode
from okl.solvers.online.solver import OnlineSolver, check_mode
from okl.solvers.online.strategies import STRATEGIES
from okl.solvers.options import OPTIONS, check_options, options_of
from okl.solvers.ridge.gram import BLOCK, MOST_STRETCHES
from okl.solvers.ridge.solver import N_LANDMARKS, STRETCHES_AT_ONCE, RidgeSolver
from okl.solvers.subgradient.catalogue import CUTTING_NAMES
from okl.solvers.subgradient.drawing import FIRST_SAMPLE
from okl.solvers.subgradient.solver import SubgradientSolver

# What settings mean for a data set: the columns that are learnt, the solver, its mode and rounds.

MOST_ROUNDS, LEAST_ROUND_ROWS = 1024, 32  # a pass, where shards share weights in a map
MOST_JOINS, LEAST_JOIN_ROWS = 512, 64  # where support vectors are united and brought down to the budget again
CERTIFIED_SEGMENTS = 64  # a pass: regret is told at a sixteenth of the rows, an eighth, ...
WINDOWS = 100  # of rows in their own order
IN_MAPS = ("fogd", "nogd")  # whose state is a vector in a map that shards share


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
    """Return the segments of a pass: as many as regret is told at, or as there are windows to look for a change in."""
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


# How the work of each solver grows; every solver of the command line has its law here, or cannot be planned.

ITERATIONS = 500
"""Of a method whose end is a gap, unless it is said how many: no one knows them beforehand."""


@dataclass(frozen=True)
class Law:
    """What a run's length and the size of its state go by.

    unit : "pass", rows are gone over as often as is said; "iteration", until a gap is reached, all rows in each;
        "sample", the same on a sample that grows as it must; "moment", all rows once, and then the caller alone
    state : "fixed", from the beginning; "budget", it fills up to the budget; "supports", it grows with the rows
    vectors : of float64 that stand beside the rows; 0: none
    """

    unit: Literal["pass", "iteration", "sample", "moment"]
    state: Literal["fixed", "budget", "supports"] = "fixed"
    vectors: int = 0

    def iterations(self, settings: TrainSettings, given: int | None) -> int:
        """To plan for, of each class: as given, or those of a usual run, within what the settings allow."""
        if settings.solver == "ridge":
            return 1  # it is solved directly
        return min(settings.max_iterations, given or ITERATIONS)


def _of_strategy(name: str) -> Law:
    return Law("pass", "budget" if issubclass(STRATEGIES[name], BudgetStrategy) else "supports")


LAWS: dict[str, Law] = (
    {"fogd": Law("pass"), "nogd": Law("pass", "budget"), "pegasos": Law("pass")}
    | {name: _of_strategy(name) for name in STRATEGIES}
    | {name: Law("iteration", vectors=9) for name in MODEL_NAMES}
    | dict.fromkeys(("mm-fda", "mm-mpm", "ridge"), Law("moment"))
    | {"scs": Law("sample", vectors=4), "wolfe": Law("iteration", vectors=4)}
)
"""By the solver's name. Vectors: those of `DualVectors`, `PrimalVectors` and `SampleVectors`, and their temporaries."""


def law_of(solver: str) -> Law:
    """The law of a solver; that of the models for one of an extension."""
    return LAWS["c-svm"] if solver not in LAWS and is_model(solver) else LAWS[solver]


# What messages become on a wire: framing, segments with their headers, and how long they take.

SEGMENT_BYTES, HEADER_BYTES = 1448, 52  # of TCP over Ethernet: payload, and headers with time stamps
ACKNOWLEDGED_BYTES = 17_000  # by one segment without payload; from 8,000 to 40,000 were seen
HANDLER_DOWN, HANDLER_UP = 250.0, 180.0
TASK_DOWN, TASK_UP = 5200.0, 4200.0
"""Bytes that Dask adds to a batch to a handler and its reply, and to a task and its result, counted on the wire at the
caller's link with distributed 2026.8: see tests/benchmarks/hosts.py."""
HANDLER_TRIPS, TASK_TRIPS = 1.0, 3.0
"""Times there and back: a task goes by the scheduler, which is told of its end before the result is asked for."""


@dataclass(frozen=True)
class Network:
    """Between the caller and its workers.

    gbit : 10^9 bits a second of each link; None: workers are processes of this machine
    latency_ms : from one host to another, one way
    """

    gbit: float | None = None
    latency_ms: float = 0.0

    def seconds(self, size_bytes: float) -> float:
        """To take bytes through one link."""
        return 0.0 if self.gbit is None else 8.0 * size_bytes / (1e9 * self.gbit)

    def waiting(self, trips: float) -> float:
        """For messages that go there and back."""
        return 2e-3 * self.latency_ms * trips


def on_the_wire(payload: float, back: float = 0.0) -> float:
    """Bytes of a payload in one direction, with headers, and with acknowledgements of what came back meanwhile."""
    return payload + HEADER_BYTES * (payload / SEGMENT_BYTES + back / ACKNOWLEDGED_BYTES)


def described_bytes(shards: tuple[Shard, ...] | None) -> tuple[float, float]:
    """Bytes of pickled shards: of their list, and of each one in it; of usual ones if there are none."""
    some = list(shards or ()) or [
        Shard(index, f"train/part-{index:05d}.parquet", "train", (16384,) * 8, 10**8, f"{index:064x}")
        for index in range(8)
    ]
    one, every = (len(pickle.dumps(part, protocol=pickle.HIGHEST_PROTOCOL)) for part in (some[:1], some))
    each = (every - one) / (len(some) - 1) if len(some) > 1 else 0.5 * one
    return one - each, each


# Constants of this machine, measured once in a few seconds and kept in okl's home folder.

FOLDER, FILE = "plans", "machine.json"
ROUNDS, BIG = 24, 1 << 17  # float64: 1 MiB there and back
READ_SECONDS = 1.0
CLAIMED_BYTES, PIECES, PAGE_BYTES = 32 * 2**20, 4, 4096


@dataclass(frozen=True)
class Machine:
    """What was measured.

    identity : processor, cores, versions and host: constants of another machine are measured again
    memory_bytes : of the machine; worker_bytes : of a worker process that has imported what it needs
    handler_seconds, task_seconds : of a round without work, to one worker and back; worker_seconds : for each more
    byte_seconds : for each byte that a round carries, either way
    claim_byte_seconds : for each byte of memory that a process has not used before; a virtual machine may have to ask
        its host for it
    """

    identity: str
    cores: int
    memory_bytes: int
    worker_bytes: int
    handler_seconds: float
    task_seconds: float
    worker_seconds: float
    byte_seconds: float
    claim_byte_seconds: float


def identity() -> str:
    """Return what constants belong to."""
    versions = ", ".join(f"{name} {version_of(name)}" for name in (*RECORDED, "distributed"))
    return f"{platform.node()}, {processor()}, {cores()} cores, {versions}"


def cores() -> int:
    """That this process may run on."""
    return len(os.sched_getaffinity(0))


def machine(recalibrate: bool = False) -> Machine:
    """The constants: as kept, or measured now."""
    path = okl_home() / FOLDER / FILE
    if not recalibrate:
        with suppress(OSError, ValueError, TypeError):
            kept = Machine(**json.loads(path.read_text()))
            if kept.identity == identity():
                return kept
    measured = _measured()
    write_whole(path, json.dumps(asdict(measured), indent=1))
    return measured


def _measured() -> Machine:
    from okl.distributed.dask import DaskExecution

    with DaskExecution(2, n_threads=1) as started:
        return measured_on(started.address)


def measured_on(scheduler: str, latency_ms: float = 0.0) -> Machine:
    """Constants of a cluster of two workers or more, of which two are used.

    scheduler : its address; latency_ms : from host to host there, one way, which is not counted among the constants
    """
    from okl.distributed.dask import DaskExecution

    network = Network(None, latency_ms)
    with DaskExecution(address=scheduler, n_threads=1, carrier="handler", most_workers=2) as two:
        of_two = _round_seconds(two, 2, 1)
        big = _round_seconds(two, 2, BIG)
        with DaskExecution(address=scheduler, n_threads=1, carrier="handler", most_workers=1) as one:
            of_one = _round_seconds(one, 1, 1)
        with DaskExecution(address=scheduler, n_threads=1, carrier="task", most_workers=1) as one:
            by_task = _round_seconds(one, 1, 1)
        worker_bytes = max(two.map(_memory, [0, 1, 2, 3]))
        (claim_byte_seconds,) = two.map(_claiming_byte_seconds, [CLAIMED_BYTES])
    return Machine(
        identity(),
        cores(),
        memory_bytes(),
        worker_bytes,
        max(0.0, of_one - network.waiting(HANDLER_TRIPS)),
        max(0.0, by_task - network.waiting(TASK_TRIPS)),
        max(0.0, of_two - of_one),
        max(0.0, big - of_two) / (4.0 * 8.0 * BIG),
        claim_byte_seconds,
    )


def _round_seconds(execution: Execution, workers: int, length: int) -> float:
    shards = tuple(Shard(i, f"{i}", "train", (1,), 0, str(i)) for i in range(workers))
    value, taken = np.zeros(length), []
    for _ in range(ROUNDS if length < BIG else ROUNDS // 3):
        begun = time.perf_counter()
        execution.sum(_echo, shards, value, _last)
        taken.append(time.perf_counter() - begun)
    return median(taken[2:])


def _echo(shard: Shard, value: NDArray[np.float64]) -> NDArray[np.float64]:
    return value


def _last(parts: list[Any]) -> Any:
    return parts[-1]


def _memory(_: int) -> int:
    import okl.compiled.products
    import okl.data.reading
    import okl.solvers.subgradient.solver  # noqa: F401

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _claiming_byte_seconds(n_bytes: int) -> float:
    """Return the claiming byte seconds of memory that is touched for the first time, in the median of pieces that are
    all held at once.
    """
    held, seconds = [], []
    for _ in range(PIECES):
        begun = time.perf_counter()
        held.append(np.empty(n_bytes, np.uint8))
        held[-1][::PAGE_BYTES] = 1
        seconds.append((time.perf_counter() - begun) / n_bytes)
    return median(seconds)


def read_row_seconds(data: Dataset) -> float:
    """Seconds to read a row of a data set's own shards, from a few row groups; the first one is not counted."""
    begun, seconds = time.perf_counter(), []
    groups = [(shard, group) for shard in data.split("train") for group in range(len(shard.row_groups))]
    for shard, group in groups[: 1 + 8]:
        entered = time.perf_counter()
        read_rows(data, shard, (group,), "float32")
        seconds.append((time.perf_counter() - entered) / max(1, shard.row_groups[group]))
        if len(seconds) == 1:
            begun = time.perf_counter()  # the first one compiles, and looks at the files' digests
        elif time.perf_counter() - begun > READ_SECONDS:
            break
    return median(seconds[1:] or seconds or [0.0])


# Small data sets that stand in for large ones: a few shards of rows like theirs, for a rehearsal.

N_SHARDS = 3


@dataclass(frozen=True)
class Scene:
    """What is known of the rows, on disk or on paper.

    task, n_classes : 0 classes of a regression; features, target : names of columns
    rows, shard_rows, group_rows : training rows in all, in a shard and in a row group; shards : of these rows
    shard_bytes : of a shard on disk, on average
    """

    task: Task
    n_classes: int
    features: tuple[str, ...]
    target: str
    rows: int
    shards: int
    shard_rows: int
    group_rows: int
    shard_bytes: int = 0

    @property
    def n_outputs(self) -> int:
        """Scores a row."""
        return self.n_classes if self.task == "multiclass" else 1


def scene_of(data: Dataset) -> Scene:
    """Return the scene of of a data set."""
    shards = data.split("train")
    groups = [rows for shard in shards for rows in shard.row_groups]
    return Scene(
        data.schema.task,
        len(data.schema.labels),
        data.schema.features,
        data.schema.target,
        data.rows("train"),
        len(shards),
        max((shard.rows for shard in shards), default=0),
        max(groups, default=0),
        sum(shard.size_bytes for shard in shards) // max(1, len(shards)),
    )


def in_stretches(scene: Scene) -> Scene:
    """As kernel least squares goes over it: what answers is a stretch of rows, whatever the shards."""
    shards = max(1, min(MOST_STRETCHES, -(-scene.rows // BLOCK)))
    return replace(scene, shards=shards, shard_rows=-(-scene.rows // shards))


def scene_on_paper(
    rows: int, columns: int, task: Task, n_classes: int, settings: IngestSettings | None = None
) -> Scene:
    """Return the scene on paper of rows that nobody has, ingested as usual."""
    ingest_settings = settings or IngestSettings()
    names = tuple(f"x{index}" for index in range(columns))
    shard_rows = min(rows, ingest_settings.rows_per_shard)
    classes = {"binary": 2, "multiclass": n_classes, "regression": 0}[task]
    group_rows, shard_bytes = min(shard_rows, ingest_settings.rows_per_group), 4 * shard_rows * (columns + 1)
    return Scene(task, classes, names, "y", rows, -(-rows // shard_rows), shard_rows, group_rows, shard_bytes)


def rows_like(scene: Scene, data: Dataset | None, n_rows: int) -> Rows:
    """Rows of the data set, again if it has fewer; normal ones with a curved target where there is none.

    Every class is there: inputs (n_rows, n_features) float64, targets (n_rows,) as `Rows` says.
    """
    random = np.random.default_rng(0x57A4D)
    if data is None:
        inputs = random.normal(size=(n_rows, len(scene.features)))
        curve = np.sin(inputs[:, 0]) + 0.5 * inputs[:, -1] ** 2 + 0.5 * random.normal(size=n_rows)
        index = np.searchsorted(np.quantile(curve, np.arange(1, scene.n_classes) / max(1, scene.n_classes)), curve)
        targets = {"binary": 2.0 * index - 1.0, "multiclass": index.astype(float), "regression": curve}[scene.task]
    else:
        some = sample_rows(data, "train", n_rows, 0, "float64")
        order = random.permutation(len(some.targets))  # they come as they are stored, perhaps sorted by class
        inputs, targets = (
            np.resize(some.inputs[order], (n_rows, len(scene.features))),
            np.resize(some.targets[order], n_rows),
        )
    if scene.task == "binary":
        targets[:2] = (1.0, -1.0)
    elif scene.task == "multiclass":
        targets[: scene.n_classes] = np.arange(scene.n_classes)
    return Rows(inputs, targets)


def write_standin(folder: Path, scene: Scene, rows: Rows, shard_rows: int) -> Dataset:
    """A data set of three shards in a folder, of the first of some rows; scaled already."""
    n_rows = min(len(rows.targets), N_SHARDS * shard_rows)
    targets = rows.targets[:n_rows]
    stored = targets if scene.task == "regression" else (targets > 0 if scene.task == "binary" else targets)
    table: dict[str, Any] = {name: rows.inputs[:n_rows, index] for index, name in enumerate(scene.features)}
    table[scene.target] = stored if scene.task == "regression" else stored.astype(np.int64)
    source = folder / f"rows-{shard_rows}.parquet"
    pq.write_table(pa.table(table), source)
    options = IngestSettings(
        target=scene.target, task=scene.task, rows_per_shard=shard_rows, rows_per_group=max(shard_rows, 4096)
    )
    return ingest(source, folder / f"standin-{shard_rows}", options).dataset


# How much memory a run takes, in a worker and in the process that drives it, from its configuration alone.

PROCESS_BYTES = 360 * 2**20  # of a worker that has imported what it needs, and compiled
USABLE = 0.9  # of a limit: the rest is for what nobody counts
MIB = 2**20


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes at most.

    process : of a worker without rows; block : of rows that are read and mapped at once, the largest; vectors : that
        stand beside a worker's rows; messages : of rounds; held : rows that stay decoded between rounds; wanted : what
        all of a worker's rows would take there
    driver : of the process that drives the run; limit : of a worker, None if there is none
    """

    process: int
    block: int
    vectors: int
    messages: int
    held: int
    wanted: int
    driver: int
    limit: int | None = None

    @property
    def worker(self) -> int:
        """Return the worker of a worker."""
        return self.process + self.block + self.vectors + self.messages + self.held

    @property
    def missing_share(self) -> float:
        """Return the missing share of a worker's rows those that are read again every round."""
        return 1.0 - self.held / self.wanted if self.wanted else 0.0

    def as_json(self) -> dict[str, Any]:
        """For a report."""
        return {
            "worker_bytes": self.worker,
            "worker_limit_bytes": self.limit,
            "process_bytes": self.process,
            "block_bytes": self.block,
            "vector_bytes": self.vectors,
            "message_bytes": self.messages,
            "held_bytes": self.held,
            "wanted_bytes": self.wanted,
            "driver_bytes": self.driver,
            "read_again_share": self.missing_share,
        }

    def sentence(self, workers: int) -> str:
        """One line for a log."""
        where = f"each of {workers} workers" if workers > 1 else ("the worker" if workers else "this process")
        of_limit = "" if self.limit is None else f" of {self.limit / MIB:,.0f}"
        kept = "all rows stay decoded" if self.held >= self.wanted else f"{100 * self.missing_share:.0f}% of the rows "
        again = "" if self.held >= self.wanted else "are read again every round"
        return (
            f"memory: {where} takes at most {self.worker / MIB:,.0f}{of_limit} MiB ({self.block / MIB:,.0f} a block, "
            f"{self.vectors / MIB:,.0f} beside rows, {self.held / MIB:,.0f} held; {kept}{again})"
        )


def plan_memory(
    settings: TrainSettings,
    scene: Scene,
    workers: int,
    limit_bytes: int | None,
    held_limit_bytes: int,
    part_bytes: float | None = None,
) -> MemoryPlan:
    """Plan what a run takes; rows that do not fit are read again and again, to the same bits.

    Parameters
    ----------
    workers : 0 for this process alone; limit_bytes : of a worker, None: there is none
    held_limit_bytes : of rows that may stay decoded, see okl.distributed.cache
    part_bytes : of what a shard answers; None: estimated

    Raises
    ------
    ConfigError : it does not fit even if no row stays; what a block holds decides bits, and is not made smaller
    """
    law, item = law_of(settings.solver), 4 if settings.precision == "float32" else 8
    n_inputs, columns = len(scene.features), n_columns(settings, len(scene.features))
    streams = mode_of(settings) == "stream"
    shards_each = -(-scene.shards // max(1, workers))
    rows_each = min(scene.rows, shards_each * scene.shard_rows)
    raw_row = n_inputs * item + 8
    if law.unit == "pass":
        window = min(scene.rows if streams else scene.shard_rows, max(1, WINDOW_BYTES // (4 * n_inputs)))
        window = max(window, scene.group_rows)
        block = (2 if streams else 1) * window * raw_row + 2 * scene.group_rows * 4 * (n_inputs + 1)
        wanted = 0 if streams else rows_each * raw_row
    else:
        block = scene.group_rows * (raw_row + 8 * (n_inputs + 1)) + 2 * SEGMENT * columns * item
        wanted = rows_each * (columns * item + 8)
        if law.unit == "moment":
            wanted, block = 0, block + 3 * 8 * columns**2
    part = _part_bytes(settings, scene, columns, item) if part_bytes is None else part_bytes
    answers_each, answers = shards_each, scene.shards
    if settings.solver == "ridge":  # of stretches, a few of which are on their way at once
        answers_each, answers = -(-STRETCHES_AT_ONCE // max(1, workers)), STRETCHES_AT_ONCE
    messages = int(2 * part * (answers_each + 1)) if workers else int(2 * part)
    fixed = {
        "process": PROCESS_BYTES,
        "block": int(block),
        "vectors": 8 * law.vectors * rows_each,
        "messages": messages,
    }
    driver = PROCESS_BYTES + int(2 * part * (answers + 2)) + (48 * columns**2 if law.unit == "moment" else 0)
    return _fitted(fixed, min(held_limit_bytes, wanted), wanted, driver, limit_bytes, workers)


def settle_memory(settings: TrainSettings, data: Dataset, execution: Execution) -> MemoryPlan:
    """Plan what a run takes where it runs, and have fewer rows held there if that is what it takes.

    Raises
    ------
    ConfigError : see `plan_memory`; nothing has been read then
    """
    usual = process_cache().limit_bytes
    plan = plan_memory(settings, scene_of(data), execution.n_workers, execution.memory_limit_bytes, usual)
    if plan.held < min(plan.wanted, usual):
        execution.hold(plan.held)
    return plan


def _fitted(fixed: dict[str, int], held: int, wanted: int, driver: int, limit: int | None, workers: int) -> MemoryPlan:
    if limit is not None:
        room = int(USABLE * limit) - sum(fixed.values())
        if room < 0:
            largest = max((name for name in fixed if name != "process"), key=fixed.__getitem__)
            raise ConfigError(
                f"{'A worker' if workers else 'This process'} needs {sum(fixed.values()) / MIB:,.0f} MiB "
                f"({', '.join(f'{name} {size / MIB:,.0f}' for name, size in fixed.items())}), but of its limit of "
                f"{limit / MIB:,.0f} MiB {USABLE * limit / MIB:,.0f} can be used. {_REMEDIES[largest]}"
            )
        held = min(held, room)
    return MemoryPlan(**fixed, held=held, wanted=wanted, driver=driver, limit=limit)


_REMEDIES = {
    "block": "Ingest with smaller rows_per_group and rows_per_shard, take fewer frequencies or "
    "landmarks, or give it more memory.",
    "vectors": "Start more workers, each of which gets fewer rows, or give it more memory.",
    "messages": "Take fewer frequencies or landmarks, or a smaller budget, or ingest with more rows_per_shard.",
}


def n_columns(settings: TrainSettings, n_inputs: int) -> int:
    """Columns of the map that the settings mean; inputs where there is none."""
    if settings.solver == "ridge" and settings.kernel != "linear":
        return N_LANDMARKS if settings.n_landmarks == "auto" else settings.n_landmarks
    if settings.solver == "nogd":
        return settings.budget if settings.rank == "auto" else settings.rank
    in_map = settings.kernel != "linear" and settings.map != "exact"
    return 2 * settings.frequencies if in_map and settings.solver not in STRATEGIES else n_inputs


def _part_bytes(settings: TrainSettings, scene: Scene, columns: int, item: int) -> float:
    law = law_of(settings.solver)
    outputs = scene.n_outputs
    if law.unit == "moment":
        matrices = 1 if settings.solver == "ridge" else 2  # of all rows, or of the rows of each of two classes
        return float(8 * columns * (matrices * columns + outputs))
    if settings.solver in STRATEGIES:
        vectors = settings.budget if law.state == "budget" else scene.rows
        return float(vectors * (len(scene.features) + outputs + 2) * item)
    landmarks = settings.budget * len(scene.features) * item if settings.solver == "nogd" else 0
    return float(3 * 8 * columns * outputs + landmarks)


# An execution that notes what a cluster would be asked: rounds, the bytes that they carry, how long work takes.


@dataclass(frozen=True)
class Asked:
    """One round, or one `map`, of a rehearsal.

    label : verb, work and command; of one label rounds differ in numbers only
    digest, work_bytes : of the work, which every worker gets once
    value_bytes : that go to every worker; reply_bytes, part_bytes : of a reply without parts, and of each part in it
    seconds : of each shard or item, in order; merge_seconds : of the caller, for all parts
    at : where the solver stood: rows learnt or iterations; -1 while it starts
    """

    label: str
    digest: str
    work_bytes: int
    value_bytes: int
    reply_bytes: float
    part_bytes: float
    seconds: tuple[float, ...]
    merge_seconds: float
    at: int

    @property
    def shard_seconds(self) -> float:
        """Return the shard seconds of a shard or item, on average."""
        return mean(self.seconds)


class Recorder(LocalExecution):
    """Works in this process, one shard after the other, and notes every round in `asked`.

    at : where the solver stands now, for whoever drives it to say
    inside_seconds : in rounds so far; the rest is the caller's own
    """

    def __init__(self, n_threads: int = 1) -> None:
        super().__init__(n_threads)
        self.asked: list[Asked] = []
        self.at = -1
        self.inside_seconds = 0.0
        self._packed: dict[int, tuple[Any, str, int]] = {}

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Work on the items, all of them before the first result is handed out."""
        begun = time.perf_counter()
        results, seconds = self._timed(work, items)
        self._note("map", work, None, 0, results, seconds, 0.0)
        self.inside_seconds += time.perf_counter() - begun
        return iter(results)

    def mix(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        """Learn every shard from one value; merge the results."""
        return self._noted("mix", work, shards, value, merge)

    def sum(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        """Evaluate every shard at one value; merge the results."""
        return self._noted("sum", work, shards, value, merge)

    def _noted(
        self,
        verb: str,
        work: ShardWork[Value, Part],
        shards: Sequence[Shard],
        value: Value,
        merge: Callable[[list[Part]], Part],
    ) -> Part:
        from okl.compiled.jit import one_blas_thread

        entered = time.perf_counter()
        with one_blas_thread():
            parts, seconds = self._timed(lambda shard: work(shard, value), shards)
            sizes = (_size([]), *(_size(parts[:count]) for count in (1, len(parts))))
            begun = time.perf_counter()
            merged = merge(list(parts))
            merge_seconds = time.perf_counter() - begun
        self._note(verb, work, getattr(value, "command", None), _size(value), parts, seconds, merge_seconds, sizes)
        self.inside_seconds += time.perf_counter() - entered
        return self._handed_on(merged)

    def _handed_on(self, merged: Result) -> Result:
        """Return what the caller gets for a round."""
        return merged

    @staticmethod
    def _timed(work: Callable[[Any], Any], items: Sequence[Any]) -> tuple[list[Any], tuple[float, ...]]:
        results, seconds = [], []
        for item in items:
            begun = time.perf_counter()
            results.append(work(item))
            seconds.append(time.perf_counter() - begun)
        return results, tuple(seconds)

    def _note(
        self,
        verb: str,
        work: Any,
        command: Any,
        value_bytes: int,
        parts: list[Any],
        seconds: tuple[float, ...],
        merge_seconds: float,
        sizes: tuple[int, ...] | None = None,
    ) -> None:
        if not parts:
            return
        digest, work_bytes = self._known(work)
        empty, one, every = sizes or (_size([]), _size(parts[:1]), _size(parts))
        # what parts share, such as the names of their types, is told once a reply
        each = (every - one) / (len(parts) - 1) if len(parts) > 1 else float(one - empty)
        label = f"{verb} {type(work).__name__}" + (f" {type(command).__name__}" if command is not None else "")
        reply = max(float(empty), one - each)
        asked = Asked(label, digest, work_bytes, value_bytes, reply, each, seconds, merge_seconds, self.at)
        self.asked.append(asked)

    def _known(self, work: Any) -> tuple[str, int]:
        if id(work) not in self._packed:
            packed = pack(work)
            self._packed[id(work)] = work, packed.digest, len(packed.content)  # held, so that nobody takes its place
        return self._packed[id(work)][1:]


class HurryError(Exception):
    """What was to be noted has been: not a failure."""


class HurriedRecorder(Recorder):
    """Notes one round, and raises HurryError in place of its result: for solvers whose caller then works for long."""

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """The same of work on items."""
        super().map(work, items)
        raise HurryError

    def _handed_on(self, merged: Result) -> Result:
        raise HurryError


def _size(value: Any) -> int:
    return len(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))


# What rounds of one label have in common, read off runs of a few sizes: how many, how long, how many bytes.

SMALL, LARGE = 128, 4096  # rows of a shard in a round
Counts = dict[str, tuple[float, float, float]]
"""Rounds of each label: in the beginning, in each round or iteration, and at each check of a gap."""


@dataclass(frozen=True)
class Log:
    """What was asked for in one run; iterations (or rounds) and steps of the loop, each of which ends with a check.

    begin_seconds, own_seconds : of the caller alone, before the loop and in it
    """

    asked: tuple[Asked, ...]
    iterations: int
    checks: int
    begin_seconds: float
    own_seconds: float

    def of(self, label: str) -> list[Asked]:
        """Rounds of a label."""
        return [one for one in self.asked if one.label == label]

    @property
    def labels(self) -> list[str]:
        """In order."""
        return list(dict.fromkeys(one.label for one in self.asked))


@dataclass(frozen=True)
class Kind:
    """What rounds of one label have in common.

    begun, each, checked : rounds in the beginning, in each round or iteration, and at each check of a gap
    reply_bytes : of a worker's reply without the parts of its shards
    grown : (rows learnt, bytes down to each worker, bytes of each shard's part), as the state grows
    shard_seconds, row_seconds : of work on a shard, and on each row in it that takes part
    load_seconds : of a row of the shard that is not held in memory, and is read and mapped again
    merge_seconds : of the caller, for a shard's part
    first_shard_seconds, first_row_seconds : what the first of several rounds takes more, for a shard and for each of
        its rows: they are read and mapped then
    """

    label: str
    begun: float
    each: float
    checked: float
    reply_bytes: float
    grown: tuple[tuple[float, float, float], ...]
    shard_seconds: float
    row_seconds: float
    load_seconds: float
    merge_seconds: float
    first_shard_seconds: float = 0.0
    first_row_seconds: float = 0.0


@dataclass(frozen=True)
class Rehearsed:
    """What a rehearsal told.

    work_bytes : of all work, which each worker gets once; row_seconds : of a row of a stream
    begin_seconds, own_seconds : of the caller, before the first round, and in each round or iteration
    read_seconds : to read a row of what stood in for the data
    """

    kinds: tuple[Kind, ...]
    work_bytes: int = 0
    row_seconds: float = 0.0
    begin_seconds: float = 0.0
    own_seconds: float = 0.0
    read_seconds: float = 0.0


def counted(logs: Sequence[Log]) -> Counts:
    """Rounds of each label in the beginning, an iteration and a check, from runs that differ in one of them each."""
    told = np.array([(1.0, log.iterations, log.checks) for log in logs])
    counts: Counts = {}
    for label in dict.fromkeys(label for log in logs for label in log.labels):
        if len(logs) == 1:  # of a method that asks before it iterates, or never
            counts[label] = (float(len(logs[0].of(label))), 0.0, 0.0)
            continue
        seen = np.array([len(log.of(label)) for log in logs], dtype=float)
        begun, each, checked = np.maximum(np.linalg.lstsq(told, seen, rcond=1e-9)[0], 0.0)
        counts[label] = (float(begun), float(each), float(checked))
    return counts


def told(
    counts: Counts, held: tuple[Log, Log], unheld: tuple[Log, Log], parts: int, read_seconds: float = 0.0
) -> Rehearsed:
    """Return what runs tell.

    held, unheld : small and large, with rows held in memory and without; parts : of a shard that rounds go over in turn
    """
    kinds = tuple(
        _kind(label, count, [log.of(label) for log in (*held, *unheld)], parts) for label, count in counts.items()
    )
    whole = held[0] if held[0].iterations else held[1]  # one that was broken off tells nothing of its caller
    work = {one.digest: one.work_bytes for one in whole.asked}
    own = whole.own_seconds / max(1, whole.iterations)
    return Rehearsed(kinds, sum(work.values()), 0.0, whole.begin_seconds, own, read_seconds)


def _kind(
    label: str,
    count: tuple[float, float, float],
    logs: Sequence[list[Asked]],
    parts: int,
) -> Kind:
    """logs : of the label, small and large, with rows held and without"""
    small, large, bare, large_bare = logs
    known = small or large or bare or large_bare
    wide = large or known
    short, long, again, long_again = (
        _seconds(log) for log in (small or known, wide, bare or small or known, large_bare or wide)
    )
    row = max(0.0, long - short) / (LARGE - SMALL)
    first, first_long = _first_seconds(small), _first_seconds(large)
    first_row = max(0.0, first_long - first) / (parts * (LARGE - SMALL))
    loading = max(0.0, (long_again - again) - (long - short)) / (parts * (LARGE - SMALL))
    grown = tuple((float(max(one.at, 0)), float(one.value_bytes), one.part_bytes) for one in wide)
    if parts == 1:  # of iterations: what is asked for is as long in each
        grown = ((0.0, *(sum(entry[i] for entry in grown) / len(grown) for i in (1, 2))),)  # type: ignore[assignment]
    return Kind(
        label, *count, median(one.reply_bytes for one in known), grown, max(0.0, short - row * SMALL), row, loading,
        median(one.merge_seconds / len(one.seconds) for one in known),
        max(0.0, first - first_row * parts * SMALL), first_row,
    )  # fmt: skip


def _seconds(log: list[Asked]) -> float:
    """Return the seconds of a shard: the median of later rounds, as the first one reads the rows."""
    return median(min(one.seconds) for one in (log[1:] or log))


def _first_seconds(log: list[Asked]) -> float:
    """Return what the first round takes more than later ones, of a shard; 0 of a round that is not repeated."""
    return max(0.0, min(log[0].seconds) - _seconds(log)) if len(log) > 1 else 0.0


# What rounds take: of workers, of what carries messages, of the network and of the caller.


@dataclass(frozen=True)
class Cluster:
    """What runs it. workers : processes, 0 for this one alone; threads : of this process; network : between them"""

    workers: int
    threads: int
    network: Network
    machine: Machine

    @property
    def crowding(self) -> float:
        """Return how much longer work takes where workers share the cores of this machine."""
        here = self.network.gbit is None
        return max(1.0, self.workers / self.machine.cores) if here else 1.0


@dataclass(frozen=True)
class Setting:
    """All that a forecast is made from. described : bytes of a list of shards, and of each in it; iterations : given"""

    settings: TrainSettings
    scene: Scene
    rehearsed: Rehearsed
    memory: Callable[[int], MemoryPlan]
    described: tuple[float, float]
    iterations: int | None = None
    read_seconds: float = 0.0

    @property
    def law(self) -> Law:
        """Return the law of the solver."""
        return law_of(self.settings.solver)


@dataclass
class Totals:
    """Of all rounds. handled, tasked : messages to workers by handler and by task; own : of the caller"""

    compute: float = 0.0
    engine: float = 0.0
    network: float = 0.0
    own: float = 0.0
    sent: float = 0.0
    received: float = 0.0
    handled: float = 0.0
    tasked: float = 0.0


class Rounds:
    """What the rounds of a kind take."""

    def __init__(self, of: Setting, cluster: Cluster, memory: MemoryPlan, units: int) -> None:
        self._of, self._cluster, self._units = of, cluster, units
        self._missing, self._kept_bytes = memory.missing_share, memory.held + memory.vectors
        scene, workers = of.scene, cluster.workers
        self.shards_each = -(-scene.shards // max(1, workers))
        self.rows_each = scene.rows / scene.shards * self.shards_each
        # threads of this process go over shards side by side
        self.at_once = 1.0 if workers else float(min(cluster.threads, scene.shards))
        self._busy = min(max(1, workers), scene.shards)
        parts = max(1, units // of.settings.passes) if of.law.unit == "pass" else 1
        self._rows_a_round = self.rows_each / parts
        if of.law.unit == "sample":
            given = of.settings.first_sample
            self._rows_a_round = min(scene.rows, FIRST_SAMPLE if given == "auto" else given) / max(1, workers)

    def add(self, totals: Totals, kind: Kind, times: float, first: bool) -> None:
        """Add what they take. first : whether the solver's work has not been sent before, and goes by task"""
        of, machine, network = self._of, self._cluster.machine, self._cluster.network
        down, part, larger = self._grown(kind)
        missing = 0.0 if of.law.unit == "sample" else self._missing
        work = self.shards_each * kind.shard_seconds + self._rows_a_round * kind.row_seconds * larger
        work = (work + missing * self.rows_each * kind.load_seconds) / self.at_once * self._cluster.crowding
        totals.compute += times * work
        totals.own += times * kind.merge_seconds * of.scene.shards
        if not self._cluster.workers:
            return
        listed = self._busy * of.described[0] + of.scene.shards * of.described[1]
        sent, received = self._busy * down + listed, self._busy * kind.reply_bytes + of.scene.shards * part
        tasked = times if work >= HANDLER_SECONDS else (1.0 if first else 0.0)
        handled = times - tasked
        carried = times * (machine.byte_seconds * (sent + received) + machine.worker_seconds * (self._busy - 1))
        totals.engine += carried + handled * machine.handler_seconds + tasked * machine.task_seconds
        waiting = handled * network.waiting(HANDLER_TRIPS) + tasked * network.waiting(TASK_TRIPS)
        totals.network += waiting + times * network.seconds(sent + received)
        totals.sent, totals.received = totals.sent + times * sent, totals.received + times * received
        totals.handled, totals.tasked = totals.handled + handled * self._busy, totals.tasked + tasked * self._busy

    def loading(self, rehearsed: Rehearsed) -> float:
        """Seconds to read and map a worker's rows the first time, and to find memory for what stays."""
        first_shard, first_row = (
            sum(getattr(kind, name) for kind in rehearsed.kinds)
            for name in ("first_shard_seconds", "first_row_seconds")
        )
        # the rows that stood in for the data may be quicker to read than the data
        row_seconds = first_row + max(0.0, self._of.read_seconds - rehearsed.read_seconds)
        rows = self.rows_each if self._of.law.unit != "sample" else self._rows_a_round
        seconds: float = (self.shards_each * first_shard + rows * row_seconds) / self.at_once * self._cluster.crowding
        return seconds + self._kept_bytes * self._cluster.machine.claim_byte_seconds

    def _grown(self, kind: Kind) -> tuple[float, float, float]:
        """Bytes down to a worker and of a shard's part, on average over a run, and how much longer a row takes."""
        if len(kind.grown) < 2:
            return kind.grown[0][1], kind.grown[0][2], 1.0
        at, down, part = (np.array(column) for column in zip(*kind.grown, strict=True))
        learnt = np.arange(self._units) * (self._of.scene.rows * self._of.settings.passes / self._units)
        rows_new = self._of.scene.rows / max(1, self._units // self._of.settings.passes)
        if self._of.law.state == "supports":  # a line: as many of the rows as of those rehearsed are kept
            downs, parts = (np.polyval(np.polyfit(at[1:], column[1:], 1), learnt) for column in (down, part))
            larger = float(np.mean(np.maximum(downs, down[0])) / np.mean(down[1:]))
            return float(np.mean(np.maximum(downs, down[0]))), float(np.mean(np.maximum(parts, part[0]))), larger
        downs = np.interp(learnt, at, down)
        parts = np.interp(learnt + rows_new, at + N_SHARDS * LARGE, part)
        return float(np.mean(downs)), float(np.mean(parts)), 1.0


# A run rehearsed on a handful of rows: the very solver is run, and what grows with what is read off.
#
# Work is timed at two sizes, with rows held in memory and without, so that what a shard costs, what a row costs and
# what reading and mapping a row again costs come apart. Rounds are counted as the solver asks for them, and bytes as
# they would be sent: neither depends on the number of rows, but where the state grows with them.

REHEARSAL_ROUNDS = 4  # of a rehearsed pass
UNREACHED = 1e-14  # a gap that no rehearsal comes to
LONG, SHORT = 60, 10  # iterations
MOST_HARDER = 100.0
WARM_BYTES = 64 * 2**20

Solver = OnlineSolver | Certified


def rehearse(settings: TrainSettings, scene: Scene, data: Dataset | None) -> Rehearsed:
    """Rehearse what the settings mean.

    Parameters
    ----------
    scene : of the data set, or of rows on paper; data : the data set, of which a sample is read; None on paper

    Raises
    ------
    ConfigError, DataError : what the solver says to such settings and rows
    """
    mode = mode_of(settings)
    online = mode != "sum" or settings.solver in ("fogd", "nogd")
    parts = REHEARSAL_ROUNDS if online else 1
    given: dict[str, Any] = {"workers": 0, "scheduler": None, "cluster": None, "mode": mode, "passes": 1}
    given |= {"rounds": REHEARSAL_ROUNDS} if online and mode != "stream" else {}
    if is_model(settings.solver) and parameter_of(settings.solver) == "C":
        given["C"] = _as_hard(settings.C, scene.rows)
    settings = settings.model_copy(update=given | {"certify": False})
    with tempfile.TemporaryDirectory(prefix="okl-rehearsal-") as folder:
        rows = rows_like(scene, data, N_SHARDS * LARGE * parts)
        small, large = (
            learnt_columns(settings, write_standin(Path(folder), scene, rows, size * parts)) for size in (SMALL, LARGE)
        )
        run = _Runs(settings, small, large, default_threads() if mode == "stream" else 1)
        if mode == "stream":
            return run.streamed()
        return run.in_rounds() if online else run.in_iterations()


@dataclass
class _Runs:
    settings: TrainSettings
    small: Dataset
    large: Dataset
    threads: int = 1

    def streamed(self) -> Rehearsed:
        """Seconds a row, as rows are learnt one after the other."""
        self._log(self.small, _as_it_is)  # compiles
        short, long = self._log(self.small, _as_it_is), self._log(self.large, _as_it_is)
        more = self.large.rows("train") - self.small.rows("train")
        row_seconds = max(0.0, long.own_seconds - short.own_seconds) / more
        return Rehearsed((), 0, row_seconds, max(0.0, short.begin_seconds))

    def in_rounds(self) -> Rehearsed:
        """Rounds of an online learner: as many a pass as are asked for."""
        self._log(self.small, _as_it_is)  # compiles
        held = self._log(self.small, _as_it_is), self._log(self.large, _as_it_is)
        with _nothing_held():
            unheld = self._log(self.small, _as_it_is), self._log(self.large, _as_it_is)
        counts: Counts = {}
        for label in held[0].labels:
            begun = sum(one.at < 0 for one in held[0].of(label))
            counts[label] = (float(begun), (len(held[0].of(label)) - begun) / REHEARSAL_ROUNDS, 0.0)
        return told(counts, held, unheld, REHEARSAL_ROUNDS, read_row_seconds(self.large))

    def in_iterations(self) -> Rehearsed:
        """Iterations of a method that goes on until a gap is reached."""
        change = _cut if self.settings.solver in CUTTING_NAMES else _paced
        if self.settings.solver == "ridge":
            change = _whole
        self._log(self.small, change(SHORT, SHORT), hurried=self._of_moments)  # compiles
        if self._of_moments:  # what the caller makes of them takes long, and is as long for few rows
            hasty = self._log(self.small, change(SHORT, SHORT), hurried=True)
            held = hasty, self._log(self.large, change(SHORT, SHORT))
            return told(counted((held[1],)), held, held, 1, read_row_seconds(self.large))
        # on the larger data: how many rounds a search takes is a matter of rows, too
        logs = [self._log(self.large, change(*pace)) for pace in ((LONG, SHORT), (LONG, LONG), (SHORT, SHORT))]
        held = self._log(self.small, change(LONG, LONG)), logs[1]
        with _nothing_held():
            unheld = self._log(self.small, change(SHORT, SHORT)), self._log(self.large, change(SHORT, SHORT))
        return told(counted(logs), held, unheld, 1, read_row_seconds(self.large))

    @property
    def _of_moments(self) -> bool:
        return law_of(self.settings.solver).unit == "moment"

    def _log(self, data: Dataset, change: Callable[[Solver], Solver], hurried: bool = False) -> Log:
        solver: Any = change(make_solver(_fewer_landmarks(self.settings, data), data))
        process_cache().clear()  # rows are read and mapped in the first round, as in a run
        np.ones(WARM_BYTES, np.uint8)  # what the system takes to find memory is a constant of the machine
        with (HurriedRecorder if hurried else Recorder)(self.threads) as recorder:
            entered, begin_seconds, before, steps, at = perf_counter(), 0.0, 0.0, 0, 0
            # a handful of rows may diverge; what was counted until then is as good
            with suppress(DivergedError, HurryError):
                state = solver.start(data, recorder)
                begin_seconds, before = perf_counter() - entered - recorder.inside_seconds, recorder.inside_seconds
                entered = perf_counter()
                while solver.finished(state) is None:
                    standing = solver.standing(state)
                    at = recorder.at = standing.iterations if isinstance(standing, Convergence) else standing.done_rows
                    state = solver.advance(state, data, recorder)
                    steps += 1
                at = standing.iterations if isinstance(standing := solver.standing(state), Convergence) else steps
            own = perf_counter() - entered - (recorder.inside_seconds - before)
            if isinstance(solver, RidgeSolver):
                return Log(tuple(map(_by_shard, recorder.asked)), min(at, 1), 0, begin_seconds, max(0.0, own))
            checks = steps if isinstance(solver, AcceleratedSolver) else 0
            return Log(tuple(recorder.asked), at, checks, begin_seconds, max(0.0, own))


def _as_hard(cost: float | str, rows: int) -> float:
    """C for a handful of rows that leaves the losses about the weight that those of all rows have."""
    given = cost if isinstance(cost, float) else 1.0
    return given * min(MOST_HARDER, max(1.0, rows / (N_SHARDS * LARGE)))


def _fewer_landmarks(settings: TrainSettings, data: Dataset) -> TrainSettings:
    """No more of them than there are rows to rehearse with."""
    asked = settings.n_landmarks
    return settings if asked == "auto" else settings.model_copy(update={"n_landmarks": min(asked, data.rows("train"))})


def _by_shard(asked: Asked) -> Asked:
    """With the seconds of each shard's rows, where the work was cut finer."""
    seconds = tuple(float(part.sum()) for part in np.array_split(np.array(asked.seconds), N_SHARDS))
    return replace(asked, seconds=seconds)


def _as_it_is(solver: Solver) -> Solver:
    return solver


def _whole(iterations: int, check_every: int) -> Callable[[Solver], Solver]:
    """One that ends by itself."""
    return _as_it_is


def _paced(iterations: int, check_every: int) -> Callable[[Solver], Solver]:
    def change(solver: Solver) -> Solver:
        assert isinstance(solver, AcceleratedSolver)
        method = replace(solver.method, tolerance=UNREACHED, max_iterations=iterations, check_every=check_every)
        return replace(solver, method=method)

    return change


def _cut(iterations: int, check_every: int) -> Callable[[Solver], Solver]:
    """Iterations of a method of cuts, each of which is a step of the loop."""

    def change(solver: Solver) -> Solver:
        assert isinstance(solver, SubgradientSolver)
        return replace(solver, gap=UNREACHED, max_iterations=iterations)

    return change


@contextmanager
def _nothing_held() -> Iterator[None]:
    cache = process_cache()
    limit = cache.limit_bytes
    cache.limit(0)
    try:
        yield
    finally:
        cache.limit(limit)


# From a rehearsal, the machine and the network to what a run will take: seconds, bytes, memory, and where it stops.

LEAST_PAUSE, MOST_PAUSE = 10, 100  # iterations between checks of a gap, see okl.solvers.accelerated.method


@dataclass(frozen=True)
class Forecast:
    """What learning will take; beside it a run reads all rows once or twice, to measure what was learnt.

    rounds : in all; units : passes x rounds, or iterations
    compute_seconds : of the slowest worker; load_seconds : to read and map its rows the first time
    engine_seconds : of Dask and pickling; network_seconds : of bytes and latency; own_seconds : of the caller
    bytes_sent, bytes_received : pickled, by the caller to all workers and from them; wire_sent, wire_received : the
        same with all that Dask and TCP add, at the caller's link
    stops_at : workers from which communication takes longer than work; None: never, or there is nothing to spread
    """

    solver: str
    mode: str
    workers: int
    rounds: float
    units: int
    compute_seconds: float
    load_seconds: float
    engine_seconds: float
    network_seconds: float
    own_seconds: float
    bytes_sent: float
    bytes_received: float
    wire_sent: float
    wire_received: float
    memory: MemoryPlan
    stops_at: int | None = None

    @property
    def seconds(self) -> float:
        """Return the seconds of learning."""
        return self.compute_seconds + self.load_seconds + self.communication_seconds + self.own_seconds

    @property
    def communication_seconds(self) -> float:
        """Return the communication seconds of engine and network."""
        return self.engine_seconds + self.network_seconds

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        names = [name for name in self.__dataclass_fields__ if name != "memory"]
        return {"seconds": self.seconds} | {name: getattr(self, name) for name in names} | self.memory.as_json()


def forecast(of: Setting, cluster: Cluster) -> Forecast:
    """Foresee a run, and where more workers stop helping."""
    found = _at(of, cluster)
    return replace(found, stops_at=_stops_at(of, cluster)) if cluster.workers else found


def _stops_at(of: Setting, cluster: Cluster) -> int | None:
    """The least number of workers for which rounds take longer to carry than to work on, by bisection.

    None if that is not so even with a shard each; with more, nobody has less to do.
    """
    most = of.scene.shards

    def overtaken(workers: int) -> bool:
        there = _at(of, replace(cluster, workers=workers))
        return there.rounds > 0 and there.communication_seconds >= there.compute_seconds

    low, high = 0, 1
    while not overtaken(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if overtaken(middle) else (middle, high)
    return high


def _at(of: Setting, cluster: Cluster) -> Forecast:
    mode, workers = mode_of(of.settings), cluster.workers
    memory = of.memory(workers)
    if mode == "stream":
        return _streamed(of, cluster, memory)
    units, checks = _units(of)
    rounds = Rounds(of, cluster, memory, units)
    totals, number, work = Totals(), 0.0, False
    for kind in of.rehearsed.kinds:
        times = kind.begun + kind.each * units + kind.checked * checks
        if times:
            rounds.add(totals, kind, times, not work)
            number, work = number + times, True
    load = rounds.loading(of.rehearsed)
    own = of.rehearsed.begin_seconds + of.rehearsed.own_seconds * units + totals.own
    sent, received = totals.sent + workers * of.rehearsed.work_bytes, totals.received
    batches = totals.handled + totals.tasked
    if not workers:
        sent = received = 0.0
    framed_down = totals.handled * HANDLER_DOWN + totals.tasked * TASK_DOWN
    framed_up = totals.handled * HANDLER_UP + totals.tasked * TASK_UP
    return Forecast(
        of.settings.solver, mode, workers, number, units, totals.compute, load, totals.engine, totals.network, own,
        sent, received,
        on_the_wire(sent + framed_down, received) if batches else 0.0,
        on_the_wire(received + framed_up, sent) if batches else 0.0,
        memory,
    )  # fmt: skip


def _units(of: Setting) -> tuple[int, float]:
    """Rounds of all passes, or iterations of all classes, and checks of a gap in these."""
    settings = of.settings
    if of.law.unit == "pass":
        asked = settings.rounds
        rounds = default_rounds(settings.solver, mode_of(settings), of.scene.rows) if asked == "auto" else asked
        return rounds * settings.passes, 0.0
    iterations = of.law.iterations(settings, of.iterations)
    if not is_model(settings.solver):
        return iterations, 0.0
    done = checks = 0
    while done < iterations:
        done, checks = done + min(max(done // 10, LEAST_PAUSE), MOST_PAUSE), checks + 1
    return iterations * of.scene.n_outputs, float(checks * of.scene.n_outputs)


def _streamed(of: Setting, cluster: Cluster, memory: MemoryPlan) -> Forecast:
    """Rows one after the other, in this process, whatever the workers."""
    units = of.settings.passes
    seconds = of.rehearsed.row_seconds * of.scene.rows * units
    return Forecast(
        of.settings.solver, "stream", cluster.workers, 0.0, units, seconds, 0.0, 0.0, 0.0, of.rehearsed.begin_seconds,
        0.0, 0.0, 0.0, 0.0, memory,
    )  # fmt: skip


# What can be refused before anything is learnt, and where a run will be kept.

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
    check_published(run_folder(settings))  # last: it may make okl's home folder


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
    """Return where a run is kept: `out`, or a new folder named by the model and the time in okl's home folder."""
    if settings.out is not None:
        return place_of(settings.out).absolute()
    name = settings.name or name_after(settings.data)
    stem = f"{name}-{datetime.now().strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    runs = okl_home() / "runs"
    folders = chain([stem], (f"{stem}-{k}" for k in count(2)))  # a chain: unpacking an endless count fills the memory
    return next(runs / folder for folder in folders if not (runs / folder).exists())


def check_workers(where: ExecutionSettings) -> None:
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


# `okl plan`: what a run would take, of a data set or on paper, for one solver or for all.


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
    """Return what a rehearsal told, now or when the same was rehearsed before; kept in okl's home folder."""
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
    used = plugins.origins(settings.solver, settings.loss, settings.map)
    about = [told, mode_of(settings), asdict(scene), data and data.sha256, identity(), version_of("okl"), used]
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:24]
    return okl_home() / FOLDER / f"{settings.solver}-{digest}.json"


# What is foreseen, for people: one run in lines, many in a table.

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(n_bytes: float) -> str:
    """Bytes in a unit that leaves three digits or so.

    >>> size(3), size(5_000), size(3 * 2**30)
    ('3 B', '4.88 KiB', '3 GiB')
    """
    value, unit = float(n_bytes), 0
    while value >= 1000.0 and unit < len(UNITS) - 1:
        value, unit = value / 1024.0, unit + 1
    return f"{value:.3g} {UNITS[unit]}" if value < 99.5 else f"{value:.0f} {UNITS[unit]}"


def duration(seconds: float) -> str:
    """Seconds, minutes, hours or days.

    >>> duration(0.01), duration(75), duration(10_000), duration(1e6)
    ('0.01 s', '75 s', '2.8 h', '11.6 d')
    """
    for most, each, unit in ((120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172800.0, 3600.0, "h")):
        if seconds < most:
            return f"{seconds / each:.2g} {unit}" if seconds / each < 10.0 else f"{seconds / each:.0f} {unit}"
    return f"{seconds / 86400.0:.1f} d"


def outlook_text(told: Outlook) -> str:
    """One run, or a table of many."""
    scene, network = told.scene, told.network
    by = "on this machine" if network.gbit is None else f"by {network.gbit:g} Gbit/s"
    head = (
        f"{scene.rows:,} rows x {len(scene.features)}, {scene.shards:,} shards, {scene.task}; {by}, "
        f"{network.latency_ms:g} ms; constants of {told.machine.identity.split(', okl')[0]}"
    )
    if len(told.forecasts) == 1 and not told.refused:
        return "\n".join([head, *_lines(told.forecasts[0])])
    return "\n".join([head, "", *_table(told.forecasts), *(f"{name}: {why}" for name, why in told.refused)])


def _lines(one: Forecast) -> list[str]:
    where = f"{one.workers} workers" if one.workers > 1 else ("1 worker" if one.workers else "this process")
    lines = [
        f"{one.solver} by {one.mode}, {where}",
        f"  learning  {duration(one.seconds)}: work {duration(one.compute_seconds)}, first reading and mapping "
        f"{duration(one.load_seconds)}, Dask {duration(one.engine_seconds)}, network "
        f"{duration(one.network_seconds)}, caller {duration(one.own_seconds)}",
    ]
    if one.rounds and one.workers:
        lines += [
            f"  rounds    {one.rounds:,.0f}, each {size(one.bytes_sent / one.rounds)} out and "
            f"{size(one.bytes_received / one.rounds)} back",
            f"  messages  {size(one.bytes_sent)} out, {size(one.bytes_received)} back; with what Dask and TCP add "
            f"{size(one.wire_sent)} and {size(one.wire_received)}",
        ]
    lines.append(f"  {one.memory.sentence(one.workers)}; the driver takes {size(one.memory.driver)}")
    if one.mode == "stream" and one.workers:
        lines.append("  stream learns in one process, whatever the workers: mix and sum spread it")
    elif one.stops_at is not None:
        lines.append(f"  from {one.stops_at:,} workers on, rounds take longer to carry than to work on")
    elif one.workers and one.rounds:
        lines.append("  work takes longer than what crosses, down to one shard a worker")
    return lines


def _table(forecasts: tuple[Forecast, ...]) -> list[str]:
    columns = ("solver", "mode", "rounds", "learning", "of it work", "out / round", "back / round", "worker", "driver")
    rows = [
        (
            one.solver, one.mode, f"{one.rounds:,.0f}", duration(one.seconds),
            f"{100.0 * (one.compute_seconds + one.load_seconds) / max(one.seconds, 1e-12):.0f}%",
            size(one.bytes_sent / max(1.0, one.rounds)), size(one.bytes_received / max(1.0, one.rounds)),
            size(one.memory.worker), size(one.memory.driver),
            "shards" if one.stops_at is None else f"{one.stops_at:,}",
        )
        for one in forecasts
    ]  # fmt: skip
    return [
        *aligned([(*columns, "stops at"), *rows], numbers_from=2),
        "",
        "stops at: workers from which rounds take longer to carry than to work on; shards: not before each has but one",
    ]
