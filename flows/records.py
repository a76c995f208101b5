"""Records of foreground runs: their flow, the wait until the server has stored them, and killed runs."""

from __future__ import annotations

import logging
import os
import pkgutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from prefect import tags
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import State
from prefect.events.worker import EventsWorker
from prefect.exceptions import CancelledRun, FailedRun
from prefect.logging.handlers import APILogWorker, PrefectConsoleHandler
from prefect.states import Crashed

from flows.child import is_dead_process, process_tag
from flows.stages import TAG, Followed, StagedRun, Started, followed
from okl.foundation.errors import ExecutionError
from okl.foundation.telemetry import at_level

# Killed runs: a permanent server marks a run as crashed when its heartbeats stop. okl's own server stops with its
# command, so each unfinished run has a tag with its process, and the next command marks the runs of dead processes.


def mark_killed_runs() -> int:
    """Mark unfinished runs of dead processes of this host as crashed; return their number."""
    unfinished = {"tags": {"all_": [TAG]}, "state": {"type": {"any_": ["PENDING", "RUNNING"]}}}
    wanted = FlowRunFilter.model_validate(unfinished)
    with get_client(sync_client=True) as client:
        killed = [run for run in client.read_flow_runs(flow_run_filter=wanted) if any(map(is_dead_process, run.tags))]
        for run in killed:
            state: State[Any] = Crashed(
                message="Its process was killed. Resume from the last checkpoint with okl train --resume."
            )
            client.set_flow_run_state(run.id, state, force=True)
    return len(killed)


# Records of a run, stored by the server in the background

POLL_SECONDS = 0.1
UNHEARD = logging.CRITICAL + 1


def record(flow: str, run: StagedRun, parameters: dict[str, Any], timeout_seconds: float) -> None:
    """Perform a flow "MODULE:NAME" with a run that is already open and plain parameters, and wait for its records.

    Raises ExecutionError : the server has not stored all in time; and any exception of the run, or of Prefect
    """
    mark_killed_runs()
    follow = Followed(run, Started())
    token = followed.set(follow)
    try:
        with quiet_terminal(), tags(TAG, process_tag()):
            try:
                pkgutil.resolve_name(flow)(**parameters)
            except (CancelledRun, FailedRun):  # which is recorded
                pass
            finally:
                missing = wait_for_records(follow.started, timeout_seconds)
    finally:
        followed.reset(token)
    if missing:
        raise ExecutionError(f"its server did not store {', '.join(missing)} within {timeout_seconds:.0f} s.")


@contextmanager
def quiet_terminal() -> Iterator[None]:
    """Hide Prefect's log from the terminal in a block, not from the server; PREFECT_LOGGING_LEVEL shows it."""
    handlers = [*logging.getLogger("prefect").handlers, *logging.getLogger().handlers]
    printing = [handler for handler in handlers if isinstance(handler, PrefectConsoleHandler)]
    internal = logging.getLogger("prefect._internal").handlers
    consoles = [] if "PREFECT_LOGGING_LEVEL" in os.environ else [*printing, *internal]
    raises, logging.raiseExceptions = logging.raiseExceptions, not consoles  # the sender prints what it cannot send
    try:
        with at_level(UNHEARD, *consoles):
            yield
    finally:
        logging.raiseExceptions = raises


def wait_for_records(started: Started, timeout_seconds: float) -> list[str]:
    """Wait until the server has stored the final state and the log of every started run.

    Flow runs and artifacts are stored when the call that creates them returns. The states of task runs are sent as
    events in the background and stored later; a server that is stopped too early loses them.

    Returns descriptions of the runs that were not stored in time; empty if all were.
    """
    deadline = time.monotonic() + timeout_seconds
    for kind in (EventsWorker, APILogWorker):
        # These workers warn of unsent items, although we wait for them here; errors are still shown.
        logging.getLogger(kind.__name__).setLevel(logging.ERROR)
        # Draining also removes the workers from their cache, which must be: its key lacks the address of the server.
        kind.drain_all(timeout=timeout_seconds, at_exit=False)
    with get_client(sync_client=True) as client:
        while missing := _missing(client, started):
            if time.monotonic() > deadline:
                return missing
            time.sleep(POLL_SECONDS)
        for identifier in started.flow_runs:  # without the tag of the process, which a final run does not need
            client.update_flow_run(UUID(identifier), tags=[TAG]).raise_for_status()
    return missing


def _missing(client: SyncPrefectClient, started: Started) -> list[str]:
    missing = []
    for identifier in started.flow_runs:
        state = client.read_flow_run(UUID(identifier)).state
        if state is None or not state.is_final():
            missing.append(f"flow run {identifier}")
    wanted = TaskRunFilter.model_validate({"id": {"any_": started.task_runs}})
    stored = client.read_task_runs(task_run_filter=wanted) if started.task_runs else []
    final = {str(run.id) for run in stored if run.state is not None and run.state.is_final()}
    return missing + [f"task run {identifier}" for identifier in started.task_runs if identifier not in final]
