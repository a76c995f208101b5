"""Memory of a run, planned from the size of the data and the settings before any row is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.order import WINDOW_BYTES
from okl.data.reading import stored_row_bytes
from okl.distributed.cache import process_cache
from okl.foundation.errors import ConfigError
from okl.foundation.settings import IngestSettings
from okl.foundation.telemetry import memory_bytes
from okl.foundation.types import Task
from okl.solvers.accelerated.shards import SEGMENT
from okl.solvers.options import FourierOptions
from okl.solvers.settings import TrainSettings

# The size of the data, of a data set or assumed


@dataclass(frozen=True)
class Workload:
    """Size of the training data.

    n_classes : 0 for regression; features : number of input columns
    rows, shard_rows, group_rows : training rows in total, in the largest shard and in the largest row group
    shards : number of shards with training rows
    sparse_columns, sparse_row_bytes : of sparse rows, beside the features, and the mean bytes of one; 0 without
    """

    task: Task
    n_classes: int
    features: int
    rows: int
    shards: int
    shard_rows: int
    group_rows: int
    sparse_columns: int = 0
    sparse_row_bytes: int = 0

    @property
    def n_inputs(self) -> int:
        """Return the number of inputs, sparse ones among them."""
        return self.features + self.sparse_columns

    @property
    def n_outputs(self) -> int:
        return self.n_classes if self.task == "multiclass" else 1


def workload_of(data: Dataset) -> Workload:
    """Return the size of a data set."""
    shards = data.split("train")
    return Workload(
        data.schema.task,
        len(data.schema.labels),
        len(data.schema.features),
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
            self.columns,
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
        an entry a row, and models that grow with the rows; messages : messages of a round; held : cached decoded rows;
        wanted : all decoded rows
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
    settings: TrainSettings, workload: Workload, workers: int, limit_bytes: int | None, held_limit_bytes: int
) -> MemoryPlan:
    """Plan the memory of a run. Rows that do not fit are read again every round, which gives the same bits.

    workers : 0 for this process alone; limit_bytes : memory limit of a worker, None without one
    held_limit_bytes : limit of cached decoded rows, see okl.distributed.cache
    Raises ConfigError : the run does not fit even without cached rows; the size of a block decides bits and stays
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
        if workload.sparse_columns:
            raw_row = workload.sparse_row_bytes
            block = 3 * max(workload.group_rows * raw_row, WINDOW_BYTES)
        wanted = 0 if streams else rows_each * raw_row
    else:
        block = workload.group_rows * (raw_row + 8 * (n_inputs + 1)) + 2 * SEGMENT * columns * item
        wanted = rows_each * (columns * item + 8)
        if workload.sparse_columns:
            block, row_bytes = 3 * workload.group_rows * workload.sparse_row_bytes, workload.sparse_row_bytes
            if columns < n_inputs:  # they are mapped
                block, row_bytes = block + 4 * SEGMENT * columns * item, columns * item + 8
            wanted = rows_each * row_bytes
        if model.unit == "moment":
            # rows fewer than the columns of a map are solved in what they span
            wanted, block = 0, block + 3 * 8 * columns * min(columns, 3 * workload.rows)
        elif model.unit == "kernel":  # without workers the preconditioner, which is in the driver alone, stands here
            wanted, block = 0, workload.group_rows * (raw_row + 8) + 256 * columns * item
            block += 0 if workers else columns**2 * item
    if workload.sparse_columns and isinstance(options, FourierOptions):
        block += options.map_bytes(n_inputs, item)
    if workload.sparse_columns and columns < n_inputs:
        n_inputs = workload.sparse_row_bytes // 8  # of a landmark
    part = options.part_bytes(n_inputs, workload.n_outputs, workload.rows, item)
    answers_each, answers = shards_each, workload.shards
    if model.answers is not None:  # one answer a chunk, a few chunks at a time
        answers_each, answers = -(-model.answers // max(1, workers)), model.answers
    model_bytes = int(options.model_bytes(n_inputs, workload.n_outputs, workload.rows, item))
    messages = int(2 * part * (answers_each + 1)) if workers else int(2 * part)
    fixed = {
        "process": PROCESS_BYTES,
        "block": int(block),
        "vectors": 8 * model.vectors * rows_each + model_bytes,
        "messages": messages,
    }
    square_bytes = {"moment": 48 * columns**2, "kernel": columns**2 * item}.get(model.unit, 0)
    driver = PROCESS_BYTES + int(2 * part * (answers + 2)) + square_bytes + model_bytes
    return _checked_fit(fixed, min(held_limit_bytes, wanted), wanted, driver, limit_bytes, workers)


def plan_memory_on(settings: TrainSettings, data: Dataset, execution: Execution) -> MemoryPlan:
    """Plan a run's memory on its executor, lower the row cache there; ConfigError before any row is read."""
    usual = process_cache().limit_bytes
    plan = plan_memory(settings, workload_of(data), execution.n_workers, execution.memory_limit_bytes, usual)
    if plan.held < min(plan.wanted, usual):
        execution.hold(plan.held)
    return plan


def choice_bytes(rows: int, landmarks: int, inputs: int) -> int:
    """Return the bytes of a round of the automatic choice: a process, three matrices of kernel values and inputs."""
    return PROCESS_BYTES + 3 * 8 * rows * (landmarks + inputs)


def check_choice_memory(needed: int, limit_bytes: int) -> None:
    """Raise ConfigError if the automatic choice does not fit into the memory, before any row is read."""
    if needed > USABLE * limit_bytes:
        raise ConfigError(
            f"The automatic choice needs {needed / MIB:,.0f} MiB, more than {USABLE:.0%} of the limit of "
            f"{limit_bytes / MIB:,.0f} MiB. Name a solver, such as --solver fogd, or use more memory."
        )


def fits(settings: TrainSettings, workload: Workload) -> bool:
    """Return whether a model can be trained in the memory of this machine, shared by the workers."""
    try:
        limit = memory_bytes() // max(1, settings.workers)
        plan_memory(settings, workload, settings.workers, limit, process_cache().limit_bytes)
    except ConfigError:
        return False
    return True


def _checked_fit(
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
