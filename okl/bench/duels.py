"""Duels: the fastest configurations near the best of a set, measured in turn, each in a warm process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from okl.bench.jobs import Job
from okl.bench.process import Measuring
from okl.bench.rows import Measurement, append, commit, measured
from okl.bench.sweep import Tell
from okl.bench.verdicts import DUEL

SPEND_SECONDS = 0.5  # short fits are repeated within a turn
WARM_SECONDS = 20.0  # a first turn that does not count is made unless the sweep's fit took longer


def duel(
    found: Sequence[Measurement], folder: str, limit_seconds: float, turns: int, records: Path, tell: Tell
) -> None:
    """Measure some configurations of a sweep on one set again, all once in each of the turns.

    Parameters
    ----------
    found : of the sweep; folder : of the sets; turns : int >= 1, counted from 0 in the rows
    records : the data set that rows are added to, a file a turn; tell : is told each
    """
    with ExitStack() as stack:
        processes = [stack.enter_context(Measuring()) for _ in found]
        for one, process in zip(found, processes, strict=True):
            if (one.answer.fit_seconds or 0.0) <= WARM_SECONDS:
                process.ask(_job(one, folder, limit_seconds))
        for turn in range(turns):
            made = []
            for one, process in zip(found, processes, strict=True):
                answer = process.ask(_job(one, folder, limit_seconds))
                made.append(measured(replace(one.subject, stage=DUEL), answer, turn))
                tell(made[-1])
            append(made, records)


def has_duelled(found: Sequence[Measurement], measurements: Iterable[Measurement], turns: int) -> bool:
    """Whether these configurations have been measured in so many turns by this commit of okl."""
    wanted = {(replace(one.subject, stage=DUEL), turn) for one in found for turn in range(turns)}
    there = [one for one in measurements if (one.subject, one.turn) in wanted]
    return len(there) == len(wanted) and {one.okl_commit for one in there} == {commit()}


def _job(one: Measurement, folder: str, limit_seconds: float) -> Job:
    subject = one.subject
    configuration = json.loads(subject.configuration)
    return Job(folder, subject.set, subject.system, subject.entrant, configuration, "all", limit_seconds, SPEND_SECONDS)
