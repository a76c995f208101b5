"""Measurements as rows of a Parquet data set, and verdicts from them."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from okl.data.manifest import processor
from okl.foundation.telemetry import memory_bytes
from tests.benchmarks.peers.measure import Answer
from tests.benchmarks.peers.systems import OWN, Configuration

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
    """The subject of a measurement: an entrant in one configuration (JSON with sorted names) on a set, in a stage."""

    stage: str
    set: str
    task: str
    system: str
    entrant: str
    configuration: str


@dataclass(frozen=True)
class Measurement:
    """A subject, its answer, and where and when; turn : number of the repetition, from 0.

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
        """Seconds of the processor for a fit; of the clock if those are too few to be counted by the system."""
        answer = self.answer
        cpu_seconds, clock_seconds = answer.fit_cpu_seconds or 0.0, answer.fit_seconds or 0.0
        return cpu_seconds if cpu_seconds >= COUNTED_SECONDS else clock_seconds

    @property
    def done(self) -> bool:
        """Whether there are seconds and a score."""
        return self.answer.outcome == "done"

    def row(self) -> dict[str, Any]:
        """Return a flat row of the data set."""
        own = {name: value for name, value in vars(self).items() if name not in ("subject", "answer")}
        return asdict(self.subject) | own | asdict(self.answer)


def measured(subject: Subject, answer: Answer, turn: int = 0) -> Measurement:
    """Return a measurement with the current time and machine."""
    machine = (processor(), os.cpu_count() or 1, memory_bytes(), os.getloadavg()[0])
    return Measurement(subject, turn, answer, *machine, datetime.now(UTC).isoformat(timespec="seconds"), commit())


def as_text(configuration: Configuration) -> str:
    """Return a configuration as JSON, the same for equal ones.

    >>> as_text({"C": 1.0, "alpha": 2})
    '{"C": 1.0, "alpha": 2}'
    """
    return json.dumps(dict(configuration), sort_keys=True)


def append(measurements: Iterable[Measurement], folder: Path) -> None:
    """Add a file of rows to the data set atomically."""
    rows = [measurement.row() for measurement in measurements]
    if not rows:
        return
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{uuid4().hex[:12]}.parquet"
    temporary = folder / f".{name}.partial"
    try:
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), temporary)
        temporary.replace(folder / name)
    finally:
        temporary.unlink(missing_ok=True)


def read(folder: Path) -> list[Measurement]:
    """Return all measurements, in order of time; of the same subject and turn only the last."""
    files = sorted(folder.glob("*.parquet")) if folder.is_dir() else []
    newest: dict[tuple[Subject, int], Measurement] = {}
    for file in files:
        for row in pq.read_table(file, schema=SCHEMA).to_pylist():
            measurement = _from_row(row)
            newest[measurement.subject, measurement.turn] = measurement
    return list(newest.values())


def _from_row(row: dict[str, Any]) -> Measurement:
    def of(kind: Any) -> dict[str, Any]:
        return {name: row[name] for name in kind.__dataclass_fields__ if name in row}

    return Measurement(subject=Subject(**of(Subject)), answer=Answer(**of(Answer)), **of(Measurement))


@cache
def commit() -> str:
    """Return the commit of okl's checkout, marked if files differ from it; "" without a checkout."""
    folder = Path(__file__).parent
    try:
        command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


NEAR_POINTS = 0.005  # of accuracy, below the best
NEAR_LOSS = 1.05  # of a regression: times the least mean squared error
EVEN = 1.05  # a ratio of seconds within this factor of 1 is a tie
TUNE, SWEEP, DUEL = "tune", "sweep", "duel"
OWN_CANDIDATES, PEER_CANDIDATES = 3, 4
Outcome = Literal["ahead", "even", "behind", "never there", "alone", "not measured"]


def swept(measurements: Iterable[Measurement], name: str) -> list[Measurement]:
    """Return the finished measurements of the sweep on all rows of a set."""
    return [one for one in measurements if one.subject.stage == SWEEP and one.subject.set == name and one.done]


def near_best(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Return those within half a point of the best accuracy, or 5% of a regression's least loss, by their cost."""
    if not measurements:
        return []
    least = min(one.answer.loss or 0.0 for one in measurements)
    bound = NEAR_LOSS * least if measurements[0].subject.task == "regression" else least + NEAR_POINTS
    near = [one for one in measurements if (one.answer.loss or 0.0) <= bound + 1e-12]
    return sorted(near, key=lambda one: one.cost)


def candidates(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Return the candidates of a duel near the best: okl's three cheapest entrants, and the others' four.

    If none of okl's is near the best, its most accurate one is a candidate.
    """
    near = near_best(measurements)
    own = _fastest_each([one for one in near if one.subject.system == OWN], OWN_CANDIDATES)
    peers = _fastest_each([one for one in near if one.subject.system != OWN], PEER_CANDIDATES)
    if not own:
        ranked = sorted(
            (one for one in measurements if one.subject.system == OWN), key=lambda one: one.answer.loss or 0.0
        )
        own = ranked[:1]
    return [*own, *peers]


def _fastest_each(ordered: Sequence[Measurement], most: int) -> list[Measurement]:
    first: dict[tuple[str, str], Measurement] = {}
    for one in ordered:
        first.setdefault((one.subject.system, one.subject.entrant), one)
    return list(first.values())[:most]


@dataclass(frozen=True)
class Timed:
    """A configuration with the median, least and most seconds of its turns in a duel, and its peak of memory."""

    subject: Subject
    score: float
    loss: float
    seconds: float
    least_seconds: float
    most_seconds: float
    predict_seconds: float
    peak_memory_bytes: int
    turns: int


@dataclass(frozen=True)
class Verdict:
    """Verdict on a set: okl's fastest and the others' fastest near the best; ratio : the others' seconds over okl's."""

    set: str
    task: str
    best_score: float
    best_loss: float
    best: Subject
    own: Timed | None
    peer: Timed | None
    outcome: Outcome

    @property
    def ratio(self) -> float | None:
        """Above 1 if okl is faster; None if one of the two is missing, or okl's is not near the best."""
        if self.own is None or self.peer is None or self.outcome == "never there":
            return None
        return self.peer.seconds / self.own.seconds


def verdict(measurements: Sequence[Measurement], name: str) -> Verdict | None:
    """Return the verdict on a set from its duel; None without a sweep of the set."""
    sweep_of_set = swept(measurements, name)
    if not sweep_of_set:
        return None
    best = min(sweep_of_set, key=lambda one: one.answer.loss or 0.0)
    timed = duelled(measurements, name)
    near = {one.subject for one in near_best(sweep_of_set)}
    own, peer = (
        min(
            (one for one in timed if (one.subject.system == OWN) is own and one.subject in near),
            key=_seconds,
            default=None,
        )
        for own in (True, False)
    )
    return Verdict(
        name,
        best.subject.task,
        best.answer.score or 0.0,
        best.answer.loss or 0.0,
        best.subject,
        own or min((one for one in timed if one.subject.system == OWN), key=lambda one: one.loss, default=None),
        peer,
        _outcome(own, peer, bool(timed)),
    )


def duelled(measurements: Iterable[Measurement], name: str) -> list[Timed]:
    """Return medians over the turns of each configuration in a set's newest duel; subjects as in the sweep."""
    turns: dict[Subject, list[Measurement]] = defaultdict(list)
    duels = [one for one in measurements if one.subject.stage == DUEL and one.subject.set == name]
    newest = max(duels, key=lambda one: one.time).okl_commit if duels else ""
    for one in duels:
        if one.done and one.okl_commit == newest:
            turns[replace(one.subject, stage=SWEEP)].append(one)
    return [_timed(subject, repeats) for subject, repeats in turns.items()]


def _timed(subject: Subject, turns: Sequence[Measurement]) -> Timed:
    answers = [one.answer for one in turns]
    seconds = [answer.fit_seconds or 0.0 for answer in answers]
    return Timed(
        subject,
        answers[0].score or 0.0,
        answers[0].loss or 0.0,
        statistics.median(seconds),
        min(seconds),
        max(seconds),
        statistics.median(answer.predict_seconds or 0.0 for answer in answers),
        max(answer.peak_memory_bytes or 0 for answer in answers),
        len(turns),
    )


def _outcome(own: Timed | None, peer: Timed | None, measured: bool) -> Outcome:
    if not measured:
        return "not measured"
    if own is None:
        return "never there"
    if peer is None:
        return "alone"
    ratio = peer.seconds / own.seconds
    return "ahead" if ratio > EVEN else "behind" if ratio < 1.0 / EVEN else "even"


def _seconds(one: Timed) -> float:
    return one.seconds
