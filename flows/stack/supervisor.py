"""The supervisor of a stack: it starts its processes, restarts those that end, and ends them all.

`python -P -m flows.stack.supervisor OPTIONS` imports neither Prefect nor Dask: a few megabytes that wait.
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
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from select import select
from threading import Thread

import psutil  # type: ignore[import-untyped]  # no stubs

from flows import server
from flows.child import restore_signals
from flows.stack import state as stack
from okl.distributed.processes import CONFIG, HEALTH, ONE_THREAD, PRIVATE
from okl.distributed.tls import FILES, write_self_signed
from okl.foundation.locations import keep_private, make_folders

# Processes of a stack have its identity in their environment: unlike process ids, it is never used again.

MARK = "OKL_STACK"


def marked(instance: str) -> list[psutil.Process]:
    """Return the living processes of this user, other than this one, that belong to a stack."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # ended, or another user's
            if process.pid != os.getpid() and process.environ().get(MARK) == instance and _lives(process):
                found.append(process)
    return found


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def end_marked(instance: str, seconds: float, spared: frozenset[int] = frozenset()) -> bool:
    """Terminate the processes of a stack but those spared, kill late ones; return whether there were any."""
    found = left = [process for process in marked(instance) if process.pid not in spared]
    for process in found:
        with suppress(psutil.Error):
            process.terminate()
    deadline = time.monotonic() + seconds
    while (left := [process for process in left if _lives(process)]) and time.monotonic() < deadline:
        time.sleep(stack.POLL_SECONDS)
    for process in left:
        with suppress(psutil.Error):
            process.kill()
    return bool(found)


def memory_of(pid: int | None) -> int | None:
    """Return the resident memory of a process in bytes; None if it has ended."""
    with suppress(psutil.Error):
        return None if pid is None else int(psutil.Process(pid).memory_info().rss)
    return None


# Processes of a stack: commands, environments and addresses

POOL = "okl"
PREFECT_WORKER = "okl-stack"
QUERY_SECONDS = "1"  # polling interval of the Prefect worker: a run waits half of it on average
HEARTBEAT_SECONDS = "30"  # as in infra/prefect.yaml
WELL_KNOWN_PORT = 4200  # of Prefect's
PRELOADED = ("okl.runs.train", "okl.runs.predict", "okl.runs.compare", "pyarrow.parquet")
DASK = {f"DASK_{key.upper().replace('.', '__').replace('-', '_')}": str(value) for key, value in CONFIG.items()}

FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.25, 30.0
STEADY_SECONDS = 20.0  # a process that has lived for that long is restarted at once
MOST_LOG_BYTES = 5_000_000


def log(text: str) -> None:
    """Write a line to standard error: supervisor.log, or the journal of a service manager."""
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} okl: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class StackOptions:
    """Options of `okl up`; port 0: any free port."""

    home: Path
    port: int = 0
    workers: int = 2


@dataclass
class Child:
    """One process of a stack, and how it last ended.

    memory_limit : bytes beyond which it is killed; inherited : file descriptors
    killed_for : why it is being killed by the supervisor; due : time of the next start
    """

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    address: str | None = None
    memory_limit: int | None = None
    inherited: tuple[int, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    since: float | None = None
    started: float = 0.0
    restarts: int = -1
    failures: int = 0
    due: float = 0.0
    killed_for: str | None = None
    ended: str | None = None

    def state(self) -> stack.ChildState:
        """Return the state for the file."""
        pid = self.process.pid if self.process is not None else None
        return stack.ChildState(
            self.name, pid, self.address, self.since, max(0, self.restarts), self.ended, str(self.log)
        )

    def start(self, now: float) -> None:
        """Start the process in the folder of its log; where the system refuses, it is due again later."""
        try:
            self.process = server.start_child(self.command, self.log, self.environment, self.inherited)
        except OSError as error:  # no memory, no process numbers, a full disk
            self._fail(f"could not be started: {error.strerror}", self.failures + 1, now)
        else:
            self.since, self.started, self.restarts = time.time(), now, self.restarts + 1

    def note_end(self, code: int, now: float) -> None:
        """Record the exit code, and set the time of the next start."""
        lived = now - self.started
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        failures = 1 if lived >= STEADY_SECONDS or code == 0 else self.failures + 1
        self._fail(self.killed_for or f"ended {how} after {lived:.0f} s", failures, now)

    def _fail(self, why: str, failures: int, now: float) -> None:
        self.process = self.since = self.killed_for = None
        self.ended, self.failures = why, failures
        log(f"{self.name} {why}; it is started again")
        self.due = now + min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** (failures - 1))

    def bound(self) -> None:
        """Keep the current log and the previous one, and kill the process if it exceeds its memory limit."""
        with suppress(OSError):
            if self.log.stat().st_size > MOST_LOG_BYTES:
                shutil.copyfile(self.log, self.log.with_suffix(".log.1"))
                os.truncate(self.log, 0)  # a writer continues at the new start of the file
        if self.memory_limit is None or self.process is None:
            return
        used = memory_of(self.process.pid) or 0
        if used > self.memory_limit:
            self.killed_for = f"used {used / 2**20:.0f} of {self.memory_limit / 2**20:.0f} MiB and was stopped"
            self.process.kill()


def children_of(options: StackOptions, state: stack.StackState, listener: int) -> list[Child]:
    """Return the processes of a stack in order, with commands; Prefect's API listens on a file descriptor."""
    folder, home = stack.stack_folder(options.home), server.prefect_home(options.home)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment |= (
        server.PRIVACY | server.child_imports(os.environ) | {"OKL_HOME": str(options.home), MARK: state.instance}
    )
    for name in ("NO_PROXY", "no_proxy"):
        environment[name] = f"{environment.get(name, '')},{server.LOOPBACK}".lstrip(",")
    login = server.make_login(options.home)
    pages = {
        "PREFECT_SERVER_UI_ENABLED": "true",
        "PREFECT_UI_API_URL": state.url,
        "PREFECT_UI_STATIC_DIRECTORY": str(home / "pages"),
    }
    client = {
        "PREFECT_API_URL": state.url,
        "PREFECT_API_AUTH_STRING": login,
        "PREFECT_HOME": str(home),
        "PREFECT_WORKER_QUERY_SECONDS": QUERY_SECONDS,
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": HEARTBEAT_SECONDS,
    }
    dask = environment | ONE_THREAD | DASK | {"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}
    ca, certificate, key = (str(Path(state.tls) / name) for name in FILES)
    tls = ["--protocol", "tls", "--tls-ca-file", ca, "--tls-cert", certificate, "--tls-key", key]
    limit = psutil.virtual_memory().total // max(1, options.workers)
    scheduler = server.child_command(
        "scheduler", "--host", server.LOOPBACK, "--port", state.scheduler.rpartition(":")[2], "--no-dashboard",
        "--dashboard-address", f"{server.LOOPBACK}:0", "--preload", PRIVATE, *tls,
    )  # fmt: skip
    worker = server.child_command(
        "worker", state.scheduler, "--host", server.LOOPBACK, "--no-nanny", "--nthreads", 1, "--memory-limit", limit,
        "--no-dashboard", "--dashboard-address", f"{server.LOOPBACK}:0", *tls,
        *(word for module in (*PRELOADED, PRIVATE) for word in ("--preload", module)),
    )  # fmt: skip
    return [
        Child(
            "server", server.child_command("server", listener, home / "start.lock"),
            server.server_environment(options.home, environment, True, login) | pages,
            folder / "server.log", state.url, inherited=(listener,),
        ),
        Child("scheduler", scheduler, dask | {HEALTH: stack.HEALTH_SOCKET}, folder / "scheduler.log", state.scheduler),
        Child(
            "prefect-worker",
            server.child_command("prefect", "worker", "start", "--pool", POOL, "--type", "process",
                "--name", PREFECT_WORKER),
            environment | client, folder / "prefect-worker.log",
        ),
        *(
            Child(
                f"worker-{number}", [*worker, "--local-directory", f"scratch-{number}"], dask,
                folder / f"worker-{number}.log", memory_limit=limit,
            )
            for number in range(1, options.workers + 1)
        ),
    ]  # fmt: skip


def listening_socket(*ports: int) -> socket.socket:
    """Return a socket that listens on the first free one of some ports of 127.0.0.1; 0: any; or raise OSError.

    It listens, because two sockets that are only bound can share a port; requests wait until a server accepts them.
    """
    for port in ports:
        opened = socket.socket()
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind((server.LOOPBACK, port))
            opened.listen()
        except OSError as error:
            opened.close()
            refused = error
        else:
            return opened
    raise refused


def crash_left_runs(url: str, pool: str, since: float, login: str) -> int | None:
    """Mark runs of a pool as crashed that were left under way; return their number, None if the server gave no answer.

    Their processes have ended, and they would keep later runs of their deployments waiting.

    url, login : of the server's API; since : time after which later states are not touched, in seconds since 1970
    """
    under_way = {"state": {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}}
    wanted = {"flow_runs": under_way, "work_pools": {"name": {"any_": [pool]}}}
    found = server.get_json(f"{url}/flow_runs/filter", wanted, login=login)
    if found is None:
        return None
    left = [run for run in found if datetime.fromisoformat(run["state"]["timestamp"]).timestamp() < since]
    message = "The stack was stopped or killed while the run was under way. The next run resumes its work."
    crashed = {"state": {"type": "CRASHED", "name": "Crashed", "message": message}, "force": True}
    for run in left:
        server.get_json(f"{url}/flow_runs/{run['id']}/set_state", crashed, login=login)
    return len(left)


TICK_SECONDS = 0.25
RETRY_SECONDS = 1.0
BOUND_SECONDS = 2.0  # between checks of memory and the size of logs
RUNS_SECONDS, OTHERS_SECONDS = 1.5, 1.5  # of the five seconds within which the stack must stop
ANOTHER_IS_UP, PORT_IS_TAKEN = 3, 4


class Supervisor:
    """Supervisor that keeps processes running until it is stopped; folder : for state and logs."""

    def __init__(self, folder: Path, state: stack.StackState, children: list[Child]) -> None:
        self.folder = folder
        self.state = state
        self.children = children
        self.wakes, self.wake = socket.socketpair()
        self.stopping = False
        self.bounded = 0.0

    def run(self) -> None:
        """Start all, watch them, and end all; returns when nothing is left."""
        self._listen_to_signals()
        try:
            self._write("starting")
            log(f"starting {', '.join(child.name for child in self.children)}; Prefect's API is {self.state.url}")
            Thread(target=self._crash_left_runs, args=(self.state.since,), daemon=True).start()
            while not self.stopping:
                if self._restart_ended():
                    self._write("up")
                with suppress(BlockingIOError):
                    if select([self.wakes], [], [], TICK_SECONDS)[0]:
                        self.wakes.recv(4096)
        finally:
            self._write("stopping")
            log("stopping")
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

    def _restart_ended(self) -> bool:
        """Start due processes; record those that ended or grew too large; return whether anything has changed."""
        now, changed = time.monotonic(), False
        if now - self.bounded >= BOUND_SECONDS:
            self.bounded = now
            for child in self.children:
                child.bound()
        for child in self.children:
            if child.process is not None and (code := child.process.poll()) is not None:
                child.note_end(code, now)
                changed = True
                if child.name == "prefect-worker":  # its runs must not go on without it
                    family = psutil.Process().children(recursive=True)
                    end_marked(self.state.instance, RUNS_SECONDS, frozenset(process.pid for process in family))
            if child.process is None and now >= child.due:
                child.start(now)
                changed = True
        return changed

    def _crash_left_runs(self, since: float) -> None:
        """Mark runs that an earlier stack left under way as crashed, as soon as the server answers."""
        login = server.stack_login(self.folder.parent)
        while not self.stopping and crash_left_runs(self.state.url, self.state.pool, since, login) is None:
            time.sleep(RETRY_SECONDS)

    def _end_all(self) -> None:
        """Stop the runs first, while a server can record their end; then the server, and kill the others."""
        own = {child.name: child.process for child in self.children if child.process is not None}
        end_marked(self.state.instance, RUNS_SECONDS, frozenset(process.pid for process in own.values()))
        for name, process in own.items():
            if name != "server":  # they would take seconds to end gracefully, and have nothing left to do
                process.kill()
        end_marked(self.state.instance, OTHERS_SECONDS)
        for process in own.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
        for scratch in self.folder.glob("scratch-*"):
            shutil.rmtree(scratch, ignore_errors=True)

    def _write(self, phase: stack.Phase) -> None:
        self.state = replace(self.state, phase=phase, children=tuple(child.state() for child in self.children))
        with suppress(OSError):  # a full disk must not end what runs
            self.state.write(self.folder)


def supervise(options: StackOptions) -> int:
    """Run the supervisor until it is stopped; return an exit code, such as ANOTHER_IS_UP or PORT_IS_TAKEN."""
    folder = stack.stack_folder(options.home)
    lock = stack.take_lock(folder)
    if lock is None:
        return ANOTHER_IS_UP
    with lock:
        last = stack.read_state(folder)
        if last is not None:  # it was killed, and could not clean up
            end_marked(last.instance, OTHERS_SECONDS)
            (folder / "stack.json").unlink(missing_ok=True)
        remembered = folder / "port"
        known = remembered.read_text() if remembered.is_file() else ""
        wanted = [options.port] if options.port else [*([int(known)] if known.isdigit() else []), WELL_KNOWN_PORT, 0]
        try:
            api = listening_socket(*wanted)
        except OSError:
            return PORT_IS_TAKEN
        with api:
            with listening_socket(0) as scheduler:
                port, scheduler_port = (one.getsockname()[1] for one in (api, scheduler))
            remembered.write_text(str(port))
            certificates = folder / "certificates"
            make_folders(certificates)
            write_self_signed(certificates)  # new ones at each start: they never expire
            state = stack.StackState(
                uuid.uuid4().hex, os.getpid(), time.time(), "starting", f"http://{server.LOOPBACK}:{port}/api",
                f"tls://{server.LOOPBACK}:{scheduler_port}", POOL, options.workers, str(certificates),
                stack.code_on_disk(), (),
            )  # fmt: skip
            Supervisor(folder, state, children_of(options, state, api.fileno())).run()
    return 0


def main(words: str) -> int:
    """Supervise with options as JSON."""
    restore_signals()
    keep_private()
    values = json.loads(words)
    return supervise(StackOptions(Path(values["home"]), values["port"], values["workers"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
