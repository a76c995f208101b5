"""Work for the tests of backends, in a separate module so that worker processes can import it."""

from __future__ import annotations

import os
import resource
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.data.dataset import Dataset, Shard
from okl.data.reading import read_rows
from okl.foundation.errors import DataError

Vector = NDArray[np.float64]


def add_up(parts: list[Vector]) -> Vector:
    total = np.zeros_like(parts[0])
    for part in parts:
        total = total + part
    return total


@dataclass(frozen=True)
class SampledSum:
    """Sum of rows drawn by (seed, shard, round), with weights of very different sizes: bits depend on the order."""

    data: Dataset
    seed: int

    def __call__(self, shard: Shard, value: tuple[int, Vector]) -> Vector:
        round_index, weights = value
        inputs, targets = read_rows(self.data, shard, range(len(shard.row_groups)), "float64")
        random = np.random.default_rng((self.seed, shard.index, round_index))
        drawn = random.integers(len(targets), size=64)
        coefficients: Vector = np.exp(inputs[drawn] @ weights) * targets[drawn] * 10.0 ** random.integers(-8, 8, 64)
        return np.asarray(coefficients @ inputs[drawn])


@dataclass(frozen=True)
class KilledOnce:
    """Work that kills the first worker process that starts one shard or item, but never the caller."""

    work: Any
    fatal: Any
    folder: Path
    caller: int

    def __call__(self, item: Any, *value: Any) -> Any:
        if (item.index if isinstance(item, Shard) else item) == self.fatal and os.getpid() != self.caller:
            marker = self.folder / "killed"
            if not marker.exists():
                marker.write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
        return self.work(item, *value)


@dataclass(frozen=True)
class SignalledInRound:
    """Work that sends a signal (kill or stop) to the first worker process that starts a shard in one round.

    marker : file with the pid of that process
    """

    work: Any
    fatal: int
    round_index: int
    marker: Path
    number: signal.Signals = signal.SIGKILL

    def __call__(self, shard: Shard, value: tuple[int, Vector]) -> Any:
        if shard.index == self.fatal and value[0] == self.round_index:
            with suppress(FileExistsError):
                with self.marker.open("x") as stream:
                    stream.write(str(os.getpid()))
                os.kill(os.getpid(), self.number)
        return self.work(shard, value)


@dataclass(frozen=True)
class KilledAlways:
    caller: int

    def __call__(self, item: int) -> int:
        if os.getpid() != self.caller:
            os.kill(os.getpid(), signal.SIGKILL)
        return item


def square_slowly(item: int) -> int:
    time.sleep(0.002 * (item % 3))
    return item * item


@dataclass(frozen=True)
class Waiting:
    """Wait until a file exists; return the item."""

    marker: Path

    def __call__(self, item: int) -> int:
        while not self.marker.exists():
            time.sleep(0.01)
        return item


def refuse(shard: Shard, value: object) -> Vector:
    if shard.index >= 3:
        raise DataError(f"{shard.path}: expected numbers, got {value}. Ingest it again.")
    return np.zeros(1)


def refuse_third(item: int) -> int:
    if item == 3:
        raise DataError("item 3 is not welcome.")
    return item


def fail_by_mistake(shard: Shard, value: object) -> Vector:
    raise ZeroDivisionError(f"a bug at {shard.path}")


@dataclass(frozen=True)
class LeaveTrace:
    folder: Path

    def __call__(self, item: int) -> int:
        (self.folder / str(item)).touch()
        return item


def own_process(item: int) -> int:
    time.sleep(0.01)
    return os.getpid()


def write_into(shard: Shard, value: Vector) -> Vector:
    value = value.copy()
    value += shard.index
    return value


def thread_settings(item: int) -> tuple[int, str | None]:
    from threadpoolctl import threadpool_info

    # OpenMP pools belong to scikit-learn, if it is imported
    threads = max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
    return threads, os.environ.get("NUMBA_NUM_THREADS")


def nap(item: object, seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@dataclass(frozen=True)
class StoppedAfterwards:
    """A warm-up whose worker process stops shortly after it has reported its result."""

    marker: Path

    def __call__(self) -> str:
        self.marker.write_text(str(os.getpid()))
        Timer(0.3, os.kill, (os.getpid(), signal.SIGSTOP)).start()
        return "another kind"


@dataclass(frozen=True)
class KilledBy:
    """Work that kills every worker process that starts one shard."""

    fatal: int
    caller: int

    def __call__(self, shard: Shard, value: object) -> Vector:
        if shard.index == self.fatal and os.getpid() != self.caller:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.zeros(1)


@dataclass(frozen=True)
class WriteTooMuch:
    """Work that fails to write a file: a limit on the size of files replaces a full disk."""

    path: Path

    def __call__(self, item: int) -> int:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        try:
            self.path.write_bytes(bytes(2000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        return item


def held_limit(item: int) -> int:
    """Return how many bytes of decoded rows this process may cache."""
    from okl.distributed.cache import process_cache

    return process_cache().limit_bytes
