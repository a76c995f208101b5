"""Decoded rows that stay in a process between rounds, in bounded memory, so that Parquet is not read every round.

What a piece of work returns never depends on whether its rows were here: `load` must be a pure function of the key.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar, cast

import numpy as np

from okl.checks import check_at_least
from okl.errors import ConfigError

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
