"""Service levels of the current flow run: whether it is still wanted, what is tried again, who ends a stage that hangs.

What a process can no longer do for itself is left to the automations of the server: see infra/automations.yaml.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from datetime import UTC, datetime
from uuid import UUID

from prefect import runtime
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, FlowRunPolicy, StateType
from prefect.logging import get_run_logger
from prefect.states import Failed

from flows.service import LONGEST_RETRY_SECONDS, ServiceSettings
from okl.errors import OklError
from okl.store.trying import may_pass

HANGING_SECONDS = 60.0  # beyond its time-out, after which a stage is taken to be deaf


def is_passing(error: BaseException) -> bool:
    """Whether a failure may be gone by the next attempt: of a worker, the network, a store; never of data or settings.

    >>> is_passing(TimeoutError()), is_passing(ConnectionResetError()), is_passing(ValueError("rows"))
    (True, True, False)
    """
    seen: BaseException | None = error
    while isinstance(seen, OklError):
        if seen.passing:
            return True
        seen = seen.__cause__ or seen.__context__  # what it tells of, in words of its own
    return seen is not None and may_pass(seen)


def settle_retry(error: Exception, service: ServiceSettings) -> None:
    """Tell the server whether, and when, the current run is tried again after it has failed by `error`.

    Prefect's retries of a flow are for any failure and after a constant wait. They are a policy of the flow run, which
    is looked at when it fails: until then it may be written anew. Only runs of deployments are tried again.
    """
    if not runtime.deployment.id:
        return
    passing, attempt = is_passing(error), int(runtime.flow_run.run_count)
    delay = min(service.retry_seconds * 2.0 ** (attempt - 1), LONGEST_RETRY_SECONDS)
    policy = FlowRunPolicy(retries=service.retries if passing else 0, retry_delay=round(delay))
    with get_client(sync_client=True) as client:
        client.update_flow_run(UUID(runtime.flow_run.id), empirical_policy=policy).raise_for_status()
    if passing and attempt <= service.retries:
        get_run_logger().warning("Attempt %d failed and is repeated in %.0f s: %s", attempt, delay, error)


def not_wanted(service: ServiceSettings) -> str | None:
    """Why the current run is not to be performed: its firing was missed, and the policy is not to make up for it.

    Only runs that a schedule made can be late. With `once`, a firing is served by whatever run of the deployment began
    after it was due: which of several missed ones begins first does not matter, and all others find that it has.
    """
    if service.late == "all" or not runtime.deployment.id or int(runtime.flow_run.run_count) > 1:
        return None
    with get_client(sync_client=True) as client:
        run = client.read_flow_run(UUID(runtime.flow_run.id))
        due = run.expected_start_time
        if not run.auto_scheduled or due is None:
            return None
        late = (datetime.now(UTC) - due).total_seconds()
        if service.late == "skip" and late > service.late_seconds:
            return f"Skipped: it was due at {due:%Y-%m-%d %H:%M:%S} UTC, {late:.0f} s ago; the next firing will do."
        if (other := _begun_since(client, run, due)) is not None:
            return f"Skipped: {other.name}, which began after this was due at {due:%Y-%m-%d %H:%M:%S} UTC, has done it."
    return None


def _begun_since(client: SyncPrefectClient, run: FlowRun, due: datetime) -> FlowRun | None:
    assert run.deployment_id is not None
    states = FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.COMPLETED])
    found = client.read_flow_runs(
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[run.deployment_id])),
        flow_run_filter=FlowRunFilter(
            start_time=FlowRunFilterStartTime(after_=due), state=FlowRunFilterState(type=states)
        ),
        limit=2,
    )
    return next((other for other in found if other.id != run.id), None)


@contextmanager
def hanging_ends(stage: str, service: ServiceSettings) -> Iterator[None]:
    """End this process if the stage goes on for a minute after its time-out, and have the run failed.

    A time-out is an exception in the stage's own thread. One that waits in the system, for a network drive that is
    gone, never comes to raise it, while the heartbeats of the run, from another thread, go on. Only the process of a
    deployment's run is ended: it does nothing else.
    """
    if service.stage_seconds is None or not runtime.deployment.id:
        yield
        return
    over, seconds = threading.Event(), service.stage_seconds + HANGING_SECONDS
    run = UUID(runtime.flow_run.id)

    def watch() -> None:
        if over.wait(seconds):
            return
        message = (
            f"The stage {stage} could not be interrupted after {service.stage_seconds:g} s; its process was ended."
        )
        try:
            with get_client(sync_client=True) as client:
                client.set_flow_run_state(run, Failed(message=message), force=True)
        finally:
            os._exit(1)

    # the context carries Prefect's settings: without it the thread would talk to another server
    threading.Thread(target=copy_context().run, args=(watch,), name=f"okl-{stage}-hangs", daemon=True).start()
    try:
        yield
    finally:
        over.set()
