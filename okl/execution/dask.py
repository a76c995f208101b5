"""Work on Dask workers: a cluster of this machine, or a running scheduler. The only module that imports Dask.

Shards go to workers by locality, one task a worker and round. A task may run anywhere else when its worker dies; it
then reads its shards again. Results are put back in the order of the shards and merged here: the same bits as in one
process. Between rounds only small values travel, never rows.
"""

from __future__ import annotations

import logging
import pickle
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

import dask
from distributed import Client, KilledWorker, LocalCluster, get_worker, wait
from distributed.core import connect
from distributed.gc import disable_gc_diagnosis
from distributed.system import MEMORY_LIMIT
from distributed.utils import silence_logging_cmgr

from okl.checks import check_at_least
from okl.errors import ConfigError, ExecutionError
from okl.execution.batches import Batch, Call, Packed, Reply, by_locality, counted, in_sequence, pack, run_batch, settle
from okl.execution.local import LocalExecution
from okl.execution.protocol import Item, Part, Result, Rows, ShardWork, Traffic, Value
from okl.execution.spawning import environment_kept, importing_main, interrupts_held, run_apart
from okl.store.dataset import Dataset, Shard
from okl.store.order import Window
from okl.types import Precision

LOOPBACK = "127.0.0.1"
CONNECT_SECONDS = 5.0
POLL_SECONDS = 1.0
AHEAD_PER_WORKER = 2

# a worker never spills or pauses: rows are read again from Parquet sooner than from a spill file; a value may be large
_CONFIG = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.admin.large-graph-warning-threshold": "1 GiB",
    "distributed.scheduler.allowed-failures": 3,
}
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def _run_on_worker(digest: str, content: bytes | None, items: bytes, value: bytes | None) -> Reply:
    return run_batch(digest, content, items, value, get_worker().address)


def _warm_up() -> None:
    """Import what most work needs, numba above all, while the caller still looks at the data."""
    import okl.compiled.door
    import okl.store.reading  # noqa: F401


def _why(error: BaseException) -> str:
    return str(error).rstrip(".") or type(error).__name__


def _start_cluster(n_workers: int, folder: str) -> Any:
    """Start worker processes of one thread each, with a scheduler in this process; nothing listens beyond loopback."""
    if importing_main():
        # a worker process that imports a script without a main guard would start workers of its own; the parent
        # notices that it ended, and says what to do
        sys.exit(1)
    try:
        with environment_kept(), interrupts_held():
            cluster = LocalCluster(
                n_workers=n_workers, threads_per_worker=1, processes=True, host=LOOPBACK, dashboard_address=None,
                # without a dashboard the scheduler still serves its health, on port 8787 unless told otherwise
                scheduler_kwargs={"dashboard_address": f"{LOOPBACK}:0"},
                memory_limit=MEMORY_LIMIT // n_workers, env=_ONE_THREAD, local_directory=folder,
                silence_logs=logging.CRITICAL,
            )  # fmt: skip
            # it runs Python at every garbage collection, where a KeyboardInterrupt is printed and lost
            disable_gc_diagnosis(force=True)
            return cluster
    except (RuntimeError, OSError, TimeoutError) as error:
        raise ExecutionError(
            f"{n_workers} worker processes could not be started ({_why(error)}). Each of them imports the running "
            'script: there, put what runs under `if __name__ == "__main__":`.'
        ) from error


@dataclass
class _Sent:
    """A batch on its way, and the task that works on it."""

    batch: Batch
    future: Any


def _knock(address: str) -> None:
    """Connect to a scheduler and hang up, or raise why not: a Client that fails to connect leaves its thread behind."""

    async def shake_hands() -> None:
        comm = await connect(address, timeout=CONNECT_SECONDS)
        await comm.close()

    run_apart(shake_hands, 2 * CONNECT_SECONDS)


class DaskExecution:
    """Runs shards and items on Dask workers, streams in this process; a context manager that ends what it started.

    Parameters
    ----------
    n_workers : int >= 1, processes to start on this machine; or
    address : of a running scheduler, such as tcp://10.0.0.1:8786; its workers see the data under the same paths
    n_threads : threads of this process that stream and learn; None: its cores, at most 4
    patience_seconds : how long to wait when there is no worker at all

    Attributes
    ----------
    address : of the scheduler, to which others may connect

    Raises
    ------
    ConfigError : both or neither of n_workers and address
    ExecutionError : workers do not start; the scheduler cannot be reached in 5 seconds, or has no workers
    """

    def __init__(
        self,
        n_workers: int | None = None,
        address: str | None = None,
        n_threads: int | None = None,
        patience_seconds: float = 60.0,
    ) -> None:
        if (n_workers is None) == (address is None):
            raise ConfigError("Dask takes either a number of workers to start or the address of a scheduler.")
        self._patience_seconds = patience_seconds
        self._traffic = Traffic()
        self._slots: tuple[str, ...] = ()
        self._warming: list[Any] = []
        self._work: Callable[..., Any] | None = None
        self._packed = Packed("", b"")
        self._holders: set[tuple[str, str]] = set()
        with ExitStack() as stack:
            self._local = stack.enter_context(LocalExecution(n_threads))
            stack.enter_context(dask.config.set(_CONFIG))
            stack.enter_context(silence_logging_cmgr(logging.CRITICAL))  # errors are raised, once, as one sentence
            if n_workers is not None:
                check_at_least("workers", n_workers, 1)
                folder = stack.enter_context(
                    tempfile.TemporaryDirectory(prefix="okl-dask-", ignore_cleanup_errors=True)
                )
                cluster = _start_cluster(n_workers, folder)
                stack.callback(cluster.close)
                address = cluster.scheduler_address
            self._client = self._connect(str(address))
            stack.callback(self._client.close)
            self._wait_for_workers(n_workers or 1)
            self._stack = stack.pop_all()

    def _connect(self, address: str) -> Any:
        self.address = address
        try:
            _knock(address)
            client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False, name="okl")
        except (OSError, TimeoutError, ValueError) as error:
            raise ExecutionError(
                f"No Dask scheduler answers at {address} within {CONNECT_SECONDS:g} s ({_why(error)}). "
                "Check the address, and that the scheduler runs."
            ) from None
        # tasks are sent at once: by default they wait for 10 ms in case more come, longer than a short round takes
        client.scheduler_comm.interval = 0.0
        return client

    def _wait_for_workers(self, n_workers: int) -> None:
        try:
            self._client.wait_for_workers(n_workers, timeout=self._patience_seconds)
        except TimeoutError:
            raise self._no_workers() from None
        self._settle()
        submit = partial(self._client.submit, _warm_up, allow_other_workers=True, pure=False)
        self._warming = [submit(workers=[slot]) for slot in self._slots]

    def _no_workers(self) -> ExecutionError:
        return ExecutionError(
            f"The Dask scheduler at {self.address} has had no workers for {self._patience_seconds:g} s. "
            f"Start some with: dask worker {self.address}"
        )

    @property
    def n_workers(self) -> int:
        """Workers when last looked at."""
        return len(self._slots)

    @property
    def n_threads(self) -> int:
        """Threads of this process for `stream` and the learner behind it."""
        return self._local.n_threads

    @property
    def traffic(self) -> Traffic:
        """Rounds, and pickled bytes of work, shards, values and results so far."""
        return self._traffic

    def stream(
        self, data: Dataset, windows: Sequence[Window], first: int, last: int, precision: Precision
    ) -> Iterator[Rows]:
        """Rows in order, read ahead by threads of this process; see `LocalExecution.stream`."""
        return self._local.stream(data, windows, first, last, precision)

    def mix(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        """Learn every shard from one value, on the workers; merge the results here, in shard order."""
        return self._round(work, shards, value, merge)

    def sum(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        """Evaluate every shard at one value, on the workers; merge the results here, in shard order."""
        return self._round(work, shards, value, merge)

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Work on independent items, on the workers; results in the order of the items.

        At most two batches a worker are on their way at once, each of at most four items.
        """
        call = Call(self._pack(work), items)
        upcoming = iter(in_sequence(len(items), len(self._slots)))
        waiting: deque[_Sent] = deque()
        while True:
            while len(waiting) < AHEAD_PER_WORKER * max(1, len(self._slots)) and (batch := next(upcoming, None)):
                waiting.append(self._send(call, batch))
            if not waiting:
                return
            (reply,) = self._replies(call, [waiting.popleft()])
            yield from self._results(reply)
            if reply.error is not None:
                raise reply.error

    def _round(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        from okl.compiled.door import one_blas_thread

        self._settle()
        self._traffic = counted(self._traffic, rounds=1)
        call = Call(self._pack(work), shards, pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))
        batches = by_locality(len(shards), self._slots)
        parts: dict[int, Part] = {}
        errors: dict[int, BaseException] = {}
        for batch, reply in zip(batches, self._replies(call, [self._send(call, b) for b in batches]), strict=True):
            results = self._results(reply)
            parts.update(zip(batch.positions, results, strict=False))
            if reply.error is not None:
                errors[batch.positions[len(results)]] = reply.error
        if errors:
            raise errors[min(errors)]  # the one that one process would have met first
        with one_blas_thread():
            return merge([parts[position] for position in range(len(shards))])

    def _pack(self, work: Callable[..., Any]) -> Packed:
        if work is not self._work:
            self._work, self._packed = work, pack(work)
        return self._packed

    def _send(self, call: Call, batch: Batch, with_work: bool = False) -> _Sent:
        """Send a batch; the work goes along unless the worker has it."""
        likely = self._slots if batch.address is None else (batch.address,)
        known = not with_work and all((address, call.packed.digest) in self._holders for address in likely)
        content, items = None if known else call.packed.content, call.content(batch)
        self._traffic = counted(self._traffic, sent=len(items) + len(content or b"") + len(call.value or b""))
        future = self._client.submit(
            _run_on_worker, call.packed.digest, content, items, call.value,
            workers=None if batch.address is None else [batch.address],
            allow_other_workers=batch.address is not None, pure=False, retries=2,
        )  # fmt: skip
        return _Sent(batch, future)

    def _replies(self, call: Call, sent: list[_Sent]) -> list[Reply]:
        """Wait for the replies to some batches; those that met a worker without the work are sent again with it."""
        replies: list[Reply] = self._gather(call, sent)
        strangers = [i for i, reply in enumerate(replies) if not reply.known]
        if strangers:
            again = self._gather(call, [self._send(call, sent[i].batch, with_work=True) for i in strangers])
            for i, reply in zip(strangers, again, strict=True):
                replies[i] = reply
        self._holders.update((reply.worker, reply.digest) for reply in replies)
        return replies

    def _gather(self, call: Call, sent: list[_Sent]) -> list[Any]:
        """Results of tasks, however often they had to move; an error only if nobody is left to run them."""
        alone_since: float | None = None

        async def collect() -> Any:
            return await self._client.gather([one.future for one in sent], asynchronous=True)

        while True:
            try:
                with self._client.as_current():
                    wait([one.future for one in sent], timeout=POLL_SECONDS)
                results: list[Any] = self._client.sync(collect, callback_timeout=60 * POLL_SECONDS)
                return results
            except TimeoutError:
                alone_since = None if self._settle() else alone_since or time.monotonic()
                if alone_since is not None and time.monotonic() - alone_since > self._patience_seconds:
                    raise self._no_workers() from None
                self._send_stranded(call, sent)
            except KilledWorker as error:
                raise ExecutionError(
                    f"{error.allowed_failures + 1} workers died one after another on the same shards, mostly a sign of "
                    "too little memory. Start fewer workers, or ingest with fewer --rows-per-shard."
                ) from error
            except (OSError, CancelledError) as error:
                raise self._lost(error) from error
            except ImportError as error:
                raise ExecutionError(
                    f"A worker cannot import okl's work ({error}); install the same okl there."
                ) from error

    def _send_stranded(self, call: Call, sent: list[_Sent]) -> None:
        """Send batches again that no worker has and whose own worker is gone.

        The scheduler moves a dead worker's task to another one; but where there was no other one at that moment, it
        goes on waiting for the dead one, even after others have come.
        """
        processing = {key for keys in self._client.processing().values() for key in keys}
        for i, one in enumerate(sent):
            stranded = one.future.status == "pending" and one.future.key not in processing
            if stranded and one.batch.address not in (None, *self._slots):
                sent[i] = self._send(call, Batch(one.batch.positions, None))

    def _lost(self, error: BaseException) -> ExecutionError:
        return ExecutionError(
            f"The Dask scheduler at {self.address} no longer answers ({_why(error)}). "
            "Check that it runs, and start again."
        )

    def _settle(self) -> int:
        """Look which workers there are, keep each in its slot, and count them."""
        try:
            alive = self._client.nthreads()
        except (OSError, CancelledError, TimeoutError) as error:
            raise self._lost(error) from error
        # nobody there: the next worker to come takes the first slot, so the old ones serve until then
        self._slots = settle(self._slots, alive) or self._slots
        return len(alive)

    def _results(self, reply: Reply) -> list[Any]:
        self._traffic = counted(self._traffic, received=len(reply.results))
        results: list[Any] = pickle.loads(reply.results)
        return results

    def close(self) -> None:
        """End the workers that were started here, leave the others, join all threads."""
        self._stack.close()

    def __enter__(self) -> DaskExecution:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
