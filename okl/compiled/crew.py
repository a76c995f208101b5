"""Threads that stay for several pieces of work: starting one takes as long as a short piece of work does."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from types import TracebackType

from okl.compiled.cores import settle_apart

Work = Callable[[int], object]


class Crew:
    """A context in which `run` calls work in this thread and in helpers, which are started when first needed.

    A helper that has not woken up yet keeps nobody waiting: work should be claimed, not shared out beforehand.
    """

    def __init__(self) -> None:
        self._helpers: list[tuple[Thread, SimpleQueue[Work | None]]] = []
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        self._taken: set[int] = set()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, tasks in self._helpers:
            tasks.put(None)
        for helper, _ in self._helpers:
            helper.join()

    def run(self, n_threads: int, work: Work, release: Callable[[], None] = lambda: None) -> None:
        """Call work(0), in this thread, .. work(n_threads - 1) at once; all have ended when this returns or raises.

        release : called when work fails in a thread, or is interrupted in this one: nobody may wait for it then
        """
        if n_threads == 1:
            work(0)
            return
        if not self._taken:
            settle_apart(self._taken)

        def guarded(thread: int) -> None:
            try:
                work(thread)
            except BaseException:
                release()
                raise

        sent, errors = 0, []
        try:
            for index in range(1, n_threads):
                self._tasks(index).put(guarded)
                sent += 1
            guarded(0)
        except BaseException as error:
            release()
            errors.append(error)
        errors += [error for error in (self._done.get() for _ in range(sent)) if error is not None]
        if errors:
            raise errors[0]

    def _tasks(self, index: int) -> SimpleQueue[Work | None]:
        while len(self._helpers) < index:
            tasks: SimpleQueue[Work | None] = SimpleQueue()
            number = len(self._helpers) + 1
            helper = Thread(target=self._serve, args=(number, tasks), name=f"okl-crew-{number}")
            helper.start()
            self._helpers.append((helper, tasks))
        return self._helpers[index - 1][1]

    def _serve(self, number: int, tasks: SimpleQueue[Work | None]) -> None:
        settle_apart(self._taken)
        while (work := tasks.get()) is not None:
            try:
                work(number)
            except BaseException as error:
                self._done.put(error)
            else:
                self._done.put(None)
