"""Execution in this process: reader threads and shards spread over threads."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import current_thread, get_native_id
from time import perf_counter
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from okl.compiled.threads import run_threads
from okl.data.dataset import Dataset, Shard
from okl.data.executor import Item, Part, Result, Rows, ShardWork, Traffic, Value
from okl.data.manifest import memory_bytes, processor
from okl.data.order import Window
from okl.data.reading import prefetch_window, window_jobs
from okl.distributed.cache import process_cache
from okl.foundation.errors import ExecutionError
from okl.foundation.telemetry import READ, WAIT, Span, log_shard, record_work, summed
from okl.foundation.types import FloatArray, Precision
from okl.foundation.validation import check_at_least

# Read-ahead of windows by threads, into two buffers.

LEAST_PRIORITY = 19
Job = Callable[[], None]
Plan = Callable[[Dataset, Window, FloatArray, NDArray[np.float64]], Sequence[Job]]


def _lower_priority() -> None:
    """Give readers the lowest priority: they use cores that the learner leaves idle.

    Learner threads take turns; one that loses its core to a reader delays all others.
    """
    if sys.platform == "linux":  # elsewhere priorities belong to processes
        os.setpriority(os.PRIO_PROCESS, get_native_id(), LEAST_PRIORITY)


@dataclass
class _Buffer:
    """Arrays for the largest window of a plan, and the future of the jobs that fill them."""

    inputs: FloatArray
    targets: NDArray[np.float64]
    window: int = -1
    rows: int = 0
    planned: Future[list[Future[None]]] | None = None

    def stop(self) -> None:
        """Cancel pending jobs and wait for running ones: no thread writes to the buffer afterwards."""
        if self.planned is not None and not self.planned.cancel():
            wait([self.planned])
            if self.planned.exception() is None:
                for job in self.planned.result():
                    job.cancel()
                wait(self.planned.result())
        self.planned, self.window = None, -1

    def finish(self) -> Rows:
        """Wait until the buffer is full, and return its rows; raise the first error of a job."""
        try:
            if self.planned is not None:
                for job in wait(self.planned.result(), return_when=FIRST_EXCEPTION).done:
                    job.result()
        except BaseException:
            self.stop()
            raise
        return Rows(self.inputs[: self.rows], self.targets[: self.rows])


class ReadAhead:
    """Reader of the windows of a plan in order, one window ahead of the learner.

    At most two windows are in memory. A request for any other window than the next one starts over, which only costs
    time. For one consumer: the next request overwrites the rows returned last.

    plan : returns the jobs that together fill inputs (rows, n_features) and targets (rows,) with a window
    n_threads : readers, which share the cores with the learner
    """

    def __init__(self, plan: Plan, n_threads: int) -> None:
        self._plan = plan
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="okl-read", initializer=_lower_priority)
        self._data: Dataset | None = None
        self._windows: Sequence[Window] = ()
        self._precision: Precision = "float32"
        self._buffers: list[_Buffer] = []

    def take(self, data: Dataset, windows: Sequence[Window], position: int, precision: Precision) -> Rows:
        """Return the rows of windows[position], valid until the next call, and start to read windows[position + 1].

        Raises DataError for a shard that is missing, damaged or contains bad values.
        """
        if not self._same(data, windows, precision):
            self._start(data, windows, precision)
        current = next((buffer for buffer in self._buffers if buffer.window == position), None)
        if current is None:
            self.stop()
            current = self._buffers[0]
            self._fill(current, position)
        with Span(READ):  # the remaining time: readers run in parallel with the learner
            rows = current.finish()
        if position + 1 < len(windows):
            self._fill(self._other(current), position + 1)
        return rows

    def _same(self, data: Dataset, windows: Sequence[Window], precision: Precision) -> bool:
        if self._data is None or precision != self._precision:
            return False
        # identity first: comparing a long plan for every window would take quadratic time
        return (data is self._data or data == self._data) and (windows is self._windows or windows == self._windows)

    def _start(self, data: Dataset, windows: Sequence[Window], precision: Precision) -> None:
        self.stop()
        rows = max((window.rows for window in windows), default=0)
        shape = (rows, data.schema.n_features)
        fits = self._buffers and self._buffers[0].inputs.dtype == precision and self._buffers[0].inputs.shape[0] >= rows
        if not fits or self._buffers[0].inputs.shape[1] != shape[1]:
            self._buffers = []  # free the old buffers first: never four at a time
            self._buffers = [_Buffer(np.empty(shape, precision), np.empty(rows)) for _ in range(min(2, len(windows)))]
        elif len(self._buffers) < min(2, len(windows)):
            room = self._buffers[0].inputs.shape
            self._buffers.append(_Buffer(np.empty(room, precision), np.empty(room[0])))
        self._data, self._windows, self._precision = data, windows, precision

    def _other(self, buffer: _Buffer) -> _Buffer:
        return next(other for other in self._buffers if other is not buffer)

    def _fill(self, buffer: _Buffer, position: int) -> None:
        if buffer.window == position or self._data is None:
            return
        buffer.stop()
        data, window = self._data, self._windows[position]
        inputs, targets = buffer.inputs[: window.rows], buffer.targets[: window.rows]
        buffer.window, buffer.rows = position, window.rows

        def plan() -> list[Future[None]]:
            # in a reader thread: drawing the permutation of a window takes milliseconds
            return [self._pool.submit(job) for job in self._plan(data, window, inputs, targets)]

        buffer.planned = self._pool.submit(plan)

    def stop(self) -> None:
        """Cancel pending reads; keep the buffers."""
        for buffer in self._buffers:
            buffer.stop()

    def close(self) -> None:
        """Join the readers and free the buffers."""
        self.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._buffers, self._data, self._windows = [], None, ()


# Reading in turn with a learner that uses every core.
#
# Learner threads take turns; one that loses its core to a reader delays all others. So windows are read between calls
# of the learner, and only the transfer from disk to the page cache runs ahead.


class ReadInTurn:
    """Reader of the windows of a plan on request, into one buffer.

    For one consumer: the next request overwrites the rows returned last.

    plan : returns the jobs that together fill inputs (rows, n_features) and targets (rows,) with a window
    prefetch : called with the window after the requested one
    n_threads : readers, including the calling thread
    """

    def __init__(self, plan: Plan, prefetch: Callable[[Dataset, Window], None], n_threads: int) -> None:
        self._plan = plan
        self._prefetch = prefetch
        self._n_threads = n_threads
        self._data: Dataset | None = None
        self._windows: Sequence[Window] = ()
        self._most_rows = 0
        self._window: Window | None = None
        self._room: Rows | None = None

    def take(self, data: Dataset, windows: Sequence[Window], position: int, precision: Precision) -> Rows:
        """Return the rows of windows[position], valid until the next call.

        Raises DataError for a shard that is missing, damaged or contains bad values.
        """
        window = windows[position]
        if windows is not self._windows:  # a maximum for every window would take quadratic time in a long plan
            self._windows, self._most_rows = windows, max(window.rows for window in windows)
        room = self._buffer_for(self._most_rows, data.schema.n_features, precision)
        rows = Rows(room.inputs[: window.rows], room.targets[: window.rows])
        if window != self._window or (data is not self._data and data != self._data):
            self._window = None
            if position + 1 < len(windows):
                self._prefetch(data, windows[position + 1])
            with Span(READ):
                self._read(deque(self._plan(data, window, *rows)))
            self._data, self._window = data, window
        return rows

    def _buffer_for(self, rows: int, n_features: int, precision: Precision) -> Rows:
        room = self._room
        if (
            room is None
            or room.inputs.dtype != precision
            or room.inputs.shape[1] != n_features
            or len(room.targets) < rows
        ):
            self.close()  # free the old buffer first: never two at a time
            room = self._room = Rows(np.empty((rows, n_features), precision), np.empty(rows))
        return room

    def _read(self, jobs: deque[Callable[[], None]]) -> None:
        def work(_: int) -> None:
            while jobs:
                try:
                    job = jobs.popleft()
                except IndexError:  # another thread took the last one
                    return
                job()

        # fresh threads: sleeping ones are often woken on one core together
        run_threads(min(self._n_threads, len(jobs)), work, release=jobs.clear)

    def close(self) -> None:
        """Free the buffer."""
        self._room = self._data = self._window = None
        self._windows = ()


# The local executor.

MOST_THREADS = 4


def default_threads() -> int:
    """Return the number of cores of this process, at most 4: more readers and learners are not faster."""
    return min(MOST_THREADS, len(os.sched_getaffinity(0)))


def _timed(work: Callable[..., Result], item: Any, *arguments: Any) -> Result:
    """Run work on a shard or item in a thread of the pool; record its time in the timeline, its name in the log."""
    log_shard(item.path if isinstance(item, Shard) else "")
    started_at = perf_counter()
    try:
        with summed() as phases:
            return work(item, *arguments)
    finally:
        log_shard("")
        seconds = perf_counter() - started_at
        record_work(current_thread().name.replace("okl-work_", "thread "), seconds, seconds, phases)


class LocalExecution:
    """Executor of all work in threads of this process; a context manager that joins them at the end.

    Parameters
    ----------
    n_threads : int >= 1, or None for the cores of this process, at most 4; the results do not depend on it
    """

    n_workers = 0

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = default_threads() if n_threads is None else check_at_least("threads", n_threads, 1)
        self._rounds = 0
        self._closed = False
        self._held_before: int | None = None
        self._reader: ReadAhead | ReadInTurn | None = None
        self._pool: ThreadPoolExecutor | None = None

    @property
    def memory_limit_bytes(self) -> int | None:
        """Return the memory of the machine, or the limit of the control group of this process."""
        return memory_bytes()

    def hold(self, limit_bytes: int) -> None:
        """Bound the decoded rows that this process caches between rounds, until this is closed."""
        cache = process_cache()
        self._held_before = self._held_before or cache.limit_bytes
        cache.limit(min(limit_bytes, self._held_before))

    @property
    def traffic(self) -> Traffic:
        """Return the rounds so far, with zero bytes."""
        return Traffic(rounds=self._rounds)

    @property
    def processors(self) -> tuple[str, ...]:
        """Return the kind of this machine's processor."""
        return (processor(),)

    def stream(
        self, data: Dataset, windows: Sequence[Window], first: int, last: int, precision: Precision
    ) -> Iterator[Rows]:
        """Yield the rows of windows[first:last] in order; the next window is read ahead, beyond last and between calls.

        A call that continues the last one, with the same data, windows and precision, uses the window that was read
        ahead. At most two windows are in memory. Yielded rows are valid until the next request.

        Raises DataError for a shard that is missing, damaged or contains bad values.
        """
        for position in range(first, last):
            yield self._readers().take(data, windows, position, precision)

    def mix(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        """Train on every shard from one value, several at once; merge the results in shard order."""
        return self._round(work, shards, value, merge)

    def sum(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        """Evaluate every shard at one value, several at once; merge the results in shard order."""
        return self._round(work, shards, value, merge)

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Run work on independent items, n_threads at once; yield results in the order of the items.

        At most n_threads + 2 items are pending or unread, which bounds the memory of results.
        """
        from okl.compiled.jit import one_blas_thread  # numba: a second that `okl describe` does not need

        waiting: deque[Future[Result]] = deque()
        upcoming = iter(items)
        try:
            with one_blas_thread():
                while True:
                    for item in upcoming:
                        waiting.append(self._workers().submit(_timed, work, item))
                        if len(waiting) > self.n_threads + 1:
                            break
                    if not waiting:
                        return
                    with Span(WAIT):
                        result = waiting.popleft().result()
                    yield result
        finally:
            for future in waiting:
                future.cancel()

    def _round(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        from okl.compiled.jit import one_blas_thread

        self._rounds += 1
        with one_blas_thread():
            futures = [self._workers().submit(_timed, work, shard, value) for shard in shards]
            try:
                with Span(WAIT):
                    parts = [future.result() for future in futures]
            finally:
                for future in futures:
                    future.cancel()
            return merge(parts)

    def _check_open(self) -> None:
        if self._closed:
            raise ExecutionError("This LocalExecution is closed; open another one.")

    def _readers(self) -> ReadAhead | ReadInTurn:
        self._check_open()
        if self._reader is None:
            spare = len(os.sched_getaffinity(0)) - self.n_threads
            if spare > 0:
                self._reader = ReadAhead(window_jobs, min(spare, self.n_threads))
            else:
                self._reader = ReadInTurn(window_jobs, prefetch_window, self.n_threads)
        return self._reader

    def _workers(self) -> ThreadPoolExecutor:
        self._check_open()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_threads, thread_name_prefix="okl-work")
        return self._pool

    def performance_page(self) -> None:
        """Return None: there is no cluster."""
        return

    def close(self) -> None:
        """Cancel pending work, wait for running work, and join all threads."""
        self._closed = True
        if self._held_before is not None:
            process_cache().limit(self._held_before)
            self._held_before = None
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        if self._reader is not None:
            self._reader.close()
        self._pool = self._reader = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
