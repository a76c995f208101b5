"""What rounds take: of workers, of what carries messages, of the network and of the caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from okl.configuration import TrainSettings
from okl.execution.dask.delivery import HANDLER_SECONDS
from okl.planning.kinds import LARGE, Kind, Rehearsed
from okl.planning.laws import Law, law_of
from okl.planning.machine import Machine
from okl.planning.memory import MemoryPlan
from okl.planning.network import HANDLER_TRIPS, TASK_TRIPS, Network
from okl.planning.standin import N_SHARDS, Scene
from okl.subgradient.growth import FIRST_SAMPLE


@dataclass(frozen=True)
class Cluster:
    """What runs it. workers : processes, 0 for this one alone; threads : of this process; network : between them"""

    workers: int
    threads: int
    network: Network
    machine: Machine

    @property
    def crowding(self) -> float:
        """How much longer work takes where workers share the cores of this machine."""
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
        """Of the solver."""
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
