"""Two ways to a worker and back: a Dask task, or a handler that the worker is given.

A task costs the scheduler some ten milliseconds. It is seen in Dask's dashboard, keeps a cluster that adapts from
taking the worker for idle, and reaches workers that only the scheduler can reach. A handler answers within two.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from typing import Any

from distributed import KilledWorker, get_worker
from distributed.core import clean_exception

from okl.execution.batches import Reply, run_batch
from okl.execution.lines import open_line
from okl.provenance import processor
from okl.runlog import Told

OPERATION = "okl_batch"


class WorkerLostError(Exception):
    """A worker is gone, or the connection to it. deaths : of workers, since several may have tried."""

    def __init__(self, deaths: int = 1) -> None:
        super().__init__(deaths)
        self.deaths = deaths


class SchedulerLostError(Exception):
    """The scheduler is gone."""


class UnreachableError(Exception):
    """This process cannot connect to a worker, which may be well for all that."""


@dataclass(frozen=True)
class Parcel:
    """What goes to a worker: see `run_batch`."""

    digest: str
    content: bytes | None
    items: bytes
    value: bytes | None
    label: str = ""

    @property
    def size_bytes(self) -> int:
        """Of all that is in it."""
        return len(self.content or b"") + len(self.items) + len(self.value or b"")


def _as_task(digest: str, content: bytes | None, items: bytes, value: bytes | None, label: str) -> Reply:
    return run_batch(digest, content, items, value, get_worker().address, label)


def warm_up() -> str:
    """Import what most work needs, numba above all, while the caller still looks at the data; the kind of processor."""
    import okl.compiled.door
    import okl.store.reading  # noqa: F401

    return processor()


async def by_task(client: Any, address: str, parcel: Parcel) -> Reply:
    """Have a task done, by this worker if possible; by another one if the scheduler finds that this one is gone.

    Raises WorkerLostError, SchedulerLostError; ImportError if the worker has no such code.
    """
    future = client.submit(
        _as_task, parcel.digest, parcel.content, parcel.items, parcel.value, parcel.label,
        workers=[address], allow_other_workers=True, pure=False,
    )  # fmt: skip
    try:
        reply = await future
        assert isinstance(reply, Reply)
        return reply
    except KilledWorker as error:
        raise WorkerLostError(error.allowed_failures + 1) from error
    except OSError as error:
        raise SchedulerLostError(error) from error
    except (CancelledError, asyncio.CancelledError) as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise SchedulerLostError("it cancelled all tasks") from error
    finally:
        future.release()


async def by_handler(client: Any, address: str, parcel: Parcel, installed: set[str]) -> Reply:
    """Have a worker's handler answer.

    Parameters
    ----------
    installed : workers that have the handler; this one is added

    Raises
    ------
    WorkerLostError : the connection broke; UnreachableError : there was none; ImportError : the worker has no such code
    """
    worker = client.rpc(address)
    for _ in range(2):
        if address not in installed:
            await _install(worker)
            installed.add(address)
        try:
            answer = await getattr(worker, OPERATION)(
                digest=parcel.digest, content=parcel.content, items=parcel.items, value=parcel.value, label=parcel.label
            )
        except (OSError, TimeoutError) as error:
            raise WorkerLostError from error
        if answer is not None:
            known, name, results, failure, *how = answer
            return Reply(known, name, parcel.digest, results, pickle.loads(failure) if failure else None, *how)
        installed.discard(address)  # another worker has taken this address
    raise WorkerLostError


async def _install(worker: Any) -> None:
    await _run_there(worker, install)


async def open_line_at(client: Any, address: str, folder: str) -> str:
    """Have a worker answer at a socket in a folder, see `okl.execution.lines`; its path.

    Raises UnreachableError, or whatever is raised there.
    """
    path: str = await _run_there(client.rpc(address), open_line, folder, address)
    return path


async def _run_there(worker: Any, function: Any, *arguments: Any) -> Any:
    try:
        done = await worker.run(function=pickle.dumps(function), args=pickle.dumps(arguments), wait=True)
    except (OSError, TimeoutError) as error:
        raise UnreachableError from error
    if done["status"] != "OK":
        _, failure, _ = clean_exception(**done)
        raise failure or UnreachableError(done)
    return done["result"]


def install(dask_worker: Any) -> None:
    """Give a worker the handler: it does the work in the worker's own threads, and answers on the same connection."""

    async def answer(
        digest: str, content: bytes | None, items: bytes, value: bytes | None, label: str
    ) -> tuple[bool, str, bytes, bytes, float, Mapping[str, float], Told]:
        work = partial(run_batch, digest, content, items, value, dask_worker.address, label)
        reply = await asyncio.get_running_loop().run_in_executor(dask_worker.executor, work)
        failure = b"" if reply.error is None else pickle.dumps(reply.error)
        return reply.known, reply.worker, reply.results, failure, reply.seconds, reply.phases, reply.told

    dask_worker.handlers[OPERATION] = answer
