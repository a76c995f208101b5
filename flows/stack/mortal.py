"""How a process of the stack begins: it heeds signals, whatever it was started from, and ends with its parent."""

from __future__ import annotations

import os
import signal
import threading
import time

PARENT_POLL_SECONDS = 0.3
GRACE_SECONDS = 3.0
HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)


def heed_signals() -> None:
    """Give signals their default actions, and let none be blocked.

    A script, nohup or CI may have had them ignored or blocked, which children inherit: they would be deaf.
    """
    for number in HEEDED:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python itself has it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def end_with(parent: int) -> None:
    """End this process, gently and then at once, when `parent` is no longer its parent: see `flows.serving`."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="okl-end-with-parent", daemon=True).start()


def begin(parent: int) -> None:
    """Heed signals, and end with the process that started this one."""
    heed_signals()
    end_with(parent)
