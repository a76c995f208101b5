"""Delivery of batches to Dask workers: membership, tasks, handlers and retries."""

from __future__ import annotations

import asyncio
import logging
import pickle
import select
import statistics
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, Literal

from distributed import KilledWorker, get_worker
from distributed.core import clean_exception

from okl.data.executor import Traffic
from okl.data.manifest import processor
from okl.distributed.cache import Batch, one_by_one, settle
from okl.distributed.cluster import CONNECT_SECONDS, complaint_of, why
from okl.distributed.rpc import HANDLER_SECONDS, BatchCall, BatchReply, Line, counted, open_line, run_batch
from okl.foundation import telemetry
from okl.foundation.errors import ExecutionError
from okl.foundation.telemetry import Told

# Two ways to a worker and back: a Dask task, or a handler that the worker is given.
#
# A task costs the scheduler some ten milliseconds. It is seen in Dask's dashboard, keeps a cluster that adapts from
# taking the worker for idle, and reaches workers that only the scheduler can reach. A handler answers within two.

OPERATION = "okl_batch"


class WorkerLostError(Exception):
    """A worker is gone, or the connection to it. deaths : of workers, since several may have tried."""

    def __init__(self, deaths: int = 1) -> None:
        super().__init__(deaths)
        self.deaths = deaths


class SchedulerLostError(Exception):
    """The scheduler is gone."""


class UnreachableError(Exception):
    """This process cannot connect to a worker, which may be well for all that."""


@dataclass(frozen=True)
class BatchMessage:
    """Message to a worker: see `run_batch`."""

    digest: str
    content: bytes | None
    items: bytes
    value: bytes | None
    label: str = ""

    @property
    def size_bytes(self) -> int:
        """Return the size of the whole message in bytes."""
        return len(self.content or b"") + len(self.items) + len(self.value or b"")


def _as_task(digest: str, content: bytes | None, items: bytes, value: bytes | None, label: str) -> BatchReply:
    return run_batch(digest, content, items, value, get_worker().address, label)


def warm_up() -> str:
    """Import what most work needs, numba above all, while the caller still looks at the data; the kind of processor."""
    import okl.compiled.jit
    import okl.data.reading  # noqa: F401

    return processor()


async def by_task(client: Any, address: str, parcel: BatchMessage) -> BatchReply:
    """Have a task done, by this worker if possible; by another one if the scheduler finds that this one is gone.

    Raises WorkerLostError, SchedulerLostError; ImportError if the worker has no such code.
    """
    future = client.submit(
        _as_task, parcel.digest, parcel.content, parcel.items, parcel.value, parcel.label,
        workers=[address], allow_other_workers=True, pure=False,
    )  # fmt: skip
    try:
        reply = await future
        assert isinstance(reply, BatchReply)
        return reply
    except KilledWorker as error:
        raise WorkerLostError(error.allowed_failures + 1) from error
    except OSError as error:
        raise SchedulerLostError(error) from error
    except (CancelledError, asyncio.CancelledError) as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise SchedulerLostError("it cancelled all tasks") from error
    finally:
        future.release()


async def by_handler(client: Any, address: str, parcel: BatchMessage, installed: set[str]) -> BatchReply:
    """Have a worker's handler answer.

    Parameters
    ----------
    installed : workers that have the handler; this one is added

    Raises
    ------
    WorkerLostError : the connection broke; UnreachableError : there was none; ImportError : the worker has no such code
    """
    worker = client.rpc(address)
    for _ in range(2):
        if address not in installed:
            await _install(worker)
            installed.add(address)
        try:
            answer = await getattr(worker, OPERATION)(
                digest=parcel.digest, content=parcel.content, items=parcel.items, value=parcel.value, label=parcel.label
            )
        except (OSError, TimeoutError) as error:
            raise WorkerLostError from error
        if answer is not None:
            known, name, results, failure, *how = answer
            return BatchReply(known, name, parcel.digest, results, pickle.loads(failure) if failure else None, *how)
        installed.discard(address)  # another worker has taken this address
    raise WorkerLostError


async def _install(worker: Any) -> None:
    await _run_there(worker, install)


async def open_line_at(client: Any, address: str, folder: str) -> str:
    """Have a worker answer at a socket in a folder, see `okl.distributed.rpc`; its path.

    Raises UnreachableError, or whatever is raised there.
    """
    path: str = await _run_there(client.rpc(address), open_line, folder, address)
    return path


async def _run_there(worker: Any, function: Any, *arguments: Any) -> Any:
    try:
        done = await worker.run(function=pickle.dumps(function), args=pickle.dumps(arguments), wait=True)
    except (OSError, TimeoutError) as error:
        raise UnreachableError from error
    if done["status"] != "OK":
        _, failure, _ = clean_exception(**done)
        raise failure or UnreachableError(done)
    return done["result"]


def install(dask_worker: Any) -> None:
    """Give a worker the handler: it does the work in the worker's own threads, and answers on the same connection."""

    async def answer(
        digest: str, content: bytes | None, items: bytes, value: bytes | None, label: str
    ) -> tuple[bool, str, bytes, bytes, float, Mapping[str, float], Told]:
        work = partial(run_batch, digest, content, items, value, dask_worker.address, label)
        reply = await asyncio.get_running_loop().run_in_executor(dask_worker.executor, work)
        failure = b"" if reply.error is None else pickle.dumps(reply.error)
        return reply.known, reply.worker, reply.results, failure, reply.seconds, reply.phases, reply.told

    dask_worker.handlers[OPERATION] = answer


# Who is there: workers that come and go, that are slow to answer, and the wait for the first one.

LOOK_SECONDS = 0.5
_BLIP_SECONDS = 1.0  # a worker whose connection broke is trusted again if the scheduler still has it then

logger = logging.getLogger("okl.distributed")


class Membership:
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
        """Return whether it is time to look again."""
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
        """Return whether a worker is there, as far as is known."""
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
        """Return the message for the case without workers, or without any that can take part."""
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


# The way of one batch to a worker and back, wherever the workers go meanwhile.
#
# A batch whose worker dies is done by others, shard by shard. One that takes much longer than others do is also given
# to a worker with nothing to do, and the first answer counts: both are the same bits.

MOST_DEATHS = 4
STRAGGLER_TIMES = 4.0


Carry = Callable[[BatchCall, Batch, str], Coroutine[None, None, BatchReply]]


@dataclass
class BatchTimes:
    """Duration of the latest batches of some work: as workers measured it, and from sending to answer."""

    worked: deque[float] = field(default_factory=lambda: deque(maxlen=9))
    taken: deque[float] = field(default_factory=lambda: deque(maxlen=33))

    def short(self) -> bool:
        """Return whether a worker finishes in little more time than the scheduler needs to assign the work."""
        return bool(self.worked) and statistics.median(self.worked) < HANDLER_SECONDS

    def overdue(self, seconds: float, at_least: float) -> bool:
        """Return whether a batch takes several times as long as others did."""
        if seconds < at_least or not self.taken:
            return False
        return seconds > STRAGGLER_TIMES * statistics.median(self.taken)


def answered(call: BatchCall, batch: Batch, reply: BatchReply, taken: float, pace: BatchTimes) -> None:
    """Note an answer, `taken` seconds after its batch was sent: pace, where its time went, what the worker tells."""
    pace.worked.append(reply.seconds)
    pace.taken.append(taken)
    telemetry.worked(reply.worker, taken, reply.seconds, reply.phases)
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
        roster: Membership,
        call: BatchCall,
        batch: Batch,
        pace: BatchTimes,
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
        self._attempts: dict[asyncio.Task[BatchReply], str] = {}

    async def run(self) -> BatchReply:
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

    def _ended(self, task: asyncio.Task[BatchReply], taken: float) -> BatchReply | None:
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
        telemetry.gone(address)
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


# Takes the batches of a call to workers, by task or by handler, and counts what crosses.

_HELD_PACES = 64


Answer = tuple[Batch, BatchReply]
Carrier = Literal["auto", "task", "handler"]


class Transport:
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
        self._roster = Membership(client, address, patience_seconds, most_workers)
        self._straggler_seconds = straggler_seconds
        self._paces: OrderedDict[str, BatchTimes] = OrderedDict()
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

    def send(self, call: BatchCall, batches: Sequence[Batch]) -> Future[list[Answer]]:
        """Have batches done: a future of their answers, in no order.

        It raises ExecutionError if there are no workers, they die again and again, the scheduler is gone, or a worker
        cannot import the work.
        """
        return asyncio.run_coroutine_threadsafe(self._deliver(call, batches), self._client.loop.asyncio_loop)

    async def _deliver(self, call: BatchCall, batches: Sequence[Batch]) -> list[Answer]:
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

    async def _deliver_one(self, call: BatchCall, batch: Batch, deaths: int = 0) -> list[Answer]:
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

    async def _carry(self, call: BatchCall, batch: Batch, address: str) -> BatchReply:
        digest, items = call.packed.digest, call.content(batch)
        held = (address, digest) in self._holders
        for content in (None, call.packed.content)[held is False :]:
            parcel = BatchMessage(digest, content, items, call.value, call.label)
            self.traffic = counted(self.traffic, sent=parcel.size_bytes)
            reply = await self._by_either(address, parcel)
            self.traffic = counted(self.traffic, received=len(reply.results))
            if reply.known:
                self._holders.add((reply.worker, digest))
                return reply
        raise WorkerLostError

    async def _by_either(self, address: str, parcel: BatchMessage) -> BatchReply:
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
        """Return whether work is short enough for a line, and any way will do."""
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

    def pace(self, digest: str) -> BatchTimes:
        """Return how long the latest batches of some work took."""
        pace = self._paces.setdefault(digest, BatchTimes())
        self._paces.move_to_end(digest)
        while len(self._paces) > _HELD_PACES:
            self._paces.popitem(last=False)
        return pace

    def close(self) -> None:
        """Give up what is still on its way: a task that nobody waits for."""
        self._greeting.clear()
        with suppress(TimeoutError, RuntimeError):
            asyncio.run_coroutine_threadsafe(self._roster.give_up(), self._client.loop.asyncio_loop).result(5.0)


# Short rounds by lines, from the caller's own thread: the fast way, which leaves whatever goes wrong to the courier.
#
# A batch that is not answered, for whatever reason, is handed back, and delivered as others are: results are equal by
# construction, whoever works on a batch and however often.

ANSWER_SECONDS = 1.0  # many times what a short round takes; then the courier sees to it


class Express:
    """Asks workers of this machine.

    Parameters
    ----------
    courier : takes what is left, and knows which work is short
    folder : private, where workers open their sockets
    """

    def __init__(self, courier: Transport, folder: str) -> None:
        self._courier = courier
        self._folder = folder
        self._lines: dict[str, Line] = {}
        self._without: set[str] = set()
        self._holders: set[tuple[str, str]] = set()
        self._items: Sequence[Any] = ()  # of the last call, as the next one's are often the very same
        self._contents: dict[Batch, bytes] = {}
        self._lock = Lock()

    def deliver(self, call: BatchCall, batches: Sequence[Batch]) -> tuple[list[Answer], list[Batch]]:
        """Answers, in no order, and the batches that have none. Raises what the caller's thread is interrupted by."""
        if not self._courier.by_line(call.packed.digest) or not self._lock.acquire(blocking=False):
            return [], list(batches)
        try:
            return self._deliver(call, batches)
        except BaseException:  # what is still to come would be taken for the next round's answers
            self.close()
            raise
        finally:
            self._lock.release()

    def _deliver(self, call: BatchCall, batches: Sequence[Batch]) -> tuple[list[Answer], list[Batch]]:
        begun = time.monotonic()
        waiting = {
            str(batch.address): batch for batch in batches if self._connected(batch.address) and self._ask(call, batch)
        }
        answers: list[Answer] = []
        while waiting and (ready := self._ready(waiting, begun)):
            for address in ready:
                batch = waiting.pop(address)
                reply = self._reply(address)
                if reply is None:
                    continue
                if not reply.known:  # the worker has thrown the work away: it is sent again, with it
                    self._holders.discard((address, call.packed.digest))
                    if self._ask(call, batch):
                        waiting[address] = batch
                    continue
                self._holders.add((address, call.packed.digest))
                answered(call, batch, reply, time.monotonic() - begun, self._courier.pace(call.packed.digest))
                answers.append((batch, reply))
        for address in waiting:  # it is stopped, or busy for longer than expected
            self._hang_up(address)
        done = {batch for batch, _ in answers}
        return answers, [batch for batch in batches if batch not in done]

    def _ready(self, waiting: dict[str, Batch], begun: float) -> list[str]:
        """Workers that have begun to answer, or are gone; none after a while."""
        seconds = max(0.0, begun + ANSWER_SECONDS - time.monotonic())
        lines = {self._lines[address].fileno(): address for address in waiting}
        poll = select.poll()
        for number in lines:
            poll.register(number, select.POLLIN)
        return [lines[number] for number, _ in poll.poll(1000.0 * seconds)]

    def _connected(self, address: str | None) -> bool:
        if address is None or address in self._without:
            return False
        if address not in self._lines:
            path = self._courier.open_line(address, self._folder)
            try:
                self._lines[address] = Line(path or "")
            except OSError:
                self._without.add(address)
                return False
        return True

    def _ask(self, call: BatchCall, batch: Batch) -> bool:
        address, digest = str(batch.address), call.packed.digest
        content = None if (address, digest) in self._holders else call.packed.content
        items = self._content(call, batch)
        try:
            self._lines[address].ask((digest, content, items, call.value, call.label))
        except OSError:
            self._hang_up(address)
            return False
        size = len(content or b"") + len(items) + len(call.value or b"")
        self._courier.traffic = counted(self._courier.traffic, sent=size)
        return True

    def _content(self, call: BatchCall, batch: Batch) -> bytes:
        if call.items is not self._items:
            self._items, self._contents = call.items, {}
        if batch not in self._contents:
            self._contents[batch] = call.content(batch)
        return self._contents[batch]

    def _reply(self, address: str) -> BatchReply | None:
        try:
            reply = self._lines[address].reply()
        except (OSError, EOFError):
            self._hang_up(address)
            return None
        self._courier.traffic = counted(self._courier.traffic, received=len(reply.results))
        return reply

    def _hang_up(self, address: str) -> None:
        self._lines.pop(address).close()

    def close(self) -> None:
        """Hang up on all."""
        for address in list(self._lines):
            self._hang_up(address)
