"""Observers of a run: a progress bar in the terminal, lines in a log file, and a combination of several observers."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from okl.foundation.telemetry import ROUNDING, NullObserver, Observer

LINE_SECONDS, FIRST_SECONDS = 30.0, 10.0
"""Seconds between lines of progress in a log file or a pipe, and until the first one or that of a new stage."""
CHECK_SECONDS = 1.0  # between checks whether a line is due, for stages that report no progress

STAGES = {
    "discover": "listing new files", "hold": "checking new files", "check": "checking", "ingest": "reading rows",
    "encode": "trying encodings",
    "plan": "choosing the model", "choose": "choosing settings", "search": "searching settings",
    "confirm": "checking the best candidates",
    "learn": "training", "refit": "training the winner", "baselines": "training the baselines",
    "evaluate": "evaluating", "certify": "certifying",
    "score": "scoring", "explain": "measuring importance", "save": "saving", "publish": "publishing",
    "report": "writing the report",
}  # fmt: skip
"""Descriptions of the stages of runs."""
UNEVEN = ("encode", "plan", "choose", "confirm")  # stages whose steps take ever longer: the time left is unknown


def describe_metrics(metrics: dict[str, float]) -> str:
    """Return metrics as one line of text.

    >>> describe_metrics({"mistake_rate": 0.21034, "rows": 12.0})
    'mistake rate 0.2103, rows 12'
    >>> describe_metrics({"relative_gap": 0.0214}), describe_metrics({"relative_gap": 2.9e-24})
    ('within 2.1% of the optimum', 'at the optimum, up to rounding')
    >>> describe_metrics({"relative_gap": 0.998})
    'far from the optimum'
    """
    return ", ".join(_describe_gap(value) if name == "relative_gap" else f"{name.replace('_', ' ')} {value:.4g}"
                     for name, value in metrics.items())  # fmt: skip


def _describe_gap(gap: float) -> str:
    if gap < ROUNDING:
        return "at the optimum, up to rounding"
    return "far from the optimum" if gap >= 0.995 else f"within {100 * gap:.2g}% of the optimum"


MOST_ENTRIES = 8


def describe_summary(summary: Any) -> str:
    """Return the summary of a stage as one line of text, without long lists, lists of lists and lists of records.

    >>> describe_summary({"rows": {"train": 4338, "test": 1118}, "shards": 2, "certificate": None})
    'rows (train 4,338, test 1,118), shards 2'
    >>> describe_summary({"models": ["fogd", "ridge"], "roc_auc": 0.8285005651, "confusion": [[9, 1], [0, 7]]})
    'models fogd, ridge; roc auc 0.8285'
    """
    match summary:
        case dict():
            said = {str(key).replace("_", " "): entry for key, entry in summary.items() if _is_short(entry)}
            text = [f"{key} {f'({describe_summary(entry)})' if isinstance(entry, dict) else describe_summary(entry)}"
                    for key, entry in said.items()]  # fmt: skip
            return ("; " if any(isinstance(entry, list) for entry in said.values()) else ", ").join(text)
        case list() | tuple():
            return ", ".join(map(describe_summary, summary))
        case bool():
            return "yes" if summary else "no"
        case int():
            return f"{summary:,}"
        case float():
            return f"{summary:,.0f}" if abs(summary) >= 1e4 and math.isfinite(summary) else f"{summary:.4g}"
        case _:
            return "" if summary is None else str(summary)


def _is_short(entry: Any) -> bool:
    if isinstance(entry, dict):
        return any(map(_is_short, entry.values()))
    if isinstance(entry, list):
        return 0 < len(entry) <= MOST_ENTRIES and not any(isinstance(one, list | dict) for one in entry)
    return entry is not None


class TeeObserver:
    """Combination of several observers."""

    def __init__(self, *observers: Observer) -> None:
        self.observers = observers

    def stage(self, name: str) -> None:
        for observer in self.observers:
            observer.stage(name)

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        for observer in self.observers:
            observer.advance(done, total, metrics)

    def finish(self) -> None:
        for observer in self.observers:
            observer.finish()


class TerminalObserver:
    """Progress bar on standard error; standard output is for results."""

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
        """Replace the bar by that of a new stage."""
        self.bar.start()
        if self.current is not None:
            self.bar.remove_task(self.current)
        self.current = self.bar.add_task(STAGES.get(name, name), total=None, metrics="")

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        """Update the bar; rich draws it in a thread."""
        if self.current is not None:
            self.bar.update(self.current, completed=done, total=total or None, metrics=describe_metrics(metrics))

    def finish(self) -> None:
        self.bar.stop()


class LineObserver:
    """Lines of progress on standard error at intervals, for a log file or a pipe; a short run prints none.

    A thread repeats the last progress of a stage that reports none for long.
    """

    def __init__(self, seconds: float = LINE_SECONDS) -> None:
        self.seconds = seconds
        self.wait = min(seconds, FIRST_SECONDS)
        self.name, self.is_uneven = "", False
        self.begun = self.printed = time.monotonic()
        self.first: tuple[float, int] | None = None  # time and progress of the first call: what is before has no share
        self.latest: tuple[int, int, dict[str, float]] = 0, 0, {}
        self._lock, self._over = Lock(), Event()
        self._thread: Thread | None = None

    def stage(self, name: str) -> None:
        """Print the name of a stage, which may report no progress, soon after the last line."""
        with self._lock:
            self.name, self.is_uneven, self.begun = STAGES.get(name, name), name in UNEVEN, time.monotonic()
            self.first, self.latest = None, (0, 0, {})
            self.wait = min(self.wait, FIRST_SECONDS)
            if self._is_due(self.begun):
                print(f"{self.name} ...", file=sys.stderr, flush=True)
        if self._thread is None:
            self._thread = Thread(target=self._follow, name="okl-progress", daemon=True)
            self._thread.start()

    def _is_due(self, now: float) -> bool:
        if now - self.printed < self.wait:
            return False
        self.printed, self.wait = now, self.seconds
        return True

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        """Print the progress of the stage if the last line was long ago."""
        with self._lock:
            now = time.monotonic()
            self.first, self.latest = self.first or (now, done), (done, total, metrics)
            self._print_progress(now)

    def _print_progress(self, now: float) -> None:
        if not self._is_due(now):
            return
        done, total, metrics = self.latest
        since, before = self.first or (now, done)
        parts = [f"{self.name}: {now - self.begun:.0f} s"]
        if 0 < done <= total:
            parts.append(f"{done / total:.0%} done")
        if before < done <= total and not self.is_uneven:
            parts.append(f"about {(now - since) * (total - done) / (done - before):.0f} s left")
        print(", ".join([*parts, describe_metrics(metrics)] if metrics else parts), file=sys.stderr, flush=True)

    def _follow(self) -> None:
        while not self._over.wait(CHECK_SECONDS):
            with self._lock:
                self._print_progress(time.monotonic())

    def finish(self) -> None:
        """End the thread; printed lines remain."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()


def terminal_observer() -> Observer:
    """Return a progress bar if standard error is a terminal, otherwise lines at intervals."""
    return TerminalObserver() if sys.stderr.isatty() else LineObserver()


def python_observer() -> Observer:
    """Return the observer of functions: a bar in a terminal, lines in a notebook, none elsewhere."""
    if sys.stderr.isatty():
        return TerminalObserver()
    return LineObserver() if "ipykernel" in sys.modules else NullObserver()


@contextmanager
def observed(observer: Observer | None = None) -> Iterator[Observer]:
    """Show progress in a block; observer: another than that of the terminal."""
    observer = observer or terminal_observer()
    try:
        yield observer
    finally:
        observer.finish()
