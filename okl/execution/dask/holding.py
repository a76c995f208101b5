"""How much memory workers may use, and how many decoded rows they may hold, those that come later, too."""

from __future__ import annotations

from typing import Any

from distributed import WorkerPlugin

NAME = "okl-held-rows"


class HeldRows(WorkerPlugin):  # type: ignore[misc]  # Dask has no types
    """Bounds the rows that a worker holds between rounds. limit_bytes : see okl.execution.resident"""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes

    def setup(self, worker: Any) -> None:
        """Of a worker that is there, or has come."""
        from okl.execution.resident import process_cache

        cache = process_cache()
        worker.okl_held_before = cache.limit_bytes
        cache.limit(min(self.limit_bytes, cache.limit_bytes))

    def teardown(self, worker: Any) -> None:
        """As before."""
        from okl.execution.resident import process_cache

        process_cache().limit(worker.okl_held_before)


def memory_limit(client: Any, workers: list[str]) -> int | None:
    """Bytes that the worker with the least may use; None if nobody limits them."""
    limits = [limit for limit in client.run(_limit_of, workers=workers).values() if limit]
    return min(limits, default=None)


def _limit_of(dask_worker: Any) -> int | None:
    limit: int | None = dask_worker.memory_manager.memory_limit
    return limit


def hold(client: Any, limit_bytes: int) -> None:
    """Bound what all workers hold."""
    client.register_plugin(HeldRows(limit_bytes), name=NAME)


def hold_as_before(client: Any) -> None:
    """For whoever uses the workers next."""
    client.unregister_worker_plugin(NAME)
