"""Execution in this process: reader threads and shards spread over threads."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import current_thread, get_native_id
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from okl.compiled.threads import run_threads
from okl.data.dataset import Dataset, Shard
from okl.data.execution import Item, Part, Result, Rows, ShardWork, Traffic, Value
from okl.data.manifest import processor
from okl.data.order import Window
from okl.data.reading import load_window, prefetch_window, window_jobs
from okl.distributed.cache import process_cache
from okl.foundation.errors import ExecutionError
from okl.foundation.telemetry import READ, WAIT, Span, log_shard, memory_bytes, record_work, summed
from okl.foundation.types import Doubles, FloatArray, Precision
from okl.foundation.validation import check_at_least

# Reading of windows by threads.
#
# Learner threads take turns; one that loses its core to a reader delays all others. So windows are read ahead only by
# cores that learners leave idle. Without such cores, windows are read between calls of the learner, and only the
# transfer from disk to the page cache runs ahead.

LEAST_PRIORITY = 19
Job = Callable[[], None]
Plan = Callable[[Dataset, Window, FloatArray, NDArray[np.float64]], Sequence[Job]]


def _lower_priority() -> None:
    """Give readers the lowest priority: they use cores that the learner leaves idle."""
    if sys.platform == "linux":  # elsewhere priorities belong to processes
        os.setpriority(os.PRIO_PROCESS, get_native_id(), LEAST_PRIORITY)


@dataclass
class _Buffer:
    """Arrays for the largest window of a plan; the position of the window that they hold, -1 for none."""

    inputs: FloatArray
    targets: Doubles
    window: int = -1
    filling: Future[None] | None = None

    def stop(self) -> None:
        """Wait for running jobs and start no more: no thread writes to the buffer afterwards."""
        self.window = -1
        if self.filling is not None and not self.filling.cancel():
            wait([self.filling])
        self.filling = None


class WindowReader:
    """Reader of the windows of a plan in order; a request for any other window than the next one only costs time.

    For one consumer: the next request overwrites the rows returned last.

    plan : returns the jobs that together fill inputs (rows, n_features) and targets (rows,) with a window
    n_threads : readers
    prefetch : called with the window after the requested one, which is then read on request, into one buffer, by
        n_threads with the calling thread. None: the next window is read in the background, into a second buffer
    """

    def __init__(self, plan: Plan, n_threads: int, prefetch: Callable[[Dataset, Window], None] | None = None) -> None:
        self._plan = plan
        self._n_threads = n_threads
        self._prefetch = prefetch
        self._pool: ThreadPoolExecutor | None = None
        if prefetch is None:
            self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="okl-read", initializer=_lower_priority)
        self._data: Dataset | None = None
        self._windows: Sequence[Window] = ()
        self._buffers: list[_Buffer] = []

    def take(self, data: Dataset, windows: Sequence[Window], position: int, precision: Precision) -> Rows:
        """Return the rows of windows[position], valid until the next call; DataError for a bad shard."""
        self._start(data, windows, precision)
        buffer, later = self._buffers[position % len(self._buffers)], windows[position + 1 : position + 2]
        with Span(READ):  # in the background, the remaining time: readers run in parallel with the learner
            if buffer.window != position:
                self._stop()
                if self._prefetch is not None and later:
                    self._prefetch(data, later[0])
                self._fill(buffer, data, windows[position], position)
            try:
                if buffer.filling is not None:
                    buffer.filling.result()
            except BaseException:
                buffer.stop()
                raise
        if self._pool is not None and later:
            self._fill(self._buffers[(position + 1) % 2], data, later[0], position + 1)
        rows = windows[position].rows
        return Rows(buffer.inputs[:rows], buffer.targets[:rows])

    def _start(self, data: Dataset, windows: Sequence[Window], precision: Precision) -> None:
        """Prepare for a plan, unless it is the one of the last call."""
        fits = bool(self._buffers) and self._buffers[0].inputs.dtype == precision
        # identity first: comparing a long plan for every window would take quadratic time
        same = self._data is not None and (data is self._data or data == self._data)
        if fits and same and (windows is self._windows or windows == self._windows):
            return
        self._stop()
        rows, n_features = max(window.rows for window in windows), data.schema.n_features
        count = 1 if self._pool is None else min(2, len(windows))
        held = self._buffers[0].inputs.shape if fits and len(self._buffers) >= count else (0, 0)
        if held[0] < rows or held[1] != n_features:
            self._buffers = []  # free the old buffers first
            shape = rows, n_features
            self._buffers = [_Buffer(np.empty(shape, precision), np.empty(rows)) for _ in range(count)]
        self._data, self._windows = data, windows

    def _fill(self, buffer: _Buffer, data: Dataset, window: Window, position: int) -> None:
        if buffer.window == position:
            return
        buffer.stop()
        inputs, targets = buffer.inputs[: window.rows], buffer.targets[: window.rows]
        jobs: deque[Job] = deque()

        def work(_: int = 0) -> None:
            while jobs and buffer.window == position:
                try:
                    job = jobs.popleft()
                except IndexError:  # another thread took the last one
                    return
                job()

        def fill(pool: ThreadPoolExecutor) -> None:
            # in a reader thread: drawing the permutation of a window takes milliseconds
            jobs.extend(self._plan(data, window, inputs, targets))
            others = [pool.submit(work) for _ in range(min(self._n_threads, len(jobs)) - 1)]
            try:
                work()
            finally:
                wait(others)
            for other in others:
                other.result()

        buffer.window = position
        if self._pool is not None:
            buffer.filling = self._pool.submit(fill, self._pool)
            return
        try:
            jobs.extend(self._plan(data, window, inputs, targets))
            # fresh threads: sleeping ones are often woken on one core together
            run_threads(min(self._n_threads, len(jobs)), work, release=jobs.clear)
        except BaseException:
            buffer.stop()
            raise

    def _stop(self) -> None:
        for buffer in self._buffers:
            buffer.stop()

    def close(self) -> None:
        """Join the readers and free the buffers."""
        self._stop()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._buffers, self._data, self._windows = [], None, ()


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
    """Executor in n_threads of this process (None: its cores, at most 4); any number gives the same results."""

    n_workers = 0

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = default_threads() if n_threads is None else check_at_least("threads", n_threads, 1)
        self._rounds = 0
        self._closed = False
        self._held_before: int | None = None
        self._reader: WindowReader | None = None
        self._sparse: tuple[tuple[object, ...], Rows] | None = None
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
            if data.schema.sparse is None:
                yield self._readers().take(data, windows, position, precision)
                continue
            key = (data.read_sha256, windows[position], precision)
            if self._sparse is None or self._sparse[0] != key:  # a window may have several segments
                self._sparse = None  # free it first
                self._sparse = (key, load_window(data, windows[position], precision))
            yield self._sparse[1]

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield results of items in their order, n_threads at once; at most n_threads + 2 are pending or unread."""
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

    def sum(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        """Run work on every shard from one value, several at once; merge the results in shard order."""
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

    mix = sum  # only on workers is there a difference, in the log

    def _check_open(self) -> None:
        if self._closed:
            raise ExecutionError("This LocalExecution is closed; open another one.")

    def _readers(self) -> WindowReader:
        self._check_open()
        if self._reader is None:
            spare = len(os.sched_getaffinity(0)) - self.n_threads
            readers, prefetch = (min(spare, self.n_threads), None) if spare > 0 else (self.n_threads, prefetch_window)
            self._reader = WindowReader(window_jobs, readers, prefetch)
        return self._reader

    def _workers(self) -> ThreadPoolExecutor:
        self._check_open()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_threads, thread_name_prefix="okl-work")
        return self._pool

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

    def __exit__(self, *_: object) -> None:
        self.close()
