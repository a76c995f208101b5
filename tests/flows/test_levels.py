"""Service levels: retries, time limits, and which missed runs of a schedule are started later."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId
from prefect.client.schemas.objects import FlowRun, State
from prefect.client.schemas.schedules import IntervalSchedule
from prefect.flow_engine import run_flow
from pydantic import BaseModel

from flows.server import TemporaryServer
from flows.service import ServiceSettings
from flows.stages import follow_stages, is_transient
from okl.foundation.errors import ConfigError, ConflictError, DataError, ExecutionError, ModelError, OklError
from okl.foundation.locations import explained
from okl.runs.run import Run
from tests.flows.environment import child_environment

ATTEMPTS: list[int] = []


class WorkSettings(BaseModel):
    stage: str


class Work(Run[WorkSettings]):
    """A run of one stage, which performs an action of ACTIONS."""

    STAGES = ("work",)
    name = "work"

    def work(self) -> dict[str, Any]:
        ATTEMPTS.append(len(ATTEMPTS) + 1)
        ACTIONS[self.settings.stage](ATTEMPTS[-1])
        return {}

    def result(self) -> dict[str, Any]:
        return {"attempts": len(ATTEMPTS)}

    def metrics_table(self) -> list[dict[str, Any]]:
        return [{"attempts": len(ATTEMPTS)}]

    def report_markdown(self) -> str:
        return "done"


ACTIONS: dict[str, Callable[[int], None]] = {}


@flow(name="okl-works", persist_result=False, retries=0)
def works(stage: str, service: ServiceSettings) -> dict[str, Any] | State[Any]:
    return follow_stages("okl-works", lambda: Work(WorkSettings(stage=stage)), service)


@pytest.fixture
def client(configured: TemporaryServer) -> Any:
    ATTEMPTS.clear()
    with get_client(sync_client=True) as opened:
        yield opened


def deployed(client: SyncPrefectClient, name: str, schedule: IntervalSchedule | None = None) -> UUID:
    schedules = [] if schedule is None else [DeploymentScheduleCreate(schedule=schedule)]
    return client.create_deployment(client.create_flow_from_name("okl-works"), name, schedules=schedules)


def perform(client: SyncPrefectClient, run: FlowRun, stage: str, **service: Any) -> FlowRun:
    """Perform a run of a deployment in this process, as a worker does."""
    run_flow(works, flow_run=run, parameters={"stage": stage, "service": service}, return_type="state")
    return client.read_flow_run(run.id)


def test_only_transient_errors_are_retried(client: SyncPrefectClient) -> None:
    def gone_at_first(attempt: int) -> None:
        if attempt < 3:
            raise ExecutionError("the workers are gone")

    def bad(attempt: int) -> None:
        raise DataError("the rows are bad") if attempt > 1 else ConnectionResetError("once")

    ACTIONS.update(gone_at_first=gone_at_first, bad=bad)
    deployment = deployed(client, "tried")
    run = client.create_flow_run_from_deployment(deployment)
    done = perform(client, run, "gone_at_first", retries=2, retry_seconds=0.4)
    assert (done.state_name, done.run_count, len(ATTEMPTS)) == ("Completed", 3, 3)
    assert done.empirical_policy.retry_delay == 1, "0.8 s, in whole seconds: twice the first wait"
    ATTEMPTS.clear()
    run = client.create_flow_run_from_deployment(deployment)
    failed = perform(client, run, "bad", retries=9, retry_seconds=0)
    assert (failed.state_name, failed.run_count, len(ATTEMPTS)) == ("Failed", 2, 2)
    assert "the rows are bad" in str(failed.state and failed.state.message)


def test_a_stage_that_takes_too_long_fails(client: SyncPrefectClient) -> None:
    def sleeps(attempt: int) -> None:
        for _ in range(1200):  # not one long sleep: pytest's alarm would end it here, but not in a worker
            time.sleep(0.05)

    ACTIONS["sleeps"] = sleeps
    run = client.create_flow_run_from_deployment(deployed(client, "sleeps"))
    start = time.monotonic()
    failed = perform(client, run, "sleeps", stage_seconds=0.2, retries=0)
    assert time.monotonic() - start < 30.0
    assert failed.state_name == "Failed"
    assert "Stage work exceeded its time limit of 0.2 s" in str(failed.state and failed.state.message)


HANGS = """
import sys, time
from uuid import UUID
import flows.stages
from prefect.client.orchestration import get_client
from prefect.flow_engine import run_flow
from pydantic import BaseModel
from tests.flows.test_levels import ACTIONS, works

def deaf(attempt):
    while True:  # an exception cannot end this, like a system call that never returns
        try:
            time.sleep(0.1)
        except BaseException:
            pass

ACTIONS["deaf"] = deaf
flows.stages.HANGING_SECONDS = 0.5
with get_client(sync_client=True) as client:
    run = client.read_flow_run(UUID(sys.argv[1]))
run_flow(works, flow_run=run, parameters={"stage": "deaf", "service": {"stage_seconds": 0.5}}, return_type="state")
"""


def test_the_process_of_a_stage_that_cannot_be_interrupted_is_ended(client: SyncPrefectClient) -> None:
    run = client.create_flow_run_from_deployment(deployed(client, "hangs"))
    done = subprocess.run(
        [sys.executable, "-c", HANGS, str(run.id)],
        env=child_environment(),
        capture_output=True,
        check=False,
        timeout=120,
    )
    failed = client.read_flow_run(run.id)
    assert done.returncode == 1, done.stderr
    assert failed.state_name == "Failed"
    assert "Stage work exceeded 0.5 s and could not be interrupted. Its process was ended." in str(
        failed.state and failed.state.message
    )


def test_missed_scheduled_runs_follow_the_policy(client: SyncPrefectClient) -> None:
    """Scheduled runs are left until some are overdue; the first one that starts replaces all of them."""
    ACTIONS["quick"] = lambda attempt: None
    every_second = IntervalSchedule(interval=timedelta(seconds=1), anchor_date=datetime.now(UTC))
    deployment = deployed(client, "late", every_second)
    wanted = DeploymentFilter(id=DeploymentFilterId(any_=[deployment]))

    def overdue() -> list[FlowRun]:
        now = datetime.now(UTC)
        due = [run for run in client.read_flow_runs(deployment_filter=wanted) if run.auto_scheduled]
        return sorted((run for run in due if (run.expected_start_time or now) < now), key=lambda run: str(run.id))

    deadline = time.monotonic() + 90.0
    while len(missed := overdue()) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    # ids do not show which of the three is the latest: if the first is less than 1 s late, it would not be skipped
    while (datetime.now(UTC) - missed[0].expected_start_time).total_seconds() < 1.5:  # type: ignore[operator]
        time.sleep(0.1)
    skipped = perform(client, missed[0], "quick", late="skip", late_seconds=1)
    states = [perform(client, run, "quick", late="once") for run in missed[1:3]]
    manual = perform(client, client.create_flow_run_from_deployment(deployment), "quick", late="once")
    client.delete_deployment(deployment)
    assert skipped.state_name == "Cancelled"
    assert "Skipped: scheduled at" in str(skipped.state and skipped.state.message)
    assert [run.state_name for run in states] == ["Completed", "Cancelled"]
    assert f"UTC, and {states[0].name} has started since" in str(states[1].state and states[1].state.message)
    assert manual.state_name == "Completed", "a run started by hand is not late"


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (ExecutionError("no worker"), True),
        (ConflictError("another writer"), True),
        (explained(ConnectionError("reset"), "s3://bucket/data cannot be read", " in 7 attempts"), True),
        (explained(PermissionError("denied"), "s3://bucket/data cannot be read"), False),
        (DataError("bad"), False),
        (ConfigError("wrong"), False),
        (ModelError("damaged"), False),
        (FileNotFoundError("rows"), False),
        (ZeroDivisionError("a bug"), False),
    ],
)
def test_errors_are_transient_or_permanent(error: Exception, transient: bool) -> None:
    wrapped = OklError("in other words")
    wrapped.__cause__ = error
    assert (is_transient(error), is_transient(wrapped)) == (transient, transient)
