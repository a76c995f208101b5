"""Script of the process of okl's own Prefect server, started by `flows.server` only.

It is started by its path and imports nothing of okl, so that it runs from any directory and starts fast. It differs
from plain uvicorn in two ways: it ends with its parent process, and it starts under a lock, because two servers that
migrate a new database at the same time corrupt it.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import uvicorn

PARENT_POLL_SECONDS = 0.5
GRACE_SECONDS = 5.0


class LockedStartup(uvicorn.Server):
    """Uvicorn server that starts, including migrations, under a lock shared by all servers of a home folder."""

    def __init__(self, config: uvicorn.Config, lock: Path) -> None:
        super().__init__(config)
        self.lock = lock

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start while holding the lock; the operating system releases it if this process dies."""
        with self.lock.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            await super().startup(sockets)


def end_with(parent: int) -> None:
    """End this process, first by SIGTERM, when `parent` is no longer its parent process."""
    # Not PR_SET_PDEATHSIG: it depends on the thread that started this process, which may end before its process.
    # Not a pipe: any other child process of the parent would keep it open.
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def main(parent: int, listener: int, lock: Path) -> None:
    """Serve Prefect's API on the inherited socket until SIGTERM, or until the parent process has ended.

    Parameters
    ----------
    parent : id of the process that started this one
    listener : file descriptor of a socket that is bound but not listening, so that no client connects too early
    lock : file to lock during startup
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # else inherited as ignored from a parent that ignores them
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    config = uvicorn.Config(
        "prefect.server.api.server:create_app",
        factory=True,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=2,
    )
    LockedStartup(config, lock).run(sockets=[socket.socket(fileno=listener)])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
