"""Constants of this machine, measured once in a few seconds and kept in okl's home folder."""

from __future__ import annotations

import json
import os
import platform
import resource
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.execution.protocol import Execution
from okl.home import okl_home
from okl.planning.network import HANDLER_TRIPS, TASK_TRIPS, Network
from okl.provenance import RECORDED, memory_bytes, processor, version_of
from okl.store.dataset import Dataset, Shard
from okl.store.publishing import write_whole
from okl.store.reading import read_rows

FOLDER, FILE = "plans", "machine.json"
ROUNDS, BIG = 24, 1 << 17  # float64: 1 MiB there and back
READ_SECONDS = 1.0
CLAIMED_BYTES, PIECES, PAGE_BYTES = 32 * 2**20, 4, 4096


@dataclass(frozen=True)
class Machine:
    """What was measured.

    identity : processor, cores, versions and host: constants of another machine are measured again
    memory_bytes : of the machine; worker_bytes : of a worker process that has imported what it needs
    handler_seconds, task_seconds : of a round without work, to one worker and back; worker_seconds : for each more
    byte_seconds : for each byte that a round carries, either way
    claim_byte_seconds : for each byte of memory that a process has not used before; a virtual machine may have to ask
        its host for it
    """

    identity: str
    cores: int
    memory_bytes: int
    worker_bytes: int
    handler_seconds: float
    task_seconds: float
    worker_seconds: float
    byte_seconds: float
    claim_byte_seconds: float


def identity() -> str:
    """What constants belong to."""
    versions = ", ".join(f"{name} {version_of(name)}" for name in (*RECORDED, "distributed"))
    return f"{platform.node()}, {processor()}, {cores()} cores, {versions}"


def cores() -> int:
    """That this process may run on."""
    return len(os.sched_getaffinity(0))


def machine(recalibrate: bool = False) -> Machine:
    """The constants: as kept, or measured now."""
    path = okl_home() / FOLDER / FILE
    if not recalibrate:
        with suppress(OSError, ValueError, TypeError):
            kept = Machine(**json.loads(path.read_text()))
            if kept.identity == identity():
                return kept
    measured = _measured()
    write_whole(path, json.dumps(asdict(measured), indent=1))
    return measured


def _measured() -> Machine:
    from okl.execution.dask import DaskExecution

    with DaskExecution(2, n_threads=1) as started:
        return measured_on(started.address)


def measured_on(scheduler: str, latency_ms: float = 0.0) -> Machine:
    """Constants of a cluster of two workers or more, of which two are used.

    scheduler : its address; latency_ms : from host to host there, one way, which is not counted among the constants
    """
    from okl.execution.dask import DaskExecution

    network = Network(None, latency_ms)
    with DaskExecution(address=scheduler, n_threads=1, carrier="handler", most_workers=2) as two:
        of_two = _round_seconds(two, 2, 1)
        big = _round_seconds(two, 2, BIG)
        with DaskExecution(address=scheduler, n_threads=1, carrier="handler", most_workers=1) as one:
            of_one = _round_seconds(one, 1, 1)
        with DaskExecution(address=scheduler, n_threads=1, carrier="task", most_workers=1) as one:
            by_task = _round_seconds(one, 1, 1)
        worker_bytes = max(two.map(_memory, [0, 1, 2, 3]))
        (claim_byte_seconds,) = two.map(_claiming_byte_seconds, [CLAIMED_BYTES])
    return Machine(
        identity(),
        cores(),
        memory_bytes(),
        worker_bytes,
        max(0.0, of_one - network.waiting(HANDLER_TRIPS)),
        max(0.0, by_task - network.waiting(TASK_TRIPS)),
        max(0.0, of_two - of_one),
        max(0.0, big - of_two) / (4.0 * 8.0 * BIG),
        claim_byte_seconds,
    )


def _round_seconds(execution: Execution, workers: int, length: int) -> float:
    shards = tuple(Shard(i, f"{i}", "train", (1,), 0, str(i)) for i in range(workers))
    value, taken = np.zeros(length), []
    for _ in range(ROUNDS if length < BIG else ROUNDS // 3):
        begun = time.perf_counter()
        execution.sum(_echo, shards, value, _last)
        taken.append(time.perf_counter() - begun)
    return median(taken[2:])


def _echo(shard: Shard, value: NDArray[np.float64]) -> NDArray[np.float64]:
    return value


def _last(parts: list[Any]) -> Any:
    return parts[-1]


def _memory(_: int) -> int:
    import okl.compiled.rowpasses
    import okl.store.reading
    import okl.subgradient.solver  # noqa: F401

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _claiming_byte_seconds(n_bytes: int) -> float:
    """Of memory that is touched for the first time, in the median of pieces that are all held at once."""
    held, seconds = [], []
    for _ in range(PIECES):
        begun = time.perf_counter()
        held.append(np.empty(n_bytes, np.uint8))
        held[-1][::PAGE_BYTES] = 1
        seconds.append((time.perf_counter() - begun) / n_bytes)
    return median(seconds)


def read_row_seconds(data: Dataset) -> float:
    """Seconds to read a row of a data set's own shards, from a few row groups; the first one is not counted."""
    begun, seconds = time.perf_counter(), []
    groups = [(shard, group) for shard in data.split("train") for group in range(len(shard.row_groups))]
    for shard, group in groups[: 1 + 8]:
        entered = time.perf_counter()
        read_rows(data, shard, (group,), "float32")
        seconds.append((time.perf_counter() - entered) / max(1, shard.row_groups[group]))
        if len(seconds) == 1:
            begun = time.perf_counter()  # the first one compiles, and looks at the files' digests
        elif time.perf_counter() - begun > READ_SECONDS:
            break
    return median(seconds[1:] or seconds or [0.0])
