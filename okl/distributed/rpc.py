"""Batches of work as bytes: what is sent to a worker and what is returned."""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import socket
import struct
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]

from okl.data.dataset import Shard
from okl.data.executor import Traffic
from okl.distributed.cache import Batch
from okl.distributed.processes import keep_freed_memory
from okl.foundation.errors import ExecutionError, OklError
from okl.foundation.telemetry import Told, at_call, at_shard, summed, tell_failure

# What crosses to a worker and back: batches of shards or items as bytes, and the work itself once a worker process.
#
# Everything is pickled here and not by the cluster, so that bytes can be counted and arrays arrive writable, as they
# do in one process. These pickles live between processes of one run; nothing is ever unpickled from a file.

_HELD_WORKS = 8
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

HANDLER_SECONDS = 0.1  # work that takes a worker less goes to its handler: a task would add a tenth of it or more


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
class BatchCall:
    """Common part of all batches of a call: the work, the shards or items, and the pickled value or None.

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
class BatchReply:
    """Answer of a worker to a batch.

    known : False if the worker has never seen the work; the batch is then sent again with it
    results : pickled list of the results, in the order of the batch, up to the first failure
    error : the first failure; the rest of the batch was not worked on
    seconds : that the worker took; phases : what of them went into reading and the like, see `okl.foundation.telemetry`
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
) -> BatchReply:
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
        return BatchReply(False, worker, digest)
    begun = time.perf_counter()
    with at_call(label) as told, summed() as phases:
        if value is None:
            results, error = _work_on(held.work, pickle.loads(items), (), worker)
        else:
            # one round after the other: one that was given up must not touch what the next one holds beside a shard
            with held.turn:
                results, error = _work_on(held.work, pickle.loads(items), (pickle.loads(value),), worker)
    content = pickle.dumps(results, protocol=pickle.HIGHEST_PROTOCOL)
    return BatchReply(True, worker, digest, content, error, time.perf_counter() - begun, dict(phases), told)


def _work_on(
    work: Callable[..., Any], items: list[Any], arguments: tuple[Any, ...], worker: str
) -> tuple[list[Any], BaseException | None]:
    from okl.compiled.jit import one_blas_thread

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


def in_order(answers: Iterable[tuple[Batch, BatchReply]], n_items: int) -> list[Any]:
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


# Lines to worker processes of this machine: a socket in a private folder, and a thread at its other end that answers.
#
# A round of Dask's own messages passes through two event loops and a dozen of coroutines, which takes some 2 ms where
# the work has just emptied the caches. A line wakes one thread at either end.
#
# What crosses is pickled, so only the user who started the workers may connect: the folder must let nobody else in,
# and the system is asked, at each connection, whose process is at the other end.

_LENGTH, _CREDENTIALS = struct.Struct("<Q"), struct.Struct("3i")
CONNECT_SECONDS = 5.0
Parcel = tuple[str, bytes | None, bytes, bytes | None, str]
"""Digest, content, items, value and label: see `run_batch`."""

_opening = Lock()
_opened: dict[str, str] = {}


def open_line(folder: str, worker: str) -> str:
    """Have this process answer at a socket in a folder, from now on; its path. Calling again changes nothing.

    worker : name of this worker, for messages
    """
    with _opening:
        if folder not in _opened:
            path = str(Path(folder) / f"line-{os.getpid()}")
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path)
            os.chmod(path, 0o600)
            listener.listen()
            Thread(target=_accept, args=(listener, worker), name="okl-lines", daemon=True).start()
            _opened[folder] = path
        return _opened[folder]


def _accept(listener: socket.socket, worker: str) -> None:
    while True:
        line, _ = listener.accept()
        _, user, _ = _CREDENTIALS.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        if user == os.getuid():
            Thread(target=_answer, args=(line, worker), name="okl-line", daemon=True).start()
        else:
            line.close()


def _answer(line: socket.socket, worker: str) -> None:
    """Work on batches as they come, until the caller hangs up."""
    with line, suppress(OSError, EOFError):
        while True:
            digest, content, items, value, label = pickle.loads(_receive(line))
            try:
                reply = run_batch(digest, content, items, value, worker, label)
            except Exception:  # the work cannot be loaded here: without an answer it goes by Dask, which says why
                return
            _send(line, pickle.dumps(reply, protocol=pickle.HIGHEST_PROTOCOL))


class Line:
    """The caller's end. Raises OSError if nobody answers, EOFError if the other end hangs up, as it does when it dies.

    path : of the socket; seconds : to wait for the other end once a message has begun, either way
    """

    def __init__(self, path: str, seconds: float = CONNECT_SECONDS) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(seconds)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Return the fileno of the socket, to wait for an answer."""
        return self._socket.fileno()

    def ask(self, parcel: Parcel) -> None:
        """Send a batch."""
        _send(self._socket, pickle.dumps(parcel, protocol=pickle.HIGHEST_PROTOCOL))

    def reply(self) -> BatchReply:
        """Return what came back."""
        reply = pickle.loads(_receive(self._socket))
        assert isinstance(reply, BatchReply)
        return reply

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def _send(line: socket.socket, content: bytes) -> None:
    line.sendall(_LENGTH.pack(len(content)) + content)


def _receive(line: socket.socket) -> bytearray:
    (size,) = _LENGTH.unpack(_exactly(line, _LENGTH.size))
    return _exactly(line, size)


def _exactly(line: socket.socket, size: int) -> bytearray:
    content = bytearray(size)
    view = memoryview(content)
    while view:
        n_read = line.recv_into(view)
        if not n_read:
            raise EOFError("the other end has hung up")
        view = view[n_read:]
    return content
