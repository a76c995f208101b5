"""Commands that bring a stack up, which stays when they end, and down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from flows.server import (
    child_imports,
    database_problem,
    disk_problem,
    make_login,
    prefect_home,
    start_child,
)
from flows.stack.state import POLL_SECONDS, StackState, live_state, read_state, stack_folder, supervisor_of
from flows.stack.status import health
from flows.stack.supervisor import ANOTHER_IS_UP, PORT_IS_TAKEN, StackOptions, end_marked
from okl.foundation.errors import ConfigError, ExecutionError
from okl.foundation.locations import make_folders

READY_SECONDS = 180.0  # a fresh home migrates its database, which takes long on a busy machine
HEALTH_SECONDS = 0.1
STOP_SECONDS = 4.2
SWEEP_SECONDS = 0.5
HOPELESS_RESTARTS = 3


def prepare(options: StackOptions) -> Path:
    """Check the options and create the stack's private folder; raise ConfigError or ExecutionError."""
    if not 0 <= options.port <= 65535:
        raise ConfigError(f"--port {options.port} is invalid: expected a number from 1 to 65535.")
    if options.workers < 0:
        raise ConfigError(f"--workers {options.workers} is invalid: expected 0 or more.")
    folder = stack_folder(options.home)
    try:
        make_folders(folder)
        folder.chmod(0o700)
        make_folders(prefect_home(options.home))
        make_login(options.home)
    except OSError as error:
        why = f"{folder} cannot be created ({error.strerror}). Set OKL_HOME to a writable folder."
        raise ExecutionError(disk_problem(options.home) or why) from None
    return folder


def up(options: StackOptions, show: Callable[[dict[str, str]], None]) -> tuple[StackState, bool]:
    """Start a stack in the background and wait until all of it answers; or find that it is up.

    show : called repeatedly with the result of `flows.stack.status.health`
    Returns its state, and whether it was started now.
    Raises ExecutionError : the disk is full, the port is taken, the supervisor ended, or a process does not answer
        within three minutes
    """
    folder = prepare(options)
    if supervisor_of(folder) is not None:
        return _wait_ready(folder, show, None), False
    if full := disk_problem(options.home):
        raise ExecutionError(full)
    values = {"home": str(options.home), "port": options.port, "workers": options.workers}
    command = [sys.executable, "-P", "-m", "flows.stack.supervisor", json.dumps(values)]
    process = start_child(command, folder / "supervisor.log", os.environ | child_imports(os.environ))
    try:
        state = _wait_ready(folder, show, process)
    except BaseException:
        if process.poll() != ANOTHER_IS_UP:
            down(options.home)
        raise
    return state, state.pid == process.pid


def _wait_ready(
    folder: Path, show: Callable[[dict[str, str]], None], process: subprocess.Popen[bytes] | None
) -> StackState:
    """Wait until all processes of a stack answer; `process` is its supervisor if it was started here."""
    deadline = time.monotonic() + READY_SECONDS
    found: dict[str, str] = {}
    while time.monotonic() < deadline:
        if process is not None and (code := process.poll()) is not None:
            if code == PORT_IS_TAKEN:
                raise ExecutionError("The port is in use by another program. Give another --port, or leave it out.")
            if code != ANOTHER_IS_UP:
                raise ExecutionError(f"The supervisor ended with code {code}; its log is {folder / 'supervisor.log'}.")
            process = None
        state = live_state(folder)
        if state is None and process is None and supervisor_of(folder) is None:
            raise ExecutionError("The stack stopped while it was starting. Run okl up again.")
        if state is not None and state.phase == "up":
            for child in state.children:
                if child.pid is None and child.restarts >= HOPELESS_RESTARTS:
                    why = database_problem(folder.parent, Path(child.log)) if child.name == "server" else ""
                    raise ExecutionError(
                        f"The {child.name} of the stack {child.ended} repeatedly; its log is {child.log}. {why}".strip()
                    )
            found = health(state)
            show(found)
            if set(found.values()) == {"ok"}:
                return state
        time.sleep(HEALTH_SECONDS)
    missing = ", ".join(f"{name} ({why})" for name, why in found.items() if why != "ok") or "the supervisor"
    why = disk_problem(folder.parent) or f"The logs are in {folder}."
    raise ExecutionError(f"Not ready within {READY_SECONDS:.0f} s: {missing}. {why}")


def down(home: Path) -> bool:
    """Stop a stack, or what a killed supervisor left, within five seconds; return whether there was one."""
    folder = stack_folder(home)
    pid, state = supervisor_of(folder), read_state(folder)
    deadline = time.monotonic() + STOP_SECONDS
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
            while supervisor_of(folder) == pid:
                if time.monotonic() > deadline:  # it hangs
                    os.kill(pid, signal.SIGKILL)
                time.sleep(POLL_SECONDS)
    left = state is not None and end_marked(state.instance, SWEEP_SECONDS if pid is None else 0.0)
    if supervisor_of(folder) is None:
        (folder / "stack.json").unlink(missing_ok=True)
    return pid is not None or left
