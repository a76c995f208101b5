"""A process that has imported okl and Prefect, and makes copies of itself that run: each begins in milliseconds.

    python -m flows.stack.forkserver PARENT

serves a socket in the current directory, which belongs to this user alone. Every copy is a process like any other, in
a session of its own, with the environment, directory and streams of whoever asked; see `flows.stack.handoff`.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Any

from flows.stack.becoming import Request, become
from flows.stack.code import code_on_disk
from flows.stack.handoff import ANSWER_SECONDS, SOCKET, STREAMS
from flows.stack.mortal import begin
from flows.stack.rehearsal import rehearse

WARM = (
    "prefect.flow_engine", "prefect.task_engine", "prefect.runner.storage", "prefect.artifacts", "flows.train",
    "flows.score", "flows.retrain", "flows.compare", "flows.run", "flows.cli.commands", "flows.cli.compare",
    "flows.run", "okl.distributed.dask", "okl.runs.evaluate", "okl.runs.precompile", "okl.report.run",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
)  # fmt: skip
# read when a module is imported: a process that wants other values has to import it itself
READ_AT_IMPORT = ("PREFECT_", "NUMBA_", "OMP_", "OPENBLAS_", "MKL_", "PYTHON", "LD_", "DYLD_", "ARROW_", "DASK_")
ONE_RUN = "PREFECT__"  # what Prefect tells a single run
TICK_SECONDS = 5.0


class ForkServer:
    """Answers requests one by one; `serve` returns in the copies only."""

    def __init__(self) -> None:
        self.code = code_on_disk()
        self.outdated = False
        self.settings = _settings()
        self.runs: dict[int, socket.socket | None] = {}
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.wakes, self.wake = socket.socketpair()

    def serve(self) -> Request | None:
        """Serve until the code on disk is another and no run is left; in a copy, return what it is to run."""
        if os.path.exists(SOCKET):
            os.unlink(SOCKET)
        self.listener.bind(SOCKET)
        self.listener.listen(64)
        self.wakes.setblocking(False)
        self.wake.setblocking(False)
        signal.set_wakeup_fd(self.wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(self.wakes, selectors.EVENT_READ)
        gc.collect()
        gc.freeze()  # copies share what is never looked at again
        while not (self.outdated and not self.runs):
            for key, _ in self.selector.select(TICK_SECONDS):
                if key.fileobj is self.listener:
                    if (request := self._accept()) is not None:
                        return request
                elif key.fileobj is self.wakes:
                    self._reap()
                else:
                    self._pass_on(key.data)
            self.outdated = self.outdated or code_on_disk() != self.code
        return None

    def _accept(self) -> Request | None:
        connection, _ = self.listener.accept()
        connection.settimeout(ANSWER_SECONDS)
        try:
            asked, streams = _receive(connection)
        except (OSError, ValueError):
            connection.close()
            return None
        if "module" not in asked:
            _answer(connection, {"ready": True, "runs": len(self.runs)}, streams)
            return None
        request = Request(connection, streams=streams, **asked)
        if (reason := self._unfit(request)) is not None:
            _answer(connection, {"refused": reason}, streams)
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: BLAS has some, and looks after forks
            pid = os.fork()
        if pid == 0:
            return request
        for stream in streams:
            os.close(stream)
        self.runs[pid] = connection
        self.selector.register(connection, selectors.EVENT_READ, pid)
        with suppress(OSError):  # gone already: its end will be noticed
            connection.sendall(json.dumps({"pid": pid}).encode() + b"\n")
        return None

    def _unfit(self, request: Request) -> str | None:
        """Why a request cannot be run in a copy of this process, if so."""
        self.outdated = self.outdated or code_on_disk() != self.code
        if self.outdated:
            return "okl's code is another than it was at `okl up`"
        here, there = dict(os.environ), request.environment
        for name in sorted({*here, *there}):
            if name.startswith(READ_AT_IMPORT) and not name.startswith(ONE_RUN):
                wanted = there.get(name)
                if wanted != here.get(name) and (wanted is None or wanted != self.settings.get(name)):
                    return f"{name} is another than it was at `okl up`"
        return None

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            while self.wakes.recv(4096):
                pass
        for pid in list(self.runs):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done and (connection := self.runs.pop(pid)) is not None:
                self.selector.unregister(connection)
                _answer(connection, {"code": os.waitstatus_to_exitcode(status)}, [])

    def _pass_on(self, pid: int) -> None:
        """Pass signals on to a run, which has not been reaped yet; end it where whoever asked for it is gone."""
        if (connection := self.runs.get(pid)) is None:
            return
        try:
            numbers = connection.recv(64)
        except OSError:
            numbers = b""
        for number in numbers:
            os.kill(pid, number)
        if not numbers:
            self.selector.unregister(connection)
            connection.close()
            self.runs[pid] = None
            for kill in (os.killpg, os.kill):  # it may not lead a session of its own yet
                with suppress(ProcessLookupError):
                    kill(pid, signal.SIGKILL)

    def leave_to(self, request: Request) -> None:
        """In a copy: let go of what belongs to the fork server."""
        signal.set_wakeup_fd(-1)
        self.selector.close()
        kept = [self.listener, self.wakes, self.wake, request.connection, *self.runs.values()]
        for opened in kept:
            if opened is not None:
                opened.close()


def main(parent: int) -> None:
    """Import, serve, and in each copy run what was asked for; a copy ends as any process does, by leaving main."""
    begin(parent)
    for module in WARM:
        import_module(module)
    rehearse()
    server = ForkServer()
    mine = os.getpid()
    if (request := server.serve()) is not None:
        server.leave_to(request)
        become(request, mine)


def _settings() -> dict[str, str]:
    """Prefect's settings, as it writes them itself when it starts a process."""
    from prefect.settings import get_current_settings

    return dict(get_current_settings().to_environment_variables(exclude_unset=True))


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A request, and the files that came with it."""
    start, streams, _, _ = socket.recv_fds(connection, 8, len(STREAMS))
    length, content = int.from_bytes(start, "big"), b""
    while len(content) < length:
        more = connection.recv(length - len(content))
        if not more:
            raise OSError("hung up")
        content += more
    asked: dict[str, Any] = json.loads(content)
    return asked, list(streams)


def _answer(connection: socket.socket, answer: dict[str, Any], streams: list[int]) -> None:
    """Say something, and hang up."""
    with suppress(OSError):
        connection.sendall(json.dumps(answer).encode() + b"\n")
    connection.close()
    for stream in streams:
        os.close(stream)


if __name__ == "__main__":
    main(int(sys.argv[1]))
