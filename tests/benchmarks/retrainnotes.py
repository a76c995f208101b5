"""`okl retrain` and its flow, unchanged except that they write their stages to a file: for benchmarks that kill them.

    python -m tests.benchmarks.retrainnotes retrain NAME SOURCE ...

is the command; `tests.benchmarks.retrainnotes.okl_retrain` is the entrypoint of a deployment. OKL_TESTS_NOTE
names the file. Each of its lines has a moment (time.monotonic), a process id and a word: a stage when it starts; the
stage with a dot when it ends; `open` when this module is imported.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

from flows.runs import okl_retrain
from okl.lifecycle.retrain import RETRAIN_STAGES, RetrainingRun

__all__ = ["okl_retrain"]

NOTE = "OKL_TESTS_NOTE"


class Noted(NamedTuple):
    """A line of the file."""

    moment: float
    pid: int
    word: str


def note(word: str) -> None:
    """Append a line, in one write."""
    with open(os.environ[NOTE], "ab", buffering=0) as file:
        file.write(f"{time.monotonic()} {os.getpid()} {word}\n".encode())


def notes(file: Path) -> list[Noted]:
    """Return the complete lines so far."""
    if not file.exists():
        return []
    lines = (line.split() for line in file.read_text().splitlines(keepends=True) if line.endswith("\n"))
    return [Noted(float(moment), int(pid), word) for moment, pid, word in lines]


def _noting(stage: str, method: Callable[[RetrainingRun], dict[str, Any]]) -> Callable[[RetrainingRun], dict[str, Any]]:
    @wraps(method)
    def noted(self: RetrainingRun) -> dict[str, Any]:
        note(stage)
        result = method(self)
        note(f"{stage}.")
        return result

    return noted


if NOTE in os.environ:
    for _stage in RETRAIN_STAGES:
        setattr(RetrainingRun, _stage, _noting(_stage, getattr(RetrainingRun, _stage)))
    note("open")

if __name__ == "__main__":
    from flows.cli import main

    main()
