"""One Prefect task for each stage of a run, with timeouts, retries and logs."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import UUID

from prefect import runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, FlowRunPolicy, State, StateType
from prefect.logging import get_run_logger
from prefect.states import Cancelled, Failed
from prefect.task_engine import TaskRunTimeoutError

from flows.artifacts import ArtifactObserver, clean, record_markdown, record_table
from flows.progress import TeeObserver, watching
from flows.service import LONGEST_RETRY_SECONDS, ServiceSettings
from flows.stack.finding import workers_offered
from okl.foundation.errors import ExecutionError, OklError
from okl.foundation.locations import may_pass, okl_home
from okl.foundation.telemetry import Observer

# What okl logs, in the log of the flow run that it belongs to, whichever thread it comes from.


@contextmanager
def in_flow_log() -> Iterator[None]:
    """Have warnings of okl, and those that workers sent back, stored with the current flow run; they go on elsewhere.

    A terminal sees them as before: the loggers of flow runs are kept off it.
    """
    handler = _FlowLog()
    okl = logging.getLogger("okl")
    okl.addHandler(handler)
    try:
        yield
    finally:
        okl.removeHandler(handler)


class _FlowLog(logging.Handler):
    """Hands records to the logger of a flow run, in the context of its thread: others know no Prefect server."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._logger = get_run_logger()
        self._context = copy_context()

    def emit(self, record: logging.LogRecord) -> None:
        # a copy: a context can be entered once at a time, and threads log when they like
        self._context.copy().run(self._logger.log, record.levelno, "%s", record.getMessage())


# Service levels of the current flow run: whether it is still wanted, what is tried again, who ends a stage that
# hangs.
#
# What a process can no longer do for itself is left to the automations of the server: see infra/automations.yaml.

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


# One Prefect task a stage: how a run of the library becomes the records of a flow run.


class StagedRun(Protocol):
    """A run of the library: each of its stages is a method without arguments that says what it did.

    `close` frees what the run holds and removes what it left incomplete; it is called whatever happens.
    """

    def close(self) -> None: ...
    def result(self) -> dict[str, Any]: ...
    def metrics_table(self) -> list[dict[str, Any]]: ...
    def report_markdown(self) -> str: ...


@dataclass
class Started:
    """The Prefect runs that were started, by id: the records that must have arrived before a server may stop."""

    flow_runs: list[str] = field(default_factory=list)
    task_runs: list[str] = field(default_factory=list)


started: ContextVar[Started | None] = ContextVar("started", default=None)
"""Where a process that waits for its records collects their ids; none in a worker, whose server stays."""


def follow_stages(
    name: str, open_run: Callable[[Observer], StagedRun], stages: Sequence[str], service: ServiceSettings
) -> dict[str, Any] | State[Any]:
    """Open a run, perform its stages as tasks of the current flow run, and keep its figures as artifacts.

    Parameters
    ----------
    name : what the keys of the artifacts begin with: NAME-progress, NAME-metrics, NAME-report
    open_run : makes the run, given who watches it
    stages : names of the run's methods, in order
    service : how long each may take, and what follows when one fails

    Returns
    -------
    the run's result; or the state Cancelled if Ctrl-C ended it, so that Prefect records a decision and not a crash, or
    if the run is late and not wanted any more

    Raises
    ------
    ExecutionError : a stage took too long; and whatever a stage raises
    """
    if (records := started.get()) is not None:
        records.flow_runs.append(str(runtime.flow_run.id))
    if (reason := not_wanted(service)) is not None:
        return Cancelled(message=reason)
    observer = TeeObserver(watching.get(), ArtifactObserver(f"{name}-progress"))
    try:
        with in_flow_log(), workers_offered(okl_home()), closing(open_run(observer)) as run:
            for stage in stages:
                observer.stage(stage)
                with hanging_ends(stage, service):
                    _perform(getattr(run, stage), stage, service.stage_seconds)
            record_table(f"{name}-metrics", run.metrics_table(), "Every figure of the run, one a row")
            record_markdown(f"{name}-report", run.report_markdown(), "The run's report, as in its folder")
            return run.result()
    except KeyboardInterrupt:
        return Cancelled(message="Interrupted from the keyboard.")
    except Exception as error:
        settle_retry(error, service)
        raise
    finally:
        observer.finish()


def _perform(body: Callable[[], dict[str, Any]], stage: str, seconds: float | None) -> None:
    """Run one stage as a Prefect task named after it; its exception comes out as it is."""

    # The run is closed over, not passed: Prefect would hash it and everything it holds. The outcome is logged, not
    # returned, so that nothing can be persisted whatever the worker's settings are.
    @task(
        name=stage, task_run_name=stage, persist_result=False, cache_policy=NO_CACHE, retries=0, timeout_seconds=seconds
    )
    def perform() -> None:
        if (records := started.get()) is not None:
            records.task_runs.append(str(runtime.task_run.id))
        get_run_logger().info("%s: %s", stage, clean(body()))

    try:
        perform()
    except TaskRunTimeoutError:
        # not a TimeoutError, by which a flow run is over: this may be tried again
        raise ExecutionError(
            f"The stage {stage} took longer than {seconds:g} s. Allow more by stage_seconds, or look why."
        ) from None
