"""What crosses to a worker and back: batches of shards or items as bytes, and the work itself once a worker process.

Everything is pickled here and not by the cluster, so that bytes can be counted and arrays arrive writable, as they do
in one process. These pickles live between processes of one run; nothing is ever unpickled from a file.
"""

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

from okl.errors import ExecutionError, OklError
from okl.execution.placement import Batch
from okl.execution.protocol import Traffic
from okl.execution.spawning import keep_freed_memory
from okl.runlog import Told, at_call, at_shard, tell_failure
from okl.spans import summed
from okl.store.dataset import Shard

_HELD_WORKS = 8
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _Held(NamedTuple):
    """Work that this process has, and whose turn it is."""

    work: Callable[..., Any]
    turn: Lock


_works: OrderedDict[str, _Held] = OrderedDict()
_works_lock = Lock()


@dataclass(frozen=True)
class Packed:
    """A piece of work as bytes, and their sha256, by which workers know it."""

    digest: str
    content: bytes


def pack(work: Callable[..., Any]) -> Packed:
    """Pickle work; functions of a user's script travel by value. Raises ExecutionError if it cannot be pickled."""
    try:
        content = cloudpickle.dumps(work, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise ExecutionError(f"{work!r} cannot be sent to workers ({error}); work must be picklable.") from error
    return Packed(hashlib.sha256(content).hexdigest(), content)


@dataclass(frozen=True, eq=False)
class Call:
    """What all batches of a call share: the work, the shards or items, and the pickled value, None if there is none.

    label : of the call, for messages, such as "run NAME, sum 12"
    """

    packed: Packed
    items: Sequence[Any]
    value: bytes | None = None
    label: str = ""

    def named(self, batch: Batch) -> str:
        """The shards or items of a batch, for messages."""
        some = [self.items[position] for position in batch.positions]
        names = [
            item.path if isinstance(item, Shard) else f"item {at}"
            for at, item in zip(batch.positions, some, strict=True)
        ]
        return names[0] if len(names) == 1 else f"{len(names)} from {names[0]} on"

    def content(self, batch: Batch) -> bytes:
        """Pickled list of the shards or items of a batch."""
        return pickle.dumps([self.items[position] for position in batch.positions], protocol=pickle.HIGHEST_PROTOCOL)


@dataclass(frozen=True)
class Reply:
    """What a worker sends back for a batch.

    known : False if the worker has never seen the work; the batch is then sent again with it
    results : pickled list of the results, in the order of the batch, up to the first failure
    error : the first failure; the rest of the batch was not worked on
    seconds : that the worker took; phases : what of them went into reading and the like, see `okl.spans`
    told : what it logged that the caller should see
    """

    known: bool
    worker: str
    digest: str
    results: bytes = b""
    error: BaseException | None = None
    seconds: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)
    told: Told = field(default_factory=list)


def run_batch(
    digest: str, content: bytes | None, items: bytes, value: bytes | None, worker: str, label: str = ""
) -> Reply:
    """Work on the items of a batch, in order, in this worker process.

    Parameters
    ----------
    digest, content : of the work; content is None when the caller believes that this process holds it
    items : pickled list of shards or items; value : pickled second argument of the work, None if it takes only one
    worker : name of this worker, label : of the call, for messages
    """
    keep_freed_memory()
    held = _held(digest, content)
    if held is None:
        return Reply(False, worker, digest)
    begun = time.perf_counter()
    with at_call(label) as told, summed() as phases:
        if value is None:
            results, error = _work_on(held.work, pickle.loads(items), (), worker)
        else:
            # one round after the other: one that was given up must not touch what the next one holds beside a shard
            with held.turn:
                results, error = _work_on(held.work, pickle.loads(items), (pickle.loads(value),), worker)
    content = pickle.dumps(results, protocol=pickle.HIGHEST_PROTOCOL)
    return Reply(True, worker, digest, content, error, time.perf_counter() - begun, dict(phases), told)


def _work_on(
    work: Callable[..., Any], items: list[Any], arguments: tuple[Any, ...], worker: str
) -> tuple[list[Any], BaseException | None]:
    from okl.compiled.door import one_blas_thread

    results = []
    with one_blas_thread():
        for item in items:
            at_shard(item.path if isinstance(item, Shard) else "")
            try:
                results.append(work(item, *arguments))
            except Exception as failure:
                tell_failure(failure)
                return results, travelling(failure, worker)
    return results, None


def _held(digest: str, content: bytes | None) -> _Held | None:
    with _works_lock:
        held = _works.get(digest)
        if held is None and content is not None:
            held = _works[digest] = _Held(pickle.loads(content), Lock())
        if held is not None:
            _works.move_to_end(digest)
        while len(_works) > _HELD_WORKS:
            _works.popitem(last=False)
    return held


def travelling(failure: Exception, worker: str) -> Exception:
    """An error as the caller should see it: an OklError as it is, a file that only this worker misses with its path.

    Anything else keeps its type, with the worker's traceback as a note: it is a bug, and the caller's traceback would
    not show where.
    """
    full = _caused_by(failure, OSError)
    if isinstance(full, OSError) and full.errno in _FULL:
        place = full.filename or "its disk"
        return ExecutionError(
            f"Worker {worker} cannot write to {place} ({os.strerror(full.errno)}): "
            "free some space there, or raise its limit."
        )
    missing = _caused_by(failure, FileNotFoundError, PermissionError, NotADirectoryError)
    if isinstance(missing, OSError):
        what = str(failure) if isinstance(failure, OklError) else f"{missing.filename} cannot be opened."
        kind = type(failure) if isinstance(failure, OklError) else ExecutionError
        return kind(f"{what} Worker {worker} says so: the data must lie at this very path on every worker.")
    if not isinstance(failure, OklError):
        failure.add_note(f"On worker {worker}:\n{''.join(traceback.format_exception(failure))}")
    try:
        pickle.loads(pickle.dumps(failure))
    except Exception:
        # an error class with a constructor of its own often cannot be pickled; its message must not be lost
        return ExecutionError(f"{type(failure).__name__} on worker {worker}: {failure}")
    return failure


def _caused_by(failure: BaseException | None, *kinds: type[OSError]) -> BaseException | None:
    while failure is not None:
        if isinstance(failure, kinds):
            return failure
        failure = failure.__cause__ or failure.__context__
    return None


def in_order(answers: Iterable[tuple[Batch, Reply]], n_items: int) -> list[Any]:
    """The results of all items; raises the error of the first one that failed, as one process would have met it."""
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
    """Traffic with some more rounds and bytes."""
    return Traffic(traffic.rounds + rounds, traffic.bytes_sent + sent, traffic.bytes_received + received)
