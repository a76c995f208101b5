"""Windows read ahead of the learner by threads of this process, into two buffers that are used again and again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import get_native_id

import numpy as np
from numpy.typing import NDArray

from okl.execution.protocol import Rows
from okl.spans import Span
from okl.store.dataset import Dataset
from okl.store.order import Window
from okl.timeline import READ
from okl.types import FloatArray, Precision

LEAST_PRIORITY = 19
Job = Callable[[], None]
Plan = Callable[[Dataset, Window, FloatArray, NDArray[np.float64]], Sequence[Job]]


def _stand_back() -> None:
    """Let the learner have the cores: a reader takes what it leaves, and all of them while it waits for a window.

    Learners hand their turn from thread to thread; one that loses its core to a reader makes all others wait for it.
    """
    if sys.platform == "linux":  # elsewhere priorities belong to processes
        os.setpriority(os.PRIO_PROCESS, get_native_id(), LEAST_PRIORITY)


@dataclass
class _Buffer:
    """Room for the largest window of a plan; the call that plans its jobs, and through it the jobs that fill it."""

    inputs: FloatArray
    targets: NDArray[np.float64]
    window: int = -1
    rows: int = 0
    planned: Future[list[Future[None]]] | None = None

    def stop(self) -> None:
        """Wait until nobody writes here any more: a job that has not begun never will."""
        if self.planned is not None and not self.planned.cancel():
            wait([self.planned])
            if self.planned.exception() is None:
                for job in self.planned.result():
                    job.cancel()
                wait(self.planned.result())
        self.planned, self.window = None, -1

    def finish(self) -> Rows:
        """Wait until the buffer is full, and look at it; the first failure of a job is raised."""
        try:
            if self.planned is not None:
                for job in wait(self.planned.result(), return_when=FIRST_EXCEPTION).done:
                    job.result()
        except BaseException:
            self.stop()
            raise
        return Rows(self.inputs[: self.rows], self.targets[: self.rows])


class ReadAhead:
    """Hands out the windows of a plan in order; while one is looked at, the next one is being filled.

    Never more than two windows are in memory. Asking for anything but the next window of the same plan starts over,
    which costs time and nothing else. Made for one consumer: what was handed out last is written over afterwards.

    plan : lists the jobs that together fill inputs (rows, n_features) and targets (rows,) with a window
    n_threads : readers; the machine shares its cores between them and the learner
    """

    def __init__(self, plan: Plan, n_threads: int) -> None:
        self._plan = plan
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="okl-read", initializer=_stand_back)
        self._data: Dataset | None = None
        self._windows: Sequence[Window] = ()
        self._precision: Precision = "float32"
        self._buffers: list[_Buffer] = []

    def take(self, data: Dataset, windows: Sequence[Window], position: int, precision: Precision) -> Rows:
        """Rows of windows[position], valid until the next call; windows[position + 1] is in flight when it returns.

        Raises what a reader raised: DataError for a shard that is missing, damaged or holds bad values.
        """
        if not self._same(data, windows, precision):
            self._start(data, windows, precision)
        current = next((buffer for buffer in self._buffers if buffer.window == position), None)
        if current is None:
            self.stop()
            current = self._buffers[0]
            self._fill(current, position)
        with Span(READ):  # what is left of it: readers read while the learner learns
            rows = current.finish()
        if position + 1 < len(windows):
            self._fill(self._other(current), position + 1)
        return rows

    def _same(self, data: Dataset, windows: Sequence[Window], precision: Precision) -> bool:
        if self._data is None or precision != self._precision:
            return False
        # identity first: comparing a long plan for every window would cost its length squared in a pass
        return (data is self._data or data == self._data) and (windows is self._windows or windows == self._windows)

    def _start(self, data: Dataset, windows: Sequence[Window], precision: Precision) -> None:
        self.stop()
        rows = max((window.rows for window in windows), default=0)
        shape = (rows, data.schema.n_features)
        fits = self._buffers and self._buffers[0].inputs.dtype == precision and self._buffers[0].inputs.shape[0] >= rows
        if not fits or self._buffers[0].inputs.shape[1] != shape[1]:
            self._buffers = []  # first let go of the old ones: never four at a time
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
            # by a reader: drawing the permutation of a window takes milliseconds, which the learner would wait for
            return [self._pool.submit(job) for job in self._plan(data, window, inputs, targets)]

        buffer.planned = self._pool.submit(plan)

    def stop(self) -> None:
        """Give up what is in flight; the buffers stay."""
        for buffer in self._buffers:
            buffer.stop()

    def close(self) -> None:
        """Join the readers and let go of the buffers."""
        self.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._buffers, self._data, self._windows = [], None, ()
