"""Execution of work in this process or on Dask workers."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from okl.distributed.processes import running_workers
from okl.foundation.errors import ConfigError, ExecutionError

if TYPE_CHECKING:
    from okl.data.execution import Execution
    from okl.foundation.settings import ExecutionSettings

PATIENCE_VARIABLE, PATIENCE_SECONDS = "OKL_PATIENCE_SECONDS", 60.0


def open_for(where: ExecutionSettings, run: str = "") -> Execution:
    """Open the execution of some settings; see `open_execution`."""
    return open_execution(where.workers, where.scheduler, where.threads, where.cluster, where.tls, run)


def open_execution(
    workers: int = 0,
    scheduler: str | None = None,
    threads: int | Literal["auto"] | None = "auto",
    cluster: str | None = None,
    tls: str | None = None,
    run: str = "",
) -> Execution:
    """Open an execution, a context manager.

    workers : int >= 0, Dask worker processes on this machine: as many of those that OKL_STANDING_WORKERS offers, see
        `okl.distributed.processes`; or else started, and ended with the execution. 0: none
    scheduler : address of a running Dask scheduler, or None
    threads : of this process; "auto" or None: its cores, at most 4
    cluster : path of a file with a class of clusters and the number of workers to request, or None
    tls : folder of the certificates that connections to workers show and demand, or None
    run : name of the run, for the log

    OKL_PATIENCE_SECONDS sets how long to wait when there is no worker at all; default 60.
    Returns LocalExecution without workers, scheduler and cluster, otherwise DaskExecution; Dask is imported only then
    Raises ConfigError : more than one of workers, scheduler and cluster, or an invalid number, file or certificate
    Raises ExecutionError : workers that do not start, a scheduler that does not answer or has no workers
    """
    n_threads = None if threads == "auto" else threads
    check_exclusive(workers, scheduler, cluster)
    if not workers and not scheduler and not cluster:
        from okl.distributed.in_process import LocalExecution

        return LocalExecution(n_threads)
    from okl.distributed.dask import DaskExecution

    if workers and tls is None and (running := running_workers(workers)) is not None:
        with suppress(ExecutionError):  # they are gone, or of other versions: it starts its own
            return DaskExecution(
                None, running.scheduler, n_threads, tls=running.tls, patience_seconds=_patience(),
                most_workers=workers, run=run,
            )  # fmt: skip
    return DaskExecution(
        workers or None, scheduler, n_threads, cluster=cluster, tls=tls, patience_seconds=_patience(), run=run
    )


def check_exclusive(workers: int, scheduler: str | None, cluster: str | None) -> None:
    """Raise ConfigError if more than one of workers, scheduler and cluster is given; see `open_execution`."""
    given = [name for name, value in (("workers", workers), ("scheduler", scheduler), ("cluster", cluster)) if value]
    if len(given) > 1:
        raise ConfigError(
            f"{' and '.join(given)} exclude each other: workers starts processes, scheduler uses running ones, cluster "
            "starts those of a file. Give one of them."
        )


def _patience() -> float:
    text = os.environ.get(PATIENCE_VARIABLE, str(PATIENCE_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < float("inf"):
        raise ConfigError(f"{PATIENCE_VARIABLE} = {text!r}; expected a number of seconds, such as 60.")
    return seconds
