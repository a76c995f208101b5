"""The state file of a stack, and the lock that its supervisor holds.

Both lie in the folder `stack` of okl's home folder, which only this user may enter.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal

Phase = Literal["starting", "up", "stopping"]
LOCK_PATIENCE_SECONDS = 1.0


@dataclass(frozen=True)
class ChildState:
    """One process of the stack: when it was started (seconds since 1970), how often again, and how it last ended."""

    name: str
    pid: int | None
    address: str | None
    since: float | None
    restarts: int
    ended: str | None
    log: str


@dataclass(frozen=True)
class StackState:
    """A stack as its supervisor sees it.

    Attributes
    ----------
    instance : what all of its processes have in their environment, as OKL_STACK
    url : of Prefect's API; scheduler : of Dask's; health_port : where the scheduler tells how it is
    workers : Dask workers; tls : folder of certificates, or None; code : digest of okl's code at its start
    """

    instance: str
    pid: int
    since: float
    phase: Phase
    url: str
    scheduler: str
    health_port: int
    pool: str
    workers: int
    tls: str | None
    code: str
    children: tuple[ChildState, ...]

    def write(self, folder: Path) -> None:
        """Write beside and rename: who reads sees the old or the new."""
        beside = folder / f".stack.json.{os.getpid()}"
        beside.write_text(json.dumps(asdict(self), indent=1))
        beside.replace(folder / "stack.json")

    def changed(self, **values: Any) -> StackState:
        """The same stack with other values."""
        return replace(self, **values)


def stack_folder(home: Path) -> Path:
    """The folder of the stack in okl's home folder, whether there is one or not."""
    return home / "stack"


def read_state(folder: Path) -> StackState | None:
    """Return the last written state; None if there is none, or none that this version of okl can read."""
    try:
        values = json.loads((folder / "stack.json").read_text())
        children = tuple(ChildState(**child) for child in values.pop("children"))
        return StackState(**values, children=children)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def take_lock(folder: Path) -> IO[str] | None:
    """Become the one supervisor: an open file to keep as long as that lasts, or None if there is another.

    The system lets go of it when this process ends, however it does, so that there is never a stale one.
    """
    file = (folder / "lock").open("a+")
    deadline = time.monotonic() + LOCK_PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:  # another supervisor, or somebody who just looks
            if time.monotonic() > deadline:
                file.close()
                return None
            time.sleep(0.02)
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def supervisor_of(folder: Path) -> int | None:
    """The process id of the supervisor, which lives; None if there is none.

    The lock tells, not the process id: that may be of another process by now.
    """
    try:
        file = (folder / "lock").open("r+")
    except OSError:
        return None
    with file:
        deadline = time.monotonic() + LOCK_PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                with suppress(ValueError):  # it has the lock, but has not written its number yet
                    return int(file.read())
                time.sleep(0.02)
            else:
                return None
    return None


def live_state(folder: Path) -> StackState | None:
    """The state of a stack whose supervisor lives; None if there is none, or it has not written anything yet."""
    pid = supervisor_of(folder)
    state = read_state(folder) if pid is not None else None
    return state if state is not None and state.pid == pid else None
