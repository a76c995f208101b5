"""What a run tells whoever watches it: which stage it is in, how far it has come, how well it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Observer(Protocol):
    """Someone who watches a run; every call must return within microseconds, as it is made from the learning loop."""

    def stage(self, name: str) -> None:
        """A stage begins, such as `learn`; the one before it is over."""

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        """Of `total` rows of this stage (0: not known), `done` are done; `metrics` so far, such as `mistake_rate`."""

    def finish(self) -> None:
        """The run is over, well or badly; nothing more will come. A second call does nothing."""


class NullObserver:
    """An observer that looks away."""

    def stage(self, name: str) -> None:
        """Ignore the stage."""

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        """Ignore the progress."""

    def finish(self) -> None:
        """Ignore the end."""


class WatchedRun(Protocol):
    """A run whose stages are methods without arguments; `close` frees what it holds, and removes what is incomplete."""

    @property
    def observer(self) -> Observer: ...

    def result(self) -> dict[str, Any]: ...

    def close(self) -> None: ...


def perform(run: WatchedRun, stages: Sequence[str]) -> dict[str, Any]:
    """Perform the stages in order, and close the run whatever happens; its result."""
    try:
        for stage in stages:
            run.observer.stage(stage)
            getattr(run, stage)()
        return run.result()
    finally:
        run.close()
        run.observer.finish()
