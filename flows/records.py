"""Records of runs: runs whose process was killed, and the wait until records arrive at the server."""

from __future__ import annotations

import logging
import os
import platform
import re
import time
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psutil  # type: ignore[import-untyped]  # no stubs
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
    TaskRunFilter,
    TaskRunFilterId,
)
from prefect.client.schemas.objects import State, StateType
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.states import Crashed

from flows.stages import Started

if TYPE_CHECKING:
    pass


TAG = "okl"  # by which automations know our runs
UNFINISHED = [StateType.PENDING, StateType.RUNNING]
MOST_APART_SECONDS = 60  # a clock that is set moves the beginnings of all processes with it
PROCESS = re.compile(r"okl-process:(?P<host>.*):(?P<pid>\d+):(?P<begun>\d+)")


def process_tag() -> str:
    """What tells this process from all others, on this host and elsewhere: host, number, and when it began."""
    return f"okl-process:{platform.node()}:{os.getpid()}:{_begun(os.getpid())}"


def note_killed() -> int:
    """Have runs that a process of this host began, and did not end before it did, be crashed; how many these were."""
    wanted = FlowRunFilter(
        tags=FlowRunFilterTags(all_=[TAG]),
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=UNFINISHED)),
    )
    with get_client(sync_client=True) as client:
        killed = [run.id for run in client.read_flow_runs(flow_run_filter=wanted) if any(map(is_gone, run.tags))]
        for identifier in killed:
            state: State[Any] = Crashed(
                message="Its process was killed; okl train --resume goes on from the last checkpoint."
            )
            client.set_flow_run_state(identifier, state, force=True)
    return len(killed)


def is_gone(tag: str) -> bool:
    """Whether a tag is of a process of this host that lives no more.

    >>> is_gone(process_tag()), is_gone("okl"), is_gone("okl-process:elsewhere:1:0")
    (False, False, False)
    >>> is_gone(f"okl-process:{platform.node()}:{os.getpid()}:0")  # another one has its number by now
    True
    """
    found = PROCESS.fullmatch(tag)
    if found is None or found["host"] != platform.node():
        return False
    begun = _begun(int(found["pid"]))
    return begun is None or abs(begun - int(found["begun"])) > MOST_APART_SECONDS


def _begun(pid: int) -> int | None:
    """Seconds since 1970 at which a process began; None if there is none."""
    try:
        seconds: float = psutil.Process(pid).create_time()
    except psutil.Error:
        return None
    return round(seconds)


# Waiting until the records of a run have arrived at the server.

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
