"""Stages of a run as Prefect tasks, with timeouts, retries and logs."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import UUID

from prefect import runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter
from prefect.client.schemas.objects import FlowRun, FlowRunPolicy, State
from prefect.context import TagsContext
from prefect.exceptions import CancelledRun, FailedRun
from prefect.logging import get_run_logger
from prefect.states import Cancelled, Failed
from prefect.task_engine import TaskRunTimeoutError

from flows.artifacts import ArtifactObserver, first_paragraph, record_markdown, record_table
from flows.service import LONGEST_RETRY_SECONDS, ServiceSettings
from flows.stack.state import workers_offered
from okl.foundation.errors import ExecutionError, OklError
from okl.foundation.locations import may_be_transient, okl_home
from okl.foundation.telemetry import Observer
from okl.report.progress import describe_summary


@contextmanager
def in_flow_log() -> Iterator[None]:
    """Store okl's warnings, and those of workers, with the current flow run in a block, besides other handlers."""
    handler = _FlowLog()
    okl = logging.getLogger("okl")
    okl.addHandler(handler)
    try:
        yield
    finally:
        okl.removeHandler(handler)


class _FlowLog(logging.Handler):
    """Log handler that passes records to the logger of a flow run, in the context that knows the Prefect server."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._logger = get_run_logger()
        self._context = copy_context()

    def emit(self, record: logging.LogRecord) -> None:
        # copy: a context can be entered only once at a time, and several threads may log at once
        self._context.copy().run(self._logger.log, record.levelno, "%s", record.getMessage())


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a log record adds to the final state, which Prefect also logs as an exception."""
    return not record.exc_info or not isinstance(record.exc_info[1], CancelledRun | FailedRun | None)


for _logger in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(_logger).addFilter(_is_news)


# Service levels of the current flow run: late runs, retries, hanging stages
# The server's automations handle runs whose process is dead: see infra/automations.yaml.

HANGING_SECONDS = 60.0  # a stage that runs this long beyond its timeout cannot be interrupted


def is_transient(error: BaseException) -> bool:
    """Return whether a failure is transient: of a worker, the network or storage, never of data or settings.

    >>> is_transient(TimeoutError()), is_transient(ConnectionResetError()), is_transient(ValueError("rows"))
    (True, True, False)
    """
    seen: BaseException | None = error
    while isinstance(seen, OklError):
        if seen.passing:
            return True
        seen = seen.__cause__ or seen.__context__
    return seen is not None and may_be_transient(seen)


def set_retry_policy(error: Exception, service: ServiceSettings) -> bool:
    """Set the retry policy of the current run after it failed with `error`: retry only transient failures.

    Returns whether the run is retried.

    Prefect retries a flow after any failure, with a constant delay. This policy belongs to the flow run and is read
    when the run fails, so it can be changed until then. Only runs of deployments are retried.
    """
    if not runtime.deployment.id:
        return False
    passing, attempt = is_transient(error), int(runtime.flow_run.run_count)
    delay = min(service.retry_seconds * 2.0 ** (attempt - 1), LONGEST_RETRY_SECONDS)
    policy = FlowRunPolicy(retries=service.retries if passing else 0, retry_delay=round(delay))
    with get_client(sync_client=True) as client:
        client.update_flow_run(UUID(runtime.flow_run.id), empirical_policy=policy).raise_for_status()
    retried = passing and attempt <= service.retries
    if retried:
        get_run_logger().warning("Attempt %d failed, retrying in %.0f s: %s", attempt, delay, error)
    return retried


def skip_reason(service: ServiceSettings) -> str | None:
    """Return the reason to skip the current run because it is late; None if it is to be performed.

    Only scheduled runs can be late. With `once`, any run of the deployment that started after the scheduled time
    replaces it: of several missed runs, the first to start is performed and the others are skipped.
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
            return f"Skipped: scheduled at {due:%Y-%m-%d %H:%M:%S} UTC, {late:.0f} s ago (late = skip)."
        if (other := _started_since(client, run, due)) is not None:
            return (
                f"Skipped: scheduled at {due:%Y-%m-%d %H:%M:%S} UTC, and {other.name} has started since (late = once)."
            )
    return None


def _started_since(client: SyncPrefectClient, run: FlowRun, due: datetime) -> FlowRun | None:
    """Return another run of the same deployment that started after a time, if there is one."""
    assert run.deployment_id is not None
    begun = {"start_time": {"after_": due}, "state": {"type": {"any_": ["RUNNING", "COMPLETED"]}}}
    started_runs = client.read_flow_runs(
        deployment_filter=DeploymentFilter.model_validate({"id": {"any_": [run.deployment_id]}}),
        flow_run_filter=FlowRunFilter.model_validate(begun),
        limit=2,
    )
    return next((other for other in started_runs if other.id != run.id), None)


@contextmanager
def end_hanging_stage(stage: str, service: ServiceSettings) -> Iterator[None]:
    """End this process and fail the run if the stage still runs a minute after its timeout.

    A timeout is an exception in the thread of the stage. A thread that waits in a system call, such as for a lost
    network drive, never raises it, while another thread keeps sending the heartbeats of the run. Only the processes of
    deployments are ended, as they perform nothing but this run.
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
            f"Stage {stage} exceeded {service.stage_seconds:g} s and could not be interrupted. Its process was ended."
        )
        try:
            with get_client(sync_client=True) as client:
                client.set_flow_run_state(run, Failed(message=message), force=True)
        finally:
            os._exit(1)

    # the context holds Prefect's settings: without it the thread would connect to another server
    threading.Thread(target=copy_context().run, args=(watch,), name=f"okl-{stage}-hangs", daemon=True).start()
    try:
        yield
    finally:
        over.set()


@dataclass
class Started:
    """Ids of the Prefect runs that were started, whose records must be stored before a server may stop."""

    flow_runs: list[str] = field(default_factory=list)
    task_runs: list[str] = field(default_factory=list)


class StagedRun(Protocol):
    """Part of a run that its flow uses: see `okl.runs.run.Run`."""

    observer: Observer

    @property
    def stages(self) -> tuple[str, ...]: ...
    def check_settings(self) -> None: ...
    def perform_stage(self, stage: str) -> dict[str, Any]: ...
    def metrics_table(self) -> list[dict[str, Any]]: ...
    def report_markdown(self) -> str: ...
    def result(self) -> dict[str, Any]: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Followed:
    """Run that another thread performs, and the ids of the Prefect runs that record it."""

    run: StagedRun
    started: Started


TAG = "okl"  # automations select okl's runs by this tag

followed: ContextVar[Followed | None] = ContextVar("followed", default=None)
"""Run of a command that the current flow records; None in a worker, which opens and performs the run itself."""


def follow_stages(
    name: str, open_run: Callable[[], StagedRun], service: ServiceSettings
) -> dict[str, Any] | State[Any]:
    """Open a run, perform its stages as tasks of the current flow run, and store its metrics and report as artifacts.

    name : prefix of the artifacts' keys, such as "okl-train churn": okl-train-churn-progress, -metrics, -report
    open_run : returns the run; its observer is set here; service : timeout of each stage, and retries of the run
    Returns result of the run; or the state Cancelled if Ctrl-C ended it, which is no crash, or if the run is late and
        skipped; or the state Failed with the error's sentence if an error of okl ended a deployment's or a command's
        run: an exception would be logged with its traceback twice, and stored as a pickle.
    Raises OklError : a stage failed or exceeded its time limit, in other runs and before a retry
    """
    if (follow := followed.get()) is not None:
        follow.started.flow_runs.append(str(runtime.flow_run.id))
    if (reason := skip_reason(service)) is not None:
        return Cancelled(message=reason)
    observer = ArtifactObserver(f"{name} progress")
    # tasks of a command without the tag of its process: pages show the tags with each task
    own = workers_offered(okl_home()) if follow is None else TagsContext(current_tags={TAG})
    try:
        with in_flow_log(), own, closing(open_run() if follow is None else follow.run) as run:
            run.observer = observer
            run.check_settings()
            for stage in run.stages:
                with end_hanging_stage(stage, service):
                    _perform(run, stage, service.stage_seconds)
            record_table(f"{name} metrics", run.metrics_table(), "Metrics, one per row")
            report = run.report_markdown()
            record_markdown(f"{name} report", report, headline := first_paragraph(report))
            observer.end(headline or "complete", complete=True)
            return run.result()
    except KeyboardInterrupt:
        observer.end("interrupted from the keyboard")
        return Cancelled(message="Interrupted from the keyboard.")
    except Exception as error:
        observer.end(str(error) or type(error).__name__)
        if set_retry_policy(error, service) or not isinstance(error, OklError):
            raise
        if follow is None and not runtime.deployment.id:
            raise
        get_run_logger().error("%s", error)
        return Failed(message=str(error))
    finally:
        observer.finish()


def _perform(run: StagedRun, stage: str, seconds: float | None) -> None:
    """Perform one stage as a Prefect task of its name; exceptions are passed on unchanged."""
    failures: list[OklError] = []

    # The run is not passed as an argument, because Prefect would hash it with all its data. The outcome is logged, not
    # returned, so that Prefect never persists it.
    @task(
        name=stage, task_run_name=stage, persist_result=False, cache_policy=NO_CACHE, retries=0, timeout_seconds=seconds
    )
    def perform() -> State[Any] | None:
        if (follow := followed.get()) is not None:
            follow.started.task_runs.append(str(runtime.task_run.id))
        try:
            summary = describe_summary(run.perform_stage(stage))
        except OklError as error:
            failures.append(error)
            return Failed(message=str(error))
        if summary:
            get_run_logger().info("%s: %s", stage, summary)
        return None

    try:
        perform()
    except TaskRunTimeoutError:
        # not a TimeoutError, which would end the flow run: this one may be retried
        raise ExecutionError(
            f"Stage {stage} exceeded its time limit of {seconds:g} s. Increase stage_seconds, or see the log."
        ) from None
    if failures:
        raise failures[0]
