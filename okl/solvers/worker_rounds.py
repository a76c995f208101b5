"""Rounds of messages between a solver and the shards whose vectors stay with the workers."""

from __future__ import annotations

import os
import platform
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, Literal, Protocol

import numpy as np

from okl.data.dataset import Shard
from okl.data.execution import Execution
from okl.foundation.class_tags import stored
from okl.foundation.errors import ExecutionError
from okl.foundation.types import Doubles, FloatArray

Verdict = Literal["begin", "keep", "drop"]
"""Fate of the last step: the new current point, without (begin) or with (keep) momentum, or dropped."""


class Vectors(Protocol):
    """The vectors of one shard: current, previous, and what a step under way needs."""

    def finish_step(self, verdict: Verdict) -> None:
        """Make the step the current point, or drop it."""

    def saved(self) -> Doubles:
        """Return current and previous as one array, for a checkpoint."""

    def restore(self, saved: Doubles) -> None: ...


class Command(Protocol):
    """A frozen instruction; both methods leave the same vectors behind, wherever and whenever they run."""

    def run(self, vectors: Any, /) -> Any:
        """Apply the command, and return the shard's part of the result."""

    def redo(self, vectors: Any, /) -> None:
        """Repeat the changes of `run` to the vectors, without its answer."""


class AcceptedStep(Protocol):
    """Accepted step that can be repeated."""

    def redo(self, vectors: Any, /) -> None: ...


@stored("worker-recovery")
@dataclass(frozen=True, eq=False)
class Recovery:
    """Recovery of the vectors of a lost shard.

    checkpoint : accepted steps when it was written; 0: none, start again
    settled : accepted steps since then; pending : commands of the step under way
    """

    checkpoint: int = 0
    settled: tuple[AcceptedStep, ...] = ()
    pending: tuple[Command, ...] = ()


@dataclass(frozen=True, eq=False)
class Message:
    """A command, for vectors that have seen all messages of a smaller serial number.

    verdict : on the last step, applied first; part of `recovery.settled` for a recovery
    checkpoint : accepted steps so far if a checkpoint is due; kept : the older checkpoint, which must stay
    recovery : for a process without the vectors; None: it answers that they are lost
    """

    serial: int
    verdict: Verdict | None
    command: Command
    checkpoint: int | None
    kept: int
    recovery: Recovery | None


@dataclass(frozen=True, eq=False)
class ShardReply:
    """A shard's part of an answer; lost : its vectors are not here; written : whether a checkpoint was, if due."""

    part: Any = None
    lost: bool = False
    written: bool = False


# Worker state: vectors that stay with their shard.

_MOST_RUNS = 2


class RunVectors:
    """Vectors of shards in this process, by run and index of the shard; those of abandoned runs are dropped."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, dict[int, Any]] = OrderedDict()
        self._lock = Lock()

    def of(self, run: str) -> dict[int, Any]:
        """Return the entries of a run."""
        with self._lock:
            entries = self._runs.setdefault(run, {})
            self._runs.move_to_end(run)
            while len(self._runs) > _MOST_RUNS:
                self._runs.popitem(last=False)
        return entries

    def forget(self) -> None:
        """Drop all vectors, as if this were another process."""
        with self._lock:
            self._runs.clear()


@dataclass
class _Held:
    serial: int
    vectors: Any
    reply: ShardReply


held_vectors = RunVectors()


@stored("worker-vectors")
@dataclass(frozen=True, eq=False)
class WorkerState:
    """Work for `execution.sum`: answers messages by the vectors of a shard that this process holds.

    run : name of the run, unlike any other
    opened : makes the vectors of a shard as they are before the first message; a pure function
    folder : of checkpoints, which all processes can reach; None: there are none
    """

    run: str
    opened: Callable[[Shard], Vectors]
    folder: Path | None = None

    def __call__(self, shard: Shard, message: Message) -> ShardReply:
        """Return the shard's reply, or report that its vectors are lost."""
        states: _Held | None = held_vectors.of(self.run).get(shard.index)
        if states is not None and states.serial == message.serial:  # sent again: its answer was lost
            return states.reply
        if states is not None and states.serial == message.serial - 1:
            vectors = states.vectors
            if message.verdict is not None:
                vectors.finish_step(message.verdict)
        elif message.recovery is not None:
            vectors = self._recovered(shard, message.recovery)
        else:
            return ShardReply(lost=True)
        written = message.checkpoint is not None and self._write(shard, vectors, message.checkpoint, message.kept)
        reply = ShardReply(message.command.run(vectors), written=written)
        held_vectors.of(self.run)[shard.index] = _Held(message.serial, vectors, reply)
        return reply

    def _recovered(self, shard: Shard, recovery: Recovery) -> Vectors:
        vectors = self.opened(shard)
        if recovery.checkpoint:
            path = self._path(shard, recovery.checkpoint)
            try:
                vectors.restore(np.load(path, allow_pickle=False))
            except (OSError, ValueError) as error:
                raise ExecutionError(
                    f"The checkpoint {path} of a lost worker cannot be read ({error}). Workers must see the run "
                    "folder under the same path. Train again with --out in such a folder."
                ) from None
        for step in (*recovery.settled, *recovery.pending):
            step.redo(vectors)
        return vectors

    def _write(self, shard: Shard, vectors: Vectors, steps: int, n_kept: int) -> bool:
        """Write a checkpoint to a temporary file and rename it; return False if this process cannot write there."""
        if self.folder is None:
            return False
        path = self._path(shard, steps)
        # a straggler and the worker that took over its work, perhaps on another host, may write the same one at once
        temporary_path = path.with_suffix(f".{platform.node()}-{os.getpid()}-{secrets.token_hex(4)}.tmp")
        try:
            with open(temporary_path, "wb") as stream:
                np.save(stream, vectors.saved(), allow_pickle=False)
            temporary_path.replace(path)
        except OSError:
            return False
        for old in self.folder.glob(f"{self.run}-{shard.index:05d}-*.npy"):
            if int(old.stem.rpartition("-")[2]) < n_kept:
                with suppress(OSError):
                    old.unlink()
        return True

    def _path(self, shard: Shard, steps: int) -> Path:
        assert self.folder is not None, "a checkpoint was written"
        return self.folder / f"{self.run}-{shard.index:05d}-{steps}.npy"


# Rounds of messages, and the log that restores a lost shard.

CHECKPOINT_STEPS = 50
_MOST_RECOVERIES = 100  # of one round: every worker has died by then, again and again


@stored("worker-rounds")
@dataclass(frozen=True, eq=False)
class CommandLog:
    """State of a run's vectors, and the commands that restore it; a value.

    serial : of the last message; verdict : on the last step, not sent yet
    steps : accepted so far; recovery : for those who lost their vectors
    """

    serial: int = 0
    verdict: Verdict | None = None
    steps: int = 0
    recovery: Recovery = field(default_factory=Recovery)


class Rounds:
    """Sender of messages to all shards; the log is its position.

    execution, shards : receivers; work : that answers there; log : position of the run
    carried : what the sender remembers from check to check, any value
    """

    def __init__(
        self, execution: Execution, shards: Sequence[Shard], work: WorkerState, log: CommandLog, carried: Any = None
    ) -> None:
        self._execution = execution
        self._shards = shards
        self._work = work
        self.log, self.carried = log, carried

    def request(self, command: Command) -> list[Any]:
        """Send a command to all shards; return parts in order; ExecutionError if workers die again and again."""
        log = self.log
        due = not log.recovery.pending and len(log.recovery.settled) >= CHECKPOINT_STEPS
        checkpoint = log.steps if due and len(log.recovery.settled) % CHECKPOINT_STEPS == 0 else None
        recovery = None if log.serial else log.recovery
        message = Message(log.serial + 1, log.verdict, command, checkpoint, log.recovery.checkpoint, recovery)
        replies = self._sum(message)
        for _ in range(_MOST_RECOVERIES):
            if not any(reply.lost for reply in replies):
                break
            replies = self._sum(replace(message, recovery=log.recovery))
        else:
            raise ExecutionError(
                f"Workers lost their shards {_MOST_RECOVERIES} times in one round. Start fewer workers, or give "
                "each more memory."
            )
        stored_recovery = log.recovery
        if checkpoint is not None and all(reply.written for reply in replies):
            stored_recovery = Recovery(checkpoint)
        self.log = CommandLog(
            message.serial, None, log.steps, replace(stored_recovery, pending=(*stored_recovery.pending, command))
        )
        return [reply.part for reply in replies]

    def finish_step(self, verdict: Verdict, step: AcceptedStep, last_only: bool = False) -> None:
        """Record the fate of the last step; shards receive it with the next command.

        last_only : whether the step leads to the same vectors from anywhere: earlier steps are not needed then
        """
        recovery = self.log.recovery
        steps = (step,) if last_only else (*recovery.settled, step)
        self.log = replace(
            self.log, verdict=verdict, steps=self.log.steps + 1, recovery=replace(recovery, settled=steps, pending=())
        )

    def forget_pending(self) -> None:
        """Record that the next command does not depend on the last ones."""
        self.log = replace(self.log, recovery=replace(self.log.recovery, pending=()))

    def _sum(self, message: Message) -> list[ShardReply]:
        replies: list[ShardReply] = self._execution.sum(self._work, self._shards, message, ShardReply).part
        return replies


def added(parts: list[FloatArray]) -> FloatArray:
    """Sum the parts of the shards in order, into a new array."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total
