"""State file of a local stack, the lock of its supervisor, and discovery of a running stack."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal

from flows.stack.processes import code_on_disk, get_json, server_answers
from okl.distributed.processes import VARIABLE, RunningWorkers
from okl.foundation.errors import ExecutionError
from okl.foundation.locations import okl_home

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
    url : of Prefect's API; scheduler : of Dask's; health_port : of the scheduler's health check
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
        """Write to a temporary file and rename it, so that a reader sees the old or the new state."""
        beside = folder / f".stack.json.{os.getpid()}"
        beside.write_text(json.dumps(asdict(self), indent=1))
        beside.replace(folder / "stack.json")

    def changed(self, **values: Any) -> StackState:
        """Return the same stack with other values."""
        return replace(self, **values)


def stack_folder(home: Path) -> Path:
    """Return the folder of the stack in okl's home folder, whether there is one or not."""
    return home / "stack"


def role_folder(folder: Path, role: str) -> Path:
    """Return the certificates of a role: from the subfolder of its name (infra/tls/make.py), or from the folder."""
    return folder / role if (folder / role).is_dir() else folder


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
        except BlockingIOError:  # another supervisor, or a reader
            if time.monotonic() > deadline:
                file.close()
                return None
            time.sleep(0.02)
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def supervisor_of(folder: Path) -> int | None:
    """Return the process id of the supervisor, which lives; None if there is none.

    The lock decides, not the process id, which may belong to another process by now.
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
    """Return the state of a stack whose supervisor lives; None if there is none, or it has not written anything yet."""
    pid = supervisor_of(folder)
    state = read_state(folder) if pid is not None else None
    return state if state is not None and state.pid == pid else None


# Discovery of a running stack by commands and runs

# How commands and runs find the local stack of their home folder: a stack that is dead, or busy dying, is none.

PATIENCE_SECONDS = 30.0  # overdue runs on a busy machine keep a server from answering for several seconds
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class StackServer:
    """The Prefect server of the stack."""

    url: str


def live_stack(home: Path) -> StackState | None:
    """Return the stack of a home folder if it is up; None if there is none, or if it is starting or stopping."""
    state = live_state(stack_folder(home))
    return state if state is not None and state.phase == "up" else None


def stack_server(home: Path, patience_seconds: float = PATIENCE_SECONDS) -> StackServer | None:
    """Return the Prefect server of the stack, as soon as it answers; None if there is no stack.

    A stack whose supervisor lives exists, however busy: if silence counted as absence, a caller would start a second
    server, or report that there is none.

    Raises
    ------
    ExecutionError : the stack runs, but its server did not answer within `patience_seconds`
    """
    deadline = time.monotonic() + patience_seconds
    while (state := live_stack(home)) is not None:
        # all remaining time for one request: a repeated one would join the end of a busy server's queue
        if server_answers(state.url, max(POLL_SECONDS, deadline - time.monotonic())):
            return StackServer(state.url)
        if time.monotonic() > deadline:
            raise ExecutionError(
                f"The stack of `okl up` at {state.url} is running, but did not answer within {patience_seconds:.0f} s. "
                "Check `okl status` and try again, or restart it: `okl down`, then `okl up`."
            )
        time.sleep(POLL_SECONDS)
    return None


@contextmanager
def workers_offered(home: Path) -> Iterator[None]:
    """Let runs that request local workers use those of the stack, if it runs the same code of okl.

    It is only an offer: see `okl.distributed.processes`. The model does not depend on the workers or their number.
    """
    state = live_stack(home)
    if state is None or not state.workers or state.code != code_on_disk():
        yield
        return
    tls = None if state.tls is None else str(role_folder(Path(state.tls), "client"))
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = RunningWorkers(state.scheduler, state.workers, tls).text()
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


# Scoring with each new champion, shown where a champion is changed by hand; nothing heavy is imported.
#
# The event that triggers such scoring is sent at the end of a retraining, however the champion changed before
# it.


def rescoring(model: str, registry: str | None) -> str:
    """Return when rows are scored with the new champion, and how to score them now; "" without such a deployment.

    Parameters
    ----------
    model : its name; registry : as given to the command, None for the usual one
    """
    from okl.models.registry import registry_location

    place, configured = registry_location(registry), os.environ.get("PREFECT_API_URL")
    if configured:
        return rescoring_at(configured, model, place)
    stack = live_stack(okl_home())  # do not wait for a server: the request is done, and this is only a hint
    return rescoring_at(stack.url, model, place, f"PREFECT_API_URL={stack.url} prefect") if stack else ""


def rescoring_at(url: str, model: str, registry: str, prefect: str = "prefect") -> str:
    """Return the same of one server; registry : where the model lies; prefect : how to call Prefect's command."""
    found = get_json(f"{url}/deployments/name/okl-score/{model}")
    if not isinstance(found, dict):
        return ""
    settings = (found.get("parameters") or {}).get("settings") or {}
    if settings.get("model") != f"{model}@champion" or settings.get("registry") != registry:
        return ""
    return (
        f"{settings.get('source')} is scored with it at the next run of okl-retrain/{model}; to score now: "
        f"{prefect} deployment run okl-score/{model}"
    )
