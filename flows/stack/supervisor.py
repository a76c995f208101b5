"""The supervisor: it starts the processes of a stack, restarts those that die, and ends them all."""

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
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from typing import Any

import psutil  # type: ignore[import-untyped]  # no stubs

from flows.server import LOOPBACK, PRIVACY, prefect_home, server_environment
from flows.stack.processes import MARK, ROOT, code_on_disk, end, heed_signals, marked, memory_of, wait_for
from flows.stack.state import ChildState, Phase, StackState, read_state, role_folder, stack_folder, take_lock

# Which processes a stack is made of: their commands, environments and addresses.

POOL = "okl"
QUERY_SECONDS = "1"  # polling interval of the Prefect worker: a run waits half of it on average
HEARTBEAT_SECONDS = "30"  # as in infra/prefect.yaml
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
WELL_KNOWN_PORT = 4200  # of Prefect's


@dataclass(frozen=True)
class StackOptions:
    """Options of `okl up`; port 0: any free port."""

    home: Path
    port: int = 0
    workers: int = 2
    tls: Path | None = None


@dataclass(frozen=True)
class Child:
    """One process: how it is started, and the bytes beyond which it is ended and started anew."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]
    address: str | None = None
    memory_limit: int | None = None
    inherited: tuple[int, ...] = ()


@dataclass(frozen=True)
class Ports:
    """The ports of a stack on 127.0.0.1; the API's socket is bound here, so that no other process takes it."""

    api: socket.socket
    scheduler: int
    health: int

    @property
    def url(self) -> str:
        """Return the URL of Prefect's API."""
        return f"http://{LOOPBACK}:{self.api.getsockname()[1]}/api"


@dataclass(frozen=True)
class Plan:
    """All processes of a stack, in the order in which they are started."""

    options: StackOptions
    ports: Ports
    instance: str
    parent: int = field(default_factory=os.getpid)

    @property
    def folder(self) -> Path:
        """Return the folder of state and logs, in which the processes run."""
        return stack_folder(self.options.home)

    @property
    def scheduler(self) -> str:
        """Return Dask's address."""
        return f"{'tcp' if self.options.tls is None else 'tls'}://{LOOPBACK}:{self.ports.scheduler}"

    def children(self) -> list[Child]:
        """Return the processes, the Prefect server first, because the others wait for it."""
        return [
            self._server(),
            self._node("scheduler", "scheduler", self.scheduler, port=self.ports.scheduler,
                       health_port=self.ports.health),
            Child("prefect-worker", self._python("prefect-worker", pool=POOL), self._client()),
            *(self._worker(number) for number in range(1, self.options.workers + 1)),
        ]  # fmt: skip

    def _server(self) -> Child:
        home, listener = self.options.home, self.ports.api.fileno()
        script, lock = Path(__file__).parents[1] / "serving.py", prefect_home(home) / "start.lock"
        environment = server_environment(home, self._environment(), deployments=True) | {
            "PREFECT_SERVER_UI_ENABLED": "true",
            "PREFECT_UI_API_URL": self.ports.url,
            "PREFECT_UI_STATIC_DIRECTORY": str(prefect_home(home) / "pages"),
        }
        command = (sys.executable, "-P", str(script), str(self.parent), str(listener), str(lock))
        return Child("server", command, environment, self.ports.url, inherited=(listener,))

    def _worker(self, number: int) -> Child:
        limit = psutil.virtual_memory().total // max(1, self.options.workers)
        return self._node(
            f"worker-{number}", "worker", None, limit, scheduler=self.scheduler, memory_limit=limit,
            folder=f"scratch-{number}",
        )  # fmt: skip

    def _node(self, name: str, role: str, address: str | None, limit: int | None = None, **options: Any) -> Child:
        options["tls"] = None if self.options.tls is None else str(role_folder(self.options.tls, role))
        return Child(name, self._python(role, **options), self._environment() | ONE_THREAD, address, limit)

    def _python(self, role: str, **options: Any) -> tuple[str, ...]:
        return (sys.executable, "-P", "-m", "flows.stack.child", role, str(self.parent), json.dumps(options))

    def _environment(self) -> dict[str, str]:
        """Return the environment of all processes, without Prefect variables that are set here."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        imports = [str(ROOT), *filter(None, [inherited.get("PYTHONPATH")])]
        bypass = {name: f"{inherited.get(name, '')},{LOOPBACK}".lstrip(",") for name in ("NO_PROXY", "no_proxy")}
        own = {
            "OKL_HOME": str(self.options.home),
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(imports)),
            "PYTHONUNBUFFERED": "1",
            MARK: self.instance,
        }
        return inherited | PRIVACY | bypass | own

    def _client(self) -> dict[str, str]:
        """Return the environment of clients of the Prefect server."""
        return self._environment() | {
            "PREFECT_API_URL": self.ports.url,
            "PREFECT_HOME": str(prefect_home(self.options.home)),
            "PREFECT_WORKER_QUERY_SECONDS": QUERY_SECONDS,
            "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": HEARTBEAT_SECONDS,
        }


def choose_ports(wanted: int, last: int | None = None) -> Ports:
    """Free ports of 127.0.0.1.

    Parameters
    ----------
    wanted : of the API and its pages; 0: the one of last time if it is free, or Prefect's own 4200, or any
    last : port of last time, if known

    Raises
    ------
    OSError : the one that is wanted is taken
    """
    candidates = [wanted] if wanted else [*([last] if last else []), WELL_KNOWN_PORT, 0]
    scheduler, health = (_bound(0) for _ in range(2))
    try:
        for number, port in enumerate(candidates, start=1):
            try:
                return Ports(_bound(port), scheduler.getsockname()[1], health.getsockname()[1])
            except OSError:
                if number == len(candidates):
                    raise
        raise AssertionError("there is always a candidate")
    finally:
        scheduler.close()
        health.close()


def _bound(port: int) -> socket.socket:
    opened = socket.socket()
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((LOOPBACK, port))
    except OSError:
        opened.close()
        raise
    return opened


# One process of a stack: started, watched, and started anew when it dies, later the more often it does.

FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.25, 30.0
STEADY_SECONDS = 20.0  # a process that has lived for that long is restarted at once
MOST_LOG_BYTES = 5_000_000


@dataclass
class Running:
    """A child, and what became of it.

    killed_for : why it is being ended by us, until it has; ended : how it last ended
    """

    child: Child
    log: Path
    process: subprocess.Popen[bytes] | None = None
    since: float | None = None
    begun: float = 0.0
    restarts: int = -1
    failures: int = 0
    due: float = 0.0
    killed_for: str | None = None
    ended: str | None = None

    def state(self) -> ChildState:
        """Return the state for the file."""
        pid = self.process.pid if self.process is not None else None
        return ChildState(
            self.child.name, pid, self.child.address, self.since, max(0, self.restarts), self.ended, str(self.log)
        )

    def start(self, folder: Path, now: float) -> None:
        """Start it in a folder; where the system refuses, it is due again later."""
        child = self.child
        try:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    child.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=child.environment,
                    cwd=folder, pass_fds=child.inherited, start_new_session=True,
                )  # fmt: skip
        except OSError as error:  # no memory, no process numbers, a full disk: tried again
            self.ended, self.failures = f"could not be started: {error.strerror}", self.failures + 1
            self.due = now + _delay(self.failures)
            return
        self.since, self.begun = time.time(), now
        self.restarts += 1

    def note_end(self, code: int, now: float) -> None:
        """Record the exit code, and set the time of the next start."""
        lived = now - self.begun
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        self.ended, self.killed_for = self.killed_for or f"ended {how} after {lived:.0f} s", None
        self.failures = 1 if lived >= STEADY_SECONDS or code == 0 else self.failures + 1
        self.process, self.since = None, None
        self.due = now + _delay(self.failures)

    def bound(self) -> None:
        """Keep its log and one before it, and end it if it has taken more memory than it may."""
        with suppress(OSError):
            if self.log.stat().st_size > MOST_LOG_BYTES:
                shutil.copyfile(self.log, self.log.with_suffix(".log.1"))
                os.truncate(self.log, 0)  # a writer continues at the new start of the file
        limit, process = self.child.memory_limit, self.process
        if limit is None or process is None:
            return
        used = memory_of(process.pid) or 0
        if used > limit:
            self.killed_for = f"used {used / 2**20:.0f} of {limit / 2**20:.0f} MiB and was stopped"
            process.kill()


def _delay(failures: int) -> float:
    """Return seconds to wait before the next start, after so many ends in a row."""
    return float(min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** (failures - 1)))


# The one process that starts the others of a stack, starts those anew that die, and ends them all.
#
#     python -m flows.stack.supervisor OPTIONS
#
# It imports neither Prefect nor Dask: a few megabytes that wait.

TICK_SECONDS = 0.25
LOOK_SECONDS = 2.0  # between checks of memory and the size of logs
RUNS_SECONDS, OTHERS_SECONDS = 1.5, 1.5  # of the five in which all is to be over
ANOTHER_IS_UP, PORT_IS_TAKEN = 3, 4


class Supervisor:
    """Supervisor that keeps the processes of a plan running until it is stopped.

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
                if self._restart_dead():
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

    def _restart_dead(self) -> bool:
        """Start due processes; record those that ended or grew too large; return whether anything has changed."""
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
        """Stop the runs first, while a server can record their end; then stop the other processes."""
        direct = {running.process.pid for running in self.children if running.process is not None}
        everybody = marked(self.plan.instance)
        runs = [process for process in everybody if process.pid not in direct]
        for process in runs:
            with suppress(psutil.Error):  # it has ended
                process.terminate()
        wait_for(runs, RUNS_SECONDS)
        end(marked(self.plan.instance), OTHERS_SECONDS)
        for running in self.children:
            if running.process is not None:
                with suppress(subprocess.TimeoutExpired):
                    running.process.wait(0.5)
        end(marked(self.plan.instance), 0.0)
        for left in self.folder.glob("scratch-*"):
            shutil.rmtree(left, ignore_errors=True)

    def _write(self, phase: Phase) -> None:
        self.state = self.state.changed(phase=phase, children=tuple(running.state() for running in self.children))
        with suppress(OSError):  # a full disk must not end what runs
            self.state.write(self.folder)


def supervise(options: StackOptions) -> int:
    """Run the supervisor until it is stopped; return an exit code.

    ANOTHER_IS_UP where there is one already, PORT_IS_TAKEN if another program has the port.
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
