"""Flow runs of commands: the Prefect server, the flow, its stored records, Ctrl-C, and killed runs.

The import of this module does not import Prefect: that takes seconds, in which a server of okl's own already starts.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from pydantic import BaseModel

from flows.progress import run_observer
from flows.server import PRIVACY, TemporaryServer, no_answer_message, prefect_home, temporary_server
from flows.service import ATTENDED_SERVICE
from flows.stack.state import StackServer, stack_server
from okl.foundation.errors import ExecutionError
from okl.foundation.locations import okl_home
from okl.foundation.telemetry import Observer

EXIT_CODE = 130
FIRST = "Interrupted: stopping and removing incomplete files."
SECOND = "Still stopping. Press Ctrl-C once more to quit immediately."


class Interrupted(KeyboardInterrupt):
    """Interrupt by Ctrl-C.

    A subclass, because CPython remembers a plain KeyboardInterrupt that passed through generated code (such as that of
    dataclasses and named tuples) and kills the process by SIGINT at its end, even if the exception was handled.
    """


class Interrupts:
    """Signal handler of Ctrl-C: the first raises Interrupted, the second prints a message, the third ends at once."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal SIGINT."""
        self.seen += 1
        if self.seen == 1:
            _print_message(FIRST)
            raise Interrupted
        if self.seen > 2:
            _end()
        _print_message(SECOND)


@contextmanager
def interruptible() -> Iterator[None]:
    """Handle Ctrl-C in a block; after one, any failure ends the process at once with exit code 130.

    After the block, Ctrl-C ends the process silently. A process that was started with SIGINT ignored keeps ignoring it.
    """
    interrupts = Interrupts()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupts)
    try:
        yield
    except BaseException as error:
        # not only Interrupted: half-imported modules and interrupted workers raise other errors
        if interrupts.seen and not (isinstance(error, SystemExit) and error.code in (0, None)):
            _end()
        raise
    finally:
        if signal.getsignal(signal.SIGINT) is interrupts:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _end() -> NoReturn:
    # not sys.exit: cleanup is done, and a thread that waits for an ended thread would block the exit forever
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(EXIT_CODE)


def _print_message(message: str) -> None:
    # not print: the signal may interrupt another print; first a new line, because a progress bar may use this one
    stream = sys.__stderr__
    if stream is not None:
        os.write(stream.fileno(), ("\n" * stream.isatty() + message + "\n").encode())


# Runs of flows in this process; nothing imports Prefect before okl's own server has been started

RECORD_SECONDS = 60.0
HEARTBEAT_SECONDS = 30  # to a permanent server, as for runs of deployments
PRECOMPILED = {"okl_train": "okl.runs.precompile", "okl_compare": "okl.runs.compare_run"}  # while the server starts
SETTINGS_FILES = {".env": "PREFECT_", "prefect.toml": "", "pyproject.toml": "tool.prefect"}  # file: text to search for


def run_flow(name: str, settings: BaseModel, observer: Observer, **parameters: Any) -> dict[str, Any]:
    """Run a flow of `flows.runs`, recorded by the configured Prefect server, that of `okl up`, or a temporary one.

    Parameters
    ----------
    name : such as "okl_train"
    settings : checked settings, so that no server starts for invalid ones
    observer : observer of the run's progress
    parameters : further parameters of the flow

    Returns
    -------
    result of the run, as printed by the command with --json

    Raises
    ------
    ExecutionError : no server answers
    KeyboardInterrupt : the run was cancelled
    OklError : the run failed
    """

    def load() -> Callable[[Any], Any]:
        loaded: Callable[[Any], Any] = getattr(import_module("flows.runs"), name)
        if (module := PRECOMPILED.get(name)) is not None:
            import_module(module).compile_ahead(settings)
        return partial(loaded, **parameters)

    return run_recorded(load, settings, observer)


def run_recorded(load: Callable[[], Callable[..., Any]], settings: BaseModel, observer: Observer) -> dict[str, Any]:
    """Run any flow as `run_flow` does.

    Parameters
    ----------
    load : imports and returns the flow, and precompiles if needed; called while the server starts
    settings, observer : see `run_flow`
    """
    os.environ.update({name: os.environ.get(name, value) for name, value in PRIVACY.items()})
    home = okl_home()
    stack = None if (configured := server_is_configured()) else stack_server(home)
    started = nullcontext() if configured or stack is not None else temporary_server(home)
    with started as server, client_settings(server or stack, home):
        flow = load()  # Prefect and all of okl are imported while the server starts
        if server is None:
            require_server()
        else:
            server.wait_ready()
        return _run_and_wait(flow, settings, observer, isinstance(server, TemporaryServer))


def _run_and_wait(flow: Callable[..., Any], settings: BaseModel, observer: Observer, own: bool) -> dict[str, Any]:
    from prefect import tags
    from prefect.exceptions import CancelledRun

    from flows.records import TAG, mark_killed_runs, process_tag, wait_for_records
    from flows.stages import Started, started

    if own:
        mark_killed_runs()
    records = Started()
    tokens = started.set(records), run_observer.set(observer)
    try:
        with quiet_terminal(), tags(TAG, *([process_tag()] if own else [])):
            # Plain values, as a worker gets them: Prefect searches parameters for futures and takes a model with a
            # field named `keys` for a mapping. The flow validates them into a model again.
            result: dict[str, Any] = flow(settings.model_dump(mode="json"), service=ATTENDED_SERVICE)
        return result
    except CancelledRun:
        raise KeyboardInterrupt from None
    finally:
        started.reset(tokens[0])
        run_observer.reset(tokens[1])
        if missing := wait_for_records(records, RECORD_SECONDS):
            logging.getLogger("okl").warning(
                "Prefect did not store %s. The run itself is complete.", ", ".join(missing)
            )


def server_is_configured() -> bool:
    """Return whether a Prefect server is configured: by PREFECT_API_URL, a profile or a settings file in this folder.

    Prefect itself decides, but it is only imported if one of these files mentions it: the import takes a second, in
    which okl's own server can already start.
    """
    if os.environ.get("PREFECT_API_URL"):
        return True
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    profiles = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml")
    files = SETTINGS_FILES | {str(profiles): ""}
    mentioned = any(
        Path(name).is_file() and text in Path(name).read_text(errors="replace") for name, text in files.items()
    )
    if not mentioned and "prefect.settings" not in sys.modules:
        return False
    from prefect.settings import PREFECT_API_URL

    return bool(PREFECT_API_URL.value())


@contextmanager
def client_settings(server: TemporaryServer | StackServer | None, home: Path) -> Iterator[None]:
    """Connect Prefect to a server in a block; with None, the configured server stays in use."""
    if server is None:
        yield
        return
    # Not PREFECT_API_URL in the environment: Prefect would remember it after the server has stopped.
    bypass = {name: f"{os.environ.get(name, '')},127.0.0.1".lstrip(",") for name in ("NO_PROXY", "no_proxy")}
    values = bypass | {"PREFECT_HOME": str(prefect_home(home))}
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        from prefect.settings import temporary_settings

        # No heartbeats to okl's own server, which ends with the run: stopping them takes up to a second.
        heartbeat = None if isinstance(server, TemporaryServer) else HEARTBEAT_SECONDS
        updates = {"api.url": server.url, "home": prefect_home(home), "flows.heartbeat_frequency": heartbeat}
        with temporary_settings(updates):
            yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def stack_server_settings() -> Iterator[None]:
    """Connect Prefect to the server of `okl up` in a block, if it is running and no other one is configured."""
    home = okl_home()
    with client_settings(None if server_is_configured() else stack_server(home), home):
        yield


@contextmanager
def quiet_terminal() -> Iterator[None]:
    """Hide the log of flow and task runs from the terminal in a block; the server still receives it.

    With PREFECT_LOGGING_LEVEL set, the log is shown.
    """
    loggers = [logging.getLogger(name) for name in ("prefect.flow_runs", "prefect.task_runs")]
    shown = "PREFECT_LOGGING_LEVEL" in os.environ
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.propagate = shown
    try:
        yield
    finally:
        for logger, propagate in zip(loggers, before, strict=True):
            logger.propagate = propagate


def require_server() -> None:
    """Raise ExecutionError if the configured server does not answer."""
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL

    with get_client(sync_client=True) as client:
        if (error := client.api_healthcheck()) is not None:
            raise ExecutionError(no_answer_message(PREFECT_API_URL.value() or "", error))
