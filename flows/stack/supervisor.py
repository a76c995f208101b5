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
from dataclasses import dataclass
from pathlib import Path
from select import select

import psutil  # type: ignore[import-untyped]  # no stubs

from flows.stack.code import code_on_disk
from flows.stack.mortal import heed_signals
from flows.stack.plan import POOL, Child, Plan, StackOptions, choose_ports
from flows.stack.processes import end, marked, memory_of, wait_for
from flows.stack.state import ChildState, Phase, StackState, read_state, stack_folder, take_lock

TICK_SECONDS = 0.25
LOOK_SECONDS = 2.0  # between looks at memory and the size of logs
FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.25, 30.0
STEADY_SECONDS = 20.0  # whoever has lived for that long is started at once when it dies
RUNS_SECONDS, OTHERS_SECONDS = 1.5, 1.5  # of the five in which all is to be over
MOST_LOG_BYTES = 5_000_000
ANOTHER_IS_UP, PORT_IS_TAKEN = 3, 4


@dataclass
class Running:
    """A child, and what became of it."""

    child: Child
    log: Path
    process: subprocess.Popen[bytes] | None = None
    since: float | None = None
    begun: float = 0.0
    restarts: int = -1
    failures: int = 0
    due: float = 0.0
    ended: str | None = None

    def state(self) -> ChildState:
        """For the file."""
        pid = self.process.pid if self.process is not None else None
        return ChildState(
            self.child.name, pid, self.child.address, self.since, max(0, self.restarts), self.ended, str(self.log)
        )


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
                _bound_log(running.log)
                self._bound_memory(running)
            if running.process is not None and (code := running.process.poll()) is not None:
                self._note_end(running, code, now)
                changed = True
            if running.process is None and now >= running.due:
                self._start(running, now)
                changed = True
        return changed

    def _start(self, running: Running, now: float) -> None:
        child = running.child
        try:
            with running.log.open("ab") as log:
                running.process = subprocess.Popen(
                    child.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=child.environment,
                    cwd=self.folder, pass_fds=child.inherited, start_new_session=True,
                )  # fmt: skip
        except OSError as error:  # no memory, no process numbers, a full disk: tried again
            running.ended, running.failures = f"could not be started: {error.strerror}", running.failures + 1
            running.due = now + _delay(running.failures)
            return
        running.since, running.begun = time.time(), now
        running.restarts += 1

    def _note_end(self, running: Running, code: int, now: float) -> None:
        lived = now - running.begun
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        if running.ended is None or not running.ended.startswith("took"):
            running.ended = f"ended {how} after {lived:.0f} s"
        running.failures = 1 if lived >= STEADY_SECONDS or code == 0 else running.failures + 1
        running.process, running.since = None, None
        running.due = now + _delay(running.failures)

    def _bound_memory(self, running: Running) -> None:
        limit, process = running.child.memory_limit, running.process
        if limit is None or process is None:
            return
        used = memory_of(process.pid) or 0
        if used > limit:
            running.ended = f"took {used / 2**20:.0f} MiB of {limit / 2**20:.0f}, and was ended"
            process.kill()

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


def _delay(failures: int) -> float:
    """Seconds to wait before the next start, after so many ends in a row."""
    return float(min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** (failures - 1)))


def _bound_log(log: Path) -> None:
    """Keep the log and one before it; whoever writes to it goes on at its new beginning."""
    with suppress(OSError):
        if log.stat().st_size > MOST_LOG_BYTES:
            shutil.copyfile(log, log.with_suffix(".log.1"))
            os.truncate(log, 0)


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
