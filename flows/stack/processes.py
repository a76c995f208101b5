"""Processes of a stack, known by what they have in their environment: no process id that was used again deceives."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress

import psutil  # type: ignore[import-untyped]  # no stubs

MARK = "OKL_STACK"
POLL_SECONDS = 0.02


def marked(instance: str) -> list[psutil.Process]:
    """Living processes of this user, other than this one, that were started with the mark of a stack."""
    found = []
    own = psutil.Process().pid
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # ended meanwhile, or another user's
            if process.pid != own and process.environ().get(MARK) == instance:
                found.append(process)
    return [process for process in found if alive(process)]


def alive(process: psutil.Process) -> bool:
    """Whether a process runs: one that waits to be reaped does not."""
    with suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def memory_of(pid: int | None) -> int | None:
    """Resident bytes of a process; None if it is gone."""
    if pid is None:
        return None
    with suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return None


def end(processes: Iterable[psutil.Process], gently_seconds: float) -> list[psutil.Process]:
    """Ask processes to end, and kill those that have not in time; returns those."""
    processes = list(processes)
    for process in processes:
        with suppress(psutil.Error):
            process.terminate()
    left = wait_for(processes, gently_seconds)
    for process in left:
        with suppress(psutil.Error):
            process.kill()
    return left


def wait_for(processes: Iterable[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Wait until processes have ended; returns those that have not in time."""
    deadline = time.monotonic() + seconds
    left = [process for process in processes if alive(process)]
    while left and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        left = [process for process in left if alive(process)]
    return left
