"""The caller's side of a sharded run: rounds of messages, and the log by which a lost shard is brought back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from okl.accelerated.sharded.beside import Beside
from okl.accelerated.sharded.messages import Command, Message, Recovery, Reply, Settled, Verdict
from okl.errors import ExecutionError
from okl.execution.protocol import Execution
from okl.store.dataset import Shard
from okl.types import FloatArray

CHECKPOINT_STEPS = 50
_MOST_RECOVERIES = 100  # of one round: every worker has died by then, again and again


@dataclass(frozen=True, eq=False)
class Log:
    """Where a run's vectors stand, and how to get there; a value.

    serial : of the last message; verdict : on the last step, not told yet
    steps : settled so far; recovery : for those who lost their vectors
    """

    serial: int = 0
    verdict: Verdict | None = None
    steps: int = 0
    recovery: Recovery = field(default_factory=Recovery)


class Rounds:
    """Asks all shards; the log is where it has come to.

    Parameters
    ----------
    execution, shards : whom to ask; work : what answers there; log : where the run stands
    """

    def __init__(self, execution: Execution, shards: Sequence[Shard], work: Beside, log: Log) -> None:
        self._execution = execution
        self._shards = shards
        self._work = work
        self.log = log

    def ask(self, command: Command) -> list[Any]:
        """The parts of all shards, in their order.

        Raises
        ------
        ExecutionError : workers die again and again, or a checkpoint cannot be read
        """
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
            raise ExecutionError("Workers lose their shards again and again: start fewer, or give them more memory.")
        kept = log.recovery
        if checkpoint is not None and all(reply.written for reply in replies):
            kept = Recovery(checkpoint)
        self.log = Log(message.serial, None, log.steps, replace(kept, pending=(*kept.pending, command)))
        return [reply.part for reply in replies]

    def settle(self, verdict: Verdict, step: Settled, last_only: bool = False) -> None:
        """Note what becomes of the last step; shards hear it with the next command.

        last_only : whether the step leads to the same vectors from anywhere: what came before is not needed then
        """
        recovery = self.log.recovery
        settled = (step,) if last_only else (*recovery.settled, step)
        self.log = replace(
            self.log,
            verdict=verdict,
            steps=self.log.steps + 1,
            recovery=replace(recovery, settled=settled, pending=()),
        )

    def forget_pending(self) -> None:
        """Note that the next command needs nothing of what the last ones left."""
        self.log = replace(self.log, recovery=replace(self.log.recovery, pending=()))

    def _sum(self, message: Message) -> list[Reply]:
        replies: list[Reply] = self._execution.sum(self._work, self._shards, message, _in_order).part
        return replies


def _in_order(replies: list[Reply]) -> Reply:
    return Reply(replies)


def added(parts: list[FloatArray]) -> FloatArray:
    """The sum of what shards answered in their order, as a new array."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total
