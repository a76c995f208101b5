"""Measurements as rows of a Parquet data set: one file is added after another, none is ever changed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from okl.bench.entrants import Configuration
from okl.bench.jobs import Answer
from okl.provenance import memory_bytes, processor

COUNTED_SECONDS = 0.02
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("stage", "set", "task", "system", "entrant", "configuration")),
        ("turn", pa.int32()),
        *((name, pa.string()) for name in ("outcome", "reason", "version")),
        *((name, pa.float64()) for name in ("fit_seconds", "fit_cpu_seconds", "predict_seconds", "score", "loss")),
        *((name, pa.int64()) for name in ("base_memory_bytes", "peak_memory_bytes")),
        *((name, pa.int64()) for name in ("train_rows", "test_rows", "columns", "splits")),
        *((name, pa.string()) for name in ("processor", "time", "okl_commit")),
        *((name, pa.int64()) for name in ("cores", "memory_bytes")),
        ("load", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Subject:
    """What was measured: an entrant in one configuration (JSON with sorted names) on a set, in a stage."""

    stage: str
    set: str
    task: str
    system: str
    entrant: str
    configuration: str


@dataclass(frozen=True)
class Measurement:
    """A subject, what came of it, and where and when; turn : which of several, from 0.

    load : processes that ran or waited in the minute before, as the system counts them
    """

    subject: Subject
    turn: int
    answer: Answer
    processor: str
    cores: int
    memory_bytes: int
    load: float
    time: str
    okl_commit: str

    @property
    def cost(self) -> float:
        """Seconds of the processor for a fit; of the clock, where that is too short for the system's count."""
        answer = self.answer
        spent, passed = answer.fit_cpu_seconds or 0.0, answer.fit_seconds or 0.0
        return spent if spent >= COUNTED_SECONDS else passed

    @property
    def done(self) -> bool:
        """Whether there are seconds and a score."""
        return self.answer.outcome == "done"

    def row(self) -> dict[str, Any]:
        """Flat, as in the data set."""
        own = {name: value for name, value in vars(self).items() if name not in ("subject", "answer")}
        return asdict(self.subject) | own | asdict(self.answer)


def measured(subject: Subject, answer: Answer, turn: int = 0) -> Measurement:
    """A measurement of now and here."""
    here = (processor(), os.cpu_count() or 1, memory_bytes(), os.getloadavg()[0])
    return Measurement(subject, turn, answer, *here, datetime.now(UTC).isoformat(timespec="seconds"), commit())


def as_text(configuration: Configuration) -> str:
    """A configuration as JSON, the same for equal ones.

    >>> as_text({"C": 1.0, "alpha": 2})
    '{"C": 1.0, "alpha": 2}'
    """
    return json.dumps(dict(configuration), sort_keys=True)


def append(measurements: Iterable[Measurement], folder: Path) -> None:
    """Add a file of rows to the data set; it is there whole or not at all."""
    rows = [measurement.row() for measurement in measurements]
    if not rows:
        return
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{uuid4().hex[:12]}.parquet"
    beside = folder / f".{name}.partial"
    try:
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), beside)
        beside.replace(folder / name)
    finally:
        beside.unlink(missing_ok=True)


def read(folder: Path) -> list[Measurement]:
    """All measurements, in order of time; of the same subject and turn only the last."""
    files = sorted(folder.glob("*.parquet")) if folder.is_dir() else []
    newest: dict[tuple[Subject, int], Measurement] = {}
    for file in files:
        for row in pq.read_table(file, schema=SCHEMA).to_pylist():
            found = _from_row(row)
            newest[found.subject, found.turn] = found
    return list(newest.values())


def _from_row(row: dict[str, Any]) -> Measurement:
    def of(kind: Any) -> dict[str, Any]:
        return {name: row[name] for name in kind.__dataclass_fields__ if name in row}

    return Measurement(subject=Subject(**of(Subject)), answer=Answer(**of(Answer)), **of(Measurement))


@cache
def commit() -> str:
    """Of okl's own checkout, with a mark if files differ from it; "" where there is none."""
    here = Path(__file__).parent
    try:
        words = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
