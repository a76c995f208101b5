"""A cluster of this machine, started and ended with it, and the connection to any scheduler."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client, LocalCluster
from distributed.core import connect
from distributed.gc import disable_gc_diagnosis
from distributed.system import MEMORY_LIMIT
from distributed.utils import silence_logging_cmgr

from okl.errors import ExecutionError
from okl.execution.dask.security import refusal
from okl.execution.spawning import environment_kept, importing_main, interrupts_held, run_apart

LOOPBACK = "127.0.0.1"
CONNECT_SECONDS = 5.0

# a worker never spills or pauses: rows are read again from Parquet sooner than from a spill file; a value may be large
CONFIG = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.admin.large-graph-warning-threshold": "1 GiB",
    "distributed.scheduler.allowed-failures": 0,
    # a worker that dies while the one before it has not been gone for so long would not be replaced
    "distributed.deploy.lost-worker-timeout": "1 day",
}
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


@contextmanager
def silenced() -> Iterator[None]:
    """Dask says nothing in a log meanwhile: what went wrong is raised, once, as one sentence.

    By its level, not by its handlers: Prefect hands what any logger says to a handler of its own.
    """
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with silence_logging_cmgr(logging.CRITICAL):
            yield
    finally:
        logger.setLevel(level)


def why(error: BaseException) -> str:
    """What an error says, for the middle of a sentence."""
    return str(error).rstrip(".") or type(error).__name__


def start_cluster(n_workers: int, folder: str, security: Any = None) -> Any:
    """Start worker processes of one thread each, with a scheduler in this process; nothing listens beyond loopback.

    Parameters
    ----------
    security : certificates of all connections; None: whoever is on this machine may connect
    """
    if importing_main():
        # a worker process that imports a script without a main guard would start workers of its own; the parent
        # notices that it ended, and says what to do
        sys.exit(1)
    try:
        with environment_kept(), interrupts_held():
            cluster = LocalCluster(
                n_workers=n_workers, threads_per_worker=1, processes=True, host=LOOPBACK, dashboard_address=None,
                # without a dashboard the scheduler still serves its health, on port 8787 unless told otherwise
                scheduler_kwargs={"dashboard_address": f"{LOOPBACK}:0"},
                memory_limit=MEMORY_LIMIT // n_workers, env=_ONE_THREAD, local_directory=folder,
                silence_logs=logging.CRITICAL, security=security, protocol=None if security is None else "tls://",
            )  # fmt: skip
            # it runs Python at every garbage collection, where a KeyboardInterrupt is printed and lost
            disable_gc_diagnosis(force=True)
            return cluster
    except (RuntimeError, OSError, TimeoutError) as error:
        raise ExecutionError(
            f"{n_workers} worker processes could not be started ({why(error)}). Each of them imports the running "
            'script: there, put what runs under `if __name__ == "__main__":`.'
        ) from error


def open_client(address: str, security: Any, tls: str | None = None) -> Any:
    """A client of the scheduler at an address; raises ExecutionError if none answers in 5 seconds.

    Parameters
    ----------
    security : what this side shows and trusts; tls : the folder that it is from, for messages
    """
    try:
        _knock(address, security)
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False, name="okl", security=security)
    except (OSError, TimeoutError, ValueError) as error:
        raise ExecutionError(
            f"No Dask scheduler answers at {address} within {CONNECT_SECONDS:g} s ({why(error)}). "
            f"{refusal(address, tls)}"
        ) from None
    # tasks are sent at once: by default they wait for 10 ms in case more come, longer than a short round takes
    client.scheduler_comm.interval = 0.0
    return client


def _knock(address: str, security: Any) -> None:
    """Connect to a scheduler and hang up, or raise why not: a Client that fails to connect leaves its thread behind."""

    async def shake_hands() -> None:
        comm = await connect(address, timeout=CONNECT_SECONDS, **security.get_connection_args("client"))
        await comm.close()

    run_apart(shake_hands, 2 * CONNECT_SECONDS)
