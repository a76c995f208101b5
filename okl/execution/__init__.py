"""Where work runs: in this process or on Dask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from okl.errors import ConfigError

if TYPE_CHECKING:
    from okl.execution.protocol import Execution


def open_execution(
    workers: int = 0, scheduler: str | None = None, threads: int | Literal["auto"] | None = "auto"
) -> Execution:
    """Open the place where work runs; a context manager.

    Parameters
    ----------
    workers : int >= 0, Dask worker processes to start on this machine; 0 starts none
    scheduler : address of a running Dask scheduler, or None
    threads : of this process; "auto" or None: its cores, at most 4

    Returns
    -------
    LocalExecution without workers and scheduler, otherwise DaskExecution; Dask is imported only then

    Raises
    ------
    ConfigError : both workers and a scheduler, or a number out of range
    ExecutionError : workers that do not start, a scheduler that does not answer or has no workers
    """
    n_threads = None if threads == "auto" else threads
    if workers and scheduler:
        raise ConfigError(f"workers = {workers} and scheduler = {scheduler!r}: give one of them, not both.")
    if not workers and not scheduler:
        from okl.execution.local import LocalExecution

        return LocalExecution(n_threads)
    from okl.execution.dask import DaskExecution

    return DaskExecution(workers or None, scheduler, n_threads)
