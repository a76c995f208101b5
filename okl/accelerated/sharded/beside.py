"""Vectors that stay in a process beside their shard, between the rounds of a run."""

from __future__ import annotations

import os
import platform
import secrets
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from okl.accelerated.sharded.messages import Message, Recovery, Reply, Vectors
from okl.errors import ExecutionError
from okl.store.dataset import Shard

_MOST_RUNS = 2


@dataclass
class _Held:
    serial: int
    vectors: Any
    reply: Reply


_runs: OrderedDict[str, dict[int, _Held]] = OrderedDict()
_lock = Lock()


@dataclass(frozen=True, eq=False)
class Beside:
    """Work for `execution.sum`: answers messages by the vectors that this process holds beside a shard.

    Parameters
    ----------
    run : name of the run, unlike any other
    opened : makes the vectors of a shard as they are before the first message; a pure function
    folder : of checkpoints, which all processes can reach; None: there are none
    """

    run: str
    opened: Callable[[Shard], Vectors]
    folder: Path | None = None

    def __call__(self, shard: Shard, message: Message) -> Reply:
        """The shard's answer, or that its vectors are lost."""
        held = _of_run(self.run).get(shard.index)
        if held is not None and held.serial == message.serial:  # the message came again, its answer was lost
            return held.reply
        if held is not None and held.serial == message.serial - 1:
            vectors = held.vectors
            if message.verdict is not None:
                vectors.settle(message.verdict)
        elif message.recovery is not None:
            vectors = self._recovered(shard, message.recovery)
        else:
            return Reply(lost=True)
        written = message.checkpoint is not None and self._write(shard, vectors, message.checkpoint, message.kept)
        reply = Reply(message.command.run(vectors), written=written)
        _of_run(self.run)[shard.index] = _Held(message.serial, vectors, reply)
        return reply

    def _recovered(self, shard: Shard, recovery: Recovery) -> Vectors:
        vectors = self.opened(shard)
        if recovery.checkpoint:
            path = self._path(shard, recovery.checkpoint)
            try:
                vectors.restore(np.load(path, allow_pickle=False))
            except (OSError, ValueError) as error:
                raise ExecutionError(
                    f"The checkpoint {path} of a worker that is gone cannot be read ({error}). Workers must see the "
                    "run's folder under the same path; train again with --out there."
                ) from None
        for step in (*recovery.settled, *recovery.pending):
            step.redo(vectors)
        return vectors

    def _write(self, shard: Shard, vectors: Vectors, steps: int, kept: int) -> bool:
        """Write a checkpoint beside its place and give it its name; False where this process cannot write there."""
        if self.folder is None:
            return False
        path = self._path(shard, steps)
        # a straggler and whoever took over its work, perhaps on another host, may write the same one at once
        beside = path.with_suffix(f".{platform.node()}-{os.getpid()}-{secrets.token_hex(4)}.tmp")
        try:
            with open(beside, "wb") as stream:
                np.save(stream, vectors.saved(), allow_pickle=False)
            beside.replace(path)
        except OSError:
            return False
        for old in self.folder.glob(f"{self.run}-{shard.index:05d}-*.npy"):
            if int(old.stem.rpartition("-")[2]) < kept:
                with suppress(OSError):
                    old.unlink()
        return True

    def _path(self, shard: Shard, steps: int) -> Path:
        assert self.folder is not None, "a checkpoint was written"
        return self.folder / f"{self.run}-{shard.index:05d}-{steps}.npy"


def _of_run(run: str) -> dict[int, _Held]:
    """What this process holds of a run; what it holds of runs that nobody goes on with leaves."""
    with _lock:
        held = _runs.setdefault(run, {})
        _runs.move_to_end(run)
        while len(_runs) > _MOST_RUNS:
            _runs.popitem(last=False)
    return held


def forget(run: str) -> None:
    """Let go of what this process holds of a run: as if it were another process."""
    with _lock:
        _runs.pop(run, None)


def forget_all() -> None:
    """Let go of what this process holds of all runs."""
    with _lock:
        _runs.clear()
