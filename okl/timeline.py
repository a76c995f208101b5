"""Where the time of a run went: read, map, learn, wait, network, of this process and of each worker.

The seconds of a run fall into a bounded number of buckets of equal length, which double when it goes on.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

READ, MAP, LEARN, WAIT, NETWORK, OTHER = "read", "map", "learn", "wait", "network", "other"
PHASES = (READ, MAP, LEARN, WAIT, NETWORK, OTHER)
LEARNING = "learn"  # the stage whose rest, after reading and mapping, is learning
DRIVER = "driver"
MOST_BUCKETS = 256
FIRST_WIDTH_SECONDS = 1 / 64


class Cell(NamedTuple):
    """Seconds that a lane spent in a phase, in one bucket of one stage; times since the run began."""

    stage: str
    begin_seconds: float
    lane: str
    phase: str
    seconds: float


@dataclass
class Stage:
    """A stage of a run, and when it began and ended (perf_counter)."""

    name: str
    begun: float
    ended: float


class Timeline:
    """The record of a run; used by any thread.

    Attributes
    ----------
    begun : when it began (perf_counter); width : seconds of a bucket
    owner : the thread whose spans are the driver's: whoever began the last stage
    """

    def __init__(self) -> None:
        self.begun = perf_counter()
        self.width = FIRST_WIDTH_SECONDS
        self.owner = threading.get_ident()
        self.stages: list[Stage] = []
        self._lock = threading.Lock()
        self._cells: defaultdict[tuple[int, int, str, str], float] = defaultdict(float)
        self._first: dict[str, float] = {}
        self._gone: dict[str, float] = {}
        self._until: dict[str, float] = {}

    def stage(self, name: str) -> None:
        """Begin a stage; the one before it ends."""
        now = perf_counter()
        self.finish(now)
        self.owner = threading.get_ident()
        self.stages.append(Stage(name, now, float("inf")))

    def finish(self, now: float | None = None) -> None:
        """End the last stage."""
        if self.stages:
            self.stages[-1].ended = min(self.stages[-1].ended, perf_counter() if now is None else now)

    def add(self, lane: str, phase: str, begun: float, ended: float, seconds: float) -> None:
        """Count seconds of a phase, spread evenly from begun to ended (perf_counter), to the stage that runs."""
        if not self.stages or seconds <= 0.0:
            return
        begun = max(begun, self.stages[-1].begun)
        with self._lock:
            self._first.setdefault(lane, begun)
            start, stop = begun - self.begun, max(ended, begun) - self.begun
            while stop >= MOST_BUCKETS * self.width:
                self._double()
            first, last = int(start / self.width), int(stop / self.width)
            at = len(self.stages) - 1
            for bucket in range(first, last + 1):
                inside = min(stop, (bucket + 1) * self.width) - max(start, bucket * self.width)
                share = inside / (stop - start) if stop > start else 1.0
                self._cells[at, bucket, lane, phase] += seconds * share

    def worked(self, lane: str, now: float, taken: float, seconds: float, phases: Mapping[str, float]) -> None:
        """See the function of this name in okl.spans."""
        if not self.stages:
            return
        begun = max(now - taken, self._until.get(lane, 0.0))  # what it was given before came first
        self._until[lane] = now
        self._gone.pop(lane, None)
        seconds = min(seconds, now - begun)
        away = (now - begun - seconds) / 2  # half of it on the way there
        self.add(lane, NETWORK, begun, begun + away, away)
        for phase, own in phases.items():
            self.add(lane, phase, begun + away, now - away, own)
        rest = LEARN if self.stages[-1].name == LEARNING else OTHER
        self.add(lane, rest, begun + away, now - away, seconds - sum(phases.values()))
        self.add(lane, NETWORK, now - away, now, away)

    def gone(self, lane: str) -> None:
        """See the function of this name in okl.spans."""
        self._gone[lane] = perf_counter()

    def lanes(self) -> list[str]:
        """The driver, then workers or threads in the order in which they were first heard of."""
        found = sorted(self._first, key=lambda lane: self._first[lane])
        return [DRIVER, *(lane for lane in found if lane != DRIVER)]

    def cells(self) -> list[Cell]:
        """All that is known, in order: what no span has counted is the driver's own work, or a worker's waiting."""
        with self._lock:
            told, width, begun = dict(self._cells), self.width, self.begun
        found = []
        for at, stage in enumerate(self.stages):
            first, last = (int((time - begun) / width) for time in (stage.begun, min(stage.ended, perf_counter())))
            for bucket in range(first, last + 1):
                for lane in self.lanes():
                    spent = {phase: told.get((at, bucket, lane, phase), 0.0) for phase in PHASES}
                    spent[_rest_of(lane, stage.name)] += max(0.0, self._there(at, bucket, lane) - sum(spent.values()))
                    start = bucket * width
                    found += [Cell(stage.name, start, lane, phase, spent[phase]) for phase in PHASES if spent[phase]]
        return found

    def _there(self, at: int, bucket: int, lane: str) -> float:
        """Seconds of a bucket of a stage in which a lane was there."""
        stage = self.stages[at]
        ended = min(stage.ended, perf_counter(), self._gone.get(lane, float("inf")))
        begun = stage.begun if lane == DRIVER else max(stage.begun, self._first[lane])
        low, high = self.begun + bucket * self.width, self.begun + (bucket + 1) * self.width
        return max(0.0, min(high, ended) - max(low, begun))

    def _double(self) -> None:
        self.width *= 2
        merged: defaultdict[tuple[int, int, str, str], float] = defaultdict(float)
        for (at, bucket, lane, phase), seconds in self._cells.items():
            merged[at, bucket // 2, lane, phase] += seconds
        self._cells = merged


def _rest_of(lane: str, stage: str) -> str:
    if lane != DRIVER:
        return WAIT
    return LEARN if stage == LEARNING else OTHER
