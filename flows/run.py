"""A flow run for a person at a terminal: server, flow, records, interrupts and killed runs."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import BaseModel

from flows.progress import watching
from flows.server import PRIVACY, OwnServer, own_server, prefect_home, silence
from flows.service import ATTENDED
from flows.stack.finding import StackServer, stack_server
from okl.foundation.errors import ExecutionError
from okl.foundation.locations import okl_home
from okl.foundation.telemetry import Observer

if TYPE_CHECKING:
    from okl.foundation.settings import TrainSettings
    from okl.lifecycle.settings import RetrainSettings
    from okl.runs.predict import ScoreSettings


# Ctrl-C at any point: said at once, what is half-written removed, exit code 130; and never a traceback.

EXIT_CODE = 130
FIRST = "Interrupted: stopping, and removing what is incomplete."
SECOND = "Still stopping; one more Ctrl-C ends at once."


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or the end of the process group that a terminal asks for.

    A subclass, because CPython remembers a plain KeyboardInterrupt that passed through code made from text (that of
    every dataclass and named tuple), and kills the process by SIGINT at its end, however well it was handled.
    """


class Interrupts:
    """Counts Ctrl-C: the first raises Interrupted, the second is only answered, the third ends the process at once."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        self.seen += 1
        if self.seen == 1:
            _tell(FIRST)
            raise Interrupted
        if self.seen > 2:
            _end()
        _tell(SECOND)


@contextmanager
def interruptible() -> Iterator[None]:
    """Handle Ctrl-C; whatever fails after one is its consequence, and ends the process with its exit code, at once.

    Afterwards, when all there was to do is done, Ctrl-C ends the process without a word. A process that was started
    to ignore Ctrl-C goes on ignoring it.
    """
    interrupts = Interrupts()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupts)
    try:
        yield
    except BaseException as error:
        # not Interrupted alone: half-imported modules and workers that were interrupted too make errors of their own
        if interrupts.seen and not (isinstance(error, SystemExit) and error.code in (0, None)):
            _end()
        raise
    finally:
        if signal.getsignal(signal.SIGINT) is interrupts:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _end() -> NoReturn:
    # not sys.exit: all is cleaned up, and a thread that lost the one it waits for would hold the process up for ever
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(EXIT_CODE)


def _tell(sentence: str) -> None:
    # not print: the signal may have come in the middle of one; a new line, as a progress bar may be on this one
    stream = sys.__stderr__
    if stream is not None:
        os.write(stream.fileno(), ("\n" * stream.isatty() + sentence + "\n").encode())


# A flow, run here and now for a person at a terminal: server, flow, records, in the order that wastes no time.
#
# Nothing here imports Prefect before the server is on its way, nor does the import of this module.

RECORD_SECONDS = 60.0
HEARTBEAT_SECONDS = 30  # to a server that stays, as runs of deployments do
SETTINGS_FILES = {".env": "PREFECT_", "prefect.toml": "", "pyproject.toml": "tool.prefect"}  # file: text that matters


def run_train(settings: TrainSettings, observer: Observer, resume: Path | None = None) -> dict[str, Any]:
    """Train by the flow `okl-train`, recorded by the configured Prefect server, the one of `okl up`, or one of our own.

    Parameters
    ----------
    settings : checked settings (okl.runs.plan.check): nothing that can be known to be wrong starts a server
    observer : whoever watches the run
    resume : unfinished folder of a run of the same settings, to go on with

    Returns
    -------
    the run's result: the object that `okl train --json` prints

    Raises
    ------
    ExecutionError : no server answers; any error of the run itself; KeyboardInterrupt : the run was cancelled
    """

    def load() -> Callable[[Any], Any]:
        from flows.train import okl_train
        from okl.runs.precompile import compile_ahead

        compile_ahead(settings)
        return okl_train if resume is None else partial(okl_train, resume=str(resume))

    return run_recorded(load, settings, observer)


def run_score(settings: ScoreSettings, observer: Observer) -> dict[str, Any]:
    """Score by the flow `okl-score`; see `run_train`."""

    def load() -> Callable[[Any], Any]:
        from flows.score import okl_score

        return okl_score

    return run_recorded(load, settings, observer)


def run_retrain(settings: RetrainSettings, observer: Observer) -> dict[str, Any]:
    """Retrain by the flow `okl-retrain`; see `run_train`."""

    def load() -> Callable[[Any], Any]:
        from flows.retrain import okl_retrain

        return okl_retrain

    return run_recorded(load, settings, observer)


def run_recorded(load: Callable[[], Callable[..., Any]], settings: BaseModel, observer: Observer) -> dict[str, Any]:
    """Run any flow as `run_train` does.

    Parameters
    ----------
    load : imports and returns the flow, and does what else need not wait; called while the server starts
    settings, observer : see `run_train`
    """
    os.environ.update({name: os.environ.get(name, value) for name, value in PRIVACY.items()})
    home = okl_home()
    standing = None if (configured := server_is_configured()) else stack_server(home)
    started = nullcontext() if configured or standing is not None else own_server(home)
    with started as server, client_settings(server or standing, home):
        flow = load()  # Prefect and all of okl are imported while the server starts
        if server is None:
            require_answer()
        else:
            server.wait_ready()
        return _run_and_wait(flow, settings, observer, isinstance(server, OwnServer))


def _run_and_wait(flow: Callable[..., Any], settings: BaseModel, observer: Observer, own: bool) -> dict[str, Any]:
    from prefect import tags
    from prefect.exceptions import CancelledRun

    from flows.records import TAG, note_killed, process_tag, wait_for_records
    from flows.stages import Started, started

    if own:
        note_killed()
    records = Started()
    tokens = started.set(records), watching.set(observer)
    try:
        with quiet_terminal(), tags(TAG, *([process_tag()] if own else [])):
            # As plain values, the way a worker gets them: Prefect takes parameters apart in search of futures, and a
            # model with a field named `keys` looks like a mapping to it. The flow makes them a model again.
            result: dict[str, Any] = flow(settings.model_dump(mode="json"), service=ATTENDED)
        return result
    except CancelledRun:
        raise KeyboardInterrupt from None
    finally:
        started.reset(tokens[0])
        watching.reset(tokens[1])
        if missing := wait_for_records(records, RECORD_SECONDS):
            logging.getLogger("okl").warning("Prefect has not stored %s: the run itself is whole.", ", ".join(missing))


def server_is_configured() -> bool:
    """Tell whether Prefect knows a server: by PREFECT_API_URL, a profile, or a settings file in the current folder.

    Prefect itself is asked, as only it knows its own rules, but not before there is something to ask about: its import
    takes a second in which our own server could already start.
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
def client_settings(server: OwnServer | StackServer | None, home: Path) -> Iterator[None]:
    """Point Prefect at our own server, whether it has been imported already or not; a configured one stays as it is."""
    if server is None:
        yield
        return
    # Not PREFECT_API_URL in the environment: Prefect, imported now, would remember it when the server is long gone.
    bypass = {name: f"{os.environ.get(name, '')},127.0.0.1".lstrip(",") for name in ("NO_PROXY", "no_proxy")}
    values = bypass | {"PREFECT_HOME": str(prefect_home(home))}
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        from prefect.settings import temporary_settings

        # Heartbeats tell a server that stays of runs that died; ours dies too, and stopping them costs up to a second.
        heartbeat = None if isinstance(server, OwnServer) else HEARTBEAT_SECONDS
        known = {"api.url": server.url, "home": prefect_home(home), "flows.heartbeat_frequency": heartbeat}
        with temporary_settings(known):
            yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def server_known() -> Iterator[None]:
    """Point Prefect at the server of `okl up`, if it is up and nothing else is configured."""
    home = okl_home()
    with client_settings(None if server_is_configured() else stack_server(home), home):
        yield


@contextmanager
def quiet_terminal() -> Iterator[None]:
    """Keep the log of flow and task runs off the terminal, where errors are one sentence; the server still gets it.

    Setting PREFECT_LOGGING_LEVEL asks for the log, and gets it.
    """
    loggers = [logging.getLogger(name) for name in ("prefect.flow_runs", "prefect.task_runs")]
    spread = "PREFECT_LOGGING_LEVEL" in os.environ
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.propagate = spread
    try:
        yield
    finally:
        for logger, propagate in zip(loggers, before, strict=True):
            logger.propagate = propagate


def require_answer() -> None:
    """Return if the configured server answers, or raise ExecutionError."""
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL

    with get_client(sync_client=True) as client:
        if (error := client.api_healthcheck()) is not None:
            raise ExecutionError(silence(PREFECT_API_URL.value() or "", error))
