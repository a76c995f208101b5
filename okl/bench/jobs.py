"""What a measuring process is asked, and what it answers: both are one line of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Job:
    """One configuration to be fitted and scored.

    rows : "sample" for some training rows alone, split anew; "all" for all of them, and the test rows
    limit_seconds : of the processor, for one fit and its predictions; the process is ended by then
    spend_seconds : fits are repeated until so many are spent, over all splits, 9 times each at most; the median counts
    """

    folder: str
    set: str
    system: str
    entrant: str
    configuration: dict[str, Any]
    rows: str
    limit_seconds: float
    spend_seconds: float

    def line(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, line: str) -> Job:
        """From JSON."""
        return cls(**json.loads(line))


@dataclass(frozen=True)
class Answer:
    """What was measured, or why nothing was.

    outcome : "done", "time-out" or "failed"; reason : in words, of what is not done
    fit_seconds, predict_seconds : of the clock, medians over splits, None if not done, as all that follow
    fit_cpu_seconds : of the processor, of all threads, means: what hardly depends on what else the machine does
    score : share of right predictions, or R2; loss : share of wrong ones, or the mean squared error in units of the
        training targets' variance; means over splits
    base_memory_bytes, peak_memory_bytes : of the process, before the fits and at most
    """

    outcome: str
    reason: str = ""
    fit_seconds: float | None = None
    fit_cpu_seconds: float | None = None
    predict_seconds: float | None = None
    score: float | None = None
    loss: float | None = None
    base_memory_bytes: int | None = None
    peak_memory_bytes: int | None = None
    train_rows: int | None = None
    test_rows: int | None = None
    columns: int | None = None
    splits: int | None = None
    version: str = ""

    def line(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, line: str) -> Answer:
        """From JSON."""
        return cls(**json.loads(line))
