"""What the caller of a sharded run tells its shards, and what they answer; nothing is as long as the rows.

A shard's vectors stand where all messages so far have brought them. A process that does not hold them says so, and
gets the log of what was settled since the last checkpoint: it goes through that, and stands where they stood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Verdict = Literal["begin", "keep", "drop"]
"""What becomes of the step tried last: current point, without momentum (begin) or with it, or dropped with both."""


class Vectors(Protocol):
    """The vectors of one shard: current, previous, and what a step under way needs."""

    def settle(self, verdict: Verdict) -> None:
        """Make the step the current point, or drop it."""
        ...

    def saved(self) -> NDArray[np.float64]:
        """Current and previous, as one array: what a checkpoint holds."""
        ...

    def restore(self, saved: NDArray[np.float64]) -> None: ...


class Command(Protocol):
    """A frozen instruction; both methods leave the same vectors behind, wherever and whenever they run."""

    def run(self, vectors: Any) -> Any:
        """The shard's part of the answer."""
        ...

    def redo(self, vectors: Any) -> None:
        """What `run` does to the vectors, without the answer."""
        ...


class Settled(Protocol):
    """A step that was settled, with all that it takes to go it again."""

    def redo(self, vectors: Any) -> None: ...


@dataclass(frozen=True, eq=False)
class Recovery:
    """How vectors come to where they stand.

    checkpoint : steps that were settled when it was written; 0: there is none, start afresh
    settled : steps since then; pending : commands of the step under way
    """

    checkpoint: int = 0
    settled: tuple[Settled, ...] = ()
    pending: tuple[Command, ...] = ()


@dataclass(frozen=True, eq=False)
class Message:
    """A command, for vectors that have seen all messages of a smaller serial number.

    verdict : on the last step, applied first; part of `recovery.settled` for those who recover
    checkpoint : steps settled so far if a checkpoint is due; kept : the older checkpoint, which must stay
    recovery : for those who lost the vectors; None: they say so
    """

    serial: int
    verdict: Verdict | None
    command: Command
    checkpoint: int | None
    kept: int
    recovery: Recovery | None


@dataclass(frozen=True, eq=False)
class Reply:
    """A shard's part of an answer; lost : its vectors are not here; written : whether a checkpoint was, if due."""

    part: Any = None
    lost: bool = False
    written: bool = False
