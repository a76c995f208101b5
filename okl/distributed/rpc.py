"""Batches of work as bytes: pickling of messages and replies, and execution in a worker process."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import pickle
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]

from okl.data.dataset import Shard
from okl.distributed.cache import Batch
from okl.distributed.processes import keep_freed_memory
from okl.foundation.errors import ExecutionError, OklError
from okl.foundation.telemetry import log_context, log_failure, log_shard, summed

# Everything is pickled here and not by the cluster, so that bytes can be counted and arrays arrive writable, as they
# do in one process. Pickles are exchanged between processes of one run only; no file is ever unpickled.

_CACHED_WORKS = 8
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

HANDLER_SECONDS = 0.1  # shorter work is sent to the handler of a worker: a task would add a tenth to it


class _CachedWork(NamedTuple):
    """Unpickled work of this process, and the lock of its rounds."""

    work: Callable[..., Any]
    lock: Lock


_works: OrderedDict[str, _CachedWork] = OrderedDict()
_works_lock = Lock()


@dataclass(frozen=True)
class Packed:
    """Pickled work and its sha256."""

    digest: str
    content: bytes


def pack(work: Callable[..., Any]) -> Packed:
    """Pickle work, functions of a user's script by value; raise ExecutionError if it cannot be pickled."""
    try:
        content = cloudpickle.dumps(work, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise ExecutionError(f"{work!r} cannot be sent to workers ({error}); work must be picklable.") from error
    return Packed(hashlib.sha256(content).hexdigest(), content)


@dataclass(frozen=True, eq=False)
class BatchCall:
    """Common part of the batches of a call: work, shards or items, pickled value or None, and a label for messages."""

    packed: Packed
    items: Sequence[Any]
    value: bytes | None = None
    label: str = ""

    def named(self, batch: Batch) -> str:
        """Return the names of the shards or items of a batch, for messages."""
        some = [self.items[position] for position in batch.positions]
        names = [
            item.path if isinstance(item, Shard) else f"item {at}"
            for at, item in zip(batch.positions, some, strict=True)
        ]
        kind = "shards" if isinstance(some[0], Shard) else "items"
        return names[0] if len(names) == 1 else f"{len(names)} {kind} ({names[0]}, ...)"

    def content(self, batch: Batch) -> bytes:
        return pickle.dumps([self.items[position] for position in batch.positions], protocol=pickle.HIGHEST_PROTOCOL)


class BatchMessage(NamedTuple):
    """Message to a worker: the items of a batch and the work to run on them.

    digest, content : of the work; content is None if the caller has sent it to this process before
    items : pickled list of shards or items; value : pickled second argument of the work, None if there is none
    label : of the call, for messages; inline : whether to run it in the event loop of the worker
    """

    digest: str
    content: bytes | None
    items: bytes
    value: bytes | None
    label: str = ""
    inline: bool = False

    @property
    def size_bytes(self) -> int:
        return len(self.content or b"") + len(self.items) + len(self.value or b"")


class BatchReply(NamedTuple):
    """Reply of a worker to a message.

    known : False if the worker has not received the work; the batch is then sent again with it
    results : pickled list of the results, in the order of the batch, up to the first failure
    error : the pickled first failure; the rest of the batch was not run. Empty without a failure
    seconds : on the worker; phases : seconds of reading and other phases among them, see `okl.foundation.telemetry`
    records : warnings that the work logged
    """

    known: bool
    worker: str
    results: bytes = b""
    error: bytes = b""
    seconds: float = 0.0
    phases: Mapping[str, float] = MappingProxyType({})
    records: Sequence[tuple[int, str]] = ()


def run_batch(message: BatchMessage, worker: str) -> BatchReply:
    """Run the work of a message on its items, in order, in this worker process; worker : its name."""
    keep_freed_memory()
    cached = _cached_work(message.digest, message.content)
    if cached is None:
        return BatchReply(False, worker)
    begin = time.perf_counter()
    with log_context(message.label) as records, summed() as phases:
        if message.value is None:
            results, error = _run_items(cached.work, pickle.loads(message.items), (), worker)
        else:
            # rounds in turn: an abandoned round must not change the worker state of the next one
            with cached.lock:
                results, error = _run_items(
                    cached.work, _shards_of(message.items), (pickle.loads(message.value),), worker
                )
    content = pickle.dumps(results, protocol=pickle.HIGHEST_PROTOCOL)
    return BatchReply(True, worker, content, error, time.perf_counter() - begin, dict(phases), records)


@lru_cache(maxsize=64)
def _shards_of(content: bytes) -> list[Any]:
    """Return the unpickled shards of a batch, which are the same in each round."""
    shards: list[Any] = pickle.loads(content)
    return shards


# The handler of a worker: it serves one connection for as long as the caller keeps it.

OPERATION = "okl_batches"


def install_handler(dask_worker: Any) -> None:
    """Install the handler on a worker; it runs messages in its event loop or in a thread, and replies by number."""

    def reply_to(number: int, message: BatchMessage) -> tuple[int, bytes, BatchReply | None]:
        try:
            return number, b"", run_batch(message, dask_worker.address)
        except Exception as error:  # of whatever kind: the caller raises it
            return number, pickle.dumps(portable_error(error, dask_worker.address)), None

    async def serve(comm: Any) -> None:
        threads: set[asyncio.Task[None]] = set()
        comm.allow_offload = False  # measuring a message takes longer than packing it

        async def run_in_thread(number: int, message: BatchMessage) -> None:
            loop = asyncio.get_running_loop()
            reply = await loop.run_in_executor(dask_worker.executor, reply_to, number, message)
            with suppress(OSError):  # the caller has gone
                await comm.write(reply)

        while True:
            number, *content = await comm.read()
            message = BatchMessage(*content)
            if message.inline:  # a change of threads takes longer than short work
                await comm.write(reply_to(number, message))
            else:
                task = asyncio.get_running_loop().create_task(run_in_thread(number, message))
                threads.add(task)
                task.add_done_callback(threads.discard)

    dask_worker.handlers[OPERATION] = serve


def _run_items(
    work: Callable[..., Any], items: list[Any], arguments: tuple[Any, ...], worker: str
) -> tuple[list[Any], bytes]:
    from okl.compiled.jit import one_blas_thread

    results = []
    with one_blas_thread():
        for item in items:
            log_shard(item.path if isinstance(item, Shard) else "")
            try:
                results.append(work(item, *arguments))
            except Exception as failure:
                log_failure(failure)
                return results, pickle.dumps(portable_error(failure, worker))
    return results, b""


def _cached_work(digest: str, content: bytes | None) -> _CachedWork | None:
    with _works_lock:
        cached = _works.get(digest)
        if cached is None and content is not None:
            cached = _works[digest] = _CachedWork(pickle.loads(content), Lock())
        if cached is not None:
            _works.move_to_end(digest)
        while len(_works) > _CACHED_WORKS:
            _works.popitem(last=False)
    return cached


def portable_error(failure: Exception, worker: str) -> Exception:
    """Return an error to pickle: OklError as it is, a missing file with its path, others with their traceback noted."""
    full = _caused_by(failure, OSError)
    if isinstance(full, OSError) and full.errno in _FULL:
        location = full.filename or "its disk"
        return ExecutionError(
            f"Worker {worker} cannot write to {location} ({os.strerror(full.errno)}): "
            "free some space there, or raise its limit."
        )
    missing = _caused_by(failure, FileNotFoundError, PermissionError, NotADirectoryError)
    if isinstance(missing, OSError):
        what = str(failure) if isinstance(failure, OklError) else f"{missing.filename} cannot be opened."
        kind = type(failure) if isinstance(failure, OklError) else ExecutionError
        return kind(f"{what} Worker {worker} cannot open it: the data must have the same path on every worker.")
    if not isinstance(failure, OklError):
        failure.add_note(f"On worker {worker}:\n{''.join(traceback.format_exception(failure))}")
    try:
        pickle.loads(pickle.dumps(failure))
    except Exception:
        # an error class with its own constructor often cannot be pickled
        return ExecutionError(f"{type(failure).__name__} on worker {worker}: {failure}")
    return failure


def _caused_by(failure: BaseException | None, *kinds: type[OSError]) -> BaseException | None:
    while failure is not None:
        if isinstance(failure, kinds):
            return failure
        failure = failure.__cause__ or failure.__context__
    return None


def in_order(answers: Iterable[tuple[Batch, BatchReply]], n_items: int) -> list[Any]:
    """Return the results of all items; raise the error of the first one that failed, as one process would."""
    parts: dict[int, Any] = {}
    errors: dict[int, BaseException] = {}
    for batch, reply in answers:
        results = pickle.loads(reply.results)
        parts.update(zip(batch.positions, results, strict=False))
        if reply.error:
            errors[batch.positions[len(results)]] = pickle.loads(reply.error)
    if errors:
        raise errors[min(errors)]
    return [parts[position] for position in range(n_items)]
