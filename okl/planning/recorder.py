"""An execution that notes what a cluster would be asked: rounds, the bytes that they carry, how long work takes."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from okl.execution.batches import pack
from okl.execution.local import LocalExecution
from okl.execution.protocol import Item, Part, Result, ShardWork, Value
from okl.store.dataset import Shard


@dataclass(frozen=True)
class Asked:
    """One round, or one `map`, of a rehearsal.

    label : verb, work and command; of one label rounds differ in numbers only
    digest, work_bytes : of the work, which every worker gets once
    value_bytes : that go to every worker; reply_bytes, part_bytes : of a reply without parts, and of each part in it
    seconds : of each shard or item, in order; merge_seconds : of the caller, for all parts
    at : where the solver stood: rows learnt or iterations; -1 while it starts
    """

    label: str
    digest: str
    work_bytes: int
    value_bytes: int
    reply_bytes: float
    part_bytes: float
    seconds: tuple[float, ...]
    merge_seconds: float
    at: int

    @property
    def shard_seconds(self) -> float:
        """Of a shard or item, on average."""
        return mean(self.seconds)


class Recorder(LocalExecution):
    """Works in this process, one shard after the other, and notes every round in `asked`.

    at : where the solver stands now, for whoever drives it to say
    inside_seconds : in rounds so far; the rest is the caller's own
    """

    def __init__(self, n_threads: int = 1) -> None:
        super().__init__(n_threads)
        self.asked: list[Asked] = []
        self.at = -1
        self.inside_seconds = 0.0
        self._packed: dict[int, tuple[Any, str, int]] = {}

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Work on the items, all of them before the first result is handed out."""
        begun = time.perf_counter()
        results, seconds = self._timed(work, items)
        self._note("map", work, None, 0, results, seconds, 0.0)
        self.inside_seconds += time.perf_counter() - begun
        return iter(results)

    def mix(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        """Learn every shard from one value; merge the results."""
        return self._noted("mix", work, shards, value, merge)

    def sum(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        """Evaluate every shard at one value; merge the results."""
        return self._noted("sum", work, shards, value, merge)

    def _noted(
        self,
        verb: str,
        work: ShardWork[Value, Part],
        shards: Sequence[Shard],
        value: Value,
        merge: Callable[[list[Part]], Part],
    ) -> Part:
        from okl.compiled.door import one_blas_thread

        entered = time.perf_counter()
        with one_blas_thread():
            parts, seconds = self._timed(lambda shard: work(shard, value), shards)
            sizes = (_size([]), *(_size(parts[:count]) for count in (1, len(parts))))
            begun = time.perf_counter()
            merged = merge(list(parts))
            merge_seconds = time.perf_counter() - begun
        self._note(verb, work, getattr(value, "command", None), _size(value), parts, seconds, merge_seconds, sizes)
        self.inside_seconds += time.perf_counter() - entered
        return self._handed_on(merged)

    def _handed_on(self, merged: Result) -> Result:
        """What the caller gets for a round."""
        return merged

    @staticmethod
    def _timed(work: Callable[[Any], Any], items: Sequence[Any]) -> tuple[list[Any], tuple[float, ...]]:
        results, seconds = [], []
        for item in items:
            begun = time.perf_counter()
            results.append(work(item))
            seconds.append(time.perf_counter() - begun)
        return results, tuple(seconds)

    def _note(
        self,
        verb: str,
        work: Any,
        command: Any,
        value_bytes: int,
        parts: list[Any],
        seconds: tuple[float, ...],
        merge_seconds: float,
        sizes: tuple[int, ...] | None = None,
    ) -> None:
        if not parts:
            return
        digest, work_bytes = self._known(work)
        empty, one, every = sizes or (_size([]), _size(parts[:1]), _size(parts))
        # what parts share, such as the names of their types, is told once a reply
        each = (every - one) / (len(parts) - 1) if len(parts) > 1 else float(one - empty)
        label = f"{verb} {type(work).__name__}" + (f" {type(command).__name__}" if command is not None else "")
        reply = max(float(empty), one - each)
        asked = Asked(label, digest, work_bytes, value_bytes, reply, each, seconds, merge_seconds, self.at)
        self.asked.append(asked)

    def _known(self, work: Any) -> tuple[str, int]:
        if id(work) not in self._packed:
            packed = pack(work)
            self._packed[id(work)] = work, packed.digest, len(packed.content)  # held, so that nobody takes its place
        return self._packed[id(work)][1:]


class HurryError(Exception):
    """What was to be noted has been: not a failure."""


class HurriedRecorder(Recorder):
    """Notes one round, and raises HurryError in place of its result: for solvers whose caller then works for long."""

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """The same of work on items."""
        super().map(work, items)
        raise HurryError

    def _handed_on(self, merged: Result) -> Result:
        raise HurryError


def _size(value: Any) -> int:
    return len(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))
