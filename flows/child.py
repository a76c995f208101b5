"""Processes of okl: children (a Prefect server, a command of Prefect or Dask) that end with their parent, and tags.

`python -P -m flows.child PARENT ROLE ARGUMENTS`; this module imports Prefect or Dask only for the role that needs it.
"""

from __future__ import annotations

import fcntl
import os
import pkgutil
import platform
import re
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # no stubs

from okl.foundation.locations import keep_private

POLL_SECONDS = 0.3
GRACE_SECONDS = 3.0
COMMANDS = {
    "prefect": "prefect.cli:app",
    "scheduler": "distributed.cli.dask_scheduler:main",
    "worker": "distributed.cli.dask_worker:main",
}


def restore_signals() -> None:
    """Give signals their default actions and block none: a script, nohup or CI may have had them ignored or blocked."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def end_with_parent(parent: int) -> None:
    """End this process when `parent` is no longer its parent: first by SIGTERM, then by SIGKILL with its children.

    A parent-death signal would depend on the thread that started this process, which may end before its process; a
    pipe would be kept open by any other child process of the parent.
    """
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    own = psutil.Process()
    for process in [*own.children(recursive=True), own]:
        with suppress(psutil.Error):
            process.kill()


def serve(listener: int, lock: Path) -> None:
    """Serve Prefect's API on an inherited socket until SIGTERM.

    listener : file descriptor of a bound socket; if it does not listen yet, no client connects too early
    lock : file to lock during the start: two servers that migrate a new database at the same time corrupt it
    """
    import uvicorn

    class LockedStartup(uvicorn.Server):
        """Uvicorn server that starts under the lock; the system releases it if this process dies."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            with lock.open("a") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                await super().startup(sockets)

    config = uvicorn.Config(
        "prefect.server.api.server:create_app", factory=True, log_level="warning", access_log=False,
        timeout_keep_alive=5, timeout_graceful_shutdown=2,
    )  # fmt: skip
    LockedStartup(config).run(sockets=[socket.socket(fileno=listener)])


def run_command(role: str, arguments: list[str]) -> None:
    """Run a command of Prefect or Dask; commands of Prefect wait until the server answers."""
    command = pkgutil.resolve_name(COMMANDS[role])
    if role == "prefect":
        import prefect.workers.process  # noqa: F401  imported while the server starts

        from flows.server import server_answers

        while not server_answers(os.environ["PREFECT_API_URL"]):
            time.sleep(POLL_SECONDS)
    sys.argv = [role, *arguments]
    sys.exit(command())


def main(parent: str, role: str, *arguments: str) -> None:
    """Run a role until it ends, this process is ended, or its parent is gone."""
    restore_signals()
    keep_private()
    threading.Thread(target=end_with_parent, args=(int(parent),), name="okl-end-with-parent", daemon=True).start()
    if role == "server":
        serve(int(arguments[0]), Path(arguments[1]))
    else:
        run_command(role, list(arguments))


# Tags of Prefect runs that name their process, by which runs of killed processes are known

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


if __name__ == "__main__":
    main(*sys.argv[1:])
