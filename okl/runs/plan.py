"""Plan of a run before training, and checks of its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from okl.data.dataset import Dataset, Schema, SparseColumns
from okl.data.describe import size
from okl.data.ingest.run import check_not_ingested
from okl.data.ingest.sources import kind_by_name
from okl.data.manifest import open_dataset
from okl.distributed.cache import process_cache
from okl.distributed.cluster_file import check_execution_options
from okl.foundation.errors import ConfigError
from okl.foundation.folders import check_published
from okl.foundation.settings import IngestSettings
from okl.foundation.telemetry import memory_bytes
from okl.foundation.types import Mode, Task
from okl.metrics.criterion import criterion_of
from okl.report.format import aligned, counted
from okl.runs.calibrate import check_threshold, class_weights_of
from okl.runs.memory import AssumedData, MemoryPlan, Workload, plan_memory, workload_of
from okl.runs.run import check_data, run_folder
from okl.runs.select import choose_solver
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.factory import SPARSE_SOLVERS, check_rows, training_columns
from okl.solvers.online.settings import check_factory
from okl.solvers.online.solver import OnlineSolver
from okl.solvers.options import ClassWeightOptions
from okl.solvers.ridge.cells import LocalSolver
from okl.solvers.ridge.falkon import FalkonSolver
from okl.solvers.ridge.solver import RidgeSolver
from okl.solvers.settings import SOLVER_NAMES, TrainSettings
from okl.solvers.subgradient.solver import SubgradientSolver

# Checks before training

TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")


def check(settings: TrainSettings) -> None:
    """Check settings as far as possible without reading rows or starting anything; raise OklError."""
    check_execution_options(settings)
    check_data(
        settings,
        lambda data: check_solver(settings, training_columns(settings, data)),
        lambda ingest_settings: check_solver_unread(settings, ingest_settings),
    )
    check_published(run_folder(settings))  # last: it may make okl's home folder


def check_solver(settings: TrainSettings, data: Dataset) -> None:
    """Raise ConfigError if the solver cannot train on the data set with these settings."""
    settings.check_options()
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
    settings.check_options()
    if settings.solver == "auto":
        return None
    options = settings.options
    if isinstance(options, ClassWeightOptions):  # labels are not known yet
        settings = settings.model_copy(update={"options": options.model_copy(update={"class_weights": "none"})})
    refused: list[ConfigError] = []
    kinds: list[SparseColumns | None] = [SparseColumns(1)] if ingest.text else [None]
    if settings.solver in SPARSE_SOLVERS and kind_by_name(settings.data) == "svmlight":
        kinds.append(SparseColumns(1))
    for task in TASKS if ingest.task == "auto" else (ingest.task,):
        labels = (0, 1, 2)[: {"binary": 2, "multiclass": 3}.get(task, 0)]
        for sparse in kinds:
            schema = Schema(("x",) if sparse is None else (), ingest.target, task, labels, sparse=sparse)
            try:
                check_rows(settings, schema)
                return _check_built(settings, schema, None)
            except ConfigError as error:
                refused.append(error)
    raise refused[0 if len(kinds) == 1 else -1]


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

    No rows are read, except for the automatic choice of a solver, which samples rows; of assumed data it is fogd.

    settings : settings of the run; data is a data set unless `assumed` is given
    every_solver : plan all solvers instead of that of the settings
    worker_memory_bytes : memory limit of a worker; None: an equal share of the memory of this machine
    Raises ConfigError, DataError : invalid settings or data; ConfigError : too little memory
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
        settings = checked(settings)
        if settings.solver == "auto":
            settings = settings.replaced(solver="fogd") if data is None else choose_solver(settings, data).settings
        return PlanReport(workload, (planned(settings),))
    plans: list[SolverPlan] = []
    refused: list[tuple[str, str]] = []
    for name in SOLVER_NAMES:
        try:
            plans.append(planned(checked(settings.replaced(solver=name))))
        except ConfigError as error:
            refused.append((name, str(error)))
    return PlanReport(workload, tuple(plans), tuple(refused))


def plan_text(report: PlanReport) -> str:
    """Return the text of a report: lines for one plan, a table for several."""
    workload = report.workload
    head = f"{workload.rows:,} rows x {workload.n_inputs}, {counted(workload.shards, 'shard')}, {workload.task}"
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
        (plan.solver, plan.mode, size(plan.memory.worker), size(plan.memory.driver), f"{plan.memory.missing_share:.0%}")
        for plan in plans
    ]
    return [*aligned([columns, *rows], numbers_from=2), "", "read again: share of the rows read again every round"]
