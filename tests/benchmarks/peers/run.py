"""A benchmark from sweep to page; finished measurements are repeated only with --again.

A sweep tries every configuration of every entrant once: parameters that can be tuned on a sample are tuned there, and
the best go on. It may run on a busy machine: libraries have one thread each, and seconds of the processor are measured.
A duel measures the fastest configurations near the best of a set in turn, each in a separate warm process.
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
from tests.benchmarks.peers.data import SETS, BenchSet, available_sets
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
Report = Callable[[Measurement], None]
Stage = Literal["all", "sweep", "duels", "page"]


@dataclass(frozen=True)
class BenchSettings:
    """Options of a benchmark.

    Parameters
    ----------
    data : folder of NAME.parquet (float columns, y, perhaps split); "": OKL_DATA
    sets : data sets; empty: all that are in the folder
    systems : systems of the sweep; empty: all that are installed
    stage : sweep, every configuration once; duels, the fastest near the best again, in turn, on an idle
        machine; page, only write the page
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
    """The sweep of a set, which continues where another one stopped.

    Parameters
    ----------
    bench_set, folder : the set, and the folder of its file; limit_seconds : of a fit and its predictions
    known : finished measurements, which are not repeated; records : the data set that new ones are added to
    report : is called with each new one
    """

    def __init__(
        self,
        bench_set: BenchSet,
        folder: str,
        limit_seconds: float,
        known: Iterable[Measurement],
        records: Path,
        report: Report,
    ) -> None:
        self.bench_set, self.folder, self.limit_seconds = bench_set, folder, limit_seconds
        self.known = {measurement.subject: measurement for measurement in known}
        self.records, self.report = records, report

    def run(self, entrants: Iterable[Entrant]) -> None:
        """Tune each entrant on the sample, then measure the remaining configurations, in one process unless it dies."""
        with Measuring(one_thread=True) as process:
            for entrant in entrants:
                tuned = self._all(TUNE, entrant, entrant.to_tune(), process)
                best = _best_first([measurement for measurement in tuned if measurement.done])
                self._all(SWEEP, entrant, entrant.to_sweep(best), process)

    def _all(
        self, stage: str, entrant: Entrant, configurations: Sequence[Configuration], process: Measuring
    ) -> list[Measurement]:
        measurements: list[Measurement] = []
        for configuration in configurations:
            subject = Subject(
                stage, self.bench_set.name, self.bench_set.task, entrant.system, entrant.name, as_text(configuration)
            )
            known = self.known.get(subject)
            overtaken = stage == SWEEP and any(
                _is_dearer(configuration, one, tuple(entrant.swept)) for one in measurements
            )
            measurements.append(known or self._one(subject, configuration, process, overtaken))
        return measurements

    def _one(self, subject: Subject, configuration: Configuration, process: Measuring, overtaken: bool) -> Measurement:
        limit = min(TUNE_LIMIT_SECONDS, self.limit_seconds) if subject.stage == TUNE else self.limit_seconds
        job = Job(
            self.folder,
            self.bench_set.name,
            subject.system,
            subject.entrant,
            dict(configuration),
            "sample" if subject.stage == TUNE else "all",
            limit,
            0.0 if subject.stage == TUNE else SPEND_SECONDS,
        )
        answer = Answer("time-out", OVERTAKEN) if overtaken else process.measure(job)
        measurement = measured(subject, answer)
        append([measurement], self.records)
        self.report(measurement)
        return measurement


def _is_dearer(configuration: Configuration, other: Measurement, sizes: Sequence[str]) -> bool:
    """Return whether another one with no larger size timed out, so that this one would, too."""
    if other.answer.outcome != "time-out" or not sizes:
        return False
    theirs = json.loads(other.subject.configuration)
    return all(configuration[name] >= theirs[name] for name in sizes)


def _best_first(measurements: Sequence[Measurement]) -> list[Configuration]:
    """Return configurations by their loss on the sample's test rows, of equal ones the faster first."""
    ranked = sorted(measurements, key=lambda one: (one.answer.loss or 0.0, one.cost))
    return [json.loads(one.subject.configuration) for one in ranked]


DUEL_SPEND_SECONDS = 0.5  # short fits are repeated within a turn
WARM_SECONDS = 20.0  # a warm-up turn is made unless the sweep's fit took longer


def duel(
    measurements: Sequence[Measurement], folder: str, limit_seconds: float, turns: int, records: Path, report: Report
) -> None:
    """Measure some configurations of a sweep on one set again, each once per turn.

    Parameters
    ----------
    measurements : of the sweep; folder : of the sets; turns : int >= 1, counted from 0 in the rows
    records : the data set that rows are added to, a file per turn; report : is called with each
    """
    with ExitStack() as stack:
        processes = [stack.enter_context(Measuring()) for _ in measurements]
        for one, process in zip(measurements, processes, strict=True):
            if (one.answer.fit_seconds or 0.0) <= WARM_SECONDS:
                process.measure(_duel_job(one, folder, limit_seconds))
        for turn in range(turns):
            results = []
            for one, process in zip(measurements, processes, strict=True):
                answer = process.measure(_duel_job(one, folder, limit_seconds))
                results.append(measured(replace(one.subject, stage=DUEL), answer, turn))
                report(results[-1])
            append(results, records)


def has_duelled(selected: Sequence[Measurement], measurements: Iterable[Measurement], turns: int) -> bool:
    """Return whether these configurations have been measured in so many turns by this commit of okl."""
    expected = {(replace(one.subject, stage=DUEL), turn) for one in selected for turn in range(turns)}
    finished = [one for one in measurements if (one.subject, one.turn) in expected]
    return len(finished) == len(expected) and {one.okl_commit for one in finished} == {commit()}


def _duel_job(one: Measurement, folder: str, limit_seconds: float) -> Job:
    subject = one.subject
    configuration = json.loads(subject.configuration)
    return Job(
        folder, subject.set, subject.system, subject.entrant, configuration, "all", limit_seconds, DUEL_SPEND_SECONDS
    )


WriteLine = Callable[[str], None]
RECORDS, PAGE = "measurements", "bench.html"


def bench(settings: BenchSettings, write: WriteLine) -> dict[str, Any]:
    """Run the stages of the settings, and write the page.

    Parameters
    ----------
    write : is called with a line for each measurement

    Returns
    -------
    page, measurements, verdicts, as printed by --json

    Raises
    ------
    ConfigError, DataError : an unknown name, a folder without data
    """
    out = Path(settings.out) if settings.out else okl_home() / "bench"
    records = out / RECORDS
    if settings.stage in ("all", "sweep"):
        _sweep(settings, records, write)
    if settings.stage in ("all", "duels"):
        _duels(settings, records, write)
    measurements = known(records)
    if not measurements:
        raise ConfigError(
            f"{out} holds no measurements. Run python -m tests.benchmarks.peers --stage sweep --out {out} first."
        )
    verdicts = [one for name in SETS if (one := verdict(measurements, name)) is not None]
    page = write_page(out / PAGE, measurements, verdicts)
    return {"page": str(page), "measurements": len(measurements), "verdicts": [_flat(one) for one in verdicts]}


def known(records: Path) -> list[Measurement]:
    """Return the measurements of entrants that still exist."""
    entrants = {
        (name, entrant.system, entrant.name) for name in SETS for entrant in roster() if entrant.takes(SETS[name])
    }
    subjects = ((one, one.subject) for one in read(records))
    return [one for one, subject in subjects if (subject.set, subject.system, subject.entrant) in entrants]


def _sweep(settings: BenchSettings, records: Path, write: WriteLine) -> None:
    system_names = settings.systems or systems()
    for name in system_names:
        check_choice("systems", name, systems())
    folder = _data(settings)
    for name in available_sets(settings.sets, folder):
        finished = () if settings.again else known(records)
        sweep = Sweep(SETS[name], folder, settings.limit_seconds, finished, records, _reporter(write))
        for system in system_names:
            sweep.run(one for one in entrants_on(SETS[name], (system,)) if _installed(one.package))


def _duels(settings: BenchSettings, records: Path, write: WriteLine) -> None:
    folder = _data(settings)
    for name in available_sets(settings.sets, folder):
        measurements = known(records)
        selected = [one for one in candidates(swept(measurements, name)) if _installed_system(one.subject.system)]
        if settings.again or not has_duelled(selected, measurements, settings.turns):
            duel(selected, folder, settings.limit_seconds, settings.turns, records, _reporter(write))


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
        return package == "okl"  # a checkout that is run without installation
    return True


def _installed_system(system: str) -> bool:
    return any(_installed(entrant.package) for entrant in roster() if entrant.system == system)


def _reporter(write: WriteLine) -> Callable[[Measurement], None]:
    return lambda measurement: write(measurement_line(measurement))


def _flat(one: Verdict) -> dict[str, Any]:
    return asdict(one) | {"ratio": one.ratio}
