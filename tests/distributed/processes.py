"""Information on processes from /proc: children, and the addresses on which they listen."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


def descendants(pid: int) -> set[int]:
    """Return the descendants of a process; zombies do not count."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue  # ended meanwhile
            if state != "Z":
                parents[int(folder.name)] = int(parent)
    pids: set[int] = set()
    frontier = {pid}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier}
        pids |= frontier
    return pids


def listening(pids: set[int]) -> list[str]:
    """Return local addresses of the listening TCP sockets of processes, in hexadecimal as in /proc/net/tcp."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(link)
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    addresses = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                addresses.append(fields[1])
    return addresses


def soon(condition: Callable[[], bool], seconds: float = 90.0) -> bool:
    """Return whether a condition becomes true within a time limit, which is long because the machine may be busy."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def heed_interrupts() -> None:
    """Give SIGINT its default action, as every terminal does."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
