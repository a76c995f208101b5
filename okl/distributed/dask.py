"""The executor on Dask workers."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import dask
from distributed import WorkerPlugin

from okl.data.dataset import Dataset, Shard
from okl.data.executor import Item, Part, Result, Rows, ShardWork, Traffic, Value
from okl.data.order import Window
from okl.distributed.cache import ShardAssignment, in_sequence
from okl.distributed.cluster import (
    CONFIG,
    PerformanceReport,
    check_versions,
    hold,
    hold_as_before,
    join,
    memory_limit,
    open_client,
    silenced,
    versions,
)
from okl.distributed.local import LocalExecution
from okl.distributed.rpc import BatchCall, Packed, counted, in_order, pack
from okl.distributed.transport import Answer, Carrier, Express, Transport
from okl.foundation import plugins, telemetry
from okl.foundation.plugins import SourceFile, adopt, files
from okl.foundation.telemetry import WAIT
from okl.foundation.types import Precision

# Transfer of extensions to workers.

NAME = "okl-extensions"


class ExtensionFiles(WorkerPlugin):  # type: ignore[misc]  # Dask has no types
    """Has a worker run files. sent : by module, see okl.foundation.plugins"""

    def __init__(self, sent: Mapping[str, SourceFile]) -> None:
        self.sent = dict(sent)

    def setup(self, worker: Any) -> None:
        """Set up a worker that is connected or has just connected."""
        adopt(self.sent)


class ExtensionTransfer:
    """Sees to it that workers have what this process has. client : of their scheduler"""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._sent: set[str] = set()

    def bring(self) -> None:
        """Send the files that have run here since the last time; waits until all workers have run them."""
        here = files()
        if set(here) - self._sent:
            self._client.register_plugin(ExtensionFiles(here), name=f"{NAME}-{'-'.join(sorted(here))[-64:]}")
            self._sent |= set(here)


# The executor: results in shard order, merged by the caller.
#
# Between rounds only small values travel, never rows.

AHEAD_PER_WORKER = 2


class DaskExecution:
    """Runs shards and items on Dask workers, streams in this process; a context manager that ends what it started.

    Parameters
    ----------
    n_workers : int >= 1, processes to start on this machine; or
    address : of a running scheduler, such as tcp://10.0.0.1:8786; its workers see the data under the same paths; or
    cluster : path of a file that names a class of clusters, see `okl.distributed.opening`
    tls : folder with ca.pem, cert.pem and key.pem, for connections that refuse whoever has none of that authority
    n_threads : threads of this process that stream and learn; None: its cores, at most 4
    patience_seconds : how long to wait when there is no worker at all
    straggler_seconds : work that takes this long, and several times as long as elsewhere, is also done elsewhere
    carrier : "auto": rounds go by Dask tasks at first, then, if they are short, by lines to workers that were started
        here, by handlers to others; "task", "handler": always
    most_workers : int >= 1, to use of those who are there; None: all
    run : name of the run, for the log

    Attributes
    ----------
    address : of the scheduler, to which others may connect

    Raises
    ------
    ConfigError : not exactly one of n_workers, address and cluster; a cluster file or certificates that cannot be used
    ExecutionError : workers do not start; the scheduler cannot be reached in 5 seconds, or has no workers; workers have
        other versions of what decides bits
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
            self._calls, self._homes = 0, ShardAssignment()
            self._work: Callable[..., Any] | None = None
            self._packed = Packed("", b"")
            self._local = stack.enter_context(LocalExecution(n_threads))
            stack.enter_context(dask.config.set(CONFIG))
            stack.enter_context(silenced())
            joined = join(stack, n_workers, address, cluster, tls)
            self.address = joined.address
            client = open_client(self.address, joined.security, tls)
            stack.callback(client.close)
            self._client, self._extensions = client, ExtensionTransfer(client)
            self._courier = Transport(client, self.address, patience_seconds, straggler_seconds, carrier, most_workers)
            stack.callback(self._courier.close)
            self._courier.open(joined.wanted)
            # whoever asks for certificates wants them at every connection
            self._express = None if joined.folder is None or tls else Express(self._courier, joined.folder)
            if self._express is not None:
                stack.callback(self._express.close)
            self._performance = PerformanceReport(client)
            check_versions(client.run(versions, plugins.packages(), workers=list(self._courier.slots)))
            self._stack = stack.pop_all()

    @property
    def n_workers(self) -> int:
        """Workers when last looked at."""
        return len(self._courier.slots)

    @property
    def n_threads(self) -> int:
        """Threads of this process for `stream` and the learner behind it."""
        return self._local.n_threads

    @property
    def memory_limit_bytes(self) -> int | None:
        """Return the limit of the worker with the least memory; None without limits."""
        return memory_limit(self._client, list(self._courier.slots))

    def hold(self, limit_bytes: int) -> None:
        """Bound the decoded rows that each worker, here or to come, holds between rounds, as long as this is open."""
        hold(self._client, limit_bytes)
        self._stack.callback(hold_as_before, self._client)

    @property
    def traffic(self) -> Traffic:
        """Rounds, and pickled bytes of work, shards, values and results so far."""
        return self._courier.traffic

    @property
    def processors(self) -> tuple[str, ...]:
        """Kinds of processors that take part, as far as workers have told; this process's is one."""
        self._courier.meet()
        return tuple(sorted(self._courier.processors))

    def stream(
        self, data: Dataset, windows: Sequence[Window], first: int, last: int, precision: Precision
    ) -> Iterator[Rows]:
        """Rows in order, read ahead by threads of this process; see `LocalExecution.stream`."""
        return self._local.stream(data, windows, first, last, precision)

    def mix(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        """Learn every shard from one value, on the workers; merge the results here, in shard order."""
        return self._round("mix", work, shards, value, merge)

    def sum(
        self, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value, merge: Callable[[list[Part]], Part]
    ) -> Part:
        """Evaluate every shard at one value, on the workers; merge the results here, in shard order."""
        return self._round("sum", work, shards, value, merge)

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Work on independent items, on the workers; results in the order of the items.

        At most two batches a worker are on their way at once, each of at most four items.
        """
        self._calls += 1
        call = BatchCall(self._pack(work), items, label=f"{self._run}map {self._calls}")
        self._courier.look()
        upcoming = iter(in_sequence(len(items), self.n_workers))
        waiting: deque[Future[list[Answer]]] = deque()
        try:
            while True:
                while len(waiting) < AHEAD_PER_WORKER * max(1, self.n_workers) and (batch := next(upcoming, None)):
                    waiting.append(self._courier.send(call, [batch]))
                if not waiting:
                    return
                with telemetry.Span(WAIT):
                    answers = waiting.popleft().result()
                for _, reply in sorted(answers, key=lambda answer: answer[0].positions):
                    yield from pickle.loads(reply.results)
                    if reply.error is not None:
                        raise reply.error
        finally:
            for future in waiting:
                future.cancel()

    def _round(
        self, verb: str, work: ShardWork[Value, Part], shards: Sequence[Shard], value: Value,
        merge: Callable[[list[Part]], Part],
    ) -> Part:  # fmt: skip
        from okl.compiled.jit import one_blas_thread

        self._calls += 1
        courier = self._courier
        courier.traffic = counted(courier.traffic, rounds=1)
        content = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        call = BatchCall(self._pack(work), shards, content, f"{self._run}{verb} {self._calls}")
        courier.look()
        begun = time.perf_counter()
        batches, answers = self._homes.place(shards, courier.slots), list[Answer]()
        if self._express is not None:
            answers, batches = self._express.deliver(call, batches)
        if batches:
            sent = courier.send(call, batches)
            try:
                answers += sent.result()
            finally:
                sent.cancel()
        telemetry.waited(begun, max((reply.seconds for _, reply in answers), default=0.0))
        self._homes.note(shards, ((batch, reply.worker) for batch, reply in answers))
        with one_blas_thread():
            return merge(in_order(answers, len(shards)))

    def _pack(self, work: Callable[..., Any]) -> Packed:
        if work is not self._work:
            self._extensions.bring()
            self._work, self._packed = work, pack(work)
        return self._packed

    def performance_page(self) -> str | None:
        """Dask's performance report since this was opened, as an HTML page; None without bokeh."""
        return self._performance.page()

    def close(self) -> None:
        """End the workers that were started here, leave the others, join all threads."""
        self._stack.close()

    def __enter__(self) -> DaskExecution:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
