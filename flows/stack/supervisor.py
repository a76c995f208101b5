"""The one process that starts the others of a stack, starts those anew that die, and ends them all.

    python -m flows.stack.supervisor OPTIONS

It imports neither Prefect nor Dask: a few megabytes that wait.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from select import select

import psutil  # type: ignore[import-untyped]  # no stubs

from flows.stack.code import code_on_disk
from flows.stack.mortal import heed_signals
from flows.stack.plan import POOL, Plan, StackOptions, choose_ports
from flows.stack.processes import end, marked, wait_for
from flows.stack.running import Running
from flows.stack.state import Phase, StackState, read_state, stack_folder, take_lock

TICK_SECONDS = 0.25
LOOK_SECONDS = 2.0  # between looks at memory and the size of logs
RUNS_SECONDS, OTHERS_SECONDS = 1.5, 1.5  # of the five in which all is to be over
ANOTHER_IS_UP, PORT_IS_TAKEN = 3, 4


class Supervisor:
    """Keeps the processes of a plan running until it is told to stop.

    Parameters
    ----------
    folder : for state, logs and sockets; also where the processes run
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder = folder
        self.plan = plan
        self.children = [Running(child, folder / f"{child.name}.log") for child in plan.children()]
        self.wakes, self.wake = socket.socketpair()
        self.stopping = False
        self.looked = 0.0
        options = plan.options
        self.state = StackState(
            plan.instance, os.getpid(), time.time(), "starting", plan.ports.url, plan.scheduler, plan.ports.health,
            POOL, options.workers, None if options.tls is None else str(options.tls), code_on_disk(), (),
        )  # fmt: skip

    def run(self) -> None:
        """Start all, watch them, and end all; returns when nothing is left."""
        self._listen_to_signals()
        try:
            self._write("starting")
            while not self.stopping:
                if self._tend():
                    self._write("up")
                with suppress(BlockingIOError):
                    if select([self.wakes], [], [], TICK_SECONDS)[0]:
                        self.wakes.recv(4096)
        finally:
            self._write("stopping")
            self._end_all()
            (self.folder / "stack.json").unlink(missing_ok=True)

    def _listen_to_signals(self) -> None:
        def stop(number: int, frame: object) -> None:
            self.stopping = True

        self.wakes.setblocking(False)
        self.wake.setblocking(False)
        signal.set_wakeup_fd(self.wake.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, stop)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)  # only wakes

    def _tend(self) -> bool:
        """Start whoever is due; note who has ended, or grown too large; tell whether anything has changed."""
        now, changed = time.monotonic(), False
        looking = now - self.looked >= LOOK_SECONDS
        self.looked = now if looking else self.looked
        for running in self.children:
            if looking:
                running.bound()
            if running.process is not None and (code := running.process.poll()) is not None:
                running.note_end(code, now)
                changed = True
            if running.process is None and now >= running.due:
                running.start(self.folder, now)
                changed = True
        return changed

    def _end_all(self) -> None:
        """Runs first, while there is a server that can note how they ended; then everybody else."""
        direct = {running.process.pid for running in self.children if running.process is not None}
        everybody = marked(self.plan.instance)
        runs = [process for process in everybody if process.pid not in direct]
        for process in runs:
            with suppress(psutil.Error):  # it has ended meanwhile
                process.terminate()
        wait_for(runs, RUNS_SECONDS)
        end(marked(self.plan.instance), OTHERS_SECONDS)
        for running in self.children:
            if running.process is not None:
                with suppress(subprocess.TimeoutExpired):
                    running.process.wait(0.5)
        end(marked(self.plan.instance), 0.0)
        for left in (*self.folder.glob("scratch-*"), self.folder / "warm.sock"):
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)

    def _write(self, phase: Phase) -> None:
        self.state = self.state.changed(phase=phase, children=tuple(running.state() for running in self.children))
        with suppress(OSError):  # a full disk must not end what runs
            self.state.write(self.folder)


def supervise(options: StackOptions) -> int:
    """Be the supervisor until told to stop; returns an exit code.

    ANOTHER_IS_UP where there is one already, PORT_IS_TAKEN where the port that is wanted belongs to somebody else.
    """
    folder = stack_folder(options.home)
    lock = take_lock(folder)
    if lock is None:
        return ANOTHER_IS_UP
    with lock:
        last = read_state(folder)
        if last is not None:  # it was killed, and could not clean up
            end(marked(last.instance), OTHERS_SECONDS)
            (folder / "stack.json").unlink(missing_ok=True)
        try:
            ports = choose_ports(options.port, _last_port(folder))
        except OSError:
            return PORT_IS_TAKEN
        (folder / "port").write_text(str(ports.api.getsockname()[1]))
        with ports.api:
            Supervisor(folder, Plan(options, ports, uuid.uuid4().hex)).run()
    return 0


def _last_port(folder: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int((folder / "port").read_text())
    return None


def main(words: str) -> int:
    """Supervise with options as JSON."""
    heed_signals()
    values = json.loads(words)
    tls = values["tls"]
    options = StackOptions(Path(values["home"]), values["port"], values["workers"], None if tls is None else Path(tls))
    return supervise(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
