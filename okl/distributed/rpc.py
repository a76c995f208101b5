"""Batches of work as bytes: pickling of requests and replies, and execution in a worker process."""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]

from okl.data.dataset import Shard
from okl.data.executor import Traffic
from okl.distributed.cache import Batch
from okl.distributed.processes import keep_freed_memory
from okl.foundation.errors import ExecutionError, OklError
from okl.foundation.telemetry import LogRecords, log_context, log_failure, log_shard, summed

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
    """Common part of all batches of a call: the work, the shards or items, and the pickled value or None.

    label : of the call, for messages, such as "run NAME, sum 12"
    """

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
        return names[0] if len(names) == 1 else f"{len(names)} from {names[0]} on"

    def content(self, batch: Batch) -> bytes:
        """Return the pickled list of the shards or items of a batch."""
        return pickle.dumps([self.items[position] for position in batch.positions], protocol=pickle.HIGHEST_PROTOCOL)


@dataclass(frozen=True)
class BatchReply:
    """Answer of a worker to a batch.

    known : False if the worker has not received the work; the batch is then sent again with it
    results : pickled list of the results, in the order of the batch, up to the first failure
    error : the first failure; the rest of the batch was not run
    seconds : on the worker; phases : seconds of reading and other phases among them, see `okl.foundation.telemetry`
    records : warnings that the work logged
    """

    known: bool
    worker: str
    digest: str
    results: bytes = b""
    error: BaseException | None = None
    seconds: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)
    records: LogRecords = field(default_factory=list)


def run_batch(
    digest: str, content: bytes | None, items: bytes, value: bytes | None, worker: str, label: str = ""
) -> BatchReply:
    """Run work on the items of a batch, in order, in this worker process.

    Parameters
    ----------
    digest, content : of the work; content is None if the caller has sent it to this process before
    items : pickled list of shards or items; value : pickled second argument of the work, None if there is none
    worker : name of this worker, label : of the call, for messages
    """
    keep_freed_memory()
    cached = _cached_work(digest, content)
    if cached is None:
        return BatchReply(False, worker, digest)
    begin = time.perf_counter()
    with log_context(label) as records, summed() as phases:
        if value is None:
            results, error = _run_items(cached.work, pickle.loads(items), (), worker)
        else:
            # rounds in turn: an abandoned round must not change the worker state of the next one
            with cached.lock:
                results, error = _run_items(cached.work, pickle.loads(items), (pickle.loads(value),), worker)
    content = pickle.dumps(results, protocol=pickle.HIGHEST_PROTOCOL)
    return BatchReply(True, worker, digest, content, error, time.perf_counter() - begin, dict(phases), records)


def _run_items(
    work: Callable[..., Any], items: list[Any], arguments: tuple[Any, ...], worker: str
) -> tuple[list[Any], BaseException | None]:
    from okl.compiled.jit import one_blas_thread

    results = []
    with one_blas_thread():
        for item in items:
            log_shard(item.path if isinstance(item, Shard) else "")
            try:
                results.append(work(item, *arguments))
            except Exception as failure:
                log_failure(failure)
                return results, portable_error(failure, worker)
    return results, None


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
    """Return an error that can be pickled: an OklError as it is, a file that is missing on a worker with its path.

    Other errors are bugs: they keep their type, with the worker's traceback as a note, since the caller's traceback
    does not contain it.
    """
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
        if reply.error is not None:
            errors[batch.positions[len(results)]] = reply.error
    if errors:
        raise errors[min(errors)]
    return [parts[position] for position in range(n_items)]


def counted(traffic: Traffic, rounds: int = 0, sent: int = 0, received: int = 0) -> Traffic:
    """Return traffic plus rounds and bytes."""
    return Traffic(traffic.rounds + rounds, traffic.bytes_sent + sent, traffic.bytes_received + received)
