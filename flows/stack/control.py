"""Bringing a stack up, and down, from a command that ends while the stack stays."""

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

import psutil  # type: ignore[import-untyped]  # no stubs

from flows.stack.processes import ROOT, end, marked, wait_for
from flows.stack.state import StackState, live_state, read_state, role_folder, stack_folder, supervisor_of
from flows.stack.status import health
from flows.stack.supervisor import ANOTHER_IS_UP, PORT_IS_TAKEN, StackOptions
from okl.foundation.errors import ConfigError, ExecutionError

READY_SECONDS = 180.0  # a fresh home migrates its database, which takes long on a busy machine
POLL_SECONDS = 0.1
STOP_SECONDS = 4.2
SWEEP_SECONDS = 0.5
HOPELESS_RESTARTS = 3
CERTIFICATES = ("ca.pem", "cert.pem", "key.pem")
Told = Callable[[dict[str, str]], None]


def prepare(options: StackOptions) -> Path:
    """Check the options and create the folder of the stack, which only this user may enter.

    Raises
    ------
    ConfigError : a number out of range, or no certificates; ExecutionError : the folder cannot be written
    """
    if not 0 <= options.port <= 65535:
        raise ConfigError(f"--port {options.port} is invalid: expected a number from 1 to 65535.")
    if options.workers < 0:
        raise ConfigError(f"--workers {options.workers} is invalid: expected 0 or more.")
    if options.tls is not None:
        for role in ("client", "scheduler", "worker"):
            for name in CERTIFICATES:
                if not (path := role_folder(options.tls, role) / name).is_file():
                    raise ConfigError(f"{path} is missing. --tls requires a folder written by infra/tls/make.py.")
    folder = stack_folder(options.home)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        (options.home / "prefect").mkdir(exist_ok=True)
    except OSError as error:
        raise ExecutionError(
            f"{folder} cannot be created ({error.strerror}). Set OKL_HOME to a writable folder."
        ) from None
    return folder


def up(options: StackOptions, told: Told) -> tuple[StackState, bool]:
    """Start a stack in the background and wait until all of it answers; or find that it is up.

    Parameters
    ----------
    told : called repeatedly with the result of `flows.stack.status.health`

    Returns
    -------
    its state, and whether it was started now

    Raises
    ------
    ExecutionError : the port is taken, the supervisor ended, or a process does not answer within three minutes
    """
    folder = prepare(options)
    if supervisor_of(folder) is not None:
        return wait_ready(folder, told, None), False
    process = _launch(options, folder)
    try:
        state = wait_ready(folder, told, process)
    except BaseException:
        if process.poll() != ANOTHER_IS_UP:
            down(options.home)
        raise
    return state, state.pid == process.pid


def _launch(options: StackOptions, folder: Path) -> subprocess.Popen[bytes]:
    """Start the supervisor with its own session, streams, directory and signals, independent of the caller."""
    values = {"home": str(options.home), "port": options.port, "workers": options.workers}
    words = json.dumps(values | {"tls": None if options.tls is None else str(options.tls)})
    imports = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with (folder / "supervisor.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "flows.stack.supervisor", words],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=os.environ | {"PYTHONPATH": imports},
            start_new_session=True,
        )  # fmt: skip


def wait_ready(folder: Path, told: Told, process: subprocess.Popen[bytes] | None) -> StackState:
    """Wait until all processes of a stack answer; `process` is its supervisor if it was started here."""
    deadline = time.monotonic() + READY_SECONDS
    found: dict[str, str] = {}
    while time.monotonic() < deadline:
        if process is not None and (code := process.poll()) is not None:
            if code == PORT_IS_TAKEN:
                raise ExecutionError("The port is in use by another program. Give another --port, or none.")
            if code != ANOTHER_IS_UP:
                raise ExecutionError(f"The supervisor ended with code {code}; its log is {folder / 'supervisor.log'}.")
            process = None
        state = live_state(folder)
        if state is None and process is None and supervisor_of(folder) is None:
            raise ExecutionError("The stack stopped while it was starting. Run okl up again.")
        if state is not None and state.phase == "up":
            _refuse_hopeless(state)
            found = health(state, folder)
            told(found)
            if all(one == "ok" for one in found.values()):
                return state
        time.sleep(POLL_SECONDS)
    missing = ", ".join(f"{name} ({why})" for name, why in found.items() if why != "ok") or "the supervisor"
    raise ExecutionError(f"Not ready within {READY_SECONDS:.0f} s: {missing}. The logs are in {folder}.")


def _refuse_hopeless(state: StackState) -> None:
    """Raise ExecutionError if a process ends repeatedly: waiting would not help."""
    for child in state.children:
        if child.pid is None and child.restarts >= HOPELESS_RESTARTS:
            raise ExecutionError(f"The {child.name} of the stack {child.ended} repeatedly; its log is {child.log}.")


def down(home: Path) -> bool:
    """Stop a stack and all that it has started, within five seconds; return whether there was one.

    What a supervisor left behind that was killed is ended, too.
    """
    folder = stack_folder(home)
    pid, state = supervisor_of(folder), read_state(folder)
    deadline = time.monotonic() + STOP_SECONDS
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        while supervisor_of(folder) == pid and time.monotonic() < deadline:
            time.sleep(0.02)
        if supervisor_of(folder) == pid:  # it hangs
            with suppress(psutil.Error):
                psutil.Process(pid).kill()
    left = marked(state.instance) if state is not None else []
    end(left, SWEEP_SECONDS if pid is None else 0.0)
    wait_for(left, SWEEP_SECONDS)
    if supervisor_of(folder) is None:
        (folder / "stack.json").unlink(missing_ok=True)
    return pid is not None or bool(left)
