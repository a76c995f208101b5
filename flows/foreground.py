"""Runs of commands in this process, and the thread that records them in Prefect.

A run needs no server: recording is the work of a thread, whose failure costs the record and never the run. The import
of this module does not import Prefect, which takes seconds.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flows.server import (
    LOOPBACK,
    PRIVACY,
    READY_SECONDS,
    STOP_SECONDS,
    TemporaryServer,
    connection,
    disk_problem,
    prefect_home,
    stack_login,
)
from flows.service import ATTENDED_SERVICE
from flows.stack.state import StackServer, live_stack, stack_server, workers_offered
from okl.distributed.processes import environment
from okl.foundation.errors import ExecutionError, first_line
from okl.foundation.locations import okl_home
from okl.foundation.telemetry import NullObserver, Observer
from okl.report.progress import TeeObserver

if TYPE_CHECKING:
    from okl.runs.run import Run

POLL_SECONDS = 0.5
RECORD_SECONDS = 30.0  # a busy server answers after some seconds, a hanging one never
REFUSED_SECONDS = 3.0  # a server that refuses connections for so long at the end of a run was stopped or killed
HEARTBEAT_SECONDS = 30  # to a permanent server, as for runs of deployments
SETTINGS_FILES = {".env": "PREFECT_", "prefect.toml": "", "pyproject.toml": "tool.prefect"}  # file: text to search for


def perform_run(
    run: Run[Any], flow: str, observer: Observer, record: bool = False, parameters: dict[str, Any] | None = None
) -> Any:
    """Perform a run in this process, and record it if a Prefect server is configured or up, or if `record`.

    run : an open run; it is closed in any case
    flow : flow that would perform it for a deployment, such as "flows.runs:okl_train"
    record : start a temporary server if there is no other one
    Returns result of the run, as printed by the command with --json.
    Raises KeyboardInterrupt : the run was interrupted
    Raises OklError : the run failed
    """
    recorder = open_recorder(run, flow, record, parameters or {})
    copy = FollowedRun(()) if recorder is None else recorder.copy
    run.observer = TeeObserver(observer, copy)
    try:
        with workers_offered(okl_home()):
            run.check_settings()
            copy.report(None)
            for stage in run.stages:
                copy.report(run.perform_stage(stage))
            if recorder is not None:
                copy.report(run.metrics_table())
                copy.report(run.report_markdown())
            result = run.result()
            copy.report(result)
            return result
    except BaseException as error:
        copy.report(error)
        raise
    finally:
        run.close()
        observer.finish()
        if recorder is not None:
            recorder.close()


class FollowedRun:
    """Copy of a run that another thread performs: each step takes as long as there, and has the same outcome."""

    def __init__(self, stages: tuple[str, ...]) -> None:
        self.stages = stages
        self.observer: Observer = NullObserver()
        self.failure: BaseException | None = None
        self._outcomes = SimpleQueue[Any]()
        self._stage = self._followed = ""
        self._progress = dict[str, tuple[int, int, dict[str, float]]]()

    # Called by the thread that performs the run

    def report(self, outcome: Any) -> None:
        """Report the outcome of the next step, or the exception that ended the run."""
        if isinstance(outcome, BaseException):
            self.failure = outcome
        self._outcomes.put(outcome)

    def stage(self, name: str) -> None:
        """Record the stage, or the progress of a part of it; the flow passes it to the observer of the record."""
        if name in self.stages:
            self._stage = name

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        """Pass the progress to the observer of the record, and keep it for one that is late."""
        self._progress[self._stage] = done, total, metrics
        if self._followed == self._stage:
            self.observer.advance(done, total, metrics)

    def finish(self) -> None:
        """Do nothing: the thread that records finishes its observer."""

    # Called by the flow, as for any run

    def _next(self) -> Any:
        outcome = self._outcomes.get()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    check_settings = metrics_table = report_markdown = result = _next  # the outcome of the same step there

    def perform_stage(self, stage: str) -> dict[str, Any]:
        """Wait for the end of the stage and return its summary."""
        self.observer.stage(stage)
        self._followed = stage
        summary: dict[str, Any] = self._next()
        if stage in self._progress:
            self.observer.advance(*self._progress[stage])
        return summary

    def close(self) -> None:
        """Do nothing: the thread that performs the run closes it."""


class Recorder:
    """Thread that performs a flow "MODULE:NAME" with plain parameters and a copy of the run, for its record."""

    def __init__(
        self, copy: FollowedRun, flow: str, parameters: dict[str, Any], home: Path,
        server: TemporaryServer | StackServer | None
    ) -> None:  # fmt: skip
        self.copy, self.flow, self.parameters, self.home, self.server = copy, flow, parameters, home, server
        self.problem = ""
        self.recording = False
        # in a copy of the context, which holds Prefect's settings if a program has set them
        self._thread = Thread(target=copy_context().run, args=(self._record,), name="okl-record", daemon=True)
        if isinstance(server, TemporaryServer):
            server.start()
        self._thread.start()

    def _record(self) -> None:
        try:
            with client_settings(self.server, self.home):
                from flows.records import record  # Prefect is imported while the run goes on

                if isinstance(self.server, TemporaryServer):
                    self.server.wait_ready()
                else:
                    require_server(of_stack=self.server is not None)
                self.recording = True
                record(self.flow, self.copy, self.parameters, RECORD_SECONDS)
        except BaseException as error:
            if error is not self.copy.failure:
                self.problem = str(error) or type(error).__name__
                if self.problem == "None":  # as Prefect has it for an answer 404
                    self.problem = "its server does not have this run, or another program answers at its address."

    def close(self) -> None:
        """Wait until the record is complete, or warn that it is not; stop a temporary server."""
        own, failed = isinstance(self.server, TemporaryServer), self.copy.failure is not None
        if not (failed and own and not self.recording):  # else: the run ended before there was a server to tell
            if waited := self._wait(RECORD_SECONDS + (READY_SECONDS if own else 0.0)):
                unfinished.append(self)
                self.problem = waited
            if self.problem:
                full = "" if self.server is None else disk_problem(self.home)
                ended = "" if failed else " The run itself is complete."
                problem = full or self.problem.removesuffix(".") + "."
                print(f"Warning: Prefect has not recorded this run: {problem}{ended}", file=sys.stderr)
        if isinstance(self.server, TemporaryServer):
            self.server.stop()
        if self not in unfinished:
            self._thread.join(STOP_SECONDS)  # it may still import Prefect: the process would abort at its exit
            if self._thread.is_alive():
                unfinished.append(self)

    def _wait(self, seconds: float) -> str:
        """Wait for the thread, and return why not longer; "" if it has ended.

        Prefect repeats a refused request for half a minute, in which a killed server does not come back.
        """
        answered = began = time.monotonic()
        while self._thread.is_alive():
            now = time.monotonic()
            if now - began > seconds:
                return f"its server did not answer within {RECORD_SECONDS:.0f} s."
            if not self._is_refused():
                answered = now
            if now - answered > REFUSED_SECONDS:
                return "its server refuses connections."
            self._thread.join(POLL_SECONDS)
        return ""

    def _is_refused(self) -> bool:
        """Return whether a server that is not this run's own refuses connections now."""
        if isinstance(self.server, TemporaryServer):
            return False
        url = urlsplit(self.server.url if self.server else configured_url())
        try:
            socket.create_connection((url.hostname or "", url.port or 443), timeout=POLL_SECONDS).close()
        except OSError as error:
            return isinstance(error, ConnectionRefusedError)
        return False


unfinished: list[Recorder] = []
"""Recorders whose thread has not ended; they would block or abort the exit of this process."""


def open_recorder(run: Run[Any], flow: str, record: bool, parameters: dict[str, Any]) -> Recorder | None:
    """Start to record a run if a Prefect server is configured or up, or with a temporary one if `record`."""
    home, server = okl_home(), None
    if not server_is_configured():
        stack = live_stack(home)
        if stack is None and not record:
            return None
        server = TemporaryServer(home) if stack is None else StackServer(stack.url, stack_login(home))
    os.environ.update({name: os.environ.get(name, value) for name, value in PRIVACY.items()})
    # Plain values, as a worker gets them: Prefect searches parameters for futures and takes a model with a field named
    # `keys` for a mapping. The flow validates them into a model again.
    values = {"settings": run.settings.model_dump(mode="json"), "service": ATTENDED_SERVICE} | parameters
    return Recorder(FollowedRun(run.stages), flow, values, home, server)


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
    return bool(configured_url())


def configured_url() -> str:
    """Return the URL of the configured server's API; "" without one."""
    from prefect.settings import PREFECT_API_URL

    return PREFECT_API_URL.value() or ""


@contextmanager
def client_settings(server: TemporaryServer | StackServer | None, home: Path) -> Iterator[None]:
    """Connect Prefect to a server in a block; with None, the configured server stays in use."""
    if server is None:
        yield
        return
    # Not PREFECT_API_URL in the environment: Prefect would remember it after the server has stopped.
    bypass = {name: f"{os.environ.get(name, '')},127.0.0.1".lstrip(",") for name in ("NO_PROXY", "no_proxy")}
    with environment(bypass | {"PREFECT_HOME": str(prefect_home(home))}):
        from prefect.settings import temporary_settings

        # No heartbeats to okl's own server, which ends with the run: stopping them takes up to a second.
        heartbeat = None if isinstance(server, TemporaryServer) else HEARTBEAT_SECONDS
        updates = {"home": prefect_home(home), "flows.heartbeat_frequency": heartbeat}
        with temporary_settings(connection(server.url, server.login) | updates):
            yield


@contextmanager
def stack_server_settings() -> Iterator[None]:
    """Connect Prefect to the server of `okl up` in a block, if it is running and no other one is configured."""
    home = okl_home()
    with client_settings(None if server_is_configured() else stack_server(home), home):
        yield


def require_server(of_stack: bool = False) -> None:
    """Raise ExecutionError if the server in use does not answer, or refuses the login; of_stack : it is okl up's."""
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectHTTPStatusError

    url = configured_url()
    with get_client(sync_client=True) as client:
        if (error := client.api_healthcheck()) is not None:
            how = " (okl's own server: `okl up`)" if urlsplit(url).hostname in (LOOPBACK, "localhost", "::1") else ""
            remedy = f"Start it{how}, or unset PREFECT_API_URL (or the profile that sets it) to use a temporary server"
            remedy = "okl up starts it again" if of_stack else f"{remedy} of okl"
            raise ExecutionError(f"The Prefect server at {url} does not answer ({first_line(error)}). {remedy}.")
        try:
            client.read_work_pools(limit=1)  # the health check is the same for all
        except PrefectHTTPStatusError as refused:
            raise ExecutionError(
                f"The Prefect server at {url} answers {refused.response.status_code}. Set "
                'PREFECT_API_AUTH_STRING to its login; for the server of okl up: eval "$(okl up)".'
            ) from None
