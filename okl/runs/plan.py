"""Plan of a run before training: its memory, and checks of its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from okl.data.dataset import Dataset, Schema
from okl.data.executor import Execution
from okl.data.ingest.run import check_not_ingested
from okl.data.manifest import memory_bytes, open_dataset
from okl.data.order import WINDOW_BYTES
from okl.data.reading import stored_row_bytes
from okl.distributed.cache import process_cache
from okl.distributed.opening import check_workers
from okl.foundation.errors import ConfigError
from okl.foundation.folders import check_published
from okl.foundation.settings import IngestSettings
from okl.foundation.types import Mode, Task
from okl.metrics.criterion import criterion_of
from okl.report.format import aligned
from okl.runs.calibrate import check_threshold, class_weights_of
from okl.runs.run import check_data, run_folder
from okl.runs.select import choose_solver
from okl.solvers.accelerated.shards import SEGMENT
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.factory import training_columns
from okl.solvers.online.settings import check_factory
from okl.solvers.online.solver import OnlineSolver
from okl.solvers.options import ClassWeightOptions
from okl.solvers.ridge.falkon import FalkonSolver
from okl.solvers.ridge.local import LocalSolver
from okl.solvers.ridge.solver import RidgeSolver
from okl.solvers.settings import SOLVER_NAMES, TrainSettings
from okl.solvers.subgradient.solver import SubgradientSolver

# The size of the data, of a data set or assumed


@dataclass(frozen=True)
class Workload:
    """Size of the training data.

    n_classes : 0 for regression; features : names of the input columns
    rows, shard_rows, group_rows : training rows in total, in the largest shard and in the largest row group
    shards : number of shards with training rows
    sparse_columns, sparse_row_bytes : of sparse rows, beside the features, and the mean bytes of one; 0 without
    """

    task: Task
    n_classes: int
    features: tuple[str, ...]
    rows: int
    shards: int
    shard_rows: int
    group_rows: int
    sparse_columns: int = 0
    sparse_row_bytes: int = 0

    @property
    def n_inputs(self) -> int:
        """Return the number of inputs, sparse ones among them."""
        return len(self.features) + self.sparse_columns

    @property
    def n_outputs(self) -> int:
        return self.n_classes if self.task == "multiclass" else 1


def workload_of(data: Dataset) -> Workload:
    """Return the size of a data set."""
    shards = data.split("train")
    return Workload(
        data.schema.task,
        len(data.schema.labels),
        data.schema.features,
        data.rows("train"),
        len(shards),
        max((shard.rows for shard in shards), default=0),
        max((rows for shard in shards for rows in shard.row_groups), default=0),
        0 if data.schema.sparse is None else data.schema.sparse.n_columns,
        0 if data.schema.sparse is None else stored_row_bytes(data, shards[0]),
    )


@dataclass(frozen=True)
class AssumedData:
    """Assumed size of the data: numbers of training rows, input columns and classes (multiclass), and the task."""

    rows: int
    columns: int
    task: Task = "binary"
    n_classes: int = 3

    def workload(self, settings: IngestSettings | None = None) -> Workload:
        """Return the size after ingestion with the given settings; raise ConfigError for numbers that are too small."""
        if self.rows < 1 or self.columns < 1 or self.n_classes < 3:
            raise ConfigError(
                f"rows = {self.rows}, columns = {self.columns}, classes = {self.n_classes}: expected at "
                "least 1 row, 1 column and 3 classes."
            )
        ingest = settings or IngestSettings()
        shard_rows = min(self.rows, ingest.rows_per_shard)
        return Workload(
            self.task,
            {"binary": 2, "multiclass": self.n_classes, "regression": 0}[self.task],
            tuple(f"x{index}" for index in range(self.columns)),
            self.rows,
            -(-self.rows // shard_rows),
            shard_rows,
            min(shard_rows, ingest.rows_per_group),
        )


# Memory of a worker and of the driver, from the configuration alone

PROCESS_BYTES = 360 * 2**20  # a worker after imports and compilation, without rows
USABLE = 0.9  # share of a limit that is planned; the rest is for allocations outside the model
MIB = 2**20


@dataclass(frozen=True)
class MemoryPlan:
    """Upper bounds of the memory of a run, in bytes.

    process : a worker without rows; block : the largest block that is read and mapped at once; vectors : vectors with
        an entry a row; messages : messages of a round; held : cached decoded rows; wanted : all decoded rows
    driver : the driver process; limit : memory limit of a worker, None without one
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
        return self.process + self.block + self.vectors + self.messages + self.held

    @property
    def missing_share(self) -> float:
        """Return the share of a worker's rows that are read again every round."""
        return 1.0 - self.held / self.wanted if self.wanted else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the plan for a report."""
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
        """Return one line for a log."""
        where = f"each of {workers} workers" if workers > 1 else ("the worker" if workers else "this process")
        of_limit = "" if self.limit is None else f" of {self.limit / MIB:,.0f}"
        reread = f"; {100 * self.missing_share:.0f}% of the rows are read again every round"
        return (
            f"memory: {where} takes at most {self.worker / MIB:,.0f}{of_limit} MiB: {self.block / MIB:,.0f} for "
            f"a block of rows, {self.vectors / MIB:,.0f} for vectors, {self.held / MIB:,.0f} for rows kept in memory"
            f"{reread if self.held < self.wanted else ''}"
        )


def plan_memory(
    settings: TrainSettings,
    workload: Workload,
    workers: int,
    limit_bytes: int | None,
    held_limit_bytes: int,
) -> MemoryPlan:
    """Plan the memory of a run. Rows that do not fit are read again every round, which gives the same bits.

    Parameters
    ----------
    workers : 0 for this process alone; limit_bytes : memory limit of a worker, None without one
    held_limit_bytes : limit of cached decoded rows, see okl.distributed.cache

    Raises
    ------
    ConfigError : the run does not fit even without cached rows; the size of a block decides bits and stays
    """
    options, model, item = settings.options, settings.options.MEMORY, 4 if settings.precision == "float32" else 8
    n_inputs = workload.n_inputs
    columns = options.n_columns(n_inputs)
    streams = settings.training_mode == "stream"
    shards_each = -(-workload.shards // max(1, workers))
    rows_each = min(workload.rows, shards_each * workload.shard_rows)
    raw_row = n_inputs * item + 8
    if model.unit == "pass":
        window = min(workload.rows if streams else workload.shard_rows, max(1, WINDOW_BYTES // (4 * n_inputs)))
        window = max(window, workload.group_rows)
        block = (2 if streams else 1) * window * raw_row + 2 * workload.group_rows * 4 * (n_inputs + 1)
        wanted = 0 if streams else rows_each * raw_row
    else:
        block = workload.group_rows * (raw_row + 8 * (n_inputs + 1)) + 2 * SEGMENT * columns * item
        wanted = rows_each * (columns * item + 8)
        if workload.sparse_columns:
            block, wanted = 3 * workload.group_rows * workload.sparse_row_bytes, rows_each * workload.sparse_row_bytes
        if model.unit == "moment":
            wanted, block = 0, block + 3 * 8 * columns**2
        elif model.unit == "kernel":  # without workers the preconditioner, which is in the driver alone, stands here
            wanted, block = 0, workload.group_rows * (raw_row + 8) + 256 * columns * item
            block += 0 if workers else columns**2 * item
    part = options.part_bytes(n_inputs, workload.n_outputs, workload.rows, item)
    answers_each, answers = shards_each, workload.shards
    if model.answers is not None:  # one answer a chunk, a few chunks at a time
        answers_each, answers = -(-model.answers // max(1, workers)), model.answers
    messages = int(2 * part * (answers_each + 1)) if workers else int(2 * part)
    fixed = {
        "process": PROCESS_BYTES,
        "block": int(block),
        "vectors": 8 * model.vectors * rows_each,
        "messages": messages,
    }
    square_bytes = {"moment": 48 * columns**2, "kernel": columns**2 * item}.get(model.unit, 0)
    driver = PROCESS_BYTES + int(2 * part * (answers + 2)) + square_bytes
    return _fitted(fixed, min(held_limit_bytes, wanted), wanted, driver, limit_bytes, workers)


def plan_memory_on(settings: TrainSettings, data: Dataset, execution: Execution) -> MemoryPlan:
    """Plan the memory of a run on its executor, and lower the limit of the row cache there if needed.

    Raises
    ------
    ConfigError : see `plan_memory`; raised before any row is read
    """
    usual = process_cache().limit_bytes
    plan = plan_memory(settings, workload_of(data), execution.n_workers, execution.memory_limit_bytes, usual)
    if plan.held < min(plan.wanted, usual):
        execution.hold(plan.held)
    return plan


def _fitted(
    fixed: dict[str, int], cached: int, wanted: int, driver: int, limit: int | None, workers: int
) -> MemoryPlan:
    if limit is not None:
        room = int(USABLE * limit) - sum(fixed.values())
        if room < 0:
            largest = max((name for name in fixed if name != "process"), key=fixed.__getitem__)
            raise ConfigError(
                f"{'A worker' if workers else 'This process'} needs {sum(fixed.values()) / MIB:,.0f} MiB "
                f"({', '.join(f'{name} {size / MIB:,.0f}' for name, size in fixed.items())}), more than {USABLE:.0%} "
                f"of its limit of {limit / MIB:,.0f} MiB. {_REMEDIES[largest]}"
            )
        cached = min(cached, room)
    return MemoryPlan(**fixed, held=cached, wanted=wanted, driver=driver, limit=limit)


_REMEDIES = {
    "block": "Ingest with smaller rows_per_group and rows_per_shard, use fewer frequencies or landmarks, or use "
    "more memory.",
    "vectors": "Use more workers or more memory for each.",
    "messages": "Use fewer frequencies or landmarks or a smaller budget, or ingest with more rows_per_shard.",
}


# Checks before training

TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")


def check(settings: TrainSettings) -> None:
    """Check settings as far as possible without reading rows or starting a server or workers.

    Raises
    ------
    OklError : settings, data or execution options are invalid
    """
    check_workers(settings)
    check_data(
        settings,
        lambda data: check_solver(settings, training_columns(settings, data)),
        lambda ingest_settings: check_solver_unread(settings, ingest_settings),
    )
    check_published(run_folder(settings))  # last: it may make okl's home folder


def check_solver(settings: TrainSettings, data: Dataset) -> None:
    """Raise ConfigError if the solver cannot train on the data set with these settings."""
    settings.options.check(settings)
    schema = data.schema
    criterion_of(settings.optimise, schema.task, schema.class_counts, schema.target)
    check_threshold(settings, schema)
    class_weights_of(settings, schema)
    if settings.solver != "auto":  # the automatic choice selects solvers that fit
        _check_built(settings, data.schema, data.rows("train"))


def _check_built(settings: TrainSettings, schema: Schema, rows: int | None) -> None:
    solver = settings.options.build(settings, schema, rows)
    if isinstance(solver, AcceleratedSolver):
        solver.check(schema)
    elif isinstance(solver, OnlineSolver):
        check_factory(solver.factory, schema, rows)
    elif isinstance(solver, SubgradientSolver | RidgeSolver | FalkonSolver | LocalSolver):
        solver.check(schema, rows)


def check_solver_unread(settings: TrainSettings, ingest: IngestSettings) -> None:
    """Raise ConfigError for settings that fit no possible task of a source that has not been read yet."""
    settings.options.check(settings)
    if settings.solver == "auto":
        return None
    options = settings.options
    if isinstance(options, ClassWeightOptions):  # labels are not known yet
        settings = settings.model_copy(update={"options": options.model_copy(update={"class_weights": "none"})})
    refused: list[ConfigError] = []
    for task in TASKS if ingest.task == "auto" else (ingest.task,):
        schema = Schema(("x",), ingest.target, task, (0, 1, 2)[: {"binary": 2, "multiclass": 3}.get(task, 0)])
        try:
            return _check_built(settings, schema, None)
        except ConfigError as error:
            refused.append(error)
    raise refused[0]


# `okl plan`: memory and failed checks of one solver or of all, for a data set or for assumed sizes


@dataclass(frozen=True)
class SolverPlan:
    """Plan of one solver. mode : the mode that `okl train` would use; workers : 0 for this process alone"""

    solver: str
    mode: Mode
    workers: int
    memory: MemoryPlan

    def as_json(self) -> dict[str, Any]:
        """Return the plan for `okl plan --json`."""
        return {"solver": self.solver, "mode": self.mode, "workers": self.workers} | self.memory.as_json()


@dataclass(frozen=True)
class PlanReport:
    """Plans of solvers. refused : solvers that `okl train` would refuse with these settings, each with its message"""

    workload: Workload
    plans: tuple[SolverPlan, ...]
    refused: tuple[tuple[str, str], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return what `okl plan --json` prints."""
        return {
            "rows": self.workload.rows,
            "columns": self.workload.n_inputs,
            "shards": self.workload.shards,
            "plans": [plan.as_json() for plan in self.plans],
            "refused": dict(self.refused),
        }


def plan_run(
    settings: TrainSettings,
    assumed: AssumedData | None = None,
    every_solver: bool = False,
    worker_memory_bytes: int | None = None,
) -> PlanReport:
    """Plan the memory of a run, and check its settings as `okl train` does.

    No rows are read, except for the automatic choice of a solver, which samples rows.

    Parameters
    ----------
    settings : settings of the run; data is a data set unless `assumed` is given
    every_solver : plan all solvers instead of that of the settings
    worker_memory_bytes : memory limit of a worker; None: an equal share of the memory of this machine

    Raises
    ------
    ConfigError, DataError : invalid settings or data; ConfigError : too little memory
    """
    data = None
    if assumed is not None:
        workload = assumed.workload(settings.ingest)
    else:
        opened = open_dataset(settings.data)
        check_not_ingested(settings.data, settings.ingest)
        data = training_columns(settings, opened)
        workload = workload_of(data)

    def checked(of: TrainSettings) -> TrainSettings:
        if data is not None:
            check_solver(of, data)
        else:
            check_solver_unread(of, (of.ingest or IngestSettings()).model_copy(update={"task": workload.task}))
        return of

    def planned(of: TrainSettings) -> SolverPlan:
        limit = worker_memory_bytes or memory_bytes() // max(1, of.workers)
        memory = plan_memory(of, workload, of.workers, limit, process_cache().limit_bytes)
        return SolverPlan(of.solver, of.training_mode, of.workers, memory)

    if not every_solver:
        return PlanReport(workload, (planned(_with_solver(checked(settings), data)),))
    plans: list[SolverPlan] = []
    refused: list[tuple[str, str]] = []
    for name in SOLVER_NAMES:
        try:
            plans.append(planned(checked(settings.replaced(solver=name))))
        except ConfigError as error:
            refused.append((name, str(error)))
    return PlanReport(workload, tuple(plans), tuple(refused))


def _with_solver(settings: TrainSettings, data: Dataset | None) -> TrainSettings:
    """Return the settings after the automatic choice; with fogd for assumed data."""
    if settings.solver != "auto":
        return settings
    if data is None:
        return settings.replaced(solver="fogd")
    return choose_solver(settings, data).settings


UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(n_bytes: float) -> str:
    """Format bytes with three significant digits.

    >>> size(3), size(5_000), size(3 * 2**30)
    ('3 B', '4.88 KiB', '3 GiB')
    """
    value, unit = float(n_bytes), 0
    while value >= 1000.0 and unit < len(UNITS) - 1:
        value, unit = value / 1024.0, unit + 1
    return f"{value:.3g} {UNITS[unit]}" if value < 99.5 else f"{value:.0f} {UNITS[unit]}"


def plan_text(report: PlanReport) -> str:
    """Return the text of a report: lines for one plan, a table for several."""
    workload = report.workload
    shards = f"{workload.shards:,} shard{'' if workload.shards == 1 else 's'}"
    head = f"{workload.rows:,} rows x {workload.n_inputs}, {shards}, {workload.task}"
    if len(report.plans) == 1 and not report.refused:
        return "\n".join([head, *_lines(report.plans[0])])
    return "\n".join([head, "", *_table(report.plans), *(f"{name}: {why}" for name, why in report.refused)])


def _lines(plan: SolverPlan) -> list[str]:
    processes = f"{plan.workers} workers" if plan.workers > 1 else ("1 worker" if plan.workers else "this process")
    lines = [
        f"{plan.solver}, mode {plan.mode}, {processes}",
        f"  {plan.memory.sentence(plan.workers)}"
        + (f"; the process of the command takes {size(plan.memory.driver)}" if plan.workers else ""),
    ]
    if plan.mode == "stream" and plan.workers:
        lines.append("  mode stream trains in one process; modes mix and sum use all workers")
    return lines


def _table(plans: tuple[SolverPlan, ...]) -> list[str]:
    columns = ("solver", "mode", "worker", "driver", "read again")
    rows = [
        (
            plan.solver,
            plan.mode,
            size(plan.memory.worker),
            size(plan.memory.driver),
            f"{100.0 * plan.memory.missing_share:.0f}%",
        )
        for plan in plans
    ]
    return [*aligned([columns, *rows], numbers_from=2), "", "read again: share of the rows read again every round"]
