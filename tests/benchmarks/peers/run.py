"""A benchmark from sweep to page; finished measurements are not repeated unless asked for.

A sweep tries every configuration of every entrant once: what can be tried on a sample is tried there, and the best goes
on. It may run beside other work: libraries have one thread each, and what counts is seconds of the processor. A duel
measures the fastest configurations near the best of a set in turn, each in a warm process of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from okl.foundation.errors import ConfigError
from okl.foundation.locations import okl_home
from okl.foundation.validation import check_choice
from tests.benchmarks.peers.data import SETS, BenchSet, sets_there
from tests.benchmarks.peers.measure import Answer, Job, Measuring
from tests.benchmarks.peers.page import measurement_line, write_page
from tests.benchmarks.peers.records import (
    DUEL,
    SWEEP,
    TUNE,
    Measurement,
    Subject,
    Verdict,
    append,
    as_text,
    candidates,
    commit,
    measured,
    read,
    swept,
    verdict,
)
from tests.benchmarks.peers.systems import Configuration, Entrant, entrants_on, roster, systems

TUNE_LIMIT_SECONDS = 20.0
SPEND_SECONDS = 0.3
OVERTAKEN = "not tried: a cheaper configuration was not done in time"
Tell = Callable[[Measurement], None]
Stage = Literal["all", "sweep", "duels", "page"]


@dataclass(frozen=True)
class BenchSettings:
    """Options of a benchmark.

    Parameters
    ----------
    data : folder of NAME.parquet (float columns, y, perhaps split); "": OKL_DATA
    sets : data sets; empty: all that are in the folder
    systems : systems of the sweep; empty: all that are installed
    stage : sweep, every configuration once; duels, the fastest near the best again, in turn, on a machine that does
        nothing else; page, only write the page
    again : repeat finished measurements
    limit_seconds : > 0, of the processor, for a fit and its predictions
    turns : int >= 1, of each configuration in a duel
    out : folder of the results, continued where it stopped; None: bench in okl's home folder
    """

    data: str = ""
    sets: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    stage: Stage = "all"
    again: bool = False
    limit_seconds: float = 120.0
    turns: int = 5
    out: str | None = None


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


DUEL_SPEND_SECONDS = 0.5  # short fits are repeated within a turn
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
                process.ask(_duel_job(one, folder, limit_seconds))
        for turn in range(turns):
            made = []
            for one, process in zip(found, processes, strict=True):
                answer = process.ask(_duel_job(one, folder, limit_seconds))
                made.append(measured(replace(one.subject, stage=DUEL), answer, turn))
                tell(made[-1])
            append(made, records)


def has_duelled(found: Sequence[Measurement], measurements: Iterable[Measurement], turns: int) -> bool:
    """Whether these configurations have been measured in so many turns by this commit of okl."""
    wanted = {(replace(one.subject, stage=DUEL), turn) for one in found for turn in range(turns)}
    there = [one for one in measurements if (one.subject, one.turn) in wanted]
    return len(there) == len(wanted) and {one.okl_commit for one in there} == {commit()}


def _duel_job(one: Measurement, folder: str, limit_seconds: float) -> Job:
    subject = one.subject
    configuration = json.loads(subject.configuration)
    return Job(
        folder, subject.set, subject.system, subject.entrant, configuration, "all", limit_seconds, DUEL_SPEND_SECONDS
    )


Say = Callable[[str], None]
RECORDS, PAGE = "measurements", "bench.html"


def bench(settings: BenchSettings, say: Say) -> dict[str, Any]:
    """Measure what the settings ask for, and write the page.

    Parameters
    ----------
    say : is told each measurement in a line

    Returns
    -------
    what --json prints: page, measurements, verdicts

    Raises
    ------
    ConfigError, DataError : a name that is none, a folder without data
    """
    out = Path(settings.out) if settings.out else okl_home() / "bench"
    records = out / RECORDS
    if settings.stage in ("all", "sweep"):
        _sweep(settings, records, say)
    if settings.stage in ("all", "duels"):
        _duels(settings, records, say)
    measurements = known(records)
    if not measurements:
        raise ConfigError(
            f"{out} holds no measurements. Run python -m tests.benchmarks.peers --stage sweep --out {out} first."
        )
    found = [one for name in SETS if (one := verdict(measurements, name)) is not None]
    page = write_page(out / PAGE, measurements, found)
    return {"page": str(page), "measurements": len(measurements), "verdicts": [_flat(one) for one in found]}


def known(records: Path) -> list[Measurement]:
    """What has been measured of entrants that there still are."""
    there = {(name, entrant.system, entrant.name) for name in SETS for entrant in roster() if entrant.takes(SETS[name])}
    subjects = ((one, one.subject) for one in read(records))
    return [one for one, about in subjects if (about.set, about.system, about.entrant) in there]


def _sweep(settings: BenchSettings, records: Path, say: Say) -> None:
    wanted = settings.systems or systems()
    for name in wanted:
        check_choice("systems", name, systems())
    folder = _data(settings)
    for name in sets_there(settings.sets, folder):
        before = () if settings.again else known(records)
        sweep = Sweep(SETS[name], folder, settings.limit_seconds, before, records, _teller(say))
        for system in wanted:
            sweep.run(one for one in entrants_on(SETS[name], (system,)) if _installed(one.package))


def _duels(settings: BenchSettings, records: Path, say: Say) -> None:
    folder = _data(settings)
    for name in sets_there(settings.sets, folder):
        measurements = known(records)
        found = [one for one in candidates(swept(measurements, name)) if _installed_system(one.subject.system)]
        if settings.again or not has_duelled(found, measurements, settings.turns):
            duel(found, folder, settings.limit_seconds, settings.turns, records, _teller(say))


def _data(settings: BenchSettings) -> str:
    folder = settings.data or os.environ.get("OKL_DATA", "")
    if not folder:
        raise ConfigError("--data is missing. Give the folder that holds NAME.parquet, or set OKL_DATA.")
    if not Path(folder).is_dir():
        raise ConfigError(f"--data {folder} is not a folder. Give the one that holds NAME.parquet.")
    return str(Path(folder).absolute())


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return package == "okl"  # a checkout that is run as it is
    return True


def _installed_system(system: str) -> bool:
    return any(_installed(entrant.package) for entrant in roster() if entrant.system == system)


def _teller(say: Say) -> Callable[[Measurement], None]:
    return lambda one: say(measurement_line(one))


def _flat(one: Verdict) -> dict[str, Any]:
    return asdict(one) | {"ratio": one.ratio}
