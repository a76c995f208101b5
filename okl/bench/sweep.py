"""Every configuration of every entrant once: what can be tried on a sample is tried there, and the best goes on.

A sweep may run beside other work: libraries have one thread each, and what counts is seconds of the processor.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from okl.bench.entrants import Configuration, Entrant
from okl.bench.jobs import Answer, Job
from okl.bench.process import Measuring
from okl.bench.rows import Measurement, Subject, append, as_text, measured
from okl.bench.sets import BenchSet

TUNE, SWEEP = "tune", "sweep"
TUNE_LIMIT_SECONDS = 20.0
SPEND_SECONDS = 0.3
OVERTAKEN = "not tried: a cheaper configuration was not done in time"
Tell = Callable[[Measurement], None]


class Sweep:
    """The sweep of a set, which goes on where another one stopped.

    Parameters
    ----------
    found, folder : the set, and where its file is; limit_seconds : of a fit and its predictions
    known : measurements of before, which are not made again; records : the data set that new ones are added to
    tell : is told each new one
    """

    def __init__(
        self,
        found: BenchSet,
        folder: str,
        limit_seconds: float,
        known: Iterable[Measurement],
        records: Path,
        tell: Tell,
    ) -> None:
        self.found, self.folder, self.limit_seconds = found, folder, limit_seconds
        self.known = {measurement.subject: measurement for measurement in known}
        self.records, self.tell = records, tell

    def run(self, entrants: Iterable[Entrant]) -> None:
        """Of each, tune on the sample, then measure all that is left, in one process unless it dies."""
        with Measuring(one_thread=True) as process:
            for entrant in entrants:
                tried = self._all(TUNE, entrant, entrant.to_tune(), process)
                best = _best_first([one for one in tried if one.done])
                self._all(SWEEP, entrant, entrant.to_sweep(best), process)

    def _all(
        self, stage: str, entrant: Entrant, wanted: Sequence[Configuration], process: Measuring
    ) -> list[Measurement]:
        found: list[Measurement] = []
        for configuration in wanted:
            subject = Subject(
                stage, self.found.name, self.found.task, entrant.system, entrant.name, as_text(configuration)
            )
            known = self.known.get(subject)
            late = stage == SWEEP and any(_is_dearer(configuration, one, tuple(entrant.swept)) for one in found)
            found.append(known or self._one(subject, configuration, process, late))
        return found

    def _one(self, subject: Subject, configuration: Configuration, process: Measuring, late: bool) -> Measurement:
        limit = min(TUNE_LIMIT_SECONDS, self.limit_seconds) if subject.stage == TUNE else self.limit_seconds
        job = Job(
            self.folder,
            self.found.name,
            subject.system,
            subject.entrant,
            dict(configuration),
            "sample" if subject.stage == TUNE else "all",
            limit,
            0.0 if subject.stage == TUNE else SPEND_SECONDS,
        )
        answer = Answer("time-out", OVERTAKEN) if late else process.ask(job)
        made = measured(subject, answer)
        append([made], self.records)
        self.tell(made)
        return made


def _is_dearer(configuration: Configuration, other: Measurement, sizes: Sequence[str]) -> bool:
    """Whether another one was not done in time that has no size larger: this one would not be, either."""
    if other.answer.outcome != "time-out" or not sizes:
        return False
    theirs = json.loads(other.subject.configuration)
    return all(configuration[name] >= theirs[name] for name in sizes)


def _best_first(tried: Sequence[Measurement]) -> list[Configuration]:
    """Configurations by their loss on the sample's own test rows, of equal ones the faster first."""
    ranked = sorted(tried, key=lambda one: (one.answer.loss or 0.0, one.cost))
    return [json.loads(one.subject.configuration) for one in ranked]
