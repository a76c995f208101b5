"""Tags of Prefect runs that name their process, by which runs of killed processes are known."""

from __future__ import annotations

import os
import platform
import re

import psutil  # type: ignore[import-untyped]  # no stubs

MOST_APART_SECONDS = 60  # tolerance for start times of processes, which move when the clock is set
PROCESS = re.compile(r"okl-process:(?P<host>.*):(?P<pid>\d+):(?P<start>\d+)")


def process_tag() -> str:
    """Return a tag that identifies this process among all hosts: host, process id and start time."""
    return f"okl-process:{platform.node()}:{os.getpid()}:{_start_time(os.getpid())}"


def is_command(tag: str) -> bool:
    """Return whether a tag names a process: that of a command, which no deployment has started.

    >>> is_command(process_tag()), is_command("okl")
    (True, False)
    """
    return PROCESS.fullmatch(tag) is not None


def is_dead_process(tag: str) -> bool:
    """Return whether a tag names a process of this host that has ended.

    >>> is_dead_process(process_tag()), is_dead_process("okl"), is_dead_process("okl-process:elsewhere:1:0")
    (False, False, False)
    >>> is_dead_process(f"okl-process:{platform.node()}:{os.getpid()}:0")  # the process id has been reused
    True
    """
    match = PROCESS.fullmatch(tag)
    if match is None or match["host"] != platform.node():
        return False
    start = _start_time(int(match["pid"]))
    return start is None or abs(start - int(match["start"])) > MOST_APART_SECONDS


def _start_time(pid: int) -> int | None:
    """Return the start time of a process in seconds since 1970; None if there is no such process."""
    try:
        seconds: float = psutil.Process(pid).create_time()
    except psutil.Error:
        return None
    return round(seconds)
