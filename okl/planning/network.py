"""What messages become on a wire: framing, segments with their headers, and how long they take."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

from okl.store.dataset import Shard

SEGMENT_BYTES, HEADER_BYTES = 1448, 52  # of TCP over Ethernet: payload, and headers with time stamps
ACKNOWLEDGED_BYTES = 17_000  # by one segment without payload; from 8,000 to 40,000 were seen
HANDLER_DOWN, HANDLER_UP = 250.0, 180.0
TASK_DOWN, TASK_UP = 5200.0, 4200.0
"""Bytes that Dask adds to a batch to a handler and its reply, and to a task and its result, counted on the wire at the
caller's link with distributed 2026.8: see tests/benchmarks/hosts.py."""
HANDLER_TRIPS, TASK_TRIPS = 1.0, 3.0
"""Times there and back: a task goes by the scheduler, which is told of its end before the result is asked for."""


@dataclass(frozen=True)
class Network:
    """Between the caller and its workers.

    gbit : 10^9 bits a second of each link; None: workers are processes of this machine
    latency_ms : from one host to another, one way
    """

    gbit: float | None = None
    latency_ms: float = 0.0

    def seconds(self, size_bytes: float) -> float:
        """To take bytes through one link."""
        return 0.0 if self.gbit is None else 8.0 * size_bytes / (1e9 * self.gbit)

    def waiting(self, trips: float) -> float:
        """For messages that go there and back."""
        return 2e-3 * self.latency_ms * trips


def on_the_wire(payload: float, back: float = 0.0) -> float:
    """Bytes of a payload in one direction, with headers, and with acknowledgements of what came back meanwhile."""
    return payload + HEADER_BYTES * (payload / SEGMENT_BYTES + back / ACKNOWLEDGED_BYTES)


def described_bytes(shards: tuple[Shard, ...] | None) -> tuple[float, float]:
    """Bytes of pickled shards: of their list, and of each one in it; of usual ones if there are none."""
    some = list(shards or ()) or [
        Shard(index, f"train/part-{index:05d}.parquet", "train", (16384,) * 8, 10**8, f"{index:064x}")
        for index in range(8)
    ]
    one, every = (len(pickle.dumps(part, protocol=pickle.HIGHEST_PROTOCOL)) for part in (some[:1], some))
    each = (every - one) / (len(some) - 1) if len(some) > 1 else 0.5 * one
    return one - each, each
