"""Counting where time goes, as it goes: spans of this thread, and what workers say of theirs.

A span is summed in the thread that spends it and carried back with a worker's reply; clocks of machines are never
compared. Without a record to write to, nothing is kept.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter

from okl.timeline import DRIVER, NETWORK, WAIT, Timeline


class _Here(threading.local):
    """Of a thread: seconds of the spans inside the one that is open, and where its spans are summed, if anywhere."""

    def __init__(self) -> None:
        self.inner = 0.0
        self.sums: defaultdict[str, float] | None = None


_here = _Here()
_recorder: Timeline | None = None


class Span:
    """Counts the time of a `with` block, without that of spans inside it, as a phase; costs a microsecond."""

    __slots__ = ("_begun", "_outer", "_phase")

    def __init__(self, phase: str) -> None:
        self._phase, self._begun, self._outer = phase, 0.0, 0.0

    def __enter__(self) -> None:
        self._outer, _here.inner = _here.inner, 0.0
        self._begun = perf_counter()

    def __exit__(self, *_: object) -> None:
        stop = perf_counter()
        elapsed = stop - self._begun
        own, _here.inner = elapsed - _here.inner, self._outer + elapsed
        if _here.sums is not None:
            _here.sums[self._phase] += own
        elif (recorder := _recorder) is not None and recorder.owner == threading.get_ident():
            recorder.add(DRIVER, self._phase, self._begun, stop, own)


@contextmanager
def summed() -> Iterator[defaultdict[str, float]]:
    """Sum the spans of this thread by phase, in seconds, instead of recording them."""
    before, _here.sums = _here.sums, defaultdict(float)
    try:
        yield _here.sums
    finally:
        _here.sums = before


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
        _here.inner += now - begun


def gone(lane: str) -> None:
    """Note that a worker is gone."""
    if (recorder := _recorder) is not None:
        recorder.gone(lane)
