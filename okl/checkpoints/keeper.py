"""Whoever writes down where the loops of a run stand, now and then, and says where they stood."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from okl.checkpoints.folder import bring_back_beside, complete_ones, read_head, read_value, write_checkpoint
from okl.checkpoints.origin import Origin
from okl.checkpoints.position import Position
from okl.execution.protocol import Execution, Traffic
from okl.runlog import run_logger

MAIN = "model"
_LOG = run_logger()


class LoopKeeper(Protocol):
    """What a loop may ask of whoever keeps it."""

    def kept(self) -> Position | None:
        """Where the loop stood when it was broken off; None: it begins."""
        ...

    def offer(self, position: Position, execution: Execution) -> None:
        """Write down where the loop stands, if it is time to; the loop has come to the end of a step."""
        ...


class NoKeeper:
    """Keeps nothing."""

    def kept(self) -> Position | None:
        """Nothing."""
        return None

    def offer(self, position: Position, execution: Execution) -> None:
        """Do nothing."""


@dataclass(eq=False)
class RunKeeper:
    """Keeps the loops of a run in its folder.

    Parameters
    ----------
    folder : of the run, while it is unfinished; origin : what it belongs to
    seconds : between two checkpoints, 0 for none by the clock; rounds : steps of the solver between two, None for none
        by their number
    shared : what is not stored, by name; beside : folder of files that workers keep, None for none
    begun : time.perf_counter() when this process began the run, or went on with it
    resumed : how often the run was gone on with; run_seconds, traffic : of all that came before this process
    """

    folder: Path
    origin: Origin
    seconds: float
    rounds: int | None
    shared: Mapping[str, Any]
    beside: Path | None = None
    begun: float = field(default_factory=time.perf_counter)
    resumed: int = 0
    run_seconds: float = 0.0
    traffic: Traffic = field(default_factory=Traffic)

    def of(self, loop: str) -> OneLoop:
        """The keeper of a loop by its name."""
        return OneLoop(self, loop)

    def total_traffic(self, execution: Execution) -> Traffic:
        """Of this process, and of those before it."""
        here, before = execution.traffic, self.traffic
        return Traffic(
            here.rounds + before.rounds,
            here.bytes_sent + before.bytes_sent,
            here.bytes_received + before.bytes_received,
        )

    def total_seconds(self) -> float:
        """Of the run so far, interruptions left out."""
        return self.run_seconds + time.perf_counter() - self.begun

    def resume(self) -> Position | None:
        """Where the main loop stood, from where this process goes on; None if it was not kept yet.

        Raises
        ------
        CheckpointError : the checkpoint is damaged
        """
        at = self.read(MAIN)
        if at is not None:
            self.resumed, self.run_seconds, self.traffic = at.resumed + 1, at.run_seconds, at.traffic
        return at

    def read(self, loop: str) -> Position | None:
        """Where a loop stood.

        Raises
        ------
        CheckpointError : the checkpoint is damaged
        """
        if not (found := complete_ones(self.folder, loop)):
            return None
        head = read_head(found[-1])
        position: Position = read_value(head, self.shared)
        if self.beside is not None:
            bring_back_beside(head, self.beside)
        return position

    def write(self, loop: str, position: Position, execution: Execution) -> None:
        """Write down where a loop stands; if that cannot be, say so, and go on: the last checkpoint is there still."""
        position = replace(
            position,
            run_seconds=self.total_seconds(),
            traffic=self.total_traffic(execution),
            resumed=self.resumed,
        )
        try:
            write_checkpoint(self.folder, loop, position, self.origin.as_json(), self.shared, self.beside)
        except OSError as error:
            _LOG.warning("No checkpoint could be written (%s); the run goes on, and the last one stays.", error)


class OneLoop:
    """The keeper of one loop."""

    def __init__(self, run: RunKeeper, loop: str) -> None:
        self._run, self._loop = run, loop
        self._last, self._steps = time.perf_counter(), 0

    def kept(self) -> Position | None:
        """Where it stood."""
        return self._run.read(self._loop)

    def offer(self, position: Position, execution: Execution) -> None:
        """Write down where it stands after so many seconds or steps."""
        self._steps += 1
        run, now = self._run, time.perf_counter()
        if (run.seconds and now - self._last >= run.seconds) or (run.rounds and self._steps >= run.rounds):
            run.write(self._loop, position, execution)
            self._last, self._steps = time.perf_counter(), 0
