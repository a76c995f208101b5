"""Progress messages, logging, timers and the timeline of a run."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple, Protocol

# Progress observers.


class Observer(Protocol):
    """Someone who watches a run; every call must return within microseconds, as it is made from the learning loop."""

    def stage(self, name: str) -> None:
        """A stage begins, such as `learn`; the one before it is over."""

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        """Report progress: `done` of `total` rows of this stage (0: unknown), and `metrics` so far, such as
        `mistake_rate`.
        """

    def finish(self) -> None:
        """The run is over, well or badly; nothing more will come. A second call does nothing."""


class NullObserver:
    """An observer that looks away."""

    def stage(self, name: str) -> None:
        """Ignore the stage."""

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        """Report progress: `done` of `total` rows of this stage (0: unknown), and `metrics` so far, such as
        `mistake_rate`.
        """

    def finish(self) -> None:
        """Ignore the end."""


class WatchedRun(Protocol):
    """A run whose stages are methods without arguments; `close` frees what it holds, and removes what is incomplete."""

    @property
    def observer(self) -> Observer: ...

    def result(self) -> dict[str, Any]: ...

    def close(self) -> None: ...


def perform(run: WatchedRun, stages: Sequence[str]) -> dict[str, Any]:
    """Perform the stages in order, and close the run whatever happens; its result."""
    try:
        for stage in stages:
            run.observer.stage(stage)
            getattr(run, stage)()
        return run.result()
    finally:
        run.close()
        run.observer.finish()


# Logging with the run and the shard of each record.
#
# A worker's records go to Dask's own log of that worker, under `distributed.worker.okl`; warnings are also carried
# back with the answer, and logged here. Each record has the attributes `run` and `shard`, and begins with them.

MOST_TOLD = 20  # warnings that one answer carries back
WORKER_LOGGER = "distributed.worker.okl"

Told = list[tuple[int, str]]
"""Level and text of each warning."""


class _Here(threading.local):
    """State of a thread: its call and shard, and the list that collects its warnings, if any."""

    def __init__(self) -> None:
        self.call = ""
        self.shard = ""
        self.told: Told | None = None


_here = _Here()
_run = ""


class RunLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose records say of which run and shard they are."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Put run and shard before the message, and into the record, unless it begins with its run already."""
        run = _here.call.removeprefix("run ").rpartition(", ")[0] or _run
        kwargs["extra"] = {"run": run, "shard": _here.shard} | dict(kwargs.get("extra") or {})
        where = _where()
        if not where or str(msg).startswith("%s: "):  # which is a call's label
            return msg, kwargs
        return f"{where.replace('%', '%%')}: {msg}", kwargs


def _where() -> str:
    call = _here.call or (f"run {_run}" if _run else "")
    return ", ".join(filter(None, [call, _here.shard]))


def run_logger(name: str = "okl") -> RunLogger:
    """The logger of a name, as a `RunLogger`."""
    return RunLogger(logging.getLogger(name), {})


@contextmanager
def naming(run: str) -> Iterator[None]:
    """Name the run that this process is at, until the end of the block."""
    global _run
    before, _run = _run, run
    try:
        yield
    finally:
        _run = before


def at_shard(name: str) -> None:
    """Name the shard or item that this thread works on from here on."""
    _here.shard = name


@contextmanager
def at_call(call: str) -> Iterator[Told]:
    """Name the call that this thread of a worker works on, such as "run NAME, mix 12", and collect its warnings."""
    logger = logging.getLogger("okl")
    if not any(isinstance(handler, _Worker) for handler in logger.handlers):
        logger.addHandler(_Worker())
    before = _here.call, _here.shard, _here.told
    _here.call, _here.shard, _here.told = call, "", []
    try:
        yield _here.told
    finally:
        _here.call, _here.shard, _here.told = before


def tell_failure(failure: Exception) -> None:
    """Log a failure on a worker, in its own log only: the caller raises it."""
    logging.getLogger(WORKER_LOGGER).error("%s failed: %s: %s", _where(), type(failure).__name__, failure)


class _Worker(logging.Handler):
    """In a worker process: what okl logs goes to Dask's log of the worker, and warnings to whoever asked for work."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        logging.getLogger(WORKER_LOGGER).log(record.levelno, "%s", text)
        if record.levelno >= logging.WARNING and _here.told is not None and len(_here.told) < MOST_TOLD:
            _here.told.append((record.levelno, text))


# The timeline: read, map, learn, wait and network, of this process and of each worker.
#
# The seconds of a run fall into a bounded number of buckets of equal length, which double when it goes on.

READ, MAP, LEARN, WAIT, NETWORK, OTHER = "read", "map", "learn", "wait", "network", "other"
PHASES = (READ, MAP, LEARN, WAIT, NETWORK, OTHER)
LEARNING = "learn"  # the stage whose rest, after reading and mapping, is learning
DRIVER = "driver"
MOST_BUCKETS = 256
FIRST_WIDTH_SECONDS = 1 / 64


class TimelineCell(NamedTuple):
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
        """See the function of this name in okl.foundation.telemetry."""
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
        """See the function of this name in okl.foundation.telemetry."""
        self._gone[lane] = perf_counter()

    def lanes(self) -> list[str]:
        """The driver, then workers or threads in the order in which they were first heard of."""
        found = sorted(self._first, key=lambda lane: self._first[lane])
        return [DRIVER, *(lane for lane in found if lane != DRIVER)]

    def cells(self) -> list[TimelineCell]:
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
                    found += [
                        TimelineCell(stage.name, start, lane, phase, spent[phase]) for phase in PHASES if spent[phase]
                    ]
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


# Timers.
#
# A span is summed in the thread that spends it and carried back with a worker's reply; clocks of machines are never
# compared. Without a record to write to, nothing is kept.


class _OpenSpans(threading.local):
    """State of a thread: seconds of the spans inside the open one, and where its spans are summed, if anywhere."""

    def __init__(self) -> None:
        self.inner = 0.0
        self.sums: defaultdict[str, float] | None = None


_open_spans = _OpenSpans()
_recorder: Timeline | None = None


class Span:
    """Counts the time of a `with` block, without that of spans inside it, as a phase; costs a microsecond."""

    __slots__ = ("_begun", "_outer", "_phase")

    def __init__(self, phase: str) -> None:
        self._phase, self._begun, self._outer = phase, 0.0, 0.0

    def __enter__(self) -> None:
        self._outer, _open_spans.inner = _open_spans.inner, 0.0
        self._begun = perf_counter()

    def __exit__(self, *_: object) -> None:
        stop = perf_counter()
        elapsed = stop - self._begun
        own, _open_spans.inner = elapsed - _open_spans.inner, self._outer + elapsed
        if _open_spans.sums is not None:
            _open_spans.sums[self._phase] += own
        elif (recorder := _recorder) is not None and recorder.owner == threading.get_ident():
            recorder.add(DRIVER, self._phase, self._begun, stop, own)


@contextmanager
def summed() -> Iterator[defaultdict[str, float]]:
    """Sum the spans of this thread by phase, in seconds, instead of recording them."""
    before, _open_spans.sums = _open_spans.sums, defaultdict(float)
    try:
        yield _open_spans.sums
    finally:
        _open_spans.sums = before


@contextmanager
def recording(timeline: Timeline) -> Iterator[Timeline]:
    """Record what this process and its workers do, until the end of the block."""
    global _recorder
    before, _recorder = _recorder, timeline
    try:
        yield timeline
    finally:
        _recorder = before


def worked(lane: str, taken: float, seconds: float, phases: Mapping[str, float]) -> None:
    """Note an answer that has just come: of the seconds taken, a worker (or thread) spent some, in such phases."""
    if (recorder := _recorder) is not None:
        recorder.worked(lane, perf_counter(), taken, seconds, phases)


def waited(begun: float, worked_seconds: float) -> None:
    """Note that this process has waited since a time for others, of whom the slowest worked for so long."""
    if (recorder := _recorder) is not None and recorder.owner == threading.get_ident():
        now = perf_counter()
        waiting = min(worked_seconds, now - begun)
        recorder.add(DRIVER, WAIT, begun, now, waiting)
        recorder.add(DRIVER, NETWORK, begun, now, now - begun - waiting)
        _open_spans.inner += now - begun


def gone(lane: str) -> None:
    """Note that a worker is gone."""
    if (recorder := _recorder) is not None:
        recorder.gone(lane)
