"""One Prefect task a stage: how a run of the library becomes the records of a flow run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from prefect import runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Cancelled
from prefect.task_engine import TaskRunTimeoutError

from flows.artifacts import ArtifactObserver, clean, record_markdown, record_table
from flows.levels import hanging_ends, not_wanted, settle_retry
from flows.logs import in_flow_log
from flows.progress import TeeObserver, watching
from flows.service import ServiceSettings
from flows.stack.finding import workers_offered
from okl.errors import ExecutionError
from okl.home import okl_home
from okl.progress import Observer


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
