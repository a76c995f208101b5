"""The process of okl's own Prefect server: a script, run by `flows.server` and by nothing else.

It is started by its path and imports nothing of okl, so that it runs from any directory and starts as early as it can.
Two things set it apart from plain uvicorn: it ends with its parent, however that ends, and it starts up under a lock,
because two servers that migrate one fresh database at the same time break it.
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
    """A uvicorn server whose start, migrations included, excludes that of every other one of the same home folder."""

    def __init__(self, config: uvicorn.Config, lock: Path) -> None:
        super().__init__(config)
        self.lock = lock

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start up while holding the lock; the system releases it if this process dies."""
        with self.lock.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            await super().startup(sockets)


def end_with(parent: int) -> None:
    """End this process, gently and then at once, when `parent` is no longer its parent process."""
    # Not PR_SET_PDEATHSIG: that follows the thread which started us, and a thread may end long before its process.
    # Not a pipe: any process that the parent forked would hold it open.
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def main(parent: int, listener: int, lock: Path) -> None:
    """Serve Prefect's API on the inherited socket until SIGTERM, or until the parent process is gone.

    Parameters
    ----------
    parent : process id of the process that started this one
    listener : file descriptor of a socket that is bound, but not listening yet: nobody connects before it is ready
    lock : file to lock during startup
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # a parent that ignores them would otherwise make us deaf
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
