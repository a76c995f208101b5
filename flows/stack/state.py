"""State file of a local stack, the lock of its supervisor, and discovery of a running stack."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal

from flows.server import ROOT, server_answers, stack_login
from okl.distributed.processes import VARIABLE, RunningWorkers, environment
from okl.foundation.errors import ExecutionError
from okl.foundation.locations import write_private

Phase = Literal["starting", "up", "stopping"]
LOCK_SECONDS = 1.0  # a reader holds the lock for a moment
POLL_SECONDS = 0.02
HEALTH_SOCKET = "health"  # of the scheduler, in the folder of the stack


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
    """State of a stack, as its supervisor writes it.

    instance : value of OKL_STACK in the environment of all its processes; url : of Prefect's API; scheduler : of Dask's
    workers : Dask workers; tls : folder of their certificates; code : digest of okl's code at its start
    """

    instance: str
    pid: int
    since: float
    phase: Phase
    url: str
    scheduler: str
    pool: str
    workers: int
    tls: str
    code: str
    children: tuple[ChildState, ...]

    def write(self, folder: Path) -> None:
        write_private(folder / "stack.json", json.dumps(asdict(self), indent=1))


def stack_folder(home: Path) -> Path:
    """Return the folder of the stack in okl's home folder, whether there is one or not."""
    return home / "stack"


def code_on_disk() -> str:
    """Return a digest of the names, sizes and times of okl's files; running processes may have imported older ones."""
    digest = hashlib.sha256()
    for path in sorted(path for package in ("okl", "flows") for path in (ROOT / package).rglob("*.py")):
        with suppress(FileNotFoundError):  # removed since it was listed, as while an editor saves
            status = path.stat()
            digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def read_state(folder: Path) -> StackState | None:
    """Return the last written state; None if there is none, or none that this version of okl can read."""
    try:
        values = json.loads((folder / "stack.json").read_text())
        children = tuple(ChildState(**child) for child in values.pop("children"))
        return StackState(**values, children=children)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def take_lock(folder: Path) -> IO[str] | None:
    """Return the locked file of the supervisor, which the end of the process unlocks; None if there is another one."""
    file = (folder / "lock").open("a+")
    deadline = time.monotonic() + LOCK_SECONDS
    while time.monotonic() < deadline:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            return file
        except BlockingIOError:  # another supervisor, or a reader
            time.sleep(POLL_SECONDS)
    file.close()
    return None


def supervisor_of(folder: Path) -> int | None:
    """Return the process id of the running supervisor, by its lock; None if there is none."""
    with suppress(OSError), (folder / "lock").open("r+") as file:
        deadline = time.monotonic() + LOCK_SECONDS
        while time.monotonic() < deadline:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None
            except BlockingIOError:
                file.seek(0)
                with suppress(ValueError):  # it has the lock, but has not written its number yet
                    return int(file.read())
                time.sleep(POLL_SECONDS)
    return None


def live_state(folder: Path) -> StackState | None:
    """Return the state of a stack whose supervisor runs; None if there is none, or it has not written anything yet."""
    pid = supervisor_of(folder)
    state = read_state(folder) if pid is not None else None
    return state if state is not None and state.pid == pid else None


# Discovery by commands and runs: a stack that is dead, starting or stopping is none.

PATIENCE_SECONDS = 30.0  # overdue runs on a busy machine keep a server from answering for several seconds
RETRY_SECONDS = 0.2


@dataclass(frozen=True)
class StackServer:
    """The Prefect server of the stack. login : "user:password" """

    url: str
    login: str


def live_stack(home: Path) -> StackState | None:
    """Return the stack of a home folder if it is up; None if there is none, or if it is starting or stopping."""
    state = live_state(stack_folder(home))
    return state if state is not None and state.phase == "up" else None


def stack_server(home: Path, patience_seconds: float = PATIENCE_SECONDS) -> StackServer | None:
    """Return the Prefect server of the stack, as soon as it answers; None if there is no stack.

    A stack whose supervisor runs exists, however busy: if silence counted as absence, a caller would start a second
    server, or report that there is none.

    Raises ExecutionError : the stack runs, but its server did not answer within `patience_seconds`
    """
    deadline = time.monotonic() + patience_seconds
    while (state := live_stack(home)) is not None:
        # all remaining time for one request: a repeated one would join the end of a busy server's queue
        if server_answers(state.url, max(RETRY_SECONDS, deadline - time.monotonic())):
            return StackServer(state.url, stack_login(home))
        if time.monotonic() > deadline:
            raise ExecutionError(
                f"The stack of `okl up` at {state.url} is running, but did not answer within {patience_seconds:.0f} s. "
                "Check `okl status` and try again, or restart it: `okl down`, then `okl up`."
            )
        time.sleep(RETRY_SECONDS)
    return None


@contextmanager
def workers_offered(home: Path) -> Iterator[None]:
    """Offer the stack's workers to runs here that request local ones, if it runs the same code of okl."""
    state = live_stack(home)
    if state is None or not state.workers or state.code != code_on_disk():
        yield
        return
    with environment({VARIABLE: RunningWorkers(state.scheduler, state.workers, state.tls).text()}):
        yield
