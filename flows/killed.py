"""Runs of commands that were killed: in a database of okl's own nobody else would ever note their end.

A server that stays gives up a run whose heartbeats have ended. Our own server ends with its command, whose runs bear a
tag by which the next one can tell whether their process still lives.
"""

from __future__ import annotations

import os
import platform
import re
from typing import Any

import psutil  # type: ignore[import-untyped]  # no stubs
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import State, StateType
from prefect.states import Crashed

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
