"""Short rounds by lines, from the caller's own thread: the fast way, which leaves whatever goes wrong to the courier.

A batch that is not answered, for whatever reason, is handed back, and delivered as others are: results are equal by
construction, whoever works on a batch and however often.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from threading import Lock
from typing import Any

from okl.execution.batches import Call, Reply, counted
from okl.execution.dask.courier import Answer, Courier
from okl.execution.dask.delivery import answered
from okl.execution.lines import Line
from okl.execution.placement import Batch

ANSWER_SECONDS = 1.0  # many times what a short round takes; then the courier sees to it


class Express:
    """Asks workers of this machine.

    Parameters
    ----------
    courier : takes what is left, and knows which work is short
    folder : private, where workers open their sockets
    """

    def __init__(self, courier: Courier, folder: str) -> None:
        self._courier = courier
        self._folder = folder
        self._lines: dict[str, Line] = {}
        self._without: set[str] = set()
        self._holders: set[tuple[str, str]] = set()
        self._items: Sequence[Any] = ()  # of the last call, as the next one's are often the very same
        self._contents: dict[Batch, bytes] = {}
        self._lock = Lock()

    def deliver(self, call: Call, batches: Sequence[Batch]) -> tuple[list[Answer], list[Batch]]:
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

    def _deliver(self, call: Call, batches: Sequence[Batch]) -> tuple[list[Answer], list[Batch]]:
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

    def _ask(self, call: Call, batch: Batch) -> bool:
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

    def _content(self, call: Call, batch: Batch) -> bytes:
        if call.items is not self._items:
            self._items, self._contents = call.items, {}
        if batch not in self._contents:
            self._contents[batch] = call.content(batch)
        return self._contents[batch]

    def _reply(self, address: str) -> Reply | None:
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
