"""The only access to numba: compiler options, the cache folder, array layout and the BLAS thread limit.

Machine code is cached in a folder named after a digest of all compiled sources: numba itself looks only at the file of
the outermost function, and would go on using an inlined one that has since changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import multiprocessing
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock
from time import perf_counter, sleep
from typing import Any, TypeVar, cast

import numba
import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  numba's np.dot calls this BLAS: load it before threads are limited
from numba import config
from numba.core import event
from numba.core.codegen import get_host_cpu_features
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from okl.foundation.types import FloatArray

Function = TypeVar("Function", bound=Callable[..., Any])

_SOURCES = Path(__file__).parent


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@cache
def cache_folder() -> Path:
    """Return the folder of the machine code, created if necessary.

    The first of NUMBA_CACHE_DIR, beside the sources, okl's home folder and a temporary one that can be written to; a
    read-only home or installation is no obstacle.
    """
    digest = hashlib.sha256()
    for source in sorted(_SOURCES.glob("*.py")):
        digest.update(source.read_bytes())
    bases = [_SOURCES / "__pycache__", Path(os.environ.get("OKL_HOME") or "~/.okl").expanduser() / "numba"]
    if config.CACHE_DIR:
        bases.insert(0, Path(config.CACHE_DIR))
    for base in bases:
        folder = base / f"okl-{digest.hexdigest()[:16]}"
        if _writable(folder):
            return folder
    return Path(tempfile.mkdtemp(prefix="okl-numba-"))


def _allow_wide_vectors() -> None:
    # LLVM keeps to 256-bit vectors on Intel's AVX-512 cores; the sines run 15-20% faster on 512
    features = get_host_cpu_features()
    if config.CPU_FEATURES is None and "+avx512f" in features:
        config.CPU_FEATURES = f"{features},-prefer-256-bit"


_allow_wide_vectors()


SILENT_SECONDS = 0.5


class CompilationNotice(event.Listener):  # type: ignore[misc]
    """One line on standard error when compilation takes long, which it does once: without it, a run seems to hang.

    numba holds its lock of the compiler in both calls. Worker processes print nothing.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.printed = multiprocessing.parent_process() is not None
        self._depth, self._started = 0, 0.0

    def on_start(self, event: Any) -> None:
        """Print the line if compilation has taken long, and there is still something to compile."""
        # a function of a session may have no module
        if not str(event.data["dispatcher"].py_func.__module__).startswith("okl."):
            return
        now = perf_counter()
        self._started = self._started if self._depth else now
        self._depth += 1
        if not self.printed and self.seconds + now - self._started > SILENT_SECONDS:
            self.printed = True
            print(
                "Compiling functions for their first use on this machine: 5 to 20 seconds. "
                f"The machine code is cached in {cache_folder()}.",
                file=sys.stderr,
                flush=True,
            )

    def on_end(self, event: Any) -> None:
        """Add the seconds of a function and of all that it calls."""
        if str(event.data["dispatcher"].py_func.__module__).startswith("okl."):
            self._depth -= 1
            self.seconds += 0.0 if self._depth else perf_counter() - self._started


event.register("numba:compile", CompilationNotice())

PATIENCE_SECONDS = 120.0  # for another process that compiles; one that has been stopped holds nobody back for longer
POLL_SECONDS = 0.02


@cache
def _turns() -> int:
    return os.open(cache_folder() / "turns", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@contextmanager
def _turn(function: Callable[..., Any], types: Any) -> Iterator[None]:
    """Let one process at a time compile a function for given types; those that waited load what it has stored.

    Each function has a byte of one file, which the system unlocks when the process ends. A caller is always locked
    before what it calls, so that two processes never wait for each other.
    """
    name = re.sub("0x[0-9a-f]+", "", f"{function.__module__}.{function.__qualname__}{types}")
    place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:6])
    deadline = perf_counter() + PATIENCE_SECONDS
    locked = False
    with suppress(OSError):  # a file system without locks
        turns = _turns()
        while not locked and perf_counter() < deadline:
            try:
                fcntl.lockf(turns, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                locked = True
            except (BlockingIOError, PermissionError):  # either says that another process has it
                sleep(POLL_SECONDS)
    try:
        yield
    finally:
        if locked:
            fcntl.lockf(turns, fcntl.LOCK_UN, 1, place)


def _refuse_python(*arguments: Any) -> None:
    raise TypeError("This function is for compiled callers only. Decorate it with compiled instead of nested.")


def _compile(function: Function, fastmath: set[str], **options: bool | str) -> Function:
    before = config.CACHE_DIR
    # the folder is read once, while the dispatcher is made: other users of numba in this process keep their own
    config.CACHE_DIR = str(cache_folder())
    # a wrapper for C, which nothing calls, would take a twentieth of the compilation
    options |= {"nogil": True, "cache": True, "no_cfunc_wrapper": True}
    try:
        dispatcher: Any = numba.njit(error_model="numpy", fastmath=fastmath, **options)(function)
    finally:
        config.CACHE_DIR = before
    compile_now = dispatcher.compile

    def compile_in_turn(types: Any) -> Any:
        with _turn(function, types):
            return compile_now(types)

    dispatcher.compile = compile_in_turn
    if "no_cpython_wrapper" in options:  # whose address is 0: never enter it where calls from Python look
        dispatcher._insert = lambda *entry: None
        dispatcher._compile_for_args = _refuse_python
    return cast(Function, dispatcher)


def compiled(function: Function) -> Function:
    """Compile a function at its first call: no GIL, cached on disk, fused multiply-add, sums in written order."""
    return _compile(function, {"contract", "nsz"})


def compiled_sum(function: Function) -> Function:
    """Like `compiled`, but sums may be reordered, so that dot products use vectors; the same order in every call."""
    return _compile(function, {"contract", "nsz", "reassoc"})


def compiled_row(function: Function) -> Function:
    """Like `compiled`, for code that runs once a row: references to arrays are not counted, so it must not make arrays.

    Counting costs some 10 ns an array and call, which for one row adds up to its kernel values. numba refuses to
    compile a function that makes an array all the same; views, such as rows and slices, are free.
    """
    return _compile(function, {"contract", "nsz"}, _nrt=False)


def compiled_row_sum(function: Function) -> Function:
    """Like `compiled_row`, with sums in any order, the same in every call."""
    return _compile(function, {"contract", "nsz", "reassoc"}, _nrt=False)


STEP_OPTIONS = {
    "error_model": "numpy",
    "fastmath": {"contract", "nsz"},
    "nogil": True,
    "_nrt": False,
    "forceinline": True,
}


def compiled_step(function: Function) -> Function:
    """Like `compiled_row`, for the body of a loop over rows: always inlined, so that arguments cost nothing."""
    return _compile(function, {"contract", "nsz"}, _nrt=False, forceinline=True)


def compiled_part(function: Function) -> Function:
    """Like `compiled`, for a part of one compiled function only: copied into it, where it is compiled once."""
    return _compile(function, {"contract", "nsz"}, inline="always")


# Functions that only compiled functions call: without the wrapper that unpacks the arguments of a call from Python,
# a learner takes a fifth less to compile. Called from Python, they raise TypeError.


def nested(function: Function) -> Function:
    """Like `compiled`, for compiled callers only."""
    return _compile(function, {"contract", "nsz"}, no_cpython_wrapper=True)


def nested_sum(function: Function) -> Function:
    """Like `compiled_sum`, for compiled callers only."""
    return _compile(function, {"contract", "nsz", "reassoc"}, no_cpython_wrapper=True)


def nested_row(function: Function) -> Function:
    """Like `compiled_row`, for compiled callers only."""
    return _compile(function, {"contract", "nsz"}, _nrt=False, no_cpython_wrapper=True)


def nested_row_sum(function: Function) -> Function:
    """Like `compiled_row_sum`, for compiled callers only."""
    return _compile(function, {"contract", "nsz", "reassoc"}, _nrt=False, no_cpython_wrapper=True)


def nested_step(function: Function) -> Function:
    """Like `compiled_step`, for compiled callers only."""
    return _compile(function, {"contract", "nsz"}, _nrt=False, forceinline=True, no_cpython_wrapper=True)


def aligned_empty(shape: tuple[int, int], dtype: Any) -> FloatArray:
    """Return an uninitialised array aligned to a cache line, so that vector loads do not straddle two lines."""
    dtype = np.dtype(dtype)
    size = shape[0] * shape[1] * dtype.itemsize
    memory = np.empty(size + 64, dtype=np.uint8)
    start = -memory.ctypes.data % 64
    array: FloatArray = memory[start : start + size].view(dtype).reshape(shape)
    return array


def as_compiled(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return the array as C-contiguous, of a dtype and writable; numba would compile again for other arrays."""
    array = np.ascontiguousarray(array, dtype=dtype)
    return array if array.flags.writeable else array.copy()


class _BlasThreads:
    """Counts who needs BLAS on one thread; the first one sets the limit, the last one restores what was before."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._limit: Any = None

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                _let_any_thread_decide()
                self._limit = _blas_controller().limit(limits=1, user_api="blas")
                _let_any_thread_decide()

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                _let_any_thread_decide()
                self._limit.restore_original_limits()
                _let_any_thread_decide()


@cache
def _blas_controller() -> ThreadpoolController:
    return ThreadpoolController()


def _let_any_thread_decide() -> None:
    """Make the next thread that sets a limit the one whose limit holds.

    From 3.8 on threadpoolctl heeds the first thread that ever set one, and says nothing to others: a limit entered by
    a worker's thread was none, and one that another thread left was never lifted. Here threads take turns by a lock.
    """
    for library in _blas_controller().lib_controllers:
        clear = getattr(library, "clear_controlling_thread", None)
        if clear is not None:
            clear(force=True)


_blas_threads = _BlasThreads()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread: products of 256 rows run 2-4 times slower on two, and bits would depend on the machine.

    May be nested and entered by several threads at once.
    """
    _blas_threads.enter()
    try:
        yield
    finally:
        _blas_threads.leave()
