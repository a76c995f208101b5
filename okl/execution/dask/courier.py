"""Takes the batches of a call to workers, by task or by handler, and counts what crosses."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Literal

from okl.errors import ExecutionError
from okl.execution.batches import Call, Reply, counted
from okl.execution.dask.carriers import (
    Parcel,
    SchedulerLostError,
    UnreachableError,
    WorkerLostError,
    by_handler,
    by_task,
    open_line_at,
    warm_up,
)
from okl.execution.dask.cluster import CONNECT_SECONDS, why
from okl.execution.dask.delivery import Delivery, Pace, SplitError
from okl.execution.dask.roster import Roster
from okl.execution.placement import Batch, one_by_one
from okl.execution.protocol import Traffic
from okl.provenance import processor

_HELD_PACES = 64

logger = logging.getLogger("okl.execution")

Answer = tuple[Batch, Reply]
Carrier = Literal["auto", "task", "handler"]


class Courier:
    """Delivers batches and brings answers back.

    Parameters
    ----------
    client : of distributed; address : of its scheduler
    patience_seconds : how long to wait when there is no worker at all
    straggler_seconds : a batch is never given to a second worker sooner
    carrier : "auto": tasks at first, then lines or handlers for work that is short; "task", "handler": always these
    most_workers : to use of those who are there; None: all
    """

    def __init__(
        self, client: Any, address: str, patience_seconds: float, straggler_seconds: float,
        carrier: Carrier = "auto", most_workers: int | None = None,
    ) -> None:  # fmt: skip
        self.traffic = Traffic()
        self.carrier = carrier
        self.processors = {processor()}
        self._client = client
        self._address = address
        self._roster = Roster(client, address, patience_seconds, most_workers)
        self._straggler_seconds = straggler_seconds
        self._paces: OrderedDict[str, Pace] = OrderedDict()
        self._holders: set[tuple[str, str]] = set()
        self._installed: set[str] = set()
        self._unreachable: set[str] = set()
        self._greeted: set[str] = set()
        self._greeting: set[Any] = set()

    @property
    def slots(self) -> tuple[str, ...]:
        """Workers when last looked at."""
        return self._roster.slots

    def open(self, n_workers: int) -> None:
        """Wait for workers to come, and have them import meanwhile what they will need."""
        self._run(self._roster.gather(n_workers))
        self._greet()

    def look(self) -> None:
        """Look who is there, unless that was done just now. Raises ExecutionError if the scheduler is gone."""
        if self._roster.stale():
            self._run(self._roster.look())
            self._greet()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        future = asyncio.run_coroutine_threadsafe(work, self._client.loop.asyncio_loop)
        try:
            future.result()
        except SchedulerLostError as error:
            raise self._gone(error) from error
        finally:
            future.cancel()

    def _greet(self) -> None:
        for address in set(self.slots) - self._greeted:
            self._greeted.add(address)
            self._greeting.add(self._client.submit(warm_up, workers=[address], allow_other_workers=True, pure=False))
        self.meet()

    def meet(self) -> None:
        """Note the kinds of processors of workers that have told theirs meanwhile."""
        # looked at from here, as a callback of Dask's would leave a thread that never ends
        for future in [future for future in self._greeting if future.done()]:
            self._greeting.discard(future)  # nothing of it need be kept
            kind = future.result() if future.status == "finished" else None
            if kind is not None and kind not in self.processors:
                self.processors.add(kind)
                logger.warning(
                    "Processors of several kinds take part (%s). The same model to the bit is promised on one kind "
                    "only.",
                    "; ".join(sorted(self.processors)),
                )

    def send(self, call: Call, batches: Sequence[Batch]) -> Future[list[Answer]]:
        """Have batches done: a future of their answers, in no order.

        It raises ExecutionError if there are no workers, they die again and again, the scheduler is gone, or a worker
        cannot import the work.
        """
        return asyncio.run_coroutine_threadsafe(self._deliver(call, batches), self._client.loop.asyncio_loop)

    async def _deliver(self, call: Call, batches: Sequence[Batch]) -> list[Answer]:
        one_by_one_each = [self._deliver_one(call, batch) for batch in batches]
        if len(one_by_one_each) == 1:
            return await one_by_one_each[0]
        tasks = [asyncio.get_running_loop().create_task(one) for one in one_by_one_each]
        try:
            answers = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return [answer for some in answers for answer in some]

    async def _deliver_one(self, call: Call, batch: Batch, deaths: int = 0) -> list[Answer]:
        pace = self.pace(call.packed.digest)
        delivery = Delivery(self._carry, self._roster, call, batch, pace, self._straggler_seconds, deaths)
        try:
            return [(batch, await delivery.run())]
        except SplitError as split:
            # in turn: together they would die together, and an innocent shard might be named
            return [answer for one in one_by_one(batch) for answer in await self._deliver_one(call, one, split.deaths)]
        except SchedulerLostError as error:
            raise self._gone(error) from error
        except ImportError as error:
            raise ExecutionError(f"A worker cannot import okl's work ({error}); install the same okl there.") from error

    async def _carry(self, call: Call, batch: Batch, address: str) -> Reply:
        digest, items = call.packed.digest, call.content(batch)
        held = (address, digest) in self._holders
        for content in (None, call.packed.content)[held is False :]:
            parcel = Parcel(digest, content, items, call.value, call.label)
            self.traffic = counted(self.traffic, sent=parcel.size_bytes)
            reply = await self._by_either(address, parcel)
            self.traffic = counted(self.traffic, received=len(reply.results))
            if reply.known:
                self._holders.add((reply.worker, digest))
                return reply
        raise WorkerLostError

    async def _by_either(self, address: str, parcel: Parcel) -> Reply:
        short = self.carrier == "handler" or (self.carrier == "auto" and self.pace(parcel.digest).short())
        if not short or address in self._unreachable:
            return await by_task(self._client, address, parcel)
        try:
            return await by_handler(self._client, address, parcel, self._installed)
        except UnreachableError:
            # perhaps only the scheduler reaches it; if it is gone, the scheduler knows
            self._unreachable.add(address)
            return await by_task(self._client, address, parcel)

    def _gone(self, error: SchedulerLostError) -> ExecutionError:
        return ExecutionError(
            f"The Dask scheduler at {self._address} no longer answers ({why(error)}). "
            "Check that it runs, and start again."
        )

    def by_line(self, digest: str) -> bool:
        """Whether work is short enough for a line, and any way will do."""
        return self.carrier == "auto" and self.pace(digest).short()

    def open_line(self, address: str, folder: str) -> str | None:
        """Have a worker answer at a socket in a folder: its path; None if it cannot be reached."""
        opening = open_line_at(self._client, address, folder)
        future = asyncio.run_coroutine_threadsafe(opening, self._client.loop.asyncio_loop)
        try:
            return future.result(CONNECT_SECONDS)
        except (UnreachableError, WorkerLostError, TimeoutError, OSError, ImportError):
            return None
        finally:
            future.cancel()

    def pace(self, digest: str) -> Pace:
        """How long the latest batches of some work took."""
        pace = self._paces.setdefault(digest, Pace())
        self._paces.move_to_end(digest)
        while len(self._paces) > _HELD_PACES:
            self._paces.popitem(last=False)
        return pace

    def close(self) -> None:
        """Give up what is still on its way: a task that nobody waits for."""
        self._greeting.clear()
        with suppress(TimeoutError, RuntimeError):
            asyncio.run_coroutine_threadsafe(self._roster.give_up(), self._client.loop.asyncio_loop).result(5.0)
