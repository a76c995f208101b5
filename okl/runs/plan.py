"""Plan of a run before training: its memory, and checks of its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from okl.data.dataset import Dataset, Schema
from okl.data.executor import Execution
from okl.data.ingest.run import check_not_ingested, check_source
from okl.data.manifest import is_dataset, memory_bytes, open_dataset
from okl.data.order import WINDOW_BYTES
from okl.distributed.cache import process_cache
from okl.distributed.opening import check_workers
from okl.foundation.errors import ConfigError
from okl.foundation.folders import check_published
from okl.foundation.settings import IngestSettings, SolverName, TrainSettings
from okl.foundation.types import Task
from okl.report.format import aligned
from okl.runs.history import run_folder
from okl.runs.select import choose
from okl.solvers.accelerated.models import MODEL_NAMES, is_model
from okl.solvers.accelerated.shards import SEGMENT
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.factory import (
    check_factory,
    make_accelerated,
    make_factory,
    make_ridge,
    make_solver,
    make_subgradient,
    training_columns,
)
from okl.solvers.online.base import Mode
from okl.solvers.online.budget import BudgetStrategy
from okl.solvers.online.solver import check_mode
from okl.solvers.online.strategies import STRATEGIES
from okl.solvers.options import OPTIONS, check_options, mode_of, options_of
from okl.solvers.ridge.solver import N_LANDMARKS, STRETCHES_AT_ONCE, RidgeSolver
from okl.solvers.subgradient.losses import CUTTING_NAMES
from okl.solvers.subgradient.solver import SubgradientSolver

# Memory models of the solvers; every solver of the command line has an entry


@dataclass(frozen=True)
class MemoryModel:
    """Growth of a solver's memory.

    unit : "pass", rows are read once a pass; "iteration", in each iteration; "sample", a growing sample in each
        iteration; "moment", once, to sum their moments
    state : "fixed", constant size; "budget", grows up to the budget; "supports", grows with the rows
    vectors : number of float64 vectors with one entry a row
    """

    unit: Literal["pass", "iteration", "sample", "moment"]
    state: Literal["fixed", "budget", "supports"] = "fixed"
    vectors: int = 0


def _of_strategy(name: str) -> MemoryModel:
    return MemoryModel("pass", "budget" if issubclass(STRATEGIES[name], BudgetStrategy) else "supports")


MEMORY_MODELS: dict[str, MemoryModel] = (
    {"fogd": MemoryModel("pass"), "nogd": MemoryModel("pass", "budget"), "pegasos": MemoryModel("pass")}
    | {name: _of_strategy(name) for name in STRATEGIES}
    | {name: MemoryModel("iteration", vectors=9) for name in MODEL_NAMES}
    | dict.fromkeys(("mm-fda", "mm-mpm", "ridge"), MemoryModel("moment"))
    | {"scs": MemoryModel("sample", vectors=4), "wolfe": MemoryModel("iteration", vectors=4)}
)
"""Memory model by solver name. Vectors: `Partition`, `SampleVectors` and their temporaries."""


def memory_model_of(solver: str) -> MemoryModel:
    """Return the memory model of a solver; for a model of an extension, that of the built-in models."""
    return MEMORY_MODELS["c-svm"] if solver not in MEMORY_MODELS and is_model(solver) else MEMORY_MODELS[solver]


# The size of the data, of a data set or assumed


@dataclass(frozen=True)
class Workload:
    """Size of the training data.

    n_classes : 0 for regression; features : names of the input columns
    rows, shard_rows, group_rows : training rows in total, in the largest shard and in the largest row group
    shards : number of shards with training rows
    """

    task: Task
    n_classes: int
    features: tuple[str, ...]
    rows: int
    shards: int
    shard_rows: int
    group_rows: int

    @property
    def n_outputs(self) -> int:
        """Return the number of scores of a row."""
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
    )


def assumed_workload(
    rows: int, columns: int, task: Task, n_classes: int, settings: IngestSettings | None = None
) -> Workload:
    """Return the size of assumed data after ingestion with the given settings."""
    ingest_settings = settings or IngestSettings()
    shard_rows = min(rows, ingest_settings.rows_per_shard)
    return Workload(
        task,
        {"binary": 2, "multiclass": n_classes, "regression": 0}[task],
        tuple(f"x{index}" for index in range(columns)),
        rows,
        -(-rows // shard_rows),
        shard_rows,
        min(shard_rows, ingest_settings.rows_per_group),
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
        """Return the bytes of a worker process."""
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
        reread = f"{100 * self.missing_share:.0f}% of the rows are read again every round"
        cached = "all rows stay decoded" if self.held >= self.wanted else reread
        return (
            f"memory: {where} takes at most {self.worker / MIB:,.0f}{of_limit} MiB ({self.block / MIB:,.0f} a block, "
            f"{self.vectors / MIB:,.0f} vectors, {self.held / MIB:,.0f} cached rows; {cached})"
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
    model, item = memory_model_of(settings.solver), 4 if settings.precision == "float32" else 8
    n_inputs, columns = len(workload.features), n_columns(settings, len(workload.features))
    streams = mode_of(settings) == "stream"
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
        if model.unit == "moment":
            wanted, block = 0, block + 3 * 8 * columns**2
    part = _part_bytes(settings, workload, columns, item)
    answers_each, answers = shards_each, workload.shards
    if settings.solver == "ridge":  # one answer a chunk, a few chunks at a time
        answers_each, answers = -(-STRETCHES_AT_ONCE // max(1, workers)), STRETCHES_AT_ONCE
    messages = int(2 * part * (answers_each + 1)) if workers else int(2 * part)
    fixed = {
        "process": PROCESS_BYTES,
        "block": int(block),
        "vectors": 8 * model.vectors * rows_each,
        "messages": messages,
    }
    driver = PROCESS_BYTES + int(2 * part * (answers + 2)) + (48 * columns**2 if model.unit == "moment" else 0)
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


def _fitted(fixed: dict[str, int], held: int, wanted: int, driver: int, limit: int | None, workers: int) -> MemoryPlan:
    if limit is not None:
        room = int(USABLE * limit) - sum(fixed.values())
        if room < 0:
            largest = max((name for name in fixed if name != "process"), key=fixed.__getitem__)
            raise ConfigError(
                f"{'A worker' if workers else 'This process'} needs {sum(fixed.values()) / MIB:,.0f} MiB "
                f"({', '.join(f'{name} {size / MIB:,.0f}' for name, size in fixed.items())}), more than {USABLE:.0%} "
                f"of its limit of {limit / MIB:,.0f} MiB. {_REMEDIES[largest]}"
            )
        held = min(held, room)
    return MemoryPlan(**fixed, held=held, wanted=wanted, driver=driver, limit=limit)


_REMEDIES = {
    "block": "Ingest with smaller rows_per_group and rows_per_shard, use fewer frequencies or landmarks, or use "
    "more memory.",
    "vectors": "Use more workers or more memory for each.",
    "messages": "Use fewer frequencies or landmarks or a smaller budget, or ingest with more rows_per_shard.",
}


def n_columns(settings: TrainSettings, n_inputs: int) -> int:
    """Return the number of columns of the feature map of the settings; without a map that of the inputs."""
    if settings.solver == "ridge" and settings.kernel != "linear":
        return N_LANDMARKS if settings.n_landmarks == "auto" else settings.n_landmarks
    if settings.solver == "nogd":
        return settings.budget if settings.rank == "auto" else settings.rank
    in_map = settings.kernel != "linear" and settings.map != "exact"
    return 2 * settings.frequencies if in_map and settings.solver not in STRATEGIES else n_inputs


def _part_bytes(settings: TrainSettings, workload: Workload, columns: int, item: int) -> float:
    model = memory_model_of(settings.solver)
    outputs = workload.n_outputs
    if model.unit == "moment":
        matrices = 1 if settings.solver == "ridge" else 2  # of all rows, or one a class
        return float(8 * columns * (matrices * columns + outputs))
    if settings.solver in STRATEGIES:
        vectors = settings.budget if model.state == "budget" else workload.rows
        return float(vectors * (len(workload.features) + outputs + 2) * item)
    landmarks = settings.budget * len(workload.features) * item if settings.solver == "nogd" else 0
    return float(3 * 8 * columns * outputs + landmarks)


# Checks before training

TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")


def check(settings: TrainSettings) -> None:
    """Check settings as far as possible without reading rows or starting a server or workers.

    Raises
    ------
    OklError : settings, data or execution options are invalid
    """
    check_workers(settings)
    check_mode_options(settings)
    if is_dataset(settings.data):
        check_not_ingested(settings.data, settings.ingest)
        check_solver(settings, training_columns(settings, open_dataset(settings.data)))
    else:
        ingest = settings.ingest or IngestSettings()
        check_source(settings.data, ingest)
        check_solver_unread(settings, ingest)
    check_published(run_folder(settings))  # last: it may make okl's home folder


def check_mode_options(settings: TrainSettings) -> None:
    """Raise ConfigError for rounds, step_rule and certify where the mode of the run does not use them."""
    if settings.rounds != "auto" and mode_of(settings) == "stream":
        raise ConfigError(
            "rounds applies to the modes mix and sum, but the mode is stream. Set --mode mix or --mode sum."
        )
    if settings.step_rule == "plain" and mode_of(settings) != "sum":
        raise ConfigError(
            f"step_rule = 'plain' applies to the mode sum, but the mode is {mode_of(settings)}. Remove it, or "
            "set --mode sum."
        )
    _check_certify(settings)


def check_solver(settings: TrainSettings, data: Dataset) -> None:
    """Raise ConfigError if the solver cannot train on the data set with these settings."""
    if settings.solver == "auto":  # the automatic choice selects solvers that fit
        check_options(settings)
        return
    solver = make_solver(settings, data)
    if isinstance(solver, AcceleratedSolver):
        solver.check(data.schema)
    elif isinstance(solver, SubgradientSolver | RidgeSolver):
        solver.check(data.schema, data.rows("train"))
    else:
        check_factory(solver.factory, data.schema, data.rows("train"))


def _check_certify(settings: TrainSettings) -> None:
    """Raise ConfigError for certify with fogd in another mode than stream or in several passes."""
    if not settings.certify or settings.solver != "fogd":
        return
    if (mode := mode_of(settings)) != "stream":
        raise ConfigError(
            f"certify conflicts with mode {mode}: regret is defined for rows that are trained on in order. Set --mode "
            "stream, or remove certify."
        )
    if settings.passes != 1:
        raise ConfigError(
            f"certify conflicts with passes = {settings.passes}: regret is defined for a single pass. Remove "
            "one of them."
        )


def check_solver_unread(settings: TrainSettings, ingest: IngestSettings) -> None:
    """Raise ConfigError for settings that fit no possible task of a source that has not been read yet."""
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
            factory = make_factory(unweighted, schema)
            check_mode(factory, mode_of(settings))
            return check_factory(factory, schema, None)
        except ConfigError as error:
            refused.append(error)
    raise refused[0]


# `okl plan`: memory and failed checks of one solver or of all, for a data set or for assumed sizes


@dataclass(frozen=True)
class AssumedData:
    """Assumed size of the data: numbers of training rows, input columns and classes (multiclass), and the task."""

    rows: int
    columns: int
    task: Task = "binary"
    n_classes: int = 3


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
            "columns": len(self.workload.features),
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
    if assumed is None:
        opened = open_dataset(settings.data)
        check_not_ingested(settings.data, settings.ingest)
        data = training_columns(settings, opened)
    workload = _assumed(settings, assumed) if data is None else workload_of(data)

    def checked(of: TrainSettings) -> TrainSettings:
        check_mode_options(of)
        if data is not None:
            check_solver(of, data)
        else:
            check_solver_unread(of, (of.ingest or IngestSettings()).model_copy(update={"task": workload.task}))
        return of

    def planned(of: TrainSettings) -> SolverPlan:
        limit = worker_memory_bytes or memory_bytes() // max(1, of.workers)
        memory = plan_memory(of, workload, of.workers, limit, process_cache().limit_bytes)
        return SolverPlan(of.solver, mode_of(of), of.workers, memory)

    if not every_solver:
        return PlanReport(workload, (planned(_with_solver(checked(settings), data)),))
    plans: list[SolverPlan] = []
    refused: list[tuple[str, str]] = []
    for name in get_args(SolverName):
        try:
            plans.append(planned(checked(for_solver(settings, name))))
        except ConfigError as error:
            refused.append((name, str(error)))
    return PlanReport(workload, tuple(plans), tuple(refused))


def _with_solver(settings: TrainSettings, data: Dataset | None) -> TrainSettings:
    """Return the settings after the automatic choice; with fogd for assumed data."""
    if settings.solver != "auto":
        return settings
    if data is None:
        return settings.model_copy(update={"solver": "fogd"})
    return choose(settings, data).settings


def for_solver(settings: TrainSettings, name: SolverName) -> TrainSettings:
    """Return the same settings for another solver, without the options that it does not take."""
    default = TrainSettings(data=settings.data)
    others = frozenset().union(*OPTIONS.values()) - options_of(name)
    dropped = {field: getattr(default, field) for field in others}
    own = TrainSettings(data=settings.data, solver=name)
    precise = {} if "precision" in settings.model_fields_set else {"precision": own.precision}
    return settings.model_copy(update=dropped | precise | {"solver": name})


def _assumed(settings: TrainSettings, assumed: AssumedData | None) -> Workload:
    assert assumed is not None
    if assumed.rows < 1 or assumed.columns < 1 or assumed.n_classes < 3:
        raise ConfigError(
            f"rows = {assumed.rows}, columns = {assumed.columns}, classes = {assumed.n_classes}: expected at "
            "least 1 row, 1 column and 3 classes."
        )
    return assumed_workload(
        assumed.rows, assumed.columns, assumed.task, assumed.n_classes, settings.ingest or IngestSettings()
    )


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
    head = f"{workload.rows:,} rows x {len(workload.features)}, {shards}, {workload.task}"
    if len(report.plans) == 1 and not report.refused:
        return "\n".join([head, *_lines(report.plans[0])])
    return "\n".join([head, "", *_table(report.plans), *(f"{name}: {why}" for name, why in report.refused)])


def _lines(plan: SolverPlan) -> list[str]:
    where = f"{plan.workers} workers" if plan.workers > 1 else ("1 worker" if plan.workers else "this process")
    lines = [
        f"{plan.solver}, mode {plan.mode}, {where}",
        f"  {plan.memory.sentence(plan.workers)}; the driver takes {size(plan.memory.driver)}",
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
