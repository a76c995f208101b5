"""The executor on Dask workers: membership, delivery of batches with retries, and the four verbs."""

from __future__ import annotations

import asyncio
import logging
import pickle
import statistics
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

import dask
from distributed import KilledWorker, WorkerPlugin, get_worker
from distributed.core import clean_exception, connect

from okl.data.dataset import Dataset, Shard
from okl.data.execution import Item, Part, Result, Rows, ShardWork, Traffic, Value
from okl.data.manifest import processor
from okl.data.order import Window
from okl.distributed import cluster as workers
from okl.distributed.cache import Batch, ShardAssignment, assign_slots, batches_in_sequence
from okl.distributed.in_process import LocalExecution
from okl.distributed.processes import CONFIG
from okl.distributed.rpc import (
    HANDLER_SECONDS,
    OPERATION,
    BatchCall,
    BatchMessage,
    BatchReply,
    Packed,
    in_order,
    install_handler,
    pack,
    run_batch,
)
from okl.foundation import plugins, telemetry
from okl.foundation.errors import ExecutionError
from okl.foundation.plugins import SourceFile, files, run_plugins_of_parent
from okl.foundation.telemetry import WAIT
from okl.foundation.types import Precision

logger = logging.getLogger("okl.distributed")

# Two ways to a worker and back: a Dask task, or a message to a handler that is installed on the worker.
#
# A task costs the scheduler about ten milliseconds. Dask's dashboard shows it, an adaptive cluster does not take its
# worker for idle, and it reaches workers that only the scheduler can reach. A round by handlers takes about a
# millisecond: one message to each worker, with all its shards, on a connection that stays open, and one coroutine that
# waits for all replies.


class WorkerLostError(Exception):
    """A worker, or the connection to it, was lost. deaths : of workers, since the scheduler may have tried several."""

    def __init__(self, deaths: int = 1) -> None:
        super().__init__(deaths)
        self.deaths = deaths


class SchedulerLostError(Exception):
    """The scheduler was lost."""


class UnreachableError(Exception):
    """This process cannot connect to a worker; the scheduler may still reach it."""


def _as_task(*message: Any) -> BatchReply:
    return run_batch(BatchMessage(*message), get_worker().address)


def warm_up() -> str:
    """Import what most work needs, numba above all, in a worker; return the kind of its processor."""
    import okl.compiled.jit
    import okl.data.reading  # noqa: F401

    return processor()


async def by_task(client: Any, address: str, message: BatchMessage) -> BatchReply:
    """Run a batch as a task, if need be on another worker; WorkerLostError, SchedulerLostError or ImportError."""
    future = client.submit(_as_task, *message, workers=[address], allow_other_workers=True, pure=False)
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
        logger.info("The Dask scheduler cancelled a task, as when it is restarted; its work is repeated.")
        raise WorkerLostError(0) from error
    finally:
        future.release()


class WorkerConnection:
    """Open connection to the handler of a worker on Dask's comm; any number of messages may be pending."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._pending: dict[int, asyncio.Future[BatchReply]] = {}
        self._numbers = count()
        self._reading = asyncio.get_running_loop().create_task(self._read())

    @property
    def is_open(self) -> bool:
        return not self._reading.done()

    async def send(self, message: BatchMessage) -> asyncio.Future[BatchReply]:
        """Send a message; return the future of its reply, which raises WorkerLostError, or what the handler raised."""
        number, future = next(self._numbers), asyncio.get_running_loop().create_future()
        self._pending[number] = future
        try:
            await self._comm.write((number, *message))
        except OSError:
            self._pending.pop(number, None)
            future.set_exception(WorkerLostError())
        return future

    async def _read(self) -> None:
        try:
            while True:
                number, failure, reply = await self._comm.read()
                future = self._pending.pop(number)
                if future.done():  # cancelled: another worker was faster
                    continue
                if failure:
                    future.set_exception(pickle.loads(failure))
                else:
                    future.set_result(BatchReply(*reply))
        except OSError:
            for future in self._pending.values():
                if not future.done():
                    future.set_exception(WorkerLostError())
        finally:
            self._comm.abort()

    def close(self) -> None:
        self._reading.cancel()
        self._comm.abort()


async def connect_to_worker(client: Any, address: str) -> WorkerConnection:
    """Install the handler on a worker and connect to it; UnreachableError, or ImportError if it lacks the code."""
    try:
        done = await client.rpc(address).run(function=pickle.dumps(install_handler), args=pickle.dumps(()), wait=True)
        if done["status"] != "OK":
            _, failure, _ = clean_exception(**done)
            raise failure or UnreachableError(done)
        comm = await connect(address, workers.CONNECT_SECONDS, **client.connection_args)
        comm.allow_offload = False  # measuring a message takes longer than packing it
        await comm.write({"op": OPERATION})
    except (OSError, TimeoutError) as error:
        raise UnreachableError from error
    return WorkerConnection(comm)


# Membership: workers that join and leave, and the wait for the first one.

REFRESH_SECONDS = 0.5
_RECOVERY_SECONDS = 1.0  # a worker whose connection broke is used again if the scheduler still lists it then


class Membership:
    """Workers, each in its slot; used in the client's event loop only, except for reading `slots`.

    client : of distributed; for the other parameters see DaskExecution
    plugins : of workers, by name; a scheduler that is restarted gets them again
    """

    def __init__(self, client: Any, address: str, patience_seconds: float, most_workers: int | None = None) -> None:
        self._most_workers = most_workers
        self.slots: tuple[str, ...] = ()
        self.busy: Counter[str] = Counter()
        self.late: dict[asyncio.Task[Any], str] = {}
        self.plugins: dict[str, WorkerPlugin] = {}
        self._client = client
        self._connection = client.scheduler_comm
        self._address = address
        self._patience_seconds = patience_seconds
        self._alive: set[str] = set()
        self._lost: dict[str, float] = {}
        self._opened = False
        self._version_checks: dict[str, asyncio.Task[str]] = {}
        self._rejected: dict[str, str] = {}
        self._warned, self._wanted = False, 1
        self._refreshed_at = -1.0
        self._refreshing = asyncio.Lock()

    async def refresh(self, max_age_seconds: float = REFRESH_SECONDS) -> None:
        """Request the list of workers unless it is recent; SchedulerLostError if none comes for too long."""
        async with self._refreshing:
            if time.monotonic() - self._refreshed_at < max_age_seconds:
                return
            listed = await self._listed()
            self._refreshed_at = time.monotonic()
            self._alive = self._admitted(listed) if self._opened else listed
            self._warned = self._warned and len(self._alive) < self._wanted
        self._update_slots()

    async def _listed(self) -> set[str]:
        """Return the workers that the scheduler lists; wait for it, and send the plugins if it was restarted."""
        begin, warned = time.monotonic(), False
        while True:
            try:
                if self._client.status == "closed":  # by itself, since it could not connect again
                    raise OSError("the connection is lost")
                listed = await asyncio.wait_for(self._client.scheduler.ncores(), 2 * workers.CONNECT_SECONDS)
                if (connection := self._client.scheduler_comm) is None:
                    raise OSError("the connection is lost")
                if connection is not self._connection:
                    for name, plugin in self.plugins.items():
                        await self._client.register_plugin(plugin, name=name)
                    self._connection = connection
                return set(listed)
            except (OSError, TimeoutError, RuntimeError) as error:
                waited = time.monotonic() - begin
                if waited > self._patience_seconds or self._client.status == "closed":
                    raise SchedulerLostError(error) from error
                if waited > REFRESH_SECONDS and not warned:
                    warned = True
                    logger.warning(
                        "The Dask scheduler at %s does not answer; waiting %g s for it.",
                        self._address,
                        self._patience_seconds,
                    )
            await asyncio.sleep(REFRESH_SECONDS / 5)

    def _admitted(self, listed: set[str]) -> set[str]:
        """Return present members and new workers of the same versions; start the check of other new workers."""
        for address in sorted(listed - self._alive - set(self._version_checks) - set(self._rejected)):
            self._version_checks[address] = asyncio.create_task(workers.version_mismatch(self._client, address))
        admitted = listed & self._alive
        for address, task in [(address, task) for address, task in self._version_checks.items() if task.done()]:
            del self._version_checks[address]
            if task.cancelled() or task.exception() is not None:
                continue  # no answer: checked again if it is still listed
            if mismatch := task.result():
                self._rejected[address] = mismatch
                logger.warning("%s It gets no work.", mismatch)
            elif address in listed:
                admitted.add(address)
                logger.info("Worker %s joined.", address)
        return admitted

    def is_stale(self) -> bool:
        return time.monotonic() - self._refreshed_at > 2 * REFRESH_SECONDS

    async def wait_for_workers(self, n_workers: int) -> None:
        """Wait for this many workers; raise ExecutionError if they do not join."""
        begin, self._wanted = time.monotonic(), n_workers
        await self.refresh()
        while len(self._alive) < n_workers:
            self._check_patience(time.monotonic() - begin)
            await asyncio.sleep(REFRESH_SECONDS / 10)
            await self.refresh(max_age_seconds=0.0)
        self._wanted, self._opened = 1, True

    def _check_patience(self, waited_seconds: float) -> None:
        """Warn once that workers are missing; raise ExecutionError after a while."""
        if waited_seconds > self._patience_seconds:
            raise ExecutionError(
                next(iter(self._rejected.values()), None)  # workers of other versions
                or f"The Dask scheduler at {self._address} has had no workers for {self._patience_seconds:g} s. "
                f"Start some with: dask worker {self._address}"
            )
        if waited_seconds > 2 * REFRESH_SECONDS and not self._warned:
            self._warned = True
            logger.warning(
                "The Dask scheduler at %s has too few workers; waiting %g s for them.",
                self._address,
                self._patience_seconds,
            )

    def _update_slots(self) -> None:
        usable = {address for address in self._alive if self._is_trusted(address)}
        # a late worker is used again once it has answered, or when there is no other
        usable = usable - set(self.late.values()) or usable
        if self._most_workers is not None:
            new = sorted(usable - set(self.slots))
            usable = set([*(slot for slot in self.slots if slot in usable), *new][: self._most_workers])
        # no worker at all: the next one to join takes the first slot, so the old ones remain until then
        self.slots = assign_slots(self.slots, usable) or self.slots

    def is_present(self, address: str) -> bool:
        return address in self._alive and self._is_trusted(address)

    def mark_lost(self, address: str) -> None:
        self._lost[address] = time.monotonic()
        self._refreshed_at = -1.0
        self._update_slots()

    def mark_late(self, task: asyncio.Task[Any], address: str) -> None:
        """Record that a worker still runs a batch that another one has done; it gets no new work until it finishes."""
        self.late[task] = address
        task.add_done_callback(self._end_late)
        self._update_slots()

    async def choose(self, preferred: str | None) -> str:
        """Return the preferred worker if present, else the least busy one; ExecutionError after waiting too long."""
        await self.refresh(max_age_seconds=2 * REFRESH_SECONDS if self._alive else 0.0)
        begin = time.monotonic()
        while True:
            present = [slot for slot in self.slots if self.is_present(slot)]
            if preferred in present:
                return str(preferred)
            if present:
                return min(present, key=lambda slot: self.busy[slot])
            self._check_patience(time.monotonic() - begin)
            await asyncio.sleep(REFRESH_SECONDS / 5)
            await self.refresh(REFRESH_SECONDS / 5)

    def idle_worker(self, excluded: set[str]) -> str | None:
        """Return a worker without work; None if there is none."""
        free = (slot for slot in self.slots if self.is_present(slot) and not self.busy[slot])
        return next((slot for slot in free if slot not in excluded), None)

    async def cancel_pending(self) -> None:
        tasks = [*self.late, *self._version_checks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_trusted(self, address: str) -> bool:
        return time.monotonic() - self._lost.get(address, -_RECOVERY_SECONDS) >= _RECOVERY_SECONDS

    def _end_late(self, task: asyncio.Task[Any]) -> None:
        self.late.pop(task, None)
        if not task.cancelled():
            task.exception()  # retrieved: no other code awaits it
        self._update_slots()


# Delivery of one batch, with retries on other workers.
#
# The batch of a worker that dies is run by others, shard by shard. A batch that takes much longer than others is also
# sent to an idle worker, and the first answer counts: both have the same bits.

MOST_DEATHS = 4
STRAGGLER_TIMES = 4.0

Answer = tuple[Batch, BatchReply]


@dataclass
class BatchTimes:
    """Seconds of the latest batches of some work: on the worker, and from sending to answer."""

    worked: deque[float] = field(default_factory=lambda: deque(maxlen=9))
    taken: deque[float] = field(default_factory=lambda: deque(maxlen=33))

    def are_short(self) -> bool:
        """Return whether a worker finishes in little more time than the scheduler needs to assign the work."""
        return bool(self.worked) and statistics.median(self.worked) < HANDLER_SECONDS

    def is_overdue(self, seconds: float, at_least: float) -> bool:
        """Return whether a batch takes several times as long as others did."""
        if seconds < at_least or not self.taken:
            return False
        return seconds > STRAGGLER_TIMES * statistics.median(self.taken)

    def record(self, call: BatchCall, batch: Batch, reply: BatchReply, taken: float) -> None:
        """Record a reply, `taken` seconds after the batch was sent: its times, and log records of the worker."""
        self.worked.append(reply.seconds)
        self.taken.append(taken)
        telemetry.record_work(reply.worker, taken, reply.seconds, reply.phases)
        for level, text in reply.records:
            logger.log(level, "%s (worker %s)", text, reply.worker)
        if logger.isEnabledFor(logging.DEBUG):
            named, worker, seconds = call.named(batch), reply.worker, reply.seconds
            logger.debug("%s: %s on %s, %.4f s there, %.4f s in all", call.label, named, worker, seconds, taken)


class BatchDelivery:
    """Delivery of one batch; used once, in the client's event loop. deaths : of workers over this batch so far"""

    def __init__(self, transport: Transport, call: BatchCall, batch: Batch, deaths: int = 0) -> None:
        self._transport = transport
        self._membership = transport.membership
        self.call = call
        self.batch = batch
        self._times = transport.times_of(call.packed.digest)
        self.begin = time.monotonic()
        self._deaths = deaths
        self._attempts: dict[asyncio.Task[BatchReply], str] = {}
        self._must_split = False

    async def deliver(self) -> list[Answer]:
        """Send the batch, again if a worker dies, and return the first answer; or raise ExecutionError.

        Where workers died over a batch of several shards, there is an answer for each shard.
        """
        try:
            while not self._must_split:
                if not self._attempts:
                    address = await self._membership.choose(self.batch.address)
                    self.start_attempt(address, self._transport.send_to(address, self.call, self.batch))
                done, _ = await asyncio.wait(
                    self._attempts, timeout=REFRESH_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    reply = self._finish(task)
                    if reply is not None:
                        return [(self.batch, reply)]
                if not done:
                    await self._resend_if_late(time.monotonic() - self.begin)
        finally:
            for task in self._attempts:
                task.cancel()
        # in turn: in parallel all workers might die at once, and the wrong shard be named
        deaths = min(self._deaths, MOST_DEATHS - 1)
        return [
            answer
            for position in self.batch.positions
            for answer in await BatchDelivery(self._transport, self.call, Batch((position,), None), deaths).deliver()
        ]

    def start_attempt(self, address: str, sending: Coroutine[Any, Any, BatchReply]) -> None:
        """Start to send the batch to the worker at an address, in addition to those that it was sent to."""
        self._membership.busy[address] += 1
        task = asyncio.get_running_loop().create_task(sending)
        task.add_done_callback(lambda _: self._membership.busy.subtract([address]))
        self._attempts[task] = address

    def _finish(self, task: asyncio.Task[BatchReply]) -> BatchReply | None:
        address = self._attempts.pop(task)
        try:
            reply = task.result()
        except WorkerLostError as loss:
            self._count_loss(address, loss.deaths)
            return None
        self._times.record(self.call, self.batch, reply, time.monotonic() - self.begin)
        for other, late in self._attempts.items():
            self._membership.mark_late(other, late)
        self._attempts.clear()
        return reply

    def _count_loss(self, address: str, deaths: int) -> None:
        self._membership.mark_lost(address)
        self._deaths += deaths
        telemetry.record_loss(address)
        if not deaths:
            return
        named = self.call.named(self.batch)
        logger.warning("%s: worker %s is lost; its work (%s) is repeated elsewhere.", self.call.label, address, named)
        if self._attempts:
            return
        self._must_split = len(self.batch.positions) > 1
        if self._deaths >= MOST_DEATHS and not self._must_split:
            raise ExecutionError(
                f"{self._deaths} workers died one after another on {named}, mostly a sign of too little memory. "
                "Start fewer workers on a machine, or ingest with fewer --rows-per-shard."
            )

    async def _resend_if_late(self, taken: float) -> None:
        """Cancel attempts on workers that left, and start a second attempt if the batch is overdue."""
        await self._membership.refresh()
        for task, address in list(self._attempts.items()):
            if not self._membership.is_present(address):
                del self._attempts[task]
                task.cancel()
                self._count_loss(address, 1)
        if len(self._attempts) != 1 or not self._times.is_overdue(taken, self._transport.straggler_seconds):
            return
        second = self._membership.idle_worker(set(self._attempts.values()))
        if second is not None:
            (first,) = self._attempts.values()
            named = self.call.named(self.batch)
            logger.warning(
                "%s: worker %s has taken %.1f s for %s. Worker %s now does the same work; the first result counts.",
                self.call.label, first, taken, named, second,
            )  # fmt: skip
            self.start_attempt(second, self._transport.send_to(second, self.call, self.batch))


# Transport of the batches of a call to workers, by task or by handler, with a count of bytes.

_REMEMBERED_TIMES = 64

Carrier = Literal["auto", "task", "handler"]


class Transport:
    """Sender of batches to workers, and receiver of their answers; for the parameters see DaskExecution."""

    def __init__(
        self, client: Any, address: str, patience_seconds: float, straggler_seconds: float,
        carrier: Carrier = "auto", most_workers: int | None = None
    ) -> None:  # fmt: skip
        self.traffic = Traffic()
        self.carrier = carrier
        self.processors = {processor()}
        self._client = client
        self._address = address
        self.membership = Membership(client, address, patience_seconds, most_workers)
        self.straggler_seconds = straggler_seconds
        self._times: OrderedDict[str, BatchTimes] = OrderedDict()
        self._holders: set[tuple[str, str]] = set()
        self._connections: dict[str, asyncio.Task[WorkerConnection]] = {}
        self._unreachable: set[str] = set()
        self._contents: tuple[Sequence[Any], dict[Batch, bytes]] = ((), {})
        self._warm_ups: dict[str, Future[None]] = {}

    @property
    def slots(self) -> tuple[str, ...]:
        return self.membership.slots

    def open(self, n_workers: int) -> None:
        """Wait for this many workers, and start their imports."""
        self._run(self.membership.wait_for_workers(n_workers))
        self._warm_up()

    def refresh(self) -> None:
        """Refresh the list of workers if it is stale; raise ExecutionError if the scheduler is lost."""
        if self.membership.is_stale():
            self._run(self.membership.refresh())
            self._warm_up()

    @contextmanager
    def answered(self) -> Iterator[None]:
        """Raise ExecutionError if the scheduler does not answer a request of its client."""
        try:
            if self._client.status != "running":
                raise OSError("the connection is lost")
            yield
        except (OSError, TimeoutError) as error:
            raise self._scheduler_error() from error

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        future = asyncio.run_coroutine_threadsafe(work, self._client.loop.asyncio_loop)
        try:
            future.result()
        except SchedulerLostError as error:
            raise self._scheduler_error() from error
        finally:
            future.cancel()

    def _warm_up(self) -> None:
        for address in set(self.slots) - set(self._warm_ups):
            warming = self._warm_up_worker(address)
            self._warm_ups[address] = asyncio.run_coroutine_threadsafe(warming, self._client.loop.asyncio_loop)
        # one that had begun while no worker was present would stay in the scheduler for ever
        for address in set(self._warm_ups) - set(self.slots):
            self._warm_ups[address].cancel()

    async def _warm_up_worker(self, address: str) -> None:
        with suppress(Exception):  # the worker was lost, or cannot import okl; its work reports that
            kind: str = await self._client.submit(warm_up, workers=[address], pure=False)
            if kind not in self.processors:
                self.processors |= {kind}
                logger.warning(
                    "Processors of several kinds take part (%s). The same model to the bit is promised on one kind "
                    "only.",
                    "; ".join(sorted(self.processors)),
                )

    def send(self, call: BatchCall, batches: Sequence[Batch]) -> Future[list[Answer]]:
        """Return a future of the answers to batches, in no order; it raises ExecutionError if workers are lost."""
        return asyncio.run_coroutine_threadsafe(self._deliver(call, batches), self._client.loop.asyncio_loop)

    async def _deliver(self, call: BatchCall, batches: Sequence[Batch]) -> list[Answer]:
        answers, unanswered = await self._exchange(call, batches)
        if not unanswered:
            return answers
        tasks = [asyncio.get_running_loop().create_task(delivery.deliver()) for delivery in unanswered]
        try:
            more = await asyncio.gather(*tasks)
        except SchedulerLostError as error:
            raise self._scheduler_error() from error
        except ImportError as error:
            raise ExecutionError(f"A worker cannot import okl's work ({error}); install the same okl there.") from error
        finally:
            for task in tasks:
                task.cancel()
        return [*answers, *(answer for some in more for answer in some)]

    async def _exchange(self, call: BatchCall, batches: Sequence[Batch]) -> tuple[list[Answer], list[BatchDelivery]]:
        """Send short batches of a round to connected workers, wait a while; return answers and other deliveries."""
        times = self.times_of(call.packed.digest)
        sent: dict[asyncio.Future[BatchReply], BatchDelivery] = {}
        unanswered, answers = list[BatchDelivery](), list[Answer]()
        quick = call.value is not None and self._is_short(call)
        for batch in batches:
            delivery, address = BatchDelivery(self, call, batch), str(batch.address)
            connection = self._open_connection(address) if quick else None
            if connection is None or not self.membership.is_present(address):
                unanswered.append(delivery)
            else:
                message = self._message(call, batch, (address, call.packed.digest) not in self._holders)
                sent[await connection.send(message)] = delivery
        if sent:
            await asyncio.wait(sent, timeout=REFRESH_SECONDS, return_when=asyncio.FIRST_EXCEPTION)
        for future, delivery in sent.items():
            batch = delivery.batch
            reply = None if not future.done() or future.exception() else self._received(call, future.result())
            if reply is not None and reply.known:
                times.record(call, batch, reply, time.monotonic() - delivery.begin)
                answers.append((batch, reply))
                continue
            if reply is None:
                delivery.start_attempt(str(batch.address), self._late(call, batch, future))
            unanswered.append(delivery)
        return answers, unanswered

    async def _late(self, call: BatchCall, batch: Batch, future: asyncio.Future[BatchReply]) -> BatchReply:
        reply = self._received(call, await future)
        return reply if reply.known else await self.send_to(str(batch.address), call, batch)

    async def send_to(self, address: str, call: BatchCall, batch: Batch) -> BatchReply:
        """Run a batch on a worker; send the work, too, unless the worker has received it.

        Raises WorkerLostError, SchedulerLostError; ImportError : the worker has no such code
        """
        for with_work in (False, True)[(address, call.packed.digest) not in self._holders :]:
            message = self._message(call, batch, with_work)
            reply = self._received(call, await self._by_either(address, message, self._is_short(call)))
            if reply.known:
                return reply
        raise WorkerLostError

    async def _by_either(self, address: str, message: BatchMessage, short: bool) -> BatchReply:
        if short and address not in self._unreachable:
            connecting = self._connections.get(address)
            if connecting is None or (connecting.done() and not self._open_connection(address)):
                connecting = asyncio.get_running_loop().create_task(connect_to_worker(self._client, address))
                self._connections[address] = connecting
            try:
                connection = await asyncio.shield(connecting)
                return await (await connection.send(message))
            except UnreachableError:
                # perhaps only the scheduler reaches it; if it is lost, the scheduler reports that
                self._unreachable.add(address)
        return await by_task(self._client, address, message)

    def _open_connection(self, address: str) -> WorkerConnection | None:
        connecting = self._connections.get(address)
        if connecting is None or not connecting.done() or connecting.cancelled() or connecting.exception():
            return None
        return connecting.result() if connecting.result().is_open else None

    def _is_short(self, call: BatchCall) -> bool:
        return self.carrier == "handler" or (self.carrier == "auto" and self.times_of(call.packed.digest).are_short())

    def _message(self, call: BatchCall, batch: Batch, with_work: bool) -> BatchMessage:
        if call.value is None:
            items = call.content(batch)
        else:  # the next round has the same shards
            if call.items is not self._contents[0]:
                self._contents = call.items, {}
            items = self._contents[1].get(batch) or self._contents[1].setdefault(batch, call.content(batch))
        # rounds only: batches of `map` overlap
        inline = call.value is not None and self.times_of(call.packed.digest).are_short()
        content = call.packed.content if with_work else None
        message = BatchMessage(call.packed.digest, content, items, call.value, call.label, inline)
        self.traffic = self.traffic.plus(Traffic(bytes_sent=message.size_bytes))
        return message

    def _received(self, call: BatchCall, reply: BatchReply) -> BatchReply:
        self.traffic = self.traffic.plus(Traffic(bytes_received=len(reply.results)))
        holder = reply.worker, call.packed.digest
        (self._holders.add if reply.known else self._holders.discard)(holder)
        return reply

    def _scheduler_error(self) -> ExecutionError:
        return ExecutionError(
            f"The Dask scheduler at {self._address} no longer answers. Check that it runs, and start again."
        )

    def times_of(self, digest: str) -> BatchTimes:
        times = self._times.setdefault(digest, BatchTimes())
        self._times.move_to_end(digest)
        while len(self._times) > _REMEMBERED_TIMES:
            self._times.popitem(last=False)
        return times

    def close(self) -> None:
        """Cancel what is pending, and disconnect."""
        for future in self._warm_ups.values():
            future.cancel()
        with suppress(TimeoutError, RuntimeError):
            asyncio.run_coroutine_threadsafe(self._close(), self._client.loop.asyncio_loop).result(5.0)

    async def _close(self) -> None:
        await self.membership.cancel_pending()
        for address, connecting in self._connections.items():
            if connection := self._open_connection(address):
                connection.close()
            connecting.cancel()


# Transfer of extensions to workers.

EXTENSIONS = "okl-extensions"


class ExtensionFiles(WorkerPlugin):  # type: ignore[misc]  # Dask has no types
    """Plugin that runs extension files in a worker. sent : by module, see okl.foundation.plugins"""

    def __init__(self, sent: Mapping[str, SourceFile]) -> None:
        self.sent = dict(sent)

    def setup(self, worker: Any) -> None:
        run_plugins_of_parent(self.sent)


# The executor: results in shard order, merged by the caller.
#
# Between rounds only small values are sent, never rows.

AHEAD_PER_WORKER = 2


class DaskExecution:
    """Executor of shards and items on Dask workers, and of streams in this process; a context manager.

    n_workers, address, cluster : one of them, int >= 1, of a running scheduler, or path of a file; see `open_execution`
    n_threads, tls, run : see there; workers see the data under the same paths
    patience_seconds : to wait while there are no workers, or the scheduler does not answer
    straggler_seconds : a batch that takes this long, and several times as long as others, is sent to a second worker
    carrier : "auto": Dask tasks at first, then handlers for work that is short; "task", "handler": always these
    most_workers : int >= 1, to use; None: all
    Raises ConfigError : not exactly one of n_workers, address and cluster; a cluster file or certificates that cannot
        be used
    Raises ExecutionError : workers do not start; the scheduler cannot be reached in 5 seconds, or has no workers;
        workers have other versions of what decides bits
    """

    def __init__(
        self,
        n_workers: int | None = None,
        address: str | None = None,
        n_threads: int | None = None,
        patience_seconds: float = 60.0,
        straggler_seconds: float = 5.0,
        carrier: Carrier = "auto",
        most_workers: int | None = None,
        cluster: str | None = None,
        tls: str | None = None,
        run: str = "",
    ) -> None:
        with ExitStack() as stack:
            self._run = f"run {run}, " if run else ""
            self._calls, self._assignment = 0, ShardAssignment()
            self._work: Callable[..., Any] | None = None
            self._packed = Packed("", b"")
            self._local = stack.enter_context(LocalExecution(n_threads))
            stack.enter_context(dask.config.set(CONFIG))
            stack.enter_context(workers.silence_dask())
            self.address, security, n_present = workers.connect_to_cluster(stack, n_workers, address, cluster, tls)
            client = workers.open_client(self.address, security, tls, patience_seconds)
            stack.callback(client.close, 2 * workers.CONNECT_SECONDS)
            self._client, self._sent_extensions = client, set[str]()
            self._transport = Transport(
                client, self.address, patience_seconds, straggler_seconds, carrier, most_workers
            )
            stack.callback(self._transport.close)
            self._transport.open(n_present)
            workers.check_versions(self._on_workers(workers.versions, plugins.packages()))
            self._stack = stack.pop_all()

    @property
    def n_workers(self) -> int:
        return len(self._transport.slots)

    @property
    def n_threads(self) -> int:
        """Return the number of threads of this process for `stream` and the learner that uses it."""
        return self._local.n_threads

    @property
    def memory_limit_bytes(self) -> int | None:
        """Return the limit of the worker with the least memory; None without limits."""
        limits = self._on_workers(lambda dask_worker: dask_worker.memory_manager.memory_limit)
        return min(filter(None, limits.values()), default=None)

    def _on_workers(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Run a function on each worker; once more if one of them, or the scheduler, is lost meanwhile."""
        with suppress(ExecutionError):
            return self._run_on_workers(function, *arguments)
        self._transport.open(1)
        return self._run_on_workers(function, *arguments)

    def _run_on_workers(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        with self._transport.answered():
            found: dict[str, Any] = self._client.run(function, *arguments, workers=list(self._transport.slots))
        return found

    def hold(self, limit_bytes: int) -> None:
        """Bound the decoded rows that each present or future worker holds between rounds, until this is closed."""
        self._register(workers.ROW_LIMIT, workers.WorkerRowLimit(limit_bytes))
        self._stack.callback(self._unregister, workers.ROW_LIMIT)

    @property
    def traffic(self) -> Traffic:
        """Return the rounds, and the pickled bytes of work, shards, values and results so far."""
        return self._transport.traffic

    @property
    def processors(self) -> tuple[str, ...]:
        """Return the kinds of processors of this process and of the workers that have warmed up."""
        return tuple(sorted(self._transport.processors))

    def stream(
        self, data: Dataset, windows: Sequence[Window], first: int, last: int, precision: Precision
    ) -> Iterator[Rows]:
        """Yield rows in order, read ahead by threads of this process; see `LocalExecution.stream`."""
        return self._local.stream(data, windows, first, last, precision)

    def mix(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        """Train on every shard from one value, on the workers; merge the results here, in shard order."""
        return self._round("mix", work, shards, value, merge)

    def sum(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        """Evaluate every shard at one value, on the workers; merge the results here, in shard order."""
        return self._round("sum", work, shards, value, merge)

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield results of independent items in order; two batches of at most four items a worker are pending."""
        self._calls += 1
        call = BatchCall(self._pack(work), items, label=f"{self._run}map {self._calls}")
        self._transport.refresh()
        upcoming = iter(batches_in_sequence(len(items), self.n_workers))
        waiting: deque[Future[list[Answer]]] = deque()
        try:
            while True:
                while len(waiting) < AHEAD_PER_WORKER * max(1, self.n_workers) and (batch := next(upcoming, None)):
                    waiting.append(self._transport.send(call, [batch]))
                if not waiting:
                    return
                with telemetry.Span(WAIT):
                    answers = waiting.popleft().result()
                for _, reply in sorted(answers, key=lambda answer: answer[0].positions):
                    yield from pickle.loads(reply.results)
                    if reply.error:
                        raise pickle.loads(reply.error)
        finally:
            for future in waiting:
                future.cancel()

    def _round(
        self, verb: str, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value,
        merge: Callable[[list[Part]], Part]
    ) -> Part:  # fmt: skip
        from okl.compiled.jit import one_blas_thread

        self._calls += 1
        transport = self._transport
        transport.traffic = transport.traffic.plus(Traffic(rounds=1))
        content = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        call = BatchCall(self._pack(work), shards, content, f"{self._run}{verb} {self._calls}")
        transport.refresh()
        begin = time.perf_counter()
        sent = transport.send(call, self._assignment.assign(shards, transport.slots))
        try:
            answers = sent.result()
        finally:
            sent.cancel()
        telemetry.record_wait(begin, max((reply.seconds for _, reply in answers), default=0.0))
        self._assignment.note(shards, ((batch, reply.worker) for batch, reply in answers))
        with one_blas_thread():
            return merge(in_order(answers, len(shards)))

    def _pack(self, work: Callable[..., Any]) -> Packed:
        if work is not self._work:
            self._send_extensions()
            self._work, self._packed = work, pack(work)
        return self._packed

    def _send_extensions(self) -> None:
        """Send the extension files that have run here since the last call; wait until all workers have run them."""
        local = files()
        if set(local) - self._sent_extensions:
            self._register(f"{EXTENSIONS}-{'-'.join(sorted(local))[-64:]}", ExtensionFiles(local))
            self._sent_extensions |= set(local)

    def _register(self, name: str, plugin: WorkerPlugin) -> None:
        with self._transport.answered():
            self._client.register_plugin(plugin, name=name)
        self._transport.membership.plugins[name] = plugin

    def _unregister(self, name: str) -> None:
        with suppress(ExecutionError), self._transport.answered():  # a scheduler that is gone has no plugins
            self._client.unregister_worker_plugin(name)

    def close(self) -> None:
        """Stop the workers that were started here, disconnect from others, join all threads."""
        self._stack.close()

    def __enter__(self) -> DaskExecution:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
