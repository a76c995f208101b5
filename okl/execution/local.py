"""Work in this process: readers ahead of a learner, and shards or items spread over threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import current_thread
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from okl.checks import check_at_least
from okl.errors import ExecutionError
from okl.execution.protocol import Item, Part, Result, Rows, ShardWork, Traffic, Value
from okl.execution.readahead import ReadAhead
from okl.execution.readinturn import ReadInTurn
from okl.execution.resident import process_cache
from okl.provenance import memory_bytes, processor
from okl.runlog import at_shard
from okl.spans import Span, summed, worked
from okl.store.dataset import Dataset, Shard
from okl.store.order import Window
from okl.store.reading import expect_window, window_jobs
from okl.timeline import WAIT
from okl.types import Precision

MOST_THREADS = 4


def default_threads() -> int:
    """The cores that this process may run on, at most 4: more readers and learners gain nothing."""
    return min(MOST_THREADS, len(os.sched_getaffinity(0)))


def _timed(work: Callable[..., Result], item: Any, *arguments: Any) -> Result:
    """Work on a shard or item in a thread of the pool, whose time is a lane of the timeline; its name in the log."""
    at_shard(item.path if isinstance(item, Shard) else "")
    begun = perf_counter()
    try:
        with summed() as phases:
            return work(item, *arguments)
    finally:
        at_shard("")
        seconds = perf_counter() - begun
        worked(current_thread().name.replace("okl-work_", "thread "), seconds, seconds, phases)


class LocalExecution:
    """Runs everything in this process, with threads; a context manager that joins them when it is left.

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
        """What the machine has, or the control group of this process may use."""
        return memory_bytes()

    def hold(self, limit_bytes: int) -> None:
        """Bound the decoded rows that this process holds between rounds, until this is closed."""
        cache = process_cache()
        self._held_before = self._held_before or cache.limit_bytes
        cache.limit(min(limit_bytes, self._held_before))

    @property
    def traffic(self) -> Traffic:
        """Rounds so far; no byte leaves the process."""
        return Traffic(rounds=self._rounds)

    @property
    def processors(self) -> tuple[str, ...]:
        """The kind of this machine's processor."""
        return (processor(),)

    def stream(
        self, data: Dataset, windows: Sequence[Window], first: int, last: int, precision: Precision
    ) -> Iterator[Rows]:
        """Rows of windows[first:last] in order; the next window is always being read, beyond last and between calls.

        A call that goes on where the last one stopped, with the same data, windows and precision, finds its first
        window in flight. Two windows are in memory at most. What is yielded is valid until the next one is asked for.

        Raises DataError, from a reader, for a shard that is missing or damaged or holds bad values.
        """
        for position in range(first, last):
            yield self._readers().take(data, windows, position, precision)

    def mix(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        """Learn every shard from one value, several at once; merge the results, given in shard order."""
        return self._round(work, shards, value, merge)

    def sum(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        """Evaluate every shard at one value, several at once; merge the results, given in shard order."""
        return self._round(work, shards, value, merge)

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Work on independent items, n_threads at once; results in the order of the items.

        At most n_threads + 2 items are begun and not yet handed out, so that results do not pile up.
        """
        from okl.compiled.door import one_blas_thread  # numba: a second that `okl describe` need not pay

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
        from okl.compiled.door import one_blas_thread

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
                self._reader = ReadInTurn(window_jobs, expect_window, self.n_threads)
        return self._reader

    def _workers(self) -> ThreadPoolExecutor:
        self._check_open()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_threads, thread_name_prefix="okl-work")
        return self._pool

    def performance_page(self) -> None:
        """There is no cluster."""
        return

    def close(self) -> None:
        """Join all threads: work that has not begun is dropped, work that runs is waited for."""
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
