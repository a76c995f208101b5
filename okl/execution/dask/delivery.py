"""The way of one batch to a worker and back, wherever the workers go meanwhile.

A batch whose worker dies is done by others, shard by shard. One that takes much longer than others do is also given to
a worker with nothing to do, and the first answer counts: both are the same bits.
"""

from __future__ import annotations

import asyncio
import logging
import statistics
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from okl import spans
from okl.errors import ExecutionError
from okl.execution.batches import Call, Reply
from okl.execution.dask.carriers import WorkerLostError
from okl.execution.dask.roster import LOOK_SECONDS, Roster
from okl.execution.placement import Batch

HANDLER_SECONDS = 0.1  # work that takes a worker less goes to its handler: a task would add a tenth of it or more
MOST_DEATHS = 4
STRAGGLER_TIMES = 4.0

logger = logging.getLogger("okl.execution")

Carry = Callable[[Call, Batch, str], Coroutine[None, None, Reply]]


@dataclass
class Pace:
    """How long the latest batches of some work took: as workers saw it, and from sending to answer."""

    worked: deque[float] = field(default_factory=lambda: deque(maxlen=9))
    taken: deque[float] = field(default_factory=lambda: deque(maxlen=33))

    def short(self) -> bool:
        """Whether a worker is through with it in little more time than the scheduler takes to hand it out."""
        return bool(self.worked) and statistics.median(self.worked) < HANDLER_SECONDS

    def overdue(self, seconds: float, at_least: float) -> bool:
        """Whether a batch takes several times as long as others did."""
        if seconds < at_least or not self.taken:
            return False
        return seconds > STRAGGLER_TIMES * statistics.median(self.taken)


def answered(call: Call, batch: Batch, reply: Reply, taken: float, pace: Pace) -> None:
    """Note an answer, `taken` seconds after its batch was sent: pace, where its time went, what the worker tells."""
    pace.worked.append(reply.seconds)
    pace.taken.append(taken)
    spans.worked(reply.worker, taken, reply.seconds, reply.phases)
    for level, text in reply.told:
        logger.log(level, "%s (worker %s)", text, reply.worker)
    if logger.isEnabledFor(logging.DEBUG):
        named = call.named(batch)
        logger.debug("%s: %s on %s, %.4f s there, %.4f s in all", call.label, named, reply.worker, reply.seconds, taken)


class SplitError(Exception):
    """A worker died over a batch of several shards: they are done one by one, so that the one that kills is found."""

    def __init__(self, deaths: int) -> None:
        super().__init__(deaths)
        self.deaths = deaths


class Delivery:
    """Has one batch done; used once, in the client's event loop.

    Parameters
    ----------
    carry : takes the batch to one worker and back; raises WorkerLostError
    call, batch : what to do; pace : of such work
    straggler_seconds : the batch is not given to a second worker sooner
    deaths : of workers over this very batch so far
    """

    def __init__(
        self,
        carry: Carry,
        roster: Roster,
        call: Call,
        batch: Batch,
        pace: Pace,
        straggler_seconds: float,
        deaths: int = 0,
    ) -> None:
        self._carry = carry
        self._roster = roster
        self._call = call
        self._batch = batch
        self._pace = pace
        self._straggler_seconds = straggler_seconds
        self._deaths = deaths
        self._attempts: dict[asyncio.Task[Reply], str] = {}

    async def run(self) -> Reply:
        """The first answer.

        Raises
        ------
        SplitError : to be done one by one instead
        ExecutionError : no workers, or too many have died over this batch
        SchedulerLostError, ImportError : see `by_task`, `by_handler`
        """
        begun = time.monotonic()
        try:
            while True:
                if not self._attempts:
                    self._attempt(await self._roster.choose(self._batch.address))
                done, _ = await asyncio.wait(self._attempts, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                taken = time.monotonic() - begun
                for task in done:
                    reply = self._ended(task, taken)
                    if reply is not None:
                        return reply
                if not done:
                    await self._look_after(taken)
        finally:
            for task in self._attempts:
                task.cancel()

    def _attempt(self, address: str) -> None:
        self._roster.busy[address] += 1
        task = asyncio.get_running_loop().create_task(self._carry(self._call, self._batch, address))
        task.add_done_callback(lambda _: self._roster.free(address))
        self._attempts[task] = address

    def _ended(self, task: asyncio.Task[Reply], taken: float) -> Reply | None:
        address = self._attempts.pop(task)
        try:
            reply = task.result()
        except WorkerLostError as loss:
            self._lost(address, loss.deaths)
            return None
        answered(self._call, self._batch, reply, taken, self._pace)
        for other, where in self._attempts.items():
            self._roster.slow(other, where)
        self._attempts.clear()
        return reply

    def _lost(self, address: str, deaths: int) -> None:
        self._roster.lost(address)
        self._deaths += deaths
        spans.gone(address)
        if not deaths:
            return
        named = self._call.named(self._batch)
        logger.warning("%s: worker %s is gone; its work (%s) is done elsewhere.", self._call.label, address, named)
        if self._attempts:
            return
        if len(self._batch.positions) > 1:
            raise SplitError(min(self._deaths, MOST_DEATHS - 1))
        if self._deaths >= MOST_DEATHS:
            raise ExecutionError(
                f"{self._deaths} workers died one after another on {named}, mostly a sign of too little memory. "
                "Start fewer workers on a machine, or ingest with fewer --rows-per-shard."
            )

    async def _look_after(self, taken: float) -> None:
        await self._roster.look()
        for task, address in list(self._attempts.items()):
            if not self._roster.here(address):
                del self._attempts[task]
                task.cancel()
                self._lost(address, 1)
        if len(self._attempts) != 1 or not self._pace.overdue(taken, self._straggler_seconds):
            return
        spare = self._roster.spare(set(self._attempts.values()))
        if spare is not None:
            (slow,) = self._attempts.values()
            named = self._call.named(self._batch)
            logger.warning("%s: %s: %.1f s on %s so far; %s tries, too.", self._call.label, named, taken, slow, spare)
            self._attempt(spare)
