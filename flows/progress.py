"""Observers of a run: a bar in the terminal, or several observers at once. Imports no Prefect: it is needed before."""

from __future__ import annotations

import sys
from contextvars import ContextVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from okl.foundation.telemetry import NullObserver, Observer

watching: ContextVar[Observer] = ContextVar("watching", default=NullObserver())  # noqa: B039  (it has no state)
"""Whoever watches the runs of this process from outside Prefect: the terminal of `okl train`; no one in a worker."""


def describe_metrics(metrics: dict[str, float]) -> str:
    """Write metrics in a line.

    >>> describe_metrics({"mistake_rate": 0.21034, "rows": 12.0})
    'mistake rate 0.2103, rows 12'
    """
    return ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in metrics.items())


class TeeObserver:
    """Tell several observers."""

    def __init__(self, *observers: Observer) -> None:
        self.observers = observers

    def stage(self, name: str) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.stage(name)

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.advance(done, total, metrics)

    def finish(self) -> None:
        """Pass it on."""
        for observer in self.observers:
            observer.finish()


class TerminalObserver:
    """A progress bar on standard error; standard output belongs to results."""

    def __init__(self) -> None:
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[metrics]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self.current: TaskID | None = None

    def stage(self, name: str) -> None:
        """Show another stage."""
        self.bar.start()
        if self.current is not None:
            self.bar.remove_task(self.current)
        self.current = self.bar.add_task(name, total=None, metrics="")

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        """Move the bar; rich draws it from a thread of its own."""
        if self.current is not None:
            self.bar.update(self.current, completed=done, total=total or None, metrics=describe_metrics(metrics))

    def finish(self) -> None:
        """Take the bar away."""
        self.bar.stop()


def terminal_observer() -> Observer:
    """Return an observer that draws on standard error if that is a terminal, else one that does nothing."""
    return TerminalObserver() if sys.stderr.isatty() else NullObserver()
