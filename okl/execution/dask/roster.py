"""Who is there: workers that come and go, that are slow to answer, and the wait for the first one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from typing import Any

from okl.errors import ExecutionError
from okl.execution.dask.carriers import SchedulerLostError
from okl.execution.dask.cluster import CONNECT_SECONDS
from okl.execution.dask.versions import complaint_of
from okl.execution.placement import settle

LOOK_SECONDS = 0.5
_BLIP_SECONDS = 1.0  # a worker whose connection broke is trusted again if the scheduler still has it then

logger = logging.getLogger("okl.execution")


class Roster:
    """Workers, each in its slot; used in the client's event loop only, but for reading `slots`.

    Parameters
    ----------
    client : of distributed; address : of its scheduler; patience_seconds : how long to wait when nobody is there
    most_workers : to use of those who are there; None: all
    """

    def __init__(self, client: Any, address: str, patience_seconds: float, most_workers: int | None = None) -> None:
        self._most_workers = most_workers
        self.slots: tuple[str, ...] = ()
        self.busy: Counter[str] = Counter()
        self.late: dict[asyncio.Task[Any], str] = {}
        self._client = client
        self._address = address
        self._patience_seconds = patience_seconds
        self._alive: set[str] = set()
        self._lost: dict[str, float] = {}
        self._opened = False
        self._asked: dict[str, asyncio.Task[str]] = {}
        self._refused: dict[str, str] = {}
        self._told, self._wanted = False, 1
        self._looked = -1.0
        self._looking = asyncio.Lock()

    async def look(self, again_after: float = LOOK_SECONDS) -> None:
        """Ask the scheduler who is there, unless it was asked just now.

        Raises SchedulerLostError if it does not answer.
        """
        async with self._looking:
            if time.monotonic() - self._looked < again_after:
                return
            try:
                found = await asyncio.wait_for(self._client.scheduler.ncores(), 2 * CONNECT_SECONDS)
            except (OSError, TimeoutError, RuntimeError) as error:
                raise SchedulerLostError(error) from error
            self._looked = time.monotonic()
            self._alive = here = self._admitted(set(found)) if self._opened else set(found)
            self._told = self._told and len(here) < self._wanted
        self._settle()

    def _admitted(self, found: set[str]) -> set[str]:
        """Those who take part already, and newcomers who have told the versions that are here; others are asked."""
        for address in sorted(found - self._alive - set(self._asked) - set(self._refused)):
            self._asked[address] = asyncio.create_task(complaint_of(self._client, address))
        here = found & self._alive
        for address, task in [(address, task) for address, task in self._asked.items() if task.done()]:
            del self._asked[address]
            if task.cancelled() or task.exception() is not None:
                continue  # it did not answer, and is asked again if it is still there
            if complaint := task.result():
                self._refused[address] = complaint
                logger.warning("%s It gets no work.", complaint)
            elif address in found:
                here.add(address)
                logger.info("Worker %s has come.", address)
        return here

    def stale(self) -> bool:
        """Whether it is time to look again."""
        return time.monotonic() - self._looked > 2 * LOOK_SECONDS

    async def gather(self, n_workers: int) -> None:
        """Wait until so many workers are there. Raises ExecutionError if they do not come."""
        begun, self._wanted = time.monotonic(), n_workers
        await self.look()
        while len(self._alive) < n_workers:
            self._wait_on(time.monotonic() - begun)
            await asyncio.sleep(LOOK_SECONDS / 10)
            await self.look(again_after=0.0)
        self._wanted, self._opened = 1, True

    def _wait_on(self, waited: float) -> None:
        """Say that nobody is there, once, and raise ExecutionError after a while."""
        if waited > self._patience_seconds:
            raise self.nobody()
        if waited > 2 * LOOK_SECONDS and not self._told:
            self._told = True
            logger.warning(
                "The Dask scheduler at %s has too few workers; waiting %g s for them.",
                self._address,
                self._patience_seconds,
            )

    def _settle(self) -> None:
        here = {address for address in self._alive if self._trusted(address)}
        # one that is slow to answer takes part again when it has answered, or when there is nobody else
        here = here - set(self.late.values()) or here
        if self._most_workers is not None:
            new = sorted(here - set(self.slots))
            here = set([*(slot for slot in self.slots if slot in here), *new][: self._most_workers])
        # nobody there: the next worker to come takes the first slot, so the old ones serve until then
        self.slots = settle(self.slots, here) or self.slots

    def here(self, address: str) -> bool:
        """Whether a worker is there, as far as is known."""
        return address in self._alive and self._trusted(address)

    def lost(self, address: str) -> None:
        """Note that the connection to a worker broke."""
        self._lost[address] = time.monotonic()
        self._looked = -1.0
        self._settle()

    def slow(self, task: asyncio.Task[Any], address: str) -> None:
        """Note that a worker is still at what another one has done; it gets nothing new until it is through."""
        self.late[task] = address
        task.add_done_callback(self._through)
        self._settle()

    async def choose(self, preferred: str | None, but: frozenset[str] = frozenset()) -> str:
        """The preferred worker if it is there, or the one with the least to do; waits for one.

        Raises ExecutionError if there is none for too long.
        """
        await self.look(again_after=2 * LOOK_SECONDS if self._alive else 0.0)
        begun = time.monotonic()
        while True:
            here = [slot for slot in self.slots if self.here(slot) and slot not in but]
            if preferred in here:
                return str(preferred)
            if here:
                return min(here, key=lambda slot: self.busy[slot])
            self._wait_on(time.monotonic() - begun)
            await asyncio.sleep(LOOK_SECONDS / 5)
            await self.look(LOOK_SECONDS / 5)

    def spare(self, taken: set[str]) -> str | None:
        """A worker with nothing to do."""
        idle = [slot for slot in self.slots if self.here(slot) and not self.busy[slot] and slot not in taken]
        return idle[0] if idle else None

    def free(self, address: str) -> None:
        """Note that a worker has one thing less to do."""
        self.busy[address] -= 1
        if self.busy[address] <= 0:
            del self.busy[address]

    async def give_up(self) -> None:
        """Wait no longer for workers that were slow."""
        tasks = [*self.late, *self._asked.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def nobody(self) -> ExecutionError:
        """What to say when there are no workers, or none that could take part."""
        if self._refused:
            return ExecutionError(next(iter(self._refused.values())))
        return ExecutionError(
            f"The Dask scheduler at {self._address} has had no workers for {self._patience_seconds:g} s. "
            f"Start some with: dask worker {self._address}"
        )

    def _trusted(self, address: str) -> bool:
        return time.monotonic() - self._lost.get(address, -_BLIP_SECONDS) >= _BLIP_SECONDS

    def _through(self, task: asyncio.Task[Any]) -> None:
        self.late.pop(task, None)
        if not task.cancelled():
            task.exception()  # seen: nobody waits for it any more
        self._settle()
