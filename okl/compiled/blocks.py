"""Blocks of rows, the buffers that hold their features, and the threads that work on them.

Rows are cut into blocks from the first row given on, 256 rows each, or a power of two below where the features of 256
rows would not stay in cache. The cut depends on the shape of the map only: never on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from okl.compiled.cores import settle_apart
from okl.types import FloatArray

Result = TypeVar("Result")

MOST_ROWS = 256
_LEAST_ROWS = 32
_MOST_BYTES = 2**20  # a second-level cache: on one thread 4 MiB took 6% longer in float64, and as long in float32
_MOST_FREE_BUFFERS = 8


class Block(NamedTuple):
    """Features of rows in two C-contiguous parts, (rows, n) and (rows, n_columns - n); the second may be empty."""

    left: FloatArray
    right: FloatArray


def rows_per_block(n_columns: int, itemsize: int) -> int:
    """Rows of a block of features: 256, halved until the block has at most 1 MiB, at least 32."""
    rows = MOST_ROWS
    while rows > _LEAST_ROWS and rows * n_columns * itemsize > _MOST_BYTES:
        rows //= 2
    return rows


def aligned_empty(shape: tuple[int, int], dtype: Any) -> FloatArray:
    """An uninitialised array that begins at a cache line, so that vector loads do not straddle two."""
    dtype = np.dtype(dtype)
    size = shape[0] * shape[1] * dtype.itemsize
    memory = np.empty(size + 64, dtype=np.uint8)
    start = -memory.ctypes.data % 64
    array: FloatArray = memory[start : start + size].view(dtype).reshape(shape)
    return array


def as_compiled(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """The array C-contiguous, of dtype and writable, itself if it is all that: numba would compile anew for others."""
    array = np.ascontiguousarray(array, dtype=dtype)
    return array if array.flags.writeable else array.copy()


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
    """Lend a private block buffer with halves (rows, widths[0]) and (rows, widths[1]); what it holds is undefined."""
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

    release : called when work fails in a thread, or never begins in this one (Ctrl-C): nobody may wait for it then
    """
    if n_threads == 1:
        return [work(0)]
    results: list[Result | None] = [None] * n_threads
    errors: list[BaseException | None] = [None] * n_threads
    taken: set[int] = set()

    def run(index: int) -> None:
        try:
            settle_apart(taken)  # this thread, too: waiting for the others to begin may have brought it beside one
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
