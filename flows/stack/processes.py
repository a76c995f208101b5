"""Processes of a stack: start-up, code version, HTTP requests, marks in the environment and termination."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import signal
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil  # type: ignore[import-untyped]  # no stubs

# Start of a process of the stack: it handles signals whatever its parent ignores, and ends with its parent.

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


# Which code of okl a process has: what was imported long ago may differ from what lies on the disk now.

ROOT = Path(__file__).absolute().parents[2]


def code_on_disk() -> str:
    """Return a digest of the names, sizes and times of okl's files as they are now; takes milliseconds."""
    digest = hashlib.sha256()
    for package in ("okl", "flows"):
        for folder, folders, names in os.walk(ROOT / package):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                if name.endswith(".py"):
                    with suppress(FileNotFoundError):  # gone since it was listed, as while an editor saves
                        status = os.stat(os.path.join(folder, name))
                        digest.update(f"{folder}/{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


# Questions to servers on loopback; nothing is imported for them.

ASK_SECONDS = 2.0


def server_answers(url: str, seconds: float = ASK_SECONDS) -> bool:
    """Return whether a Prefect server answers."""
    return get_json(f"{url}/health", seconds=seconds) is True


def get_json(url: str, body: Any = None, seconds: float = ASK_SECONDS) -> Any:
    """Return the JSON answer of a server on loopback; None without a valid answer."""
    parts = urlsplit(url)
    # http.client, not urllib: it knows nothing of proxies, which have no business on loopback
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=seconds)
    try:
        if body is None:
            connection.request("GET", parts.path)
        else:
            connection.request("POST", parts.path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        return json.loads(content) if answer.status == http.HTTPStatus.OK else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


# Processes of a stack, known by what they have in their environment: no process id that was used again deceives.

MARK = "OKL_STACK"
POLL_SECONDS = 0.02


def marked(instance: str) -> list[psutil.Process]:
    """Living processes of this user, other than this one, that were started with the mark of a stack."""
    found = []
    own = psutil.Process().pid
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # ended, or another user's
            if process.pid != own and process.environ().get(MARK) == instance:
                found.append(process)
    return [process for process in found if alive(process)]


def alive(process: psutil.Process) -> bool:
    """Return whether a process runs; a zombie does not."""
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
    """Terminate processes, and kill those that do not end in time; return those."""
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
