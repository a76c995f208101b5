"""Decoded rows kept in memory between rounds, and the assignment of shards to workers."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar, cast

import numpy as np

from okl.data.dataset import Shard
from okl.foundation.errors import ConfigError
from okl.foundation.validation import check_at_least

# Decoded rows in bounded memory.
#
# What a piece of work returns never depends on whether its rows were here: `load` must be a pure function of the key.

Loaded = TypeVar("Loaded")

DEFAULT_BYTES = 256 * 2**20
LIMIT_VARIABLE = "OKL_RESIDENT_BYTES"
_REMEMBERED_KEYS = 4096


def size_bytes(value: Any) -> int:
    """Bytes of the arrays in a value: an array, or a tuple, list or named tuple of arrays; 0 for anything else."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, (tuple, list)):
        return sum(size_bytes(part) for part in value)
    return 0


class Resident:
    """A thread-safe cache of arrays, bounded in bytes; the least recently used entry leaves first.

    When it is full, a newcomer pushes out only entries that were asked for less recently than the newcomer itself was.
    Rounds that go over more shards than fit therefore keep the first of them, where plain LRU would keep none: it
    always drops the entry whose turn comes next.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._lock = Lock()
        self._limit_bytes = check_at_least("limit_bytes", limit_bytes, 0)
        self._entries: OrderedDict[Hashable, tuple[Any, int, int]] = OrderedDict()  # value, bytes, last asked
        self._asked: OrderedDict[Hashable, int] = OrderedDict()  # when keys that are not held were last asked for
        self._clock = 0
        self._used_bytes = 0

    @property
    def used_bytes(self) -> int:
        """Bytes of the arrays held."""
        return self._used_bytes

    @property
    def limit_bytes(self) -> int:
        """The bound."""
        return self._limit_bytes

    def get(self, key: Hashable, load: Callable[[], Loaded]) -> Loaded:
        """Return what is held under a key, or load it and hold it if there is room.

        Parameters
        ----------
        key : all that decides the rows, such as (sha256 of the shard, row groups, precision, seed of the order)
        load : makes the value, without side effects; runs outside the lock, perhaps twice at once for one key

        Returns
        -------
        the value; other pieces of work hold the same arrays, so nobody may write into them
        """
        with self._lock:
            self._clock += 1
            now = self._clock
            entry = self._entries.get(key)
            if entry is not None:
                self._entries[key] = (entry[0], entry[1], now)
                self._entries.move_to_end(key)
                return cast(Loaded, entry[0])
            before = self._asked.pop(key, 0)
        value = load()
        with self._lock:
            if key not in self._entries and not self._admit(key, value, before, now):
                self._asked[key] = now
                while len(self._asked) > _REMEMBERED_KEYS:
                    self._asked.popitem(last=False)
        return value

    def _admit(self, key: Hashable, value: Any, before: int, now: int) -> bool:
        size = size_bytes(value)
        room = self._limit_bytes - self._used_bytes
        leaving: list[Hashable] = []
        for old, (_, old_size, asked) in self._entries.items():
            if room >= size or asked >= before:
                break
            leaving.append(old)
            room += old_size
        if size > room:
            return False
        for old in leaving:
            self._drop(old)
        self._entries[key] = (value, size, now)
        self._used_bytes += size
        return True

    def _drop(self, key: Hashable) -> None:
        _, size, asked = self._entries.pop(key)
        self._used_bytes -= size
        self._asked[key] = asked

    def limit(self, limit_bytes: int) -> None:
        """Change the bound; entries that no longer fit leave, least recently used first. 0 holds nothing."""
        with self._lock:
            self._limit_bytes = check_at_least("limit_bytes", limit_bytes, 0)
            while self._used_bytes > self._limit_bytes:
                self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._asked.clear()
            self._used_bytes = 0


def _limit_from_environment() -> int:
    text = os.environ.get(LIMIT_VARIABLE, str(DEFAULT_BYTES))
    if not text.isdigit():
        raise ConfigError(
            f"{LIMIT_VARIABLE} = {text!r}, but it takes a whole number of bytes, such as {DEFAULT_BYTES}."
        )
    return int(text)


_cache: Resident | None = None
_cache_lock = Lock()


def process_cache() -> Resident:
    """The one cache of this process; its bound is OKL_RESIDENT_BYTES at first use, 256 MiB by default."""
    global _cache
    with _cache_lock:
        if _cache is None:
            _cache = Resident(_limit_from_environment())
        return _cache


def resident(key: Hashable, load: Callable[[], Loaded]) -> Loaded:
    """Rows held by this process under a key, loaded at need; see `Resident.get`."""
    return process_cache().get(key, load)


# Shard assignment: shards stay with their rows, and the load is balanced.


@dataclass(frozen=True)
class Batch:
    """Some of the shards or items of a call: their positions in it, and the worker likely to hold their rows."""

    positions: tuple[int, ...]
    address: str | None


def settle(slots: Sequence[str], alive: Iterable[str]) -> tuple[str, ...]:
    """Addresses in slots, in an order that does not change when others come and go.

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


def place(rows: Sequence[int], homes: Sequence[str | None], slots: Sequence[str]) -> list[Batch]:
    """One batch a worker, of about equally many rows; as many shards as that allows stay where they were.

    Shards without a home go, largest first, to whoever has the fewest rows. Then shards move from the worker with the
    most rows to the one with the fewest as long as the most become fewer.

    Parameters
    ----------
    rows : of each shard; homes : where each one was worked on last, None of a new one; slots : workers, at least one

    >>> [batch.positions for batch in place([5, 5, 5, 5, 1], [None] * 5, ("a", "b"))]
    [(0, 2, 4), (1, 3)]
    >>> [batch.positions for batch in place([5, 5, 5, 5, 1], ["a", "b", "a", "b", "gone"], ("b", "a"))]
    [(1, 3, 4), (0, 2)]
    """
    held: dict[str, set[int]] = {slot: set() for slot in slots}
    loads = dict.fromkeys(slots, 0)
    homeless = []
    for position, home in enumerate(homes):
        if home in held:
            held[home].add(position)
            loads[home] += rows[position]
        else:
            homeless.append(position)
    for position in sorted(homeless, key=lambda position: -rows[position]):
        fewest = min(slots, key=loads.__getitem__)
        held[fewest].add(position)
        loads[fewest] += rows[position]
    _even_out(rows, held, loads)
    return [Batch(tuple(sorted(held[slot])), slot) for slot in slots if held[slot]]


def _even_out(rows: Sequence[int], held: dict[str, set[int]], loads: dict[str, int]) -> None:
    while True:
        most, fewest = max(loads, key=loads.__getitem__), min(loads, key=loads.__getitem__)
        apart = loads[most] - loads[fewest]
        # the best to move is the one nearest to half of what they are apart; it must leave both below the most
        movable = [position for position in sorted(held[most]) if 0 < rows[position] < apart]
        if not movable:
            return
        moved = min(movable, key=lambda position: abs(2 * rows[position] - apart))
        held[most].remove(moved)
        held[fewest].add(moved)
        loads[most] -= rows[moved]
        loads[fewest] += rows[moved]


def in_sequence(n_items: int, n_workers: int, most: int = 4, per_worker: int = 8) -> list[Batch]:
    """Batches of up to `most` successive items, at least `per_worker` a worker if there are enough items."""
    size = max(1, min(most, n_items // (per_worker * max(1, n_workers))))
    return [Batch(tuple(range(i, min(i + size, n_items))), None) for i in range(0, n_items, size)]


def one_by_one(batch: Batch) -> list[Batch]:
    """A batch of its own, for any worker, of each position."""
    return [Batch((position,), None) for position in batch.positions]


class ShardAssignment:
    """Remembers where each shard was worked on last; its rows, and what stands beside it, are likely still there."""

    def __init__(self) -> None:
        self._homes: dict[object, str] = {}
        self._asked: tuple[Sequence[Any], tuple[str, ...]] | None = None
        self._batches: list[Batch] = []

    def place(self, shards: Sequence[Any], slots: tuple[str, ...]) -> list[Batch]:
        """One batch a worker; see `place`."""
        if self._asked is None or self._asked[0] is not shards or self._asked[1] != slots:
            homes = [self._homes.get(_key(shard, position)) for position, shard in enumerate(shards)]
            rows = [shard.rows if isinstance(shard, Shard) else 1 for shard in shards]
            self._asked, self._batches = (shards, slots), place(rows, homes, slots)
        return self._batches

    def note(self, shards: Sequence[Any], done: Iterable[tuple[Batch, str]]) -> None:
        """Note which worker has done each batch."""
        for batch, worker in done:
            for position in batch.positions:
                key = _key(shards[position], position)
                if self._homes.get(key) != worker:
                    self._homes[key] = worker
                    if batch.address != worker:
                        self._asked = None


def _key(shard: Any, position: int) -> object:
    return (shard.index, shard.sha256) if isinstance(shard, Shard) else position
