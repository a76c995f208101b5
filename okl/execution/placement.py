"""Which worker gets which shards: each stays where its rows are, and nobody has many more rows than another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from okl.store.dataset import Shard


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


class Homes:
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
