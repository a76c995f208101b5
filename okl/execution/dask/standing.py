"""A scheduler and workers that stay, each in a process of its own; whoever starts the process ends it by a signal."""

from __future__ import annotations

import asyncio
import logging
import warnings
from importlib import import_module
from typing import Any

import dask
from distributed import Scheduler, Worker
from distributed.gc import disable_gc_diagnosis

from okl.execution.dask.cluster import CONFIG, LOOPBACK
from okl.execution.dask.security import security_from

WARM = ("okl.training", "okl.scoring", "okl.comparison.run", "pyarrow.parquet")


def serve_scheduler(port: int, health_port: int, tls: str | None = None) -> None:
    """Schedule on a port of 127.0.0.1 until the process ends; /health and /json/counts.json answer on another port."""

    async def serve() -> None:
        options = _options(tls)
        async with Scheduler(
            host=LOOPBACK, port=port, dashboard=False, dashboard_address=f"{LOOPBACK}:{health_port}", **options
        ) as scheduler:
            await scheduler.finished()

    _run(serve)


def serve_worker(scheduler: str, memory_limit: int, folder: str, tls: str | None = None) -> None:
    """Work for the scheduler at an address until the process ends, or until the scheduler is gone.

    What runs of okl import is imported before the first one comes.

    Parameters
    ----------
    memory_limit : bytes that this worker may use
    folder : for its files
    """
    for module in WARM:
        import_module(module)

    async def serve() -> None:
        async with Worker(
            scheduler, host=LOOPBACK, nthreads=1, memory_limit=memory_limit, local_directory=folder, dashboard=False,
            dashboard_address=f"{LOOPBACK}:0", **_options(tls),
        ) as worker:  # fmt: skip
            await worker.finished()

    _run(serve)


def _options(tls: str | None) -> dict[str, Any]:
    return {} if tls is None else {"security": security_from(tls), "protocol": "tls://"}


def _run(serve: Any) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    warnings.simplefilter("ignore")
    disable_gc_diagnosis(force=True)
    with dask.config.set(CONFIG):
        asyncio.run(serve())
