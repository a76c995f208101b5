"""Windows read in turn with the learner, by its own threads: where it uses every core, reading ahead only disturbs it.

Learners hand their turn from thread to thread; one that loses its core to a reader makes all others wait. So what a
reader takes from a busy machine, it takes from every learner at once. Waiting for the disk is another matter: the
system is told of the next window beforehand and brings it in meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from okl.compiled.blocks import run_threads
from okl.execution.protocol import Rows
from okl.execution.readahead import Plan
from okl.spans import Span
from okl.store.dataset import Dataset
from okl.store.order import Window
from okl.timeline import READ
from okl.types import Precision


class ReadInTurn:
    """Hands out the windows of a plan, each read when it is asked for, into one buffer that is used again and again.

    Made for one consumer: what was handed out last is written over afterwards.

    plan : lists the jobs that together fill inputs (rows, n_features) and targets (rows,) with a window
    expect : is told of the window after the one asked for, beforehand
    n_threads : readers, the calling thread among them
    """

    def __init__(self, plan: Plan, expect: Callable[[Dataset, Window], None], n_threads: int) -> None:
        self._plan = plan
        self._expect = expect
        self._n_threads = n_threads
        self._data: Dataset | None = None
        self._windows: Sequence[Window] = ()
        self._most_rows = 0
        self._window: Window | None = None
        self._room: Rows | None = None

    def take(self, data: Dataset, windows: Sequence[Window], position: int, precision: Precision) -> Rows:
        """Rows of windows[position], valid until the next call.

        Raises what a job raised: DataError for a shard that is missing, damaged or holds bad values.
        """
        window = windows[position]
        if windows is not self._windows:  # looking for it each time would cost a long plan's length squared
            self._windows, self._most_rows = windows, max(window.rows for window in windows)
        room = self._room_for(self._most_rows, data.schema.n_features, precision)
        rows = Rows(room.inputs[: window.rows], room.targets[: window.rows])
        if window != self._window or (data is not self._data and data != self._data):
            self._window = None
            if position + 1 < len(windows):
                self._expect(data, windows[position + 1])
            with Span(READ):
                self._read(deque(self._plan(data, window, *rows)))
            self._data, self._window = data, window
        return rows

    def _room_for(self, rows: int, n_features: int, precision: Precision) -> Rows:
        room = self._room
        if (
            room is None
            or room.inputs.dtype != precision
            or room.inputs.shape[1] != n_features
            or len(room.targets) < rows
        ):
            self.close()  # first let go of the old one: never two at a time
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
        """Let go of the buffer."""
        self._room = self._data = self._window = None
        self._windows = ()
