"""Waiting until the records of a run have arrived at the server."""

from __future__ import annotations

import logging
import time
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import TaskRunFilter, TaskRunFilterId
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker

from flows.stages import Started

POLL_SECONDS = 0.1


def wait_for_records(started: Started, timeout_seconds: float) -> list[str]:
    """Wait until every run that was started is stored with its final state, and every log line with it.

    Flow runs and artifacts are stored when the call that made them returns. The states of task runs are not: they
    travel as events, in the background, and the server writes them down later. A server that is stopped too early
    loses them.

    Parameters
    ----------
    started : what to wait for
    timeout_seconds : for all of it together

    Returns
    -------
    what has not arrived in time, as text; empty when all is well
    """
    deadline = time.monotonic() + timeout_seconds
    for kind in (EventsWorker, APILogWorker):
        # It warns of anything left to send, which is why we wait here; errors still show.
        logging.getLogger(kind.__name__).setLevel(logging.ERROR)
        # Draining also forgets the workers, which is wanted: they are cached without the address of their server.
        kind.drain_all(timeout=timeout_seconds, at_exit=False)
    with get_client(sync_client=True) as client:
        while missing := _missing(client, started):
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
    return missing


def _missing(client: SyncPrefectClient, started: Started) -> list[str]:
    missing = []
    for identifier in started.flow_runs:
        state = client.read_flow_run(UUID(identifier)).state
        if state is None or not state.is_final():
            missing.append(f"flow run {identifier}")
    wanted = TaskRunFilter(id=TaskRunFilterId(any_=[UUID(identifier) for identifier in started.task_runs]))
    stored = client.read_task_runs(task_run_filter=wanted) if started.task_runs else []
    final = {str(run.id) for run in stored if run.state is not None and run.state.is_final()}
    return missing + [f"task run {identifier}" for identifier in started.task_runs if identifier not in final]
