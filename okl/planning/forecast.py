"""From a rehearsal, the machine and the network to what a run will take: seconds, bytes, memory, and where it stops."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from okl.accelerated.catalogue import is_model
from okl.planning.meaning import default_rounds, mode_of
from okl.planning.memory import MemoryPlan
from okl.planning.network import HANDLER_DOWN, HANDLER_UP, TASK_DOWN, TASK_UP, on_the_wire
from okl.planning.rounds import Cluster, Rounds, Setting, Totals

LEAST_PAUSE, MOST_PAUSE = 10, 100  # iterations between checks of a gap, see okl.accelerated.fapg


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
