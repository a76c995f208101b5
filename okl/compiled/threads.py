"""Thread pools, ordered sections and blocks of rows for compiled loops."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Lock, Thread
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import types
from numba.extending import intrinsic

from okl.compiled.jit import aligned_empty, compiled
from okl.foundation.types import FloatArray, Integers

# CPU affinity of threads.

# with the GIL: no other thread reads the set between check and update
_getcpu = getattr(ctypes.PyDLL(None), "sched_getcpu", None) if sys.platform == "linux" else None


def this_core() -> int:
    """Return the core that this thread runs on; -1 if unknown."""
    return int(_getcpu()) if _getcpu is not None else -1


def move_to_free_core(taken: set[int]) -> None:
    """Move this thread to a core that is not taken, if there is one, and take it; from then on it may go anywhere.

    A thread starts on the core of the one that started it. If the machine was idle before, both share one core for
    tens of milliseconds, while the others have nothing to do: as long as a segment of rows takes.
    """
    core = this_core()
    if core in taken:
        allowed = os.sched_getaffinity(0)
        if allowed - taken:
            os.sched_setaffinity(0, allowed - taken)  # it is elsewhere when this returns
            core = this_core()  # read before it may move back
            os.sched_setaffinity(0, allowed)
    taken.add(core)


# A pool of threads for short pieces of work.

Work = Callable[[int], object]


class ThreadPool:
    """A context in which `run` calls work in this thread and in helpers, which are started when first needed.

    A helper that has not woken up yet delays no other thread: work should be claimed, not assigned beforehand.
    """

    def __init__(self) -> None:
        self._helpers: list[tuple[Thread, SimpleQueue[Work | None]]] = []
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        self._taken: set[int] = set()

    def __enter__(self) -> ThreadPool:
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

        release : called when work fails in a thread, or is interrupted in this one: no thread may wait for it then
        """
        if n_threads == 1:
            work(0)
            return
        if not self._taken:
            move_to_free_core(self._taken)

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
            helper = Thread(target=self._serve, args=(number, tasks), name=f"okl-thread-{number}")
            helper.start()
            self._helpers.append((helper, tasks))
        return self._helpers[index - 1][1]

    def _serve(self, number: int, tasks: SimpleQueue[Work | None]) -> None:
        move_to_free_core(self._taken)
        while (work := tasks.get()) is not None:
            try:
                work(number)
            except BaseException as error:
                self._done.put(error)
            else:
                self._done.put(None)


# Ordered sections: threads prepare blocks in parallel and update shared state in block order.
#
# A turn counter is an int64 array of 8 entries (a cache line of its own), of which the first holds the block whose
# turn it is. The second is not 0 once a thread has failed, and nobody waits any longer; it is an entry of its own, as
# a thread that is in its turn goes on to pass it. The third counts the blocks that threads have claimed, where they
# do not share them out beforehand: one that begins late then keeps nobody waiting.

_SPINS = 2000  # about a microsecond
_YIELDS = 300  # some 100 microseconds when no other thread wants the core
_NAP_MICROSECONDS = 50

_sched_yield = types.ExternalFunction("sched_yield", types.int32())
_usleep = types.ExternalFunction("usleep", types.int32(types.uint32))


def new_turns() -> Integers:
    """Return a turn counter at block 0."""
    return np.zeros(8, dtype=np.int64)


@intrinsic  # type: ignore[untyped-decorator]
def _load_acquire(typing_context: Any, turns: Any) -> Any:
    """Return the first entry of an int64 array; what was written before its release is seen by what follows."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.load_atomic(array.data, "acquire", 8)

    return types.int64(turns), generate


@intrinsic  # type: ignore[untyped-decorator]
def _store_release(typing_context: Any, turns: Any, block: Any) -> Any:
    """Write the first entry of an int64 array after everything that precedes it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        builder.store_atomic(arguments[1], array.data, "release", 8)
        return context.get_dummy_value()

    return types.void(turns, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def claim_block(typing_context: Any, turns: Any) -> Any:
    """Claim and return the next unclaimed block; turns change in place."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [context.get_constant(types.intp, 2)])
        return builder.atomic_rmw("add", place, context.get_constant(types.int64, 1), "monotonic")

    return types.int64(turns), generate


@compiled
def wait_turn(turns: Integers, block: int) -> bool:
    """Wait until it is block's turn; False if another thread failed. Spins briefly, then lets others have the core."""
    waited = 0
    while True:
        turn = _load_acquire(turns)
        if turn == block:
            return True
        if _load_acquire(turns[1:]) != 0:
            return False
        waited += 1
        if waited > _SPINS + _YIELDS:
            _usleep(np.uint32(_NAP_MICROSECONDS))
        elif waited > _SPINS:
            _sched_yield()


@compiled
def pass_turn(turns: Integers, block: int) -> None:
    """Give turns (changed in place) to a block."""
    _store_release(turns, block)


def give_up_turns(turns: Integers) -> None:
    """Mark turns (changed in place) as failed: no thread waits any longer."""
    turns[1] = 1


# Blocks of rows and the buffers of their features.
#
# Rows are cut into blocks from the first row given on, 256 rows each, or a power of two below where the features of
# 256 rows would not stay in cache. The cut depends on the shape of the map only: never on threads.

Result = TypeVar("Result")

MOST_ROWS = 256
_LEAST_ROWS = 32
_MOST_BYTES = 2**20  # a second-level cache: on one thread 4 MiB took 6% longer in float64, and as long in float32
_MOST_FREE_BUFFERS = 8


class Block(NamedTuple):
    """Features of rows in two C-contiguous parts, (rows, n) and (rows, n_columns - n); the second may be empty."""

    left: FloatArray
    right: FloatArray


_SEGMENTS, _LEAST_SEGMENT, _MOST_SEGMENT = 16, 256, 4096  # enough for threads to share evenly


def rows_per_block(n_columns: int, itemsize: int) -> int:
    """Return the number of rows of a block of features: 256, halved until the block has at most 1 MiB, at least 32."""
    rows = MOST_ROWS
    while rows > _LEAST_ROWS and rows * n_columns * itemsize > _MOST_BYTES:
        rows //= 2
    return rows


def rows_of_segment(n_rows: int) -> int:
    """Return the number of rows in a segment, which depends on the row count only, never on threads."""
    return min(max(-(-n_rows // _SEGMENTS), _LEAST_SEGMENT), _MOST_SEGMENT)


class _Buffers:
    """Block buffers that are lent and come back: allocated once for each (thread, shape), fresh pages cost too much."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._free: list[Block] = []

    def take(self, rows: int, widths: tuple[int, int], dtype: np.dtype[Any]) -> Block:
        with self._lock:
            for index, block in enumerate(self._free):
                shapes = (block.left.shape, block.right.shape)
                if shapes == ((rows, widths[0]), (rows, widths[1])) and block.left.dtype == dtype:
                    return self._free.pop(index)
        return Block(aligned_empty((rows, widths[0]), dtype), aligned_empty((rows, widths[1]), dtype))

    def give(self, block: Block) -> None:
        with self._lock:
            self._free.append(block)
            del self._free[:-_MOST_FREE_BUFFERS]


_buffers = _Buffers()


@contextmanager
def borrowed_block(rows: int, widths: tuple[int, int], dtype: np.dtype[Any]) -> Iterator[Block]:
    """Lend a private block buffer with halves (rows, widths[0]) and (rows, widths[1]) of undefined content."""
    block = _buffers.take(rows, widths, dtype)
    try:
        yield block
    finally:
        _buffers.give(block)


def run_threads(
    n_threads: int, work: Callable[[int], Result], release: Callable[[], None] = lambda: None
) -> list[Result]:
    """Call work(0) .. work(n_threads - 1) at once, the first in this thread; results in order.

    All threads have ended when this returns or raises. If several fail, the error of the lowest thread is raised.

    release : called when work fails in a thread, or never starts in this one (Ctrl-C): no thread may wait for it then
    """
    if n_threads == 1:
        return [work(0)]
    results: list[Result | None] = [None] * n_threads
    errors: list[BaseException | None] = [None] * n_threads
    taken: set[int] = set()

    def run(index: int) -> None:
        try:
            move_to_free_core(taken)  # this thread, too: while waiting it may have moved to the core of another one
            results[index] = work(index)
        except BaseException as error:
            errors[index] = error
            release()

    threads = [Thread(target=run, args=(index,), name=f"okl-block-{index}") for index in range(1, n_threads)]
    try:
        for thread in threads:
            thread.start()
        run(0)
    except BaseException:  # Ctrl-C between two lines of this function
        release()
        raise
    finally:
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    for error in errors:
        if error is not None:
            raise error
    return [result for result in results if result is not None]


def run_tasks(work: Callable[[int], Result], n_tasks: int, n_threads: int) -> list[Result]:
    """Return work(0) .. work(n_tasks - 1), up to n_threads at once; results in order."""
    n_threads = max(1, min(n_threads, n_tasks))
    parts = run_threads(n_threads, lambda thread: [work(task) for task in range(thread, n_tasks, n_threads)])
    return [parts[task % n_threads][task // n_threads] for task in range(n_tasks)]
