"""How much memory a run takes, in a worker and in the process that drives it, from its configuration alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from okl.accelerated.sharded.rows import SEGMENT
from okl.configuration import TrainSettings
from okl.errors import ConfigError
from okl.execution.protocol import Execution
from okl.execution.resident import process_cache
from okl.online.budget.strategies import STRATEGIES
from okl.planning.laws import law_of
from okl.planning.meaning import mode_of
from okl.planning.standin import Scene, scene_of
from okl.ridge.solver import N_LANDMARKS, STRETCHES_AT_ONCE
from okl.store.dataset import Dataset
from okl.store.order import WINDOW_BYTES

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
        """Of a worker."""
        return self.process + self.block + self.vectors + self.messages + self.held

    @property
    def missing_share(self) -> float:
        """Of a worker's rows those that are read again every round."""
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
    held_limit_bytes : of rows that may stay decoded, see okl.execution.resident
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
