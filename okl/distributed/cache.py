"""Cache of decoded rows between rounds, and the assignment of shards to workers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar, cast

import numpy as np
from scipy import sparse

from okl.data.dataset import Shard
from okl.foundation.validation import bytes_from_environment, check_at_least

# Cache of decoded rows.
#
# Results never depend on whether rows were cached: `load` must be a pure function of the key.

Loaded = TypeVar("Loaded")

DEFAULT_BYTES = 256 * 2**20
LIMIT_VARIABLE = "OKL_RESIDENT_BYTES"
_REMEMBERED_KEYS = 4096


def size_bytes(value: Any) -> int:
    """Return the bytes of an array, dense or sparse, or of those in a tuple or list; 0 for any other value."""
    if sparse.issparse(value):
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, (tuple, list)):
        return sum(size_bytes(part) for part in value)
    return 0


class ArrayCache:
    """Thread-safe cache of arrays, bounded in bytes; the least recently used entry is evicted first.

    In a full cache, a new entry evicts only entries whose last request is older than the previous request for its own
    key. Rounds over more shards than fit therefore hit the first shards, where plain LRU would always miss: it evicts
    the entry that is requested next.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._lock = Lock()
        self.limit_bytes = check_at_least("limit_bytes", limit_bytes, 0)
        self.used_bytes = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int, int]] = OrderedDict()  # value, bytes, last request
        self._requests: OrderedDict[Hashable, int] = OrderedDict()  # last requests of keys that are not cached
        self._clock = 0

    def get(self, key: Hashable, load: Callable[[], Loaded]) -> Loaded:
        """Return the cached value of a key, or load it and cache it if there is room.

        key : everything that decides the rows, such as (sha256 of the shard, row groups, precision, seed of the order)
        load : pure function that returns the value; called outside the lock, possibly by two threads for one key
        Returns the value; other work shares its arrays, which must not be changed.
        """
        with self._lock:
            self._clock += 1
            now = self._clock
            entry = self._entries.get(key)
            if entry is not None:
                self._entries[key] = (entry[0], entry[1], now)
                self._entries.move_to_end(key)
                return cast(Loaded, entry[0])
            before = self._requests.pop(key, 0)
        value = load()
        with self._lock:
            if key not in self._entries and not self._admit(key, value, before, now):
                self._requests[key] = now
                while len(self._requests) > _REMEMBERED_KEYS:
                    self._requests.popitem(last=False)
        return value

    def _admit(self, key: Hashable, value: Any, before: int, now: int) -> bool:
        size = size_bytes(value)
        room = self.limit_bytes - self.used_bytes
        evicted: list[Hashable] = []
        for old, (_, old_size, requested) in self._entries.items():
            if room >= size or requested >= before:
                break
            evicted.append(old)
            room += old_size
        if size > room:
            return False
        for old in evicted:
            self._drop(old)
        self._entries[key] = (value, size, now)
        self.used_bytes += size
        return True

    def _drop(self, key: Hashable) -> None:
        _, size, requested = self._entries.pop(key)
        self.used_bytes -= size
        self._requests[key] = requested

    def limit(self, limit_bytes: int) -> None:
        """Change the bound; evict what no longer fits, least recently used first. 0 caches nothing."""
        with self._lock:
            self.limit_bytes = check_at_least("limit_bytes", limit_bytes, 0)
            while self.used_bytes > self.limit_bytes:
                self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._requests.clear()
            self.used_bytes = 0


_cache: ArrayCache | None = None
_cache_lock = Lock()


def process_cache() -> ArrayCache:
    """Return the cache of this process; its bound is OKL_RESIDENT_BYTES at first use, 256 MiB by default."""
    global _cache
    with _cache_lock:
        if _cache is None:
            _cache = ArrayCache(bytes_from_environment(LIMIT_VARIABLE, DEFAULT_BYTES))
        return _cache


def resident(key: Hashable, load: Callable[[], Loaded]) -> Loaded:
    """Return the rows of a key from the cache of this process, or load them; see `ArrayCache.get`."""
    return process_cache().get(key, load)


# Shard assignment: shards stay on workers that have cached their rows, and the load is balanced.


@dataclass(frozen=True)
class Batch:
    """Some of the shards or items of a call: their positions, and the worker that probably has cached their rows."""

    positions: tuple[int, ...]
    address: str | None


def assign_slots(slots: Sequence[str], alive: Iterable[str]) -> tuple[str, ...]:
    """Return workers in slots, in an order that does not change when other workers join or leave.

    A new worker takes the slot of one that left, or a slot at the end; free slots are removed.

    >>> assign_slots(("a", "b", "c"), {"a", "c", "d"})
    ('a', 'd', 'c')
    >>> assign_slots(("a", "b", "c"), {"c"})
    ('c',)
    """
    new = [address for address in sorted(alive) if address not in slots]
    present = set(alive)
    filled = [slot if slot in present else (new.pop(0) if new else None) for slot in slots]
    return tuple(slot for slot in [*filled, *new] if slot is not None)


def assign_shards(rows: Sequence[int], homes: Sequence[str | None], slots: Sequence[str]) -> list[Batch]:
    """Return one batch a worker, with about equally many rows; as many shards as possible stay on their worker.

    New shards are assigned, largest first, to the worker with the fewest rows. Then shards move from the worker with
    the most rows to the one with the fewest as long as this reduces the maximum.

    rows : of each shard; homes : its last worker, None for a new shard; slots : workers, at least one

    >>> [batch.positions for batch in assign_shards([5, 5, 5, 5, 1], [None] * 5, ("a", "b"))]
    [(0, 2, 4), (1, 3)]
    >>> [batch.positions for batch in assign_shards([5, 5, 5, 5, 1], ["a", "b", "a", "b", "gone"], ("b", "a"))]
    [(1, 3, 4), (0, 2)]
    """
    cached: dict[str, set[int]] = {slot: set() for slot in slots}
    loads = dict.fromkeys(slots, 0)
    # those with a worker first, then the others from the largest on
    for position in sorted(range(len(rows)), key=lambda one: (homes[one] not in cached, -rows[one])):
        home = homes[position]
        slot = home if home in cached else min(slots, key=loads.__getitem__)
        cached[slot].add(position)
        loads[slot] += rows[position]
    _even_out(rows, cached, loads)
    return [Batch(tuple(sorted(cached[slot])), slot) for slot in slots if cached[slot]]


def _even_out(rows: Sequence[int], cached: dict[str, set[int]], loads: dict[str, int]) -> None:
    while True:
        most, fewest = max(loads, key=loads.__getitem__), min(loads, key=loads.__getitem__)
        apart = loads[most] - loads[fewest]
        # move the shard nearest to half of the difference; both loads must stay below the maximum
        movable = [position for position in sorted(cached[most]) if 0 < rows[position] < apart]
        if not movable:
            return
        moved = min(movable, key=lambda position: abs(2 * rows[position] - apart))
        cached[most].remove(moved)
        cached[fewest].add(moved)
        loads[most] -= rows[moved]
        loads[fewest] += rows[moved]


def batches_in_sequence(n_items: int, n_workers: int) -> list[Batch]:
    """Return batches of up to four successive items, at least eight batches a worker if there are enough items."""
    size = max(1, min(4, n_items // (8 * max(1, n_workers))))
    return [Batch(tuple(range(i, min(i + size, n_items))), None) for i in range(0, n_items, size)]


class ShardAssignment:
    """Assignment of shards to the workers that ran them last and have cached their rows and state."""

    def __init__(self) -> None:
        self._homes: dict[object, str] = {}
        self._key: tuple[Sequence[Any], tuple[str, ...]] | None = None
        self._batches: list[Batch] = []

    def assign(self, shards: Sequence[Any], slots: tuple[str, ...]) -> list[Batch]:
        """Return one batch a worker; see `assign_shards`."""
        if self._key is None or self._key[0] is not shards or self._key[1] != slots:
            homes = [self._homes.get(_key(shard, position)) for position, shard in enumerate(shards)]
            rows = [shard.rows if isinstance(shard, Shard) else 1 for shard in shards]
            self._key, self._batches = (shards, slots), assign_shards(rows, homes, slots)
        return self._batches

    def note(self, shards: Sequence[Any], done: Iterable[tuple[Batch, str]]) -> None:
        for batch, worker in done:
            for position in batch.positions:
                key = _key(shards[position], position)
                if self._homes.get(key) != worker:
                    self._homes[key] = worker
                    if batch.address != worker:
                        self._key = None


def _key(shard: Any, position: int) -> object:
    return (shard.index, shard.sha256) if isinstance(shard, Shard) else position
