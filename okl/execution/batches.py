"""What crosses to a worker and back: batches of shards or items as bytes, and the work itself once a worker process.

Everything is pickled here and not by the cluster, so that bytes can be counted and arrays arrive writable, as they do
in one process. These pickles live between processes of one run; nothing is ever unpickled from a file.
"""

from __future__ import annotations

import hashlib
import pickle
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from okl.errors import ExecutionError, OklError
from okl.execution.protocol import Traffic

_HELD_WORKS = 8
_works: OrderedDict[str, Callable[..., Any]] = OrderedDict()
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


@dataclass(frozen=True)
class Batch:
    """Some of the shards or items of a call: their positions in it, and the worker likely to hold their rows."""

    positions: tuple[int, ...]
    address: str | None


@dataclass(frozen=True)
class Call:
    """What all batches of a call share: the work, the shards or items, and the pickled value, None if there is none."""

    packed: Packed
    items: Sequence[Any]
    value: bytes | None = None

    def content(self, batch: Batch) -> bytes:
        """Pickled list of the shards or items of a batch."""
        return pickle.dumps([self.items[position] for position in batch.positions], protocol=pickle.HIGHEST_PROTOCOL)


@dataclass(frozen=True)
class Reply:
    """What a worker sends back for a batch.

    known : False if the worker has never seen the work; the batch is then sent again with it
    results : pickled list of the results, in the order of the batch, up to the first failure
    error : the first failure; the rest of the batch was not worked on
    """

    known: bool
    worker: str
    digest: str
    results: bytes = b""
    error: BaseException | None = None


def run_batch(digest: str, content: bytes | None, items: bytes, value: bytes | None, worker: str) -> Reply:
    """Work on the items of a batch, in order, in this worker process.

    Parameters
    ----------
    digest, content : of the work; content is None when the caller believes that this process holds it
    items : pickled list of shards or items; value : pickled second argument of the work, None if it takes only one
    worker : name of this worker, for messages
    """
    from okl.compiled.door import one_blas_thread

    work = _held(digest, content)
    if work is None:
        return Reply(False, worker, digest)
    results = []
    error: BaseException | None = None
    arguments = () if value is None else (pickle.loads(value),)
    with one_blas_thread():
        for item in pickle.loads(items):
            try:
                results.append(work(item, *arguments))
            except Exception as failure:
                error = travelling(failure, worker)
                break
    return Reply(True, worker, digest, pickle.dumps(results, protocol=pickle.HIGHEST_PROTOCOL), error)


def _held(digest: str, content: bytes | None) -> Callable[..., Any] | None:
    with _works_lock:
        work = _works.get(digest)
        if work is None and content is not None:
            work = _works[digest] = pickle.loads(content)
        if work is not None:
            _works.move_to_end(digest)
        while len(_works) > _HELD_WORKS:
            _works.popitem(last=False)
    return work


def travelling(failure: Exception, worker: str) -> Exception:
    """An error as the caller should see it: an OklError as it is, a file that only this worker misses with its path.

    Anything else keeps its type, with the worker's traceback as a note: it is a bug, and the caller's traceback would
    not show where.
    """
    missing = _missing_file(failure)
    if missing is not None:
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


def _missing_file(failure: BaseException | None) -> OSError | None:
    while failure is not None:
        if isinstance(failure, (FileNotFoundError, PermissionError, NotADirectoryError)):
            return failure
        failure = failure.__cause__ or failure.__context__
    return None


def settle(slots: Sequence[str], alive: Iterable[str]) -> tuple[str, ...]:
    """Addresses in slots, so that shards stay where they are when workers come and go.

    A newcomer takes the place of a worker that is gone, or a place at the end; a place nobody takes is closed.

    >>> settle(("a", "b", "c"), {"a", "c", "d"})
    ('a', 'd', 'c')
    >>> settle(("a", "b", "c"), {"c"})
    ('c',)
    """
    new = [address for address in sorted(alive) if address not in slots]
    here = set(alive)
    settled = [slot if slot in here else (new.pop(0) if new else None) for slot in slots]
    return tuple(slot for slot in [*settled, *new] if slot is not None)


def by_locality(n_items: int, slots: Sequence[str]) -> list[Batch]:
    """One batch a worker: item i belongs to slot i mod len(slots).

    >>> [batch.positions for batch in by_locality(5, ("a", "b"))]
    [(0, 2, 4), (1, 3)]
    """
    return [
        Batch(tuple(range(slot, n_items, len(slots))), address) for slot, address in enumerate(slots) if slot < n_items
    ]


def in_sequence(n_items: int, n_workers: int, most: int = 4, per_worker: int = 8) -> list[Batch]:
    """Batches of up to `most` successive items, at least `per_worker` a worker if there are enough items."""
    size = max(1, min(most, n_items // (per_worker * max(1, n_workers))))
    return [Batch(tuple(range(i, min(i + size, n_items))), None) for i in range(0, n_items, size)]


def counted(traffic: Traffic, rounds: int = 0, sent: int = 0, received: int = 0) -> Traffic:
    """Traffic with some more rounds and bytes."""
    return Traffic(traffic.rounds + rounds, traffic.bytes_sent + sent, traffic.bytes_received + received)
