"""Batches on their way to Dask workers and back, wherever the workers go meanwhile.

Shards go to workers by locality, one task a worker and round. A task may run anywhere else when its worker dies; it
then reads its shards again.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from typing import Any

from distributed import KilledWorker, get_worker, wait

from okl.errors import ExecutionError
from okl.execution.batches import Batch, Call, Packed, Reply, counted, pack, run_batch, settle
from okl.execution.dask.cluster import why
from okl.execution.protocol import Traffic

POLL_SECONDS = 1.0


def _run_on_worker(digest: str, content: bytes | None, items: bytes, value: bytes | None) -> Reply:
    return run_batch(digest, content, items, value, get_worker().address)


def _warm_up() -> None:
    """Import what most work needs, numba above all, while the caller still looks at the data."""
    import okl.compiled.door
    import okl.store.reading  # noqa: F401


@dataclass
class Sent:
    """A batch on its way, and the task that works on it."""

    batch: Batch
    future: Any


class Sender:
    """Sends batches and collects their replies; knows the workers, each in its slot, and which work they hold.

    Parameters
    ----------
    client : of distributed; address : of its scheduler
    patience_seconds : how long to wait when there is no worker at all
    """

    def __init__(self, client: Any, address: str, patience_seconds: float) -> None:
        self.slots: tuple[str, ...] = ()
        self.traffic = Traffic()
        self._client = client
        self._address = address
        self._patience_seconds = patience_seconds
        self._warming: list[Any] = []
        self._work: Callable[..., Any] | None = None
        self._packed = Packed("", b"")
        self._holders: set[tuple[str, str]] = set()

    def wait_for_workers(self, n_workers: int) -> None:
        """Wait for workers to come, and have them import meanwhile what they will need."""
        try:
            self._client.wait_for_workers(n_workers, timeout=self._patience_seconds)
        except TimeoutError:
            raise self._no_workers() from None
        self.settle()
        submit = partial(self._client.submit, _warm_up, allow_other_workers=True, pure=False)
        self._warming = [submit(workers=[slot]) for slot in self.slots]

    def pack(self, work: Callable[..., Any]) -> Packed:
        """Work as bytes; pickled once while the same work is asked for."""
        if work is not self._work:
            self._work, self._packed = work, pack(work)
        return self._packed

    def send(self, call: Call, batch: Batch, with_work: bool = False) -> Sent:
        """Send a batch; the work goes along unless the worker has it."""
        likely = self.slots if batch.address is None else (batch.address,)
        known = not with_work and all((address, call.packed.digest) in self._holders for address in likely)
        content, items = None if known else call.packed.content, call.content(batch)
        self.traffic = counted(self.traffic, sent=len(items) + len(content or b"") + len(call.value or b""))
        future = self._client.submit(
            _run_on_worker, call.packed.digest, content, items, call.value,
            workers=None if batch.address is None else [batch.address],
            allow_other_workers=batch.address is not None, pure=False, retries=2,
        )  # fmt: skip
        return Sent(batch, future)

    def replies(self, call: Call, sent: list[Sent]) -> list[Reply]:
        """Wait for the replies to some batches; those that met a worker without the work are sent again with it."""
        replies: list[Reply] = self._gather(call, sent)
        strangers = [i for i, reply in enumerate(replies) if not reply.known]
        if strangers:
            again = self._gather(call, [self.send(call, sent[i].batch, with_work=True) for i in strangers])
            for i, reply in zip(strangers, again, strict=True):
                replies[i] = reply
        self._holders.update((reply.worker, reply.digest) for reply in replies)
        return replies

    def _gather(self, call: Call, sent: list[Sent]) -> list[Any]:
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
                alone_since = None if self.settle() else alone_since or time.monotonic()
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

    def _send_stranded(self, call: Call, sent: list[Sent]) -> None:
        """Send batches again that no worker has and whose own worker is gone.

        The scheduler moves a dead worker's task to another one; but where there was no other one at that moment, it
        goes on waiting for the dead one, even after others have come.
        """
        processing = {key for keys in self._client.processing().values() for key in keys}
        for i, one in enumerate(sent):
            stranded = one.future.status == "pending" and one.future.key not in processing
            if stranded and one.batch.address not in (None, *self.slots):
                sent[i] = self.send(call, Batch(one.batch.positions, None))

    def _lost(self, error: BaseException) -> ExecutionError:
        return ExecutionError(
            f"The Dask scheduler at {self._address} no longer answers ({why(error)}). "
            "Check that it runs, and start again."
        )

    def settle(self) -> int:
        """Look which workers there are, keep each in its slot, and count them."""
        try:
            alive = self._client.nthreads()
        except (OSError, CancelledError, TimeoutError) as error:
            raise self._lost(error) from error
        # nobody there: the next worker to come takes the first slot, so the old ones serve until then
        self.slots = settle(self.slots, alive) or self.slots
        return len(alive)

    def results(self, reply: Reply) -> list[Any]:
        """What a reply holds, counted as received."""
        self.traffic = counted(self.traffic, received=len(reply.results))
        results: list[Any] = pickle.loads(reply.results)
        return results

    def _no_workers(self) -> ExecutionError:
        return ExecutionError(
            f"The Dask scheduler at {self._address} has had no workers for {self._patience_seconds:g} s. "
            f"Start some with: dask worker {self._address}"
        )
