"""From a rehearsal, the machine and the network to what a run will take: seconds, bytes, memory, and where it stops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from okl.accelerated.catalogue import MODEL_NAMES
from okl.configuration import TrainSettings
from okl.execution.dask.delivery import HANDLER_SECONDS
from okl.planning.beforehand import default_rounds, mode_of
from okl.planning.laws import Law, law_of
from okl.planning.machine import Machine
from okl.planning.memory import MemoryPlan
from okl.planning.network import (
    HANDLER_DOWN,
    HANDLER_TRIPS,
    HANDLER_UP,
    TASK_DOWN,
    TASK_TRIPS,
    TASK_UP,
    Network,
    on_the_wire,
)
from okl.planning.rehearsal import LARGE, Kind, Rehearsed
from okl.planning.standin import N_SHARDS, Scene
from okl.subgradient.growth import FIRST_SAMPLE

LEAST_PAUSE, MOST_PAUSE = 10, 100  # iterations between checks of a gap, see okl.accelerated.fapg


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
        """Of learning."""
        return self.compute_seconds + self.load_seconds + self.communication_seconds + self.own_seconds

    @property
    def communication_seconds(self) -> float:
        """Of engine and network."""
        return self.engine_seconds + self.network_seconds

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        names = [name for name in self.__dataclass_fields__ if name != "memory"]
        return {"seconds": self.seconds} | {name: getattr(self, name) for name in names} | self.memory.as_json()


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
    rounds = _Rounds(of, cluster, memory, units)
    totals, number, work = _Totals(), 0.0, False
    for kind in of.rehearsed.kinds:
        times = kind.begun + kind.each * units + kind.checked * checks
        if times:
            rounds.add(totals, kind, times, not work)
            number, work = number + times, True
    heaviest = max((kind.load_seconds for kind in of.rehearsed.kinds), default=0.0)
    rows = rounds.rows_each if of.law.unit != "sample" else 0.0
    load = max(heaviest, of.read_seconds) * rows / rounds.at_once * cluster.crowding
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


@dataclass
class _Totals:
    compute: float = 0.0
    engine: float = 0.0
    network: float = 0.0
    own: float = 0.0
    sent: float = 0.0
    received: float = 0.0
    handled: float = 0.0
    tasked: float = 0.0


class _Rounds:
    """What the rounds of a kind take."""

    def __init__(self, of: Setting, cluster: Cluster, memory: MemoryPlan, units: int) -> None:
        self._of, self._cluster, self._units = of, cluster, units
        self._missing = memory.missing_share
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

    def add(self, totals: _Totals, kind: Kind, times: float, first: bool) -> None:
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


def _units(of: Setting) -> tuple[int, float]:
    """Rounds of all passes, or iterations of all classes, and checks of a gap in these."""
    settings = of.settings
    if of.law.unit == "pass":
        asked = settings.rounds
        rounds = default_rounds(settings.solver, mode_of(settings), of.scene.rows) if asked == "auto" else asked
        return rounds * settings.passes, 0.0
    iterations = of.law.iterations(settings, of.iterations)
    if settings.solver not in MODEL_NAMES:
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
