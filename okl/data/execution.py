"""The interface that data and solvers use to run work: stream, mix, sum and map.

The model depends on the data, the configuration and the seed, never on the number of workers: partial results come in
shard order, from any worker, and randomness is drawn from (seed, shard, round) by the work itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeVar

from okl.foundation.class_tags import stored
from okl.foundation.types import Doubles, FloatArray, Precision

if TYPE_CHECKING:
    from okl.data.dataset import Dataset, Shard
    from okl.data.order import Window

Item = TypeVar("Item")
Result = TypeVar("Result")
Value = TypeVar("Value", contravariant=True)
Part = TypeVar("Part", covariant=True)


@stored("rows")
class Rows(NamedTuple):
    """Inputs (rows, n_features), C-contiguous, targets (rows,) float64: -1 or +1, class index, or scaled target."""

    inputs: FloatArray
    targets: Doubles


class ShardWork(Protocol[Value, Part]):
    """Picklable work on one shard: called with a value that changes from round to round; must not write into it."""

    def __call__(self, shard: Shard, value: Value, /) -> Part: ...


@stored("traffic")
@dataclass(frozen=True)
class Traffic:
    """Rounds and bytes that crossed to and from the workers; zero bytes in one process."""

    rounds: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0

    def plus(self, more: Traffic) -> Traffic:
        sent, received = self.bytes_sent + more.bytes_sent, self.bytes_received + more.bytes_received
        return Traffic(self.rounds + more.rounds, sent, received)


class Execution(Protocol):
    """Executor of work in this process or on Dask workers. A context manager: leaving it frees workers and threads."""

    @property
    def n_workers(self) -> int:
        """Return the number of worker processes; 0 in this process."""

    @property
    def n_threads(self) -> int:
        """Return the number of threads of this process that `stream` and compiled learners may use."""

    @property
    def memory_limit_bytes(self) -> int | None:
        """Return the memory limit of each working process in bytes; None without a limit."""

    def hold(self, limit_bytes: int) -> None:
        """Bound the decoded rows that each of them holds between rounds: others are read again, to the same bits."""

    @property
    def traffic(self) -> Traffic:
        """Return the rounds and bytes so far."""

    @property
    def processors(self) -> tuple[str, ...]:
        """Return the kinds of processors that take part: results differ between them in the last bits."""

    def stream(
        self, data: Dataset, windows: Sequence[Window], first: int, last: int, precision: Precision
    ) -> Iterator[Rows]:
        """Yield rows of windows[first:last] in order, read ahead by threads; each is valid until the next one."""

    def mix(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        """Train on every shard from one value; merge (average by rows) the results in shard order."""

    def sum(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        """Evaluate partial sums of every shard at one value; add them up in shard order."""

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Work on independent items; results in the order of the items, as they become available."""

    def close(self) -> None:
        """Free workers and threads."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
