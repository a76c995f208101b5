"""Process start-up: environment, signals and workers that are already running."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import resource_tracker
from typing import Any

# Process start-up: environment, signals and threads.

# of <malloc.h>
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES, _LARGEST_KEPT_BYTES = 64 * 2**20, 32 * 2**20


@contextmanager
def restored_environment() -> Iterator[None]:
    """Undo changes of this process's environment made within; Dask sets OMP_NUM_THREADS and others for its children.

    It is left to children that are started later, and to libraries that are loaded later.
    """
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process's environment in a block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Block Ctrl-C in this thread, and permanently in threads and processes started within.

    A terminal sends Ctrl-C to workers too; they would print tracebacks while this process is about to end them.
    """
    # the thread that spawns the first process would start the tracker, which unblocks signals again
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@cache
def keep_freed_memory() -> bool:
    """Make this process keep up to 64 MiB of freed memory for later arrays; return whether that was possible.

    Dask starts workers with MALLOC_TRIM_THRESHOLD_=65536, by which glibc asks the system for each array over 128 KiB
    anew, page by page: passes over vectors then take 2 to 10 times as long, half of it in the kernel.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another library of C: it has its own ways
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES) and mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES))


def run_in_own_loop(task: Callable[[], Coroutine[Any, Any, None]], seconds: float) -> None:
    """Run a coroutine in an event loop of its own; raise what it raises, or TimeoutError after some seconds.

    In a thread, since this one may run an event loop already; a daemon, since resolving a name cannot be interrupted.
    """
    errors: list[Exception] = []

    def run() -> None:
        try:
            asyncio.run(task())
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="okl-apart", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"no answer after {seconds:g} s")
    if errors:
        raise errors[0]


# Dask's configuration in all processes; this module does not import Dask.

# a worker never spills or pauses: rows are read again from Parquet sooner than from a spill file; a value may be large
CONFIG = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    # the profiler (each 10 ms) and the clock (20 ms) only feed a dashboard; without them an idle process takes half
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1 s",
    "distributed.admin.large-graph-warning-threshold": "1 GiB",
    "distributed.scheduler.allowed-failures": 0,
    # a worker that dies while the one before it has not been gone for so long would not be replaced
    "distributed.deploy.lost-worker-timeout": "1 day",
}

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
"""Environment of workers."""

PRIVATE = "okl.distributed.preload"  # preload of scheduler and workers: they serve no web pages
HEALTH = "OKL_HEALTH_SOCKET"  # path of the unix socket of the scheduler's health check


# Running workers of this machine: OKL_STANDING_WORKERS.

VARIABLE = "OKL_STANDING_WORKERS"


@dataclass(frozen=True)
class RunningWorkers:
    """A Dask scheduler on this machine, how many workers it has, and the certificates that it requires, if any."""

    scheduler: str
    workers: int
    tls: str | None = None

    def text(self) -> str:
        return json.dumps(asdict(self))


def running_workers(wanted: int) -> RunningWorkers | None:
    """Return the offered workers if there are at least this many, otherwise None.

    >>> os.environ[VARIABLE] = RunningWorkers("tcp://127.0.0.1:8786", 2).text()
    >>> running_workers(2), running_workers(3)
    (RunningWorkers(scheduler='tcp://127.0.0.1:8786', workers=2, tls=None), None)
    >>> del os.environ[VARIABLE]
    """
    try:
        offered = RunningWorkers(**json.loads(os.environ.get(VARIABLE, "null")))
    except (ValueError, TypeError):
        return None
    return offered if offered.workers >= wanted else None
