"""Progress messages, logging, timers and the timeline of a run, and the memory that it has."""

from __future__ import annotations

import logging
import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, Protocol

ROUNDING = 1e-10
"""Relative gap to the optimum below which only rounding errors are left."""


class Observer(Protocol):
    """Observer of a run. Every call must return within microseconds, since the training loop makes it."""

    def stage(self, name: str) -> None:
        """Report that a stage starts, such as `learn`, and that the previous one has ended."""

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        """Report progress: `done` of `total` rows of this stage (0: unknown), and `metrics` so far, such as
        `mistake_rate`.
        """

    def finish(self) -> None:
        """Report that the run has ended, successfully or not. A second call has no effect."""


class NullObserver:
    """Observer that ignores all calls."""

    def stage(self, name: str) -> None: ...
    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None: ...
    def finish(self) -> None: ...


# Logging with the run and the shard of each record.
#
# A worker writes records to Dask's log of that worker, under `distributed.worker.okl`; its reply also contains the
# warnings, which are logged here. Each record has the attributes `run` and `shard`, and starts with them.

MOST_RECORDS = 20  # warnings in one reply
WORKER_LOGGER = "distributed.worker.okl"

LogRecords = list[tuple[int, str]]
"""Level and text of each warning."""


class _LogContext(threading.local):
    """State of a thread: its call and shard, and the list that collects its warnings, if any."""

    call, shard = "", ""
    records: LogRecords | None = None


_context = _LogContext()
_run = ""


class RunLogger(logging.LoggerAdapter[logging.Logger]):
    """Logger whose records contain the run and the shard."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add run and shard to the message and to the record, unless the message already starts with its run."""
        run = _context.call.removeprefix("run ").rpartition(", ")[0] or _run
        kwargs["extra"] = {"run": run, "shard": _context.shard} | dict(kwargs.get("extra") or {})
        prefix = _prefix()
        if not prefix or str(msg).startswith("%s: "):  # the label of a call
            return msg, kwargs
        return f"{prefix.replace('%', '%%')}: {msg}", kwargs


def _prefix() -> str:
    call = _context.call or (f"run {_run}" if _run else "")
    return ", ".join(filter(None, [call, _context.shard]))


def run_logger(name: str = "okl") -> RunLogger:
    """Return the logger of a name, as a `RunLogger`."""
    return RunLogger(logging.getLogger(name), {})


@contextmanager
def naming(run: str) -> Iterator[None]:
    """Set the name of the run in log records of this process, until the end of the block."""
    global _run
    before, _run = _run, run
    try:
        yield
    finally:
        _run = before


def log_shard(name: str) -> None:
    """Set the name of the shard or item in log records of this thread."""
    _context.shard = name


@contextmanager
def log_context(call: str) -> Iterator[LogRecords]:
    """Set the call in log records of this thread, such as "run NAME, mix 12", and collect its warnings."""
    logger = logging.getLogger("okl")
    if not any(isinstance(handler, _WorkerHandler) for handler in logger.handlers):
        logger.addHandler(_WorkerHandler())
    before = _context.call, _context.shard, _context.records
    _context.call, _context.shard, _context.records = call, "", []
    try:
        yield _context.records
    finally:
        _context.call, _context.shard, _context.records = before


def log_failure(failure: Exception) -> None:
    """Log a failure on a worker, in the log of the worker only: the caller raises the error."""
    logging.getLogger(WORKER_LOGGER).error("%s failed: %s: %s", _prefix(), type(failure).__name__, failure)


@contextmanager
def at_level(level: int, *emitters: logging.Logger | logging.Handler) -> Iterator[None]:
    """Set the level of loggers or handlers in a block."""
    before = [emitter.level for emitter in emitters]
    for emitter in emitters:
        emitter.setLevel(level)
    try:
        yield
    finally:
        for emitter, old in zip(emitters, before, strict=True):
            emitter.setLevel(old)


class _WorkerHandler(logging.Handler):
    """Handler in a worker process: writes records to Dask's log of the worker, and collects warnings for the caller."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        logging.getLogger(WORKER_LOGGER).log(record.levelno, "%s", text)
        if record.levelno >= logging.WARNING and _context.records is not None and len(_context.records) < MOST_RECORDS:
            _context.records.append((record.levelno, text))


# The timeline: read, map, learn, wait and network, of this process and of each worker.
#
# The seconds of a run are counted in a bounded number of buckets, whose length doubles when the run exceeds them.

READ, MAP, LEARN, WAIT, NETWORK, OTHER = "read", "map", "learn", "wait", "network", "other"
PHASES = (READ, MAP, LEARN, WAIT, NETWORK, OTHER)
LEARNING = "learn"  # in this stage, time outside other phases counts as learning
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
    """Stage of a run, with its start and end (perf_counter)."""

    name: str
    begun: float
    ended: float


class Timeline:
    """Seconds of a run by stage, bucket, lane and phase; thread-safe.

    begun : start of the run (perf_counter); width : seconds of a bucket
    owner : the thread whose spans count for the driver: the one that began the last stage
    """

    def __init__(self) -> None:
        self.begun = perf_counter()
        self.width = FIRST_WIDTH_SECONDS
        self.owner = threading.get_ident()
        self.stages: list[Stage] = []
        self._lock = threading.Lock()
        self._cells: defaultdict[tuple[int, int, str, str], float] = defaultdict(float)
        self._first: dict[str, float] = {}
        self._lost: dict[str, float] = {}
        self._until: dict[str, float] = {}

    def stage(self, name: str) -> None:
        now = perf_counter()
        self.finish(now)
        self.owner = threading.get_ident()
        self.stages.append(Stage(name, now, float("inf")))

    def finish(self, now: float | None = None) -> None:
        if self.stages:
            self.stages[-1].ended = min(self.stages[-1].ended, perf_counter() if now is None else now)

    def add(self, lane: str, phase: str, started_at: float, ended: float, seconds: float) -> None:
        """Count seconds of a phase, spread evenly from started_at to ended (perf_counter), for the current stage."""
        if not self.stages or seconds <= 0.0:
            return
        started_at = max(started_at, self.stages[-1].begun)
        with self._lock:
            self._first.setdefault(lane, started_at)
            start, stop = started_at - self.begun, max(ended, started_at) - self.begun
            while stop >= MOST_BUCKETS * self.width:
                self.width *= 2
                merged: defaultdict[tuple[int, int, str, str], float] = defaultdict(float)
                for (stage, bucket, other, kind), spent in self._cells.items():
                    merged[stage, bucket // 2, other, kind] += spent
                self._cells = merged
            first, last = int(start / self.width), int(stop / self.width)
            at = len(self.stages) - 1
            for bucket in range(first, last + 1):
                inside = min(stop, (bucket + 1) * self.width) - max(start, bucket * self.width)
                share = inside / (stop - start) if stop > start else 1.0
                self._cells[at, bucket, lane, phase] += seconds * share

    def add_work(self, lane: str, now: float, taken: float, seconds: float, phases: Mapping[str, float]) -> None:
        if not self.stages:
            return
        started_at = max(now - taken, self._until.get(lane, 0.0))  # earlier requests were served first
        self._until[lane] = now
        self._lost.pop(lane, None)
        seconds = min(seconds, now - started_at)
        away = (now - started_at - seconds) / 2  # half of it before the work
        self.add(lane, NETWORK, started_at, started_at + away, away)
        for phase, own in phases.items():
            self.add(lane, phase, started_at + away, now - away, own)
        rest = LEARN if self.stages[-1].name == LEARNING else OTHER
        self.add(lane, rest, started_at + away, now - away, seconds - sum(phases.values()))
        self.add(lane, NETWORK, now - away, now, away)

    def mark_lost(self, lane: str) -> None:
        self._lost[lane] = perf_counter()

    def lanes(self) -> list[str]:
        """Return the driver, then workers or threads in the order of their first records."""
        ordered = sorted(self._first, key=lambda lane: self._first[lane])
        return [DRIVER, *(lane for lane in ordered if lane != DRIVER)]

    def cells(self) -> list[TimelineCell]:
        """Return all cells in order; time outside spans is work of the driver, or waiting of a worker."""
        with self._lock:
            counted, width, started_at = dict(self._cells), self.width, self.begun
        cells = []
        for at, stage in enumerate(self.stages):
            own = LEARN if stage.name == LEARNING else OTHER
            first, last = (int((time - started_at) / width) for time in (stage.begun, min(stage.ended, perf_counter())))
            for bucket in range(first, last + 1):
                for lane in self.lanes():
                    spent = {phase: counted.get((at, bucket, lane, phase), 0.0) for phase in PHASES}
                    rest = self._present_seconds(at, bucket, lane) - sum(spent.values())
                    spent[WAIT if lane != DRIVER else own] += max(0.0, rest)
                    spots = [(phase, seconds) for phase, seconds in spent.items() if seconds]
                    cells += [TimelineCell(stage.name, bucket * width, lane, *spot) for spot in spots]
        return cells

    def _present_seconds(self, at: int, bucket: int, lane: str) -> float:
        """Return the seconds of a bucket of a stage in which a lane was present."""
        stage = self.stages[at]
        ended = min(stage.ended, perf_counter(), self._lost.get(lane, float("inf")))
        started_at = stage.begun if lane == DRIVER else max(stage.begun, self._first[lane])
        low, high = self.begun + bucket * self.width, self.begun + (bucket + 1) * self.width
        return max(0.0, min(high, ended) - max(low, started_at))


# Timers.
#
# Spans are summed in their thread and returned with a worker's reply; clocks of machines are never compared. Without a
# timeline, nothing is recorded.


class _OpenSpans(threading.local):
    """State of a thread: seconds of the spans inside the open one, and the sums of its spans, if any."""

    inner = 0.0
    sums: defaultdict[str, float] | None = None


_open_spans = _OpenSpans()
_recorder: Timeline | None = None


class Span:
    """Context manager that counts its time, without that of inner spans, as a phase; costs a microsecond."""

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
    """Record phases of this process and its workers in a timeline, until the end of the block."""
    global _recorder
    before, _recorder = _recorder, timeline
    try:
        yield timeline
    finally:
        _recorder = before


def record_work(lane: str, taken: float, seconds: float, phases: Mapping[str, float]) -> None:
    """Record a reply received now: seconds taken in all, seconds on the worker (or thread), and phases of these."""
    if (recorder := _recorder) is not None:
        recorder.add_work(lane, perf_counter(), taken, seconds, phases)


def record_wait(started_at: float, worked_seconds: float) -> None:
    """Record that this process has waited since `started_at` for workers; worked_seconds : of the slowest one."""
    if (recorder := _recorder) is not None and recorder.owner == threading.get_ident():
        now = perf_counter()
        waiting = min(worked_seconds, now - started_at)
        recorder.add(DRIVER, WAIT, started_at, now, waiting)
        recorder.add(DRIVER, NETWORK, started_at, now, now - started_at - waiting)
        _open_spans.inner += now - started_at


def record_loss(lane: str) -> None:
    """Record that a worker was lost."""
    if (recorder := _recorder) is not None:
        recorder.mark_lost(lane)


# Memory


def memory_bytes(groups: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the memory of the machine, or the least limit of the control groups of this process.

    groups : control groups of this process, of version 1 or 2; mounted : where they are mounted
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    lines = groups.read_text().splitlines() if groups.exists() else []
    for _, controllers, group in (line.split(":", 2) for line in lines):
        if controllers and "memory" not in controllers.split(","):
            continue
        top, file = (mounted / "memory", "memory.limit_in_bytes") if controllers else (mounted, "memory.max")
        inside = top / group.lstrip("/")
        for folder in (inside, *inside.parents):
            with suppress(OSError, ValueError):  # "max" is no limit; a container sees no group outside of it
                total = min(total, int((folder / file).read_text()))
            if folder == top:
                break
    return total
